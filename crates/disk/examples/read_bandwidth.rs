//! Measures sequential reads that run ahead: `cargo run --release -p forebay-disk --example read_bandwidth -- DIR [KIB]`.
//!
//! Requests have KIB KiB, by default 1024; each is a ticket of its own, and as many as the depth says are open at a time:
//! the oldest is waited for, its buffer goes back to the pool, and the next one is submitted. Every figure is the median
//! of five passes over a file of 2 GiB that is made in DIR and removed again. The two ways of io_uring, with memory that the
//! kernel was told of and without, take turns, and tell the time that the reading thread was on a processor, too: that is
//! what the first one is to spare.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay_base::{Error, Result, units};
use forebay_disk::{BufferPool, Disk, DiskFile, IoMode, LocalDisk, OpenMode, ReadPath, ReadRequest, ReadTicket};

const FILE_BYTES: usize = 2 << 30;
const WRITE_BYTES: usize = 1 << 20;
const DEPTHS: [usize; 6] = [1, 2, 4, 8, 16, 32];
const PASSES: usize = 5;
const FILE: &str = "read_bandwidth.tmp";

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let Some(directory) = arguments.next() else {
        return Err(Error::input("say which directory to measure: read_bandwidth DIR [KIB]"));
    };
    let request_bytes = match arguments.next() {
        None => 1 << 20,
        Some(text) => units::parse_bytes(&format!("{text}k"))? as usize,
    };
    let directory = Path::new(&directory);
    write_file(&LocalDisk::open(directory, IoMode::Pread)?)?;
    for modes in [[IoMode::Uring, IoMode::UringUnregistered].as_slice(), &[IoMode::Pread]] {
        match modes.iter().map(|mode| LocalDisk::open(directory, *mode)).collect::<Result<Vec<_>>>() {
            Ok(disks) => measure(&disks, request_bytes)?,
            Err(error) => println!("{error}"),
        }
    }
    LocalDisk::open(directory, IoMode::Pread)?.remove(FILE)
}

fn write_file(disk: &LocalDisk) -> Result<()> {
    let file = disk.open(FILE, OpenMode::Create)?;
    let mut buffer = BufferPool::new(WRITE_BYTES).take(WRITE_BYTES)?;
    for request in 0..FILE_BYTES / WRITE_BYTES {
        for (word, bytes) in buffer.chunks_exact_mut(8).enumerate() {
            let mixed = ((request << 20) + word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            bytes.copy_from_slice(&mixed.to_le_bytes());
        }
        file.write_direct((request * WRITE_BYTES) as u64, &buffer)?;
    }
    file.sync()
}

/// What a pass took.
#[derive(Debug, Clone, Copy)]
struct Pass {
    elapsed: Duration,
    on_processor: Duration,
}

/// By turns: whatever else goes on takes its time of all of them.
fn measure(disks: &[LocalDisk], request_bytes: usize) -> Result<()> {
    let files = disks.iter().map(|disk| disk.open(FILE, OpenMode::Read)).collect::<Result<Vec<_>>>()?;
    let pools: Vec<_> = disks.iter().map(|_| BufferPool::new(64 * request_bytes)).collect();
    println!("{}", disks[0].io_description());
    let size = units::format_bytes(request_bytes as u64);
    for depth in DEPTHS {
        let mut passes = vec![Vec::new(); disks.len()];
        for _ in 0..PASSES {
            for (index, passes) in passes.iter_mut().enumerate() {
                passes.push(read_all(&files[index], &pools[index], request_bytes, depth)?);
            }
        }
        for (disk, passes) in disks.iter().zip(passes) {
            let sorted = |of: fn(&Pass) -> Duration| -> Vec<f64> {
                let mut all: Vec<_> = passes.iter().map(of).collect();
                all.sort_unstable();
                all.iter().map(Duration::as_secs_f64).collect()
            };
            let gigabytes = FILE_BYTES as f64 / 1e9;
            let elapsed = sorted(|pass| pass.elapsed);
            let [slowest, median, fastest] = [PASSES - 1, PASSES / 2, 0].map(|pass| gigabytes / elapsed[pass]);
            let processor_ms = sorted(|pass| pass.on_processor)[PASSES / 2] * 1e3 / gigabytes;
            let registered = units::format_bytes(disk.registered_bytes() as u64);
            println!(
                "  {depth:2} x {size}: {median:.2} GB/s ({slowest:.2} to {fastest:.2}), {processor_ms:.1} ms of processor a \
                 GB, {registered} registered"
            );
        }
    }
    Ok(())
}

/// Time that this thread was on a processor, as the kernel counts it.
fn on_processor() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let elapsed_ns = text.split_whitespace().next().and_then(|word| word.parse().ok());
    Duration::from_nanos(elapsed_ns.unwrap_or_default())
}

fn read_all(file: &Arc<dyn DiskFile>, pool: &BufferPool, request_bytes: usize, depth: usize) -> Result<Pass> {
    let (start, before) = (Instant::now(), on_processor());
    let mut tickets = VecDeque::with_capacity(depth);
    for request in 0..FILE_BYTES / request_bytes {
        if tickets.len() == depth {
            wait_for_oldest(&mut tickets)?;
        }
        let read = ReadRequest { offset: (request * request_bytes) as u64, buffer: pool.take(request_bytes)? };
        tickets.push_back(Arc::clone(file).submit_reads(vec![read], ReadPath::Direct)?);
    }
    while !tickets.is_empty() {
        wait_for_oldest(&mut tickets)?;
    }
    Ok(Pass { elapsed: start.elapsed(), on_processor: on_processor().saturating_sub(before) })
}

fn wait_for_oldest(tickets: &mut VecDeque<ReadTicket>) -> Result<()> {
    let oldest = tickets.pop_front().expect("the caller saw one");
    oldest.wait().map(drop)
}
