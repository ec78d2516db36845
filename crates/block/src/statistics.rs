//! What is kept of a column's values for estimates: how many different ones there are, and where they lie.
//!
//! Different values are counted by HyperLogLog (Flajolet, Fusy, Gandouet, Meunier 2007): each value's hash chooses a
//! register, which keeps the greatest number of leading zeros seen. Where integers lie is told by some of them, evenly
//! spread over the sorted values: bounds of an equi-depth histogram.
//!
//! Invariants: what several parts add and merge is what one would have added; registers stay below
//! [`REGISTER_LIMIT`]. The hash is part of the format: registers of several segments are merged. Must not know: who
//! estimates what.

use forebay_base::hash::{hash_bits, hash_bytes};
use forebay_base::limits;

use crate::column::{FixedRows, PlainColumn, PlainValues};
use crate::distinct::KnownPlaces;
use crate::native::Native;
use crate::validity;

/// Bits of a hash that choose a register.
const INDEX_BITS: u32 = limits::SKETCH_REGISTERS.ilog2();
/// No register holds more: one more than the zeros that the rest of a hash can begin with.
pub const REGISTER_LIMIT: u8 = (u64::BITS - INDEX_BITS + 1) as u8;
/// Rows of a block that are sampled.
const BLOCK_SAMPLES: usize = 256;

/// Statistics of a column's values. NULLs are none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ColumnStatistics {
    /// [`limits::SKETCH_REGISTERS`] of them, or none where there is no value.
    registers: Vec<u8>,
    /// Some integers, in any order until [`ColumnStatistics::thin`].
    sample: Vec<i128>,
}

impl ColumnStatistics {
    /// What was kept: all registers or none of them, below [`REGISTER_LIMIT`], and at most [`limits::SAMPLE_VALUES`]
    /// integers in ascending order. `None` where it cannot have been.
    pub fn from_parts(registers: Vec<u8>, sample: Vec<i128>) -> Option<Self> {
        let right = (registers.is_empty() || registers.len() == limits::SKETCH_REGISTERS)
            && registers.iter().all(|register| *register <= REGISTER_LIMIT)
            && sample.len() <= limits::SAMPLE_VALUES
            && sample.is_sorted();
        right.then_some(Self { registers, sample })
    }

    /// The registers; none where no value was added.
    pub fn registers(&self) -> &[u8] {
        &self.registers
    }

    /// Some integers of the column; in ascending order after [`ColumnStatistics::thin`].
    pub fn sample(&self) -> &[i128] {
        &self.sample
    }

    /// Adds the values of a block.
    pub fn add(&mut self, column: &PlainColumn<'_>) {
        self.add_sampled(column);
        let is_valid = |row: usize| column.validity.is_none_or(|bitmap| validity::is_valid(bitmap, row));
        if !has_values(column) {
            return;
        }
        self.registers.resize(limits::SKETCH_REGISTERS, 0);
        match column.values {
            PlainValues::Fixed(bytes) => crate::with_native!(
                column.physical,
                T => self.count_fixed::<T>(bytes, column),
                bytes => {}
            ),
            PlainValues::Bytes(values) => {
                let mut known = KnownPlaces::new();
                for (_, value) in values.iter().enumerate().filter(|(row, _)| is_valid(*row)) {
                    known.id(value, || {
                        self.note(hash_bytes(value));
                        Some(0)
                    });
                }
            }
        }
    }

    /// Adds where the values of a block lie, and not how many different ones there are: for who knows that from elsewhere.
    pub fn add_sampled(&mut self, column: &PlainColumn<'_>) {
        if let (PlainValues::Fixed(bytes), true) = (column.values, has_values(column)) {
            crate::with_native!(column.physical, T => self.sample_fixed::<T>(bytes, column), bytes => {});
        }
    }

    fn sample_fixed<T: Native>(&mut self, bytes: &[u8], column: &PlainColumn<'_>) {
        if !T::INTEGER {
            return;
        }
        let is_valid = |row: &usize| column.validity.is_none_or(|bitmap| validity::is_valid(bitmap, *row));
        let (rows, step) = (FixedRows::<T>::new(bytes, None), column.rows.div_ceil(BLOCK_SAMPLES));
        let sampled = (step / 2..column.rows).step_by(step).filter(is_valid);
        self.sample.extend(sampled.map(|row| rows.get(row).bits()));
    }

    fn count_fixed<T: Native>(&mut self, bytes: &[u8], column: &PlainColumn<'_>) {
        let nulls = column.validity.filter(|bitmap| !validity::all_valid(bitmap, column.rows));
        let mut last = None;
        FixedRows::<T>::new(bytes, nulls).for_each_piece(|values| {
            for value in values {
                let bits = value.bits();
                // Sorted and repeated values cost a comparison.
                if last != Some(bits) {
                    last = Some(bits);
                    self.note(hash_bits(bits));
                }
            }
        });
    }

    /// A value with this hash is there.
    #[inline]
    fn note(&mut self, hash: u64) {
        let hash = mixed(hash);
        let register = &mut self.registers[(hash >> (u64::BITS - INDEX_BITS)) as usize];
        // The bit behind the hash stops the count.
        let rank = (hash << INDEX_BITS | 1 << (INDEX_BITS - 1)).leading_zeros() as u8 + 1;
        // Registers grow rarely: who only reads them does not wait for what the last value wrote.
        if rank > *register {
            *register = rank;
        }
    }

    /// Adds what was seen elsewhere.
    pub fn merge(&mut self, other: &Self) {
        self.merge_counts(other);
        self.sample.extend_from_slice(&other.sample);
    }

    /// Adds the different values that were seen elsewhere, and not where they lie.
    pub fn merge_counts(&mut self, other: &Self) {
        if !other.registers.is_empty() {
            self.registers.resize(limits::SKETCH_REGISTERS, 0);
        }
        for (register, seen) in self.registers.iter_mut().zip(&other.registers) {
            *register = (*register).max(*seen);
        }
    }

    /// Sorts the sample and keeps at most [`limits::SAMPLE_VALUES`] of it, evenly spread.
    pub fn thin(&mut self) {
        self.sample.sort_unstable();
        let (all, kept) = (self.sample.len(), limits::SAMPLE_VALUES);
        if all > kept {
            self.sample = (0..kept).map(|number| self.sample[(2 * number + 1) * all / (2 * kept)]).collect();
        }
    }

    /// Different values, estimated: the standard error is about 3 %, and less for up to some thousand values.
    pub fn distinct(&self) -> f64 {
        if self.registers.is_empty() {
            return 0.0;
        }
        let count = self.registers.len() as f64;
        let mut of_rank = [0u32; REGISTER_LIMIT as usize + 1];
        self.registers.iter().for_each(|register| of_rank[usize::from(*register)] += 1);
        let empty = of_rank[0];
        let harmonic: f64 = (0..).zip(of_rank).map(|(rank, registers)| f64::from(registers) * 0.5f64.powi(rank)).sum();
        let raw = 0.7213 / (1.0 + 1.079 / count) * count * count / harmonic;
        match empty {
            // Linear counting (Whang et al. 1990) is better as long as registers are empty.
            1.. if raw <= 2.5 * count => count * (count / f64::from(empty)).ln(),
            _ => raw,
        }
    }
}

/// Whether some row is not NULL: a bitmap without a valid row leaves nothing to stand in for NULLs.
fn has_values(column: &PlainColumn<'_>) -> bool {
    column.rows > 0 && column.validity.is_none_or(|bitmap| validity::count_valid(bitmap, column.rows) > 0)
}

/// Bits of a hash as if they were drawn: those of neighbouring integers are too even to count by (the finisher of
/// MurmurHash3).
#[inline]
fn mixed(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_base::PhysicalType;

    fn of_integers(values: &[i64]) -> ColumnStatistics {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let values = PlainValues::Fixed(&bytes);
        let rows = bytes.len() / 8;
        let mut statistics = ColumnStatistics::default();
        statistics.add(&PlainColumn { physical: PhysicalType::I64, rows, validity: None, values });
        statistics
    }

    fn error(estimate: f64, truth: usize) -> f64 {
        (estimate - truth as f64).abs() / truth as f64
    }

    #[test]
    fn estimates_are_within_a_few_standard_errors() {
        for step in [1i64, 3, 4, 100, 1 << 20, -7] {
            for count in [1usize, 2, 10, 500, 3000, 10_000, 65_536] {
                let values: Vec<i64> = (0..count as i64).map(|number| number.wrapping_mul(step) + 5).collect();
                let estimate = of_integers(&values).distinct();
                assert!(error(estimate, count) < 0.12, "{count} values {step} apart: {estimate}");
            }
        }
        let strings: Vec<String> = (0..20_000).map(|number| format!("Customer#{number:09}")).collect();
        let slices: Vec<&[u8]> = strings.iter().map(|text| text.as_bytes()).collect();
        let mut statistics = ColumnStatistics::default();
        let values = PlainValues::Bytes(&slices);
        statistics.add(&PlainColumn { physical: PhysicalType::Bytes, rows: slices.len(), validity: None, values });
        assert!(error(statistics.distinct(), slices.len()) < 0.12, "{}", statistics.distinct());
        assert!(statistics.sample().is_empty(), "only integers are sampled");
    }

    #[test]
    fn errors_are_small_on_average() {
        let errors = (0..40i64).map(|seed| {
            let values: Vec<i64> = (0..30_000).map(|number| number * 2_654_435_761 + (seed << 40)).collect();
            error(of_integers(&values).distinct(), values.len())
        });
        let mean = errors.sum::<f64>() / 40.0;
        assert!(mean < 0.05, "{mean}");
    }

    #[test]
    fn parts_merge_to_the_whole() {
        let values: Vec<i64> = (0..50_000).map(|number| number % 7_000).collect();
        let whole = of_integers(&values);
        let mut merged = ColumnStatistics::default();
        for part in values.chunks(9_000) {
            merged.merge(&of_integers(part));
        }
        assert_eq!(merged.registers(), whole.registers());
        let before = merged.clone();
        merged.merge(&ColumnStatistics::default());
        assert_eq!(merged, before);
        // Counted here, sampled there.
        let bytes: Vec<u8> = values[..9_000].iter().flat_map(|value| value.to_le_bytes()).collect();
        let values = PlainValues::Fixed(&bytes);
        let mut apart = ColumnStatistics::default();
        apart.add_sampled(&PlainColumn { physical: PhysicalType::I64, rows: 9_000, validity: None, values });
        assert!(apart.registers().is_empty());
        let counted = of_integers(&(0..9_000).map(|number| number % 7_000).collect::<Vec<_>>());
        apart.merge_counts(&counted);
        assert_eq!(apart, counted);
    }

    #[test]
    fn nulls_are_no_values() {
        let bytes: Vec<u8> = (0..64i64).flat_map(i64::to_le_bytes).collect();
        let column = |validity| PlainColumn {
            physical: PhysicalType::I64,
            rows: 64,
            validity: Some(validity),
            values: PlainValues::Fixed(&bytes),
        };
        let mut none = ColumnStatistics::default();
        none.add(&column(&[0; 8]));
        assert_eq!((none.distinct(), none.registers().len(), none.sample().len()), (0.0, 0, 0));
        let mut some = ColumnStatistics::default();
        some.add(&column(&[0b11, 0, 0, 0, 0, 0, 0, 0x80]));
        assert!((some.distinct() - 3.0).abs() < 0.1, "{}", some.distinct());
    }

    #[test]
    fn samples_are_thinned_evenly() {
        let mut statistics = ColumnStatistics::default();
        for _ in 0..20 {
            statistics.merge(&of_integers(&(0..10_000).rev().collect::<Vec<_>>()));
        }
        statistics.thin();
        let sample = statistics.sample().to_vec();
        assert_eq!(sample.len(), limits::SAMPLE_VALUES);
        assert!(sample.is_sorted());
        let middle = sample[sample.len() / 2];
        assert!((4_000..6_000).contains(&middle), "{middle}");
        let kept = ColumnStatistics::from_parts(statistics.registers().to_vec(), sample.clone());
        assert_eq!(kept, Some(statistics));
        let mut unsorted = sample;
        unsorted.swap(0, 9);
        assert_eq!(ColumnStatistics::from_parts(Vec::new(), unsorted), None);
        assert_eq!(ColumnStatistics::from_parts(vec![0; 7], Vec::new()), None);
        assert_eq!(ColumnStatistics::from_parts(vec![REGISTER_LIMIT + 1; limits::SKETCH_REGISTERS], Vec::new()), None);
    }
}
