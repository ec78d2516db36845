//! The least and the greatest value of a type whose values are ordered by keys, as an ENUM.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::mem::size_of_val;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, Int64Array};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};

use crate::functions::{keys, texts};
use crate::own::Own;

/// `min` or `max` of the values of such a type.
pub fn extremum(of: &Own, is_least: bool) -> Arc<AggregateUDF> {
    let signature = Signature::any(1, Volatility::Immutable);
    Arc::new(AggregateUDF::from(Extremum { of: of.clone(), is_least, signature }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Extremum {
    of: Own,
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
        Ok(self.of.field(self.name(), DataType::Utf8View))
    }

    fn accumulator(&self, _args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(One { of: self.of.clone(), is_least: self.is_least, found: None }))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        Ok(vec![Arc::new(Field::new(format!("{}[key]", args.name), DataType::Int64, true))])
    }

    fn create_sliding_accumulator(&self, _args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Sliding { of: self.of.clone(), is_least: self.is_least, counts: BTreeMap::new() }))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

fn value(of: &Own, key: Option<i64>) -> ScalarValue {
    ScalarValue::Utf8View(key.and_then(|key| of.of_key(key)).map(Cow::into_owned))
}

/// The key that was found so far.
struct One {
    of: Own,
    is_least: bool,
    found: Option<i64>,
}

impl fmt::Debug for One {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.found)
    }
}

impl One {
    fn add(&mut self, keys: impl Iterator<Item = i64>) {
        let best = if self.is_least { keys.min() } else { keys.max() };
        self.found = match (self.found, best) {
            (Some(known), Some(best)) => Some(if self.is_least { known.min(best) } else { known.max(best) }),
            (known, best) => known.or(best),
        };
    }
}

impl Accumulator for One {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let found = keys(&texts(&values[0])?, &self.of);
        self.add(found.iter().flatten());
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.add(states[0].as_primitive::<Int64Type>().iter().flatten());
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(value(&self.of, self.found))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![ScalarValue::Int64(self.found)])
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// How often each key is in a frame.
struct Sliding {
    of: Own,
    is_least: bool,
    counts: BTreeMap<i64, u64>,
}

impl fmt::Debug for Sliding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.counts)
    }
}

impl Sliding {
    fn key(&self) -> Option<i64> {
        match self.is_least {
            true => self.counts.first_key_value().map(|(key, _)| *key),
            false => self.counts.last_key_value().map(|(key, _)| *key),
        }
    }

    fn add(&mut self, keys: &Int64Array) {
        keys.iter().flatten().for_each(|key| *self.counts.entry(key).or_default() += 1);
    }
}

impl Accumulator for Sliding {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add(&keys(&texts(&values[0])?, &self.of));
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for key in keys(&texts(&values[0])?, &self.of).iter().flatten() {
            if let Entry::Occupied(mut count) = self.counts.entry(key) {
                *count.get_mut() -= 1;
                if *count.get() == 0 {
                    count.remove();
                }
            }
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.add(states[0].as_primitive::<Int64Type>());
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(value(&self.of, self.key()))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![ScalarValue::Int64(self.key())])
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.counts.len() * size_of::<(i64, u64)>()
    }
}
