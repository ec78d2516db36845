//! Bytes of several distributions, and the checks that hold for every scheme of frames.
//!
//! Must not know: how any scheme works.

use super::{Elements, Kind};

/// Appends a stored form of bytes, where it is smaller.
pub(super) type Encode<'a> = &'a dyn Fn(&[u8], &mut Vec<u8>) -> Option<()>;

/// Fills a frame from its stored form.
pub(super) type Decode<'a> = &'a dyn Fn(&[u8], &mut [u8]) -> Result<(), &'static str>;

/// Bytes of a full frame.
pub(super) const FRAME: usize = 65_536;

/// A sequence of numbers that look random (splitmix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// Full frames of bytes by the name of their distribution.
pub(super) fn of_bytes() -> Vec<(&'static str, Vec<u8>)> {
    let mut random = Random(7);
    let mut fill = |byte: &dyn Fn(&mut Random, usize) -> u8| (0..FRAME).map(|i| byte(&mut random, i)).collect();
    vec![
        ("constant", vec![b'x'; FRAME]),
        ("geometric", fill(&|random, _| (random.next() | 1 << 40).trailing_zeros() as u8)),
        ("mostly one value", fill(&|random, _| if random.below(500) == 0 { random.next() as u8 } else { 3 })),
        ("a hundred values", fill(&|random, _| random.below(100) as u8)),
        ("cubes", fill(&|random, _| (random.below(256).pow(3) >> 16) as u8)),
        ("noise", fill(&|random, _| random.next() as u8)),
        ("ascending", fill(&|_, i| (i / 256) as u8)),
        ("text", text(FRAME)),
        ("names", (0..).flat_map(|i| format!("Customer#{:09}", i * 7919 % 150_000).into_bytes()).take(FRAME).collect()),
    ]
}

/// Full frames of elements by the name of their distribution.
pub(super) fn of_elements(elements: Elements) -> Vec<(&'static str, Vec<u8>)> {
    match elements.kind {
        Kind::Integers | Kind::Wide => of_integers(elements.bytes),
        Kind::Floats => of_floats(elements.bytes),
        Kind::Text => of_bytes(),
    }
}

/// Full frames of integers of `width` bytes by the name of their distribution.
pub(super) fn of_integers(width: usize) -> Vec<(&'static str, Vec<u8>)> {
    let low_bytes = |value: u64| u128::from(value).to_le_bytes().into_iter().take(width);
    let frame =
        |mut value: Box<dyn FnMut(usize) -> u64>| (0..FRAME / width).flat_map(|row| low_bytes(value(row))).collect();
    // The value of a run by its number, while runs have 1 to 40 rows.
    let runs = |value: fn(u64, &mut Random) -> u64| {
        let (mut random, mut run, mut left, mut last) = (Random(5), 0, 0, 0);
        frame(Box::new(move |_| {
            if left == 0 {
                (left, last) = (1 + random.below(40), value(run, &mut random));
                run += 1;
            }
            left -= 1;
            last
        }))
    };
    let (mut narrow, mut outliers, mut steps, mut noise) = (Random(1), Random(2), Random(3), Random(4));
    let mut last = 0;
    vec![
        ("constant", frame(Box::new(|_| 77))),
        ("narrow", frame(Box::new(move |_| 100 + narrow.below(13)))),
        ("outliers", frame(Box::new(move |row| if row % 97 == 3 { outliers.next() } else { outliers.below(9) }))),
        (
            "ascending",
            frame(Box::new(move |_| {
                last += steps.below(4);
                last
            })),
        ),
        ("descending", frame(Box::new(|row| (FRAME - row) as u64 * 3))),
        ("runs of noise", runs(|_, random| random.next())),
        ("runs of few values", runs(|_, random| random.below(5))),
        ("runs that ascend", runs(|run, random| run * 2 + random.below(2))),
        ("runs with outliers", runs(|run, random| if run % 60 == 7 { random.next() } else { random.below(9) })),
        ("noise", frame(Box::new(move |_| noise.next()))),
    ]
}

/// Full frames of doubles by the name of their distribution.
fn of_doubles() -> Vec<(&'static str, Vec<f64>)> {
    let mut random = Random(11);
    let mut fill = |value: &dyn Fn(&mut Random) -> f64| (0..FRAME / 8).map(|_| value(&mut random)).collect();
    let specials = [f64::NAN, -f64::NAN, -0.0, f64::INFINITY, f64::NEG_INFINITY, 5e-324, f64::MIN_POSITIVE, f64::MAX];
    vec![
        ("constant", vec![0.25; FRAME / 8]),
        ("prices", fill(&|random| random.below(10_000_000) as f64 / 100.0)),
        ("temperatures", fill(&|random| (random.below(600) as f64 - 200.0) / 10.0)),
        ("thousands", fill(&|random| random.below(5000) as f64 * 1000.0)),
        ("places", fill(&|random| (random.below(360_000_000) as f64 - 180e6) / 1e6)),
        ("outliers", fill(&|random| if random.below(50) == 0 { 1e15 } else { random.below(99) as f64 / 10.0 })),
        (
            "specials",
            fill(&|random| match random.below(20) {
                0 => specials[random.below(8) as usize],
                _ => random.below(100) as f64 / 100.0,
            }),
        ),
        ("only specials", fill(&|random| specials[random.below(8) as usize])),
        ("noise", fill(&|random| f64::from_bits(random.next()))),
        ("uniform", fill(&|random| random.next() as f64 / u64::MAX as f64)),
    ]
}

/// Full frames of floats of `width` bytes by the name of their distribution.
pub(super) fn of_floats(width: usize) -> Vec<(&'static str, Vec<u8>)> {
    let bytes = |value: &f64| match width {
        4 => (*value as f32).to_le_bytes().to_vec(),
        _ => value.to_le_bytes().to_vec(),
    };
    let frame = |values: Vec<f64>| values.iter().cycle().take(FRAME / width).flat_map(bytes).collect();
    of_doubles().into_iter().map(|(name, values)| (name, frame(values))).collect()
}

/// Words in the manner of TPC-H's comments.
pub(crate) fn text(bytes: usize) -> Vec<u8> {
    const WORDS: &str = "furiously slyly carefully blithely quickly packages accounts deposits requests ideas pinto beans \
        theodolites instructions dependencies foxes sleep haggle nag wake use boost affix detect integrate final ironic \
        regular express special bold even silent unusual pending across among about above the according to against";
    let words: Vec<&str> = WORDS.split_whitespace().collect();
    let mut random = Random(3);
    let mut text = String::new();
    while text.len() < bytes {
        text += words[random.below(words.len() as u64) as usize];
        text += [" ", " ", " ", " ", ". ", ", "][random.below(6) as usize];
    }
    text.truncate(bytes);
    text.into_bytes()
}

/// Checks that `plain` comes back wherever it is stored smaller, and that nothing is left behind where it is not. The
/// stored bytes.
pub(super) fn check_round_trip(name: &str, plain: &[u8], encode: Encode, decode: Decode) -> Option<Vec<u8>> {
    let mut out = b"before".to_vec();
    if encode(plain, &mut out).is_none() {
        assert_eq!(out, b"before", "{name}, {} bytes", plain.len());
        return None;
    }
    let stored = out.strip_prefix(b"before").expect("what was there stays");
    assert!(stored.len() < plain.len(), "{name}, {} bytes", plain.len());
    let mut back = vec![0xa5; plain.len()];
    assert_eq!(decode(stored, &mut back), Ok(()), "{name}, {} bytes", plain.len());
    assert!(back == plain, "{name}, {} bytes: others come back", plain.len());
    Some(stored.to_vec())
}

/// Checks that the table of constants in `docs/format.md` says so.
pub(super) fn check_documented(name: &str, value: usize) {
    let row = format!("\n| {name} | {value} |\n");
    assert!(include_str!("../../../../docs/format.md").contains(&row), "docs/format.md has no row{row}");
}

/// Checks that an estimate is at most a tenth below the stored bytes.
pub(super) fn check_estimate(name: &str, estimated_bytes: usize, stored_bytes: usize) {
    assert!(estimated_bytes * 10 >= stored_bytes * 9, "{name}: {estimated_bytes} for {stored_bytes}");
}
