//! What is computed of texts.

use forebay_pipeline::ir::ValueType;

use crate::interval::Interval;
use crate::reason::Reason;
use crate::scalar::{Node, Scalar};
use crate::shape::Shape;

impl Scalar {
    /// Number of characters of a text.
    pub fn length(text: Self) -> Result<Self, Reason> {
        text.expect(ValueType::Bytes)?;
        let interval = Interval::new(0, i32::MAX.into());
        let shape = Shape { value: ValueType::I64, nullable: text.shape().nullable, interval };
        Self::new(Node::Length(text), shape, true)
    }

    /// `value LIKE pattern`.
    pub fn like(value: Self, pattern: &[u8]) -> Result<Self, Reason> {
        value.expect(ValueType::Bytes)?;
        let shape = Shape::of(ValueType::Bool, value.shape().nullable);
        Self::new(Node::Like(value, pattern.into()), shape, true)
    }

    /// Part of a text.
    pub fn substring(value: Self, start: i64, length: Option<i64>) -> Result<Self, Reason> {
        value.expect(ValueType::Bytes)?;
        let shape = Shape::of(ValueType::Bytes, value.shape().nullable);
        Self::new(Node::Substring { value, start, length }, shape, true)
    }
}
