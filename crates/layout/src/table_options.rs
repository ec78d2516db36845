//! Options of tables and columns that say how they lie on disk, as statements give them: `WITH (compression = 'zstd')`.

use datafusion::sql::sqlparser::ast::{Expr, Ident, SqlOption, Value};
use forebay_base::{ColumnId, Error, Result};
use forebay_context::error::suggestion;
use forebay_engine::Goal;
use forebay_engine::analyze::{BLOOM_OPTION, FilterChoice};
use forebay_engine::goal::COMPRESSION_OPTION;
use forebay_store::TableOptions;

use crate::CLUSTER_OPTION;

/// The options that there are.
const OPTIONS: [&str; 3] = [BLOOM_OPTION, CLUSTER_OPTION, COMPRESSION_OPTION];

/// Adds options of a table or a column, none twice.
///
/// # Errors
/// Options that are not there, and values that they do not have.
pub fn add(all: &mut TableOptions, column: Option<ColumnId>, options: &[SqlOption]) -> Result<()> {
    for option in options {
        let SqlOption::KeyValue { key, value } = option else {
            return Err(Error::input(format!("the option {option} has no value")).hint("Write WITH (name = value)"));
        };
        let name = known(key)?;
        if all.get(column, name).is_some() {
            return Err(Error::input(format!("option {name} is given twice")));
        }
        if name == CLUSTER_OPTION {
            let message = format!("{name} is no option that is given a value");
            return Err(Error::input(message).hint("Use ALTER TABLE t CLUSTER BY (column, …)"));
        }
        let number = |value: &Expr| match value {
            Expr::Value(value) if name == BLOOM_OPTION => match &value.value {
                Value::Number(number, _) => Some(number.clone()),
                Value::Boolean(value) => Some(if *value { "on" } else { "off" }.to_owned()),
                _ => None,
            },
            _ => None,
        };
        let text = text(value).or_else(|| number(value)).ok_or_else(|| {
            Error::input(format!("{name} = {value} is not possible"))
                .hint("Give a name, as in WITH (compression = 'zstd')")
        })?;
        match name {
            BLOOM_OPTION => all.set(column, name, Some(&text.parse::<FilterChoice>()?.text())),
            _ => all.set(column, name, Some(Goal::parse(&text)?.name())),
        }
    }
    Ok(())
}

/// The option of this name.
///
/// # Errors
/// There is none.
pub fn known(name: &Ident) -> Result<&'static str> {
    let found = OPTIONS.into_iter().find(|option| option.eq_ignore_ascii_case(&name.value));
    found.ok_or_else(|| {
        let error = Error::input(format!("there is no option {name} of tables and columns"));
        match suggestion(&name.value, OPTIONS.into_iter()) {
            Some(other) => error.hint(format!("Did you mean {other}?")),
            None => error.hint(format!("They have the options {}", OPTIONS.join(", "))),
        }
    })
}

/// The text of a string or a word.
fn text(value: &Expr) -> Option<String> {
    match value {
        Expr::Identifier(word) => Some(word.value.clone()),
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text.clone()),
            _ => None,
        },
        _ => None,
    }
}
