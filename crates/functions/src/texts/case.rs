//! Upper and lower case, character by character: no letter becomes two. Characters and their numbers.

use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::datatypes::{DataType, Int32Type, Int64Type};
use datafusion::common::Result;

use crate::function::{Call, Definition, Shape, TEXT, is_integer, is_text, refused};

pub(crate) const DEFINITIONS: &[Definition] = &[
    Definition { names: &["upper", "ucase"], shape: of_text, compute: |call| mapped(call, upper) },
    Definition { names: &["lower", "lcase"], shape: of_text, compute: |call| mapped(call, lower) },
    Definition { names: &["unicode", "ord"], shape: |types| shape(types, DataType::Int32), compute: code_points },
    Definition { names: &["chr"], shape: of_code, compute: characters },
    Definition { names: &["strlen"], shape: |types| shape(types, DataType::Int64), compute: bytes },
];

fn shape(types: &[DataType], result: DataType) -> Option<Shape> {
    (types.len() == 1).then(|| Shape { arguments: vec![TEXT], result })
}

/// Of texts alone: other values are cast to them by who means that.
fn of_text(types: &[DataType]) -> Option<Shape> {
    shape(types, TEXT).filter(|_| is_text(&types[0]))
}

fn mapped(call: &Call<'_>, map: fn(char) -> char) -> Result<ArrayRef> {
    let texts = call.texts(0);
    call.texts_of(|row| Ok(texts.is_valid(row).then(|| texts.value(row).chars().map(map).collect())))
}

/// The upper case of a letter that has one of its own.
fn upper(letter: char) -> char {
    match letter {
        'ß' => 'ẞ',
        // Greek letters with an iota below.
        'ᾀ'..='ᾇ' | 'ᾐ'..='ᾗ' | 'ᾠ'..='ᾧ' => char::from_u32(letter as u32 + 8).unwrap_or(letter),
        'ᾳ' | 'ῃ' | 'ῳ' => char::from_u32(letter as u32 + 9).unwrap_or(letter),
        _ => only(letter.to_uppercase()).unwrap_or(letter),
    }
}

/// The lower case of a letter.
pub(crate) fn lower(letter: char) -> char {
    match letter {
        'İ' => 'i',
        _ => only(letter.to_lowercase()).unwrap_or(letter),
    }
}

fn only(mut letters: impl Iterator<Item = char>) -> Option<char> {
    letters.next().filter(|_| letters.next().is_none())
}

fn code_points(call: &Call<'_>) -> Result<ArrayRef> {
    let texts = call.texts(0);
    let first = |text: &str| text.chars().next().map_or(-1, |c| c as i32);
    call.values_of::<Int32Type>(|row| Ok(texts.is_valid(row).then(|| first(texts.value(row)))))
}

fn of_code(types: &[DataType]) -> Option<Shape> {
    let [code] = types else { return None };
    (is_integer(code) || code.is_string()).then(|| Shape { arguments: vec![DataType::Int64], result: TEXT })
}

/// The characters of such code points.
fn characters(call: &Call<'_>) -> Result<ArrayRef> {
    let codes = call.integers(0);
    let character = |code: i64| {
        let character = u32::try_from(code).ok().and_then(char::from_u32);
        character.map(String::from).ok_or_else(|| {
            refused(
                format!("chr({code}): there is no such character"),
                "Code points are 0 to 55295 and 57344 to 1114111",
            )
        })
    };
    call.texts_of(|row| codes.is_valid(row).then(|| character(codes.value(row))).transpose())
}

fn bytes(call: &Call<'_>) -> Result<ArrayRef> {
    let texts = call.texts(0);
    call.values_of::<Int64Type>(|row| Ok(texts.is_valid(row).then(|| texts.value(row).len() as i64)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_letter_becomes_two() {
        let upper: String = "straße ŉ ǰ ᾳ ᾀ ﬀ ı ÿ ſ ა ǆ ᾼ և".chars().map(upper).collect();
        assert_eq!(upper, "STRAẞE ŉ ǰ ᾼ ᾈ ﬀ I Ÿ S Ა Ǆ ᾼ և");
        let lower: String = "İSTANBUL ẞ Σ ΑΣ K ǅ ᾼ".chars().map(lower).collect();
        assert_eq!(lower, "istanbul ß σ ασ k ǆ ᾳ");
    }
}
