//! Calls over frames that DataFusion does not know: a window function that is given what the frame needs as arguments, takes whole
//! partitions, and finds the rows of each frame itself. What a call is made from is told in [`crate::frame_text`].

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion::common::{Result, ScalarValue, internal_err, plan_err};
use datafusion::logical_expr::expr::{WindowFunction, WindowFunctionParams};
use datafusion::logical_expr::function::{PartitionEvaluatorArgs, WindowUDFFieldArgs};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawWindowExpr};
use datafusion::logical_expr::type_coercion::binary::comparison_coercion;
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    AggregateUDF, Expr, LimitEffect, PartitionEvaluator, Signature, Volatility, WindowFunctionDefinition, WindowUDF,
    WindowUDFImpl,
};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, Literal};
use forebay_functions::function::refused;

use crate::frame_aggregates::Aggregate;
use crate::frame_partition::Partition;
use crate::frame_rows;
use crate::frame_text::{FRAMED, FrameSpec, Units};
use crate::frame_values::Own;
use crate::ordered_sums::in_order;

/// Digits of a decimal up to which a sum in 16 bytes cannot overflow: any integer of 64 bits has fewer.
const SUMMED_DIGITS: u8 = 28;

/// The function of this name that the planner finds before [`FramePlanner`] says what it is.
pub fn placeholder() -> Arc<WindowUDF> {
    Arc::new(WindowUDF::from(Placeholder { signature: Signature::variadic_any(Volatility::Immutable) }))
}

/// Makes calls of [`placeholder`] what they stand for.
#[derive(Debug)]
pub struct FramePlanner {
    aggregates: HashMap<String, Arc<AggregateUDF>>,
}

impl FramePlanner {
    /// Over these aggregates.
    pub fn new(aggregates: &[Arc<AggregateUDF>]) -> Self {
        let mut named = HashMap::new();
        for function in aggregates {
            for name in std::iter::once(function.name()).chain(function.aliases().iter().map(String::as_str)) {
                named.insert(name.to_owned(), Arc::clone(function));
            }
        }
        Self { aggregates: named }
    }
}

impl ExprPlanner for FramePlanner {
    fn plan_window(&self, mut expr: RawWindowExpr) -> Result<PlannerResult<RawWindowExpr>> {
        let is_one =
            matches!(&expr.func_def, WindowFunctionDefinition::WindowUDF(function) if function.name() == FRAMED);
        if !is_one || expr.args.is_empty() {
            return Ok(PlannerResult::Original(expr));
        }
        let spec = match expr.args.remove(0) {
            Expr::Literal(ScalarValue::Utf8(Some(text)), _) => FrameSpec::parse(&text),
            _ => None,
        };
        let Some(spec) = spec else { return plan_err!("there is no window function named {FRAMED}") };
        let function = match (Own::of(&spec.function), self.aggregates.get(&spec.function)) {
            (Some(own), _) => Function::Own(own),
            (None, Some(aggregate)) => Function::Aggregate(Arc::clone(aggregate)),
            (None, None) => return plan_err!("there is no window function named {}", spec.function),
        };
        expr.args.extend(expr.order_by.iter().map(|key| key.expr.clone()));
        let signature = Signature::user_defined(Volatility::Immutable);
        let framed = WindowUDF::from(Framed { name: spec.to_text(), function, spec, signature });
        let params = WindowFunctionParams {
            args: expr.args,
            partition_by: expr.partition_by,
            order_by: expr.order_by,
            window_frame: expr.window_frame,
            filter: None,
            null_treatment: None,
            distinct: false,
        };
        let fun = WindowFunctionDefinition::WindowUDF(Arc::new(framed));
        Ok(PlannerResult::Planned(Expr::WindowFunction(Box::new(WindowFunction { fun, params }))))
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Placeholder {
    signature: Signature,
}

impl WindowUDFImpl for Placeholder {
    fn name(&self) -> &str {
        FRAMED
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn partition_evaluator(&self, _args: PartitionEvaluatorArgs<'_>) -> Result<Box<dyn PartitionEvaluator>> {
        internal_err!("{FRAMED} was not planned")
    }

    fn field(&self, args: WindowUDFFieldArgs<'_>) -> Result<FieldRef> {
        Ok(Arc::new(Field::new(args.name(), DataType::Null, true)))
    }

    fn limit_effect(&self, _args: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        LimitEffect::Unknown
    }
}

/// What is computed over a frame.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Function {
    Own(Own),
    Aggregate(Arc<AggregateUDF>),
}

impl Function {
    /// The types that the function takes in place of these.
    fn coerced(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let function = match self {
            Self::Own(own) => return own.coerced(types),
            Self::Aggregate(function) => function,
        };
        let widened: Vec<DataType> = match types {
            [only] if function.name() == "sum" => vec![summed(only)],
            _ => types.to_vec(),
        };
        let field = |data_type: &DataType| Arc::new(Field::new("argument", data_type.clone(), true));
        let fields: Vec<FieldRef> = widened.iter().map(field).collect();
        Ok(fields_with_udf(&fields, function.as_ref())?.iter().map(|field| field.data_type().clone()).collect())
    }

    fn result(&self, fields: &[FieldRef]) -> Result<DataType> {
        match self {
            Self::Own(own) => own.result(fields.first().map(|field| field.data_type())),
            Self::Aggregate(function) => Ok(function.return_field(fields)?.data_type().clone()),
        }
    }
}

/// A type in which no sum of values of this one overflows.
fn summed(own: &DataType) -> DataType {
    match own {
        // Of which the sum is a HUGEINT.
        other if other.is_integer() => DataType::Decimal128(SUMMED_DIGITS, 0),
        DataType::Decimal128(precision, scale) if *precision > SUMMED_DIGITS => {
            DataType::Decimal256(*precision, *scale)
        }
        other => other.clone(),
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Framed {
    /// Tells calls over different frames apart.
    name: String,
    function: Function,
    spec: FrameSpec,
    signature: Signature,
}

impl WindowUDFImpl for Framed {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let parts = self.spec.split(types)?;
        let mut all = self.function.coerced(parts.own)?;
        all.extend(parts.filter.map(|_| DataType::Boolean));
        all.extend_from_slice(parts.orders);
        let bounds = [parts.start, parts.end].into_iter().flatten();
        let mut keys = parts.keys.to_vec();
        match (self.spec.units, keys.first_mut()) {
            (Units::Range, Some(key)) => {
                for bound in bounds.clone() {
                    *key = match comparison_coercion(key, bound) {
                        Some(common) => common,
                        None => {
                            let message = format!("RANGE over {key} cannot have a distance that leads to {bound}");
                            return Err(refused(message, "Cast the distance to the type of the order"));
                        }
                    };
                }
                all.extend(bounds.map(|_| key.clone()));
            }
            _ => all.extend(bounds.map(|_| DataType::Int64)),
        }
        all.append(&mut keys);
        Ok(all)
    }

    fn partition_evaluator(&self, args: PartitionEvaluatorArgs<'_>) -> Result<Box<dyn PartitionEvaluator>> {
        let fields = self.spec.split(args.input_fields())?.own;
        let exprs = self.spec.split(args.input_exprs())?.own;
        let compute = match &self.function {
            Function::Own(own) => Compute::Own(*own),
            Function::Aggregate(function) => {
                let ordered = match fields {
                    [only] if !self.spec.orders.is_empty() => in_order(function.name(), only.data_type()),
                    _ => None,
                };
                let function = ordered.as_ref().unwrap_or(function);
                // The function sees its arguments as columns: the rows themselves are not there any more.
                let columns = exprs.iter().enumerate().map(|(index, expr)| match expr.downcast_ref::<Literal>() {
                    Some(_) => Arc::clone(expr),
                    None => Arc::new(Column::new(fields[index].name(), index)) as Arc<dyn PhysicalExpr>,
                });
                Compute::Aggregate(Aggregate {
                    function: Arc::clone(function),
                    return_field: function.return_field(fields)?,
                    schema: Schema::new(fields.to_vec()),
                    name: self.spec.function.clone(),
                    ignores_nulls: self.spec.ignores_nulls,
                    exprs: columns.collect(),
                    fields: fields.to_vec(),
                })
            }
        };
        Ok(Box::new(FramedPartition { spec: self.spec.clone(), compute }))
    }

    fn field(&self, args: WindowUDFFieldArgs<'_>) -> Result<FieldRef> {
        let own = self.spec.split(args.input_fields())?.own;
        Ok(Arc::new(Field::new(args.name(), self.function.result(own)?, true)))
    }

    /// Rows behind the last one that is asked for may be looked at.
    fn limit_effect(&self, _args: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        LimitEffect::Unknown
    }
}

#[derive(Debug)]
enum Compute {
    Own(Own),
    Aggregate(Aggregate),
}

#[derive(Debug)]
struct FramedPartition {
    spec: FrameSpec,
    compute: Compute,
}

impl PartitionEvaluator for FramedPartition {
    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let arguments = self.spec.split(values)?;
        let frames = frame_rows::frames(&self.spec, &arguments, rows)?;
        let partition = Partition::new(&self.spec, &arguments, frames)?;
        match &self.compute {
            Compute::Own(own) => own.values(&self.spec, &partition, &arguments),
            Compute::Aggregate(aggregate) => aggregate.values(&self.spec, &partition, arguments.own),
        }
    }

    fn supports_bounded_execution(&self) -> bool {
        false
    }

    fn uses_window_frame(&self) -> bool {
        false
    }
}
