//! Keys of rows as bytes whose order is that of the values: one after the other, column by column.
//!
//! An integer is its bytes, the most significant one first, with the sign bit turned; a float its bits, likewise, all of them turned where
//! it is negative; a string its bytes, in which a zero is followed by 255, and then two zeros. So a key that begins another one is less than it,
//! and all keys that begin with the same columns lie beside each other. Before each value is a byte: 0 for NULL, which is less than all
//! else, and 1.
//!
//! Must not know: tables, versions.

use forebay_base::PhysicalType;

use crate::cell::Cell;

/// Before a value: there is none, or it follows.
const NULL: u8 = 0;
const VALUE: u8 = 1;

/// Adds a value to a key.
pub fn push_key(key: &mut Vec<u8>, cell: Cell<'_>, physical: PhysicalType) {
    match cell {
        Cell::Null => key.push(NULL),
        Cell::Fixed(bits) => {
            key.push(VALUE);
            push_fixed(key, bits, physical);
        }
        Cell::Bytes(string) => {
            key.push(VALUE);
            for byte in string {
                key.push(*byte);
                if *byte == 0 {
                    key.push(u8::MAX);
                }
            }
            key.extend_from_slice(&[0, 0]);
        }
    }
}

fn push_fixed(key: &mut Vec<u8>, bits: u128, physical: PhysicalType) {
    let (bytes, width) = ordered(bits, physical);
    key.extend_from_slice(&bytes[size_of::<u128>() - width..]);
}

/// The bytes of a fixed value whose order is that of the values: so many of the last ones.
fn ordered(bits: u128, physical: PhysicalType) -> ([u8; size_of::<u128>()], usize) {
    let width = physical.width().unwrap_or(size_of::<u128>());
    let sign = 1_u128 << (8 * width - 1);
    let ordered = match physical {
        PhysicalType::F32 | PhysicalType::F64 if bits & sign != 0 => !bits,
        PhysicalType::U8 | PhysicalType::U16 | PhysicalType::U32 | PhysicalType::U64 => bits,
        _ => bits ^ sign,
    };
    (ordered.to_be_bytes(), width)
}

/// What follows a value in a key that begins with it; `None` where it begins otherwise.
pub(crate) fn behind_cell<'k>(key: &'k [u8], cell: Cell<'_>, physical: PhysicalType) -> Option<&'k [u8]> {
    let (tag, mut rest) = key.split_first()?;
    if *tag != if cell == Cell::Null { NULL } else { VALUE } {
        return None;
    }
    match cell {
        Cell::Null => Some(rest),
        Cell::Fixed(bits) => {
            let (bytes, width) = ordered(bits, physical);
            rest.strip_prefix(&bytes[size_of::<u128>() - width..])
        }
        Cell::Bytes(string) => {
            for byte in string {
                rest = rest.strip_prefix(std::slice::from_ref(byte))?;
                if *byte == 0 {
                    rest = rest.strip_prefix(&[u8::MAX])?;
                }
            }
            rest.strip_prefix(&[0, 0])
        }
    }
}

/// Whether these values, with their types, make a key.
pub(crate) fn is_key<'c>(key: &[u8], cells: impl IntoIterator<Item = (Cell<'c>, PhysicalType)>) -> bool {
    let mut cells = cells.into_iter();
    let rest = cells.try_fold(key, |rest, (cell, physical)| behind_cell(rest, cell, physical));
    rest.is_some_and(<[u8]>::is_empty)
}

/// The least bytes above all that begin with these: where a range of keys with a common beginning ends. `None` where there are none.
pub fn end_of_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use forebay_base::Value;
    use proptest::prelude::*;

    use super::*;

    fn key(values: &[(Option<Value>, PhysicalType)]) -> Vec<u8> {
        let mut key = Vec::new();
        for (value, physical) in values {
            push_key(&mut key, Cell::of(value.as_ref(), *physical), *physical);
        }
        key
    }

    fn integers() -> impl Strategy<Value = (Option<Value>, PhysicalType)> {
        let of = |physical, range: std::ops::RangeInclusive<i128>| {
            prop::option::weighted(0.9, range).prop_map(move |int| (int.map(Value::Int), physical))
        };
        prop_oneof![
            of(PhysicalType::I8, -128..=127),
            of(PhysicalType::U8, 0..=255),
            of(PhysicalType::I64, i128::from(i64::MIN)..=i128::from(i64::MAX)),
            of(PhysicalType::I128, i128::MIN..=i128::MAX),
        ]
    }

    fn value_of(kind: u8) -> impl Strategy<Value = Option<Value>> {
        let strings =
            prop::collection::vec(prop_oneof![Just(0_u8), Just(255), any::<u8>()], 0..4).prop_map(Value::Bytes);
        let floats = prop_oneof![Just(-0.0), any::<i32>().prop_map(|int| f64::from(int) / 64.0)].prop_map(Value::Float);
        let ints = prop_oneof![-3_i128..3, i128::from(i32::MIN)..=i128::from(i32::MAX)].prop_map(Value::Int);
        let value = match kind {
            0 => strings.boxed(),
            1 => floats.boxed(),
            _ => ints.boxed(),
        };
        prop::option::weighted(0.8, value)
    }

    fn order(a: &Option<Value>, b: &Option<Value>) -> Ordering {
        match (a, b) {
            (Some(Value::Float(a)), Some(Value::Float(b))) => (a + 0.0).total_cmp(&(b + 0.0)),
            (Some(Value::Int(a)), Some(Value::Int(b))) => a.cmp(b),
            (Some(Value::Bytes(a)), Some(Value::Bytes(b))) => a.cmp(b),
            (a, b) => a.is_some().cmp(&b.is_some()),
        }
    }

    proptest! {
        #[test]
        fn keys_are_ordered_like_their_values(
            kinds in prop::collection::vec(0_u8..3, 1..4),
            seed in prop::collection::vec((value_of(0), value_of(1), value_of(2)), 6),
        ) {
            let physical = [PhysicalType::Bytes, PhysicalType::F64, PhysicalType::I32];
            let row = |from: usize| -> Vec<(Option<Value>, PhysicalType)> {
                let pick = |(at, kind): (usize, &u8)| {
                    let (string, float, int) = &seed[from + at];
                    let value = match kind { 0 => string, 1 => float, _ => int };
                    (value.clone(), physical[usize::from(*kind)])
                };
                kinds.iter().enumerate().map(pick).collect()
            };
            let (a, b) = (row(0), row(3));
            let by_value = a.iter().zip(&b).map(|((a, _), (b, _))| order(a, b)).find(|order| order.is_ne());
            prop_assert_eq!(key(&a).cmp(&key(&b)), by_value.unwrap_or(Ordering::Equal));
            // Keys are compared with rows value by value.
            let rest = b.iter().try_fold(key(&a).as_slice(), |rest, (value, physical)| {
                behind_cell(rest, Cell::of(value.as_ref(), *physical), *physical)
            }).map(<[u8]>::len);
            prop_assert_eq!(rest == Some(0), key(&a) == key(&b));
            // What begins like a row lies between its beginning and the end of that.
            let start = key(&a[..1]);
            let end = end_of_prefix(&start).expect("a key begins with 0 or 1");
            let is_within = (start.as_slice()..end.as_slice()).contains(&key(&b).as_slice());
            prop_assert_eq!(is_within, order(&a[0].0, &b[0].0).is_eq());
        }

        #[test]
        fn integers_of_one_type_are_in_order(a in integers(), b in integers()) {
            if a.1 == b.1 {
                prop_assert_eq!(key(std::slice::from_ref(&a)).cmp(&key(std::slice::from_ref(&b))), order(&a.0, &b.0));
            }
        }
    }

    #[test]
    fn a_range_ends_behind_all_that_begins_with_it() {
        assert_eq!(end_of_prefix(&[1, 2]), Some(vec![1, 3]));
        assert_eq!(end_of_prefix(&[1, 255, 255]), Some(vec![2]));
        assert_eq!((end_of_prefix(&[255]), end_of_prefix(&[])), (None, None));
    }
}
