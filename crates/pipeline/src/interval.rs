//! Bounds of integers: what columns hold, carried through arithmetic, so that most of it needs neither 16 bytes nor checks.
//!
//! Invariant: every result is sound, or `None` where it does not fit 16 bytes.

/// Integers from `low` to `high`, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval {
    /// Least.
    pub low: i128,
    /// Greatest.
    pub high: i128,
}

impl Interval {
    /// All that 16 bytes hold.
    pub const I128: Self = Self { low: i128::MIN, high: i128::MAX };
    /// All that 8 bytes hold.
    pub const I64: Self = Self { low: i64::MIN as i128, high: i64::MAX as i128 };

    /// From `low` to `high`.
    pub const fn new(low: i128, high: i128) -> Self {
        Self { low, high }
    }

    /// One value.
    pub const fn only(value: i128) -> Self {
        Self { low: value, high: value }
    }

    /// From `-high` to `high`.
    pub const fn symmetric(high: i128) -> Self {
        Self { low: -high, high }
    }

    /// Whether all of `other` lies within.
    pub fn contains(self, other: Self) -> bool {
        self.low <= other.low && other.high <= self.high
    }

    /// Whether `value` lies within.
    pub fn has(self, value: i128) -> bool {
        self.low <= value && value <= self.high
    }

    /// The same, and as much again on either side; what begins at 0 or above stays there.
    pub fn with_room(self) -> Self {
        let span = self.high.saturating_sub(self.low).saturating_add(1);
        let low = self.low.saturating_sub(span);
        Self { low: if self.low >= 0 { low.max(0) } else { low }, high: self.high.saturating_add(span) }
    }

    /// What lies in both, or `other` where nothing does.
    pub fn within(self, other: Self) -> Self {
        let (low, high) = (self.low.max(other.low), self.high.min(other.high));
        if low <= high { Self { low, high } } else { other }
    }

    /// The smallest interval around both.
    pub fn around(self, other: Self) -> Self {
        Self { low: self.low.min(other.low), high: self.high.max(other.high) }
    }

    /// Sums.
    pub fn plus(self, other: Self) -> Option<Self> {
        Some(Self { low: self.low.checked_add(other.low)?, high: self.high.checked_add(other.high)? })
    }

    /// Differences.
    pub fn subtract(self, other: Self) -> Option<Self> {
        Some(Self { low: self.low.checked_sub(other.high)?, high: self.high.checked_sub(other.low)? })
    }

    /// Products.
    pub fn multiply(self, other: Self) -> Option<Self> {
        let corners = [
            self.low.checked_mul(other.low)?,
            self.low.checked_mul(other.high)?,
            self.high.checked_mul(other.low)?,
            self.high.checked_mul(other.high)?,
        ];
        Self::of(&corners)
    }

    /// Values with their sign changed.
    pub fn negate(self) -> Option<Self> {
        Some(Self { low: self.high.checked_neg()?, high: self.low.checked_neg()? })
    }

    /// Quotients, cut towards zero or rounded away from it, by any divisor but 0.
    pub fn divide(self, divisor: Self) -> Option<Self> {
        if divisor.low > 0 {
            // The nearest divisor to zero bounds the result, and rounding adds at most one.
            let low = if self.low < 0 { (self.low / divisor.low).checked_sub(1)? } else { 0 };
            let high = if self.high > 0 { (self.high / divisor.low).checked_add(1)? } else { 0 };
            // Rounding never passes the dividend itself.
            return Some(Self { low: low.max(self.low.min(0)), high: high.min(self.high.max(0)) });
        }
        Some(Self::symmetric(self.greatest_magnitude()?))
    }

    /// Remainders by any divisor but 0, with the dividend's sign.
    pub fn remainder(self, divisor: Self) -> Option<Self> {
        let most = divisor.greatest_magnitude()?.max(1) - 1;
        let low = if self.low < 0 { self.low.max(-most) } else { 0 };
        let high = if self.high > 0 { self.high.min(most) } else { 0 };
        Some(Self { low, high })
    }

    /// Sums of up to `rows` values, at least one.
    pub fn sum(self, rows: i128) -> Option<Self> {
        let rows = rows.max(1);
        Some(Self { low: self.low.min(self.low.checked_mul(rows)?), high: self.high.max(self.high.checked_mul(rows)?) })
    }

    fn greatest_magnitude(self) -> Option<i128> {
        Some(self.low.checked_abs()?.max(self.high.checked_abs()?))
    }

    fn of(values: &[i128]) -> Option<Self> {
        Some(Self { low: *values.iter().min()?, high: *values.iter().max()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every value of the operands gives a result within the interval.
    fn check(name: &str, interval: fn(Interval, Interval) -> Option<Interval>, exact: fn(i128, i128) -> Option<i128>) {
        let edges = [-7, -3, -1, 0, 1, 2, 5];
        for low_a in edges {
            for high_a in edges.into_iter().filter(|high| *high >= low_a) {
                for low_b in edges {
                    for high_b in edges.into_iter().filter(|high| *high >= low_b) {
                        let (a, b) = (Interval::new(low_a, high_a), Interval::new(low_b, high_b));
                        let bounds = interval(a, b).expect("small numbers fit");
                        for x in low_a..=high_a {
                            for value in (low_b..=high_b).filter_map(|y| exact(x, y)) {
                                assert!(bounds.has(value), "{name} of {a:?} and {b:?}: {value} is not in {bounds:?}");
                            }
                        }
                    }
                }
            }
        }
    }

    fn rounded(x: i128, y: i128) -> Option<i128> {
        let (quotient, rest) = (x.checked_div(y)?, x % y);
        let away = if (x < 0) == (y < 0) { 1 } else { -1 };
        Some(if rest.abs() * 2 >= y.abs() { quotient + away } else { quotient })
    }

    #[test]
    fn results_lie_within_their_bounds() {
        check("sum", Interval::plus, |x, y| Some(x + y));
        check("difference", Interval::subtract, |x, y| Some(x - y));
        check("product", Interval::multiply, |x, y| Some(x * y));
        check("quotient", Interval::divide, i128::checked_div);
        check("rounded quotient", Interval::divide, rounded);
        check("remainder", Interval::remainder, i128::checked_rem);
    }

    #[test]
    fn what_does_not_fit_has_no_bounds() {
        assert_eq!(Interval::I128.plus(Interval::only(1)), None);
        assert_eq!(Interval::I128.negate(), None);
        assert_eq!(Interval::I64.multiply(Interval::I64).map(|i| i.high), Some(1 << 126));
        assert_eq!(Interval::new(-2, 3).sum(10), Some(Interval::new(-20, 30)));
        assert_eq!(Interval::new(2, 3).sum(10), Some(Interval::new(2, 30)));
    }
}
