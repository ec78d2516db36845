//! The least and the greatest value of an ENUM, by their places.

use std::fmt;
use std::mem::size_of_val;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, UInt32Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};

use crate::enumeration::Enumeration;
use crate::functions::{places, texts};
use crate::own::Own;

/// `min` or `max` of the values of an ENUM.
pub fn extremum(of: &Arc<Enumeration>, is_least: bool) -> Arc<AggregateUDF> {
    let signature = Signature::any(1, Volatility::Immutable);
    Arc::new(AggregateUDF::from(Extremum { of: Arc::clone(of), is_least, signature }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Extremum {
    of: Arc<Enumeration>,
    is_least: bool,
    signature: Signature,
}

impl AggregateUDFImpl for Extremum {
    fn name(&self) -> &str {
        // No name of SQL's, which others would take for what it is for texts.
        if self.is_least { "enum_min" } else { "enum_max" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn return_field(&self, _fields: &[FieldRef]) -> Result<FieldRef> {
        Ok(Own::Enum(Arc::clone(&self.of)).field(self.name(), DataType::Utf8View))
    }

    fn accumulator(&self, _args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(One { of: Arc::clone(&self.of), is_least: self.is_least, found: None }))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        Ok(vec![Arc::new(Field::new(format!("{}[place]", args.name), DataType::UInt32, true))])
    }

    fn create_sliding_accumulator(&self, _args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let counts = vec![0; self.of.values().len()];
        Ok(Box::new(Sliding { of: Arc::clone(&self.of), is_least: self.is_least, counts }))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

fn value(of: &Enumeration, place: Option<u32>) -> ScalarValue {
    ScalarValue::Utf8View(place.and_then(|place| of.values().get(place as usize)).cloned())
}

/// The place that was found so far.
struct One {
    of: Arc<Enumeration>,
    is_least: bool,
    found: Option<u32>,
}

impl fmt::Debug for One {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.found)
    }
}

impl One {
    fn add(&mut self, places: impl Iterator<Item = u32>) {
        let best = if self.is_least { places.min() } else { places.max() };
        self.found = match (self.found, best) {
            (Some(known), Some(best)) => Some(if self.is_least { known.min(best) } else { known.max(best) }),
            (known, best) => known.or(best),
        };
    }
}

impl Accumulator for One {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let found = places(&texts(&values[0])?, &self.of);
        self.add(found.iter().flatten());
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.add(states[0].as_primitive::<UInt32Type>().iter().flatten());
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(value(&self.of, self.found))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![ScalarValue::UInt32(self.found)])
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// How often each value is in a frame.
struct Sliding {
    of: Arc<Enumeration>,
    is_least: bool,
    counts: Vec<u64>,
}

impl fmt::Debug for Sliding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.counts)
    }
}

impl Sliding {
    fn place(&self) -> Option<u32> {
        let is_there = |count: &u64| *count > 0;
        let found = match self.is_least {
            true => self.counts.iter().position(is_there),
            false => self.counts.iter().rposition(is_there),
        };
        found.map(|place| place as u32)
    }
}

impl Accumulator for Sliding {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        places(&texts(&values[0])?, &self.of).iter().flatten().for_each(|place| self.counts[place as usize] += 1);
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        places(&texts(&values[0])?, &self.of).iter().flatten().for_each(|place| self.counts[place as usize] -= 1);
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let found = states[0].as_primitive::<UInt32Type>();
        found.iter().flatten().for_each(|place| self.counts[place as usize] += 1);
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(value(&self.of, self.place()))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![ScalarValue::UInt32(self.place())])
    }

    fn size(&self) -> usize {
        size_of_val(self) + size_of_val(self.counts.as_slice())
    }
}
