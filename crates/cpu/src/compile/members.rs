//! The lists of IN that compiled code looks up by calls.

use std::sync::Arc;

use forebay_base::canonical_f64;
use forebay_pipeline::ir::{Constant, ValueType};

/// The constants of an IN list.
#[derive(Debug)]
pub(super) enum Members {
    I64(Vec<i64>),
    I128(Vec<i128>),
    /// Canonical bits.
    F64(Vec<u64>),
    Bytes(Vec<Arc<[u8]>>),
    /// Bytes, each in a word ([`packed`]).
    ShortBytes(Vec<u64>),
}

/// Few words are compared with all, without a branch for each.
const FEW: usize = 16;

impl Members {
    /// A list of constants of one type, none of them NULL.
    pub(super) fn new(value: ValueType, list: &[Constant]) -> Self {
        let integers = || {
            list.iter().filter_map(|constant| match constant {
                Constant::Int(value) => Some(*value),
                _ => None,
            })
        };
        let mut members = match value {
            ValueType::I128 => Self::I128(integers().collect()),
            ValueType::F64 => Self::F64(list.iter().filter_map(float_bits).collect()),
            ValueType::Bytes => Self::of_bytes(list.iter().filter_map(text).collect()),
            ValueType::I64 | ValueType::Bool => Self::I64(integers().filter_map(|x| i64::try_from(x).ok()).collect()),
        };
        match &mut members {
            Self::I64(list) => list.sort_unstable(),
            Self::I128(list) => list.sort_unstable(),
            Self::F64(list) => list.sort_unstable(),
            Self::Bytes(list) => list.sort_unstable(),
            Self::ShortBytes(list) => list.sort_unstable(),
        }
        members
    }

    fn of_bytes(list: Vec<Arc<[u8]>>) -> Self {
        match list.iter().map(|bytes| packed(bytes)).collect() {
            Some(words) => Self::ShortBytes(words),
            None => Self::Bytes(list),
        }
    }
}

/// Whether bytes are among these, which are sorted.
pub(super) fn has(list: &[Arc<[u8]>], bytes: &[u8]) -> bool {
    list.binary_search_by(|member| (**member).cmp(bytes)).is_ok()
}

/// Whether bytes are among these, which are sorted and [`packed`].
pub(super) fn has_short(list: &[u64], bytes: &[u8]) -> bool {
    match packed(bytes) {
        Some(word) if list.len() <= FEW => list.iter().fold(false, |found, member| found | (*member == word)),
        Some(word) => list.binary_search(&word).is_ok(),
        None => false,
    }
}

/// Up to seven bytes and their number as one word.
fn packed(bytes: &[u8]) -> Option<u64> {
    let length = bytes.len() as u64;
    (length < 8).then(|| bytes.iter().fold(length, |word, byte| word << 8 | u64::from(*byte)))
}

fn float_bits(constant: &Constant) -> Option<u64> {
    match constant {
        Constant::Float(value) => Some(canonical_f64(*value).to_bits()),
        _ => None,
    }
}

fn text(constant: &Constant) -> Option<Arc<[u8]>> {
    match constant {
        Constant::Bytes(bytes) => Some(Arc::clone(bytes)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_texts_are_found_by_words() {
        let texts = ["", "a", "ab", "ba", "\0", "\0\0", "abcdefg", "abcdefgh", "bcdefgh", "\u{1}\0"];
        for count in [1, 3, 7, 40] {
            let several = (0..count).map(|number| format!("n{number}"));
            let list: Vec<String> = texts[..7].iter().map(|text| (*text).to_owned()).chain(several).collect();
            let constants: Vec<Constant> = list.iter().map(|text| Constant::Bytes(text.as_bytes().into())).collect();
            let Members::ShortBytes(words) = Members::new(ValueType::Bytes, &constants) else {
                panic!("all are short")
            };
            for text in list.iter().map(String::as_str).chain(texts) {
                assert_eq!(has_short(&words, text.as_bytes()), list.iter().any(|member| member == text), "{text:?}");
            }
        }
        let long = [Constant::Bytes((*b"abcdefgh").into())];
        assert!(matches!(Members::new(ValueType::Bytes, &long), Members::Bytes(_)));
    }
}
