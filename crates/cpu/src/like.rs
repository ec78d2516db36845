//! LIKE on the strings of a block: each is looked at once, however many rows have it.
//!
//! Strings lie one after the other, so that one search runs over all of them for the longest text that every match holds;
//! only where that is found is the pattern matched. Where few rows are left, their strings are matched one by one.
//! Invariants: NULL rows do not pass. Must not know: how selected rows are kept.

use forebay_block::{Access, Codes, StringValues, Values, validity};
use forebay_pipeline::LikePattern;
use memchr::memmem::Finder;

use crate::lanes::LanePredicate;
use crate::matches::{Matches, RowPredicate};
use crate::simd::WORD_ROWS;

/// What searching the strings costs for each row of the block, where looking at a code alone costs 1.
const SEARCH_COST: f64 = 2.0;
/// Strings that are searched in the time in which one is matched by itself, about.
const SEARCHED_PER_MATCHED: usize = 6;

/// A pattern, and whether matches pass or what does not match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LikePredicate {
    pattern: LikePattern,
    negated: bool,
}

impl LikePredicate {
    /// `LIKE pattern`, or `NOT LIKE` it.
    pub(crate) fn new(pattern: &[u8], negated: bool) -> Self {
        Self { pattern: LikePattern::new(pattern), negated }
    }

    /// Keeps the selected rows of a block of strings, which are read so, that pass. Gives the cost for each row.
    pub(crate) fn select(&self, access: &Access<'_>, valid: Option<&[u8]>, matches: &mut Matches) -> f64 {
        let (strings, codes) = match access {
            Access::Dictionary { values: Values::Strings(strings), codes } => (strings, Some(*codes)),
            Access::Plain(Values::Strings(strings)) => (strings, None),
            Access::AllNull
            | Access::Constant(_)
            | Access::FrameOfReference { .. }
            | Access::Dictionary { values: Values::Fixed(_), .. }
            | Access::Plain(Values::Fixed(_))
            | Access::RunLength { .. } => {
                panic!("a pattern was not translated for a block with {access:?}")
            }
        };
        if matches.len() < strings.len() / SEARCHED_PER_MATCHED {
            matches.keep(&Rows { valid, passes: |row| self.passes(strings.get(string_of(codes, row))) });
            return SEARCH_COST * SEARCHED_PER_MATCHED as f64;
        }
        let bits = self.passing(strings);
        let has = |string: usize| bits[string / WORD_ROWS] >> (string % WORD_ROWS) & 1 != 0;
        match codes {
            _ if bits.iter().all(|word| *word == 0) => {
                matches.clear();
                SEARCH_COST
            }
            None => {
                matches.keep(&Rows { valid, passes: has });
                SEARCH_COST
            }
            Some(codes) => {
                let test = LanePredicate::of_codes(bits, strings.len());
                let cost = match codes {
                    Codes::U8(codes) => test.select(codes, valid, matches),
                    Codes::U16(codes) => test.select(codes, valid, matches),
                    Codes::U32(codes) => test.select(codes, valid, matches),
                    Codes::U64(codes) => test.select(codes, valid, matches),
                };
                SEARCH_COST + cost
            }
        }
    }

    fn passes(&self, text: &[u8]) -> bool {
        self.pattern.matches(text) != self.negated
    }

    /// Bit `i` says whether string `i` passes. Bits behind the last one are 0.
    fn passing(&self, strings: &StringValues<'_>) -> Vec<u64> {
        let mut bits = vec![0; strings.len().div_ceil(WORD_ROWS)];
        let mut set = |string: usize| bits[string / WORD_ROWS] |= 1 << (string % WORD_ROWS);
        match self.pattern.longest_text() {
            Some(text) => {
                let holds = |string: &usize| self.pattern.matches(strings.get(*string));
                holding(strings, text).filter(holds).for_each(&mut set);
            }
            None => (0..strings.len()).filter(|string| self.pattern.matches(strings.get(*string))).for_each(&mut set),
        }
        if self.negated {
            bits.iter_mut().for_each(|word| *word = !*word);
            let behind = strings.len() % WORD_ROWS;
            if let Some(last) = bits.last_mut().filter(|_| behind > 0) {
                *last &= (1 << behind) - 1;
            }
        }
        bits
    }
}

/// The numbers of the strings that hold `text`, ascending.
fn holding<'a>(strings: &'a StringValues<'_>, text: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
    let finder = Finder::new(text);
    let (bytes, offsets) = (strings.bytes(), strings.offsets());
    let (mut string, mut from) = (0, 0);
    std::iter::from_fn(move || {
        loop {
            let at = from + finder.find(bytes.get(from..)?)?;
            // The last string that begins there or before: those before it end before it begins.
            string = last_at_or_before(offsets, string, at);
            let end = *offsets.get(string + 1)? as usize;
            if at + text.len() <= end {
                from = end;
                return Some(string);
            }
            // It goes on in the following string.
            from = at + 1;
        }
    })
}

/// The last index whose offset is at most `at`, as that of `from` is. Looks nearby first.
fn last_at_or_before(offsets: &[u32], from: usize, at: usize) -> usize {
    let mut step = 1;
    while offsets.get(from + step).is_some_and(|offset| *offset as usize <= at) {
        step *= 2;
    }
    let near = &offsets[from..offsets.len().min(from + step)];
    from + near.partition_point(|offset| *offset as usize <= at) - 1
}

fn string_of(codes: Option<Codes<'_>>, row: usize) -> usize {
    codes.map_or(row, |codes| codes.get(row) as usize)
}

/// Valid rows that pass one by one.
struct Rows<'a, P> {
    valid: Option<&'a [u8]>,
    passes: P,
}

impl<P: Fn(usize) -> bool> RowPredicate for Rows<'_, P> {
    fn mask(&self, row: usize, count: usize) -> u64 {
        const { assert!(WORD_ROWS == u64::BITS as usize) };
        (0..count).fold(0, |mask, i| mask | u64::from(self.passes(row + i)) << i)
    }

    fn passes(&self, row: usize) -> bool {
        self.valid.is_none_or(|bitmap| validity::is_valid(bitmap, row)) && (self.passes)(row)
    }
}
