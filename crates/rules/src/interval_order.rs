//! Intervals are compared, sorted and joined by their length, in which a month has 30 days and a day 24 hours: `INTERVAL '1'
//! MONTH` equals `INTERVAL '30' DAY`. DataFusion compares months first, then days, then the rest. Parts of an interval are
//! DuckDB's, too.
//!
//! Groups are not of equal lengths, but of equal intervals, as in DuckDB.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, Decimal128Array, Float64Array, Int64Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, IntervalMonthDayNanoType, IntervalUnit};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, internal_err};
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::expr::{InList, InSubquery, ScalarFunction, Sort};
use datafusion::logical_expr::{
    Between, BinaryExpr, ColumnarValue, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use forebay_base::Error;

use forebay_context::error::into_datafusion;
use forebay_syntax::intervals;

use crate::expressions::{ExpressionRule, Kinds};
use crate::typed::{ChildTypes, is_comparison};

/// The type of all intervals.
pub const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

/// Puts lengths in place of intervals where these are compared. Must run before types are unified.
#[derive(Debug)]
pub struct IntervalOrder {
    length: Arc<ScalarUDF>,
}

impl Default for IntervalOrder {
    fn default() -> Self {
        Self {
            length: Arc::new(ScalarUDF::from(IntervalLength { signature: Signature::any(1, Volatility::Immutable) })),
        }
    }
}

impl ExpressionRule for IntervalOrder {
    fn concerns(&self, kinds: Kinds) -> bool {
        kinds.has(Kinds::INTERVAL)
    }

    fn rewrite(&self, expr: Expr, types: &ChildTypes, schema: &DFSchema) -> Result<Transformed<Expr>> {
        if !types.iter().flatten().any(|own| *own == INTERVAL) {
            return Ok(Transformed::no(expr));
        }
        Ok(match expr {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(op) => {
                let make = |mut both: Vec<Expr>| {
                    let right = both.pop().unwrap_or_default();
                    let left = both.pop().unwrap_or_default();
                    Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))
                };
                rebuilt(self.lengths(vec![*left, *right], types), make)
            }
            Expr::Between(Between { expr, negated, low, high }) => {
                let make = |all: Vec<Expr>| {
                    let mut all = all.into_iter().map(Box::new);
                    let mut next = || all.next().unwrap_or_default();
                    Expr::Between(Between { expr: next(), negated, low: next(), high: next() })
                };
                rebuilt(self.lengths(vec![*expr, *low, *high], types), make)
            }
            Expr::InList(InList { expr, list, negated }) => {
                let make = |mut all: Vec<Expr>| {
                    let expr = Box::new(all.remove(0));
                    Expr::InList(InList { expr, list: all, negated })
                };
                rebuilt(self.lengths(std::iter::once(*expr).chain(list).collect(), types), make)
            }
            Expr::InSubquery(membership) => self.rewrite_membership(membership)?,
            Expr::ScalarFunction(ScalarFunction { func, args }) => match (func.name(), args.as_slice()) {
                ("date_part", [Expr::Literal(part, _), _]) => {
                    let part = part.try_as_str().flatten().unwrap_or_default().to_ascii_lowercase();
                    let function = IntervalPart { part, signature: Signature::any(1, Volatility::Immutable) };
                    Transformed::yes(ScalarUDF::from(function).call(args.into_iter().skip(1).collect()))
                }
                _ => Transformed::no(Expr::ScalarFunction(ScalarFunction { func, args })),
            },
            Expr::WindowFunction(mut function) => {
                let changed = self.rewrite_sorts(&mut function.params.order_by, schema);
                Transformed::new_transformed(Expr::WindowFunction(function), changed)
            }
            Expr::AggregateFunction(mut function) => {
                let changed = self.rewrite_sorts(&mut function.params.order_by, schema);
                Transformed::new_transformed(Expr::AggregateFunction(function), changed)
            }
            other => Transformed::no(other),
        })
    }

    fn rewrite_node(&self, plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        match plan {
            LogicalPlan::Sort(mut sort) => {
                let schema = Arc::clone(sort.input.schema());
                let changed = self.rewrite_sorts(&mut sort.expr, &schema);
                Ok(Transformed::new_transformed(LogicalPlan::Sort(sort), changed))
            }
            LogicalPlan::Join(mut join) => {
                let mut changed = false;
                for (left, right) in &mut join.on {
                    if is_interval(left, join.left.schema()) && is_interval(right, join.right.schema()) {
                        (*left, *right) = (self.of(std::mem::take(left)), self.of(std::mem::take(right)));
                        changed = true;
                    }
                }
                Ok(Transformed::new_transformed(LogicalPlan::Join(join), changed))
            }
            other => Ok(Transformed::no(other)),
        }
    }
}

fn is_interval(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|data_type| data_type == INTERVAL)
}

impl IntervalOrder {
    fn of(&self, interval: Expr) -> Expr {
        self.length.call(vec![interval])
    }

    /// The lengths of operands, if one is an interval and all others are, or may become some.
    fn lengths(&self, operands: Vec<Expr>, types: &ChildTypes) -> std::result::Result<Vec<Expr>, Vec<Expr>> {
        let may_be = |own: &Option<DataType>| match own {
            Some(own) => *own == INTERVAL || own.is_string() || own.is_null(),
            None => false,
        };
        let is_one = |own: &Option<DataType>| own.as_ref() == Some(&INTERVAL);
        if types.len() != operands.len() || !types.iter().any(is_one) || !types.iter().all(may_be) {
            return Err(operands);
        }
        let length = |(operand, own): (Expr, &Option<DataType>)| match is_one(own) {
            true => self.of(operand),
            false => self.of(datafusion::prelude::cast(operand, INTERVAL)),
        };
        Ok(operands.into_iter().zip(types).map(length).collect())
    }

    /// Whether some key was an interval.
    fn rewrite_sorts(&self, sorts: &mut [Sort], schema: &DFSchema) -> bool {
        let mut changed = false;
        for sort in sorts.iter_mut().filter(|sort| is_interval(&sort.expr, schema)) {
            sort.expr = self.of(std::mem::take(&mut sort.expr));
            changed = true;
        }
        changed
    }

    /// `x IN (SELECT y …)`, both intervals.
    fn rewrite_membership(&self, membership: InSubquery) -> Result<Transformed<Expr>> {
        let InSubquery { expr, subquery, negated } = membership;
        let (qualifier, field) = subquery.subquery.schema().qualified_field(0);
        if *field.data_type() != INTERVAL {
            return Ok(Transformed::no(Expr::InSubquery(InSubquery { expr, subquery, negated })));
        }
        let column = self.of(Expr::Column((qualifier, field).into())).alias(field.name());
        let plan = LogicalPlanBuilder::from(Arc::clone(&subquery.subquery)).project([column])?.build()?;
        let (expr, subquery) = (Box::new(self.of(*expr)), subquery.with_plan(Arc::new(plan)));
        Ok(Transformed::yes(Expr::InSubquery(InSubquery { expr, subquery, negated })))
    }
}

fn rebuilt(
    operands: std::result::Result<Vec<Expr>, Vec<Expr>>,
    make: impl FnOnce(Vec<Expr>) -> Expr,
) -> Transformed<Expr> {
    match operands {
        Ok(lengths) => Transformed::yes(make(lengths)),
        Err(same) => Transformed::no(make(same)),
    }
}

/// The lengths of intervals, in microseconds.
pub fn lengths(intervals: &ArrayRef) -> Result<ArrayRef> {
    let intervals = cast(intervals, &INTERVAL)?;
    let lengths = intervals.as_primitive::<IntervalMonthDayNanoType>().iter().map(|one| one.map(intervals::length));
    Ok(Arc::new(lengths.collect::<Decimal128Array>().with_precision_and_scale(38, 0)?))
}

/// The length of an interval.
#[derive(Debug, PartialEq, Eq, Hash)]
struct IntervalLength {
    signature: Signature,
}

impl ScalarUDFImpl for IntervalLength {
    fn name(&self) -> &str {
        "interval_length"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Decimal128(38, 0))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        make_scalar_function(|one: &[ArrayRef]| lengths(&one[0]), Vec::new())(&args.args)
    }
}

/// A part of an interval.
#[derive(Debug, PartialEq, Eq, Hash)]
struct IntervalPart {
    part: String,
    signature: Signature,
}

impl ScalarUDFImpl for IntervalPart {
    fn name(&self) -> &str {
        "interval_part"
    }

    /// As the call that it stands for.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        match args {
            [only] => Ok(format!("date_part(Utf8(\"{}\"),{})", self.part, only.schema_name())),
            _ => internal_err!("{} takes one argument", self.name()),
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(if self.part == "epoch" { DataType::Float64 } else { DataType::Int64 })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let part = |one: &[ArrayRef]| -> Result<ArrayRef> {
            let values = one[0].as_primitive::<IntervalMonthDayNanoType>();
            if self.part == "epoch" {
                let epochs = values.iter().map(|one| one.map(intervals::epoch));
                return Ok(Arc::new(epochs.collect::<Float64Array>()));
            }
            let known = |interval| {
                intervals::part(&self.part, interval).ok_or_else(|| {
                    into_datafusion(
                        Error::input(format!("an INTERVAL has no part {}", self.part))
                            .hint("Use year, month, day, hour, minute, second, epoch and the like"),
                    )
                })
            };
            let parts = values.iter().map(|one| one.map(known).transpose()).collect::<Result<Vec<_>>>()?;
            Ok(Arc::new(Int64Array::from(parts)))
        };
        make_scalar_function(part, Vec::new())(&args.args)
    }
}
