//! Measures sequential reads that run ahead: `cargo run --release -p forebay-disk --example read_bandwidth -- DIR [KIB]`.
//!
//! Requests have KIB KiB, by default 1024; each is a ticket of its own, and as many as the depth says are open at a time:
//! the oldest is waited for, its buffer goes back to the pool, and the next one is submitted. Every figure is the median
//! of five passes over a file of 2 GiB that is made in DIR and removed again.

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
    for mode in [IoMode::Uring, IoMode::Pread] {
        match LocalDisk::open(directory, mode) {
            Ok(disk) => measure(&disk, request_bytes)?,
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

fn measure(disk: &LocalDisk, request_bytes: usize) -> Result<()> {
    let file = disk.open(FILE, OpenMode::Read)?;
    let pool = BufferPool::new(64 * request_bytes);
    println!("{}", disk.io_description());
    for depth in DEPTHS {
        let mut passes = Vec::new();
        for _ in 0..PASSES {
            passes.push(read_all(&file, &pool, request_bytes, depth)?);
        }
        passes.sort_unstable();
        let size = units::format_bytes(request_bytes as u64);
        let gigabytes = FILE_BYTES as f64 / 1e9;
        let [slowest, median, fastest] = [PASSES - 1, PASSES / 2, 0].map(|pass| gigabytes / passes[pass].as_secs_f64());
        println!("  {depth:2} x {size}: {median:.2} GB/s ({slowest:.2} to {fastest:.2})");
    }
    Ok(())
}

fn read_all(file: &Arc<dyn DiskFile>, pool: &BufferPool, request_bytes: usize, depth: usize) -> Result<Duration> {
    let start = Instant::now();
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
    Ok(start.elapsed())
}

fn wait_for_oldest(tickets: &mut VecDeque<ReadTicket>) -> Result<()> {
    let oldest = tickets.pop_front().expect("the caller saw one");
    oldest.wait().map(drop)
}
