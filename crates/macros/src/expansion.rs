//! Calls of macros, with what they stand for in their place.

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{
    CastKind, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, Query, Select,
    SelectItem, TableAlias, TableFactor, VisitorMut,
};
use forebay_base::{Error, Result};
use forebay_grammar::walk::{Tree, visit_expressions, visit_expressions_mut};

use crate::capture::{bind, names_columns};
use crate::definition::{Body, Definition, Parameter};

/// Calls within what calls stand for.
const DEPTH: usize = 64;

/// Calls that one statement may have written out.
const CALLS: usize = 100_000;

/// Where macros are found.
pub trait Macros {
    /// The definitions of the macro that a call of this name means, if it is one.
    ///
    /// # Errors
    /// Definitions that cannot be read.
    fn find(&self, name: &ObjectName, is_table: bool) -> Result<Option<Arc<[Definition]>>>;
}

/// Writes out the calls of macros in a part of a statement.
///
/// # Errors
/// Arguments that no definition takes, and macros that call themselves.
pub fn expand(tree: &mut dyn Tree, macros: &dyn Macros) -> Result<()> {
    let mut calls = 0;
    Expansion { macros, depth: 0, calls: &mut calls, failed: None }.run(tree)
}

struct Expansion<'a> {
    macros: &'a dyn Macros,
    depth: usize,
    calls: &'a mut usize,
    failed: Option<Error>,
}

impl VisitorMut for Expansion<'_> {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        // Columns are called by what was written.
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(expr) = item
                && self.has_calls(expr)
            {
                let alias = Ident::with_quote('"', expr.to_string());
                *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let Expr::Function(call) = expr else { return ControlFlow::Continue(()) };
        match self.value(call) {
            Ok(Some(meant)) => *expr = Expr::Nested(Box::new(meant)),
            Ok(None) => {}
            Err(error) => return self.fail(error),
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<()> {
        let (name, arguments, alias) = match table {
            TableFactor::Table { name, args: Some(arguments), alias, .. } => (name, &arguments.args, alias),
            TableFactor::Function { name, args, alias, .. } => (name, &*args, alias),
            _ => return ControlFlow::Continue(()),
        };
        match self.table(name, arguments, alias.as_ref()) {
            Ok(Some(meant)) => *table = meant,
            Ok(None) => {}
            Err(error) => return self.fail(error),
        }
        ControlFlow::Continue(())
    }
}

impl Expansion<'_> {
    fn run(mut self, tree: &mut dyn Tree) -> Result<()> {
        let _ = tree.walk_mut(&mut self);
        self.failed.map_or(Ok(()), Err)
    }

    fn fail(&mut self, error: Error) -> ControlFlow<()> {
        self.failed = Some(error);
        ControlFlow::Break(())
    }

    fn has_calls(&self, expr: &Expr) -> bool {
        let is_call = |part: &Expr| matches!(part, Expr::Function(call) if matches!(self.macros.find(&call.name, false), Ok(Some(_))));
        visit_expressions(expr, |part| if is_call(part) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            .is_break()
    }

    /// What a call of a macro stands for, with the calls in it written out.
    fn value(&mut self, call: &Function) -> Result<Option<Expr>> {
        let Some(definitions) = self.macros.find(&call.name, false)? else { return Ok(None) };
        let name = &call.name;
        let arguments = match &call.args {
            FunctionArguments::List(list) if list.clauses.is_empty() && list.duplicate_treatment.is_none() => {
                &list.args
            }
            _ => return Err(Error::input(format!("macro {name} takes plain arguments"))),
        };
        if call.over.is_some() || call.filter.is_some() || !call.within_group.is_empty() {
            return Err(Error::input(format!("{name} is a macro: it takes no OVER, FILTER or WITHIN GROUP"))
                .hint("Write them behind the function in the macro"));
        }
        let (definition, mut values) = chosen(name, &definitions, arguments)?;
        let Body::Value(body) = &definition.body else { return Err(Error::internal("a value's macro is a table")) };
        let mut body = Expr::clone(body);
        let scope = format!("macro_arguments_{}", self.calls);
        let bound = bind(&body, &scope, &definition.parameters, &mut values)?;
        replace(&mut body, &definition.parameters, &values);
        self.within(name)?.run(&mut body)?;
        Ok(Some(match bound {
            None => body,
            Some(arguments) => arguments.around(body),
        }))
    }

    /// As [`Expansion::value`], in FROM.
    fn table(
        &mut self,
        name: &ObjectName,
        arguments: &[FunctionArg],
        alias: Option<&TableAlias>,
    ) -> Result<Option<TableFactor>> {
        let Some(definitions) = self.macros.find(name, true)? else { return Ok(None) };
        let (definition, values) = chosen(name, &definitions, arguments)?;
        let Body::Table(body) = &definition.body else { return Err(Error::internal("a table's macro is a value")) };
        let mut subquery: Box<Query> = body.clone();
        replace(subquery.as_mut(), &definition.parameters, &values);
        self.within(name)?.run(subquery.as_mut())?;
        let lateral = values.iter().any(names_columns);
        Ok(Some(TableFactor::Derived { lateral, subquery, alias: alias.cloned(), sample: None }))
    }

    /// What writes out the calls in what stands for a call.
    fn within(&mut self, name: &ObjectName) -> Result<Expansion<'_>> {
        *self.calls += 1;
        if self.depth == DEPTH || *self.calls > CALLS {
            let wrong = match self.depth == DEPTH {
                true => format!("calls of macros within macros are more than {DEPTH} deep"),
                false => format!("the statement calls macros more than {CALLS} times"),
            };
            return Err(Error::input(format!("{wrong}, at {name}")).hint("A macro must not call itself"));
        }
        Ok(Expansion { macros: self.macros, depth: self.depth + 1, calls: self.calls, failed: None })
    }
}

/// The definition that takes these arguments, and the values of its parameters.
fn chosen<'d>(
    name: &ObjectName,
    definitions: &'d [Definition],
    arguments: &[FunctionArg],
) -> Result<(&'d Definition, Vec<Expr>)> {
    let mut positional = Vec::new();
    let mut named: Vec<(&str, &Expr)> = Vec::new();
    for argument in arguments {
        match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) if named.is_empty() => positional.push(value),
            FunctionArg::Unnamed(FunctionArgExpr::Expr(_)) => {
                return Err(Error::input(format!(
                    "an argument without a name follows one with a name in a call of macro {name}"
                )));
            }
            FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), .. } => named.push((&name.value, value)),
            FunctionArg::ExprNamed { name: Expr::Identifier(name), arg: FunctionArgExpr::Expr(value), .. } => {
                named.push((&name.value, value));
            }
            other => return Err(Error::input(format!("macro {name} does not take {other}"))),
        }
    }
    let fits = |definition: &Definition| values(&definition.parameters, &positional, &named);
    // Of two that take them, the one that needs fewer defaults.
    let best = definitions.iter().filter_map(|definition| Some((definition, fits(definition)?)));
    best.min_by_key(|(definition, _)| definition.parameters.len()).ok_or_else(|| {
        let takes: Vec<String> = definitions.iter().map(|definition| shown(name, definition)).collect();
        Error::input(format!("macro {name} does not take these {} arguments", arguments.len()))
            .hint(format!("It is {}", takes.join(" or ")))
    })
}

/// The values of the parameters, `None` where they do not take these.
fn values(parameters: &[Parameter], positional: &[&Expr], named: &[(&str, &Expr)]) -> Option<Vec<Expr>> {
    if positional.len() > parameters.len() {
        return None;
    }
    let is_open = |wanted: &str| {
        let places = parameters.iter().skip(positional.len());
        places.clone().any(|parameter| parameter.name.eq_ignore_ascii_case(wanted))
    };
    if !named.iter().all(|(name, _)| is_open(name)) {
        return None;
    }
    let mut values = Vec::with_capacity(parameters.len());
    for (index, parameter) in parameters.iter().enumerate() {
        let by_name = named.iter().find(|(name, _)| parameter.name.eq_ignore_ascii_case(name)).map(|(_, value)| *value);
        let value = positional.get(index).copied().or(by_name).or(parameter.default.as_ref())?.clone();
        values.push(match &parameter.data_type {
            None => value,
            Some(data_type) => Expr::Cast {
                kind: CastKind::Cast,
                expr: Box::new(value),
                data_type: data_type.clone(),
                array: false,
                format: None,
            },
        });
    }
    Some(values)
}

fn shown(name: &ObjectName, definition: &Definition) -> String {
    let parameter = |parameter: &Parameter| {
        let typed = parameter.data_type.as_ref().map(|data_type| format!(" {data_type}")).unwrap_or_default();
        let default = parameter.default.as_ref().map(|default| format!(" := {default}")).unwrap_or_default();
        format!("{}{typed}{default}", parameter.name)
    };
    let parameters: Vec<String> = definition.parameters.iter().map(parameter).collect();
    format!("{name}({})", parameters.join(", "))
}

/// Puts values in the places of parameters.
fn replace(tree: &mut dyn Tree, parameters: &[Parameter], values: &[Expr]) {
    // Each behind its parts, so that what was put in is not looked at again.
    let _ = visit_expressions_mut(tree, |part| -> ControlFlow<()> {
        if let Expr::Identifier(name) = part
            && let Some(index) =
                parameters.iter().position(|parameter| parameter.name.eq_ignore_ascii_case(&name.value))
        {
            *part = match &values[index] {
                plain @ (Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Value(_) | Expr::Cast { .. }) => {
                    plain.clone()
                }
                other => Expr::Nested(Box::new(other.clone())),
            };
        }
        ControlFlow::Continue(())
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::definition;
    use datafusion::sql::parser::Statement as PlanStatement;
    use forebay_syntax::parse::parse_plan;

    struct Known;

    impl Macros for Known {
        fn find(&self, name: &ObjectName, is_table: bool) -> Result<Option<Arc<[Definition]>>> {
            let texts: &[&str] = match (name.to_string().to_lowercase().as_str(), is_table) {
                ("plus", false) => &["(a, b := 5) AS a + b"],
                ("over", false) => &["(a) AS a", "(a, b) AS a || b"],
                ("swap", false) => &["(a, b) AS plus(b, a)"],
                ("typed", false) => &["(a TINYINT) AS a"],
                ("own", false) => &["(a) AS own(a)"],
                ("some", true) => &["(n) AS TABLE SELECT * FROM t WHERE x < n LIMIT n"],
                _ => return Ok(None),
            };
            texts.iter().map(|text| definition(text, is_table)).collect::<Result<Vec<_>>>().map(|all| Some(all.into()))
        }
    }

    fn expanded(text: &str) -> Result<String> {
        let PlanStatement::Statement(mut statement) = parse_plan(text)? else { panic!("{text}") };
        expand(statement.as_mut(), &Known)?;
        Ok(statement.to_string())
    }

    #[track_caller]
    fn check(text: &str, expect: &str) {
        assert_eq!(expanded(text).expect("expands"), expect);
    }

    #[test]
    fn values_take_the_places_of_parameters() {
        check("SELECT plus(1) AS x", "SELECT (1 + 5) AS x");
        check(
            "SELECT 2 * PLUS(x * 2, b := y)",
            "SELECT (2 * ((x * 2) + y)) AS \"2 * PLUS(x * 2, b := y)\""
                .replace("(2 * ((x * 2) + y))", "2 * ((x * 2) + y)")
                .as_str(),
        );
        check("SELECT swap(a, b) AS x", "SELECT ((b + a)) AS x");
        check("SELECT over(1) AS x, over(1, 2) AS y", "SELECT (1) AS x, (1 || 2) AS y");
        check("SELECT x FROM t WHERE typed(x) > 1", "SELECT x FROM t WHERE (CAST(x AS TINYINT)) > 1");
        check("SELECT abs(1) AS x", "SELECT abs(1) AS x");
    }

    #[test]
    fn tables_take_the_places_of_calls() {
        check("SELECT * FROM some(3) AS s", "SELECT * FROM (SELECT * FROM t WHERE x < 3 LIMIT 3) AS s");
        check("SELECT * FROM u, some(u.n)", "SELECT * FROM u, LATERAL (SELECT * FROM t WHERE x < u.n LIMIT u.n)");
    }

    #[test]
    fn what_cannot_be_written_out() {
        for wrong in [
            "SELECT plus()",
            "SELECT plus(1, 2, 3)",
            "SELECT plus(1, c := 2)",
            "SELECT plus(b := 1, 2)",
            "SELECT own(1)",
            "SELECT plus(1) OVER ()",
        ] {
            assert!(expanded(wrong).is_err(), "{wrong}");
        }
    }
}
