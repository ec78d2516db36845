//! How fast this machine's cores read memory together.

use std::hint::black_box;
use std::thread;
use std::time::Instant;

use forebay_base::Result;
use forebay_disk::AlignedBuffer;

/// Bytes that each thread reads: together more than the last-level cache of the machines that we know.
const BYTES_PER_THREAD: usize = 256 << 20;

/// The fastest of so many rounds counts: what disturbs a round only makes it slower.
const ROUNDS: usize = 7;

/// Bytes per second that so many threads read together, each its own 256 MiB in order. The memory goes back to the system at once.
///
/// # Errors
/// If the system has no memory for that.
pub fn memory_bandwidth(threads: usize) -> Result<f64> {
    let part = |_| {
        let mut part = AlignedBuffer::try_zeroed(BYTES_PER_THREAD)?;
        // Zeros that nobody has written to may all be one page.
        part.fill(1);
        Ok(part)
    };
    let parts = (0..threads).map(part).collect::<Result<Vec<_>>>()?;
    let round = || {
        let started = Instant::now();
        thread::scope(|scope| {
            for part in &parts {
                scope.spawn(|| black_box(sum(part)));
            }
        });
        started.elapsed().as_secs_f64()
    };
    let fastest = (0..ROUNDS).map(|_| round()).fold(f64::INFINITY, f64::min);
    Ok((threads * BYTES_PER_THREAD) as f64 / fastest)
}

fn sum(bytes: &[u8]) -> u64 {
    let (words, _) = bytes.as_chunks();
    words.iter().fold(0, |sum: u64, word| sum.wrapping_add(u64::from_ne_bytes(*word)))
}
