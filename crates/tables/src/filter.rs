//! Expressions over rows as filters of a scan: what codes cannot answer, and what joins learn while they run.

use std::sync::Arc;

use datafusion::arrow::array::{BooleanArray, RecordBatch};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_expr::split_conjunction;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr_common::physical_expr::snapshot_physical_expr;
use datafusion::scalar::ScalarValue;
use forebay_base::{Error, LogicalType, Result, Value};
use forebay_context::error::from_datafusion;
use forebay_engine::{AdaptivePredicate, RowFilter};
use forebay_pipeline::{ColumnPredicate, KeySet, Predicate, merge_tests};

use crate::predicate::{TranslatedConjunct, translate};

/// After this many rows an optional filter has to show that it pays.
const TRIAL_ROWS: usize = 65_536;

/// An optional filter that lets more than this share of rows pass costs more than it saves.
const PAYING_SHARE: f64 = 0.8;

/// The parts of a scan's predicates: tests on codes, then filters on rows.
#[derive(Debug, Default, Clone)]
pub struct Predicates {
    /// Exact or implied tests on single columns, merged.
    pub tests: Vec<ColumnPredicate>,
    /// Conjuncts that must be evaluated on rows, over the table's columns.
    pub residual: Vec<Arc<dyn PhysicalExpr>>,
}

impl Predicates {
    /// Takes predicates over the table's columns apart.
    pub fn of(predicates: &[Arc<dyn PhysicalExpr>], types: &[LogicalType]) -> Self {
        let mut parts = Self::default();
        for conjunct in predicates.iter().flat_map(split_conjunction) {
            if is_true(conjunct) {
                continue;
            }
            match translate(conjunct, types) {
                TranslatedConjunct::Exact(tests) => parts.tests.extend(tests),
                TranslatedConjunct::Implied(tests) => {
                    parts.tests.extend(tests);
                    parts.residual.push(Arc::clone(conjunct));
                }
            }
        }
        parts.tests = merge_tests(parts.tests);
        parts
    }

    /// Takes the present state of predicates that change while the query runs apart.
    pub fn of_dynamic(predicates: &[Arc<dyn PhysicalExpr>], types: &[LogicalType]) -> Result<Self> {
        let current = predicates
            .iter()
            .map(|predicate| snapshot_physical_expr(Arc::clone(predicate)))
            .collect::<datafusion::common::Result<Vec<_>>>()
            .map_err(from_datafusion)?;
        let mut parts = Self::of(&current, types);
        for ColumnPredicate { test, .. } in &mut parts.tests {
            if let Predicate::In(values) = test
                && let Some(keys) = key_set(values)
            {
                *test = Predicate::Keys(Arc::new(keys));
            }
        }
        Ok(parts)
    }

    /// The tests, as a scan ranks them.
    pub fn ranked(&self, optional: bool) -> Vec<AdaptivePredicate> {
        self.tests.iter().map(|test| AdaptivePredicate::new(test.clone(), optional)).collect()
    }

    /// Row filters for the residual conjuncts.
    pub fn row_filters(&self, optional: bool) -> Result<Vec<Box<dyn RowFilter>>> {
        self.residual
            .iter()
            .map(|expr| Ok(Box::new(ExpressionFilter::new(expr, optional)?) as Box<dyn RowFilter>))
            .collect()
    }
}

/// The keys of a join's build side, if they are integers that lie close together.
fn key_set(values: &[Value]) -> Option<KeySet> {
    if !values.iter().all(|value| matches!(value, Value::Int(_))) {
        return None;
    }
    KeySet::new(values.iter().filter_map(|value| match value {
        Value::Int(key) => Some(*key),
        _ => None,
    }))
}

fn is_true(expr: &Arc<dyn PhysicalExpr>) -> bool {
    matches!(expr.downcast_ref::<Literal>().map(Literal::value), Some(ScalarValue::Boolean(Some(true))))
}

/// A boolean expression over some columns of a table.
struct ExpressionFilter {
    expr: Arc<dyn PhysicalExpr>,
    columns: Vec<usize>,
    /// An optional filter only saves work for an operator above that checks again.
    optional: bool,
    rows_in: usize,
    rows_out: usize,
}

impl ExpressionFilter {
    fn new(expr: &Arc<dyn PhysicalExpr>, optional: bool) -> Result<Self> {
        let mut columns: Vec<usize> = collect_columns(expr).iter().map(Column::index).collect();
        columns.sort_unstable();
        columns.dedup();
        let remapped = Arc::clone(expr)
            .transform_down(|node| {
                let Some(column) = node.downcast_ref::<Column>() else { return Ok(Transformed::no(node)) };
                let index = columns.partition_point(|other| *other < column.index());
                let moved = Column::new(column.name(), index);
                Ok(Transformed::yes(Arc::new(moved) as Arc<dyn PhysicalExpr>))
            })
            .data()
            .map_err(from_datafusion)?;
        Ok(Self { expr: remapped, columns, optional, rows_in: 0, rows_out: 0 })
    }
}

impl RowFilter for ExpressionFilter {
    fn columns(&self) -> &[usize] {
        &self.columns
    }

    fn select(&mut self, batch: &RecordBatch) -> Result<BooleanArray> {
        let value = self.expr.evaluate(batch).map_err(from_datafusion)?;
        let array = value.into_array(batch.num_rows()).map_err(from_datafusion)?;
        let mask = array
            .as_any()
            .downcast_ref::<BooleanArray>()
            .ok_or_else(|| Error::internal(format!("the filter {} is not boolean", self.expr)))?
            .clone();
        self.rows_in += mask.len();
        self.rows_out += mask.true_count();
        Ok(mask)
    }

    fn pays(&self) -> bool {
        !self.optional || self.rows_in < TRIAL_ROWS || (self.rows_out as f64) < PAYING_SHARE * self.rows_in as f64
    }
}
