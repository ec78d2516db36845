//! LIKE and ILIKE with an escape character as calls of functions that know it. Without ESCAPE no character is one, but the planner takes
//! a backslash for it.

use datafusion::sql::sqlparser::ast::{Expr, Value, ValueWithSpan};

use crate::calls::call;

/// Rewrites a comparison with a pattern.
pub fn rewrite(expr: &mut Expr) {
    let (negated, any, text, pattern, escape, name) = match expr {
        Expr::Like { negated, any, expr, pattern, escape_char } => {
            (negated, any, expr, pattern, escape_char, ["like_escape", "not_like_escape"])
        }
        Expr::ILike { negated, any, expr, pattern, escape_char } => {
            (negated, any, expr, pattern, escape_char, ["ilike_escape", "not_ilike_escape"])
        }
        _ => return,
    };
    let Some(escape) = escape else { return double_backslashes(pattern) };
    if !*any {
        let values = vec![(**text).clone(), (**pattern).clone(), Expr::Value(escape.clone())];
        *expr = call(name[usize::from(*negated)], values);
    }
}

/// Writes each backslash of a pattern twice.
fn double_backslashes(pattern: &mut Expr) {
    let text = |text: &str| Expr::Value(Value::SingleQuotedString(text.to_owned()).into());
    if let Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) = pattern {
        *text = text.replace('\\', "\\\\");
    } else if !matches!(pattern, Expr::Value(_)) {
        *pattern = call("replace", vec![pattern.clone(), text("\\"), text("\\\\")]);
    }
}
