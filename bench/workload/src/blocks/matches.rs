//! Figures 8 and 9: finding matches and reducing them by vector instructions, against loops without branches over single
//! rows. One core, one block in the first or second cache.

use std::hint::black_box;
use std::io::Write;
use std::time::Instant;

use forebay::Result;
use forebay_cpu::simd::{self, Lane, SimdLevel, WORD_ROWS};

use crate::experiments::Bench;
use crate::experiments::figure::Figure;

/// Rows of a block.
pub(super) const ROWS: usize = 1 << 16;

/// Selectivities of a first predicate, in percent.
pub(super) const PERCENTS: [u64; 7] = [1, 5, 10, 20, 40, 70, 100];

/// Numbers that look random, the same every time.
pub(super) fn noise(row: usize, column: u64) -> u64 {
    let mixed = (row as u64).wrapping_add(column << 32).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 24
}

/// Nanoseconds of the fastest of some runs; the first ones warm caches and foresight up.
pub(super) fn fastest_ns(mut work: impl FnMut()) -> f64 {
    let run = |_| {
        let started = Instant::now();
        work();
        started.elapsed().as_secs_f64() * 1e9
    };
    (0..60).map(run).fold(f64::INFINITY, f64::min)
}

/// Positions of the values from 0 to `high`, by a loop without branches.
fn find_single<L: Lane>(values: &[L], high: L, out: &mut Vec<u16>) {
    out.clear();
    out.resize(values.len() + 1, 0);
    let mut found = 0;
    for (row, value) in values.iter().enumerate() {
        out[found] = row as u16;
        found += usize::from(*value <= high);
    }
    out.truncate(found);
}

/// The same by vectors.
pub(super) fn find_vectors<L: Lane>(level: SimdLevel, values: &[L], high: L, masks: &mut [u64], out: &mut Vec<u16>) {
    masks.fill(u64::MAX);
    simd::range(level, values, L::zeroed(), high, masks);
    out.clear();
    simd::positions(level, masks, out);
}

/// Keeps the positions whose value is from 0 to `high`, by a loop without branches.
fn reduce_single<L: Lane>(values: &[L], high: L, positions: &[u16], out: &mut Vec<u16>) {
    out.clear();
    out.resize(positions.len() + 1, 0);
    let mut found = 0;
    for position in positions {
        out[found] = *position;
        found += usize::from(values[usize::from(*position)] <= high);
    }
    out.truncate(found);
}

fn levels() -> impl Iterator<Item = SimdLevel> {
    SimdLevel::ALL.into_iter().filter(|level| level.is_available())
}

/// Nanoseconds for one block: single rows, then each SIMD level.
fn find_times<L: Lane>(of: impl Fn(u64) -> L) -> Vec<f64> {
    let values: Vec<L> = (0..ROWS).map(|row| of(noise(row, 0) % 100)).collect();
    let high = of(19);
    let (mut single, mut found) = (Vec::new(), Vec::new());
    let mut times = vec![fastest_ns(|| find_single(black_box(&values), high, &mut single))];
    let mut masks = vec![0; ROWS / WORD_ROWS];
    for level in levels() {
        times.push(fastest_ns(|| find_vectors(level, black_box(&values), high, &mut masks, &mut found)));
        assert_eq!(single, found, "all find the same");
    }
    times
}

/// Figure 8.
pub(super) fn find(_bench: &Bench<'_>, _out: &mut dyn Write) -> Result<Figure> {
    let widths = [
        ("8 bits", find_times(|number| number as u8)),
        ("16 bits", find_times(|number| number as u16)),
        ("32 bits", find_times(|number| number as u32)),
        ("64 bits", find_times(|number| number)),
    ];
    let names: Vec<String> = levels().map(|level| level.name().to_owned()).collect();
    let mut headings = vec!["codes".to_owned(), "single rows, ns per row".to_owned()];
    headings.extend(names.iter().cloned());
    let row = |(width, times): &(&str, Vec<f64>)| {
        let mut cells = vec![(*width).to_owned(), format!("{:.3}", times[0] / ROWS as f64)];
        cells.extend(times[1..].iter().map(|ns| format!("{:.3} ({:.1} ×)", ns / ROWS as f64, times[0] / ns)));
        cells
    };
    let points = |level: usize| {
        widths.iter().enumerate().map(|(x, (_, times))| (x as f64, times[0] / times[level + 1])).collect()
    };
    Ok(Figure {
        title: "Finding positions of matches, 20 % selectivity: ns per row, and speed-up over single rows".to_owned(),
        paper: "Figure 8: almost 4 times with SSE and more than 5 times with AVX2 for 8-bit values, 1.5 times with AVX2 for \
                64 bits",
        headings,
        rows: widths.iter().map(row).collect(),
        axes: ("width of codes", "speed-up over single rows"),
        ticks: widths.iter().map(|(width, _)| (*width).to_owned()).collect(),
        series: names.iter().enumerate().map(|(number, name)| (name.clone(), points(number))).collect(),
    })
}

/// Speed-ups of reducing matches by the best SIMD level, per selectivity of the first predicate.
fn reduce_speedups<L: Lane>(of: impl Fn(u64) -> L) -> Vec<f64> {
    let first: Vec<u64> = (0..ROWS).map(|row| noise(row, 1) % 100).collect();
    let second: Vec<L> = (0..ROWS).map(|row| of(noise(row, 2) % 100)).collect();
    let (high, level) = (of(39), SimdLevel::best());
    let speedup = |percent: &u64| {
        let positions: Vec<u16> = (0..ROWS).filter(|row| first[*row] < *percent).map(|row| row as u16).collect();
        let bits =
            |word: usize| (0..WORD_ROWS).fold(0, |m, i| m | u64::from(first[word * WORD_ROWS + i] < *percent) << i);
        let given: Vec<u64> = (0..ROWS / WORD_ROWS).map(bits).collect();
        let (mut single, mut found, mut masks) = (Vec::new(), Vec::new(), given.clone());
        let alone = fastest_ns(|| reduce_single(black_box(&second), high, &positions, &mut single));
        let vectors = fastest_ns(|| {
            masks.copy_from_slice(&given);
            simd::range(level, black_box(&second), L::zeroed(), high, &mut masks);
            found.clear();
            simd::positions(level, &masks, &mut found);
        });
        assert_eq!(single, found, "both keep the same");
        alone / vectors
    };
    PERCENTS.iter().map(speedup).collect()
}

/// Figure 9.
pub(super) fn reduce(_bench: &Bench<'_>, _out: &mut dyn Write) -> Result<Figure> {
    let widths = [
        ("8 bits", reduce_speedups(|number| number as u8)),
        ("16 bits", reduce_speedups(|number| number as u16)),
        ("32 bits", reduce_speedups(|number| number as u32)),
        ("64 bits", reduce_speedups(|number| number)),
    ];
    let row = |(number, percent): (usize, &u64)| {
        let cells = widths.iter().map(|(_, speedups)| format!("{:.1} ×", speedups[number]));
        std::iter::once(format!("{percent} %")).chain(cells).collect()
    };
    let points = |speedups: &[f64]| PERCENTS.iter().zip(speedups).map(|(percent, y)| (*percent as f64, *y)).collect();
    Ok(Figure {
        title: format!(
            "Reducing matches, second predicate 40 %: speed-up of {} on bits over single positions",
            SimdLevel::best().name()
        ),
        paper: "Figure 9 (AVX2, positions shuffled by gathers): 1.0 to 1.25 times for up to 32 bits, less than 1 for 64 bits",
        headings: std::iter::once("first predicate").chain(widths.iter().map(|w| w.0)).map(str::to_owned).collect(),
        rows: PERCENTS.iter().enumerate().map(row).collect(),
        axes: ("selectivity of the first predicate, %", "speed-up over single positions"),
        ticks: Vec::new(),
        series: widths.iter().map(|(name, speedups)| ((*name).to_owned(), points(speedups))).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_rows_and_vectors_agree() {
        // The assertions are in what is measured.
        assert!(find_times(|number| number as u16).iter().all(|ns| *ns > 0.0));
    }
}
