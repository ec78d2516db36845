//! Texts of bits, one at a time. The first digit is bit 0.

use std::borrow::Cow;

use forebay_base::{Error, Result};

/// What is done to two texts of as many bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Combination {
    /// `&`
    And,
    /// `|`
    Or,
    /// `xor`
    ExclusiveOr,
}

impl Combination {
    /// The operator or function.
    pub fn name(self) -> &'static str {
        match self {
            Self::And => "&",
            Self::Or => "|",
            Self::ExclusiveOr => "xor",
        }
    }

    /// Puts what it makes of both into the first one.
    ///
    /// # Errors
    /// Another number of bits.
    pub fn combine(self, bits: &mut [u8], other: &[u8]) -> Result<()> {
        if bits.len() != other.len() {
            let message = format!(
                "{} takes as many bits on either side, and not {} and {}",
                self.name(),
                bits.len(),
                other.len()
            );
            return Err(Error::input(message).hint("bitstring(bits, length) puts zeros in front"));
        }
        for (bit, other) in bits.iter_mut().zip(other) {
            // The digits differ in the lowest bit of their codes.
            *bit = match self {
                Self::And => *bit & *other,
                Self::Or => *bit | *other,
                Self::ExclusiveOr => b'0' | ((*bit ^ *other) & 1),
            };
        }
        Ok(())
    }
}

/// The bits that a text stands for; an empty one for a zero. `None` where another character is in it.
pub fn of_text(text: &str) -> Option<Cow<'_, str>> {
    if text.is_empty() {
        return Some(Cow::Borrowed("0"));
    }
    text.bytes().all(|digit| matches!(digit, b'0' | b'1')).then_some(Cow::Borrowed(text))
}

/// That a text is no bits.
pub fn unknown(text: &str) -> Error {
    let shown: String = text.chars().take(40).collect();
    Error::input(format!("could not convert string {shown:?} to BIT"))
        .hint("A BIT has the digits 0 and 1 alone, as 0101")
}

/// `~bits`
pub fn inverted(bits: &str) -> String {
    bits.chars().map(|bit| if bit == '0' { '1' } else { '0' }).collect()
}

/// `bits << count`: those in front are lost.
///
/// # Errors
/// A negative number.
pub fn shifted_left(bits: &str, count: i64) -> Result<String> {
    let count = usize::try_from(count).map_err(|_| {
        Error::input(format!("bits cannot be moved by {count} to the left")).hint("Write >> for the other direction")
    })?;
    let kept = bits.get(count..).unwrap_or_default();
    Ok(format!("{kept}{}", "0".repeat(bits.len() - kept.len())))
}

/// `bits >> count`: those at the end are lost, all of them where the number is negative.
pub fn shifted_right(bits: &str, count: i64) -> String {
    let count = usize::try_from(count).unwrap_or(usize::MAX).min(bits.len());
    format!("{}{}", "0".repeat(count), &bits[..bits.len() - count])
}

fn place(bits: &str, index: i64) -> Result<usize> {
    usize::try_from(index).ok().filter(|index| *index < bits.len()).ok_or_else(|| {
        Error::input(format!("there is no bit {index} of {} bits", bits.len()))
            .hint(format!("They are numbered from 0 to {}", bits.len().saturating_sub(1)))
    })
}

/// The bit at a place.
///
/// # Errors
/// A place that is not there.
pub fn bit_at(bits: &str, index: i64) -> Result<i32> {
    Ok(i32::from(bits.as_bytes()[place(bits, index)?] & 1))
}

/// The bits with another one at a place.
///
/// # Errors
/// A place that is not there, and other bits than 0 and 1.
pub fn with_bit(bits: &str, index: i64, bit: i64) -> Result<String> {
    let digit = match bit {
        0 => "0",
        1 => "1",
        _ => return Err(Error::input(format!("a bit is 0 or 1, and not {bit}"))),
    };
    let place = place(bits, index)?;
    Ok(format!("{}{digit}{}", &bits[..place], &bits[place + 1..]))
}

/// The bits behind as many zeros as make them `length`.
///
/// # Errors
/// A length below theirs.
pub fn padded(bits: &str, length: i64) -> Result<String> {
    let missing = usize::try_from(length).ok().and_then(|length| length.checked_sub(bits.len()));
    let most = forebay_base::limits::STRING_MAX_BYTES;
    match missing {
        Some(missing) if missing <= most => Ok(format!("{}{bits}", "0".repeat(missing))),
        Some(_) => {
            Err(Error::input(format!("{length} bits are too many")).hint(format!("At most {most} are possible")))
        }
        None => Err(Error::input(format!("{} bits cannot become {length}", bits.len())).hint(
            "bitstring puts zeros in front; a part is taken of the text, as in substr(bits::VARCHAR, 1, 2)::BIT",
        )),
    }
}

/// The number that bits are, the first one its highest; `None` where it is above 2^128.
pub fn number(bits: &str) -> Option<u128> {
    let significant = bits.trim_start_matches('0');
    match significant.len() {
        0 => Some(0),
        1..=128 => u128::from_str_radix(significant, 2).ok(),
        _ => None,
    }
}

/// The bits of bytes, the first one in front.
pub fn of_bytes(bytes: &[u8]) -> String {
    let digit = |byte: &u8, bit: u32| if byte >> bit & 1 == 1 { '1' } else { '0' };
    bytes.iter().flat_map(|byte| (0..8).rev().map(move |bit| digit(byte, bit))).collect()
}

/// The bytes of bits, zeros in front of them where they do not fill the first one.
pub fn bytes(bits: &str) -> Vec<u8> {
    let digits = bits.as_bytes();
    let (head, rest) = digits.split_at(digits.len() % 8);
    let byte = |digits: &[u8]| digits.iter().fold(0_u8, |byte, digit| byte << 1 | (digit & 1));
    let head = (!head.is_empty()).then(|| byte(head));
    head.into_iter().chain(rest.chunks(8).map(byte)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_move_and_are_counted() {
        assert_eq!(shifted_left("0101", 1).expect("one"), "1010");
        assert_eq!(shifted_left("0101", 10).expect("all"), "0000");
        assert!(shifted_left("0101", -1).is_err());
        assert_eq!([shifted_right("0101", 1), shifted_right("0101", -1)], ["0010", "0000"]);
        assert_eq!(with_bit("0101", 0, 1).expect("a place"), "1101");
        assert!(with_bit("0101", 4, 1).is_err() && with_bit("0101", 0, 2).is_err() && bit_at("0", -1).is_err());
        assert_eq!(padded("01", 4).expect("more"), "0001");
        assert!(padded("01", 1).is_err() && padded("01", -1).is_err());
    }

    #[test]
    fn bits_are_numbers_and_bytes() {
        assert_eq!(number("0101"), Some(5));
        assert_eq!(number(&"1".repeat(128)), Some(u128::MAX));
        assert_eq!(number(&"1".repeat(129)), None);
        assert_eq!(bytes("1111100001"), [0x03, 0xe1]);
        assert_eq!(of_bytes(&[0x03, 0xe1]), "0000001111100001");
        let mut bits = *b"0101";
        Combination::ExclusiveOr.combine(&mut bits, b"0011").expect("as many");
        assert_eq!(&bits, b"0110");
        assert!(Combination::And.combine(&mut bits, b"0").is_err());
    }
}
