//! What is computed of texts.

use forebay_pipeline::ir::ValueType;

use crate::facts::ValueFacts;
use crate::reason::Reason;
use crate::scalar::{Node, Scalar};
use forebay_pipeline::interval::Interval;

impl Scalar {
    /// Number of characters of a text.
    pub fn length(text: Self) -> Result<Self, Reason> {
        text.expect(ValueType::Bytes)?;
        let interval = Interval::new(0, i32::MAX.into());
        let facts = ValueFacts { value: ValueType::I64, nullable: text.facts().nullable, interval };
        Self::new(Node::Length(text), facts, true)
    }

    /// `value LIKE pattern`.
    pub fn like(value: Self, pattern: &[u8]) -> Result<Self, Reason> {
        value.expect(ValueType::Bytes)?;
        let facts = ValueFacts::of(ValueType::Bool, value.facts().nullable);
        Self::new(Node::Like(value, pattern.into()), facts, true)
    }

    /// Part of a text.
    pub fn substring(value: Self, start: i64, length: Option<i64>) -> Result<Self, Reason> {
        value.expect(ValueType::Bytes)?;
        let facts = ValueFacts::of(ValueType::Bytes, value.facts().nullable);
        Self::new(Node::Substring { value, start, length }, facts, true)
    }
}
