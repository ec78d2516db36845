//! What stands behind a dot: fields of values that are no columns, as subscripts, and functions, whose first argument is what stands
//! before the dot.

use std::ops::ControlFlow;

use crate::fields::of_column as of_parameter;
use crate::walk::Tree;
use datafusion::sql::sqlparser::ast::{
    AccessExpr, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident,
    LambdaFunction, LambdaFunctionParameter, ObjectName, ObjectNamePart, OneOrManyWithParens, Statement, Subscript,
    Value, VisitorMut,
};

/// Schemas and databases that functions are named by.
const HOMES: [&str; 6] = ["main", "system", "pg_catalog", "memory", "temp", "forebay"];

/// Writes out dots in a statement.
pub fn rewrite(statement: &mut Statement) {
    let _ = statement.walk_mut(&mut Dots::default());
}

#[derive(Default)]
struct Dots {
    /// Parameters of the lambdas around the place, in lower case.
    parameters: Vec<String>,
}

impl VisitorMut for Dots {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Lambda(lambda) => self.parameters.extend(names(lambda)),
            // What a lambda is given is no table.
            Expr::CompoundIdentifier(parts) if self.parameters.contains(&parts[0].value.to_lowercase()) => {
                *expr = of_parameter(std::mem::take(parts), 1);
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Lambda(lambda) => {
                let own = names(lambda).count();
                self.parameters.truncate(self.parameters.len().saturating_sub(own));
            }
            Expr::CompoundFieldAccess { root, access_chain }
                if access_chain.iter().any(|access| matches!(access, AccessExpr::Dot(_))) =>
            {
                let (root, chain) = (std::mem::replace(root.as_mut(), null()), std::mem::take(access_chain));
                *expr = accessed(root, chain);
            }
            Expr::Function(call) if call.name.0.len() > 1 => of_column(call),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

fn names(lambda: &LambdaFunction) -> impl Iterator<Item = String> + '_ {
    let all: Vec<&LambdaFunctionParameter> = match &lambda.params {
        OneOrManyWithParens::One(only) => vec![only],
        OneOrManyWithParens::Many(all) => all.iter().collect(),
    };
    all.into_iter().map(|parameter| parameter.name.value.to_lowercase())
}

fn null() -> Expr {
    Expr::Value(Value::Null.into())
}

/// `root` with what is taken of it, step by step.
fn accessed(root: Expr, chain: Vec<AccessExpr>) -> Expr {
    let mut value = root;
    let mut taken: Vec<AccessExpr> = Vec::new();
    for access in chain {
        match access {
            AccessExpr::Dot(Expr::Identifier(name)) => {
                let index = Expr::Value(Value::SingleQuotedString(name.value).into());
                taken.push(AccessExpr::Subscript(Subscript::Index { index }));
            }
            AccessExpr::Dot(Expr::Function(mut call)) => {
                put_first(&mut call, of_value(value, std::mem::take(&mut taken)));
                value = Expr::Function(call);
            }
            other => taken.push(other),
        }
    }
    of_value(value, taken)
}

fn of_value(value: Expr, taken: Vec<AccessExpr>) -> Expr {
    match taken.is_empty() {
        true => value,
        false => Expr::CompoundFieldAccess { root: Box::new(value), access_chain: taken },
    }
}

/// `a.f(b)` as `f(a, b)`, and `main.f(b)` as `f(b)`.
fn of_column(call: &mut Function) {
    let mut parts: Vec<Ident> = call.name.0.iter().filter_map(ObjectNamePart::as_ident).cloned().collect();
    let Some(function) = parts.pop() else { return };
    call.name = ObjectName::from(vec![function]);
    let is_home = |name: &Ident| HOMES.iter().any(|home| name.value.eq_ignore_ascii_case(home));
    if parts.iter().all(is_home) {
        return;
    }
    let column = match <[Ident; 1]>::try_from(parts) {
        Ok([only]) => Expr::Identifier(only),
        Err(parts) => Expr::CompoundIdentifier(parts),
    };
    put_first(call, column);
}

/// Makes `value` the first argument.
fn put_first(call: &mut Function, value: Expr) {
    let argument = FunctionArg::Unnamed(FunctionArgExpr::Expr(value));
    match &mut call.args {
        FunctionArguments::List(list) => list.args.insert(0, argument),
        others => {
            let list = FunctionArgumentList { duplicate_treatment: None, args: vec![argument], clauses: Vec::new() };
            *others = FunctionArguments::List(list);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::DuckDbDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    fn check(text: &str, expect: &str) {
        let mut parsed = Parser::parse_sql(&DuckDbDialect {}, text).expect("parses");
        rewrite(&mut parsed[0]);
        assert_eq!(parsed[0].to_string(), expect);
    }

    #[test]
    fn fields_are_subscripts_and_functions_are_calls() {
        check("SELECT (a).b.c", "SELECT (a)['b']['c']");
        check("SELECT 'x'.upper().concat('y')", "SELECT concat(upper('x'), 'y')");
        check("SELECT a.sqrt(), t.a.round(1), main.abs(b)", "SELECT sqrt(a), round(t.a, 1), abs(b)");
        check("SELECT a.b.c", "SELECT a.b.c");
        check("SELECT f(lambda s: s.a > t.b)", "SELECT f(lambda s : s['a'] > t.b)");
    }
}
