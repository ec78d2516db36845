//! The least and the greatest value that a column of a chunk has ever had, uncommitted ones included.
//!
//! Invariant: bounds only widen, so that what was decided by them stays right whatever is changed or rolled back later.
//! Must not know: where values lie.

use forebay_base::limits::ZONE_STRING_BYTES;
use forebay_base::{PhysicalType, Value};

use crate::cell::{Cell, integer};

/// Bounds of one column.
#[derive(Debug)]
pub(crate) struct Bounds {
    physical: PhysicalType,
    has_nulls: bool,
    /// Of fixed values: least and greatest by [`order`]; least above greatest where there was none.
    fixed: (i128, i128),
    /// Of strings, at most [`ZONE_STRING_BYTES`] long, the greatest rounded up; `None` of it where no string as short is above all.
    strings: Option<(Vec<u8>, Option<Vec<u8>>)>,
}

impl Bounds {
    pub(crate) fn new(physical: PhysicalType) -> Self {
        Self { physical, has_nulls: false, fixed: (i128::MAX, i128::MIN), strings: None }
    }

    pub(crate) fn has_nulls(&self) -> bool {
        self.has_nulls
    }

    /// Widens to a value.
    #[inline]
    pub(crate) fn take_in(&mut self, cell: Cell<'_>) {
        match cell {
            Cell::Null => self.has_nulls = true,
            Cell::Fixed(bits) => {
                let key = order(bits, self.physical);
                self.fixed = (self.fixed.0.min(key), self.fixed.1.max(key));
            }
            Cell::Bytes(string) => self.take_in_string(string),
        }
    }

    /// Least and greatest; of each `None` where it is not known. `None` where all values were NULL.
    pub(crate) fn get(&self) -> Option<(Option<Value>, Option<Value>)> {
        if let Some((least, greatest)) = &self.strings {
            return Some((Some(Value::Bytes(least.clone())), greatest.clone().map(Value::Bytes)));
        }
        let (least, greatest) = self.fixed;
        (least <= greatest).then(|| (Some(self.of_order(least)), Some(self.of_order(greatest))))
    }

    fn take_in_string(&mut self, string: &[u8]) {
        let cut = &string[..string.len().min(ZONE_STRING_BYTES)];
        let Some((least, greatest)) = &mut self.strings else {
            self.strings = Some((cut.to_vec(), rounded_up(string)));
            return;
        };
        if cut < &least[..] {
            *least = cut.to_vec();
        }
        if greatest.as_ref().is_some_and(|greatest| string > &greatest[..]) {
            *greatest = rounded_up(string);
        }
    }

    fn of_order(&self, key: i128) -> Value {
        match self.physical {
            PhysicalType::F32 | PhysicalType::F64 => {
                let key = key as u64;
                let bits = if key >> 63 == 1 { key ^ 1 << 63 } else { !key };
                Value::Float(f64::from_bits(bits))
            }
            _ => Value::Int(key),
        }
    }
}

/// A number that is ordered as the values are: integers themselves, floats by their bits, the negative ones turned over.
#[inline]
fn order(bits: u128, physical: PhysicalType) -> i128 {
    let float = match physical {
        PhysicalType::F32 => f64::from(f32::from_bits(bits as u32)),
        PhysicalType::F64 => f64::from_bits(bits as u64),
        _ => return integer(bits, physical),
    };
    let bits = float.to_bits();
    let key = if bits >> 63 == 1 { !bits } else { bits ^ 1 << 63 };
    key.into()
}

/// The string, or the least one of at most [`ZONE_STRING_BYTES`] that is above it.
fn rounded_up(string: &[u8]) -> Option<Vec<u8>> {
    if string.len() <= ZONE_STRING_BYTES {
        return Some(string.to_vec());
    }
    let mut cut = string[..ZONE_STRING_BYTES].to_vec();
    while let Some(last) = cut.pop() {
        if last < u8::MAX {
            cut.push(last + 1);
            return Some(cut);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(physical: PhysicalType, values: &[Value]) -> Option<(Option<Value>, Option<Value>)> {
        let mut bounds = Bounds::new(physical);
        values.iter().for_each(|value| bounds.take_in(Cell::of(Some(value), physical)));
        bounds.get()
    }

    #[test]
    fn bounds_are_the_order_of_values() {
        let ints = [3, -7, 0].map(Value::Int);
        assert_eq!(of(PhysicalType::I16, &ints), Some((Some(Value::Int(-7)), Some(Value::Int(3)))));
        let floats = [1.5, -2.5, f64::NEG_INFINITY, 0.0].map(Value::Float);
        for physical in [PhysicalType::F32, PhysicalType::F64] {
            let expected = (Some(Value::Float(f64::NEG_INFINITY)), Some(Value::Float(1.5)));
            assert_eq!(of(physical, &floats), Some(expected));
            let nan = [Value::Float(f64::NAN), Value::Float(f64::INFINITY)];
            assert_eq!(of(physical, &nan), Some((Some(Value::Float(f64::INFINITY)), Some(Value::Float(f64::NAN)))));
        }
        assert_eq!(of(PhysicalType::I64, &[]), None);
        let strings = [Value::Bytes(b"b".to_vec()), Value::Bytes(vec![b'z'; 40]), Value::Bytes(Vec::new())];
        let (least, greatest) = of(PhysicalType::Bytes, &strings).expect("strings have bounds");
        assert_eq!(least, Some(Value::Bytes(Vec::new())));
        let greatest = greatest.expect("there is a string above");
        assert!(greatest > strings[1] && matches!(&greatest, Value::Bytes(bytes) if bytes.len() == ZONE_STRING_BYTES));
        let highest = Value::Bytes(vec![255; 33]);
        assert_eq!(of(PhysicalType::Bytes, std::slice::from_ref(&highest)).expect("known").1, None);
        assert_eq!(of(PhysicalType::Bytes, &[highest, Value::Bytes(vec![1])]).expect("known").1, None);
    }
}
