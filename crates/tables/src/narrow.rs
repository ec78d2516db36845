//! Tables while a query is planned: with the columns that it names ([`forebay_planning::mentioned`]). The schema of each operator has the
//! columns of its inputs, so that planning would take the longer the wider the tables are, whatever is read of them.
//!
//! Invariant: a plan means the same with such tables and, once it is optimised and [`widened`], without.

use std::any::Any;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::datasource::{TableType, provider_as_source, source_as_provider};
use datafusion::logical_expr::{Expr, LogicalPlan, TableProviderFilterPushDown, TableScan, TableSource};
use datafusion::physical_plan::ExecutionPlan;

use crate::table::ForebayTable;

/// Some columns of a table.
struct NarrowTable {
    /// A [`ForebayTable`].
    base: Arc<dyn TableProvider>,
    /// The same: scans of one table are told by it.
    source: Arc<dyn TableSource>,
    /// By their places in the table.
    columns: Vec<usize>,
    schema: SchemaRef,
}

impl fmt::Debug for NarrowTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NarrowTable").field("base", &self.base).field("columns", &self.columns).finish_non_exhaustive()
    }
}

impl NarrowTable {
    /// The places in the table of some of these columns, or of all.
    fn places(&self, projection: Option<&Vec<usize>>) -> Vec<usize> {
        match projection {
            Some(own) => own.iter().map(|column| self.columns[*column]).collect(),
            None => self.columns.clone(),
        }
    }
}

/// The table of ours that a provider is, also where it has some of the columns only.
pub fn table_of(provider: &dyn TableProvider) -> Option<&ForebayTable> {
    let any: &dyn Any = provider;
    match any.downcast_ref::<NarrowTable>() {
        Some(narrow) => table_of(narrow.base.as_ref()),
        None => any.downcast_ref(),
    }
}

/// `table` with the columns of these names, in lower case, if it is one of ours and has others.
pub fn narrowed(table: Arc<dyn TableProvider>, names: &HashSet<String>) -> Arc<dyn TableProvider> {
    let any: &dyn Any = table.as_ref();
    if any.downcast_ref::<ForebayTable>().is_none() {
        return table;
    }
    let schema = table.schema();
    let is_named = |column: &usize| names.contains(&schema.field(*column).name().to_lowercase());
    let mut columns: Vec<usize> = (0..schema.fields().len()).filter(is_named).collect();
    if columns.is_empty() && !schema.fields().is_empty() {
        // Rows without columns are a special case to many rules.
        columns.push(0);
    }
    if columns.len() == schema.fields().len() {
        return table;
    }
    match schema.project(&columns) {
        Ok(schema) => {
            let source = provider_as_source(Arc::clone(&table));
            Arc::new(NarrowTable { base: table, source, columns, schema: Arc::new(schema) })
        }
        Err(_) => table,
    }
}

/// An optimised plan with the tables as they are.
///
/// # Errors
/// None but those of DataFusion's walks over plans.
pub fn widened(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut has_subqueries = false;
    plan.apply(|node| {
        node.apply_subqueries(|_| {
            has_subqueries = true;
            Ok(TreeNodeRecursion::Stop)
        })?;
        Ok(if has_subqueries { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    match has_subqueries {
        true => plan.transform_up_with_subqueries(|node| Ok(widened_node(node))).data(),
        false => plan.transform_up(|node| Ok(widened_node(node))).data(),
    }
}

fn widened_node(node: LogicalPlan) -> Transformed<LogicalPlan> {
    let LogicalPlan::TableScan(scan) = node else { return Transformed::no(node) };
    let wide = source_as_provider(&scan.source).ok().and_then(|provider| {
        let any: &dyn Any = provider.as_ref();
        let narrow: &NarrowTable = any.downcast_ref()?;
        Some((Arc::clone(&narrow.source), narrow.places(scan.projection.as_ref())))
    });
    match wide {
        None => Transformed::no(LogicalPlan::TableScan(scan)),
        Some((source, places)) => {
            Transformed::yes(LogicalPlan::TableScan(TableScan { source, projection: Some(places), ..scan }))
        }
    }
}

#[async_trait]
impl TableProvider for NarrowTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.base.scan(state, Some(&self.places(projection)), filters, limit).await
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        self.base.supports_filters_pushdown(filters)
    }
}
