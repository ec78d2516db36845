//! Two windows over the same call of a function that differs from call to call are two, not one: the planner takes what is
//! written alike for the same.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{self, Select, Value};

use crate::calls::call;
use crate::walk::{visit_expressions, visit_expressions_mut};

/// Functions whose calls differ.
const VOLATILE: [&str; 4] = ["gen_random_uuid", "rand", "random", "uuid"];

/// Whether calls of this function differ.
fn is_volatile_call(call: &ast::Function) -> bool {
    VOLATILE.contains(&call.name.to_string().to_lowercase().as_str())
}

/// Whether an expression differs from call to call.
pub fn is_volatile(expr: &ast::Expr) -> bool {
    let is_one = |part: &ast::Expr| match part {
        ast::Expr::Function(call) if is_volatile_call(call) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    visit_expressions(expr, is_one).is_break()
}

/// Makes a second window over the same volatile call differ from the first, which the planner would take it for.
pub fn tell_windows_apart(select: &mut Select) {
    let mut seen = HashMap::new();
    let _: ControlFlow<()> = visit_expressions(select, |expr| {
        if let ast::Expr::Function(call) = expr
            && call.over.is_some()
        {
            *seen.entry(expr.to_string()).or_insert(0_usize) += 1;
        }
        ControlFlow::Continue(())
    });
    let twice: HashSet<String> = seen.into_iter().filter(|(_, count)| *count > 1).map(|(text, _)| text).collect();
    if twice.is_empty() {
        return;
    }
    let mut number = 0;
    let _: ControlFlow<()> = visit_expressions_mut(select, |expr| {
        let is_window = matches!(expr, ast::Expr::Function(call) if call.over.is_some());
        if is_window && twice.contains(&expr.to_string()) {
            number += 1;
            let _: ControlFlow<()> = visit_expressions_mut(expr, |part| {
                if let Some(call) = numbered(part, number) {
                    *part = call;
                }
                ControlFlow::Continue(())
            });
        }
        ControlFlow::Continue(())
    });
}

/// `random()` as `volatile_call(random(), number)`.
fn numbered(part: &ast::Expr, number: usize) -> Option<ast::Expr> {
    let ast::Expr::Function(function) = part else { return None };
    let number = ast::Expr::Value(Value::Number(number.to_string(), false).into());
    is_volatile_call(function).then(|| call(VOLATILE_CALL, vec![part.clone(), number]))
}

/// The function that tells calls apart.
pub const VOLATILE_CALL: &str = "volatile_call";
