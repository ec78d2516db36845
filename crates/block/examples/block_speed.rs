//! Prints how fast blocks are encoded, sealed and inflated on this machine:
//! `cargo run --release -p forebay-block --example block_speed`.

use std::time::Instant;

use forebay_base::{PhysicalType, limits::BLOCK_ROWS};
use forebay_block::psma::Worth;
use forebay_block::{
    ChunkOptions, Compression, EncodeOptions, EncodedBlock, Inflate, PlainColumn, PlainValues, Psma, Scheme,
    encode_block, inflate_chunk, seal_chunk,
};

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

fn main() {
    println!("{:34}{:>12}{:>10}{:>10}  encoding", "column", "Mrows/s", "GB/s", "B/row");
    let integers = |width: usize, value: &dyn Fn(usize) -> u64| -> Vec<u8> {
        (0..BLOCK_ROWS).flat_map(|row| value(row).to_le_bytes()[..width].to_vec()).collect()
    };
    let fixed: [(&str, PhysicalType, Vec<u8>); 8] = [
        ("i32, range 100", PhysicalType::I32, integers(4, &|row| random(row) % 100)),
        ("i32, range 50,000", PhysicalType::I32, integers(4, &|row| random(row) % 50_000)),
        ("i64, range 50,000", PhysicalType::I64, integers(8, &|row| random(row) % 50_000)),
        ("i64, range 10,000,000", PhysicalType::I64, integers(8, &|row| random(row) % 10_000_000)),
        ("i64, random", PhysicalType::I64, integers(8, &random)),
        ("i32, 2,400 distinct dates", PhysicalType::I32, integers(4, &|row| random(row) % 2400 * 31 + 19_920_101)),
        ("i64, 50 distinct", PhysicalType::I64, integers(8, &|row| random(row) % 50 * 1000)),
        ("f64, 11 distinct", PhysicalType::F64, integers(8, &|row| ((random(row) % 11) as f64 / 100.0).to_bits())),
    ];
    let mut chunks = Vec::new();
    for (name, physical, bytes) in &fixed {
        chunks.push((*name, *physical, measure_encode(name, *physical, PlainValues::Fixed(bytes), bytes.len())));
    }
    let strings = |value: &dyn Fn(usize) -> String| (0..BLOCK_ROWS).map(|row| value(row).into_bytes()).collect();
    let texts: [(&str, Vec<Vec<u8>>); 3] = [
        ("strings, 25 distinct", strings(&|row| format!("NATION NUMBER {}", random(row) % 25))),
        ("strings, 2,000 distinct", strings(&|row| format!("Customer#{:09}", random(row) % 2000))),
        ("strings, distinct", strings(&|row| format!("clerk {} on behalf of {}", random(row), row))),
    ];
    for (name, texts) in &texts {
        let slices: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
        let bytes = slices.iter().map(|slice| slice.len()).sum();
        chunks.push((
            *name,
            PhysicalType::Bytes,
            measure_encode(name, PhysicalType::Bytes, PlainValues::Bytes(&slices), bytes),
        ));
    }
    println!("\n{:34}{:>12}{:>12}", "PSMA of a block", "sample, µs", "all, µs");
    let sorted = [
        ("sorted, 1 byte", PhysicalType::I32, integers(4, &|row| row as u64 / 260)),
        ("sorted, 2 bytes", PhysicalType::I32, integers(4, &|row| row as u64)),
        ("sorted, 4 bytes", PhysicalType::I64, integers(8, &|row| row as u64 * 1000)),
    ];
    for (name, physical, bytes) in fixed[..4].iter().chain(&sorted) {
        measure_psma(name, *physical, PlainValues::Fixed(bytes));
    }
    println!(
        "\n{:34}{:>20}{:>10}{:>12}{:>12}",
        "chunk of 8 blocks", "compression", "ratio", "seal GB/s", "inflate GB/s"
    );
    for (name, physical, block) in &chunks {
        let forced = [Scheme::Lz4, Scheme::Zstd, Scheme::Snappy, Scheme::Deflate, Scheme::Rans, Scheme::Delta];
        let forced = forced.map(Compression::Force);
        for compression in [Compression::Balanced, Compression::BestRatio].into_iter().chain(forced) {
            measure_chunk(name, *physical, block, compression);
        }
    }
}

fn measure_encode(name: &str, physical: PhysicalType, values: PlainValues, bytes: usize) -> Vec<u8> {
    let column = PlainColumn { physical, rows: BLOCK_ROWS, validity: None, values };
    let mut out = Vec::new();
    let seconds = fastest(|| {
        out.clear();
        encode_block(&column, &EncodeOptions::default(), &mut out).expect("a valid column encodes");
    });
    let encoding = EncodedBlock::parse(&out).expect("own blocks parse").encoding();
    println!(
        "{name:34}{:12.0}{:10.2}{:10.2}  {encoding:?}",
        BLOCK_ROWS as f64 / seconds / 1e6,
        bytes as f64 / seconds / 1e9,
        out.len() as f64 / BLOCK_ROWS as f64
    );
    out
}

fn measure_psma(name: &str, physical: PhysicalType, values: PlainValues) {
    let column = PlainColumn { physical, rows: BLOCK_ROWS, validity: None, values };
    let mut out = Vec::new();
    encode_block(&column, &EncodeOptions::default(), &mut out).expect("a valid column encodes");
    let block = EncodedBlock::parse(&out).expect("own blocks parse");
    let sampled = fastest(|| drop(std::hint::black_box(Psma::of_block(&block))));
    let all = fastest(|| drop(std::hint::black_box(Psma::build(&block, Worth::Always))));
    // What is worth it is made in both cases.
    let sample = if Psma::of_block(&block).is_some() { sampled - all } else { sampled };
    println!("{name:34}{:12.1}{:12.1}", sample.max(0.0) * 1e6, all * 1e6);
}

fn measure_chunk(name: &str, physical: PhysicalType, block: &[u8], compression: Compression) {
    let encoded = block.repeat(8);
    let offsets: Vec<u32> = (0..8).map(|index| (index * block.len()) as u32).collect();
    let options = ChunkOptions { compression };
    let mut sealed = seal_chunk(&encoded, &offsets, &options).expect("valid blocks seal");
    let seal = fastest(|| sealed = seal_chunk(&encoded, &offsets, &options).expect("valid blocks seal"));
    let inflate = fastest(|| {
        drop(
            inflate_chunk(&sealed.directory, &sealed.bytes, physical, &Inflate::default()).expect("own chunks inflate"),
        );
    });
    println!(
        "{name:34}{:>20}{:10.2}{:12.2}{:12.2}",
        format!("{compression:?}"),
        encoded.len() as f64 / sealed.bytes.len() as f64,
        encoded.len() as f64 / seal / 1e9,
        encoded.len() as f64 / inflate / 1e9
    );
}
