//! `document -> 'name'`, which the parser takes for a lambda where a name stands in front of the arrow.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, LambdaFunction, LambdaSyntax,
    OneOrManyWithParens, VisitorMut,
};

use crate::walk::Tree;

/// What the names of functions that take lambdas begin with, or are.
const OF_LAMBDAS: [&str; 6] = ["list_", "array_", "apply", "filter", "reduce", "columns"];

/// Has arrows mean parts of JSON where no function takes a lambda.
pub fn known(tree: &mut dyn Tree) {
    let _ = tree.walk_mut(&mut Arrows { lambdas: Vec::new() });
}

struct Arrows {
    /// Lambdas that functions take, which are still to come.
    lambdas: Vec<*const LambdaFunction>,
}

impl VisitorMut for Arrows {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Function(call) => {
                let name = call.name.to_string().to_lowercase();
                let FunctionArguments::List(list) = &call.args else { return ControlFlow::Continue(()) };
                if OF_LAMBDAS.iter().any(|known| name.starts_with(known)) {
                    for arg in &list.args {
                        if let FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Lambda(lambda))) = arg {
                            self.lambdas.push(lambda);
                        }
                    }
                }
            }
            Expr::Lambda(lambda) => {
                let place: *const LambdaFunction = lambda;
                match (self.lambdas.contains(&place), named(lambda)) {
                    (false, Some(name)) => {
                        let (left, right) = (Box::new(Expr::Identifier(name)), lambda.body.clone());
                        *expr = Expr::BinaryOp { left, op: BinaryOperator::Arrow, right };
                    }
                    _ => return ControlFlow::Continue(()),
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// The name in front of an arrow.
fn named(lambda: &LambdaFunction) -> Option<Ident> {
    match (&lambda.params, &lambda.syntax) {
        (OneOrManyWithParens::One(only), LambdaSyntax::Arrow) if only.data_type.is_none() => Some(only.name.clone()),
        _ => None,
    }
}
