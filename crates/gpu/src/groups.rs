//! How groups lie in device memory: slots of 8-byte words by the position of their key (`kernels/aggregate.cuh`).
//!
//! Invariants: all words begin as 0; a group is there where its first word, the number of its rows, is not 0. Integer sums
//! are exact whatever the order. Must not know: who fills the words.

use forebay_base::{Error, Result, canonical_f64};
use forebay_pipeline::ir::{Aggregate, AggregateFunction, AggregateState, Typed, ValueType};
use forebay_pipeline::semantics::narrow;
use forebay_pipeline::{Fault, Scalar};

/// Slots that a table may have.
const SLOT_LIMIT: u128 = 1 << 24;

/// What is kept of an aggregate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// Nothing of its own: the number of rows.
    Rows,
    /// A number of rows.
    Count,
    /// A sum of integers in so many words.
    Sum(usize),
    /// A sum of floats.
    SumFloat,
    /// The greatest value, as its rank.
    Greatest,
    /// The least value, as the complement of its rank.
    Least,
}

/// The words of one aggregate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// What is kept.
    pub kept: Kept,
    /// Its first word.
    pub at: usize,
    /// The word that counts arguments that are not NULL, where some may be.
    pub seen: Option<usize>,
}

/// The words of a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotLayout {
    /// Number of words, at least one.
    pub words: usize,
    /// By aggregate.
    pub places: Vec<Place>,
}

impl SlotLayout {
    /// The layout for some aggregates; an error says which one a device cannot keep.
    pub fn new(aggregates: &[Aggregate]) -> Result<Self> {
        let mut words = 1;
        let mut take = |count: usize| {
            words += count;
            words - count
        };
        let mut places = Vec::new();
        for aggregate in aggregates {
            let nullable = aggregate.argument.is_some_and(|argument| argument.nullable);
            let kept = kept(aggregate)?;
            places.push(match kept {
                Kept::Count if !nullable => Place { kept: Kept::Rows, at: 0, seen: None },
                Kept::Rows => Place { kept, at: 0, seen: None },
                Kept::Count => Place { kept, at: take(1), seen: None },
                Kept::Sum(count) => Place { kept, at: take(count), seen: nullable.then(|| take(1)) },
                Kept::SumFloat | Kept::Greatest | Kept::Least => {
                    Place { kept, at: take(1), seen: nullable.then(|| take(1)) }
                }
            });
        }
        Ok(Self { words, places })
    }
}

fn kept(aggregate: &Aggregate) -> Result<Kept> {
    use AggregateFunction as Function;
    let argument = aggregate.argument.map(|argument| argument.value);
    let unsupported = || Err(Error::unsupported(format!("the device has no {aggregate}")));
    Ok(match (aggregate.function, argument) {
        (Function::CountRows, _) => Kept::Rows,
        (Function::Count, _) => Kept::Count,
        (Function::SumFitting, _) => Kept::Sum(1),
        (Function::Sum | Function::SumWide, Some(ValueType::I64)) => Kept::Sum(2),
        (Function::Sum, Some(ValueType::I128)) => Kept::Sum(3),
        (Function::Sum, Some(ValueType::F64)) => Kept::SumFloat,
        (Function::Min, Some(ValueType::I64 | ValueType::F64 | ValueType::Bool)) => Kept::Least,
        // Any argument may be the first one.
        (Function::Max | Function::First, Some(ValueType::I64 | ValueType::F64 | ValueType::Bool)) => Kept::Greatest,
        _ => return unsupported(),
    })
}

/// One part of a group's key as it lies: numbers from `low`, NULL behind them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyRange {
    /// The least number.
    pub low: i64,
    /// How many there are.
    pub count: u64,
    /// Slots from one number to the next.
    pub stride: u64,
}

/// Where each group lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceGroupTable {
    /// By part of the key.
    pub keys: Vec<KeyRange>,
    /// Number of slots, at least one.
    pub slots: u64,
    /// The words of each.
    pub layout: SlotLayout,
}

impl DeviceGroupTable {
    /// A table for keys in these ranges (least and greatest number; booleans are 0 and 1); an error says why there is none.
    pub fn new(state: &AggregateState, ranges: &[(i64, i64)]) -> Result<Self> {
        let layout = SlotLayout::new(&state.aggregates)?;
        let mut slots: u128 = 1;
        let mut keys = Vec::new();
        for (key, (low, high)) in state.keys.iter().zip(ranges) {
            if !matches!(key.value, ValueType::I64 | ValueType::Bool) {
                return Err(Error::unsupported(format!("groups on the device have no keys of type {key}")));
            }
            let count = (i128::from(*high) - i128::from(*low) + 1).max(0) as u128;
            keys.push(KeyRange { low: *low, count: count as u64, stride: slots as u64 });
            slots = slots.saturating_mul(count + u128::from(key.nullable)).max(1);
            if slots > SLOT_LIMIT {
                return Err(Error::unsupported(format!("groups on the device have at most {SLOT_LIMIT} places")));
            }
        }
        Ok(Self { keys, slots: slots as u64, layout })
    }

    /// Bytes of all slots.
    pub fn bytes(&self) -> u64 {
        self.slots * self.layout.words as u64 * 8
    }

    /// The groups that are there: keys, then results. `words` are those of all slots.
    pub fn rows(&self, state: &AggregateState, words: &[u64]) -> Result<Vec<Vec<Scalar>>> {
        let slots = words.chunks(self.layout.words).enumerate();
        let there = slots.filter(|(_, words)| words[0] != 0 || state.keys.is_empty());
        there.map(|(slot, words)| self.row(state, slot as u64, words)).collect()
    }

    /// The groups that `compact` kept: for each its slot, then its words.
    pub fn kept_rows(&self, state: &AggregateState, kept: &[u64]) -> Result<Vec<Vec<Scalar>>> {
        kept.chunks_exact(self.kept_words()).map(|group| self.row(state, group[0], &group[1..])).collect()
    }

    /// Words of a group that `compact` kept.
    pub fn kept_words(&self) -> usize {
        self.layout.words + 1
    }

    fn row(&self, state: &AggregateState, slot: u64, words: &[u64]) -> Result<Vec<Scalar>> {
        let mut row: Vec<Scalar> =
            self.keys.iter().zip(&state.keys).map(|(range, typed)| key(range, *typed, slot)).collect();
        for (place, aggregate) in self.layout.places.iter().zip(&state.aggregates) {
            row.push(result(place, aggregate, words)?);
        }
        Ok(row)
    }
}

fn key(range: &KeyRange, typed: Typed, slot: u64) -> Scalar {
    let at = slot / range.stride % (range.count + u64::from(typed.nullable)).max(1);
    if at == range.count {
        return Scalar::Null;
    }
    let number = range.low.wrapping_add(at as i64);
    if typed.value == ValueType::Bool { Scalar::Bool(number != 0) } else { Scalar::I64(number) }
}

/// What an aggregate gives.
fn result(place: &Place, aggregate: &Aggregate, words: &[u64]) -> Result<Scalar> {
    if words[place.seen.unwrap_or(0)] == 0 && !matches!(place.kept, Kept::Rows | Kept::Count) {
        return Ok(Scalar::Null);
    }
    let own = &words[place.at..];
    let of_key = |key: i64| match aggregate.argument.map(|argument| argument.value) {
        Some(ValueType::F64) => Scalar::F64(float_of_key(key)),
        Some(ValueType::Bool) => Scalar::Bool(key != 0),
        _ => Scalar::I64(key),
    };
    const SIGN: u64 = 1 << 63;
    Ok(match place.kept {
        Kept::Rows | Kept::Count => Scalar::I64(own[0] as i64),
        Kept::Sum(1) => Scalar::I64(own[0] as i64),
        Kept::Sum(count) => {
            let sum = (i128::from(own[1] as i64) << 64) | i128::from(own[0]);
            // The third word must only repeat the sign.
            if count == 3 && own[2] as i64 != (sum >> 127) as i64 {
                return Err(Fault::Overflow.into());
            }
            match aggregate.result().value {
                ValueType::I64 => Scalar::I64(narrow(sum)?),
                _ => Scalar::I128(sum),
            }
        }
        Kept::SumFloat => Scalar::F64(canonical_f64(f64::from_bits(own[0]))),
        Kept::Greatest => of_key((own[0] ^ SIGN) as i64),
        Kept::Least => of_key((!own[0] ^ SIGN) as i64),
    })
}

/// Inverse of the key that orders floats; NaN is the greatest.
fn float_of_key(key: i64) -> f64 {
    match key {
        i64::MAX => f64::NAN,
        _ => f64::from_bits((key ^ (((key >> 63) as u64) >> 1) as i64) as u64),
    }
}
