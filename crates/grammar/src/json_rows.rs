//! `FROM json_each(text, path)` and `json_tree`, as queries of the rows that a list of structs has.

use datafusion::sql::sqlparser::ast::FunctionArg;

/// The columns of such a table.
const COLUMNS: [&str; 8] = ["key", "value", "type", "atom", "id", "parent", "fullkey", "path"];

/// Whether this is one of the functions.
pub fn is_one(name: &str) -> bool {
    matches!(name, "json_each" | "json_tree")
}

/// The query of the rows that a call gives.
pub fn query(function: &str, arguments: &[FunctionArg]) -> String {
    let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
    let columns = COLUMNS.map(|column| format!("made.\"{column}\" AS \"{column}\""));
    let list = format!("{function}_rows({})", arguments.join(", "));
    format!("SELECT {} FROM (SELECT unnest({list}) AS made) AS {function}", columns.join(", "))
}
