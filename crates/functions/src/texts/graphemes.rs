//! Texts by what readers take for a character: a letter with its marks, an emoji with its joiners.

use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::Result;
use unicode_segmentation::UnicodeSegmentation;

use crate::function::{Call, Definition, Shape, TEXT, is_integer};

pub(crate) const DEFINITIONS: &[Definition] = &[
    Definition { names: &["reverse"], shape: |types| shape(types, 1, TEXT), compute: reversed },
    Definition { names: &["length_grapheme"], shape: |types| shape(types, 1, DataType::Int64), compute: lengths },
    Definition { names: &["left_grapheme"], shape: |types| shape(types, 2, TEXT), compute: |call| sides(call, left) },
    Definition { names: &["right_grapheme"], shape: |types| shape(types, 2, TEXT), compute: |call| sides(call, right) },
    Definition { names: &["substring_grapheme"], shape: substring_shape, compute: substrings },
];

fn shape(types: &[DataType], count: usize, result: DataType) -> Option<Shape> {
    let [_, numbers @ ..] = types else { return None };
    let fits = types.len() == count && numbers.iter().all(is_integer);
    let mut arguments = vec![TEXT];
    arguments.resize(count, DataType::Int64);
    fits.then_some(Shape { arguments, result })
}

fn substring_shape(types: &[DataType]) -> Option<Shape> {
    shape(types, 2, TEXT).or_else(|| shape(types, 3, TEXT))
}

fn reversed(call: &Call<'_>) -> Result<ArrayRef> {
    let texts = call.texts(0);
    let reverse = |text: &str| match text.is_ascii() {
        true => text.chars().rev().collect::<String>(),
        false => text.graphemes(true).rev().collect(),
    };
    call.texts_of(|row| Ok(texts.is_valid(row).then(|| reverse(texts.value(row)))))
}

fn lengths(call: &Call<'_>) -> Result<ArrayRef> {
    let texts = call.texts(0);
    call.values_of::<Int64Type>(|row| Ok(texts.is_valid(row).then(|| texts.value(row).graphemes(true).count() as i64)))
}

fn sides(call: &Call<'_>, side: fn(&str, i64) -> String) -> Result<ArrayRef> {
    let (texts, counts) = (call.texts(0), call.integers(1));
    call.texts_of(|row| {
        let both = texts.is_valid(row) && counts.is_valid(row);
        Ok(both.then(|| side(texts.value(row), counts.value(row))))
    })
}

/// The first so many, or all but the last so many where the number is negative.
fn left(text: &str, count: i64) -> String {
    let all = text.graphemes(true).count() as i64;
    let kept = if count < 0 { all.saturating_add(count).max(0) } else { count };
    text.graphemes(true).take(kept as usize).collect()
}

/// The last so many, or all but the first so many where the number is negative.
fn right(text: &str, count: i64) -> String {
    let all = text.graphemes(true).count() as i64;
    let left_out = if count < 0 { count.saturating_neg() } else { all.saturating_sub(count).max(0) };
    text.graphemes(true).skip(left_out as usize).collect()
}

fn substrings(call: &Call<'_>) -> Result<ArrayRef> {
    let (texts, starts) = (call.texts(0), call.integers(1));
    let lengths = call.arguments.get(2).map(|_| call.integers(2));
    call.texts_of(|row| {
        let is_there = texts.is_valid(row) && starts.is_valid(row) && lengths.is_none_or(|all| all.is_valid(row));
        Ok(is_there.then(|| substring(texts.value(row), starts.value(row), lengths.map(|all| all.value(row)))))
    })
}

/// `length` of them from `start` on, counted from 1, or from the end; a negative length counts backwards.
fn substring(text: &str, start: i64, length: Option<i64>) -> String {
    let count = text.graphemes(true).count() as i64;
    let first = if start < 0 { count.saturating_add(start) } else { start - 1 };
    let behind = length.map_or(count, |length| first.saturating_add(length));
    let (from, to) = (first.min(behind).clamp(0, count), first.max(behind).clamp(0, count));
    text.graphemes(true).skip(from as usize).take((to - from) as usize).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_stay_with_their_letters() {
        let text = "🦆🤦🏼‍♂️e\u{301}🇩🇪";
        assert_eq!(
            (left(text, 2), right(text, 1), substring(text, 3, Some(1))),
            ("🦆🤦🏼‍♂️".into(), "🇩🇪".into(), "e\u{301}".into())
        );
        assert_eq!(
            (left("abc", -1), right("abc", -1), substring("abc", -2, None)),
            ("ab".into(), "bc".into(), "bc".into())
        );
        assert_eq!(
            (left("abc", -9), right("abc", -9), substring("abc", 2, Some(-1))),
            (String::new(), String::new(), "a".into())
        );
    }
}
