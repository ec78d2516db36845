//! Expressions over the variables of a query, with what is known of their values. They mean what the pipeline IR means;
//! [`crate::registers`] writes them as its steps.
//!
//! Invariants: equal scalars compute equal values. A scalar whose result could leave its SQL type where the IR would not
//! notice (a 32-bit sum in 64 bits) is never built: that is a [`Reason`] not to carve.

use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use forebay_base::canonical_f64;
use forebay_pipeline::ir::{Arithmetic, Comparison, DatePart, ValueType};

use crate::facts::{Literal, Range, ValueFacts, Variable, fits_i64, is_integer, width};
use crate::reason::Reason;
use forebay_pipeline::interval::Interval;

/// Nodes of one expression; more is left to DataFusion.
const MOST_NODES: u32 = 4096;

/// Nodes above one another: expressions are walked by recursion.
pub const MOST_DEPTH: u32 = 200;

/// An expression.
#[derive(Debug, Clone)]
pub struct Scalar {
    node: Arc<Node>,
    facts: ValueFacts,
    /// The result is proven to fit, so that this node need not be checked.
    fits: bool,
    /// Some node within can fail.
    fallible: bool,
    nodes: u32,
    depth: u32,
}

/// What an expression computes. Operands of one node that must have one type may still differ in width.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Node {
    /// A variable.
    Variable(Variable),
    /// A constant.
    Constant(Literal),
    /// Two numbers.
    Arithmetic(Arithmetic, Scalar, Scalar),
    /// The number with its sign changed.
    Negate(Scalar),
    /// Two values of one type.
    Compare(Comparison, Scalar, Scalar),
    /// Kleene's and.
    And(Scalar, Scalar),
    /// Kleene's or.
    Or(Scalar, Scalar),
    /// Not.
    Not(Scalar),
    /// Whether it is NULL.
    IsNull(Scalar),
    /// The value of the first branch whose condition is true.
    Case {
        /// Conditions and values.
        branches: Vec<(Scalar, Scalar)>,
        /// The value where none is true.
        otherwise: Scalar,
    },
    /// The first, or the second where that is NULL.
    Coalesce(Scalar, Scalar),
    /// The number in the type of this scalar's shape.
    Convert(Scalar),
    /// Part of a date.
    DatePart(DatePart, Scalar),
    /// Number of characters of a text.
    Length(Scalar),
    /// Whether text matches a pattern of LIKE.
    Like(Scalar, Arc<[u8]>),
    /// Whether it is one of these, sorted and without NULL.
    In(Scalar, Vec<Literal>),
    /// Part of a text.
    Substring {
        /// The text.
        value: Scalar,
        /// First character, counted from 1.
        start: i64,
        /// Number of characters.
        length: Option<i64>,
    },
}

impl PartialEq for Scalar {
    fn eq(&self, other: &Self) -> bool {
        self.facts.value == other.facts.value && (Arc::ptr_eq(&self.node, &other.node) || self.node == other.node)
    }
}

impl Eq for Scalar {}

impl Hash for Scalar {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.facts.value.hash(state);
        self.node.hash(state);
    }
}

impl Scalar {
    pub(crate) fn new(node: Node, facts: ValueFacts, fits: bool) -> Result<Self, Reason> {
        let (mut nodes, mut depth) = (1u32, 0u32);
        let mut fallible = !fits;
        for operand in node.operands() {
            nodes = nodes.saturating_add(operand.nodes);
            depth = depth.max(operand.depth);
            fallible |= operand.fallible;
        }
        depth += 1;
        if nodes > MOST_NODES || depth > MOST_DEPTH {
            return Err(Reason::new("an expression is too large"));
        }
        Ok(Self { node: Arc::new(node), facts, fits, fallible, nodes, depth })
    }

    /// A leaf: it cannot fail and is not too large.
    fn leaf(node: Node, facts: ValueFacts) -> Self {
        Self { node: Arc::new(node), facts, fits: true, fallible: false, nodes: 1, depth: 1 }
    }

    /// A variable of this shape.
    pub fn variable(variable: Variable, facts: ValueFacts) -> Self {
        Self::leaf(Node::Variable(variable), facts)
    }

    /// An integer.
    pub fn integer(value: i128) -> Self {
        let interval = Interval::only(value);
        Self::leaf(
            Node::Constant(Literal::Int(value)),
            ValueFacts { value: width(interval), nullable: false, interval },
        )
    }

    /// true or false.
    pub fn bool(value: bool) -> Self {
        Self::leaf(Node::Constant(Literal::Bool(value)), ValueFacts::of(ValueType::Bool, false))
    }

    /// A float.
    pub fn float(value: f64) -> Self {
        let bits = canonical_f64(value).to_bits();
        Self::leaf(Node::Constant(Literal::Float(bits)), ValueFacts::of(ValueType::F64, false))
    }

    /// Text or blob.
    pub fn bytes(value: &[u8]) -> Self {
        Self::leaf(Node::Constant(Literal::Bytes(value.into())), ValueFacts::of(ValueType::Bytes, false))
    }

    /// NULL of a type.
    pub fn null(value: ValueType) -> Self {
        let interval = if is_integer(value) { Interval::only(0) } else { Interval::I128 };
        Self::leaf(Node::Constant(Literal::Null), ValueFacts { value, nullable: true, interval })
    }

    /// What it computes.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// What is known of its values.
    pub fn facts(&self) -> ValueFacts {
        self.facts
    }

    /// Whether the node itself need not be checked.
    pub fn fits(&self) -> bool {
        self.fits
    }

    /// Whether computing it can fail.
    pub fn fallible(&self) -> bool {
        self.fallible
    }

    /// The variable that it is, if it is nothing else.
    pub fn as_variable(&self) -> Option<Variable> {
        match &*self.node {
            Node::Variable(variable) => Some(*variable),
            _ => None,
        }
    }

    /// The constant that it is, if it is one.
    pub fn as_constant(&self) -> Option<&Literal> {
        match &*self.node {
            Node::Constant(literal) => Some(literal),
            _ => None,
        }
    }

    /// Adds the variables that it reads.
    pub fn collect_variables(&self, into: &mut BTreeSet<Variable>) {
        if let Node::Variable(variable) = &*self.node {
            into.insert(*variable);
        }
        for operand in self.node.operands() {
            operand.collect_variables(into);
        }
    }

    /// The variables that it reads.
    pub fn variables(&self) -> BTreeSet<Variable> {
        let mut all = BTreeSet::new();
        self.collect_variables(&mut all);
        all
    }

    /// The same value where `replace` gives other scalars of the same shape for some parts, the largest first.
    pub fn replaced(&self, replace: &mut dyn FnMut(&Self) -> Option<Self>) -> Self {
        if let Some(other) = replace(self) {
            return other;
        }
        let mut of = |scalar: &Self| scalar.replaced(replace);
        let node = match &*self.node {
            Node::Variable(_) | Node::Constant(_) => return self.clone(),
            Node::Arithmetic(op, a, b) => Node::Arithmetic(*op, of(a), of(b)),
            Node::Negate(a) => Node::Negate(of(a)),
            Node::Compare(op, a, b) => Node::Compare(*op, of(a), of(b)),
            Node::And(a, b) => Node::And(of(a), of(b)),
            Node::Or(a, b) => Node::Or(of(a), of(b)),
            Node::Not(a) => Node::Not(of(a)),
            Node::IsNull(a) => Node::IsNull(of(a)),
            Node::Case { branches, otherwise } => {
                let branches = branches.iter().map(|(when, then)| (of(when), of(then))).collect();
                Node::Case { branches, otherwise: of(otherwise) }
            }
            Node::Coalesce(a, b) => Node::Coalesce(of(a), of(b)),
            Node::Convert(a) => Node::Convert(of(a)),
            Node::DatePart(part, a) => Node::DatePart(*part, of(a)),
            Node::Length(a) => Node::Length(of(a)),
            Node::Like(a, pattern) => Node::Like(of(a), Arc::clone(pattern)),
            Node::In(a, list) => Node::In(of(a), list.clone()),
            Node::Substring { value, start, length } => {
                Node::Substring { value: of(value), start: *start, length: *length }
            }
        };
        Self { node: Arc::new(node), ..self.clone() }
    }

    /// The same value with tighter bounds that its maker has proven.
    pub fn bounded(mut self, interval: Interval) -> Self {
        self.facts.interval = self.facts.interval.within(interval);
        self
    }

    /// `left op right`, an error where the result leaves `range`.
    pub fn arithmetic(op: Arithmetic, range: Range, left: Self, right: Self) -> Result<Self, Reason> {
        let nullable = left.facts.nullable || right.facts.nullable;
        if range == Range::Float {
            left.expect(ValueType::F64)?;
            right.expect(ValueType::F64)?;
            return Self::new(Node::Arithmetic(op, left, right), ValueFacts::of(ValueType::F64, nullable), true);
        }
        left.expect_integer()?;
        right.expect_integer()?;
        let (a, b) = (left.facts.interval, right.facts.interval);
        let exact = match op {
            Arithmetic::Add => a.plus(b),
            Arithmetic::Subtract => a.subtract(b),
            Arithmetic::Multiply => a.multiply(b),
            Arithmetic::Divide | Arithmetic::DivideRounded => a.divide(b),
            Arithmetic::Remainder => a.remainder(b),
        };
        let narrow = left.facts.value == ValueType::I64 && right.facts.value == ValueType::I64;
        let (value, interval, proven) = number(range, exact, narrow)?;
        // Dividing by zero is an error of its own, and the remainder of the least number by -1 may be one.
        let divides = matches!(op, Arithmetic::Divide | Arithmetic::DivideRounded | Arithmetic::Remainder);
        let fits = proven
            && !(divides && b.has(0))
            && !(op == Arithmetic::Remainder && b.has(-1) && a.low <= i128::from(i64::MIN));
        let constants = left.as_constant().is_some() && right.as_constant().is_some() && !nullable;
        if constants && fits && interval.low == interval.high {
            return Ok(Self::integer(interval.low));
        }
        Self::new(Node::Arithmetic(op, left, right), ValueFacts { value, nullable, interval }, fits)
    }

    /// `-operand`, an error where it leaves `range`.
    pub fn negate(range: Range, operand: Self) -> Result<Self, Reason> {
        let nullable = operand.facts.nullable;
        if range == Range::Float {
            operand.expect(ValueType::F64)?;
            return Self::new(Node::Negate(operand), ValueFacts::of(ValueType::F64, nullable), true);
        }
        operand.expect_integer()?;
        let narrow = operand.facts.value == ValueType::I64;
        let (value, interval, fits) = number(range, operand.facts.interval.negate(), narrow)?;
        Self::new(Node::Negate(operand), ValueFacts { value, nullable, interval }, fits)
    }

    /// `left op right`.
    pub fn compare(op: Comparison, left: Self, right: Self) -> Result<Self, Reason> {
        left.expect_like(&right)?;
        let nullable = left.facts.nullable || right.facts.nullable;
        Self::new(Node::Compare(op, left, right), ValueFacts::of(ValueType::Bool, nullable), true)
    }

    /// `left AND right`.
    pub fn and(left: Self, right: Self) -> Result<Self, Reason> {
        let facts = Self::logic(&left, &right)?;
        Self::new(Node::And(left, right), facts, true)
    }

    /// `left OR right`.
    pub fn or(left: Self, right: Self) -> Result<Self, Reason> {
        let facts = Self::logic(&left, &right)?;
        Self::new(Node::Or(left, right), facts, true)
    }

    fn logic(left: &Self, right: &Self) -> Result<ValueFacts, Reason> {
        left.expect(ValueType::Bool)?;
        right.expect(ValueType::Bool)?;
        Ok(ValueFacts::of(ValueType::Bool, left.facts.nullable || right.facts.nullable))
    }

    /// `NOT operand`.
    pub fn negation(operand: Self) -> Result<Self, Reason> {
        operand.expect(ValueType::Bool)?;
        let facts = ValueFacts::of(ValueType::Bool, operand.facts.nullable);
        Self::new(Node::Not(operand), facts, true)
    }

    /// `operand IS NULL`.
    pub fn is_null(operand: Self) -> Result<Self, Reason> {
        if !operand.facts.nullable {
            return Ok(Self::bool(false));
        }
        Self::new(Node::IsNull(operand), ValueFacts::of(ValueType::Bool, false), true)
    }

    /// `CASE WHEN … THEN … ELSE otherwise END`.
    pub fn case(branches: Vec<(Self, Self)>, otherwise: Self) -> Result<Self, Reason> {
        let mut facts = otherwise.facts;
        let mut is_null = matches!(otherwise.as_constant(), Some(Literal::Null));
        for (condition, value) in &branches {
            condition.expect(ValueType::Bool)?;
            value.expect_like(&otherwise)?;
            // NULL says nothing of bounds.
            if matches!(value.as_constant(), Some(Literal::Null)) {
                facts.nullable = true;
                continue;
            }
            facts = match is_null {
                true => ValueFacts { nullable: true, ..value.facts },
                false => facts.either(value.facts),
            };
            is_null = false;
        }
        Self::new(Node::Case { branches, otherwise }, facts, true)
    }

    /// `COALESCE(first, second)`.
    pub fn coalesce(first: Self, second: Self) -> Result<Self, Reason> {
        if !first.facts.nullable {
            return Ok(first);
        }
        first.expect_like(&second)?;
        let facts = ValueFacts { nullable: second.facts.nullable, ..first.facts.either(second.facts) };
        Self::new(Node::Coalesce(first, second), facts, true)
    }

    /// A number as a float.
    pub fn to_float(self) -> Result<Self, Reason> {
        if self.facts.value == ValueType::F64 {
            return Ok(self);
        }
        self.expect_integer()?;
        let facts = ValueFacts::of(ValueType::F64, self.facts.nullable);
        Self::new(Node::Convert(self), facts, true)
    }

    /// true as 1, false as 0.
    pub fn bool_to_integer(self) -> Result<Self, Reason> {
        self.expect(ValueType::Bool)?;
        let facts = ValueFacts { value: ValueType::I64, nullable: self.facts.nullable, interval: Interval::new(0, 1) };
        Self::new(Node::Convert(self), facts, true)
    }

    /// Part of a date.
    pub fn date_part(part: DatePart, date: Self) -> Result<Self, Reason> {
        date.expect(ValueType::I64)?;
        let interval = match part {
            // Half a million days more than a year's average on both sides.
            DatePart::Year => {
                Interval::new(date.facts.interval.low / 365 + 1800, date.facts.interval.high / 365 + 2100)
                    .around(Interval::new(1800, 2100))
            }
            DatePart::Month => Interval::new(1, 12),
            DatePart::Day => Interval::new(1, 31),
        };
        let facts = ValueFacts { value: ValueType::I64, nullable: date.facts.nullable, interval };
        Self::new(Node::DatePart(part, date), facts, true)
    }

    /// `value IN (list)`; no item is NULL.
    pub fn one_of(value: Self, mut list: Vec<Literal>) -> Result<Self, Reason> {
        list.sort_by(Literal::compare);
        list.dedup();
        if is_integer(value.facts.value) {
            list.retain(|item| matches!(item, Literal::Int(item) if value.facts.interval.has(*item)));
        }
        if list.is_empty() {
            return match value.facts.nullable {
                true => Err(Reason::new("a list has no value that can be met")),
                false => Ok(Self::bool(false)),
            };
        }
        let facts = ValueFacts::of(ValueType::Bool, value.facts.nullable);
        Self::new(Node::In(value, list), facts, true)
    }

    pub(crate) fn expect(&self, value: ValueType) -> Result<(), Reason> {
        match self.facts.value == value {
            true => Ok(()),
            false => Err(Reason::new(format!("an operand is {:?} instead of {value:?}", self.facts.value))),
        }
    }

    fn expect_integer(&self) -> Result<(), Reason> {
        match is_integer(self.facts.value) {
            true => Ok(()),
            false => Err(Reason::new(format!("an operand is {:?} instead of an integer", self.facts.value))),
        }
    }

    /// Both have one type, but for the width of integers.
    fn expect_like(&self, other: &Self) -> Result<(), Reason> {
        let (a, b) = (self.facts.value, other.facts.value);
        match a == b || (is_integer(a) && is_integer(b)) {
            true => Ok(()),
            false => Err(Reason::new(format!("operands are {a:?} and {b:?}"))),
        }
    }
}

/// The width of a result, its bounds, and whether it is proven to fit.
fn number(range: Range, exact: Option<Interval>, narrow: bool) -> Result<(ValueType, Interval, bool), Reason> {
    let limits = match range {
        Range::Float | Range::I128 => Interval::I128,
        Range::I64 => Interval::I64,
        Range::Bounds(bounds) => bounds,
    };
    let proven = exact.is_some_and(|exact| limits.contains(exact));
    let interval = exact.map_or(limits, |exact| exact.within(limits));
    // Only arithmetic in 8 bytes notices what leaves 8 bytes.
    let is_noticed = match range {
        Range::Bounds(_) => false,
        Range::I64 => narrow,
        Range::Float | Range::I128 => true,
    };
    if !is_noticed && !proven {
        return Err(Reason::new("a result may leave its type"));
    }
    // The operands of a 64-bit operation are 64-bit values, and its own check is the right one.
    let in_i64 = narrow && (range == Range::I64 || (proven && fits_i64(interval)));
    Ok((if in_i64 { ValueType::I64 } else { ValueType::I128 }, interval, proven))
}

impl Node {
    /// What it reads, in the order of the IR's operands.
    pub fn operands(&self) -> Vec<&Scalar> {
        match self {
            Self::Variable(_) | Self::Constant(_) => Vec::new(),
            Self::Arithmetic(_, a, b)
            | Self::Compare(_, a, b)
            | Self::And(a, b)
            | Self::Or(a, b)
            | Self::Coalesce(a, b) => vec![a, b],
            Self::Negate(a)
            | Self::Not(a)
            | Self::IsNull(a)
            | Self::Convert(a)
            | Self::DatePart(_, a)
            | Self::Length(a)
            | Self::Like(a, _)
            | Self::In(a, _)
            | Self::Substring { value: a, .. } => vec![a],
            Self::Case { branches, otherwise } => {
                let mut all: Vec<&Scalar> = branches.iter().flat_map(|(when, then)| [when, then]).collect();
                all.push(otherwise);
                all
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(low: i128, high: i128) -> Scalar {
        let interval = Interval::new(low, high);
        Scalar::variable(Variable(0), ValueFacts { value: width(interval), nullable: false, interval })
    }

    #[test]
    fn proven_results_are_computed_in_eight_bytes() {
        let price = column(0, 10_494_950);
        let one_minus = Scalar::arithmetic(Arithmetic::Subtract, Range::I128, Scalar::integer(100), column(0, 10));
        let revenue = one_minus.and_then(|m| Scalar::arithmetic(Arithmetic::Multiply, Range::I128, price, m));
        let revenue = revenue.expect("decimals");
        assert_eq!((revenue.facts().value, revenue.fits()), (ValueType::I64, true));
        assert_eq!(revenue.facts().interval, Interval::new(0, 1_049_495_000));
    }

    #[test]
    fn checks_are_those_of_the_type() {
        let any = || column(i128::from(i64::MIN), i128::from(i64::MAX));
        let sum = Scalar::arithmetic(Arithmetic::Add, Range::I64, any(), any()).expect("64 bits are checked");
        assert_eq!((sum.facts().value, sum.fits()), (ValueType::I64, false));
        let wide = Scalar::arithmetic(Arithmetic::Add, Range::I128, any(), any()).expect("decimals");
        assert_eq!((wide.facts().value, wide.fits()), (ValueType::I128, true));
        let narrow = Range::Bounds(Interval::new(i128::from(i32::MIN), i128::from(i32::MAX)));
        assert!(Scalar::arithmetic(Arithmetic::Add, narrow, any(), any()).is_err());
        assert!(Scalar::arithmetic(Arithmetic::Add, narrow, column(0, 9), column(0, 9)).is_ok());
    }

    #[test]
    fn division_by_what_may_be_zero_is_checked() {
        let by = |divisor| Scalar::arithmetic(Arithmetic::Divide, Range::I64, column(0, 9), divisor).expect("numbers");
        assert!(!by(column(0, 9)).fits() && by(column(0, 9)).fallible());
        assert!(by(column(1, 9)).fits());
    }

    #[test]
    fn null_branches_keep_the_bounds_of_others() {
        let case =
            Scalar::case(vec![(Scalar::bool(true), Scalar::null(ValueType::I64))], column(3, 4)).expect("a case");
        assert_eq!((case.facts().interval, case.facts().nullable), (Interval::new(3, 4), true));
        let case =
            Scalar::case(vec![(Scalar::bool(true), column(3, 4))], Scalar::null(ValueType::I64)).expect("a case");
        assert_eq!((case.facts().interval, case.facts().nullable), (Interval::new(3, 4), true));
    }

    #[test]
    fn equal_expressions_are_one() {
        let make =
            || Scalar::arithmetic(Arithmetic::Add, Range::I128, column(0, 9), Scalar::integer(1)).expect("a sum");
        assert_eq!(make(), make());
        assert_ne!(Scalar::null(ValueType::I64), Scalar::null(ValueType::Bool));
    }
}
