//! GOLAP, Figure 11: a column scan by the size of its chunks and the reads that run ahead of the workers.

use std::io::Write;

use forebay::units::format_bytes;
use forebay::{Database, Result};

use super::{Size, cold, drive_bandwidth, make_table, numbered, rate, ssb};
use crate::experiments::figure::Figure;
use crate::experiments::{Bench, all};

/// Blocks of a chunk.
pub(super) const BLOCKS: [u64; 6] = [1, 2, 4, 8, 16, 32];

/// Reads on their way before a worker needs them.
const AHEAD: [u64; 6] = [0, 1, 2, 4, 8, 16];

/// A table of the paper's column alone, in chunks of so many blocks.
pub(super) fn commit_dates(database: &Database, blocks: u64) -> Result<(String, Size)> {
    let name = format!("commitdate_{blocks}");
    make_table(database, &name, &[&format!("SET chunk_blocks = {blocks}")], "SELECT lo_commitdate FROM lineorder")?;
    let size = Size::of(database, &name, &[])?;
    Ok((name, size))
}

/// The setting with which so many reads of chunks of this size run ahead: they are begun until their bytes reach it.
fn ahead_setting(reads: u64, chunk_bytes: u64) -> String {
    match reads {
        0 => "SET read_ahead = off".to_owned(),
        _ => format!("SET read_ahead = '{}'", (reads - 1) * chunk_bytes + 1),
    }
}

pub(super) fn measure(bench: &Bench<'_>, out: &mut dyn Write) -> Result<Figure> {
    let database = ssb(bench, bench.options.scale_factor, out)?;
    let drive = drive_bandwidth(bench)?;
    let session = database.session();
    let mut rows = Vec::new();
    let mut series: Vec<(String, Vec<f64>)> = AHEAD.map(|reads| (format!("{reads} ahead"), Vec::new())).to_vec();
    let (mut best, mut ticks) = (Vec::new(), Vec::new());
    for blocks in BLOCKS {
        let (table, size) = commit_dates(&database, blocks)?;
        let chunk_bytes = size.stored_bytes / size.chunks.max(1);
        let mut row = vec![format!("{blocks}"), format_bytes(chunk_bytes)];
        for (reads, (_, points)) in AHEAD.iter().zip(&mut series) {
            all(&session, &[&ahead_setting(*reads, chunk_bytes)])?;
            let scan = cold(bench, &database, &session, &format!("SELECT sum(lo_commitdate) FROM {table}"))?;
            row.push(rate(scan.effective()));
            points.push(scan.effective() / 1e9);
        }
        let optimum = drive * size.compression();
        row.push(rate(optimum));
        best.push(optimum / 1e9);
        ticks.push(format_bytes(chunk_bytes));
        rows.push(row);
    }
    series.push(("drive × compression".to_owned(), best));
    let names = AHEAD.iter().map(|reads| format!("{reads} ahead"));
    Ok(Figure {
        title: format!(
            "Cold scans of lo_commitdate by size of chunks and reads ahead, SSB, scale factor {}: effective bandwidth, {} \
             threads",
            bench.options.scale_factor,
            database.threads()
        ),
        paper: "GOLAP, Figure 11 (lo_commitdate, scale factor 200, 1 to 16 reads in flight): one read at a time never reaches \
                bandwidth times compression, four do with chunks of 32 MiB, more with smaller ones",
        headings: ["blocks", "stored"]
            .map(str::to_owned)
            .into_iter()
            .chain(names)
            .chain(["drive × compression".to_owned()])
            .collect(),
        rows,
        axes: ("stored bytes of a chunk", "GB/s of plain values"),
        ticks,
        series: series.into_iter().map(|(name, points)| (name, numbered(points))).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_reads_run_ahead() {
        assert_eq!(ahead_setting(0, 100), "SET read_ahead = off");
        assert_eq!(ahead_setting(1, 100), "SET read_ahead = '1'");
        assert_eq!(ahead_setting(4, 100), "SET read_ahead = '301'");
    }
}
