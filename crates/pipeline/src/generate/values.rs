//! Columns, constants and tests of made-up programs.

use std::ops::Bound;

use forebay_base::{PhysicalType, Value};

use super::{Generator, Reach};
use crate::ir::*;
use crate::{ColumnPredicate, Predicate, Scalar};

/// A column of a made-up table.
#[derive(Debug, Clone)]
pub(super) struct Column {
    pub(super) physical: PhysicalType,
    pub(super) typed: Typed,
    pub(super) dictionary: bool,
}

const TEXTS: [&str; 10] =
    ["", "a", "ab", "abc", "b", "é€", "%", "a_b", "longer than sixteen bytes", "longer than sixteen bytez"];

impl Generator {
    pub(super) fn column(&mut self) -> Column {
        let integers = [PhysicalType::I64, PhysicalType::I32, PhysicalType::U8];
        let physical = match self.random.percent(50) {
            true => *self.random.pick(&integers),
            // The last one is of bytes.
            false => {
                *self.random.pick(&PhysicalType::ALL[..PhysicalType::ALL.len() - usize::from(self.reach != Reach::All)])
            }
        };
        let nullable = self.random.percent(50);
        let dictionary = physical == PhysicalType::Bytes && self.random.percent(30);
        let value = match physical {
            PhysicalType::Bytes if dictionary => ValueType::I64,
            PhysicalType::U8 if self.random.percent(40) => ValueType::Bool,
            _ => SourceColumn::widened(physical),
        };
        Column { physical, typed: Typed { value, nullable }, dictionary }
    }

    /// A value of a column.
    pub(super) fn stored(&mut self, column: &Column) -> Scalar {
        if column.typed.nullable && self.random.percent(20) {
            return Scalar::Null;
        }
        let extreme = self.wild && self.random.percent(4);
        let signed =
            !matches!(column.physical, PhysicalType::U8 | PhysicalType::U16 | PhysicalType::U32 | PhysicalType::U64);
        match column.typed.value {
            ValueType::Bool => Scalar::Bool(self.random.percent(50)),
            ValueType::I64 if column.dictionary => Scalar::I64(self.random.between(0, 9)),
            ValueType::I64 | ValueType::I128 => {
                let bits = 8 * column.physical.width().expect("integers have a width") as u32;
                let (low, high) = match signed {
                    true => (i128::MIN >> (128 - bits), i128::MAX >> (128 - bits)),
                    false => (0, (1i128 << bits) - 1),
                };
                let small = i128::from(self.random.between(if signed { -3 } else { 0 }, 9));
                let number = if extreme { *self.random.pick(&[low, high, low + 1, high - 1]) } else { small };
                if column.typed.value == ValueType::I64 { Scalar::I64(number as i64) } else { Scalar::I128(number) }
            }
            ValueType::F64 => self.float(),
            ValueType::Bytes => self.text(),
        }
    }

    fn float(&mut self) -> Scalar {
        let special = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0];
        let quarters = self.random.between(-8, 12) as f64 / 4.0;
        Scalar::float(if self.random.percent(8) { *self.random.pick(&special) } else { quarters })
    }

    fn text(&mut self) -> Scalar {
        if self.random.percent(1) {
            return Scalar::bytes(&b"long".repeat(1000 + self.random.below(3)));
        }
        Scalar::bytes(self.random.pick(&TEXTS).as_bytes())
    }

    /// A constant of a type, not NULL.
    pub(super) fn constant(&mut self, value: ValueType) -> Constant {
        let extreme = self.wild && self.random.percent(10);
        match value {
            ValueType::Bool => Constant::Bool(self.random.percent(50)),
            ValueType::I64 if extreme => {
                Constant::Int(i128::from(*self.random.pick(&[i64::MIN, i64::MAX, -1, 0, 1 << 40])))
            }
            ValueType::I128 if extreme => Constant::Int(*self.random.pick(&[i128::MIN, i128::MAX, -1, 1 << 64])),
            ValueType::I64 | ValueType::I128 => Constant::Int(i128::from(self.random.between(-2, 9))),
            ValueType::F64 => match self.float() {
                Scalar::F64(value) => Constant::Float(value),
                _ => unreachable!(),
            },
            ValueType::Bytes => match self.text() {
                Scalar::Bytes(bytes) => Constant::Bytes(bytes),
                _ => unreachable!(),
            },
        }
    }

    /// Tests of a scan.
    pub(super) fn tests(&mut self, table: usize) -> Vec<ColumnPredicate> {
        let mut tests = Vec::new();
        for (column, known) in self.columns[table].clone().into_iter().enumerate() {
            if self.random.percent(50) {
                continue;
            }
            let value = |generator: &mut Self| {
                generator.stored(&Column { typed: Typed::required(known.typed.value), ..known }).to_value()
            };
            let values: Vec<Value> = (0..3).filter_map(|_| value(self)).collect();
            let test = match self.random.below(8) {
                0 => Predicate::IsNull,
                1 => Predicate::IsNotNull,
                2 => Predicate::NotEqual(values[0].clone()),
                3 => Predicate::one_of(values),
                4 => Predicate::Range { low: Bound::Excluded(values[0].clone()), high: Bound::Unbounded },
                5 => Predicate::Range { low: Bound::Unbounded, high: Bound::Included(values[0].clone()) },
                6 => Predicate::equal(values[0].clone()),
                _ => Predicate::Range {
                    low: Bound::Included(values[0].clone()),
                    high: Bound::Excluded(values[1].clone()),
                },
            };
            tests.push(ColumnPredicate { column, test });
        }
        tests
    }
}
