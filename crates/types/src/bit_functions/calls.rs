//! Operators and functions of BIT as calls: those that SQL knows by name, and those that the rule puts in where a name or an
//! operator is given bits.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int32Array, Int64Array, StringViewArray};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion::common::{Result, plan_err};
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use forebay_base::Error;
use forebay_context::error::into_datafusion;

use crate::bits::digits::{self, Combination};
use crate::functions::texts;
use crate::own::Own;

/// What is done to bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Operation {
    Combined(Combination),
    Inverted,
    ShiftedLeft,
    ShiftedRight,
    /// How many are 1.
    Count,
    /// How many there are.
    Length,
    /// How many bytes they fill.
    Bytes,
    BitAt,
    WithBit,
    /// The place of bits among others, counted from 1; 0 where they are not there.
    Position,
    Padded,
}

/// What operators and functions that also take something else do to bits, by the names of their functions.
const REPLACED: [(&str, Operation); 10] = [
    ("bitwise_and", Operation::Combined(Combination::And)),
    ("bitwise_or", Operation::Combined(Combination::Or)),
    ("xor", Operation::Combined(Combination::ExclusiveOr)),
    ("bitwise_not", Operation::Inverted),
    ("shift_left", Operation::ShiftedLeft),
    ("shift_right", Operation::ShiftedRight),
    ("bit_count", Operation::Count),
    ("bit_length", Operation::Length),
    ("length", Operation::Length),
    ("octet_length", Operation::Bytes),
];

/// The functions that take bits alone.
const NAMED: [(&str, Operation); 4] = [
    ("get_bit", Operation::BitAt),
    ("set_bit", Operation::WithBit),
    ("bit_position", Operation::Position),
    ("bitstring", Operation::Padded),
];

/// The functions that SQL knows by name.
pub fn functions() -> impl Iterator<Item = ScalarUDF> {
    NAMED.into_iter().map(|(name, operation)| function(name, operation))
}

/// What a function of this name is of bits, where it is one that also takes something else.
pub(crate) fn replacement(name: &str) -> Option<ScalarUDF> {
    // Those that count lengths have several names.
    let name = match name {
        "strlen" => "octet_length",
        "char_length" | "character_length" => "length",
        name => name,
    };
    REPLACED.iter().find(|(known, _)| *known == name).map(|(name, operation)| function(name, *operation))
}

/// Whether this is an operator of integers and of bits, which knows no other texts.
pub(crate) fn is_operator(name: &str) -> bool {
    REPLACED.iter().any(|(known, operation)| *known == name && !operation.is_of_texts())
}

/// An operator as it is written.
pub(crate) fn shown_operator(name: &str) -> &str {
    match name {
        "bitwise_and" => "&",
        "bitwise_or" => "|",
        "bitwise_not" => "~",
        "shift_left" => "<<",
        "shift_right" => ">>",
        name => name,
    }
}

fn function(name: &'static str, operation: Operation) -> ScalarUDF {
    ScalarUDF::from(OfBits { name, operation, signature: Signature::user_defined(Volatility::Immutable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OfBits {
    name: &'static str,
    operation: Operation,
    signature: Signature,
}

impl Operation {
    /// Whether it is also a function of texts.
    fn is_of_texts(self) -> bool {
        matches!(self, Self::Length | Self::Bytes)
    }

    /// Which of the arguments are bits; the others are numbers.
    fn arguments(self) -> &'static [bool] {
        match self {
            Self::Combined(_) | Self::Position => &[true, true],
            Self::Inverted | Self::Count | Self::Length | Self::Bytes => &[true],
            Self::ShiftedLeft | Self::ShiftedRight | Self::BitAt | Self::Padded => &[true, false],
            Self::WithBit => &[true, false, false],
        }
    }

    /// The type of the result; `None` where it is bits.
    fn result(self) -> Option<DataType> {
        match self {
            Self::Count | Self::Length | Self::Bytes => Some(DataType::Int64),
            Self::BitAt | Self::Position => Some(DataType::Int32),
            _ => None,
        }
    }
}

impl ScalarUDFImpl for OfBits {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let wanted = self.operation.arguments();
        let fits = |(is_bits, data_type): (&bool, &DataType)| {
            data_type.is_null() || data_type.is_string() || (!is_bits && data_type.is_integer())
        };
        if wanted.len() != types.len() || !wanted.iter().zip(types).all(fits) {
            let takes: Vec<&str> = wanted.iter().map(|is_bits| if *is_bits { "BIT" } else { "INTEGER" }).collect();
            return plan_err!("{} takes {}", self.name, takes.join(", "));
        }
        Ok(wanted.iter().map(|is_bits| if *is_bits { DataType::Utf8View } else { DataType::Int64 }).collect())
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(self.operation.result().unwrap_or(DataType::Utf8View))
    }

    fn return_field_from_args(&self, _args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(match self.operation.result() {
            Some(result) => Arc::new(Field::new(self.name, result, true)),
            None => Own::Bit.field(self.name, DataType::Utf8View),
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let operation = self.operation;
        make_scalar_function(move |columns: &[ArrayRef]| computed(operation, columns), Vec::new())(&args.args)
    }
}

/// The arguments of an operation, as columns.
struct Arguments<'a> {
    bits: StringViewArray,
    others: &'a [ArrayRef],
}

impl Arguments<'_> {
    /// What `one` makes of the bits of each row, and of the numbers beside them; NULL where one is.
    fn each<T>(&self, one: impl Fn(&str, &[i64]) -> forebay_base::Result<T>) -> Result<Vec<Option<T>>> {
        let row = |row: usize| {
            let mut numbers = [0; 2];
            for (number, column) in numbers.iter_mut().zip(self.others) {
                if column.is_null(row) {
                    return Ok(None);
                }
                *number = column.as_primitive::<Int64Type>().value(row);
            }
            match self.bits.is_valid(row) {
                true => one(self.bits.value(row), &numbers).map(Some).map_err(into_datafusion),
                false => Ok(None),
            }
        };
        (0..self.bits.len()).map(row).collect()
    }

    /// What `one` makes of the bits of each row and those beside them.
    fn pairs<T>(&self, one: impl Fn(&str, &str) -> forebay_base::Result<T>) -> Result<Vec<Option<T>>> {
        let others = checked(texts(&self.others[0])?)?;
        let row = |(bits, other): (Option<&str>, Option<&str>)| match (bits, other) {
            (Some(bits), Some(other)) => one(bits, other).map(Some).map_err(into_datafusion),
            _ => Ok(None),
        };
        self.bits.iter().zip(&others).map(row).collect()
    }
}

/// Texts that must be bits, as such.
fn checked(column: StringViewArray) -> Result<StringViewArray> {
    let bits = |text: Option<&str>| match text.map(|text| (text, digits::of_text(text))) {
        Some((_, Some(bits))) => Ok(Some(bits.into_owned())),
        Some((text, None)) => Err(into_datafusion(digits::unknown(text))),
        None => Ok(None),
    };
    if column.iter().flatten().all(|text| !text.is_empty() && digits::of_text(text).is_some()) {
        return Ok(column);
    }
    column.iter().map(bits).collect()
}

fn computed(operation: Operation, columns: &[ArrayRef]) -> Result<ArrayRef> {
    let Some((first, others)) = columns.split_first() else { return plan_err!("an operation without bits") };
    let all = Arguments { bits: checked(texts(first)?)?, others };
    let shown = |texts: Vec<Option<String>>| Arc::new(texts.into_iter().collect::<StringViewArray>()) as ArrayRef;
    let length = |bits: &str| -> forebay_base::Result<i64> { Ok(bits.len() as i64) };
    Ok(match operation {
        Operation::Combined(how) => {
            let one = |bits: &str, other: &str| {
                let mut made = bits.as_bytes().to_vec();
                how.combine(&mut made, other.as_bytes())?;
                String::from_utf8(made).map_err(|_| Error::internal("bits are no digits"))
            };
            shown(all.pairs(one)?)
        }
        Operation::Inverted => shown(all.each(|bits, _| Ok(digits::inverted(bits)))?),
        Operation::ShiftedLeft => shown(all.each(|bits, numbers| digits::shifted_left(bits, numbers[0]))?),
        Operation::ShiftedRight => shown(all.each(|bits, numbers| Ok(digits::shifted_right(bits, numbers[0])))?),
        Operation::WithBit => shown(all.each(|bits, numbers| digits::with_bit(bits, numbers[0], numbers[1]))?),
        Operation::Padded => shown(all.each(|bits, numbers| digits::padded(bits, numbers[0]))?),
        Operation::Count => {
            let ones = |bits: &str, _: &[i64]| Ok(bits.bytes().filter(|bit| *bit == b'1').count() as i64);
            Arc::new(Int64Array::from(all.each(ones)?))
        }
        Operation::Length => Arc::new(Int64Array::from(all.each(|bits, _| length(bits))?)),
        Operation::Bytes => Arc::new(Int64Array::from(all.each(|bits, _| Ok(bits.len().div_ceil(8) as i64))?)),
        Operation::BitAt => Arc::new(Int32Array::from(all.each(|bits, numbers| digits::bit_at(bits, numbers[0]))?)),
        Operation::Position => {
            let place = |bits: &str, other: &str| Ok(other.find(bits).map_or(0, |place| place as i32 + 1));
            Arc::new(Int32Array::from(all.pairs(place)?))
        }
    })
}
