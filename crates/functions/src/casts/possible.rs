//! Which types have casts to each other. Arrow has some that SQL does not: a date is no number of days, and a value no list.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use forebay_syntax::types::shown_type;

use crate::function::refused;

/// An error where no value of `source` may become one of `target`.
pub fn check(source: &DataType, target: &DataType) -> Result<()> {
    match is_possible(source, target) {
        true => Ok(()),
        false => Err(refused(
            format!("there is no cast from {} to {}", shown_type(source), shown_type(target)),
            "Compare and combine values of one type; functions such as epoch() and make_date() make one of another",
        )),
    }
}

fn is_possible(source: &DataType, target: &DataType) -> bool {
    let is_number = |data_type: &DataType| data_type.is_numeric() || matches!(data_type, DataType::Boolean);
    let is_moment = |data_type: &DataType| data_type.is_temporal();
    match (source, target) {
        (number, moment) if is_number(number) && is_moment(moment) => false,
        (moment, number) if is_moment(moment) && is_number(number) => false,
        (DataType::Timestamp(_, Some(_)), DataType::Time64(_)) => false,
        (one, DataType::List(_)) => !is_number(one) && !is_moment(one) && !one.is_binary(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_no_numbers_and_values_no_lists() {
        let list = DataType::new_list(DataType::Int32, true);
        for (source, target) in
            [(DataType::Int32, DataType::Date32), (DataType::Date32, DataType::Int64), (DataType::Int32, list.clone())]
        {
            assert!(check(&source, &target).is_err(), "{source} {target}");
        }
        for (source, target) in
            [(DataType::Utf8View, list), (DataType::Null, DataType::Date32), (DataType::Boolean, DataType::Int32)]
        {
            assert!(check(&source, &target).is_ok(), "{source} {target}");
        }
    }
}
