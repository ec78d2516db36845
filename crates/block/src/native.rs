//! The eleven fixed-width physical types as Rust types, and what encoding, testing and unpacking need of them.
//!
//! Invariants: [`Native::key`] orders values exactly as `forebay_base::Value` does; [`Native::bits`] loses nothing.

use bytemuck::Pod;
use forebay_base::{PhysicalType, Value};

/// A fixed-width physical type.
pub trait Native: Pod + PartialEq + Send + Sync + std::fmt::Debug {
    /// The physical type's name.
    const PHYSICAL: PhysicalType;
    /// Bytes per value.
    const WIDTH: usize = size_of::<Self>();
    /// True for integers: they have frames of reference.
    const INTEGER: bool;
    /// An integer that orders values as SQL does; equal keys are equal values (-0 and 0, all NaNs).
    type Key: Copy + Ord + Into<i128>;
    /// Smallest and largest possible key.
    const KEYS: (i128, i128);

    /// The order-preserving key.
    fn key(self) -> Self::Key;
    /// The value of `key`, or one equal to it.
    fn value_of_key(key: i128) -> Value;
    /// All bits: integers sign-extended, floats zero-extended.
    fn bits(self) -> i128;
    /// Inverse of [`Native::bits`]; `None` where no value has these bits.
    fn from_bits(bits: i128) -> Option<Self>;
    /// `self - base` of the bit patterns, wrapping, cut to 64 bits.
    fn minus(self, base: Self) -> u64;
    /// `self + code` of the bit patterns, wrapping: the inverse of [`Native::minus`].
    fn plus(self, code: u64) -> Self;
}

macro_rules! native_integer {
    ($($native:ident $physical:ident),*) => {$(
        impl Native for $native {
            const PHYSICAL: PhysicalType = PhysicalType::$physical;
            const INTEGER: bool = true;
            type Key = $native;
            const KEYS: (i128, i128) = ($native::MIN as i128, $native::MAX as i128);

            #[inline]
            fn key(self) -> $native {
                self
            }
            fn value_of_key(key: i128) -> Value {
                Value::Int(key)
            }
            #[inline]
            fn bits(self) -> i128 {
                self as i128
            }
            fn from_bits(bits: i128) -> Option<Self> {
                $native::try_from(bits).ok()
            }
            #[inline]
            fn minus(self, base: Self) -> u64 {
                self.wrapping_sub(base) as u64
            }
            #[inline]
            fn plus(self, code: u64) -> Self {
                self.wrapping_add(code as $native)
            }
        }
    )*};
}
native_integer!(i8 I8, i16 I16, i32 I32, i64 I64, i128 I128, u8 U8, u16 U16, u32 U32, u64 U64);

macro_rules! native_float {
    ($($native:ident $physical:ident $bits:ident),*) => {$(
        impl Native for $native {
            const PHYSICAL: PhysicalType = PhysicalType::$physical;
            const INTEGER: bool = false;
            type Key = i64;
            const KEYS: (i128, i128) = (i64::MIN as i128, i64::MAX as i128);

            #[inline]
            fn key(self) -> i64 {
                float_key(f64::from(self))
            }
            fn value_of_key(key: i128) -> Value {
                Value::Float(float_of_key(key as i64))
            }
            #[inline]
            fn bits(self) -> i128 {
                self.to_bits() as i128
            }
            fn from_bits(bits: i128) -> Option<Self> {
                $bits::try_from(bits).ok().map($native::from_bits)
            }
            #[inline]
            fn minus(self, base: Self) -> u64 {
                self.to_bits().wrapping_sub(base.to_bits()) as u64
            }
            #[inline]
            fn plus(self, code: u64) -> Self {
                $native::from_bits(self.to_bits().wrapping_add(code as $bits))
            }
        }
    )*};
}
native_float!(f32 F32 u32, f64 F64 u64);

/// An integer that orders floats as `forebay_base::value::compare_floats` does: -0 and 0 share a key, all NaNs share
/// the largest.
#[inline]
pub fn float_key(value: f64) -> i64 {
    // Adding 0 turns -0 into 0. Negative numbers have all bits but the sign flipped: larger magnitude, smaller key.
    let bits = (value + 0.0).to_bits() as i64;
    let key = bits ^ (((bits >> 63) as u64) >> 1) as i64;
    if value.is_nan() { i64::MAX } else { key }
}

/// A float with this key.
fn float_of_key(key: i64) -> f64 {
    f64::from_bits((key ^ (((key >> 63) as u64) >> 1) as i64) as u64)
}

/// Runs `$body` with `$native` bound to the Rust type of a fixed-width [`PhysicalType`], or `$bytes` for strings.
#[macro_export]
macro_rules! with_native {
    ($physical:expr, $native:ident => $body:expr, bytes => $bytes:expr) => {
        $crate::with_native!(@match $physical, $native, $body, $bytes;
            I8 i8, I16 i16, I32 i32, I64 i64, I128 i128, U8 u8, U16 u16, U32 u32, U64 u64, F32 f32, F64 f64)
    };
    (@match $physical:expr, $native:ident, $body:expr, $bytes:expr; $($name:ident $rust:ident),*) => {
        match $physical {
            $($crate::__PhysicalType::$name => {
                type $native = $rust;
                $body
            })*
            $crate::__PhysicalType::Bytes => $bytes,
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_base::value::compare_floats;

    #[test]
    fn float_keys_order_as_values_do() {
        let nan = f64::NAN;
        let list =
            [nan, -nan, f64::NEG_INFINITY, f64::MIN, -1.5, -f64::MIN_POSITIVE, -0.0, 0.0, 5e-324, 2.0, f64::INFINITY];
        for a in list {
            for b in list {
                assert_eq!(a.key().cmp(&b.key()), compare_floats(a, b), "{a} {b}");
            }
            assert_eq!(f64::value_of_key(i128::from(a.key())), Value::Float(a));
        }
        assert!(f32::MAX.key() < f32::INFINITY.key());
    }

    #[test]
    fn bits_round_trip() {
        assert_eq!(i8::from_bits((-3i8).bits()), Some(-3));
        assert_eq!(i8::from_bits(200), None);
        let nan = f32::from_bits(0x7f80_0001);
        assert_eq!(f32::from_bits(nan.to_bits()).to_bits(), nan.to_bits());
        assert_eq!(<f32 as Native>::from_bits(-1), None);
        assert_eq!(i64::MIN.plus(i64::MAX.minus(i64::MIN)), i64::MAX);
    }
}
