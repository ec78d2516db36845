//! Intervals are compared, sorted and joined by their length, in which a month has 30 days and a day 24 hours: `INTERVAL '1'
//! MONTH` equals `INTERVAL '30' DAY`. DataFusion compares months first, then days, then the rest.
//!
//! Groups are of equal lengths, too; the first interval of a group stands for it. The same holds for intervals inside of lists and
//! structs; where these are compared by operators, [`crate::nested_order`] has put keys in their place.

use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, internal_err};
use datafusion::functions::utils::make_scalar_function;
use datafusion::functions_aggregate::expr_fn::first_value;
use datafusion::logical_expr::expr::{InList, InSubquery, ScalarFunction, Sort};
use datafusion::logical_expr::{
    Aggregate, Between, BinaryExpr, Case, ColumnarValue, Distinct, Expr, ExprSchemable, LogicalPlan,
    LogicalPlanBuilder, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use forebay_functions::interval_lengths::{INTERVAL, has_intervals, length_type, lengths};

use crate::expressions::{ExpressionRule, Kinds};
use crate::typed::{ChildTypes, is_comparison};

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
        kinds.has(Kinds::INTERVAL | Kinds::NESTED)
    }

    fn rewrite(&self, expr: Expr, types: &ChildTypes, schema: &DFSchema) -> Result<Transformed<Expr>> {
        if !types.iter().flatten().any(has_intervals) {
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
            Expr::Case(Case { expr: Some(compared), when_then_expr, else_expr }) => {
                self.rewrite_case(compared, when_then_expr, else_expr, types)
            }
            Expr::ScalarFunction(call) if FINDING.contains(&call.name()) => self.rewrite_search(call, types),
            Expr::InSubquery(membership) => self.rewrite_membership(membership)?,
            Expr::WindowFunction(mut function) => {
                let mut changed = self.rewrite_sorts(&mut function.params.order_by, schema);
                for key in function.params.partition_by.iter_mut().filter(|key| is_interval(key, schema)) {
                    *key = self.of(std::mem::take(key));
                    changed = true;
                }
                Transformed::new_transformed(Expr::WindowFunction(function), changed)
            }
            Expr::AggregateFunction(mut function) => {
                let mut changed = self.rewrite_sorts(&mut function.params.order_by, schema);
                if function.params.distinct && function.func.name() == "count" {
                    for argument in function.params.args.iter_mut().filter(|one| is_interval(one, schema)) {
                        *argument = self.of(std::mem::take(argument));
                        changed = true;
                    }
                }
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
            LogicalPlan::Aggregate(aggregate) => self.rewrite_groups(aggregate),
            LogicalPlan::Distinct(Distinct::All(input))
                if input.schema().fields().iter().any(|f| has_intervals(f.data_type())) =>
            {
                let columns: Vec<Expr> = input.schema().columns().into_iter().map(Expr::Column).collect();
                self.rewrite_groups(Aggregate::try_new(input, columns, Vec::new())?)
            }
            other => Ok(Transformed::no(other)),
        }
    }
}

/// Functions that compare the elements of a list with a value, their second argument.
const FINDING: [&str; 4] = ["array_has", "array_position", "array_positions", "contains"];

/// Whether an expression is an interval, or has some inside.
fn is_interval(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|data_type| has_intervals(&data_type))
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

    /// `CASE a WHEN b THEN …` of intervals.
    fn rewrite_case(
        &self,
        compared: Box<Expr>,
        when_then_expr: Vec<(Box<Expr>, Box<Expr>)>,
        else_expr: Option<Box<Expr>>,
        types: &ChildTypes,
    ) -> Transformed<Expr> {
        let (whens, thens): (Vec<_>, Vec<_>) = when_then_expr.into_iter().unzip();
        // Of the operand, and of what stands behind each WHEN.
        let places = std::iter::once(0).chain((0..whens.len()).map(|index| 2 * index + 1));
        let own: Vec<Option<DataType>> = places.map(|place| types.get(place).cloned().flatten()).collect();
        let operands = std::iter::once(compared).chain(whens).map(|operand| *operand).collect();
        let make = |all: Vec<Expr>| {
            let mut all = all.into_iter().map(Box::new);
            let expr = all.next();
            Expr::Case(Case { expr, when_then_expr: all.zip(thens).collect(), else_expr })
        };
        rebuilt(self.lengths(operands, &own), make)
    }

    /// A search for an interval in a list of some.
    fn rewrite_search(&self, mut call: ScalarFunction, types: &ChildTypes) -> Transformed<Expr> {
        let [Some(list), Some(sought)] = types else { return Transformed::no(Expr::ScalarFunction(call)) };
        let element = match list {
            DataType::List(element) | DataType::LargeList(element) | DataType::FixedSizeList(element, _) => element,
            _ => return Transformed::no(Expr::ScalarFunction(call)),
        };
        let is_text = sought.is_string() && *element.data_type() == INTERVAL;
        if !has_intervals(element.data_type()) || !(has_intervals(sought) || is_text) {
            return Transformed::no(Expr::ScalarFunction(call));
        }
        if let [list, sought] = call.args.as_mut_slice() {
            *list = self.of(std::mem::take(list));
            let value = std::mem::take(sought);
            *sought = self.of(if is_text { datafusion::prelude::cast(value, INTERVAL) } else { value });
        }
        Transformed::yes(Expr::ScalarFunction(call))
    }

    /// Groups of equally long intervals, of which one stands for all.
    fn rewrite_groups(&self, aggregate: Aggregate) -> Result<Transformed<LogicalPlan>> {
        let input = Arc::clone(&aggregate.input);
        let is_key = |expr: &Expr| is_interval(expr, input.schema());
        let is_set = |expr: &Expr| matches!(expr, Expr::GroupingSet(_));
        if !aggregate.group_expr.iter().any(is_key) || aggregate.group_expr.iter().any(is_set) {
            return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
        }
        let keys = aggregate.group_expr.iter();
        let groups = keys.clone().map(|key| if is_key(key) { self.of(key.clone()) } else { key.clone() }).collect();
        let shown = keys.filter(|key| is_key(key)).map(|key| first_value(key.clone(), Vec::new()));
        let kept = aggregate.aggr_expr.len();
        let aggregates = aggregate.aggr_expr.iter().cloned().chain(shown).collect();
        let lengths = Aggregate::try_new(input.clone(), groups, aggregates)?;
        let columns = lengths.schema.columns();
        let mut representatives = columns[aggregate.group_expr.len() + kept..].iter();
        let mut outputs = Vec::new();
        for (index, (qualifier, field)) in aggregate.schema.iter().enumerate() {
            let is_interval_key = aggregate.group_expr.get(index).is_some_and(is_key);
            let source = if is_interval_key { representatives.next() } else { columns.get(index) };
            let Some(source) = source else { return internal_err!("an aggregation lost its column {}", field.name()) };
            outputs.push(Expr::Column(source.clone()).alias_qualified(qualifier.cloned(), field.name()));
        }
        let plan = LogicalPlanBuilder::from(LogicalPlan::Aggregate(lengths)).project(outputs)?.build()?;
        Ok(Transformed::yes(plan))
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

/// The length of an interval, or those inside of a list or struct.
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

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [only] => Ok(length_type(only)),
            _ => internal_err!("{} takes one value", self.name()),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        make_scalar_function(|one: &[ArrayRef]| lengths(&one[0]), Vec::new())(&args.args)
    }
}
