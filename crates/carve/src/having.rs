//! How many groups pass a comparison of their count or sum with a constant, guessed as if rows met their groups by chance.
//!
//! Then a group has n rows on average and n as their variance. With a mean m and a variance v of the argument, its sum has the mean n·m
//! and the variance n·(v + m²). How the argument lies within its bounds is not known: evenly, as far as this guess goes.

use forebay_pipeline::interval::Interval;
use forebay_pipeline::ir::{AggregateFunction, Comparison};

use crate::carver::Carver;
use crate::facts::{Literal, is_integer};
use crate::relation::Aggregate;
use crate::scalar::{Node, Scalar};

/// Bounds that are further apart than this are those of a type, and tell nothing.
const WIDEST: i128 = 1 << 48;

/// What a guess may say: rows seldom meet their groups by chance.
const SHARES: (f64, f64) = (0.001, 0.95);

impl Carver<'_> {
    /// The share of an aggregate's groups that pass; `None` for anything but such a comparison.
    pub(crate) fn having_share(&self, aggregate: &Aggregate, predicate: &Scalar) -> Option<f64> {
        let Node::Compare(comparison, a, b) = predicate.node() else { return None };
        let (variable, constant, is_flipped) = match (a.node(), b.node()) {
            (Node::Variable(variable), Node::Constant(Literal::Int(constant))) => (*variable, *constant, false),
            (Node::Constant(Literal::Int(constant)), Node::Variable(variable)) => (*variable, *constant, true),
            _ => return None,
        };
        let asks_for_more = match comparison {
            Comparison::Greater | Comparison::GreaterOrEqual => !is_flipped,
            Comparison::Less | Comparison::LessOrEqual => is_flipped,
            Comparison::Equal | Comparison::NotEqual => return None,
        };
        let call = aggregate.calls.iter().find(|call| call.result == self.origin(variable))?;
        let argument = match (call.function, &call.argument) {
            (AggregateFunction::CountRows | AggregateFunction::Count, _) => Interval { low: 1, high: 1 },
            (AggregateFunction::Sum | AggregateFunction::SumWide | AggregateFunction::SumFitting, Some(argument))
                if is_integer(argument.facts().value) =>
            {
                argument.facts().interval
            }
            _ => return None,
        };
        let rows = self.rows(&aggregate.input);
        let groups = self.groups(aggregate.keys.iter().map(|(_, key)| key), rows);
        let more = share_above(rows / groups, argument, constant)?;
        Some(if asks_for_more { more } else { 1.0 - more }.clamp(SHARES.0, SHARES.1))
    }
}

/// The share of groups whose sum is above `constant`, with so many rows on average.
fn share_above(rows: f64, argument: Interval, constant: i128) -> Option<f64> {
    let width = argument.high.checked_sub(argument.low)?;
    if width > WIDEST || argument.low.unsigned_abs() > WIDEST.unsigned_abs() {
        return None;
    }
    let (width, middle) = (width as f64, argument.low as f64 + width as f64 / 2.0);
    let deviation = (rows * (width * width / 12.0 + middle * middle)).sqrt();
    // The normal distribution, as the logistic function has it: its ends are thicker, as are those of real groups.
    let distance = (constant as f64 - rows * middle) / deviation;
    (deviation > 0.0).then(|| 1.0 / (1.0 + (1.702 * distance).exp()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_groups_have_far_more_than_the_average() {
        let quantity = Interval { low: 100, high: 5000 };
        let share = |constant| share_above(4.0, quantity, constant).expect("its bounds are known");
        assert!(share(30_000) < 0.005, "{}", share(30_000));
        assert!((0.45..0.55).contains(&share(4 * 2550)), "{}", share(4 * 2550));
        assert!(share(1_000) > 0.8, "{}", share(1_000));
    }

    #[test]
    fn counts_are_sums_of_ones_and_bounds_of_a_type_tell_nothing() {
        let one = Interval { low: 1, high: 1 };
        assert!(share_above(100.0, one, 200).expect("known") < share_above(100.0, one, 110).expect("known"));
        assert_eq!(share_above(4.0, Interval::I64, 10), None);
        assert_eq!(share_above(4.0, Interval { low: 0, high: 0 }, 10), None);
    }
}
