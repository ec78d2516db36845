//! The roof that memory sets: how fast this machine's cores read memory together, or how fast a device's memory and its link
//! move bytes, measured in the same run as the queries. A query that only had to read the codes that it touches would take
//! as long as that (Williams et al., "Roofline", 2009).
//!
//! Must not know: queries, databases.

use std::hint::black_box;
use std::time::Instant;

use forebay::Result;
use forebay::machine::{Bandwidths, bandwidths};

use crate::report::bandwidth;

/// Bytes that each thread reads: together more than the last-level cache of the machines that we know.
const BYTES_PER_THREAD: usize = 256 << 20;

/// The fastest of so many rounds counts: what disturbs a round only makes it slower.
const ROUNDS: usize = 7;

/// How fast codes can reach what tests them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Roof {
    /// Bytes per second that the threads read together.
    pub(crate) memory: f64,
    pub(crate) threads: usize,
    /// Of the device that runs pipelines, if there is one.
    pub(crate) device: Option<DeviceRoof>,
}

/// What a device's bytes move with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeviceRoof {
    pub(crate) measured: Bandwidths,
    /// Codes come over the link in each run, rather than from the device's memory.
    pub(crate) streams: bool,
}

impl Roof {
    /// Reads memory in order with so many threads at once, each its own part; and measures the device of this name. It has
    /// the codes in its memory where a benchmark is warm.
    pub(crate) fn measure(threads: usize, device: Option<&str>, cold: bool) -> Result<Self> {
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
        let measured = device.map(bandwidths).transpose()?.flatten();
        let device = measured.map(|measured| DeviceRoof { measured, streams: cold });
        Ok(Self { memory: (threads * BYTES_PER_THREAD) as f64 / fastest, threads, device })
    }

    /// Bytes per second that the floor counts with.
    fn bytes_per_second(&self) -> f64 {
        match self.device {
            None => self.memory,
            Some(DeviceRoof { measured, streams: true }) => measured.to_device,
            Some(DeviceRoof { measured, streams: false }) => measured.within_device,
        }
    }

    /// How many times longer `seconds` is than reading `code_bytes` takes; `None` where nothing was read.
    pub(crate) fn times(&self, code_bytes: u64, seconds: f64) -> Option<f64> {
        (code_bytes > 0).then(|| seconds / (code_bytes as f64 / self.bytes_per_second()))
    }

    /// What the last two columns of the report mean.
    pub(crate) fn explain(&self) -> String {
        let rate = |bytes_per_second: f64| bandwidth(bytes_per_second as u64, 1.0);
        let threads =
            if self.threads == 1 { "1 thread reads".to_owned() } else { format!("{} threads read", self.threads) };
        let (how, measured) = match self.device {
            None => ("are read from memory", String::new()),
            Some(device) => {
                let measured = device.measured;
                let (within, link) = (rate(measured.within_device), rate(measured.to_device));
                let how = if device.streams { "cross the link to the device" } else { "move in the device's memory" };
                (how, format!(";\nthe device moves {within} in its memory, its link {link}"))
            }
        };
        format!(
            "codes: bytes of codes and plain values that the scans touched. × floor: the median, over the time in which\n\
             that many bytes {how} here ({threads} {}{measured})",
            rate(self.memory)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_floor_follows_the_bytes() {
        let mut roof = Roof { memory: 2e9, threads: 2, device: None };
        assert_eq!(roof.times(1_000_000_000, 1.5), Some(3.0));
        assert_eq!(roof.times(0, 1.5), None);
        assert!(roof.explain().contains("2.00 GB/s"));
        let measured = Bandwidths { to_device: 1e9, to_host: 1e9, within_device: 8e9 };
        roof.device = Some(DeviceRoof { measured, streams: false });
        assert_eq!(roof.times(1_000_000_000, 1.5), Some(12.0));
        assert!(roof.explain().contains("8.00 GB/s in its memory, its link 1.00 GB/s"), "{}", roof.explain());
        roof.device = Some(DeviceRoof { measured, streams: true });
        assert_eq!(roof.times(1_000_000_000, 1.5), Some(1.5));
    }
}
