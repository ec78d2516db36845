//! How COLUMNS is called, which calls aggregate, and calls that are made.

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident, ObjectName,
};

/// Functions that aggregate.
const AGGREGATES: [&str; 34] = [
    "any_value",
    "arg_max",
    "arg_min",
    "array_agg",
    "avg",
    "bit_and",
    "bit_or",
    "bit_xor",
    "bool_and",
    "bool_or",
    "count",
    "count_if",
    "entropy",
    "first",
    "last",
    "list",
    "mad",
    "max",
    "mean",
    "median",
    "min",
    "mode",
    "product",
    "quantile",
    "quantile_cont",
    "quantile_disc",
    "stddev",
    "stddev_pop",
    "stddev_samp",
    "string_agg",
    "sum",
    "var_pop",
    "var_samp",
    "variance",
];

/// The function that `*COLUMNS(…)` becomes among the arguments of another one.
pub const UNPACKED: &str = "unpacked_columns";

/// A call of a function.
pub fn call(function: &str, arguments: Vec<Expr>) -> Expr {
    let argument = |expr| FunctionArg::Unnamed(FunctionArgExpr::Expr(expr));
    let args = arguments.into_iter().map(argument).collect();
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(function)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList { duplicate_treatment: None, args, clauses: Vec::new() }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

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

/// Whether a call aggregates rows, by its name.
#[must_use]
pub fn is_aggregate(call: &Function) -> bool {
    call.over.is_none() && AGGREGATES.contains(&call.name.to_string().to_lowercase().as_str())
}
