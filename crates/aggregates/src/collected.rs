//! Aggregates that are computed from all their rows at once, when these are there: the most frequent value, quantiles, histograms,
//! the rows with the greatest keys. A state is the rows themselves.
//!
//! What is computed stands in [`Definition`]s ([`crate::frequencies`], [`crate::quantiles`], [`crate::best_rows`],
//! [`crate::distinct_lists`]).

use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, UInt64Array};
use datafusion::arrow::compute::{SortColumn, SortOptions, concat, filter, lexsort_to_indices, take};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};

use crate::definitions::{Definition, list_type, one_list};
use crate::frame_partition::sortable;
use crate::frame_rows::as_rows;
use crate::{best_rows, frequencies, quantiles};

/// How many rows that are perhaps equal are kept where only different ones count.
const MOST_EQUAL: usize = 32_768;

/// All of them.
pub fn functions() -> Vec<Arc<AggregateUDF>> {
    static FREQUENCIES: [Definition; 6] = frequencies::DEFINITIONS;
    static QUANTILES: [Definition; 5] = quantiles::DEFINITIONS;
    static BEST: [Definition; 6] = best_rows::DEFINITIONS;
    let all = FREQUENCIES.iter().chain(&QUANTILES).chain(&BEST);
    all.map(function).collect()
}

/// The one that is defined like this.
pub fn function(definition: &'static Definition) -> Arc<AggregateUDF> {
    let aliases = definition.aliases.iter().map(|alias| (*alias).to_owned()).collect();
    let signature = Signature::user_defined(Volatility::Immutable);
    Arc::new(AggregateUDF::from(Collected { definition, aliases, signature }))
}

#[derive(Debug)]
struct Collected {
    definition: &'static Definition,
    aliases: Vec<String>,
    signature: Signature,
}

impl PartialEq for Collected {
    fn eq(&self, other: &Self) -> bool {
        self.definition.name == other.definition.name
    }
}

impl Eq for Collected {}

impl Hash for Collected {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.definition.name.hash(state);
    }
}

impl AggregateUDFImpl for Collected {
    fn name(&self) -> &str {
        self.definition.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        (self.definition.coerced)(types)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        (self.definition.result)(types)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        accumulator(self.definition, &args)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        Ok(state_fields(&args))
    }

    fn with_beneficial_ordering(self: Arc<Self>, _is_sorted: bool) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        Ok(Some(self))
    }

    /// Rows are sorted when their value is computed.
    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::SoftRequirement
    }
}

/// What collects the rows of a call and computes their value.
pub(crate) fn accumulator(definition: &'static Definition, args: &AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
    let mut types: Vec<DataType> = args.expr_fields.iter().map(|field| field.data_type().clone()).collect();
    for key in args.order_bys {
        types.push(key.expr.data_type(args.schema)?);
    }
    Ok(Box::new(Rows {
        definition,
        is_distinct: args.is_distinct,
        types,
        orders: args.order_bys.iter().map(|key| key.options).collect(),
        result: args.return_type().clone(),
        batches: Vec::new(),
        count: 0,
        different: 0,
    }))
}

/// Its state: a list of each argument and of each key of the order.
pub(crate) fn state_fields(args: &StateFieldsArgs<'_>) -> Vec<FieldRef> {
    let field = |(index, input): (usize, &FieldRef)| {
        let name = format_state_name(args.name, &format!("rows {index}"));
        Arc::new(Field::new(name, list_type(input.data_type()), true))
    };
    args.input_fields.iter().chain(args.ordering_fields).enumerate().map(field).collect()
}

#[derive(Debug)]
struct Rows {
    definition: &'static Definition,
    is_distinct: bool,
    /// The types of the arguments and of the keys of the order behind them.
    types: Vec<DataType>,
    /// The directions of that order.
    orders: Vec<SortOptions>,
    result: DataType,
    batches: Vec<Vec<ArrayRef>>,
    /// How many rows these have, and how many of them are known to be different.
    count: usize,
    different: usize,
}

impl Rows {
    /// Adds rows. Where only different ones count, equal ones are dropped before they are many.
    fn add(&mut self, batch: Vec<ArrayRef>) -> Result<()> {
        self.count += batch[0].len();
        self.batches.push(batch);
        if self.is_distinct
            && self.count > MOST_EQUAL + 2 * self.different
            && let Some(rows) = self.united()?
        {
            let rows = self.arranged(rows)?;
            (self.count, self.different) = (rows[0].len(), rows[0].len());
            self.batches = vec![rows];
        }
        Ok(())
    }

    /// Rows in the order of the call, with the keys of this order behind the arguments, and of equal ones the first if only different
    /// ones count.
    fn arranged(&self, mut rows: Vec<ArrayRef>) -> Result<Vec<ArrayRef>> {
        let arguments = rows.len() - self.orders.len().min(rows.len());
        if arguments < rows.len() {
            let column = |(values, options): (&ArrayRef, &SortOptions)| {
                Ok(SortColumn { values: sortable(values)?, options: Some(*options) })
            };
            let mut columns = rows[arguments..].iter().zip(&self.orders).map(column).collect::<Result<Vec<_>>>()?;
            let numbers = UInt64Array::from_iter_values(0..rows[0].len() as u64);
            columns.push(SortColumn { values: Arc::new(numbers), options: None });
            rows = taken(&rows, &lexsort_to_indices(&columns, None)?)?;
        }
        if self.is_distinct {
            let equal = as_rows(&rows[..arguments])?;
            let mut seen = HashSet::new();
            let first = (0..equal.num_rows()).filter(|row| seen.insert(equal.row(*row))).map(|row| row as u64);
            rows = taken(&rows, &UInt64Array::from_iter_values(first))?;
        }
        Ok(rows)
    }

    /// All rows, if there are some, in one batch, so that they are put together once.
    fn united(&mut self) -> Result<Option<Vec<ArrayRef>>> {
        if self.batches.len() > 1 {
            let column = |index: usize| {
                let parts: Vec<&dyn Array> = self.batches.iter().map(|batch| batch[index].as_ref()).collect();
                concat(&parts)
            };
            let all = (0..self.types.len()).map(column).collect::<std::result::Result<Vec<_>, _>>()?;
            self.batches = vec![all];
        }
        Ok(self.batches.first().cloned())
    }
}

fn taken(columns: &[ArrayRef], rows: &dyn Array) -> Result<Vec<ArrayRef>> {
    Ok(columns.iter().map(|column| take(column, rows, None)).collect::<std::result::Result<Vec<_>, _>>()?)
}

impl Accumulator for Rows {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let needed = &values[..self.definition.needed.min(values.len())];
        let Some(first) = values.first() else { return internal_err!("{} takes a value", self.definition.name) };
        let batch = if needed.iter().any(|column| column.logical_null_count() > 0) {
            let valid =
                |row: usize| needed.iter().all(|column| column.is_valid(row) && *column.data_type() != DataType::Null);
            let kept: BooleanArray = (0..first.len()).map(|row| Some(valid(row))).collect();
            values.iter().map(|column| filter(column, &kept)).collect::<std::result::Result<Vec<_>, _>>()?
        } else {
            values.to_vec()
        };
        if batch.first().is_some_and(|first| !first.is_empty()) { self.add(batch) } else { Ok(()) }
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let Some(mut rows) = self.united()? else {
            return match self.definition.of_nothing {
                Some(value) => Ok(ScalarValue::Float64(Some(value))),
                None => ScalarValue::try_new_null(&self.result),
            };
        };
        rows = self.arranged(rows)?;
        rows.truncate(rows.len() - self.orders.len().min(rows.len()));
        (self.definition.value)(&rows, &self.result)
    }

    fn size(&self) -> usize {
        let bytes = |column: &ArrayRef| column.to_data().get_slice_memory_size().unwrap_or(0);
        size_of_val(self) + self.batches.iter().flatten().map(bytes).sum::<usize>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        match self.united()? {
            Some(columns) => columns.iter().map(one_list).collect(),
            None => self.types.iter().map(|own| one_list(&datafusion::arrow::array::new_empty_array(own))).collect(),
        }
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let Some(first) = states.first() else { return Ok(()) };
        for row in 0..first.len() {
            let values = |column: &ArrayRef| {
                let lists = column.as_list::<i32>();
                lists.is_valid(row).then(|| lists.value(row)).filter(|values| !values.is_empty())
            };
            if let Some(batch) = states.iter().map(values).collect::<Option<Vec<_>>>() {
                self.add(batch)?;
            }
        }
        Ok(())
    }
}
