//! Calls of functions in FROM: those that read files get their arguments as texts, those that tell what is in the catalog are tables.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, FunctionArg, FunctionArgExpr, Ident, ObjectNamePart, TableAlias, TableFactor, Value,
    ValueWithSpan, VisitorMut,
};

use crate::read_options;
use forebay_forms::file_options::{BETWEEN_FILES, READ_FUNCTIONS, TOLD_FUNCTIONS};

/// What functions of DuckDB that tell what is in the catalog are called: tables of the information schema here.
const CATALOG_FUNCTION: &str = "duckdb_";
const INFORMATION_SCHEMA: &str = "information_schema";

/// The calls of functions that read files, and their arguments, which become texts.
#[derive(Debug, Default)]
pub(crate) struct FunctionCalls(pub(crate) Vec<(String, Vec<String>)>);

impl VisitorMut for FunctionCalls {
    type Break = ();

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<()> {
        let TableFactor::Table { name, args, alias, .. } = table else { return ControlFlow::Continue(()) };
        let Some(arguments) = args else { return ControlFlow::Continue(()) };
        let function = name.to_string().to_lowercase();
        if arguments.args.is_empty() && function.starts_with(CATALOG_FUNCTION) {
            let named = || TableAlias { explicit: true, name: Ident::new(&function), columns: Vec::new(), at: None };
            alias.get_or_insert_with(named);
            name.0 = [INFORMATION_SCHEMA, &function].map(|part| ObjectNamePart::Identifier(Ident::new(part))).to_vec();
            *args = None;
            return ControlFlow::Continue(());
        }
        name.0 = vec![ObjectNamePart::Identifier(Ident::new(&function))];
        if TOLD_FUNCTIONS.contains(&function.as_str()) {
            arguments.args.first_mut().into_iter().for_each(join_paths);
            arguments.args.iter_mut().for_each(unname);
            self.0.push((function.clone(), arguments.args.iter().filter_map(text).collect()));
        }
        if READ_FUNCTIONS.iter().any(|(known, _)| *known == function) {
            arguments.args.first_mut().into_iter().for_each(join_paths);
            arguments.args.iter_mut().for_each(unname);
            self.0.push((function, arguments.args.iter().filter_map(text).collect()));
        }
        ControlFlow::Continue(())
    }
}

fn text(argument: &FunctionArg) -> Option<String> {
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(ValueWithSpan {
            value: Value::SingleQuotedString(text),
            ..
        }))) => Some(text.clone()),
        _ => None,
    }
}

/// A list of files as one text.
fn join_paths(argument: &mut FunctionArg) {
    if let FunctionArg::Unnamed(FunctionArgExpr::Expr(list @ Expr::Array(_))) = argument
        && let Some(paths) = read_options::texts(&list.to_string())
    {
        let text = Value::SingleQuotedString(paths.join(&BETWEEN_FILES.to_string()));
        *argument = FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(text.into())));
    }
}

/// `delim = '|'` as the text `delim=|`.
fn unname(argument: &mut FunctionArg) {
    let (name, value) = match &*argument {
        FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), .. } => (name, value),
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::BinaryOp { left, op: BinaryOperator::Eq, right })) => {
            let Expr::Identifier(name) = left.as_ref() else { return };
            (name, right.as_ref())
        }
        _ => return,
    };
    let value = match value {
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) => text.clone(),
        other => other.to_string(),
    };
    let text = Value::SingleQuotedString(format!("{}={value}", name.value.to_lowercase()));
    *argument = FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(text.into())));
}
