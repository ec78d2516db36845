//! `bit_and`, `bit_or` and `bit_xor` of bits beside those of integers, and `bitstring_agg`, whose bits say which numbers there are.

use std::mem::size_of_val;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, Signature, Volatility};
use forebay_base::Error;
use forebay_context::error::into_datafusion;

use super::huge_bits::{HUGEINT, HugeBits, is_huge};
use crate::bits::digits::{self, Combination};
use crate::functions::texts;
use crate::own::Own;

/// How many bits `bitstring_agg` makes at most, as in DuckDB.
const MOST_BITS: i128 = 1_000_000_000;

/// The aggregates, for integers those of this name among `aggregates`.
pub fn functions(aggregates: &[Arc<AggregateUDF>]) -> Vec<Arc<AggregateUDF>> {
    let combined = [("bit_and", Combination::And), ("bit_or", Combination::Or), ("bit_xor", Combination::ExclusiveOr)];
    let both = |(name, how): (&'static str, Combination)| {
        let of_integers = aggregates.iter().find(|function| function.name() == name)?;
        let signature = Signature::user_defined(Volatility::Immutable);
        Some(Arc::new(AggregateUDF::from(Combined { how, of_integers: Arc::clone(of_integers), signature })))
    };
    let mut all: Vec<_> = combined.into_iter().filter_map(both).collect();
    all.push(Arc::new(AggregateUDF::from(Present { signature: Signature::user_defined(Volatility::Immutable) })));
    all
}

/// Whether an aggregate takes bits, and no other texts.
pub(crate) fn is_of_bits(name: &str) -> bool {
    matches!(name, "bit_and" | "bit_or" | "bit_xor")
}

fn refused(message: impl Into<String>, hint: &str) -> datafusion::common::DataFusionError {
    into_datafusion(Error::input(message.into()).hint(hint))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Combined {
    how: Combination,
    of_integers: Arc<AggregateUDF>,
    signature: Signature,
}

impl AggregateUDFImpl for Combined {
    fn name(&self) -> &str {
        self.of_integers.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [only] if only.is_string() => Ok(vec![DataType::Utf8View]),
            [only] if only.is_null() => Ok(vec![DataType::Int64]),
            [only] if only.is_integer() || is_huge(only) => Ok(vec![only.clone()]),
            _ => Err(refused(format!("{} takes integers or BITs", self.name()), "Cast what it is given")),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [only] if only.is_string() => Ok(DataType::Utf8View),
            [only] if only.is_null() => Ok(DataType::Int64),
            [only] if is_huge(only) => Ok(only.clone()),
            _ => self.of_integers.return_type(types),
        }
    }

    fn return_field(&self, fields: &[FieldRef]) -> Result<FieldRef> {
        match fields {
            [only] if only.data_type().is_string() => Ok(Own::Bit.field(self.name(), DataType::Utf8View)),
            [only] if is_huge(only.data_type()) => Ok(Arc::new(Field::new(self.name(), HUGEINT, true))),
            _ => self.of_integers.return_field(fields),
        }
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if is_huge(args.return_type()) {
            return Ok(Box::new(HugeBits::of(self.how, args.is_distinct)));
        }
        if !args.return_type().is_string() {
            return self.of_integers.accumulator(args);
        }
        if args.is_distinct && self.how == Combination::ExclusiveOr {
            let error = Error::unsupported("bit_xor of different BITs is not supported beside other aggregates");
            return Err(into_datafusion(error.hint("Take them from a subquery with SELECT DISTINCT")));
        }
        Ok(Box::new(Bits { how: self.how, found: None, bounds: None }))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let state = match args.return_field.data_type() {
            bits if bits.is_string() => DataType::Utf8View,
            huge if is_huge(huge) => DataType::new_list(HUGEINT, true),
            _ => return self.of_integers.state_fields(args),
        };
        Ok(vec![Arc::new(Field::new(format!("{}[bits]", args.name), state, true))])
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        let is_own = args.return_type().is_string() || is_huge(args.return_type());
        !is_own && self.of_integers.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        self.of_integers.create_groups_accumulator(args)
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        match args.return_type().is_string() || is_huge(args.return_type()) {
            true => self.accumulator(args),
            false => self.of_integers.create_sliding_accumulator(args),
        }
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

/// `bitstring_agg(number, least, greatest)`
#[derive(Debug, PartialEq, Eq, Hash)]
struct Present {
    signature: Signature,
}

impl AggregateUDFImpl for Present {
    fn name(&self) -> &str {
        "bitstring_agg"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let is_whole = |own: &DataType| own.is_integer() || own.is_null() || is_huge(own);
        match types {
            [_] | [_, _, _] if types.iter().all(is_whole) => Ok(vec![DataType::Decimal128(38, 0); types.len()]),
            _ => Err(refused("bitstring_agg takes an integer and two bounds", "Write bitstring_agg(x, 0, 99)")),
        }
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn return_field(&self, fields: &[FieldRef]) -> Result<FieldRef> {
        match fields.len() {
            3 => Ok(Own::Bit.field(self.name(), DataType::Utf8View)),
            _ => Err(refused("bitstring_agg needs the least and the greatest number", "Write bitstring_agg(x, 0, 99)")),
        }
    }

    fn accumulator(&self, _args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Bits { how: Combination::Or, found: None, bounds: None }))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        Ok(vec![Arc::new(Field::new(format!("{}[bits]", args.name), DataType::Utf8View, true))])
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.accumulator(args)
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

/// The bits of all rows so far.
#[derive(Debug)]
struct Bits {
    how: Combination,
    found: Option<Vec<u8>>,
    /// Of numbers whose presence is told, the least and the greatest one.
    bounds: Option<(i128, i128)>,
}

impl Bits {
    fn add(&mut self, bits: &str) -> Result<()> {
        match &mut self.found {
            None => self.found = Some(bits.as_bytes().to_vec()),
            Some(found) => self.how.combine(found, bits.as_bytes()).map_err(into_datafusion)?,
        }
        Ok(())
    }

    /// Marks numbers between their bounds.
    fn mark(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let huge =
            columns.iter().map(|column| cast(column, &DataType::Decimal128(38, 0))).collect::<Result<Vec<_>, _>>()?;
        let [numbers, least, greatest] = huge.as_slice() else { return internal_err!("numbers and two bounds") };
        let (least, greatest) = (least.as_primitive::<Decimal128Type>(), greatest.as_primitive::<Decimal128Type>());
        for (row, number) in numbers.as_primitive::<Decimal128Type>().iter().enumerate() {
            let bounds =
                (least.is_valid(row) && greatest.is_valid(row)).then(|| (least.value(row), greatest.value(row)));
            let (from, to) = self.bounds_of(bounds)?;
            let Some(number) = number else { continue };
            if number < from || number > to {
                let message = format!("{number} is not between {from} and {to}, the bounds of bitstring_agg");
                return Err(refused(message, "Leave such rows out, or give other bounds"));
            }
            let found = self.found.get_or_insert_with(|| vec![b'0'; (to - from + 1) as usize]);
            found[(number - from) as usize] = b'1';
        }
        Ok(())
    }

    /// The bounds, which are the same for all rows.
    fn bounds_of(&mut self, bounds: Option<(i128, i128)>) -> Result<(i128, i128)> {
        match (bounds, self.bounds) {
            (Some(found), Some(known)) if found == known => Ok(known),
            (Some(_), Some(_)) => {
                Err(refused("the bounds of bitstring_agg are not the same for all rows", "Give constants"))
            }
            (None, _) => Err(refused("a bound of bitstring_agg is NULL", "Write bitstring_agg(x, 0, 99)")),
            (Some((from, to)), None) => {
                if from > to || to - from >= MOST_BITS {
                    let message = format!("bitstring_agg cannot have the bounds {from} and {to}");
                    return Err(refused(
                        message,
                        &format!("The second is not below the first, and they are less than {MOST_BITS} apart"),
                    ));
                }
                Ok(*self.bounds.insert((from, to)))
            }
        }
    }
}

impl Accumulator for Bits {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        match values {
            [bits] => texts(bits)?.iter().flatten().try_for_each(|text| match digits::of_text(text) {
                Some(bits) => self.add(&bits),
                None => Err(into_datafusion(digits::unknown(text))),
            }),
            numbers => self.mark(numbers),
        }
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        texts(&states[0])?.iter().flatten().try_for_each(|bits| self.add(bits))
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let shown = |bits: &Vec<u8>| String::from_utf8_lossy(bits).into_owned();
        Ok(ScalarValue::Utf8View(self.found.as_ref().map(shown)))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.found.as_ref().map_or(0, Vec::capacity)
    }
}
