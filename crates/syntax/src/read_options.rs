//! What `read_csv` may be told of a file beside its dialect: what its columns are called, and their types.

use datafusion::sql::sqlparser::ast::{Expr, Value};
use datafusion::sql::sqlparser::parser::Parser;
use forebay_base::{Error, LogicalType, Result};

use crate::dialect::ForebayDialect;
use crate::types::sql_type;
use forebay_forms::file_options::Options;

/// Options that say how DuckDB tells what a file is like: this program reads files as if they were not there.
const INERT: [&str; 8] = [
    "auto_detect",
    "files_to_sniff",
    "sample_size",
    "new_line",
    "strict_mode",
    "parallel",
    "buffer_size",
    "hive_types_autocast",
];

/// Their names, for suggestions.
pub(crate) const NAMES: [&str; 11] = [
    "skip",
    "comment",
    "all_varchar",
    "names",
    "types",
    "columns",
    "dateformat",
    "timestampformat",
    "filename",
    "hive_partitioning",
    "union_by_name",
];

/// Sets an option of this name in lower case; false where it is another one.
///
/// # Errors
/// Values that the option does not take.
pub(crate) fn set(options: &mut Options, key: &str, value: impl FnOnce() -> Result<String>) -> Result<bool> {
    let wrong = |value: &str, hint: &str| Error::input(format!("{key} = {value} is not possible")).hint(hint);
    match key {
        "skip" => {
            let value = value()?;
            options.skip = value.parse().map_err(|_| wrong(&value, "Use a number of lines"))?;
        }
        "comment" => {
            let value = value()?;
            options.comment = match value.as_bytes() {
                [] => None,
                [byte] => Some(*byte),
                _ => return Err(wrong(&value, "Use one character of one byte")),
            };
        }
        "all_varchar" | "hive_partitioning" | "union_by_name" => {
            let value = value()?;
            let is_on = flag(&value).ok_or_else(|| wrong(&value, "Use true or false"))?;
            match key {
                "all_varchar" => options.all_text = is_on,
                "union_by_name" => options.union_by_name = is_on,
                _ => options.hive_partitioning = Some(is_on),
            }
        }
        "filename" => {
            let value = value()?;
            options.filename = match flag(&value) {
                Some(is_on) => is_on.then(|| "filename".to_owned()),
                None => Some(value),
            };
        }
        "names" | "column_names" => {
            let value = value()?;
            let list = texts(&value).ok_or_else(|| wrong(&value, "Write names = ['a', 'b']"))?;
            options.names = list;
        }
        "types" | "dtypes" | "column_types" | "columns" => {
            let value = value()?;
            let hint = format!("Write {key} = {{'a': 'INTEGER', 'b': 'VARCHAR'}}");
            let types = match (fields(&value), texts(&value)) {
                (Some(fields), _) => fields.into_iter().map(|(name, text)| (Some(name), text)).collect(),
                (_, Some(list)) if key != "columns" => list.into_iter().map(|text| (None, text)).collect::<Vec<_>>(),
                _ => return Err(wrong(&value, &hint)),
            };
            let read = |(name, text): (Option<String>, String)| Ok((name, data_type(&text)?));
            options.types = types.into_iter().map(read).collect::<Result<_>>()?;
            if key == "columns" {
                options.names = options.types.iter().filter_map(|(name, _)| name.clone()).collect();
            }
        }
        "dateformat" | "date_format" => options.date_format = Some(value()?),
        "timestampformat" | "timestamp_format" => options.timestamp_format = Some(value()?),
        "encoding" => {
            let value = value()?;
            if !["utf-8", "utf8"].contains(&value.to_lowercase().as_str()) {
                return Err(wrong(&value, "Convert the file to UTF-8"));
            }
        }
        "store_rejects" | "rejects_table" | "rejects_scan" | "rejects_limit" => {
            let error = Error::unsupported(format!("{key} is not supported: lines that are left out are not kept"));
            return Err(error.hint("ignore_errors leaves them out"));
        }
        inert if INERT.contains(&inert) => {
            value()?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn flag(value: &str) -> Option<bool> {
    match value.to_lowercase().as_str() {
        "true" | "1" => Some(true),
        "false" | "0" => Some(false),
        _ => None,
    }
}

fn data_type(text: &str) -> Result<LogicalType> {
    let parsed = Parser::new(&ForebayDialect).try_with_sql(text).and_then(|mut parser| parser.parse_data_type());
    sql_type(&parsed.map_err(|_| Error::input(format!("{text} is not a type")))?)
}

fn expression(text: &str) -> Option<Expr> {
    Parser::new(&ForebayDialect).try_with_sql(text).and_then(|mut parser| parser.parse_expr()).ok()
}

fn text_of(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text.clone()),
            _ => None,
        },
        _ => None,
    }
}

/// The texts of a list.
pub(crate) fn texts(text: &str) -> Option<Vec<String>> {
    match expression(text)? {
        Expr::Array(array) => array.elem.iter().map(text_of).collect(),
        _ => None,
    }
}

/// The fields of a struct of texts.
fn fields(text: &str) -> Option<Vec<(String, String)>> {
    match expression(text)? {
        Expr::Dictionary(fields) => {
            fields.iter().map(|field| Some((field.key.value.clone(), text_of(&field.value)?))).collect()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_have_names_and_types() {
        let mut options = Options::default();
        let set = |options: &mut Options, key: &str, value: &str| set(options, key, || Ok(value.to_owned()));
        assert!(set(&mut options, "columns", "{'a': 'INTEGER', 'b': 'DECIMAL(4,2)'}").expect("columns"));
        assert_eq!(options.names, ["a", "b"]);
        assert_eq!(options.types[1], (Some("b".to_owned()), LogicalType::Decimal { precision: 4, scale: 2 }));
        assert!(set(&mut options, "types", "['BIGINT']").expect("types"));
        assert_eq!(options.types, [(None, LogicalType::Int64)]);
        assert!(set(&mut options, "skip", "2").expect("a number") && options.skip == 2);
        assert!(!set(&mut options, "nothing", "2").expect("another"));
        for (key, value) in [("skip", "x"), ("columns", "['a']"), ("types", "{'a': 'NOTHING'}"), ("comment", "ab")] {
            assert!(set(&mut options, key, value).is_err(), "{key} {value}");
        }
    }
}
