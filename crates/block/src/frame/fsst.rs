//! FSST (Boncz, Neumann & Leis, "FSST: fast random access string compression", VLDB 2020) over the bytes of a frame: codes
//! of one byte stand for symbols of one to eight bytes, which are chosen for every frame by a sample of it. Strings are not
//! looked at one by one, so symbols may reach over their ends.
//!
//! Stored form:
//!
//! | bytes | field |
//! |---|---|
//! | 8 | the number of symbols of one byte, of two, … of eight; together at most 255 |
//! | | the bytes of all symbols, in this order |
//! | | the codes, to the end |
//!
//! Code c stands for symbol c, counted from 0. Code 255 is an *escape*: the byte behind it stands for itself.
//!
//! Invariants: training is deterministic; a symbol is never longer than eight bytes, so that a decoder may copy eight
//! wherever there is room. Must not know: what the bytes of a frame mean.

/// Longest symbol.
const SYMBOL_BYTES: usize = 8;

/// Symbols of a table; one code is left for escapes.
const SYMBOLS_LIMIT: usize = 255;

/// The code in front of a byte that stands for itself.
const ESCAPE: u8 = 255;

/// Bytes that a table is trained on: twice as many (the paper's sample) save 2 % of text and cost 40 % of the time.
const SAMPLE_BYTES: usize = 8 << 10;

/// Parts of a frame that a sample is taken from: a prime number, so that they are found in any order by multiples.
const SAMPLE_PIECES: usize = 31;

/// Rounds of training, each with more of the sample (the paper's number).
const ROUNDS: usize = 5;

/// How often a pair must occur in the whole sample to become a candidate; in earlier rounds a part of it.
const PAIR_COUNT_MIN: usize = 5;

/// Weight of symbols of one byte among candidates (the paper's): without one, every such byte costs two.
const BYTE_WEIGHT: u64 = 8;

/// Appends the stored form of `plain` to `out`; `None` (and `out` as before) where it would not be smaller.
#[cfg(test)]
pub(crate) fn encode(plain: &[u8], out: &mut Vec<u8>) -> Option<()> {
    Table::of(plain).encode(plain, out)
}

/// Symbols that were chosen for some bytes, and how to find them. To choose them takes longer than to use them.
pub(crate) struct Table {
    symbols: Vec<Symbol>,
    matcher: Matcher,
}

impl Table {
    /// Symbols for a sample of `plain`.
    pub(crate) fn of(plain: &[u8]) -> Self {
        let symbols = train(&sample(plain, SAMPLE_BYTES));
        Self { matcher: Matcher::of(&symbols), symbols }
    }

    /// Appends the stored form of `plain` by these symbols to `out`; None (and `out` as before) where it would not be
    /// smaller.
    pub(crate) fn encode(&self, plain: &[u8], out: &mut Vec<u8>) -> Option<()> {
        encode_by(&self.symbols, &self.matcher, plain, out)
    }
}

fn encode_by(symbols: &[Symbol], matcher: &Matcher, plain: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let begin = out.len();
    write_symbols(symbols, out);
    let codes_at = out.len();
    let codes_bytes = (begin + plain.len()).checked_sub(codes_at + 1).and_then(|codes_limit_bytes| {
        // One byte more: what the last code would need as an escape.
        out.resize(codes_at + codes_limit_bytes + 1, 0);
        let codes_bytes = encode_codes(matcher, plain, &mut out[codes_at..]);
        codes_bytes.filter(|codes_bytes| *codes_bytes <= codes_limit_bytes)
    });
    out.truncate(codes_bytes.map_or(begin, |codes_bytes| codes_at + codes_bytes));
    codes_bytes.map(|_| ())
}

/// Fills `plain` completely from exactly `stored`; says what is wrong otherwise.
pub(crate) fn decode(stored: &[u8], plain: &mut [u8]) -> Result<(), &'static str> {
    let (symbols, codes) = read_symbols(stored)?;
    // A code without a symbol is as long as no frame can be, which needs no check of its own.
    let (mut bytes, mut lengths) = ([[0; SYMBOL_BYTES]; 256], [plain.len() + 1; 256]);
    for (code, symbol) in symbols.iter().enumerate() {
        bytes[code] = symbol.bytes.to_le_bytes();
        lengths[code] = symbol.length;
    }
    let (mut from, mut to) = (0, 0);
    while let Some(code) = codes.get(from) {
        let code = usize::from(*code);
        if code == usize::from(ESCAPE) {
            let byte = codes.get(from + 1).ok_or("the byte behind an escape is cut off")?;
            *plain.get_mut(to).ok_or(OTHER_LENGTH)? = *byte;
            (from, to) = (from + 2, to + 1);
            continue;
        }
        let length = lengths[code];
        match plain.get_mut(to..to + SYMBOL_BYTES) {
            Some(room) => room.copy_from_slice(&bytes[code]),
            None => plain.get_mut(to..to + length).ok_or(OTHER_LENGTH)?.copy_from_slice(&bytes[code][..length]),
        }
        (from, to) = (from + 1, to + length);
    }
    if to != plain.len() { Err(OTHER_LENGTH) } else { Ok(()) }
}

/// What is wrong with codes that do not fill a frame.
const OTHER_LENGTH: &str = "the symbols have another length than the frame";

/// Up to `limit_bytes` from all parts of `plain`, such that any beginning of the sample is from all parts, too.
fn sample(plain: &[u8], limit_bytes: usize) -> Vec<u8> {
    if plain.len() <= limit_bytes {
        return plain.to_vec();
    }
    let (stride, piece_bytes) = (plain.len() / SAMPLE_PIECES, limit_bytes / SAMPLE_PIECES);
    let mut sample = Vec::with_capacity(limit_bytes);
    for piece in 0..SAMPLE_PIECES {
        let start = piece * 12 % SAMPLE_PIECES * stride;
        sample.extend_from_slice(&plain[start..start + piece_bytes]);
    }
    sample
}

/// One to eight bytes, the first one least significant, zeros above.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Symbol {
    bytes: u64,
    length: usize,
}

impl Symbol {
    fn of_byte(byte: u8) -> Self {
        Self { bytes: byte.into(), length: 1 }
    }

    /// This one and then the other, cut to eight bytes; `None` where nothing of the other would be left.
    fn then(self, other: Self) -> Option<Self> {
        let length = (self.length + other.length).min(SYMBOL_BYTES);
        (self.length < SYMBOL_BYTES).then(|| Self { bytes: self.bytes | other.bytes << (8 * self.length), length })
    }
}

/// What stands for the next bytes: the code of the longest symbol that was found, or an escape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Match {
    code: u8,
    length: u8,
}

/// Finds symbols: those of three bytes and more by a hash of their first three, of which only one per hash is found (as in
/// the paper), shorter ones by their bytes.
struct Matcher {
    long: Vec<(u64, Match)>,
    pairs: Vec<Match>,
    single: [Match; 256],
}

/// Hashes of a [`Matcher`]: few enough that the symbols lie in the first-level cache.
const HASH_BITS: u32 = 10;

/// The mask of the first `length` bytes of a word, one at least.
fn mask(length: u8) -> u64 {
    u64::MAX >> (64 - 8 * u32::from(length))
}

impl Matcher {
    /// Symbol i gets the code i; no two of three bytes and more may have the same hash.
    fn of(symbols: &[Symbol]) -> Self {
        let escape = Match { code: ESCAPE, length: 1 };
        // A masked word never equals what stands where no symbol is.
        let mut matcher =
            Self { long: vec![(u64::MAX, escape); 1 << HASH_BITS], pairs: Vec::new(), single: [escape; 256] };
        let found = |code: usize, symbol: &Symbol| Match { code: code as u8, length: symbol.length as u8 };
        for (code, symbol) in symbols.iter().enumerate().filter(|(_, symbol)| symbol.length == 1) {
            matcher.single[symbol.bytes as usize] = found(code, symbol);
        }
        matcher.pairs = matcher.single.repeat(256);
        for (code, symbol) in symbols.iter().enumerate().filter(|(_, symbol)| symbol.length > 1) {
            match symbol.length {
                2 => matcher.pairs[symbol.bytes as usize] = found(code, symbol),
                _ => matcher.long[hash(symbol.bytes)] = (symbol.bytes, found(code, symbol)),
            }
        }
        matcher
    }

    /// What stands for the bytes from `from` on, of which there is one at least, and the first of them.
    #[inline(always)]
    fn find(&self, plain: &[u8], from: usize) -> (Match, u8) {
        let (word, left) = match plain.get(from..).and_then(|rest| rest.first_chunk()) {
            Some(bytes) => (u64::from_le_bytes(*bytes), SYMBOL_BYTES),
            None => last_word(&plain[from..]),
        };
        let (bytes, long) = self.long[hash(word)];
        let found = if word & mask(long.length) == bytes { long } else { self.pairs[usize::from(word as u16)] };
        if usize::from(found.length) <= left {
            (found, word as u8)
        } else {
            (self.single[usize::from(word as u8)], word as u8)
        }
    }
}

/// A hash of the first three bytes.
fn hash(word: u64) -> usize {
    ((word & 0xff_ffff).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - HASH_BITS)) as usize
}

/// The last bytes, less than a word, with zeros behind them, and how many they are.
#[cold]
fn last_word(rest: &[u8]) -> (u64, usize) {
    let mut bytes = [0; SYMBOL_BYTES];
    bytes[..rest.len()].copy_from_slice(rest);
    (u64::from_le_bytes(bytes), rest.len())
}

/// Writes the codes of `plain` into `codes` and says how many bytes they are; `None` where there is no room for two more
/// than there are.
fn encode_codes(matcher: &Matcher, plain: &[u8], codes: &mut [u8]) -> Option<usize> {
    let (mut from, mut to) = (0, 0);
    while from < plain.len() {
        let (found, byte) = matcher.find(plain, from);
        // The byte is there for an escape; what comes next overwrites it otherwise.
        codes.get_mut(to..to + 2)?.copy_from_slice(&[found.code, byte]);
        to += 1 + usize::from(found.code == ESCAPE);
        from += usize::from(found.length);
    }
    Some(to)
}

/// Appends the table.
fn write_symbols(symbols: &[Symbol], out: &mut Vec<u8>) {
    let begin = out.len();
    out.resize(begin + SYMBOL_BYTES, 0);
    for symbol in symbols {
        out[begin + symbol.length - 1] += 1;
        out.extend_from_slice(&symbol.bytes.to_le_bytes()[..symbol.length]);
    }
}

/// The symbols, at most [`SYMBOLS_LIMIT`], and the codes behind them.
fn read_symbols(stored: &[u8]) -> Result<(Vec<Symbol>, &[u8]), &'static str> {
    const CUT: &str = "the symbols are cut off";
    let (counts, mut rest) = stored.split_first_chunk::<SYMBOL_BYTES>().ok_or(CUT)?;
    if counts.iter().map(|count| usize::from(*count)).sum::<usize>() > SYMBOLS_LIMIT {
        return Err("there are more than 255 symbols");
    }
    let mut symbols = Vec::with_capacity(SYMBOLS_LIMIT);
    for (length, count) in (1..).zip(counts) {
        for _ in 0..*count {
            let (symbol, behind) = rest.split_at_checked(length).ok_or(CUT)?;
            let mut bytes = [0; SYMBOL_BYTES];
            bytes[..length].copy_from_slice(symbol);
            symbols.push(Symbol { bytes: u64::from_le_bytes(bytes), length });
            rest = behind;
        }
    }
    Ok((symbols, rest))
}

/// A symbol of the table of a round by its code, or from [`LITERAL`] on a byte without one.
type Unit = usize;

/// The unit of the byte 0.
const LITERAL: Unit = 256;

/// Units are below this power of two.
const UNIT_BITS: u32 = 9;

/// Chooses symbols for `sample`, in the order of the stored table (§4.3 of the paper): each round encodes with the table of
/// the one before, and the symbols and pairs of symbols that were most worth in it are the next table.
fn train(sample: &[u8]) -> Vec<Symbol> {
    let mut symbols = Vec::new();
    let mut counts = Counts::new();
    for round in 1..=ROUNDS {
        counts.clear();
        counts.add(&Matcher::of(&symbols), &sample[..sample.len() * round / ROUNDS]);
        symbols = most_worth(candidates(&symbols, &counts, (PAIR_COUNT_MIN * round / ROUNDS) as u32));
    }
    symbols.sort_unstable_by_key(|symbol| (symbol.length, symbol.bytes));
    symbols
}

/// How often units, and pairs of them, occur in a sample.
struct Counts {
    units: [u32; 1 << UNIT_BITS],
    /// A hash table: both units above [`PAIR_COUNT_BITS`] of count; 0 is empty.
    pairs: Vec<u32>,
    /// The places of the table that are not empty, so that nobody has to look for them.
    used: Vec<u32>,
}

/// Bits of a count of a pair.
const PAIR_COUNT_BITS: u32 = 32 - 2 * UNIT_BITS;

/// A pair is counted at most once per byte.
const _: () = assert!(SAMPLE_BYTES < 1 << PAIR_COUNT_BITS);

/// Places of the hash table of pairs: enough for nearly all of a sample of text.
const PAIR_PLACES: usize = 1 << 13;

/// Places that are looked at for a pair; then it is not counted. Only samples of noise have so many of them.
const PAIR_PROBES: usize = 8;

impl Counts {
    fn new() -> Self {
        Self { units: [0; 1 << UNIT_BITS], pairs: vec![0; PAIR_PLACES], used: Vec::with_capacity(PAIR_PLACES) }
    }

    fn clear(&mut self) {
        self.units.fill(0);
        for place in self.used.drain(..) {
            self.pairs[place as usize] = 0;
        }
    }

    /// Counts what encoding `sample` meets.
    fn add(&mut self, matcher: &Matcher, sample: &[u8]) {
        let mut from = 0;
        let mut last: Option<Unit> = None;
        while from < sample.len() {
            let (found, byte) = matcher.find(sample, from);
            let literal = LITERAL + usize::from(byte);
            let unit = if found.code == ESCAPE { literal } else { usize::from(found.code) };
            self.units[unit] += 1;
            if let Some(last) = last {
                self.add_pair(last, unit);
                // The first byte alone could be what the one before lacks.
                if found.length > 1 {
                    self.add_pair(last, literal);
                }
            }
            last = Some(unit);
            from += usize::from(found.length);
        }
    }

    fn add_pair(&mut self, first: Unit, second: Unit) {
        let pair = (first << UNIT_BITS | second) as u32;
        let place = (pair.wrapping_mul(0x9e37_79b1) >> (32 - PAIR_PLACES.ilog2())) as usize;
        for probe in 0..PAIR_PROBES {
            let at = (place + probe) % PAIR_PLACES;
            let counted = self.pairs[at];
            if counted == 0 {
                self.pairs[at] = pair << PAIR_COUNT_BITS | 1;
                self.used.push(at as u32);
                return;
            }
            if counted >> PAIR_COUNT_BITS == pair {
                // Samples are shorter than a count can be.
                self.pairs[at] = counted + 1;
                return;
            }
        }
    }
}

/// Symbols that could be in the next table, each once, with the bytes of the sample that it would stand for.
fn candidates(symbols: &[Symbol], counts: &Counts, pair_count_min: u32) -> Vec<(Symbol, u64)> {
    let symbol_of = |unit: Unit| match unit.checked_sub(LITERAL) {
        Some(byte) => Symbol::of_byte(byte as u8),
        None => symbols[unit],
    };
    let mut found = Vec::new();
    for (unit, count) in counts.units.iter().enumerate().filter(|(_, count)| **count > 0) {
        let symbol = symbol_of(unit);
        let weight = if symbol.length == 1 { BYTE_WEIGHT } else { symbol.length as u64 };
        found.push((symbol, u64::from(*count) * weight));
    }
    for counted in counts.used.iter().map(|place| counts.pairs[*place as usize]) {
        let (pair, count) = ((counted >> PAIR_COUNT_BITS) as usize, counted % (1 << PAIR_COUNT_BITS));
        if count < pair_count_min {
            continue;
        }
        let (first, second) = (symbol_of(pair >> UNIT_BITS), symbol_of(pair % (1 << UNIT_BITS)));
        if let Some(symbol) = first.then(second) {
            found.push((symbol, u64::from(count) * symbol.length as u64));
        }
    }
    found.sort_unstable();
    // Several pairs may make the same symbol.
    found.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        kept.1 += if same { next.1 } else { 0 };
        same
    });
    found
}

/// The candidates that are worth most and can be found beside each other; for equal worth the greater ones, so that tables
/// are the same on every machine.
fn most_worth(mut candidates: Vec<(Symbol, u64)>) -> Vec<Symbol> {
    candidates.sort_unstable_by_key(|(symbol, worth)| std::cmp::Reverse((*worth, *symbol)));
    let mut taken = [false; 1 << HASH_BITS];
    let free = candidates
        .into_iter()
        .map(|(symbol, _)| symbol)
        .filter(|symbol| symbol.length < 3 || !std::mem::replace(&mut taken[hash(symbol.bytes)], true));
    free.take(SYMBOLS_LIMIT).collect()
}

#[cfg(test)]
mod tests {
    use super::super::distributions::{FRAME, Random, check_documented, check_round_trip, of_bytes, text};
    use super::*;
    use expect_test::expect;
    use proptest::prelude::*;

    /// The layout at the head of this file, followed word by word.
    fn decode_slowly(stored: &[u8]) -> Vec<u8> {
        let mut at = 8;
        let mut symbols = Vec::new();
        for length in 1..=8 {
            for _ in 0..stored[length - 1] {
                symbols.push(&stored[at..at + length]);
                at += length;
            }
        }
        let mut plain = Vec::new();
        while at < stored.len() {
            if stored[at] == 255 {
                plain.push(stored[at + 1]);
                at += 2;
            } else {
                plain.extend_from_slice(symbols[usize::from(stored[at])]);
                at += 1;
            }
        }
        plain
    }

    #[test]
    fn the_document_has_the_numbers_of_the_code() {
        check_documented("FSST_SYMBOL_BYTES", SYMBOL_BYTES);
        check_documented("FSST_SYMBOLS_LIMIT", SYMBOLS_LIMIT);
        check_documented("FSST_ESCAPE", ESCAPE.into());
    }

    #[test]
    fn frames_of_every_length_come_back() {
        for (name, plain) in of_bytes() {
            for length in (0..=300).chain([1000, 4095, FRAME - 1, FRAME]) {
                if let Some(stored) = check_round_trip(name, &plain[..length], &encode, &decode) {
                    assert!(decode_slowly(&stored) == plain[..length], "{name}, {length} bytes");
                }
            }
        }
    }

    #[test]
    fn zeros_at_the_end_are_no_part_of_a_symbol() {
        // The last bytes are compared as a word with zeros behind them.
        let plain = [b"ab\0\0\0\0".repeat(50), b"ab".to_vec()].concat();
        for length in 0..plain.len() {
            check_round_trip("zeros", &plain[..length], &encode, &decode);
        }
        check_round_trip("zeros", &plain, &encode, &decode).expect("it repeats");
    }

    #[test]
    fn text_is_halved() {
        let stored = check_round_trip("text", &text(FRAME), &encode, &decode).expect("text is compressible");
        assert!(stored.len() < FRAME * 2 / 5, "{}", stored.len());
    }

    #[test]
    fn golden_bytes() {
        let plain = b"tumblers and ".repeat(20);
        let mut stored = Vec::new();
        encode(&plain, &mut stored).expect("it repeats");
        let shown: String = stored.escape_ascii().to_string();
        expect![[r#"\x00\x00\x00\x01\x00\x00\x00\x06and umblers d tumble and tumblers antumblersrs and t\x05\x03\x04\x02\x06\x01\x00\x05\x03\x04\x02\x06\x01\x00\x05\x03\x04\x02\x06\x01\x00\x05\x03\x04\x02\x06\x01\x00\x05\x03\x04\x02\x06\x01\x00"#]].assert_eq(&shown);
    }

    #[test]
    fn errors_say_what_is_wrong() {
        let mut plain = [0; 4];
        let mut error = |stored: &[u8]| decode(stored, &mut plain).expect_err("it is wrong");
        assert_eq!(error(&[1, 0, 0, 0, 0, 0, 0]), "the symbols are cut off");
        assert_eq!(error(&[0, 2, 0, 0, 0, 0, 0, 0, b'a', b'b', b'c']), "the symbols are cut off");
        assert_eq!(error(&[128, 128, 0, 0, 0, 0, 0, 0]), "there are more than 255 symbols");
        assert_eq!(error(&[0, 1, 0, 0, 0, 0, 0, 0, b'a', b'b', 0, 255]), "the byte behind an escape is cut off");
        assert_eq!(error(&[0, 1, 0, 0, 0, 0, 0, 0, b'a', b'b', 0, 1]), OTHER_LENGTH);
        assert_eq!(error(&[0, 1, 0, 0, 0, 0, 0, 0, b'a', b'b', 0, 0, 0]), OTHER_LENGTH);
        assert_eq!(decode(&[0, 1, 0, 0, 0, 0, 0, 0, b'a', b'b', 0, 255, b'c', 255, b'd'], &mut plain), Ok(()));
        assert_eq!(&plain, b"abcd");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

        #[test]
        fn any_bytes_come_back(values in 1..=256_u64, length in 0..5000_usize, repeats in 1..300_usize, seed: u64) {
            let mut random = Random(seed);
            let phrases: Vec<u8> = (0..length.div_ceil(repeats)).map(|_| random.below(values) as u8).collect();
            let plain: Vec<u8> = phrases.iter().cycle().take(length.min(phrases.len() * repeats)).copied().collect();
            if let Some(stored) = check_round_trip("any", &plain, &encode, &decode) {
                prop_assert_eq!(decode_slowly(&stored), plain);
            }
        }
    }
}
