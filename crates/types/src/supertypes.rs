//! The types that values have in common where DataFusion would choose others; the rule that casts values to them, `coercion` in crate
//! `rules`, has the reasons.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, Field, Fields, TimeUnit};
use datafusion::logical_expr::type_coercion::binary::{comparison_coercion, type_union_coercion};

/// What values are brought to one type for.
#[derive(Debug, Clone, Copy)]
pub enum Purpose {
    /// To be compared for equality.
    Compare,
    /// To be compared by their order.
    Order,
    /// To stand in one column.
    Unite,
}

impl Purpose {
    /// The type that our rule decides.
    pub fn ours(self, left: &DataType, right: &DataType) -> Option<DataType> {
        let cut = match self {
            Self::Compare | Self::Order => None,
            Self::Unite => {
                cut_decimal(left, right).or_else(|| huge(left, right)).or_else(|| merged_structs(left, right))
            }
        };
        cut.or_else(|| our_common_type(left, right))
    }

    /// The type that DataFusion would choose.
    pub fn theirs(self, left: &DataType, right: &DataType) -> Option<DataType> {
        match self {
            Self::Compare | Self::Order => comparison_coercion(left, right),
            Self::Unite => type_union_coercion(left, right),
        }
    }
}

/// The struct with the fields of both, where their names are not the same ones, also inside of lists: values lack the others.
fn merged_structs(left: &DataType, right: &DataType) -> Option<DataType> {
    let (one, other) = match (left, right) {
        (DataType::List(one), DataType::List(other)) => {
            let element = merged_structs(one.data_type(), other.data_type())?;
            return Some(DataType::List(Arc::new(one.as_ref().clone().with_data_type(element).with_nullable(true))));
        }
        (DataType::Struct(one), DataType::Struct(other)) => (one, other),
        _ => return None,
    };
    let same = |fields: &Fields, name: &str| {
        fields.iter().find(|field| field.name().eq_ignore_ascii_case(name)).map(|field| field.data_type().clone())
    };
    let is_same = one.len() == other.len()
        && one.iter().zip(other).all(|(left, right)| left.name().eq_ignore_ascii_case(right.name()));
    if is_same {
        return None;
    }
    let mut fields = Vec::new();
    for field in one {
        let data_type = match same(other, field.name()) {
            Some(beside) => united_type(&[field.data_type().clone(), beside])?,
            None => field.data_type().clone(),
        };
        fields.push(Field::new(field.name(), data_type, true));
    }
    let more = other.iter().filter(|field| same(one, field.name()).is_none());
    fields.extend(more.map(|field| field.as_ref().clone().with_nullable(true)));
    Some(DataType::Struct(fields.into()))
}

/// HUGEINT, where a column is to hold UBIGINT and signed integers.
fn huge(left: &DataType, right: &DataType) -> Option<DataType> {
    let is_mixed = |one: &DataType, other: &DataType| *one == DataType::UInt64 && other.is_signed_integer();
    (is_mixed(left, right) || is_mixed(right, left)).then_some(DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0))
}

/// The decimal that has the digits before the point of both, and of those behind it as many as there is room for, where there is
/// not for all.
fn cut_decimal(left: &DataType, right: &DataType) -> Option<DataType> {
    let (DataType::Decimal128(precision, scale), DataType::Decimal128(other_precision, other_scale)) = (left, right)
    else {
        return None;
    };
    // HUGEINT, which the other's digits behind the point go beside.
    let is_hugeint = |data_type: &DataType| *data_type == DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0);
    if is_hugeint(left) || is_hugeint(right) {
        return None;
    }
    let digits = |precision: u8, scale: i8| i16::from(precision) - i16::from(scale);
    let whole = digits(*precision, *scale).max(digits(*other_precision, *other_scale));
    let room = i16::from(DECIMAL128_MAX_PRECISION) - whole;
    let is_cut = i16::from(*scale.max(other_scale)) > room;
    let scale = i8::try_from(room).ok().filter(|room| *room >= 0)?;
    is_cut.then_some(DataType::Decimal128(DECIMAL128_MAX_PRECISION, scale))
}

/// Whether BIGINT is what these have in common: neither has all values of the other.
pub fn is_mixed(left: &DataType, right: &DataType) -> bool {
    use DataType as T;
    let lacks = |signed: &T, unsigned: &T| match unsigned {
        T::UInt8 => *signed == T::Int8,
        T::UInt16 => matches!(signed, T::Int8 | T::Int16),
        _ => false,
    };
    lacks(left, right) || lacks(right, left)
}

/// The type of a column of values of these types.
pub fn united_type(types: &[DataType]) -> Option<DataType> {
    let (first, rest) = types.split_first()?;
    let unite = |common: DataType, next: &DataType| {
        Purpose::Unite.ours(&common, next).or_else(|| Purpose::Unite.theirs(&common, next))
    };
    rest.iter().try_fold(first.clone(), unite)
}

/// As [`united_type`], of numbers: a float if there is one.
pub fn united_number(types: &[DataType]) -> Option<DataType> {
    let floats: Vec<DataType> = types.iter().filter(|own| own.is_floating()).cloned().collect();
    united_type(if floats.is_empty() { types } else { &floats })
}

/// The common type of all, if our rule decides one of the steps to it.
pub fn common_type(types: &[DataType], purpose: Purpose) -> Option<DataType> {
    let (first, rest) = types.split_first()?;
    let mut common = first.clone();
    let mut is_ours = false;
    for next in rest {
        common = match purpose.ours(&common, next) {
            Some(ours) => {
                is_ours = true;
                ours
            }
            None => purpose.theirs(&common, next)?,
        };
    }
    // DataFusion takes values two by two, and looks for a decimal beside integers before it comes to the float.
    let is_float = common.is_floating() && types.len() > 2 && types.iter().any(|data_type| *data_type != common);
    (is_ours || is_float).then_some(common)
}

/// The common type of two, where our rule decides it.
pub fn our_common_type(left: &DataType, right: &DataType) -> Option<DataType> {
    ordered_common_type(left, right).or_else(|| ordered_common_type(right, left))
}

fn ordered_common_type(left: &DataType, right: &DataType) -> Option<DataType> {
    use DataType as T;
    Some(match (left, right) {
        (T::Timestamp(unit, zone), T::Date32) => T::Timestamp(*unit, zone.clone()),
        (T::Timestamp(unit, zone), T::Utf8 | T::LargeUtf8 | T::Utf8View) => {
            // Text may say microseconds, whatever the other side holds.
            let unit = if *unit == TimeUnit::Nanosecond { TimeUnit::Nanosecond } else { TimeUnit::Microsecond };
            T::Timestamp(unit, zone.clone())
        }
        (T::Float32 | T::Float64, T::Decimal32(..) | T::Decimal64(..) | T::Decimal128(..) | T::Decimal256(..)) => {
            left.clone()
        }
        (T::Time64(TimeUnit::Nanosecond), T::Time64(TimeUnit::Microsecond)) => left.clone(),
        (T::BinaryView, T::Binary | T::LargeBinary) => T::BinaryView,
        (number, T::Boolean) if number.is_numeric() => left.clone(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micros() -> DataType {
        DataType::Timestamp(TimeUnit::Microsecond, None)
    }

    #[test]
    fn floats_beside_decimals_stay_floats() {
        let types = [DataType::Int32, DataType::Decimal128(2, 1), DataType::Float64];
        assert_eq!(common_type(&types, Purpose::Compare), Some(DataType::Float64));
        assert_eq!(common_type(&types[..2], Purpose::Compare), None);
        let single = [DataType::Float32, DataType::Decimal128(2, 1)];
        assert_eq!(common_type(&single, Purpose::Compare), Some(DataType::Float32));
    }

    #[test]
    fn dates_and_text_take_the_unit_of_timestamps() {
        assert_eq!(common_type(&[micros(), DataType::Date32], Purpose::Compare), Some(micros()));
        assert_eq!(common_type(&[DataType::Utf8, micros()], Purpose::Compare), Some(micros()));
        assert_eq!(common_type(&[micros(), micros()], Purpose::Compare), None);
    }
}
