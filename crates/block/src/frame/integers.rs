//! Choosing among the schemes of integers, and decoding them.
//!
//! Candidates compete by estimated bytes; what decodes more slowly has to save for it.

use super::bits::Unpack;
use super::reader::Wrong;
use super::statistics::Statistics;
use super::word::Word;
use super::{Scheme, bit_packed, delta, patched, run_length};

/// Whether runs may be made of the values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cascade {
    /// The values of a frame.
    Outer,
    /// The parts of a run-length frame.
    Inner,
}

/// Runs have to be so long on average before run-length encoding is looked at.
const LEAST_RUN_ROWS: usize = 2;
/// Percent of the bytes of plain bit packing that another scheme may have at most, since it decodes more slowly.
const MOST_PERCENT: usize = 90;

/// Scheme and about how many bytes `values` have by it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate {
    pub(crate) scheme: Scheme,
    pub(crate) bytes: usize,
}

/// The candidate that is stored.
pub(crate) fn choose<T: Word>(statistics: &Statistics, cascade: Cascade) -> Candidate {
    let plain = Candidate { scheme: Scheme::Plain, bytes: statistics.count * size_of::<T>() };
    let packed = Candidate { scheme: Scheme::BitPacked, bytes: bit_packed::size(statistics) };
    let mut best = if packed.bytes < plain.bytes { packed } else { plain };
    let mut others = vec![
        Candidate { scheme: Scheme::Delta, bytes: delta::plan::<T>(statistics).1 },
        Candidate { scheme: Scheme::Patched, bytes: patched::plan::<T>(statistics).1 },
    ];
    if cascade == Cascade::Outer && statistics.runs * LEAST_RUN_ROWS <= statistics.count {
        others.push(Candidate { scheme: Scheme::RunLength, bytes: run_length::size(statistics) });
    }
    let least = best.bytes * MOST_PERCENT / 100;
    if let Some(smallest) = others.into_iter().filter(|other| other.bytes <= least).min_by_key(|other| other.bytes) {
        best = smallest;
    }
    best
}

/// Appends `values` by the best scheme.
pub(crate) fn encode_best<T: Word>(values: &[T], cascade: Cascade, out: &mut Vec<u8>) -> Scheme {
    let statistics = Statistics::of(values);
    let start = out.len();
    let scheme = choose::<T>(&statistics, cascade).scheme;
    encode(scheme, values, &statistics, out);
    // Some sizes are estimates.
    if out.len() - start > bit_packed::size(&statistics) {
        out.truncate(start);
        encode(Scheme::BitPacked, values, &statistics, out);
        return Scheme::BitPacked;
    }
    scheme
}

/// Appends `values` by one of the schemes of integers.
pub(crate) fn encode<T: Word>(scheme: Scheme, values: &[T], statistics: &Statistics, out: &mut Vec<u8>) {
    match scheme {
        Scheme::BitPacked => bit_packed::encode(values, statistics, out),
        Scheme::Patched => patched::encode(values, patched::plan::<T>(statistics).0, statistics, out),
        Scheme::Delta => delta::encode(values, delta::plan::<T>(statistics).0, statistics, out),
        Scheme::RunLength => run_length::encode(values, out),
        Scheme::Plain
        | Scheme::Lz4
        | Scheme::Zstd
        | Scheme::Snappy
        | Scheme::Deflate
        | Scheme::Rans
        | Scheme::Fsst
        | Scheme::Alp => out.extend_from_slice(bytemuck::cast_slice(values)),
    }
}

/// Fills `values` from what one of the schemes of integers stored.
pub(crate) fn decode<T: Word>(with: &dyn Unpack, scheme: Scheme, stored: &[u8], values: &mut [T]) -> Result<(), Wrong> {
    match scheme {
        Scheme::BitPacked => bit_packed::decode(with, stored, values),
        Scheme::Patched => patched::decode(with, stored, values),
        Scheme::Delta => delta::decode(with, stored, values),
        Scheme::RunLength => run_length::decode(with, stored, values),
        Scheme::Plain
        | Scheme::Lz4
        | Scheme::Zstd
        | Scheme::Snappy
        | Scheme::Deflate
        | Scheme::Rans
        | Scheme::Fsst
        | Scheme::Alp => Err("its scheme is not one of integers"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::bits::PortableUnpack;
    use super::*;

    const SCHEMES: [Scheme; 4] = [Scheme::BitPacked, Scheme::Patched, Scheme::Delta, Scheme::RunLength];

    fn round_trip<T: Word>(values: &[T]) {
        let statistics = Statistics::of(values);
        for scheme in SCHEMES {
            let mut stored = Vec::new();
            encode(scheme, values, &statistics, &mut stored);
            let mut out = vec![T::default(); values.len()];
            decode(&PortableUnpack, scheme, &stored, &mut out).expect("own frames decode");
            assert_eq!(out, values, "{scheme:?}");
            assert!(stored.len().is_multiple_of(8), "{scheme:?}");
        }
    }

    fn round_trips(values: &[u64]) {
        round_trip(values);
        round_trip(&values.iter().map(|value| *value as u32).collect::<Vec<_>>());
        round_trip(&values.iter().map(|value| *value as u16).collect::<Vec<_>>());
        round_trip(&values.iter().map(|value| *value as u8).collect::<Vec<_>>());
    }

    /// Values of several shapes: noise of a width, sorted, runs, mostly small with outliers.
    fn values() -> impl Strategy<Value = Vec<u64>> {
        let shape = (0..4u8, 0..64u32, prop_oneof![1..40usize, 1000..1100usize, Just(5000)], any::<u64>());
        shape.prop_map(|(shape, width, count, seed)| {
            let mut state = seed | 1;
            let mut noise = || {
                state = state.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29) ^ seed;
                state >> width
            };
            let mut last = noise();
            (0..count)
                .map(|row| match shape {
                    0 => noise(),
                    1 => {
                        last = last.wrapping_add(noise() % 17);
                        last
                    }
                    2 => {
                        last = if noise() % 5 == 0 { noise() } else { last };
                        last
                    }
                    _ => {
                        if row % 97 == 3 {
                            noise()
                        } else {
                            noise() % 9 + 1000
                        }
                    }
                })
                .collect()
        })
    }

    proptest! {
        #[test]
        fn every_scheme_reads_back(values in values()) {
            round_trips(&values);
        }
    }

    #[test]
    fn extremes_read_back() {
        round_trips(&[0]);
        round_trips(&[u64::MAX]);
        round_trips(&[0, u64::MAX, 0, u64::MAX]);
        round_trips(&vec![7; 65_536]);
        round_trips(&(0..8192).map(|value| value << 50 | value).collect::<Vec<_>>());
    }

    #[test]
    fn the_right_scheme_is_chosen() {
        let scheme = |values: &[u32]| choose::<u32>(&Statistics::of(values), Cascade::Outer).scheme;
        let scattered = |row: u32| row.wrapping_mul(0x9E37_79B9);
        assert_eq!(scheme(&(0..16_384).map(|row| scattered(row) >> 12).collect::<Vec<_>>()), Scheme::BitPacked);
        assert_eq!(scheme(&(0..16_384).map(scattered).collect::<Vec<_>>()), Scheme::Plain);
        assert_eq!(scheme(&(0..16_384).map(|row| row * 3 + (scattered(row) >> 31)).collect::<Vec<_>>()), Scheme::Delta);
        assert_eq!(scheme(&(0..16_384).map(|row| scattered(row / 9) >> 12).collect::<Vec<_>>()), Scheme::RunLength);
        // Days of months: a large step now and then.
        let days = |row: u32| row / 30 * 71 + row;
        assert_eq!(scheme(&(0..16_384).map(days).collect::<Vec<_>>()), Scheme::Delta);
        let mut stored = Vec::new();
        encode_best(&(0..16_384).map(days).collect::<Vec<_>>(), Cascade::Outer, &mut stored);
        assert!(stored.len() < 16_384 * 4 / 8, "{} bytes: outlying steps are put aside", stored.len());
        // Batches of several workers, mixed.
        let mixed = |row: u32| (row / 4096 * 7 % 4) * 100_000 + row;
        assert_eq!(scheme(&(0..16_384).map(mixed).collect::<Vec<_>>()), Scheme::Delta);
        let outliers = |row: u32| if row.is_multiple_of(211) { scattered(row) } else { scattered(row) >> 27 };
        assert_eq!(scheme(&(0..16_384).map(outliers).collect::<Vec<_>>()), Scheme::Patched);
    }
}
