//! What segments kept about the values of a column ([`ColumnStatistics`]), merged over a table: how many different
//! ones there are, and which share of the rows lies where. For estimates only.

use std::sync::Arc;

use forebay_base::{ColumnId, Value};
use forebay_block::ColumnStatistics;

use crate::segment::Segment;

/// The values of a column.
#[derive(Debug, Clone, Default)]
pub struct Distribution {
    /// Different values, NULL not counted.
    pub distinct: f64,
    /// Integers in ascending order, each with the share of rows below it; the ends are the least and the greatest value.
    /// Values that repeat stand for many rows. Empty for other types.
    points: Vec<(i128, f64)>,
}

impl Distribution {
    /// Of a column of these segments, whose integers lie in `range`; rows that are older than it have the value `missing`. `None`
    /// where a footer cannot be read.
    pub(crate) fn of(
        segments: &[Arc<Segment>],
        (id, missing): (ColumnId, &Option<Value>),
        range: Option<(i128, i128)>,
    ) -> Option<Self> {
        let mut whole = ColumnStatistics::default();
        let mut weighed: Vec<(i128, f64)> = Vec::new();
        let mut others: Vec<&Value> = Vec::new();
        for segment in segments {
            let Some(index) = segment.column_index(id) else {
                others.extend(missing);
                continue;
            };
            let statistics = segment.statistics(index).ok()?;
            whole.merge(statistics);
            let weight = valid_rows(segment, index)? / (statistics.sample().len() as f64).max(1.0);
            weighed.extend(statistics.sample().iter().map(|value| (*value, weight)));
        }
        // Rows of older segments have the column's default, which is one value more.
        let distinct = whole.distinct() + if others.is_empty() { 0.0 } else { 1.0 };
        let range = range.filter(|_| others.is_empty());
        let points = range.map_or_else(Vec::new, |(min, max)| points(weighed, min, max));
        Some(Self { distinct, points })
    }

    /// Of so many values of which no two are the same.
    pub(crate) fn of_distinct(rows: u64) -> Self {
        Self { distinct: rows as f64, points: Vec::new() }
    }

    /// The share of rows with a value in `low..=high`; `None` where nothing is known.
    pub fn share(&self, low: i128, high: i128) -> Option<f64> {
        if low > high {
            return Some(0.0);
        }
        let through = match high >= self.points.last()?.0 {
            true => 1.0,
            false => self.below(high + 1)?,
        };
        Some((through - self.below(low)?).max(0.0))
    }

    /// A value that so large a share of the rows lies below.
    pub fn quantile(&self, share: f64) -> Option<i128> {
        self.points.iter().find(|(_, below)| *below >= share).or(self.points.last()).map(|(value, _)| *value)
    }

    /// The share of rows below a value.
    fn below(&self, value: i128) -> Option<f64> {
        let (first, last) = (self.points.first()?, self.points.last()?);
        if value <= first.0 {
            return Some(0.0);
        }
        if value > last.0 {
            return Some(1.0);
        }
        // Behind all points that are less, before the first that is not.
        let next = self.points.partition_point(|(point, _)| *point < value);
        let ((from, from_share), (to, to_share)) = (self.points[next - 1], self.points[next]);
        // In floats: the span of the widest decimals is beyond an i128.
        let way = (value as f64 - from as f64) / (to as f64 - from as f64).max(1.0);
        Some(from_share + (to_share - from_share) * way)
    }
}

/// Rows of a column of a segment that are not NULL.
fn valid_rows(segment: &Segment, index: usize) -> Option<f64> {
    let zones = segment.groups().ok()?.iter().flat_map(|group| &group.columns[index].zones);
    Some(zones.map(|zone| f64::from(zone.rows - zone.null_count)).sum())
}

/// Sampled values, each standing for so many rows, as points of a histogram between two ends.
fn points(mut weighed: Vec<(i128, f64)>, min: i128, max: i128) -> Vec<(i128, f64)> {
    weighed.sort_unstable_by_key(|(value, _)| *value);
    let all: f64 = weighed.iter().map(|(_, weight)| weight).sum();
    let mut below = 0.0;
    let inner = weighed.into_iter().map(|(value, weight)| {
        // It is the middle one of the rows that it stands for.
        let share = (below + weight / 2.0) / all.max(1.0);
        below += weight;
        (value.clamp(min, max), share)
    });
    std::iter::once((min, 0.0)).chain(inner).chain([(max, 1.0)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[i128], min: i128, max: i128) -> Distribution {
        let weighed = values.iter().map(|value| (*value, 100.0)).collect();
        Distribution { distinct: values.len() as f64, points: points(weighed, min, max) }
    }

    fn near(share: Option<f64>, expected: f64) {
        let share = share.expect("there are points");
        assert!((share - expected).abs() < 0.02, "{share} instead of {expected}");
    }

    #[test]
    fn even_values_have_shares_of_the_span() {
        let even = of(&(0..64).map(|number| number * 100 + 50).collect::<Vec<_>>(), 0, 6400);
        near(even.share(0, 6400), 1.0);
        near(even.share(0, 1599), 0.25);
        near(even.share(3200, 9999), 0.5);
        near(even.share(3200, 3200), 0.0);
        assert_eq!(even.share(-9, -1), Some(0.0));
        assert_eq!(even.share(5, 4), Some(0.0));
        assert!((3100..3300).contains(&even.quantile(0.5).expect("a median")));
    }

    #[test]
    fn skew_and_repeated_values_show() {
        // Nine tenths of the rows are 7, the others reach far.
        let mut values = vec![7; 58];
        values.extend([1000, 2000, 3000, 4000, 5000, 6000]);
        let skewed = of(&values, 7, 1_000_000);
        near(skewed.share(7, 7), 0.9);
        near(skewed.share(8, 1_000_000), 0.1);
        near(skewed.share(10_000, 1_000_000), 0.01);
    }

    #[test]
    fn the_widest_values_are_no_overflow() {
        let wide = of(&[i128::MIN, 0, i128::MAX], i128::MIN, i128::MAX);
        near(wide.share(i128::MIN, i128::MAX), 1.0);
        near(wide.share(0, i128::MAX), 0.5);
        assert_eq!(Distribution::default().share(1, 2), None);
    }
}
