//! How the states of pipelines lie in memory: the contract between compiled code, which reads and writes rows by
//! address, and the Rust that makes, merges and frees them.
//!
//! A *row* is a run of 8-byte words. Values of 16 bytes ([`ValueType::I128`], [`ValueType::Bytes`] as address and
//! length) take two words, all others one: Bool as 0 or 1, F64 as its canonical bits. Where a column may be NULL the row
//! has a word of validity bits; a NULL value's words are 0, so that rows with equal words and bits are equal.

use forebay_pipeline::ir::{Aggregate, AggregateFunction, AggregateState, JoinState, Typed, ValueType};

/// Bytes of a word.
pub const WORD: usize = 8;

/// What is looked up at random places of more bytes than this is loaded ahead: it does not fit a second-level cache.
pub(crate) const NEAR_BYTES: u64 = 2 << 20;

/// Words of a value.
pub fn words(value: ValueType) -> usize {
    match value {
        ValueType::Bool | ValueType::I64 | ValueType::F64 => 1,
        ValueType::I128 | ValueType::Bytes => 2,
    }
}

/// Where one value lies in its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place {
    /// Its type.
    pub typed: Typed,
    /// Its first word.
    pub word: usize,
    /// Its bit in the row's validity word, 1 = valid; `None` where it cannot be NULL.
    pub bit: Option<u32>,
}

/// Where the values of a row lie.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RowLayout {
    /// Words of a row.
    pub words: usize,
    /// The validity word; `None` where nothing can be NULL.
    pub validity: Option<usize>,
    /// The values, in order.
    pub places: Vec<Place>,
}

impl RowLayout {
    /// A row that begins with `header` words of another use, then the validity word if any, then the values.
    pub fn new(header: usize, values: impl Iterator<Item = Typed> + Clone) -> Self {
        let validity = values.clone().any(|typed| typed.nullable).then_some(header);
        let mut next = header + usize::from(validity.is_some());
        let mut bits = 0;
        let mut places = Vec::new();
        for typed in values {
            let bit = typed.nullable.then_some(bits);
            bits += u32::from(typed.nullable);
            places.push(Place { typed, word: next, bit });
            next += words(typed.value);
        }
        Self { words: next, validity, places }
    }
}

/// The rows of a build side: word 0 is the number of the next row of the same directory slot plus one (0 = none), word 1
/// the hash of the key; then the key's parts, then the payload.
pub fn build_row(state: &JoinState) -> RowLayout {
    RowLayout::new(2, state.keys.iter().chain(&state.payload).copied())
}

/// One accumulator: its value, and how it tells that it has seen an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Accumulator {
    /// What it accumulates.
    pub aggregate: Aggregate,
    /// The type that it accumulates in.
    pub value: ValueType,
    /// Its first word.
    pub word: usize,
    /// The word that is 1 once an argument was seen and 0 before; `None` where every row has an argument and the row of
    /// the group exists only once a row was seen.
    pub seen: Option<usize>,
}

/// The rows of an aggregation: word 0 is the hash of the key; then the key's parts, then the accumulators. A new row's
/// accumulator words are 0.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct GroupRow {
    /// The key.
    pub key: RowLayout,
    /// The accumulators.
    pub accumulators: Vec<Accumulator>,
    /// Words of a row.
    pub words: usize,
}

impl GroupRow {
    /// The rows of `state`.
    pub fn new(state: &AggregateState) -> Self {
        let key = RowLayout::new(1, state.keys.iter().copied());
        let mut next = key.words;
        let mut accumulators = Vec::new();
        for aggregate in &state.aggregates {
            let value = accumulated(aggregate);
            let counts = matches!(aggregate.function, AggregateFunction::CountRows | AggregateFunction::Count);
            let always = !state.keys.is_empty() && aggregate.argument.is_some_and(|argument| !argument.nullable);
            // Least and greatest start from the first argument, so that they must know whether there was one.
            let starts = matches!(
                aggregate.function,
                AggregateFunction::Min | AggregateFunction::Max | AggregateFunction::First
            );
            let seen = (!counts && (starts || !always)).then_some(next + words(value));
            accumulators.push(Accumulator { aggregate: *aggregate, value, word: next, seen });
            next += words(value) + usize::from(seen.is_some());
        }
        Self { key, accumulators, words: next }
    }
}

/// The type that an aggregate accumulates in.
fn accumulated(aggregate: &Aggregate) -> ValueType {
    let argument = aggregate.argument.map_or(ValueType::I64, |argument| argument.value);
    match (aggregate.function, argument) {
        (AggregateFunction::CountRows | AggregateFunction::Count, _) => ValueType::I64,
        (AggregateFunction::SumWide, _) | (AggregateFunction::Sum, ValueType::I64) => ValueType::I128,
        _ => argument,
    }
}

/// A directory slot of a build side or of groups: the row's number plus one in the low bits (0 = empty), a tag above.
/// Build sides: the tag has one bit set for each row that hangs on the slot, [`tag_bit`] of its hash (a Bloom filter of
/// 16 bits); rows are chained by their word 0. Groups: open addressing with linear probing, one row per slot, the tag is
/// [`group_tag`] of its hash.
pub const SLOT_ROW_BITS: u32 = 48;

/// The tag bit of a hash in a build side's directory slot, already in place.
pub fn tag_bit(hash: u64) -> u64 {
    1 << (SLOT_ROW_BITS + ((hash >> 28) & 15) as u32)
}

/// The tag of a hash in a directory slot of groups, already in place. Its bits are not those that choose the slot, which
/// neighbours share.
pub fn group_tag(hash: u64) -> u64 {
    hash << 32 >> SLOT_ROW_BITS << SLOT_ROW_BITS
}

/// The hash of a key starts with this.
pub const HASH_SEED: u64 = 0x9e37_79b9_7f4a_7c15;
/// Factor of every hash step.
pub const HASH_FACTOR: u64 = 0xd6e8_feb8_6659_fd93;

/// One step of hashing: a word of the key. Keys are hashed part by part, word by word, low word first; bytes give one
/// word, [`hash_bytes`] of them; NULL gives the word 0 and nothing else. The directory slot is in the top bits.
#[inline]
pub fn hash_word(hash: u64, word: u64) -> u64 {
    let mixed = (hash ^ word).wrapping_mul(HASH_FACTOR);
    mixed ^ (mixed >> 32)
}

/// The last step of hashing, which brings the key into the top bits.
#[inline]
pub fn hash_end(hash: u64) -> u64 {
    hash.wrapping_mul(HASH_FACTOR)
}

/// The word that bytes give to the hash of a key.
pub use forebay_base::hash::hash_bytes;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_hold_what_they_say() {
        let typed =
            [Typed::required(ValueType::I64), Typed::nullable(ValueType::Bytes), Typed::nullable(ValueType::Bool)];
        let row = RowLayout::new(2, typed.iter().copied());
        assert_eq!((row.words, row.validity), (7, Some(2)));
        let places: Vec<_> = row.places.iter().map(|place| (place.word, place.bit)).collect();
        assert_eq!(places, [(3, None), (4, Some(0)), (6, Some(1))]);
    }

    #[test]
    fn only_what_can_be_without_arguments_keeps_whether_it_saw_one() {
        let aggregate = |function, argument| Aggregate { function, argument };
        let required = Some(Typed::required(ValueType::I64));
        let aggregates = vec![
            aggregate(AggregateFunction::CountRows, None),
            aggregate(AggregateFunction::Sum, required),
            aggregate(AggregateFunction::Min, required),
        ];
        let grouped = AggregateState { keys: vec![Typed::required(ValueType::I64)], aggregates: aggregates.clone() };
        let seen = |state: &AggregateState| -> Vec<_> {
            GroupRow::new(state).accumulators.iter().map(|accumulator| accumulator.seen.is_some()).collect()
        };
        assert_eq!(seen(&grouped), [false, false, true]);
        assert_eq!(seen(&AggregateState { keys: vec![], aggregates }), [false, true, true]);
    }
}
