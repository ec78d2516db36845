//! Values as lanes: unsigned numbers in which a range is one subtraction and one comparison, and slices of them as the
//! processor's vectors take them.

use forebay_block::Native;

use crate::simd::{self, SimdLevel};

/// An unsigned number.
pub(crate) trait Lane: Copy + Ord {
    /// `self - low`, wrapping.
    fn above(self, low: Self) -> Self;
    /// The low bits of `wide`.
    fn narrow(wide: u128) -> Self;
    /// Zero-extended.
    fn wide(self) -> u128;
}

macro_rules! lane {
    ($($lane:ident),*) => {$(
        impl Lane for $lane {
            #[inline]
            fn above(self, low: Self) -> Self {
                self.wrapping_sub(low)
            }
            #[inline]
            fn narrow(wide: u128) -> Self {
                wide as $lane
            }
            #[inline]
            fn wide(self) -> u128 {
                self.into()
            }
        }
    )*};
}
lane!(u8, u16, u32, u64, u128);

/// Lanes as the processor's vectors take them.
#[derive(Debug, Clone, Copy)]
pub(crate) enum LaneSlice<'a> {
    U8(&'a [u8]),
    U16(&'a [u16]),
    U32(&'a [u32]),
    U64(&'a [u64]),
}

impl LaneSlice<'_> {
    /// See [`simd::members`].
    pub(crate) fn members(self, level: SimdLevel, low: u64, bits: &[u64], masks: &mut [u64]) {
        match self {
            Self::U8(lanes) => simd::members(level, lanes, low, bits, masks),
            Self::U16(lanes) => simd::members(level, lanes, low, bits, masks),
            Self::U32(lanes) => simd::members(level, lanes, low, bits, masks),
            Self::U64(lanes) => simd::members(level, lanes, low, bits, masks),
        }
    }
}

/// A native whose values, read as [`Scan::lane`], are ranges where they are ranges in SQL's order (modulo 2^bits).
pub(crate) trait Scan: Native {
    /// The lane type.
    type Lane: Lane;
    /// The low bits of the order key.
    fn lane(self) -> Self::Lane;
    /// The lanes of `values` where they need not be computed and vectors take them.
    fn vectors(values: &[Self]) -> Option<LaneSlice<'_>>;
}

macro_rules! scan {
    ($($native:ident $lane:ident $vectors:expr),*) => {$(
        impl Scan for $native {
            type Lane = $lane;
            #[inline]
            fn lane(self) -> $lane {
                self.key() as $lane
            }
            fn vectors(values: &[Self]) -> Option<LaneSlice<'_>> {
                let vectors: Option<fn(&[Self]) -> LaneSlice<'_>> = $vectors;
                vectors.map(|vectors| vectors(values))
            }
        }
    )*};
}
scan!(
    i8 u8 Some(|values| LaneSlice::U8(bytemuck::cast_slice(values))),
    u8 u8 Some(|values| LaneSlice::U8(values)),
    i16 u16 Some(|values| LaneSlice::U16(bytemuck::cast_slice(values))),
    u16 u16 Some(|values| LaneSlice::U16(values)),
    i32 u32 Some(|values| LaneSlice::U32(bytemuck::cast_slice(values))),
    u32 u32 Some(|values| LaneSlice::U32(values)),
    i64 u64 Some(|values| LaneSlice::U64(bytemuck::cast_slice(values))),
    u64 u64 Some(|values| LaneSlice::U64(values)),
    i128 u128 None,
    f32 u64 None,
    f64 u64 None
);
