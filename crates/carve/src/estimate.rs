//! How many rows relations have, guessed from what tables and zones tell.
//!
//! Guesses decide orders, never answers.

use std::collections::{BTreeSet, HashMap};

use forebay_engine::query::ExpectedRows;
use forebay_tables::statistics::{PATTERN_SELECTIVITY, UNKNOWN_SELECTIVITY};

use crate::carver::Carver;
use crate::facts::{Variable, is_integer};
use crate::relation::{Aggregate, Group, Join, JoinKind, Relation, SemiJoin, as_equality};
use crate::scalar::{Node, Scalar};

/// Share of rows taken to pass a comparison that is no equality.
const RANGE_SELECTIVITY: f64 = 0.4;

/// Share of groups taken to pass a comparison of an aggregate, where nothing else is known of it (`having.rs`): who asks for
/// them wants the unusual ones.
const HAVING_SELECTIVITY: f64 = 0.05;

/// From this share of different values on, none is taken to occur twice: numbers of different values are estimates, too.
const UNIQUE_SHARE: f64 = 0.9;

/// A key with so many times the values that occur on the other side of a join is one that is mostly not referred to.
const WIDE_KEY: f64 = 4.0;

/// Share of rows with a match that a further condition leaves.
const RESIDUAL_SELECTIVITY: f64 = 0.8;

/// The keys of one side of a join.
struct Side {
    /// Different ones in the tables that they are from.
    distinct: f64,
    /// Rows of the side, which may be fewer.
    rows: f64,
    /// Whether they are a declared key of one table.
    is_key: bool,
    /// Whether each seems to occur once in its table.
    is_unique: bool,
}

impl Side {
    /// How many of these keys a row of the other side may have. Where most of them do not occur there, as the days of two
    /// centuries do not in the sales of five years, a query is taken to ask for those that do: all of the rows that are left
    /// here are among them.
    fn referred_by(&self, other: &Self) -> f64 {
        match WIDE_KEY * other.distinct < self.distinct {
            true => other.distinct.max(self.rows.min(self.distinct)),
            false => self.distinct,
        }
    }
}

impl Carver<'_> {
    /// Rows of a relation.
    pub fn rows(&self, relation: &Relation) -> f64 {
        match relation {
            Relation::Scan(table) => self.tables[*table].rows.max(1.0),
            Relation::Filter { input, predicates } => match input.as_ref() {
                Relation::Aggregate(aggregate) => self.rows(input) * self.share_of_groups(aggregate, predicates),
                _ => self.rows(input) * self.selectivity(predicates),
            },
            Relation::Group(group) => self.group_rows(group),
            Relation::Join(join) => self.join_rows(join),
            Relation::Aggregate(Aggregate { input, keys, .. }) => {
                self.groups(keys.iter().map(|(_, key)| key), self.rows(input))
            }
        }
    }

    /// Only used for groups within relations that are not ordered yet: no better than its largest leaf.
    fn group_rows(&self, group: &Group) -> f64 {
        let largest = group.leaves.iter().map(|leaf| self.rows(leaf)).fold(1.0, f64::max);
        let residual: Vec<&Scalar> = group.predicates.iter().filter(|p| as_equality(p).is_none()).collect();
        largest * residual.iter().map(|predicate| self.predicate_selectivity(predicate)).product::<f64>()
    }

    fn join_rows(&self, join: &Join) -> f64 {
        let (probe, build) = (self.rows(&join.probe), self.rows(&join.build));
        let keys: Vec<(&Scalar, &Scalar)> = join.keys.iter().map(|(a, b)| (a, b)).collect();
        match &join.kind {
            JoinKind::Inner => (probe * build * self.join_selectivity(&keys, probe, build)).max(1.0),
            JoinKind::Left(_) => probe.max(probe * build * self.join_selectivity(&keys, probe, build)),
            JoinKind::Mark(_) => probe,
            JoinKind::Semi => probe * self.match_share(&keys, probe, build, !join.residual.is_empty()),
            JoinKind::Anti => probe * (1.0 - self.match_share(&keys, probe, build, !join.residual.is_empty())),
            JoinKind::Built { matched } => {
                let flipped: Vec<(&Scalar, &Scalar)> = join.keys.iter().map(|(a, b)| (b, a)).collect();
                let share = self.match_share(&flipped, build, probe, !join.residual.is_empty());
                build * if *matched { share } else { 1.0 - share }
            }
        }
        .max(1.0)
    }

    /// Groups of so many rows.
    pub fn groups<'s>(&self, keys: impl Iterator<Item = &'s Scalar>, rows: f64) -> f64 {
        keys.map(|key| self.distinct(key, rows)).product::<f64>().min(rows).max(1.0)
    }

    /// The share of `outer` rows that the existence lets pass.
    pub fn semi_join_share(&self, semi_join: &SemiJoin, outer: f64, inner: f64) -> f64 {
        let keys: Vec<(&Scalar, &Scalar)> = semi_join.keys.iter().map(|(a, b)| (a, b)).collect();
        let share = self.match_share(&keys, outer, inner, !semi_join.residual.is_empty());
        if semi_join.anti { 1.0 - share } else { share }
    }

    /// The share of rows of the first side that have a match in the second.
    fn match_share(&self, keys: &[(&Scalar, &Scalar)], outer: f64, inner: f64, residual: bool) -> f64 {
        let known = keys.iter().map(|(a, _)| self.distinct(a, f64::INFINITY)).product::<f64>();
        let known = if known.is_finite() { known } else { outer };
        let found = keys.iter().map(|(_, b)| self.distinct(b, inner)).product::<f64>().min(inner);
        let share = (found / known.max(1.0)).min(1.0) * if residual { RESIDUAL_SELECTIVITY } else { 1.0 };
        share.clamp(0.02, 0.98)
    }

    /// The share of pairs that have equal keys.
    pub fn join_selectivity(&self, keys: &[(&Scalar, &Scalar)], left_rows: f64, right_rows: f64) -> f64 {
        let (left, right): (Vec<&Scalar>, Vec<&Scalar>) = keys.iter().copied().unzip();
        let left = self.side(&left, left_rows);
        let right = self.side(&right, right_rows);
        let distinct = match (left.is_key, right.is_key) {
            // A key holds every value that the other side refers to.
            (true, true) => left.distinct.min(right.distinct),
            (true, false) => left.referred_by(&right),
            (false, true) => right.referred_by(&left),
            (false, false) if left.is_unique => left.referred_by(&right).max(right.distinct),
            (false, false) if right.is_unique => right.referred_by(&left).max(left.distinct),
            (false, false) => left.distinct.max(right.distinct),
        };
        1.0 / distinct.max(1.0)
    }

    /// What is known of the keys of one side of a join.
    fn side(&self, keys: &[&Scalar], rows: f64) -> Side {
        let columns: Option<Vec<(usize, usize)>> = keys
            .iter()
            .map(|key| key.as_variable().and_then(|variable| self.info(self.origin(variable)).column))
            .collect();
        let product = keys.iter().map(|key| self.distinct(key, f64::INFINITY)).product::<f64>();
        if let Some(columns) = columns
            && let Some((table, _)) = columns.first()
            && columns.iter().all(|(other, _)| other == table)
        {
            let scanned = &self.tables[*table];
            let all = scanned.table.rows() as f64;
            let positions: Vec<usize> = columns.iter().map(|(_, column)| *column).collect();
            return match scanned.holds_key(&positions) {
                true => Side { distinct: all, rows, is_key: true, is_unique: true },
                false => {
                    let is_unique = product >= UNIQUE_SHARE * all;
                    Side { distinct: product.min(all), rows, is_key: false, is_unique }
                }
            };
        }
        Side { distinct: product.min(rows), rows, is_key: false, is_unique: false }
    }

    /// From the least to the greatest value of an integer that seems to occur once in its table, of which `rows` are left.
    pub fn span_of_unique(&self, key: &Scalar, rows: f64) -> Option<f64> {
        let interval = key.facts().interval;
        let is_one = is_integer(key.facts().value) && self.side(&[key], rows).is_unique;
        is_one.then(|| interval.high.saturating_sub(interval.low) as f64 + 1.0)
    }

    /// The variable that a variable has its values from.
    pub fn origin(&self, mut variable: Variable) -> Variable {
        while let Some(source) = self.info(variable).same_as {
            variable = source;
        }
        variable
    }

    /// Different values of a scalar among so many rows.
    fn distinct(&self, scalar: &Scalar, rows: f64) -> f64 {
        let interval = scalar.facts().interval;
        let span = interval.high.saturating_sub(interval.low) as f64 + 1.0;
        let known = match scalar.node() {
            Node::Variable(variable) if self.single_of(*variable).is_some() => 1.0,
            Node::Variable(variable) => self.info(*variable).distinct,
            Node::Constant(_) => 1.0,
            _ => scalar.variables().iter().map(|variable| self.info(*variable).distinct).product(),
        };
        let is_integer = matches!(
            scalar.facts().value,
            forebay_pipeline::ir::ValueType::I64 | forebay_pipeline::ir::ValueType::I128
        );
        let known = if is_integer { known.min(span) } else { known };
        known.min(rows)
    }

    /// Whether a scalar is an aggregate, or made of some.
    fn is_result(&self, scalar: &Scalar) -> bool {
        let aggregated = |variable: &Variable| {
            let info = self.info(*variable);
            info.column.is_none() && info.same_as.is_none() && self.single_of(*variable).is_none()
        };
        scalar.variables().iter().any(aggregated)
    }

    /// The share of rows that pass all of these.
    pub fn selectivity(&self, predicates: &[Scalar]) -> f64 {
        predicates.iter().map(|predicate| self.predicate_selectivity(predicate)).product::<f64>().max(1e-6)
    }

    /// The share of groups that pass all of these.
    fn share_of_groups(&self, aggregate: &Aggregate, predicates: &[Scalar]) -> f64 {
        let share = |predicate: &Scalar| {
            self.having_share(aggregate, predicate).unwrap_or_else(|| self.predicate_selectivity(predicate))
        };
        predicates.iter().map(share).product::<f64>().max(1e-6)
    }

    fn predicate_selectivity(&self, predicate: &Scalar) -> f64 {
        match predicate.node() {
            Node::And(a, b) => self.predicate_selectivity(a) * self.predicate_selectivity(b),
            Node::Or(a, b) => {
                let (a, b) = (self.predicate_selectivity(a), self.predicate_selectivity(b));
                (a + b - a * b).min(1.0)
            }
            Node::Not(inner) => (1.0 - self.predicate_selectivity(inner)).max(0.05),
            Node::Compare(forebay_pipeline::ir::Comparison::Equal, a, b) => {
                1.0 / self.distinct(a, 1e6).max(self.distinct(b, 1e6)).clamp(1.0, 1e4)
            }
            Node::Compare(forebay_pipeline::ir::Comparison::NotEqual, ..) => 0.9,
            Node::Compare(_, a, b) if self.is_result(a) || self.is_result(b) => HAVING_SELECTIVITY,
            Node::Compare(..) => RANGE_SELECTIVITY,
            Node::Like(..) => PATTERN_SELECTIVITY,
            Node::In(value, list) => (list.len() as f64 / self.distinct(value, 1e4).max(1.0)).min(1.0),
            _ => UNKNOWN_SELECTIVITY,
        }
    }
}

/// The variables of several scalars.
pub fn variables_of<'a>(scalars: impl IntoIterator<Item = &'a Scalar>) -> BTreeSet<Variable> {
    let mut all = BTreeSet::new();
    for scalar in scalars {
        scalar.collect_variables(&mut all);
    }
    all
}

/// By position in [`Carver::tables`], how many rows of the scans of pipelines are expected to go on.
pub type ExpectedScans = HashMap<usize, ExpectedRows>;

/// Takes note of the rows that leave a relation which begins with the scan of a table, of so many that come to its last step.
/// Filters of pipelines spare the scan nothing: they look at rows whose columns are loaded.
pub fn expect(scans: &mut ExpectedScans, table: usize, (rows_in, rows_out): (f64, f64), relation: &Relation) {
    let expected = scans.entry(table).or_insert(ExpectedRows { tested: rows_out, kept: rows_out });
    if matches!(relation, Relation::Join(_)) {
        expected.kept *= (rows_out / rows_in.max(1.0)).min(1.0);
    }
}
