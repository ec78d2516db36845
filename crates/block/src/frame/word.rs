//! The unsigned integers that codes, offsets and the bits of plain values are, by width.

use bytemuck::Pod;

use crate::frame::bits::unpack_group;

/// Unpacks 64 values of one width.
type UnpackGroup<T> = fn(&[u8], u64, &mut [T; 64]);

/// An unsigned integer of 1, 2, 4 or 8 bytes.
pub(crate) trait Word: Pod + Ord + Default + std::fmt::Debug {
    /// Bits of the type.
    const BITS: u32 = 8 * size_of::<Self>() as u32;
    /// What unpacks 64 values, by width less one.
    const UNPACK: &'static [UnpackGroup<Self>];

    /// As a number.
    fn number(self) -> u64;
    /// The lowest bits of a number.
    fn from_low_bits(number: u64) -> Self;
    /// Wrapping sum.
    fn plus(self, other: Self) -> Self;
    /// Wrapping difference.
    fn minus(self, other: Self) -> Self;
}

macro_rules! word {
    ($native:ident: $($width:literal)*) => {
        impl Word for $native {
            const UNPACK: &'static [UnpackGroup<Self>] = &[$(unpack_group::<Self, $width>),*];

            #[inline]
            fn number(self) -> u64 {
                u64::from(self)
            }
            #[inline]
            fn from_low_bits(number: u64) -> Self {
                number as Self
            }
            #[inline]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline]
            fn minus(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
        }
    };
}
word!(u8: 1 2 3 4 5 6 7 8);
word!(u16: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16);
word!(u32: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32);
word!(u64: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32
    33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64);

/// Bits that `number` needs; 0 for 0.
pub(crate) fn bit_length(number: u64) -> u32 {
    u64::BITS - number.leading_zeros()
}

/// Runs `$body` with `$word` bound to the integer of `$bytes` bytes, or `$other` where there is none of that width.
macro_rules! with_word {
    ($bytes:expr, $word:ident => $body:expr, _ => $other:expr) => {
        match $bytes {
            1 => {
                type $word = u8;
                $body
            }
            2 => {
                type $word = u16;
                $body
            }
            4 => {
                type $word = u32;
                $body
            }
            8 => {
                type $word = u64;
                $body
            }
            _ => $other,
        }
    };
}
pub(crate) use with_word;
