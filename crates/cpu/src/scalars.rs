//! Rows of scalars as rows of words, for tests: what compiled code does, written for plainness.

use forebay_pipeline::Scalar;
use forebay_pipeline::ir::{Typed, ValueType};
use proptest::prelude::*;

use crate::layout::{HASH_SEED, RowLayout, hash_bytes, hash_end, hash_word};
use crate::vector::Vector;

/// The words of a value; bytes are kept by `keep`. NULL is 0.
pub(crate) fn words_of(scalar: &Scalar, value: ValueType, keep: &mut dyn FnMut(&[u8]) -> u64) -> Vec<u64> {
    match scalar {
        Scalar::Null => vec![0; crate::layout::words(value)],
        Scalar::Bool(value) => vec![u64::from(*value)],
        Scalar::I64(value) => vec![*value as u64],
        Scalar::I128(value) => vec![*value as u64, (*value >> 64) as u64],
        Scalar::F64(value) => vec![value.to_bits()],
        Scalar::Bytes(bytes) => vec![keep(bytes), bytes.len() as u64],
    }
}

/// A row of these values; what comes before them is 0.
pub(crate) fn row_of(layout: &RowLayout, values: &[Scalar], keep: &mut dyn FnMut(&[u8]) -> u64) -> Vec<u64> {
    let mut row = vec![0; layout.words];
    for (place, scalar) in layout.places.iter().zip(values) {
        let words = words_of(scalar, place.typed.value, keep);
        row[place.word..place.word + words.len()].copy_from_slice(&words);
        if let (Some(word), Some(bit), false) = (layout.validity, place.bit, scalar.is_null()) {
            row[word] |= 1 << bit;
        }
    }
    row
}

/// The hash of a key.
pub(crate) fn hash_of(key: &[Scalar]) -> u64 {
    let step = |hash, scalar: &Scalar| match scalar {
        Scalar::Null => hash_word(hash, 0),
        Scalar::Bytes(bytes) => hash_word(hash, hash_bytes(bytes)),
        _ => words_of(scalar, ValueType::I64, &mut |_| 0).into_iter().fold(hash, hash_word),
    };
    hash_end(key.iter().fold(HASH_SEED, step))
}

/// The rows of vectors.
pub(crate) fn rows_of(vectors: &[Vector], rows: usize, types: &[Typed]) -> Vec<Vec<Scalar>> {
    let row = |row| vectors.iter().zip(types).map(|(vector, typed)| vector.scalar(row, typed.value)).collect();
    (0..rows).map(row).collect()
}

/// A value of a small domain with extremes; NULL now and then where it may be.
pub(crate) fn scalar(typed: Typed, random: u64, domain: u64) -> Scalar {
    let number = (random >> 8) % domain;
    let is_extreme = random >> 40 & 15 == 0;
    if typed.nullable && random & 7 == 0 {
        return Scalar::Null;
    }
    match typed.value {
        ValueType::Bool => Scalar::Bool(number & 1 == 1),
        ValueType::I64 if is_extreme && random & 1 == 0 => Scalar::I64(i64::MIN),
        ValueType::I64 if is_extreme => Scalar::I64(i64::MAX),
        ValueType::I64 => Scalar::I64(number as i64 - 3),
        ValueType::I128 => Scalar::I128((i128::from(number) - 2) << ((random >> 50 & 1) * 90)),
        ValueType::F64 if is_extreme => Scalar::float(f64::NAN),
        ValueType::F64 => Scalar::float(number as f64 / 4.0 - 1.0),
        ValueType::Bytes if is_extreme => Scalar::bytes(&[number as u8; 5000]),
        ValueType::Bytes => Scalar::bytes(&b"some text that is long enough"[..(number % 30) as usize]),
    }
}

/// Any type.
pub(crate) fn any_typed() -> impl Strategy<Value = Typed> {
    let value = prop_oneof![
        3 => Just(ValueType::I64),
        1 => Just(ValueType::Bool),
        1 => Just(ValueType::I128),
        1 => Just(ValueType::F64),
        1 => Just(ValueType::Bytes),
    ];
    (value, any::<bool>()).prop_map(|(value, nullable)| Typed { value, nullable })
}

/// SplitMix64.
pub(crate) fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
