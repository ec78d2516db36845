//! The digits that sums and products of decimals have in DuckDB. Ours have room for more, so that none is lost, and where values of
//! several types come together in one column, that room must not take the place of digits behind the point that another value has.

use datafusion::arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType};
use datafusion::common::DFSchema;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use forebay_types::supertypes::united_type;

use crate::operand_types::{digits, type_of};

/// Digits that decimals of at most as many keep in sums and products.
const NARROW_DIGITS: u32 = 18;

/// Operators within each other that are looked into.
const OPERATORS_WITHIN: usize = 32;

/// The type that values of these types are brought to, which is `common`, or one of as many digits of which more are behind the point:
/// as many as there would be if sums and products were of DuckDB's types. `values` are the expressions, as far as they are known, each
/// with the schema of its columns.
pub(crate) fn with_all_digits<'a>(
    common: DataType,
    types: &[DataType],
    values: impl Iterator<Item = Option<(&'a Expr, &'a DFSchema)>>,
) -> DataType {
    let DataType::Decimal128(DECIMAL128_MAX_PRECISION, scale) = common else { return common };
    let is_longer = |own: &DataType| matches!(own, DataType::Decimal128(_, other) if *other > scale);
    if !types.iter().any(is_longer) {
        return common;
    }
    let declared = values.zip(types).map(|(value, own)| match (value, own) {
        (Some((value, schema)), DataType::Decimal128(..)) => {
            declared_type(value, schema).unwrap_or_else(|| own.clone())
        }
        _ => own.clone(),
    });
    match united_type(&declared.collect::<Vec<_>>()) {
        Some(DataType::Decimal128(_, longer)) if longer > scale => {
            DataType::Decimal128(DECIMAL128_MAX_PRECISION, longer)
        }
        _ => common,
    }
}

fn declared_type(value: &Expr, schema: &DFSchema) -> Option<DataType> {
    let (whole, scale) = declared_digits(value, schema, OPERATORS_WITHIN)?;
    Some(DataType::Decimal128(u8::try_from(whole + scale).ok()?, i8::try_from(scale).ok()?))
}

/// Digits before and behind the point.
fn declared_digits(value: &Expr, schema: &DFSchema, most: usize) -> Option<(u32, u32)> {
    let BinaryExpr { left, op, right } = match value {
        Expr::BinaryExpr(binary) => binary,
        Expr::Alias(alias) => return declared_digits(&alias.expr, schema, most),
        _ => return digits(value, &type_of(value, schema)?),
    };
    let most = most.checked_sub(1)?;
    let (left, right) = (declared_digits(left, schema, most)?, declared_digits(right, schema, most)?);
    let (scale, width) = match op {
        Operator::Multiply => (left.1 + right.1, left.0 + left.1 + right.0 + right.1),
        Operator::Plus | Operator::Minus => {
            let scale = left.1.max(right.1);
            (scale, left.0.max(right.0) + 1 + scale)
        }
        _ => return None,
    };
    let is_narrow = [left.0 + left.1, right.0 + right.1, scale].into_iter().all(|digits| digits <= NARROW_DIGITS);
    let width = width.min(if is_narrow { NARROW_DIGITS } else { DECIMAL128_MAX_PRECISION.into() });
    Some((width.saturating_sub(scale), scale))
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::{Field, Schema};
    use datafusion::prelude::col;

    use super::*;

    #[test]
    fn room_for_digits_of_a_product_takes_none_behind_the_point() {
        let decimal = DataType::Decimal128;
        let columns = [("a", decimal(18, 0)), ("b", decimal(4, 4)), ("c", decimal(36, 0))];
        let fields = columns.map(|(name, own)| Field::new(name, own, true));
        let schema = DFSchema::try_from(Schema::new(fields.to_vec())).expect("a schema");
        let common = |values: [Expr; 2], types: [DataType; 2]| {
            let common = united_type(&types).expect("decimals have one");
            with_all_digits(common, &types, values.iter().map(|value| Some((value, &schema))))
        };
        let product = common([col("b"), col("a") * col("a")], [decimal(4, 4), decimal(37, 0)]);
        assert_eq!(product, decimal(38, 4), "18 digits in DuckDB");
        let column = common([col("b"), col("c")], [decimal(4, 4), decimal(36, 0)]);
        assert_eq!(column, decimal(38, 2), "36 digits in DuckDB, too");
    }
}
