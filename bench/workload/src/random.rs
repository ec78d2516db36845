//! Random numbers by row: the numbers of a row depend on seed, table and row number, and on nothing drawn before.
//!
//! SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014) with a mixed start per row.

/// A table's own stream of rows; the values are part of the generated data and never change.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Stream {
    Customer = 1,
    Supplier = 2,
    Part = 3,
    Order = 4,
    Hit = 5,
    User = 6,
    Page = 7,
    Phrase = 8,
    Trip = 9,
    TripDay = 10,
    TripZone = 11,
    Ranking = 12,
    Visit = 13,
    Visitor = 14,
    Query = 15,
    Terminal = 16,
}

/// The numbers of one row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowRandom(u64);

const GOLDEN_GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A random number as one below `bound`.
pub(crate) fn scaled(number: u64, bound: u64) -> u64 {
    ((u128::from(number) * u128::from(bound)) >> 64) as u64
}

impl RowRandom {
    pub(crate) fn new(seed: u64, stream: Stream, row: u64) -> Self {
        let table = mix(seed.wrapping_add((stream as u64).wrapping_mul(GOLDEN_GAMMA)));
        // Mixing the row, not adding it, keeps the sequences of neighbouring rows from overlapping.
        Self(mix(table ^ mix(row.wrapping_add(GOLDEN_GAMMA))))
    }

    /// The number at a place of the row, whatever else is drawn: columns can be made one at a time.
    pub(crate) fn at(&self, place: u64) -> u64 {
        mix(self.0.wrapping_add((place + 1).wrapping_mul(GOLDEN_GAMMA)))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN_GAMMA);
        mix(self.0)
    }

    /// A number below `bound`, uniform up to a bias of `bound`/2^64.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        scaled(self.next(), bound)
    }

    /// A number from `low` to `high`, both included.
    pub(crate) fn range(&mut self, low: i32, high: i32) -> i32 {
        low + self.below((high - low + 1) as u64) as i32
    }

    /// One of `choices`.
    pub(crate) fn choose<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_covered_evenly() {
        let mut counts = [0u32; 7];
        for row in 0..70_000 {
            let mut random = RowRandom::new(42, Stream::Order, row);
            counts[random.range(1, 7) as usize - 1] += 1;
        }
        assert!(counts.iter().all(|&count| (9_600..10_400).contains(&count)), "{counts:?}");
    }

    #[test]
    fn rows_tables_and_seeds_differ() {
        let first = |seed, stream, row| RowRandom::new(seed, stream, row).next();
        let base = first(1, Stream::Part, 7);
        assert_eq!(base, first(1, Stream::Part, 7));
        for other in [first(2, Stream::Part, 7), first(1, Stream::Order, 7), first(1, Stream::Part, 8)] {
            assert_ne!(base, other);
        }
    }
}
