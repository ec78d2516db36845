//! Prints how fast one core of this machine decodes each scheme of frames and scans what it decoded: the table that
//! `choose::Rates` keeps. `cargo run --release -p forebay-block --example rates`.

use std::time::Instant;

use forebay_base::{PhysicalType, limits::BLOCK_ROWS};
use forebay_block::choose::{EncodedGroup, Plan, Rates, Timing};
use forebay_block::{
    Access, Codes, Compression, EncodeOptions, Encoding, Inflate, PlainColumn, PlainValues, Scheme, SealedChunk,
    directory_summary, encode_block, inflate_chunk,
};

/// Blocks of a chunk.
const BLOCKS: usize = 8;

/// A scheme is timed where it holds so many percent of a column's bytes.
const LEAST_PERCENT: u64 = 90;

/// Seconds of the fastest of some runs.
fn fastest(mut work: impl FnMut()) -> f64 {
    (0..9).fold(f64::MAX, |best, _| {
        let start = Instant::now();
        work();
        best.min(start.elapsed().as_secs_f64())
    })
}

fn random(row: usize) -> u64 {
    let mixed = (row as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 20
}

/// A block of a column, which the chunk has several times.
struct Column {
    name: &'static str,
    physical: PhysicalType,
    block: Vec<u8>,
}

impl Column {
    fn new(name: &'static str, physical: PhysicalType, values: PlainValues<'_>) -> Self {
        let column = PlainColumn { physical, rows: BLOCK_ROWS, validity: None, values };
        // Values themselves where they repeat: else most bytes would be spared before there are frames.
        let force = name.starts_with("plain").then_some(Encoding::Uncompressed);
        let mut block = Vec::new();
        encode_block(&column, &EncodeOptions { force }, &mut block).expect("a valid column encodes");
        Self { name, physical, block }
    }

    fn seal(&self, scheme: Scheme) -> SealedChunk {
        let block_offsets: Vec<u32> = (0..BLOCKS).map(|index| (index * self.block.len()) as u32).collect();
        let group = EncodedGroup { bytes: &self.block.repeat(BLOCKS), block_offsets: &block_offsets };
        let plan = Plan { compression: Compression::Force(scheme), blocks_per_chunk: BLOCKS as u16 };
        plan.seal(&group).expect("valid blocks seal").remove(0)
    }
}

fn columns() -> Vec<Column> {
    let fixed = |name, physical: PhysicalType, value: &dyn Fn(usize) -> u64| {
        let width = physical.width().expect("it is a number");
        let values: Vec<u8> = (0..BLOCK_ROWS).flat_map(|row| value(row).to_le_bytes()[..width].to_vec()).collect();
        Column::new(name, physical, PlainValues::Fixed(&values))
    };
    let strings = |name, value: &dyn Fn(usize) -> String| {
        let strings: Vec<Vec<u8>> = (0..BLOCK_ROWS).map(|row| value(row).into_bytes()).collect();
        let slices: Vec<&[u8]> = strings.iter().map(Vec::as_slice).collect();
        Column::new(name, PhysicalType::Bytes, PlainValues::Bytes(&slices))
    };
    let words = ["furiously", "slyly", "packages", "deposits", "ideas", "sleep", "haggle", "about", "the", "express"];
    vec![
        fixed("codes of 1 byte", PhysicalType::I32, &|row| random(row) % 100 * (random(row + 7) % 3)),
        fixed("codes of 2 bytes", PhysicalType::I32, &|row| random(row) % 50_000),
        fixed("codes of 4 bytes", PhysicalType::I64, &|row| random(row) % 10_000_000),
        fixed("ascending", PhysicalType::I64, &|row| row as u64 * 50 + random(row) % 30),
        fixed("plain outliers", PhysicalType::I32, &|row| random(row) % if row % 97 == 3 { 1 << 28 } else { 30 }),
        fixed("plain runs", PhysicalType::I32, &|row| random(row / 12) % 100_000),
        fixed("plain runs, wide", PhysicalType::I64, &|row| random(row / 60) % 100_000),
        fixed("prices", PhysicalType::F64, &|row| ((random(row) % 10_000_000) as f64 / 100.0).to_bits()),
        strings("comments", &|row| {
            (0..6).map(|word| words[(random(row * 6 + word) % 10) as usize]).collect::<Vec<_>>().join(" ")
        }),
        strings("names", &|row| format!("Customer#{:09}", row * 7919 % 1_000_000)),
    ]
}

/// Chunks of a scan: more than caches hold.
const SCANNED_CHUNKS: usize = 128;

/// Seconds to compare all codes of many chunks with a constant, and their bytes.
fn time_scan(column: &Column) -> Timing {
    let sealed = column.seal(Scheme::Plain);
    let inflate = || inflate_chunk(&sealed.directory, &sealed.bytes, column.physical, &Inflate::default());
    let chunks: Vec<_> = (0..SCANNED_CHUNKS).map(|_| inflate().expect("own chunks inflate")).collect();
    let codes = |chunk: usize, block: usize| {
        let Access::FrameOfReference { codes: Codes::U16(codes), .. } = chunks[chunk].block(block).access() else {
            panic!("numbers up to 50,000 have codes of 2 bytes");
        };
        codes
    };
    let limit = std::hint::black_box(12_345);
    let seconds = fastest(|| {
        for chunk in 0..SCANNED_CHUNKS {
            for block in 0..BLOCKS {
                let matches = codes(chunk, block).iter().map(|code| u16::from(*code < limit));
                std::hint::black_box(matches.fold(0, u16::wrapping_add));
            }
        }
    });
    Timing { plain_bytes: (SCANNED_CHUNKS * BLOCKS * BLOCK_ROWS * size_of::<u16>()) as u64, seconds }
}

fn main() {
    let columns = columns();
    let mut timings = Vec::new();
    println!("{:12}{:20}{:>10}{:>10}", "scheme", "column", "ratio", "MB/s");
    for scheme in Scheme::ALL {
        for column in &columns {
            let sealed = column.seal(scheme);
            let summary = directory_summary(&sealed.directory, column.physical).expect("own directories are read");
            let plain_bytes: u64 = summary.iter().map(|scheme| scheme.plain_bytes).sum();
            let own_bytes = summary.iter().find(|own| own.scheme == scheme).map_or(0, |own| own.plain_bytes);
            if own_bytes * 100 < plain_bytes * LEAST_PERCENT {
                continue;
            }
            let seconds = fastest(|| {
                let inflated = inflate_chunk(&sealed.directory, &sealed.bytes, column.physical, &Inflate::default());
                drop(std::hint::black_box(inflated.expect("own chunks inflate")));
            });
            let ratio = plain_bytes as f64 / sealed.bytes.len() as f64;
            println!("{:12}{:20}{ratio:10.2}{:10.0}", scheme.name(), column.name, plain_bytes as f64 / seconds / 1e6);
            timings.push((scheme, Timing { plain_bytes, seconds }));
        }
    }
    let rates = Rates::measured(&timings, Some(time_scan(&columns[1])));
    println!("\n{:12}{:>16}{:>16}", "scheme", "measured, MB/s", "fixed, MB/s");
    for scheme in Scheme::ALL {
        println!("{:12}{:16.0}{:16.0}", scheme.name(), rates.of(scheme) / 1e6, Rates::fixed().of(scheme) / 1e6);
    }
    println!("{:12}{:16.0}{:16.0}", "scan", rates.scan() / 1e6, Rates::fixed().scan() / 1e6);
}
