//! DataFusion's errors as ours: one line, the right kind, a suggestion, and the place in the SQL text.

use std::path::Path;

use datafusion::common::{DataFusionError, SchemaError};
use datafusion::parquet::errors::ParquetError;
use datafusion::sql::sqlparser::parser::ParserError;
use forebay_base::{Error, ErrorKind, Position};

use crate::words::{plain_words, sql_types};

/// Wraps one of our errors for its way through DataFusion; [`from_datafusion`] finds it again.
pub fn into_datafusion(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// A DataFusion error as ours.
pub fn from_datafusion(error: DataFusionError) -> Error {
    let position = position_of(&error);
    let converted = convert(error);
    match position {
        Some(position) => converted.at(position),
        None => converted,
    }
}

/// As [`from_datafusion`], for an error while `files` are read: one about their content names them.
pub fn from_reading(error: DataFusionError, files: &[String]) -> Error {
    let is_about_content = is_about_content(&error);
    let converted = from_datafusion(error);
    let text = converted.to_string();
    let name = |file: &String| Path::new(file).file_name().is_some_and(|name| text.contains(&*name.to_string_lossy()));
    match files {
        _ if files.iter().any(name) => converted,
        [file] if is_about_content => converted.context(format!("file {file}")),
        [first, .., last] if is_about_content => converted.context(format!("one of the files {first} to {last}")),
        _ => converted,
    }
}

fn is_about_content(error: &DataFusionError) -> bool {
    use datafusion::arrow::error::ArrowError as A;
    match error {
        DataFusionError::ParquetError(_) | DataFusionError::ObjectStore(_) => true,
        DataFusionError::ArrowError(arrow, _) => match arrow.as_ref() {
            A::ParseError(_) | A::CsvError(_) | A::JsonError(_) | A::ParquetError(_) => true,
            A::ExternalError(inner) => inner.downcast_ref::<DataFusionError>().is_some_and(is_about_content),
            _ => false,
        },
        DataFusionError::External(inner) => inner.downcast_ref::<DataFusionError>().is_some_and(is_about_content),
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => is_about_content(inner),
        DataFusionError::Shared(inner) => is_about_content(inner),
        DataFusionError::Collection(errors) => errors.first().is_some_and(is_about_content),
        _ => false,
    }
}

fn convert(error: DataFusionError) -> Error {
    match error {
        DataFusionError::External(inner) => match inner.downcast::<Error>() {
            Ok(ours) => *ours,
            Err(other) => match other.downcast::<DataFusionError>() {
                Ok(nested) => convert(*nested),
                Err(other) => Error::new(ErrorKind::Io, one_line(&other.to_string())),
            },
        },
        DataFusionError::ArrowError(arrow, _) => convert_arrow(*arrow),
        DataFusionError::Context(place, inner) => match place.as_str() {
            // Advice about settings that are none of ours.
            _ if matches!(*inner, DataFusionError::ResourcesExhausted(_)) => convert(*inner),
            // DataFusion's names of its own passes say nothing to a user.
            _ if place.contains("rule") || place.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_') => {
                convert(*inner)
            }
            _ => convert(*inner).context(one_line(&place)),
        },
        DataFusionError::Diagnostic(_, inner) => convert(*inner),
        DataFusionError::Shared(inner) => match inner.as_ref() {
            DataFusionError::External(boxed) => match boxed.downcast_ref::<Error>() {
                Some(ours) => ours.clone(),
                None => Error::new(ErrorKind::Io, one_line(&boxed.to_string())),
            },
            other => by_text(&other.strip_backtrace()),
        },
        DataFusionError::Collection(errors) => match errors.into_iter().next() {
            Some(first) => convert(first),
            None => Error::internal("an empty list of errors"),
        },
        DataFusionError::SQL(parser, _) => convert_parser(*parser),
        DataFusionError::SchemaError(schema, _) => convert_schema(*schema),
        DataFusionError::ResourcesExhausted(text) => exhausted(&text),
        DataFusionError::IoError(os) => Error::io("read or write a file", &os),
        DataFusionError::ObjectStore(store) => convert_store(&store.to_string()),
        DataFusionError::ParquetError(parquet) => from_parquet(*parquet),
        DataFusionError::NotImplemented(text) if is_subquery(&text) => {
            Error::unsupported("a subquery in this place is not supported yet")
                .hint("A join, or a subquery that counts, often says the same")
        }
        DataFusionError::NotImplemented(text) => Error::unsupported(plain_words(&one_line(&text))),
        DataFusionError::Plan(text) => plan_error(&one_line(&text)),
        DataFusionError::Internal(text) | DataFusionError::Execution(text) if text.contains(NO_FUNCTION) => {
            plan_error(&one_line(&text))
        }
        DataFusionError::Internal(text) => Error::internal(one_line(first_line(&text))),
        other => by_text(&other.strip_backtrace()),
    }
}

/// DataFusion's words for what it cannot run begin so; behind them is the whole expression.
fn is_subquery(text: &str) -> bool {
    let Some((_, expr)) = text.split_once("Physical plan does not support logical expression ") else { return false };
    ["InSubquery", "Exists", "SetComparison", "ScalarSubquery", "OuterReferenceColumn"]
        .iter()
        .any(|kind| expr.starts_with(kind))
}

fn convert_arrow(error: datafusion::arrow::error::ArrowError) -> Error {
    use datafusion::arrow::error::ArrowError as A;
    match error {
        A::ArithmeticOverflow(text) => Error::new(
            ErrorKind::Overflow,
            format!("overflow: {}", one_line(&text).trim_start_matches("Overflow happened on: ")),
        )
        .hint("Cast an operand to a wider type"),
        A::DivideByZero => Error::new(ErrorKind::Input, "division by zero"),
        A::ExternalError(inner) => match inner.downcast::<Error>() {
            Ok(ours) => *ours,
            Err(other) => match other.downcast::<DataFusionError>() {
                Ok(nested) => convert(*nested),
                Err(other) => Error::new(ErrorKind::Io, one_line(&other.to_string())),
            },
        },
        A::ParseError(text) => parse_error(&one_line(&text)),
        A::CastError(text) | A::InvalidArgumentError(text) | A::ComputeError(text) => {
            Error::input(lower_first(&plain_words(&one_line(&text))))
        }
        A::CsvError(text) => csv_error(&one_line(&text)),
        A::JsonError(text) => {
            let text = text.replace("Not valid JSON: ", "").replace("EOF while", "the text ends while");
            Error::input(format!("invalid JSON: {}", lower_first(&shortened(&one_line(&text)))))
        }
        A::ParquetError(text) => parquet_error(&text),
        A::IoError(text, os) => match os.kind() {
            std::io::ErrorKind::NotFound => Error::new(ErrorKind::NotFound, one_line(&text)),
            _ => Error::io("read or write a file", &os),
        },
        other => Error::input(one_line(&other.to_string())),
    }
}

/// The CSV reader counts lines and columns from 0.
fn parse_error(text: &str) -> Error {
    let found = || {
        let rest = text.strip_prefix("Error while parsing value '")?;
        let (rest, _) = rest.rsplit_once(". Row data: ")?;
        let (rest, line) = rest.rsplit_once(" at line ")?;
        let (rest, column) = rest.rsplit_once(" for column ")?;
        let (value, type_name) = rest.rsplit_once("' as type '")?;
        let (column, line): (u64, u64) = (column.parse().ok()?, line.parse().ok()?);
        let type_name = sql_types(type_name.trim_end_matches('\''));
        let error = Error::input(format!("cannot read {value:?} as {type_name}"));
        Some(error.context(format!("line {}, column {}", line + 1, column + 1)))
    };
    found().unwrap_or_else(|| Error::input(lower_first(text)))
}

/// `incorrect number of fields for line 2, expected 3 got 2`, whose lines count from 1.
fn csv_error(text: &str) -> Error {
    Error::input(lower_first(&shortened(text.trim_start_matches("Csv error: "))))
}

fn convert_parser(error: ParserError) -> Error {
    match error {
        ParserError::RecursionLimitExceeded => Error::input("the SQL text is nested too deeply")
            .hint("Split the statement, or use fewer parentheses and subqueries"),
        ParserError::ParserError(text) | ParserError::TokenizerError(text) => {
            let (text, position) = split_position(&text);
            let error = Error::input(format!("syntax error: {}", lower_first(&one_line(&text))));
            match position {
                Some(position) => error.at(position),
                None => error,
            }
        }
    }
}

/// The parser ends its messages with ` at Line: 1, Column: 8`.
pub fn split_position(text: &str) -> (String, Option<Position>) {
    let Some(start) = text.rfind(" at Line: ") else { return (text.to_owned(), None) };
    let mut numbers = text[start..].split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok());
    match (numbers.next(), numbers.next()) {
        (Some(line), Some(column)) => (text[..start].to_owned(), Some(Position { line, column })),
        _ => (text.to_owned(), None),
    }
}

fn convert_schema(error: SchemaError) -> Error {
    match error {
        SchemaError::FieldNotFound { field, valid_fields } => {
            let name = field.name.clone();
            let candidates = valid_fields.iter().map(|column| column.name.as_str());
            let error = Error::new(ErrorKind::NotFound, format!("column {} does not exist", field.flat_name()));
            match suggestion(&name, candidates) {
                Some(other) => error.hint(format!("Did you mean {other}?")),
                None => error,
            }
        }
        SchemaError::AmbiguousReference { field } => {
            Error::input(format!("column {} is ambiguous", field.flat_name())).hint("Write table.column")
        }
        other => Error::input(lower_first(&one_line(&other.to_string()))),
    }
}

/// An error of the Parquet reader as ours.
pub fn from_parquet(error: ParquetError) -> Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<Error>() {
            Ok(ours) => *ours,
            Err(other) => parquet_error(&other.to_string()),
        },
        other => parquet_error(&other.to_string()),
    }
}

/// What a Parquet reader says, without the names that it has for kinds of errors.
fn parquet_error(text: &str) -> Error {
    const KINDS: [&str; 8] = [
        "External: ",
        "Parquet argument error: ",
        "Parquet error: ",
        "EOF: ",
        "Arrow: ",
        "NYI: ",
        "Parser error: ",
        "Io error: ",
    ];
    let text = one_line(text);
    // What is behind it are structures of the library that reads it.
    let mut text = text.split(" stored in ARROW:schema").next().unwrap_or(&text).to_owned();
    for kind in KINDS {
        text = text.replace(kind, "");
    }
    Error::input(format!("the Parquet file cannot be read: {}", lower_first(&plain_words(&text))))
}

fn convert_store(text: &str) -> Error {
    let kind = match text.contains("not found") || text.contains("No such file") {
        true => ErrorKind::NotFound,
        false => ErrorKind::Io,
    };
    Error::new(kind, one_line(text))
}

fn plan_error(text: &str) -> Error {
    let table = text.strip_prefix("table '").and_then(|rest| rest.strip_suffix("' not found"));
    match table {
        Some(table) => Error::new(ErrorKind::NotFound, format!("table {} does not exist", short_name(table))),
        None if text.contains(NO_FUNCTION) => no_function(text),
        None if text.contains(NOT_GROUPED) => not_grouped(text),
        None if text.starts_with(UNKNOWN_FUNCTION) => unknown_function(text),
        None => Error::input(lower_first(&plain_words(text))),
    }
}

/// DataFusion's words for a call whose arguments have types that the function does not take.
const NO_FUNCTION: &str = "No function matches the given name and argument types '";

/// What DataFusion says of arguments that have no types of SQL.
const IN_OWN_WORDS: [&str; 4] = ["UserDefined", "NullAry", "Comparable", "Any("];

fn no_function(text: &str) -> Error {
    let call = text.split(NO_FUNCTION).nth(1).and_then(|rest| rest.split("'.").next()).unwrap_or(text);
    let call = plain_words(call);
    let error = match call.starts_with("operator ") {
        true => Error::input(format!("there is no {call}")),
        false => Error::input(format!("there is no function {call}")),
    };
    match text.split("Candidate functions: ").nth(1) {
        Some(known) if known.len() < 200 && !IN_OWN_WORDS.iter().any(|word| known.contains(word)) => {
            error.hint(format!("Candidates are {}", plain_words(known)))
        }
        _ => error.hint("Cast the arguments to the types that it takes"),
    }
}

/// DataFusion's words for a function that does not exist.
const UNKNOWN_FUNCTION: &str = "Invalid function '";

fn unknown_function(text: &str) -> Error {
    let name = text[UNKNOWN_FUNCTION.len()..].split('\'').next().unwrap_or(text);
    Error::new(ErrorKind::NotFound, format!("function {name} does not exist"))
}

/// The error of a function that does not exist, with the nearest of the names that there are.
pub fn with_nearest_function<'a>(error: Error, names: impl Iterator<Item = &'a str>) -> Error {
    let name = error.message().strip_prefix("function ").and_then(|rest| rest.strip_suffix(" does not exist"));
    match name.and_then(|name| suggestion(name, names)) {
        // It is there, for windows alone.
        Some(other) if name.is_some_and(|name| name.eq_ignore_ascii_case(&other)) => {
            Error::input(format!("{other} is a window function")).hint(format!("Write {other}(…) OVER (…)"))
        }
        Some(other) => error.hint(format!("Did you mean {other}?")),
        None => error,
    }
}

/// DataFusion's words for a column that is neither grouped nor aggregated.
const NOT_GROUPED: &str = " must appear in the GROUP BY clause or must be part of an aggregate function";

fn not_grouped(text: &str) -> Error {
    let before = text.split(NOT_GROUPED).next().unwrap_or(text);
    let column = before.rsplit('"').nth(1).unwrap_or(before);
    Error::input(format!("column {column} must be in GROUP BY or inside an aggregate function"))
}

/// `forebay.main.t` → `t`.
pub fn short_name(table: &str) -> &str {
    let table = table.strip_prefix("forebay.").unwrap_or(table);
    table.strip_prefix("main.").unwrap_or(table)
}

fn by_text(text: &str) -> Error {
    let text = one_line(text);
    if text.contains("Resources exhausted") || text.contains("Not enough memory to continue") {
        return exhausted(&text);
    }
    if text.contains("was not provided a value for execution") {
        return Error::input("the statement has parameters, and no values for them")
            .hint("PREPARE it and EXECUTE it with values, or write the values in it");
    }
    Error::input(lower_first(&plain_words(text.trim_start_matches("Execution error: "))))
}

fn exhausted(text: &str) -> Error {
    // The account has said all.
    if let Some((_, told)) = text.split_once(ACCOUNT) {
        return Error::new(ErrorKind::OutOfMemory, format!("{ACCOUNT}{told}"));
    }
    Error::new(ErrorKind::OutOfMemory, memory_text(text)).hint("Give Forebay more memory with --memory")
}

/// How an error of the account of memory begins.
const ACCOUNT: &str = "the memory of the ";

/// What a query needs beyond its memory, without the names of the operators that have the rest.
fn memory_text(text: &str) -> String {
    let wanted = text.split("Failed to allocate additional ").nth(1).and_then(|rest| rest.split(" for ").next());
    let left = text.split(" - ").nth(1).and_then(|rest| rest.split(" remain available").next());
    match (wanted, left) {
        (Some(wanted), Some(left)) if wanted.len() < 20 && left.len() < 20 => {
            format!("not enough memory: {wanted} are needed, and {left} are left")
        }
        _ => "not enough memory".to_owned(),
    }
}

/// The name closest to `wanted`, if one is close.
pub fn suggestion<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Option<String> {
    let wanted = wanted.to_lowercase();
    names
        .map(|name| (strsim::damerau_levenshtein(&wanted, &name.to_lowercase()), name))
        .min()
        .filter(|(distance, name)| *distance <= (wanted.len().max(name.len()) / 3).max(1) && *distance < wanted.len())
        .map(|(_, name)| name.to_owned())
}

fn position_of(error: &DataFusionError) -> Option<Position> {
    let diagnostic = match error {
        DataFusionError::Diagnostic(diagnostic, _) => diagnostic,
        DataFusionError::Context(_, inner) => return position_of(inner),
        DataFusionError::Collection(errors) => return errors.first().and_then(position_of),
        _ => return None,
    };
    let start = diagnostic.span?.start;
    Some(Position { line: start.line, column: start.column })
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or(text)
}

/// A text without its middle, where it is so long that it holds somebody's data.
fn shortened(text: &str) -> String {
    const SHOWN: usize = 300;
    if text.len() <= SHOWN {
        return text.to_owned();
    }
    let (head, tail) = (text.floor_char_boundary(SHOWN * 2 / 3), text.ceil_char_boundary(text.len() - SHOWN / 3));
    format!("{} … {}", &text[..head], &text[tail..])
}

/// Errors are one line, whatever a library writes.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn lower_first(text: &str) -> String {
    let mut characters = text.chars();
    match (characters.next(), characters.clone().next()) {
        // Words such as NULL or SELECT keep their case.
        (Some(first), Some(second)) if first.is_uppercase() && second.is_lowercase() => {
            first.to_lowercase().chain(characters).collect()
        }
        _ => text.to_owned(),
    }
}

/// What a worker that did not finish died of.
pub fn worker_error(error: &tokio::task::JoinError) -> Error {
    match error.is_cancelled() {
        true => Error::new(ErrorKind::Cancelled, "the query was cancelled"),
        false => Error::internal(format!("a worker stopped: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_errors_survive_the_way_through_datafusion() {
        let error = Error::new(ErrorKind::Cancelled, "stopped");
        let through = DataFusionError::Context("somewhere".into(), Box::new(into_datafusion(error)));
        assert_eq!(from_datafusion(through).kind(), ErrorKind::Cancelled);
    }

    #[test]
    fn memory_is_wanted_without_names_of_operators() {
        let text = "Failed to allocate additional 1.2 MB for TopK[1]#2(can spill: false) with 0.0 B already allocated for \
                    this reservation - 12.0 KB remain available for the total pool";
        assert_eq!(memory_text(text), "not enough memory: 1.2 MB are needed, and 12.0 KB are left");
        assert_eq!(memory_text("something else"), "not enough memory");
    }

    #[test]
    fn positions_are_cut_from_messages() {
        let (text, position) = split_position("Expected: an expression, found: FROM at Line: 2, Column: 8");
        assert_eq!(text, "Expected: an expression, found: FROM");
        assert_eq!(position, Some(Position { line: 2, column: 8 }));
        assert_eq!(split_position("nothing").1, None);
    }

    #[test]
    fn messages_speak_sql() {
        let text = "Error while parsing value 'x' as type 'Int32' for column 0 at line 2. Row data: '[x,1]'";
        let error = parse_error(text).to_string();
        assert!(error.contains("\"x\" as INTEGER") && error.contains("line 3, column 1"), "{error}");
        let text = "While expanding wildcard, column \"t.b\" must appear in the GROUP BY clause or must be part of an \
                    aggregate function, currently only \"t.a\" appears in the SELECT clause satisfies this requirement";
        assert_eq!(plan_error(text).message(), "column t.b must be in GROUP BY or inside an aggregate function");
        let text = "Function 'sum' failed. No function matches the given name and argument types 'sum(Utf8View)'. You";
        assert_eq!(plan_error(text).message(), "there is no function sum(VARCHAR)");
    }

    #[test]
    fn close_names_are_suggested() {
        let names = ["lo_revenue", "lo_discount"];
        assert_eq!(suggestion("lo_revenu", names.into_iter()).as_deref(), Some("lo_revenue"));
        assert_eq!(suggestion("price", names.into_iter()), None);
        assert_eq!(suggestion("b", ["g"].into_iter()), None);
    }
}
