//! Tables of scalars as encoded blocks, and tests translated for them by the meaning of each row.

use crate::parameters::Predicate as DevicePredicate;
use forebay_base::{Error, PhysicalType, Result, Value};
use forebay_block::{
    Access, EncodeOptions, EncodedBlock, Encoding, Native, PlainColumn, PlainValues, Values, encode_block,
};
use forebay_pipeline::{Predicate, Scalar};

/// The bytes of an encoded block of some rows of a column.
pub(crate) fn encode(
    physical: PhysicalType,
    rows: &[Vec<Scalar>],
    column: usize,
    force: Option<Encoding>,
) -> Result<Vec<u8>> {
    let mut validity = vec![0u8; rows.len().div_ceil(8)];
    let (mut fixed, mut texts) = (Vec::new(), Vec::new());
    for (number, row) in rows.iter().enumerate() {
        if !row[column].is_null() {
            validity[number / 8] |= 1 << (number % 8);
        }
        match (&row[column], physical.width()) {
            (Scalar::Null, Some(width)) => fixed.extend(vec![0; width]),
            (Scalar::Bytes(text), None) => texts.push(&text[..]),
            (_, None) => texts.push(&[]),
            (Scalar::F64(value), Some(4)) => fixed.extend((*value as f32).to_le_bytes()),
            (Scalar::F64(value), Some(_)) => fixed.extend(value.to_le_bytes()),
            (value, Some(width)) => {
                let Some(Value::Int(number)) = value.to_value() else { return Err(Error::internal("no integer")) };
                fixed.extend(&number.to_le_bytes()[..width]);
            }
        }
    }
    let values = if physical == PhysicalType::Bytes { PlainValues::Bytes(&texts) } else { PlainValues::Fixed(&fixed) };
    let column = PlainColumn { physical, rows: rows.len(), validity: Some(&validity), values };
    let mut out = Vec::new();
    encode_block(&column, &EncodeOptions { force }, &mut out)?;
    Ok(out)
}

/// A test in the terms of a block: the lanes of the rows that pass, whichever they are.
pub(crate) fn translate(
    block: &EncodedBlock,
    test: &Predicate,
    rows: &[Vec<Scalar>],
    column: usize,
    salt: u64,
) -> Result<DevicePredicate> {
    match test {
        Predicate::IsNull => return Ok(DevicePredicate::Nulls),
        Predicate::IsNotNull => return Ok(DevicePredicate::Valid),
        Predicate::Never => return Ok(DevicePredicate::Never),
        _ => {}
    }
    let lane: Box<dyn Fn(usize) -> u64> = match block.access() {
        Access::AllNull => return Ok(DevicePredicate::Never),
        Access::Constant(value) => {
            return Ok(if test.passes(Some(&value.to_value())) {
                DevicePredicate::Valid
            } else {
                DevicePredicate::Never
            });
        }
        Access::FrameOfReference { codes, .. } | Access::Dictionary { codes, .. } => {
            Box::new(move |row| codes.get(row))
        }
        Access::Plain(Values::Fixed(values)) if values.width() <= 8 => {
            let physical = block.physical();
            Box::new(move |row| {
                forebay_block::with_native!(
                    physical,
                    T => key(values.native::<T>(row)),
                    bytes => 0
                )
            })
        }
        Access::Plain(_) => return Err(Error::unsupported("such plain values have no lanes")),
        Access::RunLength { ends, .. } => Box::new(move |row| ends.run_of(row) as u64),
    };
    let (mut passing, mut failing) = (Vec::new(), Vec::new());
    for (row, values) in rows.iter().enumerate().filter(|(_, values)| !values[column].is_null()) {
        let list = if test.passes(values[column].to_value().as_ref()) { &mut passing } else { &mut failing };
        list.push(lane(row));
    }
    for list in [&mut passing, &mut failing] {
        list.sort_unstable();
        list.dedup();
    }
    if let (Some(low), Some(high), 0) = (passing.first().copied(), passing.last().copied(), salt % 3) {
        let span = high - low;
        if span < 4096 {
            let mut words = vec![0u64; span as usize / 64 + 1];
            passing.iter().for_each(|lane| words[((lane - low) / 64) as usize] |= 1 << ((lane - low) % 64));
            return Ok(DevicePredicate::Members { low, span, words });
        }
    }
    let negated = salt % 3 == 1;
    let ranges: Vec<(u64, u64)> =
        if negated { failing } else { passing }.into_iter().map(|lane| (lane, lane)).collect();
    Ok(match (ranges.is_empty(), negated) {
        (true, true) => DevicePredicate::Valid,
        (true, false) => DevicePredicate::Never,
        _ => DevicePredicate::Ranges { ranges, negated },
    })
}

/// A number as a lane.
fn key<T: Native>(value: T) -> u64 {
    let key: i128 = value.key().into();
    key as u64
}
