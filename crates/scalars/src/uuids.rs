//! What a UUID tells of itself (RFC 9562).

use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::datatypes::{DataType, TimeUnit, TimestampMicrosecondType, UInt32Type};
use datafusion::common::Result;
use forebay_functions::function::{Call, Definition, Shape, TEXT, is_text, refused};

pub(crate) const DEFINITIONS: &[Definition] = &[
    Definition { names: &["uuid_extract_version"], shape: |types| shape(types, DataType::UInt32), compute: versions },
    Definition {
        names: &["uuid_extract_timestamp"],
        shape: |types| shape(types, DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into()))),
        compute: moments,
    },
];

/// The version whose first digits are milliseconds since 1970.
const ORDERED: u32 = 7;

fn shape(types: &[DataType], result: DataType) -> Option<Shape> {
    (types.len() == 1 && is_text(&types[0])).then(|| Shape { arguments: vec![TEXT], result })
}

/// The number that a UUID is.
fn number(text: &str) -> Result<u128> {
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    match u128::from_str_radix(&digits, 16) {
        Ok(number) if digits.len() == 32 => Ok(number),
        _ => Err(refused(format!("{text:?} is no UUID"), "A UUID has 32 hexadecimal digits")),
    }
}

fn version(uuid: u128) -> u32 {
    (uuid >> 76) as u32 & 15
}

fn versions(call: &Call<'_>) -> Result<ArrayRef> {
    let texts = call.texts(0);
    call.values_of::<UInt32Type>(|row| texts.is_valid(row).then(|| number(texts.value(row)).map(version)).transpose())
}

fn moments(call: &Call<'_>) -> Result<ArrayRef> {
    let texts = call.texts(0);
    let moment = |text: &str| {
        let uuid = number(text)?;
        match version(uuid) {
            ORDERED => Ok((uuid >> 80) as i64 * 1000),
            other => Err(refused(format!("a UUID of version {other} has no timestamp"), "Those of version 7 have one")),
        }
    };
    call.values_of::<TimestampMicrosecondType>(|row| texts.is_valid(row).then(|| moment(texts.value(row))).transpose())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_digits() {
        assert_eq!(number("47183823-2574-4bfd-b411-99ed177d3e43").map(version).ok(), Some(4));
        assert_eq!(number("{01A2159F7AAB7386AB37F3E1F50C3104}").map(version).ok(), Some(7));
        assert!(number("4718").is_err());
    }
}
