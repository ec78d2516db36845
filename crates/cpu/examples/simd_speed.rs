//! Prints what each SIMD level of vector instructions takes on this machine to inflate frames of integers, to look codes up
//! in bitmaps and to write positions, one SIMD level after the other in turns, medians in nanoseconds for each row:
//! `cargo run --release -p forebay-cpu --example simd_speed [words of what is measured]`.

use std::sync::Mutex;
use std::time::Instant;

use forebay_base::{PhysicalType, limits::BLOCK_ROWS};
use forebay_block::{
    ChunkMemory, ChunkOptions, Compression, EncodeOptions, Encoding, Inflate, PlainColumn, PlainValues, Scheme,
    encode_block, inflate_chunk, seal_chunk,
};
use forebay_cpu::simd::{self, Lane, SimdLevel, WORD_ROWS};

/// Times that each SIMD level has its turn.
const TURNS: usize = 101;

fn random(row: usize) -> u64 {
    let mixed = (row as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 7
}

/// Prints the median of what each SIMD level takes for `BLOCK_ROWS` rows.
fn measure(name: &str, mut work: impl FnMut(SimdLevel)) {
    if std::env::args().nth(1).is_some_and(|wanted| !name.contains(&wanted)) {
        return;
    }
    let mut seconds = SimdLevel::ALL.map(|_| Vec::with_capacity(TURNS));
    for _ in 0..TURNS {
        for (level, seconds) in SimdLevel::ALL.into_iter().zip(&mut seconds) {
            if level.is_available() {
                let start = Instant::now();
                work(level);
                seconds.push(start.elapsed().as_secs_f64());
            }
        }
    }
    print!("{name:44}");
    for seconds in &mut seconds {
        seconds.sort_by(f64::total_cmp);
        match seconds.get(seconds.len() / 2) {
            Some(median) => print!("{:12.3}", median * 1e9 / BLOCK_ROWS as f64),
            None => print!("{:>12}", "-"),
        }
    }
    println!();
}

/// Memory that is given back, so that the kernel's clearing of pages is not measured.
static MEMORY: Mutex<Vec<Vec<u64>>> = Mutex::new(Vec::new());

#[derive(Debug)]
struct Again(Vec<u64>);

impl ChunkMemory for Again {
    fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        bytemuck::cast_slice_mut(&mut self.0)
    }
}

impl Drop for Again {
    fn drop(&mut self) {
        MEMORY.lock().expect("no measurement panics").push(std::mem::take(&mut self.0));
    }
}

fn take_again(bytes: usize) -> forebay_base::Result<Box<dyn ChunkMemory>> {
    let mut memory = MEMORY.lock().expect("no measurement panics").pop().unwrap_or_default();
    memory.resize(memory.len().max(bytes.div_ceil(8)), 0);
    Ok(Box::new(Again(memory)))
}

/// Inflates a block of plain values of `physical` in frames of `scheme`.
fn measure_inflate(name: &str, physical: PhysicalType, scheme: Scheme, value: &dyn Fn(usize) -> u64) {
    let width = physical.width().expect("it is a number");
    let values: Vec<u8> = (0..BLOCK_ROWS).flat_map(|row| value(row).to_le_bytes()[..width].to_vec()).collect();
    let column = PlainColumn { physical, rows: BLOCK_ROWS, validity: None, values: PlainValues::Fixed(&values) };
    let mut block = Vec::new();
    encode_block(&column, &EncodeOptions { force: Some(Encoding::Uncompressed) }, &mut block).expect("it encodes");
    let options = ChunkOptions { compression: Compression::Force(scheme) };
    let sealed = seal_chunk(&block, &[0], &options).expect("own blocks seal");
    measure(name, |level| {
        let inflate = Inflate { take: &take_again, unpack: simd::unpacking(level) };
        let inflated = inflate_chunk(&sealed.directory, &sealed.bytes, physical, &inflate);
        drop(std::hint::black_box(inflated.expect("own chunks inflate")));
    });
}

fn measure_members<L: Lane>(name: &str, number_bits: u32, from: impl Fn(u64) -> L) {
    let numbers = 1u64 << number_bits;
    let values: Vec<L> = (0..BLOCK_ROWS).map(|row| from(random(row) % numbers)).collect();
    let bits: Vec<u64> = (0..numbers.div_ceil(64)).map(|word| random(word as usize)).collect();
    for (share, given) in [("all rows", 0), ("1/2 of the rows", 1), ("1/8 of the rows", 3), ("1/32 of the rows", 5)] {
        let mask = |word: usize| (0..given).fold(u64::MAX, |mask, part| mask & random(word * 5 + part) << 7);
        let given: Vec<u64> = (0..BLOCK_ROWS / WORD_ROWS).map(mask).collect();
        let mut masks = given.clone();
        measure(&format!("look up {name} of 2^{number_bits}, {share}"), |level| {
            masks.copy_from_slice(&given);
            simd::members(level, &values, 0, &bits, &mut masks);
            std::hint::black_box(&masks);
        });
    }
}

fn main() {
    println!("{:44}{:>12}{:>12}{:>12}", "one block of 65,536 rows, ns per row", "portable", "avx2", "avx512");
    let columns = [
        (PhysicalType::U8, &[1, 3, 4, 7][..]),
        (PhysicalType::U16, &[3, 9, 12, 13]),
        (PhysicalType::U32, &[5, 12, 17, 25, 29]),
        (PhysicalType::U64, &[6, 20, 33, 47, 59]),
    ];
    for (physical, widths) in columns {
        let bytes = physical.width().expect("it is a number");
        for width in widths {
            let packed = |row| random(row) & ((1 << width) - 1);
            measure_inflate(&format!("unpack {width} bits to {bytes} bytes"), physical, Scheme::BitPacked, &packed);
        }
        let outliers = |row| if row % 97 == 3 { 250 } else { random(row) % 30 };
        measure_inflate(&format!("patch {bytes} bytes"), physical, Scheme::Patched, &outliers);
        let rising = |row| (row as u64 * 5 + random(row) % 8) >> if bytes == 1 { 11 } else { bytes % 4 };
        measure_inflate(&format!("add steps to {bytes} bytes"), physical, Scheme::Delta, &rising);
        let runs = |row| random(row / 6) % 200;
        measure_inflate(&format!("repeat runs of 6 of {bytes} bytes"), physical, Scheme::RunLength, &runs);
        let runs = |row| random(row / 40) % 200;
        measure_inflate(&format!("repeat runs of 40 of {bytes} bytes"), physical, Scheme::RunLength, &runs);
    }
    measure_members("1 byte", 8, |number| number as u8);
    for number_bits in [8, 11, 12, 16] {
        measure_members("2 bytes", number_bits, |number| number as u16);
    }
    for number_bits in [8, 11, 16, 20, 24] {
        measure_members("4 bytes", number_bits, |number| number as u32);
    }
    for number_bits in [8, 16, 20, 24] {
        measure_members("8 bytes", number_bits, |number| number);
    }
    for percent in [1, 5, 20, 50, 90] {
        let bit = |row: usize| u64::from(random(row) % 100 < percent) << (row % WORD_ROWS);
        let word = |word: usize| (0..WORD_ROWS).fold(0, |mask, row| mask | bit(word * WORD_ROWS + row));
        let masks: Vec<u64> = (0..BLOCK_ROWS / WORD_ROWS).map(word).collect();
        let mut positions = Vec::new();
        measure(&format!("positions of {percent} % of the rows"), |level| {
            positions.clear();
            simd::positions(level, &masks, &mut positions);
            std::hint::black_box(&positions);
        });
    }
}
