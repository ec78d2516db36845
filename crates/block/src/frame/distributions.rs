//! Bytes of several distributions, damage to stored ones, and the checks that hold for every scheme of frames.
//!
//! Must not know: how any scheme works.

/// Appends a stored form of bytes, where it is smaller.
pub(super) type Encode<'a> = &'a dyn Fn(&[u8], &mut Vec<u8>) -> Option<()>;

/// Fills a frame from its stored form.
pub(super) type Decode<'a> = &'a dyn Fn(&[u8], &mut [u8]) -> Result<(), &'static str>;

/// Bytes of a full frame.
pub(super) const FRAME: usize = 65_536;

/// A sequence of numbers that look random (splitmix64).
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn below(&mut self, limit: u64) -> u64 {
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

/// Words in the manner of TPC-H's comments.
pub(super) fn text(bytes: usize) -> Vec<u8> {
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

/// Checks that `count` kinds of damage make errors or other bytes, but never a panic.
pub(super) fn check_damage(plain_bytes: usize, stored: &[u8], count: u64, decode: Decode) {
    for seed in 0..count {
        let mut random = Random(seed << 32 | stored.len() as u64);
        let damaged = damage(stored, &mut random);
        let wanted_bytes = match random.below(8) {
            0 => random.below(plain_bytes as u64 * 2) as usize,
            _ => plain_bytes,
        };
        let mut plain = vec![0; wanted_bytes];
        let _: Result<(), &str> = std::hint::black_box(decode(&damaged, &mut plain));
    }
}

/// Changes some bytes, mostly among the first, and sometimes the length.
fn damage(stored: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = stored.to_vec();
    for _ in 0..=random.below(3) {
        let end = if random.below(3) > 0 { bytes.len().min(256) } else { bytes.len() };
        let at = random.below(end as u64) as usize;
        bytes[at] = match random.below(4) {
            0 => 0,
            1 => 0xff,
            2 => bytes[at] ^ (1 << random.below(8)),
            _ => random.next() as u8,
        };
    }
    match random.below(8) {
        0 => bytes.truncate(random.below(bytes.len() as u64) as usize),
        1 => bytes.extend((0..=random.below(9)).map(|byte| byte as u8)),
        2 => drop(bytes.remove(random.below(bytes.len() as u64) as usize)),
        _ => {}
    }
    bytes
}
