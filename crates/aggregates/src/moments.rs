//! Aggregates of floats whose states are a few sums: products, and how values lie around their mean.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};
use forebay_functions::casts::cast;
use forebay_functions::function::refused;

/// Forms of these aggregates.
const HINT: &str = "Write product(x), skewness(x), kurtosis(x) or sem(x)";

/// The count of values, and four sums, of what depends on the aggregate.
type Sums = [f64; 5];

/// An aggregate of floats.
struct Definition {
    name: &'static str,
    start: Sums,
    add: fn(&mut Sums, f64),
    merge: fn(&mut Sums, &Sums),
    value: fn(&Sums) -> Result<Option<f64>>,
}

impl fmt::Debug for Definition {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name)
    }
}

static DEFINITIONS: [Definition; 5] = [
    Definition {
        name: "product",
        start: [0.0, 1.0, 0.0, 0.0, 0.0],
        add: |sums, value| {
            sums[0] += 1.0;
            sums[1] *= value;
        },
        merge: |sums, other| {
            sums[0] += other[0];
            sums[1] *= other[1];
        },
        value: |sums| Ok((sums[0] > 0.0).then_some(sums[1])),
    },
    Definition { name: "skewness", start: [0.0; 5], add: add_powers, merge: merge_powers, value: skewness },
    Definition {
        name: "kurtosis",
        start: [0.0; 5],
        add: add_powers,
        merge: merge_powers,
        value: |sums| kurtosis(sums, true),
    },
    Definition {
        name: "kurtosis_pop",
        start: [0.0; 5],
        add: add_powers,
        merge: merge_powers,
        value: |sums| kurtosis(sums, false),
    },
    Definition { name: "sem", start: [0.0; 5], add: add_deviation, merge: merge_deviations, value: sem },
];

fn add_powers(sums: &mut Sums, value: f64) {
    for (power, sum) in (0_i32..).zip(sums) {
        *sum += if power == 1 { value } else { value.powf(f64::from(power)) };
    }
}

fn merge_powers(sums: &mut Sums, other: &Sums) {
    sums.iter_mut().zip(other).for_each(|(sum, other)| *sum += other);
}

fn skewness(sums: &Sums) -> Result<Option<f64>> {
    let [count, sum, squares, cubes, _] = *sums;
    if count <= 2.0 {
        return Ok(None);
    }
    let part = 1.0 / count;
    let spread = (part * (squares - sum * sum * part)).powf(3.0).max(0.0).sqrt();
    if spread == 0.0 {
        return Ok(None);
    }
    let unbiased = (count * (count - 1.0)).sqrt() / (count - 2.0);
    let third = cubes - 3.0 * squares * sum * part + 2.0 * sum.powf(3.0) * part * part;
    finite("skewness", unbiased * part * third / spread)
}

fn kurtosis(sums: &Sums, is_of_sample: bool) -> Result<Option<f64>> {
    let [count, sum, squares, cubes, fourths] = *sums;
    if count <= 1.0 || is_of_sample && count <= 3.0 {
        return Ok(None);
    }
    let part = 1.0 / count;
    let second = part * (squares - sum * sum * part);
    let fourth = part
        * (fourths - 4.0 * cubes * sum * part + 6.0 * squares * sum * sum * part * part
            - 3.0 * sum.powf(4.0) * part.powf(3.0));
    if second <= 0.0 {
        return Ok(None);
    }
    let value = match is_of_sample {
        true => {
            (count - 1.0) * ((count + 1.0) * fourth / (second * second) - 3.0 * (count - 1.0))
                / ((count - 2.0) * (count - 3.0))
        }
        false => fourth / (second * second) - 3.0,
    };
    finite("kurtosis", value)
}

fn finite(name: &str, value: f64) -> Result<Option<f64>> {
    if value.is_finite() { Ok(Some(value)) } else { exec_err!("{name} of these values is out of range") }
}

/// The count, the mean and the sum of squared distances from it.
fn add_deviation(sums: &mut Sums, value: f64) {
    sums[0] += 1.0;
    let distance = value - sums[1];
    sums[1] += distance / sums[0];
    sums[2] += distance * (value - sums[1]);
}

fn merge_deviations(sums: &mut Sums, other: &Sums) {
    if other[0] == 0.0 {
        return;
    }
    let count = sums[0] + other[0];
    let distance = other[1] - sums[1];
    sums[1] += distance * other[0] / count;
    sums[2] += other[2] + distance * distance * sums[0] * other[0] / count;
    sums[0] = count;
}

/// The standard error of the mean.
fn sem(sums: &Sums) -> Result<Option<f64>> {
    let [count, _, squares, ..] = *sums;
    Ok((count > 0.0).then(|| (squares / count).sqrt() / count.sqrt()))
}

/// All of them.
pub fn functions() -> Vec<Arc<AggregateUDF>> {
    let signature = || Signature::user_defined(Volatility::Immutable);
    DEFINITIONS
        .iter()
        .map(|definition| Arc::new(AggregateUDF::from(Moment { definition, signature: signature() })))
        .collect()
}

#[derive(Debug)]
struct Moment {
    definition: &'static Definition,
    signature: Signature,
}

impl PartialEq for Moment {
    fn eq(&self, other: &Self) -> bool {
        self.definition.name == other.definition.name
    }
}

impl Eq for Moment {}

impl Hash for Moment {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.definition.name.hash(state);
    }
}

impl AggregateUDFImpl for Moment {
    fn name(&self) -> &str {
        self.definition.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [only] if only.is_numeric() || only.is_null() => Ok(vec![DataType::Float64]),
            [only] => Err(refused(format!("{} takes a number, not {only}", self.name()), HINT)),
            _ => Err(refused(format!("{} takes one argument, not {}", self.name(), types.len()), HINT)),
        }
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let seen = args.is_distinct.then(Vec::new);
        Ok(Box::new(State { definition: self.definition, sums: self.definition.start, seen }))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        if args.is_distinct {
            let values = DataType::new_list(DataType::Float64, true);
            return Ok(vec![Arc::new(Field::new(format_state_name(args.name, "values"), values, true))]);
        }
        let field = |index: usize| {
            let name = format_state_name(args.name, &format!("sum {index}"));
            Arc::new(Field::new(name, DataType::Float64, true))
        };
        Ok((0..self.definition.start.len()).map(field).collect())
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

#[derive(Debug)]
struct State {
    definition: &'static Definition,
    sums: Sums,
    /// The different values, where they count once.
    seen: Option<Vec<f64>>,
}

impl State {
    fn add(&mut self, values: &ArrayRef) -> Result<()> {
        let values = cast(values, &DataType::Float64, false)?;
        for value in values.as_primitive::<Float64Type>().iter().flatten() {
            match &mut self.seen {
                Some(seen) => seen.push(value),
                None => (self.definition.add)(&mut self.sums, value),
            }
        }
        if let Some(seen) = &mut self.seen {
            seen.sort_unstable_by(f64::total_cmp);
            seen.dedup_by(|one, other| one.total_cmp(other).is_eq());
        }
        Ok(())
    }
}

impl Accumulator for State {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        values.first().map_or(Ok(()), |values| self.add(values))
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let mut sums = self.sums;
        for value in self.seen.iter().flatten() {
            (self.definition.add)(&mut sums, *value);
        }
        Ok(ScalarValue::Float64((self.definition.value)(&sums)?))
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.seen.as_ref().map_or(0, |seen| seen.capacity() * size_of::<f64>())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        if let Some(seen) = &self.seen {
            let values: Vec<ScalarValue> = seen.iter().map(|value| ScalarValue::Float64(Some(*value))).collect();
            return Ok(vec![ScalarValue::List(ScalarValue::new_list_nullable(&values, &DataType::Float64))]);
        }
        Ok(self.sums.iter().map(|sum| ScalarValue::Float64(Some(*sum))).collect())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let Some(first) = states.first() else { return Ok(()) };
        for row in 0..first.len() {
            if self.seen.is_some() {
                if first.is_valid(row) {
                    self.add(&first.as_list::<i32>().value(row))?;
                }
                continue;
            }
            let mut other = self.definition.start;
            for (sum, column) in other.iter_mut().zip(states) {
                *sum = column.as_primitive::<Float64Type>().value(row);
            }
            (self.definition.merge)(&mut self.sums, &other);
        }
        Ok(())
    }
}
