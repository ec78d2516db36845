//! Bloom filters of a build side's keys in blocks of a register (Putze, Sanders and Singler 2007): all bits of a key lie in
//! one word, so that asking for it is one load, whatever the keys are.
//!
//! Invariants: a filter says yes to every key that it was made of, and to few others; hashes are those of `layout.rs`, which
//! the rows of build sides carry. Must not know: tables, chunks.

use forebay_base::PhysicalType;

use crate::layout::{HASH_SEED, hash_bytes, hash_end, hash_word};
use crate::simd::{self, SimdLevel, WORD_ROWS, bloom_bits};
use crate::vector::Vector;

/// Keys of a word, at most: with 8 keys about one other key of 30 gets a yes, with 4 one of 200.
const WORD_KEYS: usize = 8;

/// The hashes of some keys.
#[derive(Debug)]
pub struct BloomFilter {
    /// Always a power of two, at least two.
    words: Vec<u64>,
    /// A hash shifted by this is the number of its word.
    shift: u32,
    keys: usize,
}

/// What a worker needs to ask a filter for many rows at once.
#[derive(Debug, Default)]
pub struct BloomScratch {
    hashes: Vec<u64>,
    masks: Vec<u64>,
}

impl BloomFilter {
    /// The filter of these hashes, of which there are at most so many.
    pub fn new(hashes: impl Iterator<Item = u64>, at_most: usize) -> Self {
        let words = at_most.div_ceil(WORD_KEYS).next_power_of_two().max(2);
        let shift = u64::BITS - words.ilog2();
        let (mut words, mut keys) = (vec![0; words], 0);
        for hash in hashes {
            words[(hash >> shift) as usize] |= bloom_bits(hash);
            keys += 1;
        }
        Self { words, shift, keys }
    }

    /// Rows that it was made of.
    pub fn keys(&self) -> usize {
        self.keys
    }

    /// Whether there may be a key with this hash. Every fast evaluation is compared with this one.
    pub fn may_have(&self, hash: u64) -> bool {
        let bits = bloom_bits(hash);
        self.words[(hash >> self.shift) as usize] & bits == bits
    }

    /// Appends to `found` the numbers of the first `rows` rows whose key there may be; `key` has a vector for each part, of
    /// integers of at most 8 bytes or of strings. NULL is no key.
    pub fn select(
        &self,
        key: &[Vector],
        rows: usize,
        level: SimdLevel,
        scratch: &mut BloomScratch,
        found: &mut Vec<u16>,
    ) {
        let BloomScratch { hashes, masks } = scratch;
        hashes.clear();
        hashes.resize(rows, HASH_SEED);
        masks.clear();
        masks.resize(rows.div_ceil(WORD_ROWS), u64::MAX);
        if let Some(last) = masks.last_mut().filter(|_| !rows.is_multiple_of(WORD_ROWS)) {
            *last = (1 << (rows % WORD_ROWS)) - 1;
        }
        for part in key {
            add_part(part, hashes);
            if let Some(validity) = part.validity() {
                for (mask, validity) in masks.iter_mut().zip(validity[..rows].chunks(WORD_ROWS)) {
                    let valid = validity.iter().enumerate();
                    *mask &= valid.fold(0, |bits, (row, valid)| bits | u64::from(*valid) << row);
                }
            }
        }
        hashes.iter_mut().for_each(|hash| *hash = hash_end(*hash));
        simd::bloom(level, hashes, &self.words, self.shift, masks);
        simd::positions(level, masks, found);
    }

    /// Bytes of memory that it holds.
    pub fn memory_bytes(&self) -> usize {
        size_of_val(self.words.as_slice())
    }
}

/// Goes on hashing with one part of the key of each row.
fn add_part(part: &Vector, hashes: &mut [u64]) {
    macro_rules! integers {
        ($native:ty) => {
            for (hash, value) in hashes.iter_mut().zip(part.values::<$native>()) {
                *hash = hash_word(*hash, i64::from(*value) as u64);
            }
        };
    }
    match part.physical() {
        PhysicalType::I8 => integers!(i8),
        PhysicalType::I16 => integers!(i16),
        PhysicalType::I32 => integers!(i32),
        PhysicalType::I64 => integers!(i64),
        PhysicalType::U8 => integers!(u8),
        PhysicalType::U16 => integers!(u16),
        PhysicalType::U32 => integers!(u32),
        PhysicalType::Bytes => {
            for (row, hash) in hashes.iter_mut().enumerate() {
                let bytes = if part.is_valid(row) { part.bytes(row) } else { &[] };
                *hash = hash_word(*hash, hash_bytes(bytes));
            }
        }
        other => unreachable!("keys of {other:?} are hashed in other words"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_base::Value;

    fn hash_of(parts: &[Option<Value>]) -> Option<u64> {
        let words = parts.iter().map(|part| match part.as_ref()? {
            Value::Int(value) => Some(*value as i64 as u64),
            Value::Bytes(bytes) => Some(hash_bytes(bytes)),
            Value::Float(_) => None,
        });
        let words: Option<Vec<u64>> = words.collect();
        Some(hash_end(words?.into_iter().fold(HASH_SEED, hash_word)))
    }

    fn vector(physical: PhysicalType, values: &[Option<Value>]) -> Vector {
        let mut vector = Vector::default();
        vector.load_values(physical, &values.iter().map(Option::as_ref).collect::<Vec<_>>());
        vector
    }

    /// Every SIMD level finds the rows that the naive look-up finds, whatever the types, the NULLs and the number of rows.
    #[test]
    fn every_simd_level_finds_what_may_be_there() {
        let types = [PhysicalType::I8, PhysicalType::U16, PhysicalType::I32, PhysicalType::I64, PhysicalType::Bytes];
        let mut state = 12_345u64;
        let mut next = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 33
        };
        for case in 0..300usize {
            let rows = [0, 1, 7, 63, 64, 65, 500, 8192][case % 8];
            let parts: Vec<PhysicalType> = (0..1 + case % 3).map(|part| types[(case / 3 + part) % 5]).collect();
            let mut value = |physical| match physical {
                _ if case % 2 == 1 && next() % 9 == 0 => None,
                PhysicalType::Bytes => Some(Value::Bytes(format!("text {}", next() % 300).into_bytes())),
                PhysicalType::I8 => Some(Value::Int(i128::from(next() % 256) - 128)),
                PhysicalType::U16 => Some(Value::Int(i128::from(next() % 65_536))),
                PhysicalType::I32 => Some(Value::Int(i128::from(next() as i32))),
                _ => Some(Value::Int(i128::from(next() as i64) * 0x1_0000_0001)),
            };
            let table: Vec<Vec<Option<Value>>> =
                (0..rows).map(|_| parts.iter().map(|physical| value(*physical)).collect()).collect();
            let wanted = table.iter().step_by(3).filter_map(|row| hash_of(row));
            let filter = BloomFilter::new(wanted, rows / 3 + 1);
            let naive: Vec<u16> = (0..rows)
                .filter(|row| hash_of(&table[*row]).is_some_and(|hash| filter.may_have(hash)))
                .map(|row| row as u16)
                .collect();
            let of_part = |(part, physical): (usize, &PhysicalType)| {
                let values: Vec<Option<Value>> = table.iter().map(|row| row[part].clone()).collect();
                vector(*physical, &values)
            };
            let key: Vec<Vector> = parts.iter().enumerate().map(of_part).collect();
            for level in SimdLevel::ALL.into_iter().filter(|level| level.is_available()) {
                let (mut scratch, mut found) = (BloomScratch::default(), vec![]);
                filter.select(&key, rows, level, &mut scratch, &mut found);
                assert_eq!(found, naive, "{level:?}, case {case}");
            }
            let present = (0..rows).step_by(3).filter(|row| hash_of(&table[*row]).is_some());
            assert!(present.into_iter().all(|row| naive.contains(&(row as u16))), "case {case}");
        }
    }

    #[test]
    fn few_other_keys_get_a_yes() {
        let hash = |key: u64| hash_end(hash_word(HASH_SEED, key));
        for keys in [1, 100, 10_000, 262_144] {
            let filter = BloomFilter::new((0..keys).map(hash), keys as usize);
            let others = (0..20_000).filter(|key| filter.may_have(hash(1 << 40 | key))).count();
            assert!(others < 1000, "{others} of 20,000 beside {keys} keys");
        }
    }
}
