//! How COLUMNS is called.

use datafusion::sql::sqlparser::ast::{Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments};

/// The function that `*COLUMNS(…)` becomes among the arguments of another one.
pub const UNPACKED: &str = "unpacked_columns";

/// Whether this is a call of COLUMNS.
#[must_use]
pub fn is_columns(call: &Function) -> bool {
    call.name.to_string().eq_ignore_ascii_case("columns")
}

/// The COLUMNS of `*COLUMNS(…)` and of `unpack(COLUMNS(…))`.
#[must_use]
pub fn unpacked_call(call: &Function) -> Option<&Function> {
    let name = call.name.to_string();
    match &call.args {
        _ if name.eq_ignore_ascii_case(UNPACKED) => Some(call),
        FunctionArguments::List(list) if name.eq_ignore_ascii_case("unpack") => match list.args.as_slice() {
            [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Function(inner)))] => {
                Some(inner).filter(|_| is_columns(inner))
            }
            _ => None,
        },
        _ => None,
    }
}
