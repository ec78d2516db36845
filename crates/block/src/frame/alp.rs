//! Floating-point numbers that were decimals, as integers (after Afroozeh, Kuffó & Boncz, "ALP: adaptive lossless
//! floating-point compression", SIGMOD 2024): vectors of 1,024 values, each with the power of ten that makes integers of
//! them, packed in a frame of reference; values that do not come back bit by bit are *exceptions*. Other than in the paper
//! a decoder divides by a power of ten instead of multiplying by its inverse: division rounds correctly, so every decimal
//! that an integer below 2^51 can hold comes back, and one power is enough to look for.
//!
//! Stored form: the vectors, one after the other, of n = 1,024 values each and the last one of the rest. All numbers are
//! little-endian:
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 1 | e, 0 to 22 |
//! | 1 | 1 | f, 0 to 22 |
//! | 2 | 1 | w, 0 to 52 |
//! | 3 | 1 | 0 |
//! | 4 | 2 | number of exceptions X, at most n |
//! | 6 | 2 | 0 |
//! | 8 | 8 | base (signed), from -2^51; base + code i is below 2^51 for all i |
//! | 16 | 8 ⌈n w / 64⌉ | codes: number i occupies the bits i w to i w + w - 1, least significant bit of the first byte first; zeros behind the last one |
//! | | 2 X | positions of the exceptions, ascending |
//! | | 4 X or 8 X | bits of the exceptions |
//! | | | zeros up to a multiple of 8 |
//!
//! With d = base + code i, value i is d * 10^f / 10^e: product and quotient are rounded to IEEE binary64, to nearest, ties to
//! even, and so is the result to binary32 where values have four bytes. At an exception its bits count.
//!
//! Invariants: all bits come back, those of NaNs, infinities, zeros with a sign and subnormal numbers too. Must not know:
//! columns, NULL.

/// Values that share a power of ten, a base and a width.
const VECTOR_VALUES: usize = 1024;

/// Bytes in front of a vector's codes.
const VECTOR_HEADER_BYTES: usize = 16;

/// Values of a vector that powers of ten are tried on.
const TRIED_VALUES: usize = 32;

/// Integers are from -2^51 up to, not including, 2^51.
const INTEGER_LIMIT: i64 = 1 << 51;

/// The widest code: the difference of two integers.
const WIDTH_MAX: usize = 52;

/// 1.5 * 2^52: between 2^52 and 2^53 the distance of two numbers is 1, so adding this rounds to an integer, and the bits
/// differ from those of this number by that integer. Vectors have instructions for that everywhere, for conversions not.
const ROUNDER: f64 = 6_755_399_441_055_744.0;

/// The powers of ten that binary64 holds exactly.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22,
];

/// Largest e that is tried: 10^18 makes integers of the smallest numbers that have one digit to lose.
const TRIED_EXPONENTS: u8 = 18;

/// Largest f that is tried.
const TRIED_FACTORS: u8 = 12;

/// In place of the integer of a value that has none.
const EXCEPTION: i64 = i64::MIN;

/// Appends the stored form of `plain`, floats of `width` bytes (4 or 8), to `out`; `None` (and `out` as before) where it
/// would not be smaller.
pub(crate) fn encode(width: usize, plain: &[u8], out: &mut Vec<u8>) -> Option<()> {
    match width {
        4 => encode_values::<4>(plain, out),
        8 => encode_values::<8>(plain, out),
        _ => None,
    }
}

/// Fills `plain`, floats of `width` bytes, completely from exactly `stored`; says what is wrong otherwise.
pub(crate) fn decode(width: usize, stored: &[u8], plain: &mut [u8]) -> Result<(), &'static str> {
    match width {
        4 => decode_values::<4>(stored, plain),
        8 => decode_values::<8>(stored, plain),
        _ => Err("floats have four or eight bytes"),
    }
}

fn encode_values<const WIDTH: usize>(plain: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let begin = out.len();
    let (values, rest) = plain.as_chunks::<WIDTH>();
    let mut before = None;
    for vector in values.chunks(VECTOR_VALUES) {
        let scale = Scale::of(vector, before);
        encode_vector(vector, scale, out);
        before = Some(scale);
    }
    let smaller = rest.is_empty() && out.len() - begin < plain.len();
    if !smaller {
        out.truncate(begin);
    }
    smaller.then_some(())
}

fn decode_values<const WIDTH: usize>(mut stored: &[u8], plain: &mut [u8]) -> Result<(), &'static str> {
    let (values, rest) = plain.as_chunks_mut::<WIDTH>();
    if !rest.is_empty() {
        return Err("the frame is not made of whole floats");
    }
    for vector in values.chunks_mut(VECTOR_VALUES) {
        stored = decode_vector(stored, vector)?;
    }
    if stored.is_empty() { Ok(()) } else { Err("there are bytes behind the last vector") }
}

/// The bits of a float, zero-extended.
fn bits_of<const WIDTH: usize>(bytes: &[u8; WIDTH]) -> u64 {
    let mut word = [0; 8];
    word[..WIDTH].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

/// The number of a float's bits. NaNs may change.
fn number_of<const WIDTH: usize>(bits: u64) -> f64 {
    if WIDTH == 4 { f32::from_bits(bits as u32).into() } else { f64::from_bits(bits) }
}

/// The bits of the float that is nearest to a number.
fn nearest_bits<const WIDTH: usize>(number: f64) -> u64 {
    if WIDTH == 4 { (number as f32).to_bits().into() } else { number.to_bits() }
}

/// What makes an integer of a value and back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Scale {
    exponent: u8,
    factor: u8,
}

impl Scale {
    /// The scale that stores some values of a vector in the fewest bits. The scale of the vector before, if any, stays
    /// where all of them come back by it and the next coarser one is not better: values of a frame are mostly of one kind,
    /// and to try all scales takes longer than to encode.
    fn of<const WIDTH: usize>(vector: &[[u8; WIDTH]], before: Option<Self>) -> Self {
        // An odd distance: what comes back every two, four or eight values must not look like all of them.
        let stride = (vector.len() / TRIED_VALUES) | 1;
        let (mut tried, mut integers) = ([[0; WIDTH]; TRIED_VALUES], [0; TRIED_VALUES]);
        let count = vector.len().div_ceil(stride).min(TRIED_VALUES);
        for (tried, value) in tried.iter_mut().zip(vector.iter().step_by(stride)) {
            *tried = *value;
        }
        let mut packing = |scale: &Self| {
            scale.integers(&tried[..count], &mut integers[..count]);
            Packing::of::<WIDTH>(&integers[..count])
        };
        let mut fits = |before: &Self| {
            let fine = packing(before);
            fine.is_exact && fine.cost_bits <= packing(&before.coarser()).cost_bits
        };
        if let Some(before) = before.filter(|before| fits(before)) {
            return before;
        }
        let exponents = (0..=TRIED_EXPONENTS).map(|exponent| Self { exponent, factor: 0 });
        let factors = (1..=TRIED_FACTORS).map(|factor| Self { exponent: 0, factor });
        exponents.chain(factors).min_by_key(|scale| packing(scale).cost_bits).expect("there are scales")
    }

    /// The scale whose integers have a digit less.
    fn coarser(self) -> Self {
        match self.exponent {
            0 => Self { factor: self.factor + 1, ..self },
            exponent => Self { exponent: exponent - 1, ..self },
        }
    }

    /// The integers of values, and [`EXCEPTION`] for those that do not come back.
    fn integers<const WIDTH: usize>(self, values: &[[u8; WIDTH]], integers: &mut [i64]) {
        for (integer, bytes) in integers.iter_mut().zip(values) {
            let bits = bits_of(bytes);
            let next = self.integer(number_of::<WIDTH>(bits));
            let back = nearest_bits::<WIDTH>(self.number(next.wrapping_add(ROUNDER.to_bits() as i64)));
            let comes_back = (-INTEGER_LIMIT..INTEGER_LIMIT).contains(&next) && back == bits;
            *integer = if comes_back { next } else { EXCEPTION };
        }
    }

    /// The integer next to a value over the scale; the value may be any.
    fn integer(self, number: f64) -> i64 {
        let scaled = number * POWERS[usize::from(self.exponent)] / POWERS[usize::from(self.factor)];
        ((scaled + ROUNDER).to_bits() as i64).wrapping_sub(ROUNDER.to_bits() as i64)
    }

    /// The value of an integer in the limits. `biased` is the integer and the bits of [`ROUNDER`].
    fn number(self, biased: i64) -> f64 {
        let integer = f64::from_bits(biased as u64) - ROUNDER;
        integer * POWERS[usize::from(self.factor)] / POWERS[usize::from(self.exponent)]
    }
}

/// How integers are packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Packing {
    base: i64,
    width: usize,
    /// Bits of codes and exceptions.
    cost_bits: usize,
    /// Whether no value is an exception for want of an integer.
    is_exact: bool,
}

impl Packing {
    /// The width that takes the fewest bits: wider codes, or more exceptions.
    fn of<const WIDTH: usize>(integers: &[i64]) -> Self {
        let base = integers.iter().copied().filter(|integer| *integer != EXCEPTION).min().unwrap_or(0);
        let mut lengths = [0; WIDTH_MAX + 1];
        let mut exceptions = 0;
        for integer in integers {
            match *integer {
                EXCEPTION => exceptions += 1,
                integer => lengths[(u64::BITS - ((integer - base) as u64).leading_zeros()) as usize] += 1,
            }
        }
        let mut best = Self { base, width: WIDTH_MAX, cost_bits: usize::MAX, is_exact: exceptions == 0 };
        for width in (0..=WIDTH_MAX).rev() {
            let cost_bits = integers.len() * width + exceptions * (16 + 8 * WIDTH);
            if cost_bits < best.cost_bits {
                best = Self { width, cost_bits, ..best };
            }
            exceptions += lengths[width];
        }
        best
    }

    fn holds(self, integer: i64) -> bool {
        integer != EXCEPTION && (integer - self.base) >> self.width == 0
    }
}

fn encode_vector<const WIDTH: usize>(vector: &[[u8; WIDTH]], scale: Scale, out: &mut Vec<u8>) {
    let begin = out.len();
    let mut integers = [0; VECTOR_VALUES];
    let integers = &mut integers[..vector.len()];
    scale.integers(vector, integers);
    let packing = Packing::of::<WIDTH>(integers);
    let exceptions = || (0..vector.len()).filter(|position| !packing.holds(integers[*position]));
    out.extend_from_slice(&[scale.exponent, scale.factor, packing.width as u8, 0]);
    out.extend_from_slice(&(exceptions().count() as u16).to_le_bytes());
    out.extend_from_slice(&[0; 2]);
    out.extend_from_slice(&packing.base.to_le_bytes());
    let code = |integer: &i64| if packing.holds(*integer) { (integer - packing.base) as u64 } else { 0 };
    pack(integers.iter().map(code), packing.width, out);
    exceptions().for_each(|position| out.extend_from_slice(&(position as u16).to_le_bytes()));
    exceptions().for_each(|position| out.extend_from_slice(&vector[position]));
    out.resize(begin + (out.len() - begin).next_multiple_of(8), 0);
}

/// Appends codes of `width` bits, whole words of them.
fn pack(codes: impl Iterator<Item = u64>, width: usize, out: &mut Vec<u8>) {
    let (mut word, mut used) = (0_u64, 0);
    for code in codes {
        word |= code << used;
        used += width;
        if used >= 64 {
            out.extend_from_slice(&word.to_le_bytes());
            used -= 64;
            // The bits of the code that were shifted out; all of them where it ended with the word.
            word = code >> (width - used);
        }
    }
    if used > 0 {
        out.extend_from_slice(&word.to_le_bytes());
    }
}

/// Undoes [`pack`]: `packed` holds all codes, perhaps with other bytes behind them.
fn unpack(packed: &[u8], width: usize, codes: &mut [u64]) {
    let mask = (1 << width) - 1;
    for (index, code) in codes.iter_mut().enumerate() {
        let bit = index * width;
        // 52 bits and the 7 before them are in one word.
        let word = match packed.get(bit / 8..).and_then(|rest| rest.first_chunk()) {
            Some(bytes) => u64::from_le_bytes(*bytes),
            None => last_word(&packed[(bit / 8).min(packed.len())..]),
        };
        *code = word >> (bit % 8) & mask;
    }
}

/// The last bytes, less than a word, with zeros behind them.
#[cold]
fn last_word(rest: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    bytes[..rest.len()].copy_from_slice(rest);
    u64::from_le_bytes(bytes)
}

/// Fills a vector and gives what is stored behind it.
fn decode_vector<'a, const WIDTH: usize>(
    stored: &'a [u8],
    vector: &mut [[u8; WIDTH]],
) -> Result<&'a [u8], &'static str> {
    const CUT: &str = "a vector is cut off";
    let (header, rest) = stored.split_first_chunk::<VECTOR_HEADER_BYTES>().ok_or(CUT)?;
    let [exponent, factor, width, 0, low, high, 0, 0, base @ ..] = *header else {
        return Err("the header of a vector has other bytes than zeros where there is no field");
    };
    let (scale, width, base) = (Scale { exponent, factor }, usize::from(width), i64::from_le_bytes(base));
    if usize::from(exponent.max(factor)) >= POWERS.len() {
        return Err("a power of ten is too large");
    }
    const TOO_LARGE: &str = "the integers of a vector are too large";
    if width > WIDTH_MAX || !(-INTEGER_LIMIT..INTEGER_LIMIT).contains(&base) {
        return Err(TOO_LARGE);
    }
    let exceptions = usize::from(u16::from_le_bytes([low, high]));
    let (codes_bytes, positions_bytes) = ((vector.len() * width).div_ceil(64) * 8, 2 * exceptions);
    let used_bytes = codes_bytes + positions_bytes + WIDTH * exceptions;
    let (body, behind) = rest.split_at_checked(used_bytes.next_multiple_of(8)).ok_or(CUT)?;
    if body[used_bytes..].iter().any(|byte| *byte != 0) {
        return Err("the padding of a vector is not zero");
    }
    let mut codes = [0; VECTOR_VALUES];
    unpack(rest, width, &mut codes[..vector.len()]);
    // Where the widest codes would lead too far, those that are there need not.
    let most = (INTEGER_LIMIT - 1 - base) as u64;
    if most < (1 << width) - 1 && codes[..vector.len()].iter().any(|code| *code > most) {
        return Err(TOO_LARGE);
    }
    let bias = base + ROUNDER.to_bits() as i64;
    for (value, code) in vector.iter_mut().zip(codes) {
        let bits = nearest_bits::<WIDTH>(scale.number(bias + code as i64));
        value.copy_from_slice(&bits.to_le_bytes()[..WIDTH]);
    }
    let positions = body[codes_bytes..codes_bytes + positions_bytes].as_chunks::<2>().0;
    let bits = body[codes_bytes + positions_bytes..used_bytes].as_chunks::<WIDTH>().0;
    let mut next = 0;
    for (position, bits) in positions.iter().zip(bits) {
        let position = usize::from(u16::from_le_bytes(*position));
        if position < next {
            return Err("the positions of exceptions do not ascend");
        }
        *vector.get_mut(position).ok_or("an exception lies behind its vector")? = *bits;
        next = position + 1;
    }
    Ok(behind)
}

#[cfg(test)]
mod tests {
    use super::super::distributions::{FRAME, Random, check_documented, check_round_trip, of_floats};
    use super::*;
    use expect_test::expect;
    use proptest::prelude::*;

    /// The layout at the head of this file, followed word by word.
    fn decode_slowly(width: usize, mut stored: &[u8], values: usize) -> Vec<u8> {
        let mut plain = Vec::new();
        for first in (0..values).step_by(1024) {
            let n = (values - first).min(1024);
            let (e, f, w) = (i32::from(stored[0]), i32::from(stored[1]), usize::from(stored[2]));
            let exceptions = usize::from(stored[4]) + 256 * usize::from(stored[5]);
            let base = i64::from_le_bytes(stored[8..16].try_into().expect("eight bytes"));
            let codes_bytes = (n * w).div_ceil(64) * 8;
            let bit = |at: usize| i64::from(stored[16 + at / 8] >> (at % 8) & 1);
            let mut vector: Vec<Vec<u8>> = Vec::new();
            for i in 0..n {
                let d = base + (0..w).map(|j| bit(i * w + j) << j).sum::<i64>();
                let value = d as f64 * 10_f64.powi(f) / 10_f64.powi(e);
                vector.push(if width == 4 { (value as f32).to_le_bytes().into() } else { value.to_le_bytes().into() });
            }
            let positions = 16 + codes_bytes;
            for j in 0..exceptions {
                let position =
                    usize::from(stored[positions + 2 * j]) + 256 * usize::from(stored[positions + 2 * j + 1]);
                let at = positions + 2 * exceptions + width * j;
                vector[position] = stored[at..at + width].into();
            }
            plain.extend(vector.concat());
            stored = &stored[(16 + codes_bytes + (2 + width) * exceptions).next_multiple_of(8)..];
        }
        assert!(stored.is_empty());
        plain
    }

    fn check(name: &str, width: usize, plain: &[u8]) -> Option<Vec<u8>> {
        let encode = |plain: &[u8], out: &mut Vec<u8>| encode(width, plain, out);
        let stored = check_round_trip(name, plain, &encode, &|stored, plain| decode(width, stored, plain))?;
        assert!(decode_slowly(width, &stored, plain.len() / width) == plain, "{name}, {} bytes", plain.len());
        Some(stored)
    }

    #[test]
    fn the_document_has_the_numbers_of_the_code() {
        check_documented("ALP_VECTOR_VALUES", VECTOR_VALUES);
        check_documented("ALP_VECTOR_HEADER_BYTES", VECTOR_HEADER_BYTES);
        check_documented("ALP_POWER_MAX", POWERS.len() - 1);
        check_documented("ALP_WIDTH_MAX", WIDTH_MAX);
    }

    #[test]
    fn frames_of_every_length_come_back() {
        for width in [4, 8] {
            for (name, plain) in of_floats(width) {
                for length in (0..=300).chain([8184, 8192, 8200, FRAME - 1, FRAME]) {
                    check(name, width, &plain[..length]);
                }
            }
        }
    }

    #[test]
    fn decimals_have_no_exceptions() {
        for (name, width, bits) in [("prices", 8, 24), ("temperatures", 8, 10), ("thousands", 8, 13), ("places", 8, 29)]
        {
            let (_, plain) = of_floats(width).into_iter().find(|frame| frame.0 == name).expect("it is there");
            let stored = check(name, width, &plain).expect("decimals are smaller as integers");
            assert_eq!(stored.len(), FRAME / width / 1024 * (16 + 128 * bits), "{name}");
        }
    }

    #[test]
    fn vectors_of_other_digits_get_other_scales() {
        let vector = |divisor: f64| (0..1024).map(move |i| f64::from(i * 7919 % 1024) / divisor);
        let divisors = [1e6, 1e2, 1.0, 1e-3, 1e4];
        let plain: Vec<u8> = divisors.into_iter().flat_map(vector).flat_map(f64::to_le_bytes).collect();
        let stored = check("digits", 8, &plain).expect("decimals are smaller as integers");
        assert_eq!(stored.len(), divisors.len() * (16 + 128 * 10));
        let scales: Vec<[u8; 2]> = stored.chunks(16 + 128 * 10).map(|vector| [vector[0], vector[1]]).collect();
        assert_eq!(scales, [[6, 0], [2, 0], [0, 0], [0, 3], [4, 0]]);
    }

    #[test]
    fn golden_bytes() {
        let values = [1.25, -3.0, f64::NAN, 1.5, 9.75, 2.0, 2.5, 0.0, 5.5, 6.25].map(f64::to_le_bytes).concat();
        let mut stored = Vec::new();
        encode(8, &values, &mut stored).expect("two bytes each, and one exception");
        expect!["[02, 00, 0b, 00, 01, 00, 00, 00, d4, fe, ff, ff, ff, ff, ff, ff, a9, 01, 00, 00, 84, b3, 4f, fa, 98, 88, 25, 52, eb, 1c, 00, 00, 02, 00, 00, 00, 00, 00, 00, 00, f8, 7f, 00, 00, 00, 00, 00, 00]"].assert_eq(&format!("{stored:02x?}"));
    }

    /// The greatest integers that are stored, of which the widest code would be beyond them.
    #[test]
    fn integers_near_the_limit_come_back() {
        for (first, step) in
            [(1.2e15, 1e12 + 1.0), (INTEGER_LIMIT as f64 - 1024.0, 1.0), (-(INTEGER_LIMIT as f64), 2e12 + 1.0)]
        {
            let values: Vec<u8> = (0..1024).flat_map(|i| (first + f64::from(i) * step).to_le_bytes()).collect();
            let mut stored = Vec::new();
            encode(8, &values, &mut stored).expect("they are smaller as integers");
            let mut back = vec![0; values.len()];
            decode(8, &stored, &mut back).expect("what is written can be read");
            assert!(back == values, "from {first}");
        }
        // One code too large is found.
        let values: Vec<u8> = (0..1024).flat_map(|i| (1.2e15 + f64::from(i) * (1e12 + 1.0)).to_le_bytes()).collect();
        let mut stored = Vec::new();
        encode(8, &values, &mut stored).expect("they are smaller as integers");
        stored[VECTOR_HEADER_BYTES..VECTOR_HEADER_BYTES + 8].fill(0xff);
        let mut back = vec![0; values.len()];
        assert_eq!(decode(8, &stored, &mut back), Err("the integers of a vector are too large"));
    }

    #[test]
    fn errors_say_what_is_wrong() {
        let values: Vec<u8> =
            (0..100).flat_map(|i| if i == 50 { f64::NAN } else { f64::from(i) / 4.0 }.to_le_bytes()).collect();
        let mut stored = Vec::new();
        encode(8, &values, &mut stored).expect("decimals are smaller as integers");
        let mut back = vec![0; values.len()];
        let mut error = |at: usize, byte: u8| {
            let mut damaged = stored.clone();
            damaged[at] = byte;
            decode(8, &damaged, &mut back).expect_err("the damage is found")
        };
        assert_eq!(error(0, 23), "a power of ten is too large");
        assert_eq!(error(1, 23), "a power of ten is too large");
        assert_eq!(error(2, 53), "the integers of a vector are too large");
        assert_eq!(error(15, 0x7f), "the integers of a vector are too large");
        assert_eq!(error(3, 1), "the header of a vector has other bytes than zeros where there is no field");
        assert_eq!(error(5, 1), "a vector is cut off");
        assert_eq!(error(stored.len() - 1, 1), "the padding of a vector is not zero");
        let position = 16 + (100 * usize::from(stored[2])).div_ceil(64) * 8;
        assert_eq!(error(position, 100), "an exception lies behind its vector");
        assert_eq!(
            decode(8, &[&stored[..], &[0; 8]].concat(), &mut back),
            Err("there are bytes behind the last vector")
        );
        assert_eq!(decode(4, &stored, &mut back[..7]), Err("the frame is not made of whole floats"));
        assert_eq!(decode(2, &stored, &mut back), Err("floats have four or eight bytes"));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

        #[test]
        fn any_floats_come_back(
            wide: bool,
            count in 0..2500_usize,
            range in 1..1_u64 << 40,
            digits in -12..18_i32,
            strange in 0..100_u64,
            seed: u64,
        ) {
            let mut random = Random(seed);
            let mut value = || match random.below(100) {
                percent if percent < strange => f64::from_bits(random.next()),
                _ => (random.below(range) as f64 - range as f64 / 3.0).round() / 10_f64.powi(digits),
            };
            let doubles: Vec<f64> = (0..count).map(|_| value()).collect();
            let plain: Vec<u8> = match wide {
                true => doubles.iter().flat_map(|value| value.to_le_bytes()).collect(),
                false => doubles.iter().flat_map(|value| (*value as f32).to_le_bytes()).collect(),
            };
            check("any", if wide { 8 } else { 4 }, &plain);
        }

        #[test]
        fn any_codes_are_unpacked(width in 0..=52_usize, count in 0..200_usize, seed: u64) {
            let mut random = Random(seed);
            let codes: Vec<u64> = (0..count).map(|_| random.below(1 << width)).collect();
            let mut packed = Vec::new();
            pack(codes.iter().copied(), width, &mut packed);
            prop_assert_eq!(packed.len(), (count * width).div_ceil(64) * 8);
            let mut back = vec![0; count];
            unpack(&packed, width, &mut back);
            prop_assert_eq!(back, codes);
        }
    }
}
