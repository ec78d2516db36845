//! Columns that were read as texts, in their types: what stands for NULL, how numbers and moments are written, and which rows cannot
//! be cast.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::execution::SessionState;
use datafusion::functions::core::expr_fn::nullif;
use datafusion::functions::string::expr_fn::{btrim, replace};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, lit};
use datafusion::prelude::{cast, ident, try_cast};
use forebay_base::{Error, Result};
use forebay_context::functions::Functions;
use forebay_forms::file_options::Options;

use crate::input::without_null_text;

/// The values of the column `name`, read as texts, in a type; dates and timestamps in a form that `strptime` reads. Those that cannot
/// be cast are errors, or NULL with `ignore_errors`.
///
/// # Errors
/// A session without the functions of this program.
pub(crate) fn value(
    state: &SessionState,
    name: &str,
    data_type: &DataType,
    form: Option<&str>,
    options: &Options,
) -> Result<Expr> {
    let is_text = data_type.is_string();
    let text = known(name, is_text, options);
    let text = if is_text { text } else { btrim(vec![number(text, data_type, options)]) };
    let or_null = options.ignore_errors;
    let Some(form) = form else {
        return Ok(match or_null {
            true => try_cast(text, data_type.clone()),
            false => cast(text, data_type.clone()),
        });
    };
    let function = if or_null { "try_strptime" } else { "strptime" };
    let parse = Functions::of(state.config()).scalar(function).cloned();
    let parse = parse.ok_or_else(|| Error::internal(format!("a session without {function}")))?;
    let form = lit(ScalarValue::Utf8(Some(form.to_owned())));
    Ok(cast(parse.call(vec![text, form]), data_type.clone()))
}

/// The condition of the rows whose values, of these names, can all be cast; `None` where that is not asked for.
pub(crate) fn castable<'a>(values: impl Iterator<Item = (&'a str, &'a Expr)>, options: &Options) -> Option<Expr> {
    if !options.ignore_errors {
        return None;
    }
    conjunction(values.map(|(name, value)| known(name, false, options).is_null().or(value.clone().is_not_null())))
}

/// A column without the texts that stand for NULL.
fn known(name: &str, holds_text: bool, options: &Options) -> Expr {
    let null = options.null.as_deref().unwrap_or_default();
    let first = without_null_text(ident(name), null, holds_text);
    options.more_nulls.iter().fold(first, |value, null| nullif(value, lit(null.as_str())))
}

/// The text of a number as casts read it.
fn number(text: Expr, data_type: &DataType, options: &Options) -> Expr {
    let mut text = text;
    if !data_type.is_numeric() {
        return text;
    }
    if let Some(thousands) = options.thousands {
        text = replace(text, lit(char::from(thousands).to_string()), lit(""));
    }
    match options.decimal {
        Some(separator) if separator != b'.' => replace(text, lit(char::from(separator).to_string()), lit(".")),
        _ => text,
    }
}
