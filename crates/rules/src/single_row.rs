//! Correlated subqueries in the place of a value: `(SELECT name FROM d WHERE d.k = f.k)`. DataFusion asks for an aggregate there,
//! so one is put in: the values of two rows, of which there must be one alone for each row of the outer query, or the first
//! value of `ORDER BY … LIMIT 1`.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, UInt32Array};
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, Result, ScalarValue, internal_err};
use datafusion::functions::utils::make_scalar_function;
use datafusion::functions_aggregate::first_last::first_value_udaf;
use datafusion::logical_expr::expr::{AggregateFunction, Sort};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, ColumnarValue, Expr, Limit, LogicalPlan, LogicalPlanBuilder,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Subquery, Volatility,
};
use datafusion::optimizer::AnalyzerRule;
use forebay_base::Error;

use forebay_context::error::into_datafusion;

/// Puts the aggregates in. Must run before the planner looks for them.
#[derive(Debug)]
pub struct SingleRows {
    few: Arc<AggregateUDF>,
    only: Arc<ScalarUDF>,
}

impl Default for SingleRows {
    fn default() -> Self {
        let few = FewValues { signature: Signature::any(1, Volatility::Immutable) };
        let only = OnlyValue { signature: Signature::any(1, Volatility::Volatile) };
        Self { few: Arc::new(AggregateUDF::from(few)), only: Arc::new(ScalarUDF::from(only)) }
    }
}

impl AnalyzerRule for SingleRows {
    fn name(&self) -> &str {
        "single_rows"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|plan| {
            plan.map_expressions(|expr| {
                expr.transform_up(|expr| match expr {
                    Expr::ScalarSubquery(subquery) => self.aggregated(subquery),
                    other => Ok(Transformed::no(other)),
                })
            })
        })
        .data()
    }
}

impl SingleRows {
    fn aggregated(&self, subquery: Subquery) -> Result<Transformed<Expr>> {
        let plan = subquery.subquery.as_ref();
        let [field] = &plan.schema().fields()[..] else {
            return Ok(Transformed::no(Expr::ScalarSubquery(subquery)));
        };
        if subquery.outer_ref_columns.is_empty() || is_aggregated(plan) {
            return Ok(Transformed::no(Expr::ScalarSubquery(subquery)));
        }
        let name = field.name().clone();
        let Some((input, value, order)) = first_of(plan) else {
            if plan.max_rows() == Some(1) {
                return Ok(Transformed::no(Expr::ScalarSubquery(subquery)));
            }
            let few = call(&self.few, Expr::Column(plan.schema().columns().remove(0)), Vec::new());
            let few = replaced(&subquery, Arc::clone(&subquery.subquery), few, &name)?;
            return Ok(Transformed::yes(self.only.call(vec![few])));
        };
        let first = call(&first_value_udaf(), value, order);
        Ok(Transformed::yes(replaced(&subquery, input, first, &name)?))
    }
}

fn call(function: &Arc<AggregateUDF>, argument: Expr, order: Vec<Sort>) -> Expr {
    Expr::AggregateFunction(AggregateFunction::new_udf(Arc::clone(function), vec![argument], false, None, order, None))
}

/// The subquery with an aggregate of `input` for its plan.
fn replaced(subquery: &Subquery, input: Arc<LogicalPlan>, aggregate: Expr, name: &str) -> Result<Expr> {
    const VALUE: &str = "the value";
    let aggregated = LogicalPlanBuilder::from(input).aggregate(Vec::<Expr>::new(), [aggregate.alias(VALUE)])?;
    let plan = aggregated.project([Expr::Column(Column::from_name(VALUE)).alias(name)])?.build()?;
    Ok(Expr::ScalarSubquery(subquery.with_plan(Arc::new(plan))))
}

/// Whether an aggregate gives the subquery's rows.
fn is_aggregated(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(_) => true,
        LogicalPlan::Projection(projection) => is_aggregated(&projection.input),
        LogicalPlan::Filter(filter) => is_aggregated(&filter.input),
        LogicalPlan::SubqueryAlias(alias) => is_aggregated(&alias.input),
        LogicalPlan::Sort(sort) => is_aggregated(&sort.input),
        LogicalPlan::Limit(limit) => is_aggregated(&limit.input),
        _ => false,
    }
}

/// Of `SELECT value … ORDER BY order LIMIT 1`: what it selects from, the value and the order.
fn first_of(plan: &LogicalPlan) -> Option<(Arc<LogicalPlan>, Expr, Vec<Sort>)> {
    let mut value = Expr::Column(plan.schema().columns().into_iter().next()?);
    let (mut plan, mut is_limited) = (plan, false);
    loop {
        match plan {
            // Columns that are only sorted by are left out above the sort.
            LogicalPlan::Projection(projection) if projection.expr.len() == 1 && is_above_sort(&projection.input) => {
                match &projection.expr[0] {
                    Expr::Column(column) => value = Expr::Column(column.clone()),
                    Expr::Alias(alias) if matches!(*alias.expr, Expr::Column(_)) => value = (*alias.expr).clone(),
                    _ => return None,
                }
                plan = &projection.input;
            }
            LogicalPlan::Limit(limit) if !is_limited && takes_one(limit) => {
                is_limited = true;
                plan = &limit.input;
            }
            LogicalPlan::Sort(sort) if is_limited || sort.fetch == Some(1) => {
                return Some((Arc::clone(&sort.input), value, sort.expr.clone()));
            }
            other if is_limited => return Some((Arc::new(other.clone()), value, Vec::new())),
            _ => return None,
        }
    }
}

fn is_above_sort(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Sort(_) => true,
        LogicalPlan::Limit(limit) => is_above_sort(&limit.input),
        _ => false,
    }
}

fn takes_one(limit: &Limit) -> bool {
    use datafusion::logical_expr::{FetchType, SkipType};
    matches!(limit.get_skip_type(), Ok(SkipType::Literal(0)))
        && matches!(limit.get_fetch_type(), Ok(FetchType::Literal(Some(1))))
}

/// The values of the first two rows as a list, NULL where there is no row: enough to know whether one row is all.
#[derive(Debug, PartialEq, Eq, Hash)]
struct FewValues {
    signature: Signature,
}

impl AggregateUDFImpl for FewValues {
    fn name(&self) -> &str {
        "few_values"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [only] => Ok(DataType::new_list(only.clone(), true)),
            _ => internal_err!("{} takes one argument", self.name()),
        }
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        match args.return_field.data_type() {
            DataType::List(element) => Ok(Box::new(Few { values: Vec::new(), data_type: element.data_type().clone() })),
            _ => internal_err!("{} gives a list", self.name()),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        Ok(vec![Arc::new(Field::new("values", args.return_field.data_type().clone(), true))])
    }
}

/// Two values tell that there are too many.
const FEW: usize = 2;

#[derive(Debug)]
struct Few {
    values: Vec<ScalarValue>,
    data_type: DataType,
}

impl Few {
    fn add(&mut self, values: &ArrayRef) -> Result<()> {
        for at in 0..values.len().min(FEW - self.values.len()) {
            self.values.push(ScalarValue::try_from_array(values, at)?);
        }
        Ok(())
    }
}

impl Accumulator for Few {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        values.iter().try_for_each(|values| self.add(values))
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [lists] = states else { return internal_err!("few values have one state") };
        lists.as_list::<i32>().iter().flatten().try_for_each(|values| self.add(&values))
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(match self.values.is_empty() {
            true => ScalarValue::try_from(&DataType::new_list(self.data_type.clone(), true))?,
            false => ScalarValue::List(ScalarValue::new_list_nullable(&self.values, &self.data_type)),
        })
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.values.iter().map(ScalarValue::size).sum::<usize>()
    }
}

/// The only element of a list, NULL of NULL. It fails for rows of the outer query alone: it is called behind the join, and
/// volatile, so that nothing moves it below.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OnlyValue {
    signature: Signature,
}

impl ScalarUDFImpl for OnlyValue {
    fn name(&self) -> &str {
        "only_value"
    }

    /// As its argument, so that columns keep their names.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        match args {
            [only] => Ok(only.schema_name().to_string()),
            _ => internal_err!("{} takes one argument", self.name()),
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [DataType::List(element)] => Ok(element.data_type().clone()),
            _ => internal_err!("{} takes a list", self.name()),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let only = |lists: &[ArrayRef]| -> Result<ArrayRef> {
            let lists = lists[0].as_list::<i32>();
            let place = |row: usize| match (lists.is_null(row), lists.value_length(row)) {
                (true, _) | (_, 0) => Ok(None),
                (_, 1) => Ok(Some(lists.value_offsets()[row] as u32)),
                _ => {
                    let error = Error::input("a subquery in the place of a value gives more than one row");
                    Err(into_datafusion(error.hint("Add LIMIT 1, or an aggregate function such as max")))
                }
            };
            let places = (0..lists.len()).map(place).collect::<Result<Vec<_>>>()?;
            Ok(take(lists.values(), &UInt32Array::from(places), None)?)
        };
        make_scalar_function(only, Vec::new())(&args.args)
    }
}
