//! Tests of a scan as a device takes them.

use forebay_base::{Result, Value};
use forebay_block::{Access, EncodedBlock, Values};
use forebay_cpu::{BlockPredicate, WideLanes, translate};
use forebay_gpu::parameters::Predicate as DevicePredicate;
use forebay_pipeline::Predicate;

use super::unsupported;
use crate::SimdLevel;

/// Ranges that a kernel compares with, one after the other.
const RANGE_LIMIT: usize = 256;

/// A test in the terms of one block; an error says why a device cannot do it.
pub(super) fn device_test(block: &EncodedBlock<'_>, test: &Predicate, simd: SimdLevel) -> Result<DevicePredicate> {
    let translated = translate(block, test, simd);
    if let Some(words) = translated.run_bits(block, simd) {
        return Ok(members(words));
    }
    let lanes = match &translated {
        BlockPredicate::Never => return Ok(DevicePredicate::Never),
        BlockPredicate::Always => return Ok(DevicePredicate::Always),
        BlockPredicate::NotNull => return Ok(DevicePredicate::Valid),
        BlockPredicate::IsNull => return Ok(DevicePredicate::Nulls),
        BlockPredicate::Strings(_) => return Err(unsupported("strings without a dictionary are tested")),
        BlockPredicate::Like(_) => return by_dictionary(block, test),
        BlockPredicate::Lanes(lanes) => lanes.clone(),
    };
    if let Access::Plain(Values::Fixed(values)) = block.access()
        && values.width() > 8
    {
        return Err(unsupported("numbers of 16 bytes are tested that are not encoded"));
    }
    match lanes.widened() {
        (WideLanes::Ranges(ranges), _) if ranges.len() > RANGE_LIMIT => {
            Err(unsupported(format!("a test of {} ranges, more than {RANGE_LIMIT}", ranges.len())))
        }
        (WideLanes::Ranges(ranges), negated) => Ok(DevicePredicate::Ranges { ranges, negated }),
        (WideLanes::Bits { .. }, true) => Err(unsupported("a test of what is in none of many ranges")),
        (WideLanes::Bits { low, words }, false) => {
            Ok(DevicePredicate::Members { low, span: words.len() as u64 * 64 - 1, words: words.to_vec() })
        }
    }
}

/// A test that every string of a block's dictionary is put to.
fn by_dictionary(block: &EncodedBlock<'_>, test: &Predicate) -> Result<DevicePredicate> {
    let Access::Dictionary { values: Values::Strings(strings), .. } = block.access() else {
        return Err(unsupported("strings without a dictionary are tested"));
    };
    let mut words = vec![0u64; strings.len().div_ceil(64)];
    for code in (0..strings.len()).filter(|code| test.passes(Some(&Value::Bytes(strings.get(*code).to_vec())))) {
        words[code / 64] |= 1 << (code % 64);
    }
    Ok(members(words))
}

/// A test that the entries of a dictionary, or the runs, pass whose bit is set.
fn members(mut words: Vec<u64>) -> DevicePredicate {
    words.resize(words.len().max(1), 0);
    DevicePredicate::Members { low: 0, span: words.len() as u64 * 64 - 1, words }
}

#[cfg(test)]
mod tests {
    use std::ops::Bound;
    use std::sync::Arc;

    use forebay_base::PhysicalType;
    use forebay_block::{Codes, EncodeOptions, Encoding, PlainColumn, PlainValues, encode_block, with_native};

    use super::*;

    fn lane(block: &EncodedBlock<'_>, row: usize) -> u64 {
        let of = |codes: Codes<'_>| codes.get(row);
        match block.access() {
            Access::FrameOfReference { codes, .. } | Access::Dictionary { codes, .. } => of(codes),
            Access::Plain(Values::Fixed(values)) => {
                fn key<T: forebay_block::Native>(value: T) -> u64 {
                    let key: i128 = value.key().into();
                    key as u64
                }
                with_native!(block.physical(), T => key(values.native::<T>(row)), bytes => 0)
            }
            Access::RunLength { ends, .. } => ends.run_of(row) as u64,
            _ => 0,
        }
    }

    fn passes(test: &DevicePredicate, lane: u64) -> bool {
        match test {
            DevicePredicate::Never | DevicePredicate::Nulls => false,
            DevicePredicate::Always | DevicePredicate::Valid => true,
            DevicePredicate::Ranges { ranges, negated } => {
                ranges.iter().any(|(low, high)| lane.wrapping_sub(*low) <= high.wrapping_sub(*low)) != *negated
            }
            DevicePredicate::Members { low, span, words } => {
                let at = lane.wrapping_sub(*low);
                at <= *span && words[(at / 64) as usize] >> (at % 64) & 1 == 1
            }
        }
    }

    /// Every test in every encoding, whatever its lanes are, passes the rows that it means.
    #[test]
    fn a_device_tests_lanes_as_the_test_means_values() {
        let values: Vec<i64> =
            (-300..300).flat_map(|n| [n, n * 1_000_003, n << 40]).chain([i64::MIN, i64::MAX]).collect();
        let bound = |value: i64| Bound::Included(Value::Int(value.into()));
        let far: Vec<Value> = (0..40).map(|n| Value::Int(i128::from(n) * 12_000_000_007)).collect();
        let near: Vec<Value> = (-20..40).map(|n| Value::Int(i128::from(n) * 3)).collect();
        let tests = [
            Predicate::Range { low: bound(-5), high: bound(1_000_003) },
            Predicate::Range { low: Bound::Unbounded, high: bound(-1) },
            Predicate::NotEqual(Value::Int(7)),
            Predicate::one_of(near),
            Predicate::one_of(far),
            Predicate::Keys(Arc::new(
                forebay_pipeline::KeySet::new((-50..90).step_by(7).map(i128::from)).expect("some"),
            )),
            Predicate::Keys(Arc::new(forebay_pipeline::KeySet::new([250i128, 1 << 20].into_iter()).expect("some"))),
        ];
        for physical in [PhysicalType::I8, PhysicalType::I16, PhysicalType::I32, PhysicalType::I64, PhysicalType::U16] {
            let width = physical.width().expect("an integer");
            let bits = 64 - 8 * width as u32;
            let fits = |value: &&i64| match physical {
                PhysicalType::U16 => u16::try_from(**value).is_ok(),
                _ => **value << bits >> bits == **value,
            };
            let own: Vec<i64> = values.iter().filter(fits).copied().collect();
            let bytes: Vec<u8> = own.iter().flat_map(|value| value.to_le_bytes()[..width].to_vec()).collect();
            for force in [Encoding::Truncation, Encoding::Dictionary, Encoding::Uncompressed, Encoding::RunLength] {
                let column =
                    PlainColumn { physical, rows: own.len(), validity: None, values: PlainValues::Fixed(&bytes) };
                let mut encoded = Vec::new();
                encode_block(&column, &EncodeOptions { force: Some(force) }, &mut encoded).expect("it can be encoded");
                let block = EncodedBlock::parse(&encoded).expect("it was just made");
                for test in &tests {
                    let device = device_test(&block, test, SimdLevel::Portable).expect("a device can do it");
                    for (row, value) in own.iter().enumerate() {
                        let expected = test.passes(Some(&Value::Int((*value).into())));
                        assert_eq!(
                            passes(&device, lane(&block, row)),
                            expected,
                            "{physical:?} {force:?} {test:?} {value}"
                        );
                    }
                }
            }
        }
    }
}
