//! Reads that run ahead: what tickets promise, on every disk, from many threads, and when things go wrong.

/// All disks.
mod disks;

use std::num::NonZeroU64;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use forebay_base::limits::{IO_ALIGN, READ_PIECE_BYTES, READ_QUEUE_DEPTH};
use forebay_base::{ErrorKind, Result};
use forebay_disk::{
    AlignedBuffer, BufferPool, Disk, DiskFile, FaultKind, Faults, IoMode, LocalDisk, MemoryDisk, OpenMode, ReadPath,
    ReadRequest, ReadTicket, SimulatedDisk, ThrottledDisk,
};
use proptest::prelude::*;

use disks::{on_every_disk, pattern};

const PATHS: [ReadPath; 2] = [ReadPath::Direct, ReadPath::PageCache];

/// A file of pages that tell their own position.
fn patterned(disk: &dyn Disk, len: usize) -> (Arc<dyn DiskFile>, Vec<u8>) {
    let bytes = pattern(len);
    let mut buffer = AlignedBuffer::zeroed(len);
    buffer.copy_from_slice(&bytes);
    let file = disk.open("f", OpenMode::Create).expect("a new file");
    file.write_direct(0, &buffer).expect("written");
    (file, bytes)
}

/// A ticket for (offset, length)s in pages.
fn submit(file: &Arc<dyn DiskFile>, pool: &BufferPool, pages: &[(usize, usize)], path: ReadPath) -> Result<ReadTicket> {
    let request = |(offset, len)| ReadRequest {
        offset: (offset * IO_ALIGN) as u64,
        buffer: pool.take(len * IO_ALIGN).expect("in budget"),
    };
    Arc::clone(file).submit_reads(pages.iter().copied().map(request).collect(), path)
}

#[track_caller]
fn check(served: &[ReadRequest], pages: &[(usize, usize)], bytes: &[u8]) {
    assert_eq!(served.len(), pages.len());
    for (request, (offset, len)) in served.iter().zip(pages) {
        let (start, end) = (offset * IO_ALIGN, (offset + len) * IO_ALIGN);
        assert_eq!(request.offset, start as u64);
        assert!(request.buffer[..] == bytes[start..end], "{len} pages at {offset}");
    }
}

#[test]
fn tickets_are_waited_for_in_any_order() {
    on_every_disk(|disk| {
        let (file, bytes) = patterned(disk, 5 * READ_PIECE_BYTES);
        let pool = BufferPool::new(256 << 20);
        for path in PATHS {
            let wanted: Vec<_> = (0..12).map(|at| vec![(at, 700), (1000 - at, 0), (3 * at, 1), (at, 1200)]).collect();
            let tickets = wanted.iter().map(|pages| submit(&file, &pool, pages, path).expect("submitted"));
            // More pieces than fit the ring, and the last one is asked for first.
            let tickets: Vec<_> = tickets.collect();
            for (ticket, pages) in tickets.into_iter().zip(&wanted).rev() {
                check(&ticket.wait().expect("read"), pages, &bytes);
            }
            assert_eq!(pool.in_use_bytes(), 0);
            assert!(submit(&file, &pool, &[], path).expect("submitted").wait().expect("nothing").is_empty());
        }
    });
}

#[test]
fn tickets_become_done_while_nobody_waits() {
    on_every_disk(|disk| {
        let (file, bytes) = patterned(disk, READ_PIECE_BYTES);
        let pool = BufferPool::new(256 << 20);
        for path in PATHS {
            let pages: Vec<_> = (0..2 * READ_QUEUE_DEPTH).map(|at| (at, 100)).collect();
            let ticket = submit(&file, &pool, &pages, path).expect("submitted");
            let start = Instant::now();
            while !ticket.is_done() {
                assert!(start.elapsed() < Duration::from_secs(60), "it never ends");
                std::thread::sleep(Duration::from_micros(100));
            }
            check(&ticket.wait().expect("read"), &pages, &bytes);
        }
    });
}

#[test]
fn unaligned_reads_are_refused_at_submission() {
    on_every_disk(|disk| {
        let (file, _) = patterned(disk, 4 * IO_ALIGN);
        for (path, offset, len) in [(ReadPath::Direct, 1, IO_ALIGN), (ReadPath::PageCache, 0, IO_ALIGN - 1)] {
            let requests = vec![ReadRequest { offset, buffer: AlignedBuffer::zeroed(len) }];
            let error = Arc::clone(&file).submit_reads(requests, path).expect_err("unaligned");
            assert_eq!(error.kind(), ErrorKind::Internal);
        }
    });
}

#[test]
fn dropped_tickets_give_their_buffers_back() {
    on_every_disk(|disk| {
        let (file, bytes) = patterned(disk, 4 * READ_PIECE_BYTES);
        let pool = BufferPool::new(256 << 20);
        let whole = [(0, 4 * READ_PIECE_BYTES / IO_ALIGN)];
        for path in PATHS {
            for kept in [0, 7, 15] {
                let tickets = (0..16).map(|_| submit(&file, &pool, &whole, path).expect("submitted"));
                let mut tickets: Vec<_> = tickets.collect();
                let kept = tickets.swap_remove(kept);
                drop(tickets);
                assert!(pool.in_use_bytes() <= 4 * READ_PIECE_BYTES, "those of the kept one");
                // Fresh buffers in the same memory: nothing writes to them that was asked for before.
                let mut fresh = [0; 15].map(|_| pool.take(4 * READ_PIECE_BYTES).expect("in budget"));
                fresh.iter_mut().for_each(|buffer| buffer.fill(0xA5));
                check(&kept.wait().expect("read"), &whole, &bytes);
                assert!(fresh.iter().flat_map(|buffer| buffer.iter()).all(|byte| *byte == 0xA5));
            }
            assert_eq!(pool.in_use_bytes(), 0);
        }
    });
}

#[test]
fn tickets_outlive_their_disk_and_the_thread_that_made_them() {
    for mode in [IoMode::Auto, IoMode::Pread] {
        for is_waited_for in [true, false] {
            let directory = tempfile::tempdir().expect("a directory");
            let disk = LocalDisk::open(directory.path(), mode).expect("a disk");
            let (file, bytes) = patterned(&disk, 8 * READ_PIECE_BYTES);
            let pool = BufferPool::new(256 << 20);
            let whole = [(0, 8 * READ_PIECE_BYTES / IO_ALIGN)];
            // The kernel may cancel what a thread asked for when that thread ends.
            let start = || PATHS.map(|path| [0; 3].map(|_| submit(&file, &pool, &whole, path).expect("submitted")));
            let tickets = std::thread::scope(|scope| scope.spawn(start).join().expect("no panic"));
            drop((file, disk));
            for ticket in tickets.into_iter().flatten().filter(|_| is_waited_for) {
                check(&ticket.wait().expect("read"), &whole, &bytes);
            }
            assert_eq!(pool.in_use_bytes(), 0);
        }
    }
}

/// SplitMix64: every thread draws its own steps.
fn next(state: &mut u64) -> usize {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    (mixed ^ (mixed >> 27)) as usize >> 8
}

#[test]
fn many_threads_with_many_tickets_each() {
    const FILE_PAGES: usize = 4 * READ_PIECE_BYTES / IO_ALIGN;
    on_every_disk(|disk| {
        let (file, bytes) = patterned(disk, FILE_PAGES * IO_ALIGN);
        let pool = BufferPool::new(512 << 20);
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (pool, file, bytes) = (&pool, &file, &bytes);
                scope.spawn(move || {
                    let mut state = thread;
                    let mut open = Vec::new();
                    for _ in 0..150 {
                        let mut range = || {
                            let offset = next(&mut state) % FILE_PAGES;
                            (offset, next(&mut state) % (FILE_PAGES - offset + 1).min(400))
                        };
                        let pages = [range(), range()];
                        let path = PATHS[next(&mut state) % 2];
                        open.push((submit(file, pool, &pages, path).expect("submitted"), pages));
                        while open.len() > next(&mut state) % 10 {
                            let (ticket, pages) = open.swap_remove(next(&mut state) % open.len());
                            match next(&mut state) % 4 {
                                0 => drop(ticket),
                                1 => drop(std::thread::scope(|inner| inner.spawn(|| ticket.wait()).join())),
                                _ => check(&ticket.wait().expect("read"), &pages, bytes),
                            }
                        }
                    }
                });
            }
        });
        assert_eq!(pool.in_use_bytes(), 0);
    });
}

/// Far more threads than pieces in flight: each sleeps until its own reads are done, and somebody always leads.
#[test]
fn a_crowd_waits_at_once() {
    const THREADS: usize = 3 * READ_QUEUE_DEPTH;
    on_every_disk(|disk| {
        let (file, bytes) = patterned(disk, READ_PIECE_BYTES);
        let pool = BufferPool::new(512 << 20);
        let together = Barrier::new(THREADS);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (pool, file, bytes, together) = (&pool, &file, &bytes, &together);
                scope.spawn(move || {
                    for round in 0..6 {
                        let pages = [(thread + round, 64), (round, 1)];
                        let ticket = submit(file, pool, &pages, PATHS[round % 2]).expect("submitted");
                        together.wait();
                        if (thread + round) % 5 > 0 {
                            check(&ticket.wait().expect("read"), &pages, bytes);
                        }
                    }
                });
            }
        });
        assert_eq!(pool.in_use_bytes(), 0);
    });
}

#[test]
fn a_file_that_is_cut_short_is_corruption() {
    on_every_disk(|disk| {
        let (file, bytes) = patterned(disk, 4 * READ_PIECE_BYTES);
        let pool = BufferPool::new(256 << 20);
        for path in PATHS {
            file.write_at(0, &bytes).expect("whole again");
            let early: Vec<_> = (0..8).map(|_| submit(&file, &pool, &[(0, 1), (512, 512)], path)).collect();
            file.set_len(2 * READ_PIECE_BYTES as u64 + 100).expect("cut");
            let late = submit(&file, &pool, &[(0, 512), (256, 512), (900, 1)], path).expect("submitted");
            assert_eq!(late.wait().expect_err("past the end").kind(), ErrorKind::Corrupt);
            for ticket in early {
                match ticket.expect("submitted").wait() {
                    Ok(requests) => assert!(requests[0].buffer[..] == bytes[..IO_ALIGN]),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}"),
                }
            }
            drop(submit(&file, &pool, &[(900, 1); 50], path));
            let within = [(0, 512), (511, 1)];
            check(&submit(&file, &pool, &within, path).expect("submitted").wait().expect("read"), &within, &bytes);
            assert_eq!(pool.in_use_bytes(), 0);
        }
    });
}

#[test]
fn faults_are_decided_at_submission_and_told_by_the_ticket() {
    let outcome = |call, kind| {
        let disk = SimulatedDisk::new(1, Faults { fail_call: Some((call, kind)), crash_at_call: None });
        let file = disk.open("f", OpenMode::Create).expect("call 1");
        file.write_at(0, &vec![0; 4 * IO_ALIGN]).expect("call 2");
        let pool = BufferPool::new(1 << 20);
        // Calls 3 and 4, and 5 and 6; an error keeps the second of its ticket from being made.
        let tickets = [0, 2].map(|page| submit(&file, &pool, &[(page, 1), (page + 1, 1)], ReadPath::Direct));
        let calls = disk.calls();
        let ones = |requests: Vec<ReadRequest>| {
            requests.iter().flat_map(|request| request.buffer.iter()).map(|byte| byte.count_ones()).sum::<u32>()
        };
        let mut waited = tickets.map(|ticket| Some(ticket.expect("submitted")));
        let [last, first] = [1, 0].map(|at| waited[at].take().map(ReadTicket::wait).expect("a ticket"));
        assert_eq!(pool.in_use_bytes(), [&first, &last].iter().filter(|o| o.is_ok()).count() * 2 * IO_ALIGN);
        assert_eq!(disk.calls(), calls, "waiting is no call");
        ([first, last].map(|outcome| outcome.map(ones).map_err(|error| error.kind())), calls)
    };
    for (kind, told) in [(FaultKind::Eio, ErrorKind::Io), (FaultKind::ShortRead, ErrorKind::Corrupt)] {
        assert_eq!(outcome(3, kind), ([Err(told), Ok(0)], 5));
        assert_eq!(outcome(4, kind), ([Err(told), Ok(0)], 6));
        assert_eq!(outcome(6, kind), ([Ok(0), Err(told)], 6));
    }
    assert_eq!(outcome(5, FaultKind::BitFlip), ([Ok(0), Ok(1)], 6));
    assert_eq!(outcome(7, FaultKind::Eio), ([Ok(0), Ok(0)], 6));
}

#[test]
fn a_throttled_drive_takes_its_time() {
    let disk = Arc::new(MemoryDisk::new());
    let bytes_per_second = NonZeroU64::new(64 << 20).expect("above zero");
    let throttled = ThrottledDisk::new(disk, bytes_per_second);
    let (file, bytes) = patterned(&throttled, 2 << 20);
    let pool = BufferPool::new(64 << 20);
    let half = [(0, (1 << 20) / IO_ALIGN)];
    let start = Instant::now();
    let tickets = [0; 3].map(|_| submit(&file, &pool, &half, ReadPath::Direct).expect("submitted"));
    let given_up = submit(&file, &pool, &half, ReadPath::Direct).expect("submitted");
    assert!(!given_up.is_done());
    drop(given_up);
    let [first, second, third] = tickets;
    check(&third.wait().expect("read"), &half, &bytes);
    assert!(start.elapsed() >= Duration::from_millis(46), "3 MiB at 64 MiB/s");
    assert!(first.is_done() && second.is_done());
    // The fourth occupied the drive although nobody waited for it.
    file.read_at(0, &mut vec![0; 1 << 20]).expect("read");
    assert!(start.elapsed() >= Duration::from_millis(78));
    let mut requests = [ReadRequest { offset: 0, buffer: pool.take(1 << 20).expect("in budget") }];
    file.read_direct(&mut requests).expect("read");
    assert!(start.elapsed() >= Duration::from_millis(93));
    let missing = submit(&file, &pool, &[(512, 1)], ReadPath::Direct).expect("submitted");
    assert_eq!(missing.wait().expect_err("past the end").kind(), ErrorKind::Corrupt);
}

#[derive(Debug, Clone)]
enum Step {
    Submit(Vec<(usize, usize)>, bool),
    Wait(usize),
    Drop(usize),
    Ask(usize),
    Write(usize, u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let ranges = proptest::collection::vec((0..600_usize, 0..300_usize), 0..5);
    let step = prop_oneof![
        4 => (ranges, any::<bool>()).prop_map(|(ranges, cached)| Step::Submit(ranges, cached)),
        2 => any::<usize>().prop_map(Step::Wait),
        1 => any::<usize>().prop_map(Step::Drop),
        1 => any::<usize>().prop_map(Step::Ask),
        1 => (0..500_usize, any::<u8>()).prop_map(|(page, byte)| Step::Write(page, byte)),
    ];
    proptest::collection::vec(step, 1..40)
}

/// Runs `steps` on a file of 512 pages. What a ticket gives is compared with `read_at`; pages are only written while no
/// ticket is open.
fn run_steps(disk: &dyn Disk, steps: &[Step]) {
    let (file, mut bytes) = patterned(disk, 512 * IO_ALIGN);
    let pool = BufferPool::new(512 << 20);
    let mut open = Vec::new();
    for step in steps {
        match step {
            Step::Submit(pages, cached) => {
                let ticket = submit(&file, &pool, pages, PATHS[usize::from(*cached)]).expect("submitted");
                open.push((ticket, pages));
            }
            Step::Write(page, byte) if open.is_empty() => {
                let start = page * IO_ALIGN;
                bytes[start..start + IO_ALIGN].fill(*byte);
                file.write_at(start as u64, &bytes[start..start + IO_ALIGN]).expect("written");
            }
            Step::Wait(at) if !open.is_empty() => {
                let (ticket, pages) = open.remove(at % open.len());
                let is_inside = pages.iter().all(|(offset, len)| *len == 0 || offset + len <= 512);
                match ticket.wait() {
                    Ok(served) if is_inside => {
                        assert_eq!(served.len(), pages.len());
                        for request in &served {
                            let mut expected = vec![0; request.buffer.len()];
                            if !expected.is_empty() {
                                file.read_at(request.offset, &mut expected).expect("inside");
                            }
                            assert!(request.buffer[..] == expected[..]);
                        }
                    }
                    Ok(_) => panic!("read past the end: {pages:?}"),
                    Err(error) => assert!(!is_inside && error.kind() == ErrorKind::Corrupt, "{error}"),
                }
            }
            Step::Drop(at) if !open.is_empty() => drop(open.swap_remove(at % open.len())),
            Step::Ask(at) if !open.is_empty() => {
                let _ = open[at % open.len()].0.is_done();
            }
            _ => {}
        }
    }
    drop(open);
    assert_eq!(pool.in_use_bytes(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn tickets_read_what_plain_reads_do(steps in steps()) {
        on_every_disk(|disk| run_steps(disk, &steps));
    }
}
