//! GOLAP, Figure 4, on the host: bandwidth of the drive by size and number of reads in flight, from threads that wait for
//! their own reads, and from one thread that keeps all of them on their way.

use std::io::Write;

use forebay::Result;
use forebay::machine::Reader;
use forebay::units::format_bytes;

use super::{numbered, probe, rate};
use crate::experiments::figure::Figure;
use crate::experiments::{Bench, median};

const SIZES: [usize; 5] = [16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20];

const IN_FLIGHT: [usize; 5] = [1, 2, 4, 8, 16];

const READERS: [(Reader, &str); 2] = [(Reader::Threads, "pread, threads"), (Reader::Ring, "io_uring, in flight")];

pub(super) fn measure(bench: &Bench<'_>, _out: &mut dyn Write) -> Result<Figure> {
    let probe = probe(bench)?;
    let (mut rows, mut series) = (Vec::new(), Vec::new());
    for (reader, name) in READERS {
        for in_flight in IN_FLIGHT {
            let mut row = vec![format!("{name}: {in_flight}")];
            let mut medians = Vec::new();
            for size in SIZES {
                let mut rates = Vec::new();
                for _ in 0..bench.options.runs {
                    rates.extend(probe.bandwidth(reader, size, in_flight)?);
                }
                // Nothing where there is no io_uring.
                if rates.is_empty() {
                    row.push("–".to_owned());
                } else {
                    let middle = median(&mut rates);
                    row.push(rate(middle));
                    medians.push(middle / 1e9);
                }
            }
            series.push((row[0].clone(), numbered(medians)));
            rows.push(row);
        }
    }
    let sizes = SIZES.map(|size| format_bytes(size as u64));
    Ok(Figure {
        title: "Reads past the page cache, by size and number in flight".to_owned(),
        paper: "GOLAP, Figure 4 (three NVMe drives, 19.5 GiB/s, into GPU memory): threads that each wait for their reads \
                reach the drives' bandwidth with enough threads or size; asynchronous reads in CUDA streams never do",
        headings: std::iter::once("reads".to_owned()).chain(sizes.iter().cloned()).collect(),
        rows,
        axes: ("bytes of a read", "GB/s"),
        ticks: sizes.to_vec(),
        series,
    })
}
