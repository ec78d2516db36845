//! Lists of different values in an order, which may be any: `list(DISTINCT x ORDER BY -x)`. DataFusion's has them in the order of the
//! values themselves at most. All other lists are DataFusion's.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, GroupsAccumulator, ReversedUDAF, Signature,
};

use crate::collected;
use crate::definitions::{Definition, list_type, one_list};

/// The aggregate of lists.
const LIST: &str = "array_agg";

/// Lists with NULLs, and without them.
static DEFINITIONS: [Definition; 2] = [of_values(0), of_values(1)];

const fn of_values(needed: usize) -> Definition {
    Definition {
        name: LIST,
        aliases: &[],
        needed,
        coerced: |types| Ok(types.to_vec()),
        result: |types| Ok(list_type(types.first().unwrap_or(&DataType::Null))),
        value: |rows, _| one_list(&rows[0]),
        of_nothing: None,
    }
}

/// An aggregate with these lists, if it is the one of lists.
pub fn in_any_order(function: &Arc<AggregateUDF>) -> Arc<AggregateUDF> {
    match function.name() {
        LIST => Arc::new(AggregateUDF::from(Lists { inner: Arc::clone(function) })),
        _ => Arc::clone(function),
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Lists {
    inner: Arc<AggregateUDF>,
}

impl AggregateUDFImpl for Lists {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(types)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn return_field(&self, fields: &[FieldRef]) -> Result<FieldRef> {
        self.inner.return_field(fields)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        match args.is_distinct && !args.order_bys.is_empty() {
            true => collected::accumulator(&DEFINITIONS[usize::from(args.ignore_nulls)], &args),
            false => self.inner.accumulator(args),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        match args.is_distinct && !args.ordering_fields.is_empty() {
            true => Ok(collected::state_fields(&args)),
            false => self.inner.state_fields(args),
        }
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        self.inner.create_groups_accumulator(args)
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.inner.create_sliding_accumulator(args)
    }

    fn with_beneficial_ordering(self: Arc<Self>, is_beneficial: bool) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        let ordered = self.inner.as_ref().clone().with_beneficial_ordering(is_beneficial)?;
        Ok(ordered.map(|inner| Arc::new(Self { inner: Arc::new(inner) }) as Arc<dyn AggregateUDFImpl>))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.inner.order_sensitivity()
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        self.inner.reverse_udf()
    }

    fn supports_null_handling_clause(&self) -> bool {
        self.inner.supports_null_handling_clause()
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}
