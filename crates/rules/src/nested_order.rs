//! Lists, structs and maps are compared and sorted as in DuckDB: element for element, a NULL behind all other values, wherever the
//! whole value's NULL goes. DataFusion takes a NULL inside for the least in comparisons, and sorts it to where whole NULLs go.
//!
//! Equality is the same in both, but not where it is the key of a join: there neither lists nor NULLs inside of structs are found.
//!
//! And the order in a call of `sum` or `avg` counts where they round, which DataFusion takes for no order at all.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::interleave;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, internal_err};
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::expr::Sort;
use datafusion::logical_expr::type_coercion::binary::comparison_coercion;
use datafusion::logical_expr::{
    Between, BinaryExpr, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use datafusion::prelude::cast;
use forebay_aggregates::ordered_sums::in_order;
use forebay_functions::order_keys::order_keys;

use crate::expressions::{ExpressionRule, Kinds};
use crate::typed::{self, ChildTypes, is_ordered_by_parts};

/// Puts keys in place of lists, structs and maps where these are ordered, and sums in an order in place of sums.
#[derive(Debug)]
pub struct NestedOrder {
    key: Arc<ScalarUDF>,
    least: Arc<ScalarUDF>,
    greatest: Arc<ScalarUDF>,
}

impl Default for NestedOrder {
    fn default() -> Self {
        let extremum = |is_least| {
            let signature = Signature::variadic_any(Volatility::Immutable);
            Arc::new(ScalarUDF::from(NestedExtremum { is_least, signature }))
        };
        Self {
            key: Arc::new(ScalarUDF::from(OrderKey { signature: Signature::any(1, Volatility::Immutable) })),
            least: extremum(true),
            greatest: extremum(false),
        }
    }
}

impl ExpressionRule for NestedOrder {
    fn concerns(&self, kinds: Kinds) -> bool {
        kinds.has(Kinds::NESTED | Kinds::ORDERED)
    }

    fn rewrite(&self, expr: Expr, types: &ChildTypes, schema: &DFSchema) -> Result<Transformed<Expr>> {
        Ok(match expr {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_compared(op) => {
                let mut both = [*left, *right];
                let changed = self.put_keys(&mut both, types);
                let [left, right] = both;
                let expr = Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)));
                Transformed::new_transformed(expr, changed)
            }
            Expr::Between(Between { expr, negated, low, high }) => {
                let mut all = [*expr, *low, *high];
                let changed = self.put_keys(&mut all, types);
                let [expr, low, high] = all;
                let between = Between { expr: Box::new(expr), negated, low: Box::new(low), high: Box::new(high) };
                Transformed::new_transformed(Expr::Between(between), changed)
            }
            Expr::ScalarFunction(mut call) if matches!(call.func.name(), "greatest" | "least") => {
                let is_nested = unify(&mut call.args, types);
                if is_nested {
                    call.func = Arc::clone(if call.func.name() == "least" { &self.least } else { &self.greatest });
                }
                Transformed::new_transformed(Expr::ScalarFunction(call), is_nested)
            }
            Expr::WindowFunction(mut function) => {
                let changed = self.rewrite_sorts(&mut function.params.order_by, schema);
                Transformed::new_transformed(Expr::WindowFunction(function), changed)
            }
            Expr::AggregateFunction(mut function) => {
                // Rows of a group are not sorted as others are: a NULL inside goes where the whole value's goes.
                let changed = self.rewrite_keys(&mut function.params.order_by, schema, |_| true);
                let ordered = match types.first() {
                    Some(Some(of)) if !function.params.order_by.is_empty() => in_order(function.func.name(), of),
                    _ => None,
                };
                let is_ordered = ordered.is_some();
                function.func = ordered.unwrap_or(function.func);
                Transformed::new_transformed(Expr::AggregateFunction(function), changed || is_ordered)
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
            other => Ok(Transformed::no(other)),
        }
    }
}

fn is_compared(op: Operator) -> bool {
    typed::is_comparison(op)
}

impl NestedOrder {
    /// Replaces operands of these types, which have one in common, by their keys. Returns whether it did.
    fn put_keys(&self, operands: &mut [Expr], types: &ChildTypes) -> bool {
        let is_unified = unify(operands, types);
        if is_unified {
            operands.iter_mut().for_each(|operand| *operand = self.key.call(vec![std::mem::take(operand)]));
        }
        is_unified
    }

    /// Returns whether some key was replaced. Where NULLs are last and values ascend, they stand as they should.
    fn rewrite_sorts(&self, sorts: &mut [Sort], schema: &DFSchema) -> bool {
        self.rewrite_keys(sorts, schema, |sort| !sort.asc || sort.nulls_first)
    }

    /// Returns whether some key was replaced, of those that `is_meant` holds of.
    fn rewrite_keys(&self, sorts: &mut [Sort], schema: &DFSchema, is_meant: fn(&Sort) -> bool) -> bool {
        let mut changed = false;
        for sort in sorts.iter_mut().filter(|sort| is_meant(sort)) {
            if sort.expr.get_type(schema).is_ok_and(|data_type| is_ordered_by_parts(&data_type)) {
                sort.expr = self.key.call(vec![std::mem::take(&mut sort.expr)]);
                changed = true;
            }
        }
        changed
    }
}

/// Casts operands of these types, of which some are ordered by their parts, to the type that they have in common. Returns whether
/// there is one.
fn unify(operands: &mut [Expr], types: &ChildTypes) -> bool {
    let Some(known) = types.iter().cloned().collect::<Option<Vec<DataType>>>() else { return false };
    if known.len() != operands.len() || !known.iter().any(is_ordered_by_parts) {
        return false;
    }
    let mut common = known[0].clone();
    for other in &known[1..] {
        match comparison_coercion(&common, other) {
            Some(both) if is_ordered_by_parts(&both) => common = both,
            _ => return false,
        }
    }
    for (operand, own) in operands.iter_mut().zip(&known) {
        if *own != common {
            *operand = cast(std::mem::take(operand), common.clone());
        }
    }
    true
}

/// The key of a list, a struct or a map.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OrderKey {
    signature: Signature,
}

impl ScalarUDFImpl for OrderKey {
    fn name(&self) -> &str {
        "order_key"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        make_scalar_function(|one: &[ArrayRef]| order_keys(&one[0]), Vec::new())(&args.args)
    }
}

/// The least or the greatest of values of one type that is ordered by its parts, of which those that are NULL do not count.
#[derive(Debug, PartialEq, Eq, Hash)]
struct NestedExtremum {
    is_least: bool,
    signature: Signature,
}

impl NestedExtremum {
    fn chosen(&self, arrays: &[ArrayRef]) -> Result<ArrayRef> {
        let keys = arrays.iter().map(order_keys).collect::<Result<Vec<ArrayRef>>>()?;
        let texts: Vec<_> = keys.iter().map(|keys| keys.as_string::<i32>()).collect();
        let best = |row: usize| {
            let valid = (0..texts.len()).filter(|array| texts[*array].is_valid(row));
            let array = match self.is_least {
                true => valid.min_by_key(|array| texts[*array].value(row)),
                false => valid.max_by_key(|array| texts[*array].value(row)),
            };
            (array.unwrap_or(0), row)
        };
        let places: Vec<(usize, usize)> = (0..arrays[0].len()).map(best).collect();
        let values: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
        Ok(interleave(&values, &places)?)
    }
}

impl ScalarUDFImpl for NestedExtremum {
    fn name(&self) -> &str {
        if self.is_least { "nested_least" } else { "nested_greatest" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types.first() {
            Some(first) => Ok(first.clone()),
            None => internal_err!("{} takes values", self.name()),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        make_scalar_function(|arrays: &[ArrayRef]| self.chosen(arrays), Vec::new())(&args.args)
    }
}
