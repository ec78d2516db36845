//! A query between DataFusion's plan and pipelines: relations whose columns are scalars over variables.
//!
//! Projections have no relation of their own: their expressions stand wherever their columns are used. Inner joins and the
//! semi and anti joins above them are one [`Group`], which [`crate::order`] takes apart again.
//!
//! Must not know: DataFusion's plans, registers, states.

use forebay_pipeline::ir::{AggregateFunction, Comparison};

use crate::facts::{ValueFacts, Variable};
use crate::scalar::{Node, Scalar};
use forebay_pipeline::interval::Interval;

/// More rows than any query lives to see: with a billion of them per second, it takes two years.
const MOST_ROWS: i128 = 1 << 56;

/// Where rows come from.
#[derive(Debug)]
pub enum Relation {
    /// The rows of a table that pass its tests and filters, by position in [`crate::carver::Carver::tables`].
    Scan(usize),
    /// Rows for which all of these are true.
    Filter {
        /// Of these rows.
        input: Box<Relation>,
        /// The predicates.
        predicates: Vec<Scalar>,
    },
    /// Inner, semi and anti joins in an order that is still open.
    Group(Group),
    /// A join of two relations.
    Join(Join),
    /// Groups with their aggregates.
    Aggregate(Aggregate),
}

/// Relations of which every combination of rows is taken that passes all predicates.
#[derive(Debug, Default)]
pub struct Group {
    /// The relations.
    pub leaves: Vec<Relation>,
    /// Relations that must (or must not) hold a matching row.
    pub semi_joins: Vec<SemiJoin>,
    /// Over the variables of any leaves.
    pub predicates: Vec<Scalar>,
}

/// A semi or anti join.
#[derive(Debug)]
pub struct SemiJoin {
    /// There must be no match.
    pub anti: bool,
    /// Where matches are looked for.
    pub inner: Relation,
    /// Equal scalars: of the outer side, of the inner one.
    pub keys: Vec<(Scalar, Scalar)>,
    /// What a pair must pass besides.
    pub residual: Vec<Scalar>,
}

/// A join whose sides are chosen.
#[derive(Debug)]
pub struct Join {
    /// What becomes of the probing rows.
    pub kind: JoinKind,
    /// The side that probes.
    pub probe: Box<Relation>,
    /// The side that is built first.
    pub build: Box<Relation>,
    /// Equal scalars: of the probing side, of the build side.
    pub keys: Vec<(Scalar, Scalar)>,
    /// What a pair must pass besides.
    pub residual: Vec<Scalar>,
}

/// Kinds of joins.
#[derive(Debug)]
pub enum JoinKind {
    /// Pairs.
    Inner,
    /// Pairs, and probing rows without a match with NULLs: these variables are the build side's columns, as seen above.
    Left(Vec<(Variable, Scalar)>),
    /// Probing rows with a match.
    Semi,
    /// Probing rows without a match.
    Anti,
    /// Probing rows with whether there is a match.
    Mark(Variable),
    /// The *build* side's rows, those with a match or those without.
    Built {
        /// With a match.
        matched: bool,
    },
}

/// A grouped relation.
#[derive(Debug)]
pub struct Aggregate {
    /// What is grouped.
    pub input: Box<Relation>,
    /// The keys and what they are called above.
    pub keys: Vec<(Variable, Scalar)>,
    /// The aggregates and what they are called above.
    pub calls: Vec<Call>,
}

/// One aggregate.
#[derive(Debug, Clone)]
pub struct Call {
    /// The function.
    pub function: AggregateFunction,
    /// Its argument.
    pub argument: Option<Scalar>,
    /// Its result.
    pub result: Variable,
}

/// A relation of exactly one row, whose columns may be used in any expression.
#[derive(Debug)]
pub struct OneRowRelation {
    /// The relation.
    pub relation: Relation,
    /// Its columns and what they are called elsewhere.
    pub columns: Vec<(Variable, Scalar)>,
}

/// What is known of a variable.
#[derive(Debug, Clone)]
pub struct VariableInfo {
    /// A name for people.
    pub name: String,
    /// Its values.
    pub facts: ValueFacts,
    /// Different values, estimated.
    pub distinct: f64,
    /// The column that it is: position in [`crate::carver::Carver::tables`], position in the table's list of columns.
    pub column: Option<(usize, usize)>,
    /// Another variable that it has the values of, or is NULL.
    pub same_as: Option<Variable>,
}

/// Whether a relation has exactly one row.
pub fn is_single(relation: &Relation) -> bool {
    matches!(relation, Relation::Aggregate(aggregate) if aggregate.keys.is_empty())
}

/// The rows of `input` that pass.
pub fn filtered(input: Relation, mut predicates: Vec<Scalar>) -> Relation {
    match input {
        _ if predicates.is_empty() => input,
        Relation::Group(mut group) => {
            group.predicates.append(&mut predicates);
            Relation::Group(group)
        }
        Relation::Filter { input, predicates: mut first } => {
            first.append(&mut predicates);
            Relation::Filter { input, predicates: first }
        }
        other => Relation::Filter { input: Box::new(other), predicates },
    }
}

impl Group {
    /// Adds a relation, or the parts of a group.
    pub fn take(&mut self, relation: Relation) {
        match relation {
            Relation::Group(mut group) => {
                self.leaves.append(&mut group.leaves);
                self.semi_joins.append(&mut group.semi_joins);
                self.predicates.append(&mut group.predicates);
            }
            Relation::Filter { input, mut predicates } if !matches!(*input, Relation::Aggregate(_)) => {
                self.take(*input);
                self.predicates.append(&mut predicates);
            }
            other => self.leaves.push(other),
        }
    }
}

impl Relation {
    /// Whether there is a join or an aggregation in it.
    pub fn is_worth_it(&self) -> bool {
        match self {
            Self::Scan(_) => false,
            Self::Filter { input, .. } => input.is_worth_it(),
            Self::Group(group) => {
                group.leaves.len() + group.semi_joins.len() > 1 || group.leaves.iter().any(Self::is_worth_it)
            }
            Self::Join(_) | Self::Aggregate(_) => true,
        }
    }
}

/// Rows as bounds of sums: what no query lives to see does not count.
pub fn countable(rows: i128) -> i128 {
    rows.clamp(1, MOST_ROWS)
}

/// The bounds of a count of so many rows.
pub fn count_bounds(rows: i128) -> Interval {
    Interval::new(0, countable(rows))
}

/// Whether a scalar is `a = b`.
pub fn as_equality(scalar: &Scalar) -> Option<(&Scalar, &Scalar)> {
    match scalar.node() {
        Node::Compare(Comparison::Equal, left, right) => Some((left, right)),
        _ => None,
    }
}
