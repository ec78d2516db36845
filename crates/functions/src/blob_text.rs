//! Blobs in text files: every byte as `\xHH`, which other databases read too. Read are such escapes and plain characters;
//! a backslash that begins no escape is an error, so that no bytes change on the way.

use std::fmt::Write as _;
use std::sync::Arc;

use datafusion::arrow::array::{Array, AsArray, BinaryViewBuilder, StringViewBuilder};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result as DataFusionResult;
use datafusion::logical_expr::{ColumnarValue, Expr, Volatility, create_udf};
use forebay_base::{Error, Result};
use forebay_context::error::into_datafusion;

/// `blob` as text.
pub fn text_of_blob(blob: Expr) -> Expr {
    let write = |values: &[ColumnarValue]| -> DataFusionResult<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(values)?;
        let blobs = cast(&arrays[0], &DataType::BinaryView)?;
        let mut out = StringViewBuilder::with_capacity(blobs.len());
        for blob in blobs.as_binary_view() {
            out.append_option(blob.map(escaped));
        }
        Ok(ColumnarValue::Array(Arc::new(out.finish())))
    };
    let (input, output) = (vec![DataType::BinaryView], DataType::Utf8View);
    create_udf("text_of_blob", input, output, Volatility::Immutable, Arc::new(write)).call(vec![blob])
}

/// `text` as the blob that it stands for.
pub fn blob_of_text(text: Expr) -> Expr {
    let read = |values: &[ColumnarValue]| -> DataFusionResult<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(values)?;
        let texts = cast(&arrays[0], &DataType::Utf8View)?;
        let mut out = BinaryViewBuilder::with_capacity(texts.len());
        for text in texts.as_string_view() {
            out.append_option(text.map(unescaped).transpose().map_err(into_datafusion)?);
        }
        Ok(ColumnarValue::Array(Arc::new(out.finish())))
    };
    let (input, output) = (vec![DataType::Utf8View], DataType::BinaryView);
    create_udf("blob_of_text", input, output, Volatility::Immutable, Arc::new(read)).call(vec![text])
}

/// `blob` as people read it: as text, but for bytes that are no plain character, and those that mean something in SQL.
pub(crate) fn shown(blob: &[u8]) -> String {
    let mut text = String::with_capacity(blob.len());
    for byte in blob {
        match byte {
            b'\\' | b'\'' | b'"' => write!(text, "\\x{byte:02X}").expect("a String takes what is written"),
            b' '..=b'~' => text.push(char::from(*byte)),
            _ => write!(text, "\\x{byte:02X}").expect("a String takes what is written"),
        }
    }
    text
}

fn escaped(blob: &[u8]) -> String {
    let mut text = String::with_capacity(4 * blob.len());
    for byte in blob {
        write!(text, "\\x{byte:02X}").expect("a String takes what is written");
    }
    text
}

/// The bytes that `text` stands for. Errors: a backslash that begins no escape.
pub(crate) fn unescaped(text: &str) -> Result<Vec<u8>> {
    let wrong = || {
        let shown: String = text.chars().take(40).collect();
        Error::input(format!("cannot read {shown:?} as BLOB")).hint("A byte is written \\x and two hexadecimal digits")
    };
    let mut blob = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, behind)) = rest.split_first() {
        rest = behind;
        if *byte != b'\\' {
            blob.push(*byte);
            continue;
        }
        let Some(([b'x', high, low], behind)) = rest.split_first_chunk() else { return Err(wrong()) };
        let digit = |character: &u8| char::from(*character).to_digit(16).ok_or_else(wrong);
        blob.push((digit(high)? * 16 + digit(low)?) as u8);
        rest = behind;
    }
    Ok(blob)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_survives() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(unescaped(&escaped(&all)).expect("own text"), all);
        assert_eq!(unescaped("a\\x00b").expect("mixed"), b"a\0b");
    }

    #[test]
    fn what_is_no_escape_is_an_error() {
        for text in ["\\", "\\x", "\\x1", "\\xg0", "a\\n"] {
            assert!(unescaped(text).is_err(), "{text}");
        }
    }
}
