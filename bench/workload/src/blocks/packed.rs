//! Figure 12: codes of whole bytes against codes packed bit by bit, for finding matches and for unpacking them.
//!
//! The packed twin lives here alone: values next to each other in as few bits as they need, read by eight bytes at a time. It
//! is plain code, without vector instructions of its own, so that only its unpacking of single rows compares with the paper's.

use std::hint::black_box;
use std::io::Write;

use forebay::Result;
use forebay_cpu::simd::{self, SimdLevel, WORD_ROWS};

use super::matches::{PERCENTS, ROWS, fastest_ns, find_vectors, noise};
use crate::experiments::Bench;
use crate::experiments::figure::Figure;

/// Bits of the domain [0, 2^16]: one more than two bytes, so that codes of whole bytes need four.
const BITS: u32 = 17;

/// Values of [`BITS`] bits, one after the other.
struct Packed {
    bytes: Vec<u8>,
    rows: usize,
}

impl Packed {
    fn new(values: &[u32]) -> Self {
        // A reader of the last value takes eight bytes.
        let mut bytes = vec![0; (values.len() * BITS as usize).div_ceil(8) + size_of::<u64>()];
        for (row, value) in values.iter().enumerate() {
            let bit = row * BITS as usize;
            let word = u64::from(*value) << (bit % 8);
            for (byte, more) in bytes[bit / 8..].iter_mut().zip(word.to_le_bytes()) {
                *byte |= more;
            }
        }
        Self { bytes, rows: values.len() }
    }

    #[inline]
    fn get(&self, row: usize) -> u32 {
        let bit = row * BITS as usize;
        let word = self.bytes[bit / 8..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        (word >> (bit % 8)) as u32 & ((1 << BITS) - 1)
    }

    /// All values.
    fn unpack(&self, out: &mut Vec<u32>) {
        out.clear();
        out.extend((0..self.rows).map(|row| self.get(row)));
    }

    /// Positions of the values up to `high`.
    fn find(&self, high: u32, masks: &mut [u64], out: &mut Vec<u16>) {
        for (word, mask) in masks.iter_mut().enumerate() {
            let bit = |row: usize| u64::from(self.get(word * WORD_ROWS + row) <= high) << row;
            *mask = (0..WORD_ROWS).fold(0, |mask, row| mask | bit(row));
        }
        out.clear();
        simd::positions(SimdLevel::best(), masks, out);
    }
}

/// Nanoseconds per row or per unpacked value at one selectivity.
struct Costs {
    find_bytes: f64,
    find_packed: f64,
    unpack_bytes: f64,
    unpack_packed: f64,
    unpack_all: f64,
}

/// One of them.
type Cost = fn(&Costs) -> f64;

fn costs(values: &[u32], packed: &Packed, high: u32) -> Costs {
    let (mut masks, mut found, mut same) = (vec![0; ROWS / WORD_ROWS], Vec::new(), Vec::new());
    let find_bytes = fastest_ns(|| find_vectors(SimdLevel::best(), black_box(values), high, &mut masks, &mut found));
    let find_packed = fastest_ns(|| black_box(packed).find(high, &mut masks, &mut same));
    assert_eq!(found, same, "both find the same");
    let mut out: Vec<u32> = Vec::with_capacity(ROWS);
    let rows = || found.iter().map(|position| usize::from(*position));
    let unpack_bytes = fastest_ns(|| {
        let values = black_box(values);
        out.clear();
        out.extend(rows().map(|row| values[row]));
    });
    let expected = out.clone();
    let unpack_packed = fastest_ns(|| {
        let packed = black_box(packed);
        out.clear();
        out.extend(rows().map(|row| packed.get(row)));
    });
    assert_eq!(out, expected, "both unpack the same");
    let mut all = Vec::with_capacity(ROWS);
    let unpack_all = fastest_ns(|| {
        packed.unpack(&mut all);
        out.clear();
        out.extend(rows().map(|row| all[row]));
    });
    assert_eq!(out, expected, "filtering gives the same");
    let (rows, matches) = (ROWS as f64, found.len().max(1) as f64);
    Costs {
        find_bytes: find_bytes / rows,
        find_packed: find_packed / rows,
        unpack_bytes: unpack_bytes / matches,
        unpack_packed: unpack_packed / matches,
        unpack_all: unpack_all / matches,
    }
}

pub(super) fn measure(_bench: &Bench<'_>, _out: &mut dyn Write) -> Result<Figure> {
    let values: Vec<u32> = (0..ROWS).map(|row| (noise(row, 3) % 65_537) as u32).collect();
    let packed = Packed::new(&values);
    let costs: Vec<Costs> =
        PERCENTS.iter().map(|percent| costs(&values, &packed, (65_537 * percent / 100 - 1) as u32)).collect();
    let columns: [(&str, Cost); 5] = [
        ("find, bytes", |costs| costs.find_bytes),
        ("find, packed", |costs| costs.find_packed),
        ("unpack, bytes", |costs| costs.unpack_bytes),
        ("unpack, packed by position", |costs| costs.unpack_packed),
        ("unpack, packed all and filter", |costs| costs.unpack_all),
    ];
    let row = |(percent, costs): (&u64, &Costs)| {
        let cells = columns.iter().map(|(_, cost)| format!("{:.3}", cost(costs)));
        std::iter::once(format!("{percent} %")).chain(cells).collect()
    };
    let points =
        |cost: Cost| PERCENTS.iter().zip(&costs).map(|(percent, costs)| (*percent as f64, cost(costs))).collect();
    Ok(Figure {
        title: "Codes of 4 bytes against 17 bits: ns per row to find, ns per value to unpack".to_owned(),
        paper: "Figure 12 (AVX2): finding 1.8 times as fast on bytes; unpacking 10 % of the rows more than 3 times; only where \
                all rows qualify is unpacking all bits about 9 % faster",
        headings: std::iter::once("selectivity").chain(columns.map(|column| column.0)).map(str::to_owned).collect(),
        rows: PERCENTS.iter().zip(&costs).map(row).collect(),
        axes: ("selectivity, %", "ns"),
        ticks: Vec::new(),
        series: columns.iter().map(|(name, cost)| ((*name).to_owned(), points(*cost))).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_values_come_back() {
        let values: Vec<u32> = (0..1000).map(|row| (noise(row, 1) % 65_537) as u32).chain([65_536, 0]).collect();
        let packed = Packed::new(&values);
        let mut out = Vec::new();
        packed.unpack(&mut out);
        assert_eq!(out, values);
    }
}
