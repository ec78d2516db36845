//! What operations read, and what aggregates are made of.

use crate::ir::{AggregateFunction, Op, Register};

impl Op {
    /// The registers that it reads, in order.
    pub fn operands(&self) -> Vec<Register> {
        match self {
            Self::Constant(_) => vec![],
            Self::Arithmetic(_, a, b)
            | Self::Compare(_, a, b)
            | Self::And(a, b)
            | Self::Or(a, b)
            | Self::Coalesce(a, b) => vec![*a, *b],
            Self::Negate(a) | Self::Not(a) | Self::IsNull(a) => vec![*a],
            Self::Convert(a) | Self::DatePart(_, a) | Self::Length(a) => vec![*a],
            Self::Like { value, .. } | Self::In { value, .. } | Self::Substring { value, .. } => vec![*value],
            Self::Select { condition, then, otherwise } => vec![*condition, *then, *otherwise],
        }
    }

    /// The places of the registers that it reads, in the order of [`Op::operands`].
    pub fn operands_mut(&mut self) -> Vec<&mut Register> {
        match self {
            Self::Constant(_) => vec![],
            Self::Arithmetic(_, a, b)
            | Self::Compare(_, a, b)
            | Self::And(a, b)
            | Self::Or(a, b)
            | Self::Coalesce(a, b) => vec![a, b],
            Self::Negate(a) | Self::Not(a) | Self::IsNull(a) => vec![a],
            Self::Convert(a) | Self::DatePart(_, a) | Self::Length(a) => vec![a],
            Self::Like { value, .. } | Self::In { value, .. } | Self::Substring { value, .. } => vec![value],
            Self::Select { condition, then, otherwise } => vec![condition, then, otherwise],
        }
    }
}

impl AggregateFunction {
    /// The aggregate over the results of finer groups that gives what this one gives over their rows, but for counts over no group,
    /// which are NULL then; `None` where results do not tell.
    pub fn over_groups(self) -> Option<Self> {
        match self {
            Self::CountRows | Self::Count | Self::SumFitting => Some(Self::SumFitting),
            Self::Sum | Self::SumWide => Some(Self::Sum),
            Self::Min | Self::Max | Self::First => Some(self),
        }
    }
}
