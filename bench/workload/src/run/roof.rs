//! The roof that memory sets: how fast this machine's cores read memory together, measured in the same run as the queries.
//! A query that only had to read the codes that it touches would take as long as that (Williams et al., "Roofline", 2009).
//!
//! Must not know: queries, databases.

use std::hint::black_box;
use std::time::Instant;

use crate::report::bandwidth;

/// Bytes that each thread reads: together more than the last-level cache of the machines that we know.
const BYTES_PER_THREAD: usize = 256 << 20;

/// The fastest of so many rounds counts: what disturbs a round only makes it slower.
const ROUNDS: usize = 7;

/// Bytes per second that the threads read together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Roof {
    pub(crate) bytes_per_second: f64,
    pub(crate) threads: usize,
}

impl Roof {
    /// Reads memory in order with so many threads at once, each its own part.
    pub(crate) fn measure(threads: usize) -> Self {
        let parts: Vec<Vec<u64>> = (0..threads).map(|_| vec![1u64; BYTES_PER_THREAD / size_of::<u64>()]).collect();
        let round = || {
            let started = Instant::now();
            std::thread::scope(|scope| {
                for part in &parts {
                    scope.spawn(|| black_box(part.iter().fold(0u64, |sum, word| sum.wrapping_add(*word))));
                }
            });
            started.elapsed().as_secs_f64()
        };
        let fastest = (0..ROUNDS).map(|_| round()).fold(f64::INFINITY, f64::min);
        Self { bytes_per_second: (threads * BYTES_PER_THREAD) as f64 / fastest, threads }
    }

    /// How many times longer `seconds` is than reading `code_bytes` takes; `None` where nothing was read.
    pub(crate) fn times(&self, code_bytes: u64, seconds: f64) -> Option<f64> {
        (code_bytes > 0).then(|| seconds / (code_bytes as f64 / self.bytes_per_second))
    }

    /// What the last two columns of the report mean.
    pub(crate) fn explain(&self) -> String {
        let Self { bytes_per_second, threads } = *self;
        let rate = bandwidth(bytes_per_second as u64, 1.0);
        let threads = if threads == 1 { "1 thread reads".to_owned() } else { format!("{threads} threads read") };
        format!(
            "codes: bytes of codes and plain values that the scans touched. × floor: the median, over the time in which\n\
             that many bytes are read from memory here ({threads} {rate})"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_floor_follows_the_bytes() {
        let roof = Roof { bytes_per_second: 2e9, threads: 2 };
        assert_eq!(roof.times(1_000_000_000, 1.5), Some(3.0));
        assert_eq!(roof.times(0, 1.5), None);
        assert!(roof.explain().contains("2.00 GB/s"));
    }
}
