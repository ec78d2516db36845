//! Scalars and aggregates as people read them in EXPLAIN.

use forebay_pipeline::ir::{AggregateFunction, Arithmetic, Comparison, DatePart, StateId};

use crate::carver::Carver;
use crate::facts::Literal;
use crate::relation::{Call, Join, JoinKind};
use crate::scalar::{Node, Scalar};

/// Values of a list that are shown.
const SHOWN_VALUES: usize = 5;

/// A scalar as SQL-like text. Decimals are shown without their points.
pub fn shown(carver: &Carver<'_>, scalar: &Scalar) -> String {
    let of = |scalar: &Scalar| shown(carver, scalar);
    match scalar.node() {
        Node::Variable(variable) => carver.info(*variable).name.clone(),
        Node::Constant(literal) => constant(literal),
        Node::Arithmetic(op, a, b) => {
            let sign = match op {
                Arithmetic::Add => "+",
                Arithmetic::Subtract => "-",
                Arithmetic::Multiply => "*",
                Arithmetic::Divide | Arithmetic::DivideRounded => "/",
                Arithmetic::Remainder => "%",
            };
            format!("({} {sign} {})", of(a), of(b))
        }
        Node::Negate(a) => format!("-{}", of(a)),
        Node::Compare(op, a, b) => {
            let sign = match op {
                Comparison::Equal => "=",
                Comparison::NotEqual => "<>",
                Comparison::Less => "<",
                Comparison::LessOrEqual => "<=",
                Comparison::Greater => ">",
                Comparison::GreaterOrEqual => ">=",
            };
            format!("{} {sign} {}", of(a), of(b))
        }
        Node::And(a, b) => format!("{} AND {}", of(a), of(b)),
        Node::Or(a, b) => format!("({} OR {})", of(a), of(b)),
        Node::Not(a) => format!("NOT ({})", of(a)),
        Node::IsNull(a) => format!("{} IS NULL", of(a)),
        Node::Case { branches, otherwise } => {
            let branches: Vec<String> =
                branches.iter().map(|(when, then)| format!("WHEN {} THEN {}", of(when), of(then))).collect();
            format!("CASE {} ELSE {} END", branches.join(" "), of(otherwise))
        }
        Node::Coalesce(a, b) => format!("COALESCE({}, {})", of(a), of(b)),
        Node::Convert(a) => of(a),
        Node::DatePart(part, a) => {
            let name = match part {
                DatePart::Year => "year",
                DatePart::Month => "month",
                DatePart::Day => "day",
            };
            format!("{name}({})", of(a))
        }
        Node::Length(a) => format!("length({})", of(a)),
        Node::Like(a, pattern) => format!("{} LIKE '{}'", of(a), String::from_utf8_lossy(pattern)),
        Node::In(a, values) => {
            let mut texts: Vec<String> = values.iter().take(SHOWN_VALUES).map(constant).collect();
            if values.len() > SHOWN_VALUES {
                texts.push(format!("… {} more", values.len() - SHOWN_VALUES));
            }
            format!("{} IN ({})", of(a), texts.join(", "))
        }
        Node::Substring { value, start, length } => match length {
            Some(length) => format!("substring({}, {start}, {length})", of(value)),
            None => format!("substring({}, {start})", of(value)),
        },
    }
}

/// Scalars beside each other.
pub fn list<'a>(carver: &Carver<'_>, scalars: impl IntoIterator<Item = &'a Scalar>) -> String {
    scalars.into_iter().map(|scalar| shown(carver, scalar)).collect::<Vec<_>>().join(", ")
}

/// An aggregate.
pub fn call(carver: &Carver<'_>, call: &Call) -> String {
    let name = match call.function {
        AggregateFunction::CountRows => return "count(*)".to_owned(),
        AggregateFunction::Count => "count",
        AggregateFunction::Sum | AggregateFunction::SumWide | AggregateFunction::SumFitting => "sum",
        AggregateFunction::Min => "min",
        AggregateFunction::Max => "max",
        AggregateFunction::First => "first",
    };
    let argument = call.argument.as_ref().map(|argument| shown(carver, argument)).unwrap_or_default();
    format!("{name}({argument})")
}

fn constant(literal: &Literal) -> String {
    match literal {
        Literal::Null => "NULL".to_owned(),
        Literal::Bool(value) => value.to_string(),
        Literal::Int(value) => value.to_string(),
        Literal::Float(bits) => f64::from_bits(*bits).to_string(),
        Literal::Bytes(bytes) => format!("'{}'", String::from_utf8_lossy(bytes)),
    }
}

/// How people read a state's number.
pub fn state_name(state: StateId) -> String {
    format!("#{}", state.0)
}

/// A join as people read it.
pub fn join_text(carver: &Carver<'_>, join: &Join, name: &str, state: StateId) -> String {
    let keys: Vec<String> =
        join.keys.iter().map(|(probe, build)| format!("{} = {}", shown(carver, probe), shown(carver, build))).collect();
    let mut text = format!("{name} {} on {}", state_name(state), keys.join(" AND "));
    if !matches!(join.kind, JoinKind::Inner) {
        for residual in &join.residual {
            text += &format!(" AND {}", shown(carver, residual));
        }
    }
    text
}
