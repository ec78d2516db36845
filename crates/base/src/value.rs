//! One non-NULL value: constants of predicates, bounds of zones, values of constant blocks.

use std::cmp::Ordering;

/// A value in the widest form of its family. NULL is `Option::None` around it.
///
/// Integers, decimals (scaled), dates, times, timestamps and booleans are `Int`; both float widths are `Float`
/// (binary32 widens exactly); text and blobs are `Bytes`.
#[derive(Debug, Clone)]
pub enum Value {
    /// An integer of any width.
    Int(i128),
    /// A float.
    Float(f64),
    /// Text or blob.
    Bytes(Vec<u8>),
}

/// Order of floats in Forebay: as in IEEE 754, but every NaN equals every NaN and is above all numbers, and -0 equals 0.
pub fn compare_floats(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// The one form in which a float is stored: the positive quiet NaN for every NaN, 0 for -0. With it the order of IEEE 754's
/// `totalOrder`, which arrow's kernels use, is that of [`compare_floats`].
pub fn canonical_f64(value: f64) -> f64 {
    // -0 + 0 is 0.
    if value.is_nan() { f64::NAN } else { value + 0.0 }
}

/// As [`canonical_f64`].
pub fn canonical_f32(value: f32) -> f32 {
    if value.is_nan() { f32::NAN } else { value + 0.0 }
}

impl Ord for Value {
    /// Total order within a family; across families (a bug of the caller) by family.
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => a.cmp(b),
            (Self::Float(a), Self::Float(b)) => compare_floats(*a, *b),
            (Self::Bytes(a), Self::Bytes(b)) => a.cmp(b),
            _ => self.family().cmp(&other.family()),
        }
    }
}

impl Value {
    fn family(&self) -> u8 {
        match self {
            Self::Int(_) => 0,
            Self::Float(_) => 1,
            Self::Bytes(_) => 2,
        }
    }
}

impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Value {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nan_is_greatest_and_equal_to_itself() {
        assert!(Value::Float(f64::NAN) > Value::Float(f64::INFINITY));
        assert_eq!(Value::Float(f64::NAN), Value::Float(-f64::NAN));
        assert_eq!(Value::Float(-0.0), Value::Float(0.0));
    }

    #[test]
    fn canonical_floats_have_one_form_per_value() {
        for value in [0.0, -0.0, f64::NAN, -f64::NAN, f64::NEG_INFINITY, 1e-320, -2.5] {
            let canonical = canonical_f64(value);
            assert_eq!(compare_floats(canonical, value), Ordering::Equal);
            assert!(!(canonical.is_sign_negative() && (canonical == 0.0 || canonical.is_nan())));
        }
        assert!(canonical_f32(-0.0).is_sign_positive() && canonical_f32(-f32::NAN).is_sign_positive());
    }
}
