//! Lists and structs are compared and sorted as in DuckDB: element for element, a NULL behind all other values, wherever the
//! whole value's NULL goes. DataFusion takes a NULL inside for the least in comparisons, and sorts it to where whole NULLs go.
//!
//! Equality is the same in both, but not where it is the key of a join: there neither lists nor NULLs inside of structs are found.
//!
//! And the order in a call of `sum` or `avg` counts where they round, which DataFusion takes for no order at all.

use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
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
use crate::typed::{self, ChildTypes, is_nested};

/// Puts keys in place of lists and structs where these are ordered, and sums in an order in place of sums.
#[derive(Debug)]
pub struct NestedOrder {
    key: Arc<ScalarUDF>,
}

impl Default for NestedOrder {
    fn default() -> Self {
        Self { key: Arc::new(ScalarUDF::from(OrderKey { signature: Signature::any(1, Volatility::Immutable) })) }
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
        let Some(known) = types.iter().cloned().collect::<Option<Vec<DataType>>>() else { return false };
        if known.len() != operands.len() || !known.iter().any(is_nested) {
            return false;
        }
        let mut common = known[0].clone();
        for other in &known[1..] {
            match comparison_coercion(&common, other) {
                Some(both) if is_nested(&both) => common = both,
                _ => return false,
            }
        }
        for (operand, own) in operands.iter_mut().zip(&known) {
            let mut value = std::mem::take(operand);
            if *own != common {
                value = cast(value, common.clone());
            }
            *operand = self.key.call(vec![value]);
        }
        true
    }

    /// Returns whether some key was replaced. Where NULLs are last and values ascend, they stand as they should.
    fn rewrite_sorts(&self, sorts: &mut [Sort], schema: &DFSchema) -> bool {
        self.rewrite_keys(sorts, schema, |sort| !sort.asc || sort.nulls_first)
    }

    /// Returns whether some key was replaced, of those that `is_meant` holds of.
    fn rewrite_keys(&self, sorts: &mut [Sort], schema: &DFSchema, is_meant: fn(&Sort) -> bool) -> bool {
        let mut changed = false;
        for sort in sorts.iter_mut().filter(|sort| is_meant(sort)) {
            if sort.expr.get_type(schema).is_ok_and(|data_type| is_nested(&data_type)) {
                sort.expr = self.key.call(vec![std::mem::take(&mut sort.expr)]);
                changed = true;
            }
        }
        changed
    }
}

/// The key of a list or a struct.
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
