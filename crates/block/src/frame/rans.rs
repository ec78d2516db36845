//! An order-0 entropy coder over the bytes of a frame: rANS (Duda, "Asymmetric numeral systems", arXiv 1311.2540) with 32
//! interleaved lanes (Giesen, "Interleaved entropy coders", arXiv 1402.3392), so that a vector unit or a warp decodes a
//! byte per lane and step.
//!
//! Stored form, all numbers little-endian:
//!
//! | bytes | field |
//! |---|---|
//! | 32 | one bit per byte value, least significant bit of the first byte first: 1 = it occurs |
//! | 1 or 2 each | frequency - 1 of every value that occurs, ascending: below 128 one byte; else the byte 128 + v / 256, then v mod 256 |
//! | | zeros up to a multiple of 4 |
//! | 128 | the states that the 32 lanes begin with (4 bytes each) |
//! | 2 each | the words, to the end |
//!
//! The frequencies sum to 4096. A value with frequency f takes the f *slots* from the sum of the frequencies of the values
//! below it, its *start*. Byte i belongs to lane i mod 32. In step t the lanes decode bytes 32 t to 32 t + 31: with x the
//! state of a lane, its slot is x mod 4096, the byte is the value that takes the slot, and x becomes
//! f * (x / 4096) + slot - start. Then every lane whose state is below 2^16 takes a word, ascending lanes consecutive
//! words: x becomes 65536 x + word. A last step may have fewer lanes. In the end no word is left and all states are 2^16.
//!
//! Invariants: at most one word per lane and step; states never overflow, whatever the bytes are. Must not know: what
//! the bytes of a frame mean.

use std::hint::select_unpredictable;

/// Lanes that decode side by side: a warp, or four vectors of eight states.
const LANES: usize = 32;

/// Bits of a probability: tables of all slots fit in the first-level cache.
const SLOT_BITS: u32 = 12;

/// Slots of all byte values together.
const SLOTS: usize = 1 << SLOT_BITS;

/// States lie between this and 2^32 before and after every step. The encoder begins with it.
const STATE_MIN: u32 = 1 << 16;

/// Bytes of the map of values that occur.
const MAP_BYTES: usize = 32;

/// Bytes of the states.
const STATES_BYTES: usize = 4 * LANES;

/// From this on, a frequency less one is stored in two bytes.
const SHORT_FREQUENCY_LIMIT: u32 = 128;

/// Appends the stored form of `plain` to `out`; `None` (and `out` as before) where it would not be smaller.
pub(crate) fn encode(plain: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let begin = out.len();
    let frequencies = frequencies_of(&histogram(plain))?;
    write_frequencies(&frequencies, out, begin);
    let states_at = out.len();
    let words_at = states_at + STATES_BYTES;
    // Words are made from the last to the first: they are put at the end of the room for them, and moved. The bytes of one
    // step are the room that is left over at least.
    let encoded = (begin + plain.len()).checked_sub(words_at + 1).and_then(|words_limit_bytes| {
        out.resize(words_at + 2 * LANES + words_limit_bytes, 0);
        encode_words(plain, &frequencies, &mut out[words_at..])
    });
    let Some((states, first_word_at)) = encoded else {
        out.truncate(begin);
        return None;
    };
    for (stored, state) in out[states_at..words_at].as_chunks_mut::<4>().0.iter_mut().zip(states) {
        *stored = state.to_le_bytes();
    }
    out.copy_within(words_at + first_word_at.., words_at);
    out.truncate(out.len() - first_word_at);
    Some(())
}

/// Fills `plain` completely from exactly `stored`; says what is wrong otherwise.
pub(crate) fn decode(stored: &[u8], plain: &mut [u8]) -> Result<(), &'static str> {
    let (frequencies, rest) = read_frequencies(stored)?;
    let (states, words) = rest.split_at_checked(STATES_BYTES).ok_or("the states of the lanes are cut off")?;
    let (words, odd) = words.as_chunks::<2>();
    if !odd.is_empty() {
        return Err("a word is cut off");
    }
    let mut lanes = [0; LANES];
    for (lane, state) in lanes.iter_mut().zip(states.as_chunks::<4>().0) {
        *lane = u32::from_le_bytes(*state);
    }
    if lanes.iter().any(|state| *state < STATE_MIN) {
        return Err("a lane begins with a state that is too small");
    }
    let taken = decode_words(&Slots::of(&frequencies), &mut lanes, words, plain);
    if taken != words.len() {
        return Err("the bytes need another number of words");
    }
    if lanes.iter().any(|state| *state != STATE_MIN) {
        return Err("a lane ends in a state that no encoder begins with");
    }
    Ok(())
}

/// About how many bytes [`encode`] would give: the cross entropy of the bytes and their rounded frequencies.
pub(crate) fn estimate(plain: &[u8]) -> usize {
    let counts = histogram(plain);
    let Some(frequencies) = frequencies_of(&counts) else { return plain.len() };
    let (mut cost, mut table_bytes) = (0, MAP_BYTES);
    for (count, frequency) in counts.into_iter().zip(frequencies).filter(|(_, frequency)| *frequency > 0) {
        cost += u64::from(count) * u64::from((SLOT_BITS << LOG_BITS) - log2(frequency));
        table_bytes += if frequency <= SHORT_FREQUENCY_LIMIT { 1 } else { 2 };
    }
    table_bytes.next_multiple_of(4) + STATES_BYTES + (cost >> LOG_BITS).div_ceil(8) as usize
}

/// How often every byte value occurs.
fn histogram(plain: &[u8]) -> [u32; 256] {
    // Four of them: equal bytes next to each other would wait for one another.
    let mut counts = [[0_u32; 256]; 4];
    let (groups, rest) = plain.as_chunks::<4>();
    for group in groups {
        for (counts, byte) in counts.iter_mut().zip(group) {
            counts[usize::from(*byte)] += 1;
        }
    }
    for byte in rest {
        counts[0][usize::from(*byte)] += 1;
    }
    std::array::from_fn(|value| counts.iter().map(|counts| counts[value]).sum())
}

/// Frequencies that sum to [`SLOTS`], at least 1 for what occurs; `None` where nothing does.
fn frequencies_of(counts: &[u32; 256]) -> Option<[u32; 256]> {
    let total: u64 = counts.iter().map(|count| u64::from(*count)).sum();
    if total == 0 {
        return None;
    }
    let mut frequencies = counts.map(|count| match count {
        0 => 0,
        _ => (((u64::from(count) * SLOTS as u64 + total / 2) / total) as u32).max(1),
    });
    let mut sum: u32 = frequencies.iter().sum();
    // One slot more or less of f changes the bits of a value by about 1 / f: take where that costs least, give where it
    // gains most. Rounding is off by less than one slot per value, so there are at most 256 of these.
    let weight = |value: usize, frequency: u32| u64::from(counts[value]) * (SLOTS as u64) / u64::from(frequency);
    while sum > SLOTS as u32 {
        let candidates = (0..256).filter(|value| frequencies[*value] > 1);
        let value = candidates.min_by_key(|value| weight(*value, frequencies[*value]))?;
        frequencies[value] -= 1;
        sum -= 1;
    }
    while sum < SLOTS as u32 {
        let candidates = (0..256).filter(|value| frequencies[*value] > 0);
        let value = candidates.max_by_key(|value| weight(*value, frequencies[*value]))?;
        frequencies[value] += 1;
        sum += 1;
    }
    Some(frequencies)
}

/// Binary digits behind the point of [`log2`].
const LOG_BITS: u32 = 8;

/// The logarithm of a number from 1 to [`SLOTS`], rounded down. In integers: estimates are the same on every machine.
fn log2(number: u32) -> u32 {
    let whole = number.ilog2();
    // The square of a number between 1 and 2, here with 30 binary digits behind the point, has the logarithm's next digit
    // before the point.
    let mut rest = u64::from(number) << (30 - whole);
    let mut logarithm = whole;
    for _ in 0..LOG_BITS {
        rest = (rest * rest) >> 30;
        let digit = (rest >> 31) as u32;
        rest >>= digit;
        logarithm = 2 * logarithm + digit;
    }
    logarithm
}

/// Appends map and frequencies, padded from `begin`.
fn write_frequencies(frequencies: &[u32; 256], out: &mut Vec<u8>, begin: usize) {
    let mut map = [0; MAP_BYTES];
    for (value, _) in frequencies.iter().enumerate().filter(|(_, frequency)| **frequency > 0) {
        map[value / 8] |= 1 << (value % 8);
    }
    out.extend_from_slice(&map);
    for frequency in frequencies.iter().filter(|frequency| **frequency > 0) {
        let stored = frequency - 1;
        if stored >= SHORT_FREQUENCY_LIMIT {
            out.push((SHORT_FREQUENCY_LIMIT + (stored >> 8)) as u8);
        }
        out.push(stored as u8);
    }
    out.resize(begin + (out.len() - begin).next_multiple_of(4), 0);
}

/// The frequencies, which sum to [`SLOTS`], and the bytes behind them.
fn read_frequencies(stored: &[u8]) -> Result<([u32; 256], &[u8]), &'static str> {
    const CUT: &str = "the frequencies are cut off";
    let (map, mut rest) = stored.split_first_chunk::<MAP_BYTES>().ok_or(CUT)?;
    let mut frequencies = [0; 256];
    for (value, frequency) in frequencies.iter_mut().enumerate() {
        if map[value / 8] >> (value % 8) & 1 == 0 {
            continue;
        }
        let (first, behind) = rest.split_first().ok_or(CUT)?;
        (*frequency, rest) = (u32::from(*first) + 1, behind);
        if u32::from(*first) >= SHORT_FREQUENCY_LIMIT {
            let (second, behind) = rest.split_first().ok_or(CUT)?;
            let long = (u32::from(*first) - SHORT_FREQUENCY_LIMIT) << 8 | u32::from(*second);
            if long < SHORT_FREQUENCY_LIMIT {
                return Err("a small frequency is stored in two bytes");
            }
            (*frequency, rest) = (long + 1, behind);
        }
    }
    // At most 256 numbers below 2^15: no overflow.
    if frequencies.iter().sum::<u32>() != SLOTS as u32 {
        return Err("the frequencies do not sum to 4096");
    }
    let padding = (stored.len() - rest.len()).next_multiple_of(4) - (stored.len() - rest.len());
    let (padding, rest) = rest.split_at_checked(padding).ok_or(CUT)?;
    if padding.iter().any(|byte| *byte != 0) {
        return Err("the padding of the frequencies is not zero");
    }
    Ok((frequencies, rest))
}

/// What encoding a value needs.
#[derive(Clone, Copy, Default)]
struct Symbol {
    /// States from here on give a word first; 2^32 for the frequency [`SLOTS`].
    limit: u64,
    /// 2^44 / frequency, rounded up beyond: multiplied and shifted it divides every state below the limit exactly, as
    /// state / 2^44 < 2^-12 <= 1 / frequency, and the product stays below 2^64.
    reciprocal: u64,
    frequency: u32,
    start: u32,
}

/// Fills `room` from its end with the words of `plain`: the states of the lanes, and where in it the first word lies.
/// `None` where fewer than the bytes of one step would be left of `room`.
fn encode_words(plain: &[u8], frequencies: &[u32; 256], room: &mut [u8]) -> Option<([u32; LANES], usize)> {
    let mut symbols = [Symbol::default(); 256];
    let mut start = 0;
    for (symbol, frequency) in symbols.iter_mut().zip(*frequencies).filter(|(_, frequency)| *frequency > 0) {
        let reciprocal = (1 << 44) / u64::from(frequency) + 1;
        *symbol = Symbol { limit: u64::from(frequency) << 20, reciprocal, frequency, start };
        start += frequency;
    }
    let mut states = [STATE_MIN; LANES];
    let mut at = room.len();
    for bytes in plain.chunks(LANES).rev() {
        let room = &mut room[..at];
        for (state, byte) in states.iter_mut().zip(bytes).rev() {
            let symbol = &symbols[usize::from(*byte)];
            room[at - 2..at].copy_from_slice(&(*state as u16).to_le_bytes());
            let gives = u64::from(*state) >= symbol.limit;
            at -= 2 * usize::from(gives);
            let before = select_unpredictable(gives, *state >> 16, *state);
            let quotient = (u64::from(before).wrapping_mul(symbol.reciprocal) >> 44) as u32;
            *state = (quotient << SLOT_BITS) + (before - quotient * symbol.frequency) + symbol.start;
        }
        if at < 2 * LANES {
            return None;
        }
    }
    Some((states, at))
}

/// For every slot: value (8 bits), slot - start (12 bits), frequency - 1 (12 bits), from the least significant bit.
struct Slots([u32; SLOTS]);

impl Slots {
    fn of(frequencies: &[u32; 256]) -> Self {
        let mut slots = [0; SLOTS];
        let mut rest = &mut slots[..];
        for (value, frequency) in frequencies.iter().enumerate() {
            let (own, behind) = rest.split_at_mut(*frequency as usize);
            let entry = value as u32 | frequency.wrapping_sub(1) << 20;
            for (offset, slot) in own.iter_mut().enumerate() {
                *slot = entry | (offset as u32) << 8;
            }
            rest = behind;
        }
        Self(slots)
    }
}

/// Decodes all of `plain` and says how many words that took; words that are not there are zeros.
fn decode_words(slots: &Slots, lanes: &mut [u32; LANES], words: &[[u8; 2]], plain: &mut [u8]) -> usize {
    let ending_at = words.len().saturating_sub(LANES);
    let mut ending = [[0; 2]; 2 * LANES];
    ending[..words.len() - ending_at].copy_from_slice(&words[ending_at..]);
    let window = |at: usize| match words.get(at..).and_then(|words| words.first_chunk()) {
        Some(window) => window,
        None => {
            ending[(at - ending_at).min(LANES)..].first_chunk().expect("that many lie behind any of the first lanes")
        }
    };
    let mut at = 0;
    let (steps, last) = plain.as_chunks_mut::<LANES>();
    for bytes in steps {
        at += decode_step(slots, lanes, window(at), bytes);
    }
    let mut taken = 0;
    for (state, byte) in lanes.iter_mut().zip(last) {
        *byte = decode_byte(slots, state, window(at), &mut taken);
    }
    at + taken
}

/// One byte of every lane, and how many words of the window that took.
#[inline(always)]
fn decode_step(slots: &Slots, lanes: &mut [u32; LANES], window: &[[u8; 2]; LANES], bytes: &mut [u8; LANES]) -> usize {
    let mut taken = 0;
    // In groups of eight, because the compiler uses vector instructions for those, but not for one loop over all lanes:
    // 0.85 GB/s instead of 0.6 (`examples/frame_speed.rs`).
    for (lanes, bytes) in lanes.as_chunks_mut::<8>().0.iter_mut().zip(bytes.as_chunks_mut::<8>().0) {
        for (state, byte) in lanes.iter_mut().zip(bytes) {
            *byte = decode_byte(slots, state, window, &mut taken);
        }
    }
    taken
}

/// The next byte of a lane; counts the word of the window that it took.
#[inline(always)]
fn decode_byte(slots: &Slots, state: &mut u32, window: &[[u8; 2]; LANES], taken: &mut usize) -> u8 {
    let slot = slots.0[*state as usize % SLOTS];
    let next = ((slot >> 20) + 1) * (*state >> SLOT_BITS) + (slot >> 8) % SLOTS as u32;
    // No lane takes more than one word: the remainder changes nothing, but needs no check.
    let word = u32::from(u16::from_le_bytes(window[*taken % LANES]));
    let takes = next < STATE_MIN;
    *state = select_unpredictable(takes, next << 16 | word, next);
    *taken += usize::from(takes);
    slot as u8
}

#[cfg(test)]
mod tests {
    use super::super::distributions::{FRAME, check_documented, check_estimate, check_round_trip, of_bytes};
    use super::*;
    use proptest::prelude::*;

    /// The layout at the head of this file, followed word by word.
    fn decode_slowly(stored: &[u8], bytes: usize) -> Vec<u8> {
        let mut at = 32;
        let mut values = Vec::new();
        for value in (0..256_usize).filter(|value| stored[value / 8] >> (value % 8) & 1 == 1) {
            let mut frequency = u64::from(stored[at]) + 1;
            if stored[at] >= 128 {
                frequency = u64::from(stored[at] - 128) * 256 + u64::from(stored[at + 1]) + 1;
                at += 1;
            }
            at += 1;
            let start = values.last().map_or(0, |(_, start, frequency)| start + frequency);
            values.push((value as u8, start, frequency));
        }
        at = at.next_multiple_of(4);
        let word = |at: usize| u64::from(stored[at]) + 256 * u64::from(stored[at + 1]);
        let mut states: Vec<u64> = (0..32).map(|lane| word(at + 4 * lane) + 65_536 * word(at + 4 * lane + 2)).collect();
        at += 128;
        let mut plain = Vec::new();
        for i in 0..bytes {
            let state = &mut states[i % 32];
            let slot = *state % 4096;
            let (value, start, frequency) =
                values.iter().rfind(|(_, start, _)| *start <= slot).expect("the first one starts at 0");
            *state = frequency * (*state / 4096) + slot - start;
            if *state < 65_536 {
                *state = 65_536 * *state + word(at);
                at += 2;
            }
            plain.push(*value);
        }
        assert_eq!((at, states), (stored.len(), vec![65_536; 32]));
        plain
    }

    #[test]
    fn the_document_has_the_numbers_of_the_code() {
        check_documented("RANS_LANES", LANES);
        check_documented("RANS_SLOTS", SLOTS);
        check_documented("RANS_STATE_MIN", STATE_MIN as usize);
    }

    #[test]
    fn frames_of_every_length_come_back() {
        for (name, plain) in of_bytes() {
            for length in (0..=300).chain([1000, 4095, FRAME - 1, FRAME]) {
                if let Some(stored) = check_round_trip(name, &plain[..length], &encode, &decode) {
                    assert!(decode_slowly(&stored, length) == plain[..length], "{name}, {length} bytes");
                }
            }
        }
    }

    #[test]
    fn estimates_are_near_or_above() {
        for (name, plain) in of_bytes() {
            for length in [3000, 20_000, FRAME] {
                let mut out = Vec::new();
                let stored = encode(&plain[..length], &mut out).map_or(length, |()| out.len());
                let estimated = estimate(&plain[..length]);
                check_estimate(name, estimated, stored);
                // Words and states hold what the frequencies cost, to less than a word per lane.
                assert!(
                    stored == length || estimated.abs_diff(stored) <= 2 * LANES,
                    "{name}: {estimated} for {stored}"
                );
            }
        }
    }

    #[test]
    fn frequencies_sum_to_all_slots() {
        let counts: [[u32; 256]; 5] = [
            std::array::from_fn(|value| u32::from(value < 2)),
            std::array::from_fn(|value| if value == 0 { 65_000 } else { 1 }),
            std::array::from_fn(|value| value as u32),
            [256; 256],
            std::array::from_fn(|value| [17, 0, 1, 3][value % 4]),
        ];
        for counts in counts {
            let frequencies = frequencies_of(&counts).expect("something occurs");
            assert_eq!(frequencies.iter().sum::<u32>(), 4096);
            assert!(counts.iter().zip(frequencies).all(|(count, frequency)| (*count == 0) == (frequency == 0)));
        }
        assert_eq!(frequencies_of(&[0; 256]), None);
    }

    #[test]
    fn reciprocals_divide_as_division_does() {
        for frequency in 1..=4096_u64 {
            let reciprocal = (1 << 44) / frequency + 1;
            let limit = frequency << 20;
            let quotients = [1, 2, 1000, (1 << 20) - 1].map(|quotient| quotient * frequency);
            let near = quotients.into_iter().flat_map(|state| [state - 1, state, state + 1]);
            let states = near.filter(|state| *state < limit).chain([0, limit - 1]);
            for state in states {
                assert_eq!(state.checked_mul(reciprocal).map(|product| product >> 44), Some(state / frequency));
            }
        }
    }

    #[test]
    fn logarithms_are_rounded_down() {
        for number in 1..=4096_u32 {
            let exact = f64::from(number).log2() * 256.0;
            assert!((exact - f64::from(log2(number))).abs() <= 1.001, "{number}: {exact}");
        }
        assert_eq!([1, 2, 4096].map(log2), [0, 256, 12 * 256]);
    }

    #[test]
    fn errors_say_what_is_wrong() {
        let plain: Vec<u8> = (0..2000).map(|i| (i * i % 7) as u8).collect();
        let mut stored = Vec::new();
        encode(&plain, &mut stored).expect("seven values take three bits");
        let mut back = vec![0; plain.len()];
        let mut error = |at: usize, byte: u8| {
            let mut damaged = stored.clone();
            damaged[at] = byte;
            decode(&damaged, &mut back).expect_err("the damage is found")
        };
        assert_eq!(error(32, 0), "the frequencies do not sum to 4096");
        let last = stored.len() - 1;
        error(last, stored[last] ^ 0x80);
        assert_eq!(decode(&stored[..last], &mut back), Err("a word is cut off"));
        assert_eq!(decode(&stored[..last - 1], &mut back), Err("the bytes need another number of words"));
        assert_eq!(decode(&stored[..100], &mut back), Err("the states of the lanes are cut off"));
        assert_eq!(decode(&stored[..34], &mut back), Err("the frequencies are cut off"));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

        #[test]
        fn any_bytes_come_back(values in 1..=256_u64, length in 0..5000_usize, seed: u64) {
            let mut random = super::super::distributions::Random(seed);
            let plain: Vec<u8> = (0..length).map(|_| random.below(values).min(random.below(values)) as u8).collect();
            if let Some(stored) = check_round_trip("any", &plain, &encode, &decode) {
                prop_assert_eq!(decode_slowly(&stored, length), plain);
            }
        }
    }
}
