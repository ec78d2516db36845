//! Zones: what is known of a block's values without reading them (SMAs, Data Blocks §3.2).

use forebay_base::{Value, limits};

/// Row count, NULL count and bounds of the non-NULL values of a block.
///
/// Floats are ordered by `forebay_base::value::compare_floats`. Bounds of strings have at most
/// `limits::ZONE_STRING_BYTES` bytes: `min` is a prefix of the smallest value, `max` an upper bound of the largest that
/// need not be UTF-8.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone {
    /// Rows.
    pub rows: u32,
    /// NULL rows.
    pub null_count: u32,
    /// Lower bound; `None` where no row is valid.
    pub min: Option<Value>,
    /// Upper bound; `None` where no row is valid, or where no short string is above the largest value.
    pub max: Option<Value>,
}

/// The longest allowed prefix: not above `value`.
pub(crate) fn string_min(value: &[u8]) -> Value {
    Value::Bytes(value[..value.len().min(limits::ZONE_STRING_BYTES)].to_vec())
}

/// `value` itself if it is short, else its prefix counted up by one; `None` where all bytes of the prefix are 255.
pub(crate) fn string_max(value: &[u8]) -> Option<Value> {
    if value.len() <= limits::ZONE_STRING_BYTES {
        return Some(Value::Bytes(value.to_vec()));
    }
    let prefix = &value[..limits::ZONE_STRING_BYTES];
    let last = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut bound = prefix[..=last].to_vec();
    bound[last] += 1;
    Some(Value::Bytes(bound))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_maxima_are_rounded_up() {
        let bytes = |value: &[u8]| Some(Value::Bytes(value.to_vec()));
        assert_eq!(string_max(b"abc"), bytes(b"abc"));
        assert_eq!(string_max(&[b'a'; 32]), bytes(&[b'a'; 32]));
        let mut expected = [b'a'; 32];
        expected[31] = b'b';
        assert_eq!(string_max(&[b'a'; 33]), bytes(&expected));
        let mut ends_high = [0xff; 40];
        ends_high[0] = 7;
        assert_eq!(string_max(&ends_high), bytes(&[8]));
        assert_eq!(string_max(&[0xff; 33]), None);
        assert_eq!(string_min(&[b'a'; 33]), Value::Bytes(vec![b'a'; 32]));
    }
}
