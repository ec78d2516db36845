//! The emulated device: what kernels do on it, and that it catches what is wrong with them. Each fault is planted once.

use std::sync::Arc;

use forebay_base::{ErrorKind, Result};
use forebay_gpu::device::{Address, Buffer, Device, Function, Grid, Memory, Stream};
use forebay_gpu::emulated::{EmulatedDevice, Options};

/// A device with one stream.
struct Bench {
    device: Arc<dyn Device>,
    stream: Stream,
}

impl Bench {
    fn new(seed: u64) -> Self {
        let device: Arc<dyn Device> =
            EmulatedDevice::open(Options { seed, ..Options::default() }).expect("this machine has a C++ compiler");
        let stream = device.stream().expect("a stream");
        Self { device, stream }
    }

    /// A kernel over `struct { u64* words; u64 count; } p`.
    fn kernel(&self, body: &str) -> Function {
        let text = format!(
            "#include \"aggregate.cuh\"\nstruct Parameters {{ u64* words; u64 count; }};\n\
             struct Words {{ u64 at[64]; }};\n\
             KERNEL(planted, Parameters) {{\n{body}\n}}\n"
        );
        let image = self.device.compile(&text).expect("the text is right");
        self.device.load(&image, "planted").expect("it has the kernel")
    }

    fn buffer(&self, memory: Memory, words: u64) -> Buffer {
        Buffer::new(&self.device, memory, words * 8).expect("there is memory")
    }

    fn launch(
        &self,
        stream: Stream,
        kernel: Function,
        blocks: u32,
        threads: u32,
        at: Address,
        count: u64,
    ) -> Result<()> {
        let parameters: Vec<u8> = [at.0, count].iter().flat_map(|word| word.to_ne_bytes()).collect();
        self.device.launch(stream, kernel, Grid { blocks, threads, shared_bytes: 0 }, &parameters)
    }

    /// Runs a kernel over some words of 0 and gives what it left in them.
    fn run(&self, body: &str, blocks: u32, threads: u32, words: u64) -> Result<Vec<u64>> {
        let (buffer, host) = (self.buffer(Memory::Device, words), self.buffer(Memory::Pinned, words));
        self.device.fill(self.stream, buffer.address(), 0, words * 8)?;
        self.launch(self.stream, self.kernel(body), blocks, threads, buffer.address(), words)?;
        self.device.copy(self.stream, host.address(), buffer.address(), words * 8)?;
        self.device.synchronize(self.stream)?;
        Ok(self.words(&host))
    }

    fn words(&self, host: &Buffer) -> Vec<u64> {
        let mut words = Vec::new();
        let mut read = |bytes: &mut [u8]| {
            words = bytes.chunks(8).map(|word| u64::from_ne_bytes(word.try_into().expect("8 bytes"))).collect();
        };
        self.device.pinned(host.address(), host.bytes(), &mut read).expect("it is waited for");
        words
    }
}

fn fails_with(outcome: Result<Vec<u64>>, text: &str) {
    let error = outcome.expect_err(text);
    assert_eq!(error.kind(), ErrorKind::Internal);
    assert!(error.to_string().contains(text), "{error}");
}

#[test]
fn threads_find_their_place() {
    let body = "u64 at = blockIdx.x * 64 + threadIdx.x; p.words[at] = at * 3 + gridDim.x;";
    let expected: Vec<u64> = (0..320).map(|at| at * 3 + 5).collect();
    assert_eq!(Bench::new(1).run(body, 5, 64, 320).expect("nothing is wrong"), expected);
}

#[test]
fn shuffles_votes_and_barriers_hold_threads_in_step() {
    let body = "SHARED(Words, sums);
        u64 sum = warp_sum((u64)threadIdx.x);
        if (threadIdx.x % LANES == 0) sums.at[threadIdx.x / LANES] = sum;
        __syncthreads();
        u64 all = sums.at[0] + sums.at[1] + sums.at[2] + sums.at[3];
        u32 odd = __ballot_sync(ALL_LANES, threadIdx.x % 2);
        i128 wide = warp_sum((i128)-1 - ((i128)threadIdx.x << 70));
        if (threadIdx.x == 127) { p.words[0] = all; p.words[1] = odd; }
        if (threadIdx.x == 0) { p.words[2] = (u64)wide; p.words[3] = (u64)(wide >> 64); }";
    for seed in 0..20 {
        let words = Bench::new(seed).run(body, 1, 128, 4).expect("nothing is wrong");
        let wide = -32 - (496i128 << 70);
        assert_eq!(words, [127 * 64, 0xaaaa_aaaa, wide as u64, (wide >> 64) as u64], "seed {seed}");
    }
}

#[test]
fn atomics_add_up() {
    let body = "add_wide(p.words, -((i128)threadIdx.x << 40)); add_word(p.words + 2, 1);
        add_widest(p.words + 3, (i128)1 << 126);
        add_float(p.words + 6, 0.5); add_greatest(p.words + 7, (i64)threadIdx.x - 100); add_least(p.words + 8, -5);";
    let words = Bench::new(3).run(body, 7, 128, 9).expect("nothing is wrong");
    let sum = -7 * (127 * 64) * (1i128 << 40);
    assert_eq!(words[..3], [sum as u64, (sum >> 64) as u64, 7 * 128]);
    // 896 times 2^126 is 7 times 2^133.
    assert_eq!(words[3..6], [0, 0, 7 << 5]);
    assert_eq!(f64::from_bits(words[6]), 448.0);
    assert_eq!((words[7] ^ (1 << 63)) as i64, 27);
    assert_eq!((!words[8] ^ (1 << 63)) as i64, -5);
}

#[test]
fn a_race_is_caught() {
    let body = "p.words[threadIdx.x / 2] = threadIdx.x;";
    fails_with(Bench::new(1).run(body, 1, 64, 64), "race in block 0");
    let read = "if (threadIdx.x == 3) p.words[0] = 1; else if (threadIdx.x == 9) p.words[1] = p.words[0];";
    for seed in 0..10 {
        fails_with(Bench::new(seed).run(read, 1, 32, 2), "with no barrier between");
    }
    let mixed = "if (threadIdx.x == 3) p.words[0] = 1; else atomicAdd(p.words, 1);";
    fails_with(Bench::new(1).run(mixed, 1, 32, 2), "race");
    // Neighbouring bytes are no race, and neither is what one thread does alone.
    let bytes = "((u8*)p.words)[threadIdx.x] = 1; ((u8*)p.words)[threadIdx.x] += 1;";
    assert_eq!(Bench::new(1).run(bytes, 1, 16, 2).expect("no race"), [0x0202_0202_0202_0202; 2]);
}

#[test]
fn a_missing_barrier_is_caught() {
    let body = |barrier: &str| {
        format!(
            "SHARED(Words, shared); shared.at[threadIdx.x] = threadIdx.x; {barrier}
             p.words[threadIdx.x] = shared.at[63 - threadIdx.x];"
        )
    };
    let expected: Vec<u64> = (0..64).rev().collect();
    assert_eq!(Bench::new(1).run(&body("__syncthreads();"), 2, 64, 64).expect("no race"), expected);
    fails_with(Bench::new(1).run(&body(""), 1, 64, 64), "race in block 0");
}

#[test]
fn a_barrier_that_not_all_reach_is_caught() {
    fails_with(
        Bench::new(1).run("if (threadIdx.x > 0) __syncthreads();", 1, 64, 1),
        "hangs: 63 threads wait at a barrier",
    );
    fails_with(Bench::new(1).run("if (threadIdx.x > 0) warp_sum((u64)1);", 1, 32, 1), "hangs");
}

#[test]
fn accesses_out_of_bounds_are_caught() {
    let read = "if (threadIdx.x == 5) p.words[0] = p.words[p.count];";
    fails_with(Bench::new(1).run(read, 1, 32, 10), "thread 5 reads 8 bytes at byte 80 of a buffer of 80");
    fails_with(Bench::new(1).run("p.words[-1] = 1;", 1, 1, 10), "writes 8 bytes");
    fails_with(Bench::new(1).run("((u32*)((char*)p.words + 78))[0] = 1;", 1, 1, 10), "out of bounds");
    fails_with(Bench::new(1).run("atomicAdd(p.words + p.count, 1);", 1, 1, 10), "adds to 8 bytes");
    fails_with(Bench::new(1).run("*(u64*)16 = 1;", 1, 1, 10), "where no buffer is");
    let shared = "SHARED(Words, shared); shared.at[4000 + threadIdx.x] = 1;";
    fails_with(Bench::new(1).run(shared, 1, 1, 10), "out of bounds");
    let bench = Bench::new(1);
    let error = bench.device.copy(bench.stream, Address(8), Address(8), 1).expect_err("no such memory");
    assert!(error.to_string().contains("leaves the device's buffers"), "{error}");
}

#[test]
fn a_copy_that_is_read_before_its_event_is_caught() {
    for (seed, waits) in (0..30).map(|number| (number / 2, number % 2 == 0)) {
        let bench = Bench::new(seed);
        let other = bench.device.stream().expect("a stream");
        let (buffer, host) = (bench.buffer(Memory::Device, 8), bench.buffer(Memory::Pinned, 8));
        bench.device.pinned(host.address(), 64, &mut |bytes| bytes.fill(1)).expect("nothing uses it");
        let kernel = bench.kernel("p.words[threadIdx.x] += 1;");
        bench.device.copy(other, buffer.address(), host.address(), 64).expect("it is put in");
        let event = bench.device.event().expect("an event");
        bench.device.record(event, other).expect("it is put in");
        if waits {
            bench.device.wait(bench.stream, event).expect("it is put in");
        }
        bench.launch(bench.stream, kernel, 1, 8, buffer.address(), 8).expect("it is put in");
        bench.device.copy(bench.stream, host.address(), buffer.address(), 64).expect("it is put in");
        let outcome = bench.device.synchronize(bench.stream).and_then(|()| bench.device.synchronize(other));
        match waits {
            true => {
                outcome.expect("nothing is wrong");
                assert_eq!(bench.words(&host), [0x0101_0101_0101_0102; 8]);
            }
            false => {
                let error = outcome.expect_err("the streams are not in order");
                assert!(error.to_string().contains("with no event between them"), "{error}");
            }
        }
    }
}

#[test]
fn the_host_must_wait_before_it_looks() {
    let bench = Bench::new(1);
    let (buffer, host) = (bench.buffer(Memory::Device, 8), bench.buffer(Memory::Pinned, 8));
    bench.device.fill(bench.stream, buffer.address(), 7, 64).expect("it is put in");
    bench.device.copy(bench.stream, host.address(), buffer.address(), 64).expect("it is put in");
    let error = bench.device.pinned(host.address(), 64, &mut |_| {}).expect_err("nobody waited");
    assert!(error.to_string().contains("the host writes memory that stream 0 writes"), "{error}");
    bench.device.synchronize(bench.stream).expect("nothing is wrong");
    assert_eq!(bench.words(&host), [0x0707_0707_0707_0707; 8]);
}

#[test]
fn an_event_that_was_never_recorded_is_over() {
    let bench = Bench::new(1);
    let event = bench.device.event().expect("an event");
    bench.device.wait(bench.stream, event).expect("it was never recorded: nothing to wait for");
    bench.device.synchronize(bench.stream).expect("nothing is wrong");
}

#[test]
fn bytes_are_counted_and_memory_comes_back() {
    let bench = Bench::new(1);
    bench.run("p.words[0] = 1;", 1, 1, 100).expect("nothing is wrong");
    let counters = bench.device.counters();
    assert_eq!((counters.to_device_bytes, counters.to_host_bytes, counters.within_device_bytes), (0, 800, 800));
    assert_eq!((counters.launches, counters.compilations, counters.synchronizations), (1, 1, 1));
    assert_eq!((counters.device_bytes, counters.pinned_bytes, counters.peak_device_bytes), (0, 0, 800));
}

#[test]
fn memory_runs_out_where_it_is_told_to() {
    let options = Options { memory_bytes: 1000, fail_allocation: Some(2), fail_launch: Some(0), ..Options::default() };
    let device: Arc<dyn Device> = EmulatedDevice::open(options).expect("this machine has a C++ compiler");
    let first = Buffer::new(&device, Memory::Device, 600).expect("there is room");
    let error = Buffer::new(&device, Memory::Device, 600).expect_err("there is none");
    assert_eq!(error.to_string(), "the emulated device has no 600 bytes of device memory left");
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    drop(first);
    assert!(Buffer::new(&device, Memory::Device, 1).is_err(), "the third one");
    assert!(Buffer::new(&device, Memory::Device, 1000).is_ok());
    let stream = device.stream().expect("a stream");
    let image =
        device.compile("#include \"device.cuh\"\nstruct P { u64 a; };\nKERNEL(none, P) {}").expect("it is right");
    let kernel = device.load(&image, "none").expect("it is there");
    let grid = Grid { blocks: 1, threads: 1, shared_bytes: 0 };
    assert!(device.launch(stream, kernel, grid, &[0; 8]).is_err());
    assert!(device.launch(stream, kernel, grid, &[0; 8]).is_ok());
    device.synchronize(stream).expect("nothing is wrong");
}

#[test]
fn a_device_is_lost_where_it_is_told_to() {
    for call in 0..4 {
        let options = Options { lose_at_call: Some(call), ..Options::default() };
        let opened = EmulatedDevice::open(options).expect("this machine has a C++ compiler");
        let device: Arc<dyn Device> = opened.clone();
        let mut buffers = Vec::new();
        for number in 0..6 {
            match Buffer::new(&device, Memory::Device, 100) {
                Ok(buffer) => buffers.push(buffer),
                Err(error) => {
                    assert!(number >= call, "{error}");
                    assert_eq!((error.kind(), error.message()), (ErrorKind::Io, "the emulated device was lost"));
                }
            }
        }
        assert_eq!((buffers.len() as u64, opened.calls()), (call, 6));
        assert!(device.stream().is_err());
        drop(buffers);
        assert_eq!(device.counters().device_bytes, 0, "memory comes back also then");
    }
}

#[test]
fn a_wrong_text_is_an_error_that_says_where() {
    let error = Bench::new(1).device.compile("int x = ;").expect_err("it is wrong");
    assert!(error.to_string().contains("does not compile a kernel"), "{error}");
}
