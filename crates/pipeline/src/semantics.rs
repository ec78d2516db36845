//! What operations mean on single values that are not NULL: plain functions over Rust types. The interpreter is made of
//! them, and compiled code calls those that it does not compute itself.
//!
//! Invariants: no execution defines these a second time. Float results are canonical ([`canonical_f64`]), so that equal
//! operands give equal results.

use std::cmp::Ordering;

use forebay_base::{canonical_f64, compare_floats};

use crate::Fault;
use crate::ir::{Arithmetic, Comparison, Constant, DatePart};
use crate::like::begins_character;

macro_rules! integer_arithmetic {
    ($($(#[$doc:meta])* $name:ident $negate:ident $native:ident),*) => {$(
        $(#[$doc])*
        #[inline]
        pub fn $name(arithmetic: Arithmetic, a: $native, b: $native) -> Result<$native, Fault> {
            let by_zero = b == 0 && !matches!(arithmetic, Arithmetic::Add | Arithmetic::Subtract | Arithmetic::Multiply);
            if by_zero {
                return Err(Fault::DivisionByZero);
            }
            let result = match arithmetic {
                Arithmetic::Add => a.checked_add(b),
                Arithmetic::Subtract => a.checked_sub(b),
                Arithmetic::Multiply => a.checked_mul(b),
                Arithmetic::Divide => a.checked_div(b),
                // The least value divided by -1 leaves nothing over, though the quotient does not fit.
                Arithmetic::Remainder => Some(a.wrapping_rem(b)),
                Arithmetic::DivideRounded => a.checked_div(b).map(|quotient| {
                    let (rest, divisor) = (a.wrapping_rem(b).unsigned_abs(), b.unsigned_abs());
                    let away = if (a < 0) == (b < 0) { 1 } else { -1 };
                    // The rest is at least half of the divisor only where that is 2 or more: there is room for one.
                    if rest >= divisor - rest { quotient + away } else { quotient }
                }),
            };
            result.ok_or(Fault::Overflow)
        }

        /// The number with its sign changed; the least one has no such.
        #[inline]
        pub fn $negate(a: $native) -> Result<$native, Fault> {
            a.checked_neg().ok_or(Fault::Overflow)
        }
    )*};
}
integer_arithmetic!(
    /// Arithmetic of two I64.
    arithmetic_i64 negate_i64 i64,
    /// Arithmetic of two I128.
    arithmetic_i128 negate_i128 i128
);

/// Arithmetic of two F64, as IEEE 754 has it. Remainders and rounded quotients are for integers only.
#[inline]
pub fn arithmetic_f64(arithmetic: Arithmetic, a: f64, b: f64) -> f64 {
    // Signs of zeros would show in quotients; no canonical operand has them.
    canonical_f64(match arithmetic {
        Arithmetic::Add => a + b,
        Arithmetic::Subtract => a - b,
        Arithmetic::Multiply => a * b,
        Arithmetic::Divide => a / b,
        Arithmetic::Remainder | Arithmetic::DivideRounded => panic!("verified programs divide floats by Divide"),
    })
}

/// The number with its sign changed.
#[inline]
pub fn negate_f64(a: f64) -> f64 {
    canonical_f64(-a)
}

/// Whether a comparison holds for two values in this order. Floats are ordered by [`compare_floats`], bytes as slices.
#[inline]
pub fn holds(comparison: Comparison, order: Ordering) -> bool {
    match comparison {
        Comparison::Equal => order.is_eq(),
        Comparison::NotEqual => order.is_ne(),
        Comparison::Less => order.is_lt(),
        Comparison::LessOrEqual => order.is_le(),
        Comparison::Greater => order.is_gt(),
        Comparison::GreaterOrEqual => order.is_ge(),
    }
}

/// Kleene's and; `None` is NULL.
#[inline]
pub fn and(a: Option<bool>, b: Option<bool>) -> Option<bool> {
    match (a, b) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

/// Kleene's or; `None` is NULL.
#[inline]
pub fn or(a: Option<bool>, b: Option<bool>) -> Option<bool> {
    match (a, b) {
        (Some(true), _) | (_, Some(true)) => Some(true),
        (Some(false), Some(false)) => Some(false),
        _ => None,
    }
}

/// An I128 as I64.
#[inline]
pub fn narrow(value: i128) -> Result<i64, Fault> {
    i64::try_from(value).map_err(|_| Fault::Overflow)
}

/// Days of 400 years.
const ERA_DAYS: i64 = 146_097;
/// Days from 0000-03-01 to 1970-01-01, less those of whole eras.
const EPOCH_DAYS: i64 = 719_468 - 4 * ERA_DAYS;

/// A part of the date that lies `days` after 1970-01-01, in the proleptic Gregorian calendar.
pub fn date_part(part: DatePart, days: i64) -> i64 {
    // Years begin in March here, so that leap days are last. Whole eras are split off first: no number of days overflows.
    let day = days.rem_euclid(ERA_DAYS) + EPOCH_DAYS;
    let era = days.div_euclid(ERA_DAYS) + 4 + day / ERA_DAYS;
    let day = day % ERA_DAYS;
    let year = (day - day / 1_460 + day / 36_524 - day / (ERA_DAYS - 1)) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    match part {
        DatePart::Year => era * 400 + year + i64::from(month <= 2),
        DatePart::Month => month,
        DatePart::Day => day_of_year - (153 * from_march + 2) / 5 + 1,
    }
}

/// Number of characters of a text: of bytes that begin one.
pub fn length(text: &[u8]) -> i64 {
    /// The lowest bit of each byte.
    const ONES: u64 = u64::MAX / 255;
    /// The low byte of each two.
    const LOW: u64 = u64::MAX / 257;
    let (words, rest) = text.as_chunks::<8>();
    let mut following = rest.iter().filter(|byte| !begins_character(**byte)).count() as u64;
    // Each byte of the sum counts at most as many words as it can hold.
    for words in words.chunks(255) {
        let sum = words.iter().fold(0, |sum, word| {
            let word = u64::from_le_bytes(*word);
            sum + (word >> 7 & !(word >> 6) & ONES)
        });
        following += ((sum & LOW) + (sum >> 8 & LOW)).wrapping_mul(u64::MAX / 65535) >> 48;
    }
    text.len() as i64 - following as i64
}

/// The characters `start..start + length` of a text, counted from 1; all that follow without a length. What lies outside
/// of the text is empty.
pub fn substring(text: &[u8], start: i64, length: Option<i64>) -> &[u8] {
    let end = length.map(|length| start.saturating_add(length.max(0)));
    let from = character_at(text, start);
    let to = end.map_or(text.len(), |end| character_at(text, end)).max(from);
    &text[from..to]
}

/// Where the character with this number, from 1, begins; the end of the text where there are fewer.
fn character_at(text: &[u8], number: i64) -> usize {
    let Ok(before) = usize::try_from(number.saturating_sub(1)) else { return 0 };
    if before >= text.len() {
        return text.len();
    }
    let mut beginnings = text.iter().enumerate().filter(|(_, byte)| begins_character(**byte));
    // The first character begins at 0, whatever its byte is.
    if before == 0 { 0 } else { beginnings.nth(before).map_or(text.len(), |(at, _)| at) }
}

/// Order of two constants of one type, as values are ordered.
pub fn compare_constants(a: &Constant, b: &Constant) -> Ordering {
    match (a, b) {
        (Constant::Bool(a), Constant::Bool(b)) => a.cmp(b),
        (Constant::Int(a), Constant::Int(b)) => a.cmp(b),
        (Constant::Float(a), Constant::Float(b)) => compare_floats(*a, *b),
        (Constant::Bytes(a), Constant::Bytes(b)) => a.cmp(b),
        _ => family(a).cmp(&family(b)),
    }
}

fn family(constant: &Constant) -> u8 {
    match constant {
        Constant::Null => 0,
        Constant::Bool(_) => 1,
        Constant::Int(_) => 2,
        Constant::Float(_) => 3,
        Constant::Bytes(_) => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn integers_do_not_wrap() {
        use Arithmetic::*;
        let overflow = [
            (Add, i64::MAX, 1),
            (Subtract, i64::MIN, 1),
            (Multiply, i64::MIN, -1),
            (Divide, i64::MIN, -1),
            (DivideRounded, i64::MIN, -1),
        ];
        for (arithmetic, a, b) in overflow {
            assert_eq!(arithmetic_i64(arithmetic, a, b), Err(Fault::Overflow), "{arithmetic:?}");
            let wide = arithmetic_i128(arithmetic, i128::from(a), i128::from(b)).expect("i128 is wider");
            assert_eq!(narrow(wide), Err(Fault::Overflow));
        }
        for arithmetic in [Divide, Remainder, DivideRounded] {
            assert_eq!(arithmetic_i64(arithmetic, i64::MIN, 0), Err(Fault::DivisionByZero));
            assert_eq!(arithmetic_i128(arithmetic, 0, 0), Err(Fault::DivisionByZero));
        }
        assert_eq!(arithmetic_i64(Remainder, i64::MIN, -1), Ok(0));
        assert_eq!(arithmetic_i64(Remainder, -7, 3), Ok(-1));
        assert_eq!(arithmetic_i64(Divide, -7, 2), Ok(-3));
        assert_eq!(negate_i64(i64::MIN), Err(Fault::Overflow));
        assert_eq!(negate_i128(i128::MIN), Err(Fault::Overflow));
    }

    #[test]
    fn halves_are_rounded_away_from_zero() {
        let rounded = |a, b| arithmetic_i64(Arithmetic::DivideRounded, a, b).expect("fits");
        let list = [(5, 2, 3), (-5, 2, -3), (5, -2, -3), (-5, -2, 3), (4, 3, 1), (2, 3, 1), (-1, 3, 0), (7, 7, 1)];
        for (a, b, quotient) in list {
            assert_eq!(rounded(a, b), quotient, "{a} / {b}");
        }
        assert_eq!(rounded(i64::MIN, i64::MIN), 1);
        assert_eq!(rounded(i64::MAX, i64::MIN), -1);
        assert_eq!(rounded(i64::MIN, 2), i64::MIN / 2);
        assert_eq!(rounded(i64::MAX, 2), i64::MAX / 2 + 1);
        assert_eq!(rounded(1, i64::MIN), 0);
    }

    #[test]
    fn equal_floats_divide_alike() {
        let zero = arithmetic_f64(Arithmetic::Multiply, 0.0, -1.0);
        assert_eq!(arithmetic_f64(Arithmetic::Divide, 1.0, zero), f64::INFINITY);
        assert_eq!(negate_f64(0.0).to_bits(), 0);
        assert_eq!(negate_f64(f64::NAN).to_bits(), f64::NAN.to_bits());
    }

    #[test]
    fn substrings_count_characters() {
        let text = "aé€b".as_bytes();
        let of = |start, length| std::str::from_utf8(substring(text, start, length)).expect("whole characters");
        assert_eq!(of(1, None), "aé€b");
        assert_eq!(of(2, Some(2)), "é€");
        assert_eq!(of(4, Some(9)), "b");
        assert_eq!(of(5, None), "");
        assert_eq!(of(9, Some(1)), "");
        assert_eq!(of(0, Some(2)), "a");
        assert_eq!(of(-3, Some(3)), "");
        assert_eq!(of(-3, Some(6)), "aé");
        assert_eq!(of(i64::MIN, None), "aé€b");
        assert_eq!(of(i64::MIN, Some(i64::MAX)), "");
        assert_eq!(of(i64::MAX, Some(i64::MAX)), "");
        assert_eq!(of(2, Some(i64::MAX)), "é€b");
        assert_eq!(of(2, Some(0)), "");
        assert_eq!(of(0, Some(1)), "");
        assert_eq!(substring(b"", 1, Some(5)), b"");
    }

    proptest! {
        #[test]
        fn lengths_are_numbers_of_characters(text in "[aé€😀]{0,40}", times in 1usize..60) {
            let text = text.repeat(times);
            prop_assert_eq!(length(text.as_bytes()), text.chars().count() as i64);
        }

        #[test]
        fn substrings_are_those_of_characters(text in "[aé€😀]{0,6}", start in -8i64..9, length in 0i64..9) {
            let slow: String = (1i64..).zip(text.chars())
                .filter(|(number, _)| (start..start + length).contains(number)).map(|(_, c)| c).collect();
            prop_assert_eq!(substring(text.as_bytes(), start, Some(length)), slow.as_bytes());
            let rest: String = (1i64..).zip(text.chars()).filter(|(number, _)| *number >= start).map(|(_, c)| c).collect();
            prop_assert_eq!(substring(text.as_bytes(), start, None), rest.as_bytes());
        }

        #[test]
        fn rounded_quotients_are_nearest(a in any::<i64>(), b in any::<i64>(), small in -20i64..20) {
            for (a, b) in [(a, b), (a, small), (small, b), (a % 50, small)] {
                if let Ok(quotient) = arithmetic_i64(Arithmetic::DivideRounded, a, b) {
                    let (a, b, quotient) = (i128::from(a), i128::from(b), i128::from(quotient));
                    let slow = (2 * a.abs() + b.abs()) / (2 * b.abs()) * a.signum() * b.signum();
                    prop_assert_eq!(quotient, slow);
                }
            }
        }
    }

    /// Counts the days of every month from 1970 on, both ways.
    #[test]
    fn dates_follow_the_calendar() {
        let leap = |year: i64| year.rem_euclid(4) == 0 && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0);
        let lengths = |year| [31, if leap(year) { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        let parts = |days| [DatePart::Year, DatePart::Month, DatePart::Day].map(|part| date_part(part, days));
        let mut days = 0;
        for year in 1970..2500 {
            for (month, length) in (1..).zip(lengths(year)) {
                assert_eq!(parts(days), [year, month, 1]);
                assert_eq!(parts(days + length - 1), [year, month, length]);
                days += length;
            }
        }
        let mut days = 0;
        for year in (-900..1970).rev() {
            for (index, length) in lengths(year).into_iter().enumerate().rev() {
                let month = index as i64 + 1;
                days -= length;
                assert_eq!(parts(days), [year, month, 1]);
                assert_eq!(parts(days + length - 1), [year, month, length]);
            }
        }
        assert_eq!(parts(i64::from(i32::MAX)), [5_881_580, 7, 11]);
        assert_eq!(parts(i64::from(i32::MIN)), [-5_877_641, 6, 23]);
        assert!(parts(i64::MAX)[0] > 0 && parts(i64::MIN)[0] < 0);
    }

    #[test]
    fn logic_is_kleenes() {
        for a in [None, Some(false), Some(true)] {
            assert_eq!(and(a, Some(false)), Some(false));
            assert_eq!(or(Some(true), a), Some(true));
            assert_eq!(and(Some(true), a), a);
            assert_eq!(or(a, Some(false)), a);
        }
        assert_eq!((and(None, None), or(None, None)), (None, None));
    }
}
