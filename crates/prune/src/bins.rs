//! Values as bins: ranges of a column's values, of which every block has a set (GOLAP §4.2's histograms, and what its sideways
//! pruning keeps of the rows of other tables). A column of few different values has a bin of each.
//!
//! Invariant: a value that occurs in a block is in a bin of the block's set; what a set says is absent is absent for sure.

use forebay_base::Value;
use forebay_block::Zone;
use forebay_pipeline::Predicate;

use crate::blocks::BlockBits;
use crate::may_pass;

/// Bins of values that there are at most, beside that of NULL and the number that is none.
pub const MOST_BINS: usize = 254;

/// The bin of NULL.
pub const NULL_BIN: u8 = 255;

/// The number of no bin: of a row that has no partner.
pub const NO_BIN: u8 = 254;

/// Bits of a set.
const BITS: usize = 256;

const WORD_BITS: usize = u64::BITS as usize;

/// Some of the bins of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct BinSet {
    words: [u64; BITS / WORD_BITS],
}

/// The bins of a column: ranges of values, ascending and apart from one another.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Bins {
    ranges: Vec<(Value, Value)>,
}

/// Puts values into bins, whose ranges grow by them.
#[derive(Debug, Clone)]
pub struct Binning {
    /// The greatest value of each bin but the last, which has all that are greater.
    uppers: Vec<Value>,
    ranges: Vec<Option<(Value, Value)>>,
}

impl BinSet {
    /// Bytes of a set.
    pub const BYTES: usize = BITS / 8;

    /// Adds a bin.
    pub fn insert(&mut self, bin: u8) {
        self.words[usize::from(bin) / WORD_BITS] |= 1 << (usize::from(bin) % WORD_BITS);
    }

    /// Adds the bins of another set.
    pub fn add(&mut self, other: &Self) {
        self.words.iter_mut().zip(other.words).for_each(|(mine, other)| *mine |= other);
    }

    /// Whether it has a bin.
    pub fn contains(&self, bin: u8) -> bool {
        self.words[usize::from(bin) / WORD_BITS] >> (usize::from(bin) % WORD_BITS) & 1 == 1
    }

    /// Whether both have a bin in common.
    pub fn meets(&self, other: &Self) -> bool {
        self.words.iter().zip(other.words).fold(0, |both, (mine, other)| both | mine & other) != 0
    }

    /// How many bins it has.
    pub fn count(&self) -> u32 {
        self.words.iter().map(|word| word.count_ones()).sum()
    }

    /// Whether it has no bin.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The set of the bins that these get as their numbers; NULL's stays what it is.
    #[must_use]
    pub fn renumbered(&self, numbers: &[u8]) -> Self {
        let mut set = Self::default();
        numbers
            .iter()
            .enumerate()
            .filter(|(bin, _)| self.contains(*bin as u8))
            .for_each(|(_, number)| set.insert(*number));
        if self.contains(NULL_BIN) {
            set.insert(NULL_BIN);
        }
        set
    }

    /// The set as bytes, bin 0 in the lowest bit of the first.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes.chunks_exact_mut(8).zip(self.words).for_each(|(to, word)| to.copy_from_slice(&word.to_le_bytes()));
        bytes
    }

    /// The set that these bytes are.
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        let mut set = Self::default();
        for (word, from) in set.words.iter_mut().zip(bytes.chunks_exact(8)) {
            let mut word_bytes = [0; 8];
            word_bytes.copy_from_slice(from);
            *word = u64::from_le_bytes(word_bytes);
        }
        set
    }
}

/// The blocks, of which these are the sets, that have no bin in common with `passing`.
pub fn apart_from(sets: &[BinSet], passing: &BinSet) -> BlockBits {
    BlockBits::from_fn(sets.len(), |block| !sets[block].meets(passing))
}

impl Bins {
    /// Bins with these ranges; `None` where they are not ascending and apart, or too many.
    pub fn new(ranges: Vec<(Value, Value)>) -> Option<Self> {
        let are_ranges = ranges.iter().all(|(low, high)| low <= high);
        let are_apart = ranges.windows(2).all(|pair| pair[0].1 < pair[1].0);
        (are_ranges && are_apart && ranges.len() <= MOST_BINS).then_some(Self { ranges })
    }

    /// The ranges, both ends included.
    pub fn ranges(&self) -> &[(Value, Value)] {
        &self.ranges
    }

    /// The bins that may have a value that passes `test`.
    pub fn passing(&self, test: &Predicate) -> BinSet {
        let mut set = BinSet::default();
        for (bin, (low, high)) in self.ranges.iter().enumerate() {
            let zone = Zone { rows: 1, null_count: 0, min: Some(low.clone()), max: Some(high.clone()) };
            let may = if low == high { test.passes(Some(low)) } else { may_pass(&zone, test) };
            if may {
                set.insert(bin as u8);
            }
        }
        if test.passes(None) {
            set.insert(NULL_BIN);
        }
        set
    }
}

impl Binning {
    /// Bins for a column of which `sample` are some values: one of each where they are few, else about equally many rows in
    /// each (equi-depth).
    pub fn of_sample(mut sample: Vec<Value>) -> Self {
        sample.sort();
        let mut uppers: Vec<Value> = Vec::new();
        let mut different = 0_usize;
        for (index, value) in sample.iter().enumerate() {
            if index == 0 || sample[index - 1] != *value {
                different += 1;
            }
        }
        if different <= MOST_BINS {
            sample.dedup();
            uppers = sample;
        } else {
            for bin in 1..=MOST_BINS {
                let last = (bin * sample.len() / MOST_BINS).saturating_sub(1);
                if uppers.last() != Some(&sample[last]) {
                    uppers.push(sample[last].clone());
                }
            }
        }
        uppers.pop();
        let ranges = vec![None; uppers.len() + 1];
        Self { uppers, ranges }
    }

    /// The bin of a value, whose range has it from now on.
    pub fn bin_of(&mut self, value: &Value) -> u8 {
        let bin = self.uppers.partition_point(|upper| upper < value);
        match &mut self.ranges[bin] {
            Some((low, high)) => {
                if value < low {
                    *low = value.clone();
                }
                if value > high {
                    *high = value.clone();
                }
            }
            none => *none = Some((value.clone(), value.clone())),
        }
        bin as u8
    }

    /// Takes in the ranges of bins that were filled by others from the same sample.
    pub fn add(&mut self, other: &Self) {
        for (low, high) in other.ranges.iter().flatten() {
            self.bin_of(low);
            self.bin_of(high);
        }
    }

    /// The bins that may have a value which passes `test`, by their numbers here, of those that have values.
    pub fn passing(&self, test: &Predicate) -> BinSet {
        let (bins, numbers) = self.clone().finish();
        let passing = bins.passing(test);
        let mut set = BinSet::default();
        let filled = (0..self.ranges.len()).filter(|bin| self.ranges[*bin].is_some());
        filled.filter(|bin| passing.contains(numbers[*bin])).for_each(|bin| set.insert(bin as u8));
        if passing.contains(NULL_BIN) {
            set.insert(NULL_BIN);
        }
        set
    }

    /// An empty copy with the same bins.
    #[must_use]
    pub fn empty(&self) -> Self {
        Self { uppers: self.uppers.clone(), ranges: vec![None; self.ranges.len()] }
    }

    /// The bins that have values, and for each bin of before its number among them; that of an empty one means nothing.
    pub fn finish(self) -> (Bins, Vec<u8>) {
        let mut numbers = Vec::with_capacity(self.ranges.len());
        let mut count = 0_u8;
        for range in &self.ranges {
            numbers.push(count);
            count = count.saturating_add(u8::from(range.is_some()));
        }
        (Bins { ranges: self.ranges.into_iter().flatten().collect() }, numbers)
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Bound;

    use super::*;

    fn ints(values: impl IntoIterator<Item = i128>) -> Vec<Value> {
        values.into_iter().map(Value::Int).collect()
    }

    fn range(low: i128, high: i128) -> Predicate {
        Predicate::Range { low: Bound::Included(Value::Int(low)), high: Bound::Included(Value::Int(high)) }
    }

    #[test]
    fn few_values_have_a_bin_each() {
        let mut binning = Binning::of_sample(ints([3, 1, 3, 7]));
        let numbers: Vec<u8> = ints([1, 3, 7]).iter().map(|value| binning.bin_of(value)).collect();
        assert_eq!(numbers, [0, 1, 2]);
        let (bins, _) = binning.finish();
        assert_eq!(bins.ranges(), ints([1, 3, 7]).into_iter().map(|v| (v.clone(), v)).collect::<Vec<_>>());
        let set = bins.passing(&Predicate::NotEqual(Value::Int(3)));
        assert!(set.contains(0) && !set.contains(1) && set.contains(2) && !set.contains(NULL_BIN));
        assert!(bins.passing(&Predicate::IsNull).contains(NULL_BIN));
        assert!(bins.passing(&range(4, 6)).is_empty());
    }

    #[test]
    fn values_that_the_sample_lacks_are_in_bins_too() {
        let mut binning = Binning::of_sample(ints([10, 20]));
        for value in [5, 15, 25] {
            binning.bin_of(&Value::Int(value));
        }
        let (bins, _) = binning.finish();
        for value in [5, 15, 25] {
            assert!(!bins.passing(&range(value, value)).is_empty(), "{value}");
        }
        let nothing = Binning::of_sample(Vec::new()).finish().0;
        assert_eq!(nothing.ranges(), []);
    }

    /// Whatever the sample: a set of the bins of some values meets those that pass a test that one of the values passes.
    #[test]
    fn no_value_is_ruled_out() {
        for step in [1, 3, 40] {
            let sample = ints((0..2000).step_by(step).map(|value| value * value % 1009));
            let mut binning = Binning::of_sample(sample);
            let values = ints((0..1500).map(|value| value * 7 % 1301));
            let bin_numbers: Vec<u8> = values.iter().map(|value| binning.bin_of(value)).collect();
            let (bins, numbers) = binning.finish();
            assert!(Bins::new(bins.ranges().to_vec()).is_some());
            for (value, bin) in values.iter().zip(bin_numbers) {
                let mut set = BinSet::default();
                set.insert(numbers[usize::from(bin)]);
                for test in [Predicate::equal(value.clone()), Predicate::one_of(vec![value.clone(), Value::Int(-5)])] {
                    assert!(bins.passing(&test).meets(&set), "{value:?} by {test:?}");
                }
            }
        }
    }

    #[test]
    fn sets_are_bytes_and_ranges_are_checked() {
        let mut set = BinSet::default();
        [0, 63, 64, 255].into_iter().for_each(|bin| set.insert(bin));
        assert_eq!(BinSet::from_bytes(&set.to_bytes()), set);
        let value = Value::Int;
        assert!(Bins::new(vec![(value(2), value(1))]).is_none());
        assert!(Bins::new(vec![(value(1), value(2)), (value(2), value(3))]).is_none());
        assert!(Bins::new(vec![(value(1), value(2)), (value(3), value(3))]).is_some());
    }
}
