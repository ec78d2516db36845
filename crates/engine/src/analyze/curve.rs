//! Orders in which rows that are close in several columns at once lie close together, whatever the order of the columns: along a
//! curve through the space of their ranks, Z-order (Morton 1966) or Hilbert's. A query of any one of the columns then finds its rows
//! in few blocks; by the order of columns only one of the first does.
//!
//! A rank is the share of the rows that have less, as a sample tells: so that a column of few values has as much weight as one of
//! many, and skew does not matter. Pure: numbers in, numbers out.

use forebay_base::{Error, Result};

/// How the columns of an order go together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Curve {
    /// One after the other: the second tells rows apart that are equal in the first.
    #[default]
    Lexicographic,
    /// All at once, by the bits of their ranks in turn.
    ZOrder,
    /// All at once, along Hilbert's curve: neighbours on it differ in one rank by one.
    Hilbert,
}

/// Bits of a rank, where there is room for them.
const MOST_BITS: usize = 16;

/// Numbers that a bin may have.
const BINS: usize = 256;

impl Curve {
    /// All, with their names in SQL; none of that which needs none.
    pub const NAMED: [(&'static str, Self); 2] = [("ZORDER", Self::ZOrder), ("HILBERT", Self::Hilbert)];

    /// What SQL calls it.
    pub fn name(self) -> Option<&'static str> {
        Self::NAMED.iter().find(|(_, known)| *known == self).map(|(name, _)| *name)
    }

    /// The curve that is called so.
    ///
    /// # Errors
    /// `Input` for another name.
    pub fn named(name: &str) -> Result<Self> {
        let found = Self::NAMED.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, curve)| *curve).ok_or_else(|| {
            Error::input(format!("there is no order {name}"))
                .hint("Write CLUSTER BY (a, b), CLUSTER BY ZORDER (a, b) or CLUSTER BY HILBERT (a, b)")
        })
    }
}

/// Where rows are on a curve, by their numbers in the order of the columns: a byte for the bin of each.
#[derive(Debug)]
pub(crate) struct Places {
    curve: Curve,
    bits: usize,
    /// By column and bin: the rank.
    ranks: Vec<[u32; BINS]>,
}

impl Places {
    /// Places of rows that are distributed as those with these numbers, of so many columns; `None` where the numbers are the places.
    pub(crate) fn of(curve: Curve, numbers: &[u64], columns: usize) -> Option<Self> {
        if curve == Curve::Lexicographic || columns < 2 || numbers.is_empty() {
            return None;
        }
        let bits = (u64::BITS as usize / columns).min(MOST_BITS);
        let ranks_of = |column| {
            let mut rows = [0_u64; BINS];
            numbers.iter().for_each(|number| rows[bin(*number, column, columns)] += 1);
            let mut less = 0;
            rows.map(|own| {
                let rank = ((u128::from(less) << bits) / numbers.len() as u128).min((1 << bits) - 1) as u32;
                less += own;
                rank
            })
        };
        Some(Self { curve, bits, ranks: (0..columns).map(ranks_of).collect() })
    }

    /// Puts places in the stead of numbers.
    pub(crate) fn replace(&self, numbers: &mut [u64]) {
        let columns = self.ranks.len();
        let mut ranks = vec![0; columns];
        for number in numbers {
            for (column, (rank, of_bins)) in ranks.iter_mut().zip(&self.ranks).enumerate() {
                *rank = of_bins[bin(*number, column, columns)];
            }
            if self.curve == Curve::Hilbert {
                to_hilbert(&mut ranks, self.bits);
            }
            *number = interleaved(&ranks, self.bits);
        }
    }
}

fn bin(number: u64, column: usize, columns: usize) -> usize {
    usize::from((number >> (8 * (columns - 1 - column))) as u8)
}

/// The bits of ranks in turn, the highest ones first.
fn interleaved(ranks: &[u32], bits: usize) -> u64 {
    let highest_first = (0..bits).rev().flat_map(|bit| ranks.iter().map(move |rank| rank >> bit & 1));
    highest_first.fold(0, |place, bit| place << 1 | u64::from(bit))
}

/// Coordinates as the number of their point on Hilbert's curve, whose bits they have in turn then (Skilling 2004).
fn to_hilbert(point: &mut [u32], bits: usize) {
    // From the greatest cubes to the smallest: those that the curve passes mirrored or turned are turned back.
    for bit in (1..bits).rev() {
        let (own, below) = (1_u32 << bit, (1_u32 << bit) - 1);
        for axis in 0..point.len() {
            if point[axis] & own != 0 {
                point[0] ^= below;
            } else {
                let differing = (point[0] ^ point[axis]) & below;
                point[0] ^= differing;
                point[axis] ^= differing;
            }
        }
    }
    // Neighbouring cubes differ in one axis: a Gray code.
    for axis in 1..point.len() {
        point[axis] ^= point[axis - 1];
    }
    let last = point[point.len() - 1];
    let flipped = (1..bits).filter(|bit| last >> bit & 1 == 1).fold(0, |all, bit| all ^ ((1_u32 << bit) - 1));
    point.iter_mut().for_each(|axis| *axis ^= flipped);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The points of a cube in the order of their places.
    fn walk(axes: usize, bits: usize, is_hilbert: bool) -> Vec<Vec<u32>> {
        let side = 1_u32 << bits;
        let mut points: Vec<(u64, Vec<u32>)> = (0..side.pow(axes as u32))
            .map(|number| {
                let point: Vec<u32> = (0..axes as u32).map(|axis| number / side.pow(axis) % side).collect();
                let mut place = point.clone();
                if is_hilbert {
                    to_hilbert(&mut place, bits);
                }
                (interleaved(&place, bits), point)
            })
            .collect();
        points.sort();
        assert!(points.iter().zip(0..).all(|((place, _), number)| *place == number), "each place once");
        points.into_iter().map(|(_, point)| point).collect()
    }

    #[test]
    fn neighbours_on_the_curve_are_neighbours_in_space() {
        for (axes, bits) in [(2, 1), (2, 4), (3, 3), (4, 2), (5, 2), (1, 5)] {
            let points = walk(axes, bits, true);
            for pair in points.windows(2) {
                let distance: u32 = pair[0].iter().zip(&pair[1]).map(|(a, b)| a.abs_diff(*b)).sum();
                assert_eq!(distance, 1, "{axes} axes of {bits} bits: {pair:?}");
            }
        }
        let z = walk(2, 2, false);
        assert_eq!(z[..4], [[0, 0], [0, 1], [1, 0], [1, 1]]);
    }

    #[test]
    fn ranks_are_shares_of_rows() {
        // The first column has two values, of which one is rare; the second has 100 that are equally frequent.
        let numbers: Vec<u64> = (0..10_000).map(|row| u64::from(row % 100 == 0) << 8 | (row / 100 % 100)).collect();
        let places = Places::of(Curve::ZOrder, &numbers, 2).expect("a curve");
        assert_eq!(places.bits, MOST_BITS);
        assert_eq!(places.ranks[0][..2], [0, (99 << 16) / 100]);
        assert_eq!(places.ranks[1][50], 1 << 15);
        assert!(places.ranks[1].is_sorted());
        // Of blocks with a hundredth of the rows, each has a part of both columns' range.
        for curve in [Curve::ZOrder, Curve::Hilbert] {
            let numbers: Vec<u64> = (0..65_536_u64).map(|row| row * 40_503 % 65_536).collect();
            let mut placed: Vec<(u64, u64)> = numbers.iter().map(|number| (*number, *number)).collect();
            let places = Places::of(curve, &numbers, 2).expect("a curve");
            placed.iter_mut().for_each(|(place, _)| places.replace(std::slice::from_mut(place)));
            placed.sort_unstable();
            for block in placed.chunks(65_536 / 64) {
                for column in 0..2 {
                    let bins: std::collections::BTreeSet<_> =
                        block.iter().map(|(_, number)| bin(*number, column, 2)).collect();
                    assert!(bins.len() <= 64, "{curve:?}: {} of 256", bins.len());
                }
            }
        }
    }

    #[test]
    fn the_plain_order_and_one_column_stay_as_they_are() {
        assert!(Places::of(Curve::Lexicographic, &[1, 2], 2).is_none());
        assert!(Places::of(Curve::Hilbert, &[1, 2], 1).is_none());
        assert!(Places::of(Curve::Hilbert, &[], 2).is_none());
        let most = Places::of(Curve::Hilbert, &[0, u64::MAX], 8).expect("a curve");
        assert_eq!(most.bits, 8);
        let mut ends = [0, u64::MAX, 255];
        most.replace(&mut ends);
        assert!(ends[0] == 0 && ends[1] != ends[2]);
        assert_eq!(Curve::named("hilbert").expect("known"), Curve::Hilbert);
        assert!(Curve::named("peano").is_err());
        assert!(Curve::NAMED.iter().all(|(name, curve)| curve.name() == Some(name)));
    }
}
