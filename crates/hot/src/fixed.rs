//! Values of one width, one after the other, as unsigned bits.
//!
//! Must not know: which type the bits are of, which values are NULL.

use std::ops::Range;

/// Values by their width in bytes.
#[derive(Debug, Clone)]
pub enum Fixed {
    /// 1 byte.
    W1(Vec<u8>),
    /// 2 bytes.
    W2(Vec<u16>),
    /// 4 bytes.
    W4(Vec<u32>),
    /// 8 bytes.
    W8(Vec<u64>),
    /// 16 bytes.
    W16(Vec<u128>),
}

macro_rules! each {
    ($fixed:expr, $values:ident => $body:expr) => {
        match $fixed {
            Fixed::W1($values) => $body,
            Fixed::W2($values) => $body,
            Fixed::W4($values) => $body,
            Fixed::W8($values) => $body,
            Fixed::W16($values) => $body,
        }
    };
}

impl Fixed {
    pub(crate) fn of_width(width: usize) -> Self {
        match width {
            1 => Self::W1(Vec::new()),
            2 => Self::W2(Vec::new()),
            4 => Self::W4(Vec::new()),
            8 => Self::W8(Vec::new()),
            16 => Self::W16(Vec::new()),
            _ => unreachable!("physical types have 1, 2, 4, 8 or 16 bytes"),
        }
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        each!(self, values => values.len())
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bits of a value.
    #[inline]
    pub fn get(&self, at: usize) -> u128 {
        match self {
            Self::W1(values) => values[at].into(),
            Self::W2(values) => values[at].into(),
            Self::W4(values) => values[at].into(),
            Self::W8(values) => values[at].into(),
            Self::W16(values) => values[at],
        }
    }

    #[inline]
    pub(crate) fn set(&mut self, at: usize, bits: u128) {
        each!(self, values => values[at] = bits as _);
    }

    pub(crate) fn push(&mut self, bits: u128) {
        each!(self, values => values.push(bits as _));
    }

    pub(crate) fn clear(&mut self) {
        each!(self, values => values.clear());
    }

    /// Becomes a copy of a range of `other`, which has the same width.
    pub(crate) fn copy_from(&mut self, other: &Self, range: Range<usize>) {
        macro_rules! copy {
            ($($width:ident)*) => {
                match (&mut *self, other) {
                    $((Self::$width(to), Self::$width(from)) => {
                        to.clear();
                        to.extend_from_slice(&from[range]);
                    })*
                    _ => unreachable!("copies have the width of what they are made of"),
                }
            };
        }
        copy!(W1 W2 W4 W8 W16);
    }

    /// Appends the little-endian bytes of a range of values.
    pub fn write_to(&self, range: Range<usize>, out: &mut Vec<u8>) {
        fn write<V: Copy, const N: usize>(values: &[V], bytes: impl Fn(V) -> [u8; N], out: &mut Vec<u8>) {
            let start = out.len();
            out.resize(start + N * values.len(), 0);
            let places = out[start..].as_chunks_mut::<N>().0;
            places.iter_mut().zip(values).for_each(|(place, value)| *place = bytes(*value));
        }
        each!(self, values => write(&values[range], |value| value.to_le_bytes(), out));
    }

    pub(crate) fn bytes(&self) -> usize {
        each!(self, values => values.capacity() * size_of_val(&values.first().copied().unwrap_or_default()))
    }
}
