//! Texts, blobs and numbers by their digits in other bases; texts as addresses write them.

use std::fmt::Write;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BinaryViewBuilder};
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Int64Type, UInt64Type};
use datafusion::common::Result;

use crate::function::{Call, Definition, Shape, TEXT, is_integer, is_text, refused};

pub(crate) const DEFINITIONS: &[Definition] = &[
    Definition {
        names: &["hex", "to_hex"],
        shape: digits_shape,
        compute: |call| digits(call, hex_bytes, |value| format!("{value:X}")),
    },
    Definition {
        names: &["bin", "to_binary"],
        shape: digits_shape,
        compute: |call| digits(call, binary_bytes, |value| format!("{value:b}")),
    },
    Definition {
        names: &["unhex", "from_hex"],
        shape: blob_shape,
        compute: |call| blobs(call, |text| read_digits(text, 2, 16)),
    },
    Definition {
        names: &["unbin", "from_binary"],
        shape: blob_shape,
        compute: |call| blobs(call, |text| read_digits(text, 8, 2)),
    },
    Definition {
        names: &["base64", "to_base64"],
        shape: |types| bytes_shape(types).or_else(|| text_shape(types)),
        compute: |call| match *call.arguments[0].data_type() == TEXT {
            true => texts(call, |text| Ok(base64(text.as_bytes()))),
            false => texts_of_blobs(call, |blob| Ok(base64(blob))),
        },
    },
    Definition { names: &["from_base64"], shape: blob_shape, compute: |call| blobs(call, from_base64) },
    Definition {
        names: &["blob_of_text"],
        shape: blob_shape,
        compute: |call| blobs(call, |text| Ok(text.as_bytes().to_vec())),
    },
    Definition { names: &["text_of_bytes"], shape: bytes_shape, compute: |call| texts_of_blobs(call, decoded) },
    Definition { names: &["to_base"], shape: base_shape, compute: in_base },
    Definition { names: &["url_encode"], shape: text_shape, compute: |call| texts(call, |text| Ok(url_encoded(text))) },
    Definition { names: &["url_decode"], shape: text_shape, compute: |call| texts(call, url_decoded) },
];

const BLOB: DataType = DataType::BinaryView;
const DIGITS: &[u8; 36] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn is_blob(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
}

/// Of a text or blob, or of a number.
fn digits_shape(types: &[DataType]) -> Option<Shape> {
    let [value] = types else { return None };
    let argument = match value {
        _ if is_text(value) => TEXT,
        _ if is_blob(value) => BLOB,
        DataType::UInt64 => DataType::UInt64,
        DataType::Decimal128(38, 0) => DataType::Decimal128(38, 0),
        _ if value.is_integer() => DataType::Int64,
        _ => return None,
    };
    Some(Shape { arguments: vec![argument], result: TEXT })
}

fn digits(call: &Call<'_>, of_bytes: fn(&[u8]) -> String, of_number: fn(u128) -> String) -> Result<ArrayRef> {
    let array = &call.arguments[0];
    let number = |row: usize| match array.data_type() {
        DataType::Int64 => u128::from(array.as_primitive::<Int64Type>().value(row) as u64),
        DataType::UInt64 => u128::from(array.as_primitive::<UInt64Type>().value(row)),
        _ => array.as_primitive::<Decimal128Type>().value(row) as u128,
    };
    call.texts_of(|row| {
        Ok(array.is_valid(row).then(|| match array.data_type() {
            DataType::Utf8View => of_bytes(array.as_string_view().value(row).as_bytes()),
            DataType::BinaryView => of_bytes(array.as_binary_view().value(row)),
            _ => of_number(number(row)),
        }))
    })
}

fn hex_bytes(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        let _ = write!(out, "{byte:02X}");
        out
    })
}

fn binary_bytes(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        let _ = write!(out, "{byte:08b}");
        out
    })
}

fn blob_shape(types: &[DataType]) -> Option<Shape> {
    (types.len() == 1 && is_text(&types[0])).then(|| Shape { arguments: vec![TEXT], result: BLOB })
}

fn bytes_shape(types: &[DataType]) -> Option<Shape> {
    let [value] = types else { return None };
    (is_blob(value) || value.is_null()).then(|| Shape { arguments: vec![BLOB], result: TEXT })
}

fn text_shape(types: &[DataType]) -> Option<Shape> {
    (types.len() == 1 && is_text(&types[0])).then(|| Shape { arguments: vec![TEXT], result: TEXT })
}

fn blobs(call: &Call<'_>, read: fn(&str) -> Result<Vec<u8>>) -> Result<ArrayRef> {
    let mut out = BinaryViewBuilder::with_capacity(call.rows);
    for text in call.texts(0) {
        out.append_option(text.map(read).transpose()?);
    }
    Ok(Arc::new(out.finish()))
}

fn texts(call: &Call<'_>, map: fn(&str) -> Result<String>) -> Result<ArrayRef> {
    let texts = call.texts(0);
    call.texts_of(|row| texts.is_valid(row).then(|| map(texts.value(row))).transpose())
}

fn texts_of_blobs(call: &Call<'_>, map: fn(&[u8]) -> Result<String>) -> Result<ArrayRef> {
    let blobs = call.arguments[0].as_binary_view();
    call.texts_of(|row| blobs.is_valid(row).then(|| map(blobs.value(row))).transpose())
}

fn decoded(blob: &[u8]) -> Result<String> {
    String::from_utf8(blob.to_vec()).map_err(|_| refused("a blob is no text in UTF-8", "Use hex(x) or base64(x)"))
}

/// Bytes of `width` digits each; the first one may have fewer.
fn read_digits(text: &str, width: usize, base: u32) -> Result<Vec<u8>> {
    let digit = |character: char| {
        character.to_digit(base).ok_or_else(|| {
            refused(format!("{character:?} is no digit of base {base}"), "Use 0 to 9 and A to F, or 0 and 1")
        })
    };
    let digits = text.chars().map(digit).collect::<Result<Vec<u32>>>()?;
    let (first, rest) = digits.split_at(digits.len() % width);
    let byte = |digits: &[u32]| digits.iter().fold(0, |value, digit| value * base + digit) as u8;
    let head = (!first.is_empty()).then(|| byte(first));
    Ok(head.into_iter().chain(rest.chunks(width).map(byte)).collect())
}

fn base64(blob: &[u8]) -> String {
    let mut out = String::with_capacity(blob.len().div_ceil(3) * 4);
    for three in blob.chunks(3) {
        let bits = three.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for place in 0..4 {
            match place <= three.len() {
                true => out.push(char::from(BASE64[(bits >> (18 - 6 * place) & 63) as usize])),
                false => out.push('='),
            }
        }
    }
    out
}

fn from_base64(text: &str) -> Result<Vec<u8>> {
    let refuse =
        |reason: String| refused(format!("cannot read {text:?} as base64: {reason}"), "It is made by to_base64");
    if !text.len().is_multiple_of(4) {
        return Err(refuse("its length is no multiple of 4".to_owned()));
    }
    let padding = text.len() - text.trim_end_matches('=').len();
    if padding > 2 {
        return Err(refuse("it ends with more than two =".to_owned()));
    }
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    for four in text.as_bytes().chunks(4) {
        let mut bits = 0_u32;
        for byte in four {
            let value = match BASE64.iter().position(|digit| digit == byte) {
                Some(value) => value as u32,
                None if *byte == b'=' => 0,
                None => return Err(refuse(format!("{:?} is none of its characters", char::from(*byte)))),
            };
            bits = bits << 6 | value;
        }
        out.extend([(bits >> 16) as u8, (bits >> 8) as u8, bits as u8]);
    }
    if text.trim_end_matches('=').contains('=') {
        return Err(refuse("there is a = before its end".to_owned()));
    }
    out.truncate(out.len() - padding);
    Ok(out)
}

fn base_shape(types: &[DataType]) -> Option<Shape> {
    let fits = matches!(types.len(), 2 | 3) && types.iter().all(is_integer);
    fits.then(|| Shape { arguments: vec![DataType::Int64; types.len()], result: TEXT })
}

fn in_base(call: &Call<'_>) -> Result<ArrayRef> {
    let (numbers, bases) = (call.integers(0), call.integers(1));
    let lengths = call.arguments.get(2).map(|_| call.integers(2));
    call.texts_of(|row| {
        if !numbers.is_valid(row) || !bases.is_valid(row) || lengths.is_some_and(|lengths| lengths.is_null(row)) {
            return Ok(None);
        }
        let (mut number, base) = (numbers.value(row), bases.value(row));
        let length = lengths.map_or(0, |lengths| lengths.value(row));
        if number < 0 || !(2..=36).contains(&base) || !(0..=64).contains(&length) {
            return Err(refused(
                format!("to_base({number}, {base}, {length}) does not exist"),
                "The number is 0 or more, the base 2 to 36, the length 0 to 64",
            ));
        }
        let mut digits = Vec::new();
        while number > 0 || digits.is_empty() {
            digits.push(char::from(DIGITS[(number % base) as usize]));
            number /= base;
        }
        digits.resize(digits.len().max(length as usize), '0');
        Ok(Some(digits.into_iter().rev().collect()))
    })
}

fn url_encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            true => out.push(char::from(byte)),
            false => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

fn url_decoded(text: &str) -> Result<String> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let two = bytes.get(at + 1..at + 3).filter(|two| bytes[at] == b'%' && two.iter().all(u8::is_ascii_hexdigit));
        let byte = two.and_then(|two| u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok());
        out.push(byte.unwrap_or(bytes[at]));
        at += if byte.is_some() { 3 } else { 1 };
    }
    String::from_utf8(out)
        .map_err(|_| refused(format!("{text:?} does not stand for a text in UTF-8"), "It is made by url_encode"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        for text in ["", "a", "ab", "abc", "äöü🦆", "100% & more"] {
            let bytes = text.as_bytes().to_vec();
            assert_eq!(from_base64(&base64(&bytes)).expect("made so"), bytes);
            assert_eq!(read_digits(&hex_bytes(&bytes), 2, 16).expect("made so"), bytes);
            assert_eq!(read_digits(&binary_bytes(&bytes), 8, 2).expect("made so"), bytes);
            assert_eq!(url_decoded(&url_encoded(text)).expect("made so"), text);
        }
        assert_eq!(
            (base64(b"A"), hex_bytes(b"\xff0"), read_digits("101010101", 8, 2).expect("bits")),
            ("QQ==".into(), "FF30".into(), vec![1, 85])
        );
        for text in ["QQ", "!!!!", "=QQ=", "Q==="] {
            assert!(from_base64(text).is_err(), "{text}");
        }
        assert!(read_digits("g1", 2, 16).is_err() && url_decoded("%C3").is_err());
        assert_eq!(url_decoded("%zz+").expect("a text"), "%zz+");
    }
}
