//! Prints how small the schemes for frames make generated data and how fast they are, next to LZ4 and Zstandard on the same
//! frames: `cargo run --release -p forebay-block --example frame_speed`.
//!
//! The schemes are private to the crate: their files are modules here, too.

#[path = "../src/frame/alp.rs"]
mod alp;
#[path = "../src/frame/fsst.rs"]
mod fsst;
#[path = "../src/frame/rans.rs"]
mod rans;

use std::hint::black_box;
use std::time::Instant;

use forebay_base::limits::FRAME_BYTES;

/// Frames of each kind of data: more than one, as a branch predictor learns a single one by heart.
const FRAMES: usize = 16;

/// Level of Zstandard that chunks are compressed with.
const ZSTD_LEVEL: i32 = 1;

/// What is compared. The first parameter is the width of floats, 0 where the bytes are none.
struct Scheme {
    name: &'static str,
    encode: fn(usize, &[u8], &mut Vec<u8>) -> Option<()>,
    decode: fn(usize, &[u8], &mut [u8]),
    estimate: Option<fn(usize, &[u8]) -> usize>,
}

const SCHEMES: [Scheme; 5] = [
    Scheme {
        name: "rANS",
        encode: |_, plain, out| rans::encode(plain, out),
        decode: |_, stored, plain| rans::decode(stored, plain).expect("own frames decode"),
        estimate: Some(|_, plain| rans::estimate(plain)),
    },
    Scheme {
        name: "FSST",
        encode: |_, plain, out| fsst::encode(plain, out),
        decode: |_, stored, plain| fsst::decode(stored, plain).expect("own frames decode"),
        estimate: Some(|_, plain| fsst::estimate(plain)),
    },
    Scheme {
        name: "ALP",
        encode: alp::encode,
        decode: |width, stored, plain| alp::decode(width, stored, plain).expect("own frames decode"),
        estimate: Some(alp::estimate),
    },
    Scheme {
        name: "LZ4",
        encode: |_, plain, out| {
            let stored = lz4_flex::block::compress(plain);
            out.extend_from_slice(&stored);
            (stored.len() < plain.len()).then_some(())
        },
        decode: |_, stored, plain| {
            lz4_flex::block::decompress_into(stored, plain).expect("own frames decode");
        },
        estimate: None,
    },
    Scheme {
        name: "Zstandard 1",
        encode: |_, plain, out| {
            let stored = zstd::bulk::compress(plain, ZSTD_LEVEL).ok()?;
            out.extend_from_slice(&stored);
            (stored.len() < plain.len()).then_some(())
        },
        decode: |_, stored, plain| {
            zstd::bulk::decompress_to_buffer(stored, plain).expect("own frames decode");
        },
        estimate: None,
    },
];

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

/// Words in the manner of TPC-H's comments.
fn text(bytes: usize) -> Vec<u8> {
    const WORDS: &str = "furiously slyly carefully blithely quickly fluffily packages accounts deposits requests ideas \
        theodolites pinto beans instructions dependencies excuses platelets asymptotes courts dolphins multipliers \
        sauternes warthogs frets dinos attainments somas foxes sleep haggle nag wake use boost affix detect integrate \
        cajole engage doze run lose hinder dazzle snooze are was final ironic regular express special bold even silent \
        unusual pending close thin quick brave daring dogged ruthless busy across among about above the according to \
        against along after before behind between";
    let words: Vec<&str> = WORDS.split_whitespace().collect();
    let mut text = String::new();
    for index in 0.. {
        text += words[random(index) as usize % words.len()];
        text += [" ", " ", " ", " ", " ", ". ", ", ", "; ", " ", "-"][random(index + 1_000_000) as usize % 10];
        if text.len() >= bytes {
            break;
        }
    }
    text.truncate(bytes);
    text.into_bytes()
}

fn main() {
    let bytes = FRAMES * FRAME_BYTES;
    let by_width = |width: usize, value: &dyn Fn(usize) -> u64| -> Vec<u8> {
        (0..bytes / width).flat_map(|row| value(row).to_le_bytes()[..width].to_vec()).collect()
    };
    let cents = |row: usize| 90_000 + random(row) % 10_000_000;
    let skewed = |row: usize| (random(row) % 256).pow(3) >> 16;
    let price = |row: usize| cents(row) as f64 / 100.0;
    let degrees = |row: usize| ((random(row) % 600) as f32 - 200.0) / 10.0;
    let place = |row: usize| match random(row) % 200 {
        0 => f64::NAN,
        _ => (random(row + 7) % 360_000_000) as f64 / 1e6,
    };
    let names = |row: usize| format!("Customer#{:09}", random(row) % 150_000).into_bytes();
    let data: [(&str, usize, Vec<u8>); 10] = [
        ("comments", 0, text(bytes)),
        ("names with numbers", 0, (0..bytes).flat_map(names).take(bytes).collect()),
        ("codes, geometric", 0, by_width(1, &|row| u64::from((random(row) | 1 << 40).trailing_zeros()))),
        ("codes, skewed", 0, by_width(1, &skewed)),
        ("codes, noise", 0, by_width(1, &random)),
        ("prices in cents, 4 bytes", 0, by_width(4, &cents)),
        ("prices, doubles", 8, by_width(8, &|row| price(row).to_bits())),
        ("places, doubles, some NaN", 8, by_width(8, &|row| place(row).to_bits())),
        ("temperatures, floats", 4, by_width(4, &|row| degrees(row).to_bits().into())),
        ("noise, doubles", 8, by_width(8, &|row| random(row) << 20 | random(row + 9) & 0xf_ffff)),
    ];
    println!(
        "{:28}{:>12}{:>8}{:>10}{:>12}{:>12}{:>14}",
        "frames of 64 KiB", "scheme", "ratio", "estimated", "encode GB/s", "decode GB/s", "estimate GB/s"
    );
    for (name, width, plain) in &data {
        for scheme in SCHEMES.iter().filter(|scheme| scheme.name != "ALP" || *width > 0) {
            measure(name, *width, plain, scheme);
        }
    }
}

fn measure(name: &str, width: usize, plain: &[u8], scheme: &Scheme) {
    let mut frames: [Vec<u8>; FRAMES] = std::array::from_fn(|_| Vec::with_capacity(2 * FRAME_BYTES));
    let mut smaller = true;
    let encode = fastest(|| {
        for (stored, frame) in frames.iter_mut().zip(plain.chunks(FRAME_BYTES)) {
            stored.clear();
            smaller &= (scheme.encode)(width, frame, stored).is_some();
        }
    });
    let gigabytes = plain.len() as f64 / 1e9;
    let estimated = scheme.estimate.map(|estimate| {
        let sum = || plain.chunks(FRAME_BYTES).map(|frame| estimate(width, frame)).sum::<usize>();
        let seconds = fastest(|| {
            black_box(sum());
        });
        (format!("{:.2}", plain.len() as f64 / sum() as f64), format!("{:.2}", gigabytes / seconds))
    });
    let (estimated, estimate) = estimated.unwrap_or_default();
    if !smaller {
        let speed = gigabytes / encode;
        println!("{name:28}{:>12}{:>8}{estimated:>10}{speed:12.2}{:>12}{estimate:>14}", scheme.name, "-", "-");
        return;
    }
    let mut back = vec![0; FRAME_BYTES];
    let decode = fastest(|| {
        for stored in &frames {
            (scheme.decode)(width, black_box(stored), &mut back);
            black_box(&back);
        }
    });
    assert!(back == plain[plain.len() - FRAME_BYTES..], "{name}: {} gives other bytes", scheme.name);
    let ratio = plain.len() as f64 / frames.iter().map(Vec::len).sum::<usize>() as f64;
    let speeds = (gigabytes / encode, gigabytes / decode);
    println!("{name:28}{:>12}{ratio:8.2}{estimated:>10}{:12.2}{:12.2}{estimate:>14}", scheme.name, speeds.0, speeds.1);
}
