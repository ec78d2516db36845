//! Texts filled up to a length, and freed from characters at their ends.

use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;

use crate::function::{Call, Definition, Shape, TEXT, is_integer, is_text, refused};

/// Bytes that a text may have.
const MOST_BYTES: usize = (1 << 32) - 1;

pub(crate) const DEFINITIONS: &[Definition] = &[
    Definition { names: &["lpad"], shape: pad_shape, compute: |call| padded(call, true) },
    Definition { names: &["rpad"], shape: pad_shape, compute: |call| padded(call, false) },
    Definition { names: &["btrim", "trim"], shape: trim_shape, compute: |call| trimmed(call, true, true) },
    Definition { names: &["ltrim"], shape: trim_shape, compute: |call| trimmed(call, true, false) },
    Definition { names: &["rtrim"], shape: trim_shape, compute: |call| trimmed(call, false, true) },
    Definition { names: &["repeat"], shape: repeat_shape, compute: repeated },
];

fn pad_shape(types: &[DataType]) -> Option<Shape> {
    let [text, length, fill] = types else { return None };
    let fits = is_text(text) && is_integer(length) && is_text(fill);
    fits.then(|| Shape { arguments: vec![TEXT, DataType::Int64, TEXT], result: TEXT })
}

fn padded(call: &Call<'_>, is_left: bool) -> Result<ArrayRef> {
    let (texts, lengths, fills) = (call.texts(0), call.integers(1), call.texts(2));
    call.texts_of(|row| {
        if !texts.is_valid(row) || !lengths.is_valid(row) || !fills.is_valid(row) {
            return Ok(None);
        }
        let (text, fill) = (texts.value(row), fills.value(row));
        let length = lengths.value(row).max(0) as usize;
        let count = text.chars().count();
        if length <= count {
            return Ok(Some(text.chars().take(length).collect()));
        }
        if fill.is_empty() {
            return Err(refused("lpad and rpad need a text to fill with", "Use a blank: lpad(x, 10, ' ')"));
        }
        if length > MOST_BYTES {
            return Err(refused(
                format!("a text of {length} characters is too long"),
                "Texts have 4294967295 bytes at most",
            ));
        }
        let filling: String = fill.chars().cycle().take(length - count).collect();
        Ok(Some(if is_left { filling + text } else { format!("{text}{filling}") }))
    })
}

fn trim_shape(types: &[DataType]) -> Option<Shape> {
    let fits = matches!(types.len(), 1 | 2) && types.iter().all(is_text);
    fits.then(|| Shape { arguments: vec![TEXT; types.len()], result: TEXT })
}

/// Blanks of every width, and no other white space.
fn is_blank(character: char) -> bool {
    matches!(character, ' ' | '\u{a0}' | '\u{1680}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}')
}

fn trimmed(call: &Call<'_>, at_start: bool, at_end: bool) -> Result<ArrayRef> {
    let texts = call.texts(0);
    let sets = call.arguments.get(1).map(|_| call.texts(1));
    let trim = |text: &str, is_one: &dyn Fn(char) -> bool| {
        let text = if at_start { text.trim_start_matches(is_one) } else { text };
        if at_end { text.trim_end_matches(is_one) } else { text }.to_owned()
    };
    call.texts_of(|row| match sets {
        _ if !texts.is_valid(row) => Ok(None),
        None => Ok(Some(trim(texts.value(row), &is_blank))),
        Some(sets) => Ok(sets.is_valid(row).then(|| {
            let set = sets.value(row);
            trim(texts.value(row), &|character| set.contains(character))
        })),
    })
}

fn repeat_shape(types: &[DataType]) -> Option<Shape> {
    let [text, count] = types else { return None };
    (is_text(text) && is_integer(count)).then(|| Shape { arguments: vec![TEXT, DataType::Int64], result: TEXT })
}

/// `repeat(text, count)`.
pub fn repeated(call: &Call<'_>) -> Result<ArrayRef> {
    let (texts, counts) = (call.texts(0), call.integers(1));
    call.texts_of(|row| {
        if !texts.is_valid(row) || !counts.is_valid(row) {
            return Ok(None);
        }
        let (text, count) = (texts.value(row), counts.value(row).max(0) as usize);
        match text.len().checked_mul(count).filter(|bytes| *bytes <= MOST_BYTES) {
            Some(_) => Ok(Some(text.repeat(if text.is_empty() { 0 } else { count }))),
            None => Err(refused(
                format!("{count} times {} bytes are too long a text", text.len()),
                "Texts have 4294967295 bytes at most",
            )),
        }
    })
}
