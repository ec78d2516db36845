//! Rows that a plan computes once and reads in several places. Plans are trees: what is read twice would stand in them twice,
//! and be computed twice, with other rows each time where it calls what tells chance, or has a LIMIT.
//!
//! ```text
//! SharedRows #1
//!   the rows, computed once             the definition
//!   …                                   the body: the answer, made of what scans of shared_1 read
//!     TableScan: shared_1
//! ```
//!
//! Invariant: scans of shared rows stand in the body of the node that has their number, and nowhere else.

pub mod materialized;
pub mod operator;
pub mod planner;
pub mod repeated;

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, DFSchemaRef, Result, internal_err};
use datafusion::logical_expr::{
    Expr, Extension, Filter, LogicalPlan, Projection, TableScan, TableScanBuilder, TableSource,
    UserDefinedLogicalNodeCore,
};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use crate::plans::any_node;

/// The rows of a plan under a number, for several readers.
#[derive(Debug, Clone)]
pub struct Shared {
    /// No other shared rows of the statement have it.
    pub number: usize,
    /// The plan's columns.
    pub schema: DFSchemaRef,
}

impl Shared {
    /// A plan that reads the rows, with the names of their columns.
    pub fn reader(&self) -> Result<LogicalPlan> {
        let scan = self.scan()?;
        let columns = scan.schema().columns();
        let named = columns
            .into_iter()
            .zip(self.schema.iter())
            .map(|(column, (qualifier, field))| Expr::Column(column).alias_qualified(qualifier.cloned(), field.name()));
        let schema = DFSchema::new_with_metadata(
            self.schema.iter().map(|(qualifier, field)| (qualifier.cloned(), Arc::clone(field))).collect(),
            self.schema.metadata().clone(),
        )?;
        let named = Projection::try_new_with_schema(named.collect(), Arc::new(scan), Arc::new(schema))?;
        Ok(LogicalPlan::Projection(named))
    }

    /// `body`, which reads the rows of `definition`.
    pub fn over(&self, definition: LogicalPlan, body: LogicalPlan) -> LogicalPlan {
        let node = SharedRows { number: self.number, definition: Arc::new(definition), body: Arc::new(body) };
        LogicalPlan::Extension(Extension { node: Arc::new(node) })
    }

    /// A scan whose columns are called by their places.
    fn scan(&self) -> Result<LogicalPlan> {
        let names = self
            .schema
            .fields()
            .iter()
            .enumerate()
            .map(|(place, field)| Arc::new(field.as_ref().clone().with_name(format!("{}_{place}", field.name()))));
        let schema: SchemaRef = Arc::new(Schema::new(names.collect::<Vec<Arc<Field>>>()));
        let source = Arc::new(SharedSource { number: self.number, schema });
        let scan = TableScanBuilder::new(format!("shared_{}", self.number), source).build()?;
        Ok(LogicalPlan::TableScan(scan))
    }
}

/// The number of the shared rows that `plan` scans.
pub fn scanned(plan: &LogicalPlan) -> Option<usize> {
    match plan {
        LogicalPlan::TableScan(scan) => scan.source.downcast_ref::<SharedSource>().map(|source| source.number),
        _ => None,
    }
}

/// Whether `plan` is a [`Shared::reader`] of these rows.
pub fn is_reader(plan: &LogicalPlan, number: usize) -> bool {
    matches!(plan, LogicalPlan::Projection(projection) if scanned(&projection.input) == Some(number))
}

/// Shared rows as a table.
pub struct SharedSource {
    /// Their number.
    pub number: usize,
    schema: SchemaRef,
}

impl TableSource for SharedSource {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

/// A body and the rows that it reads in several places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedRows {
    /// The number of the rows.
    pub number: usize,
    /// What computes them.
    pub definition: Arc<LogicalPlan>,
    /// What reads them.
    pub body: Arc<LogicalPlan>,
}

impl SharedRows {
    /// `plan` as one, if it is one.
    pub fn of(plan: &LogicalPlan) -> Option<&Self> {
        match plan {
            LogicalPlan::Extension(extension) => extension.node.as_any().downcast_ref(),
            _ => None,
        }
    }

    fn with_body(&self, body: LogicalPlan) -> LogicalPlan {
        let node = Self { body: Arc::new(body), ..self.clone() };
        LogicalPlan::Extension(Extension { node: Arc::new(node) })
    }
}

impl Hash for SharedRows {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.number.hash(state);
        self.body.hash(state);
    }
}

impl PartialOrd for SharedRows {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        self.number.partial_cmp(&other.number)
    }
}

impl UserDefinedLogicalNodeCore for SharedRows {
    fn name(&self) -> &str {
        "SharedRows"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.definition, &self.body]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.body.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedRows: shared_{}", self.number)
    }

    fn with_exprs_and_inputs(&self, _exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        let Ok([definition, body]) = <[LogicalPlan; 2]>::try_from(inputs) else {
            return internal_err!("shared rows have a definition and a body");
        };
        Ok(Self { number: self.number, definition: Arc::new(definition), body: Arc::new(body) })
    }

    /// All columns of the definition: which of them are read is known to [`NarrowedRows`] alone.
    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        let all = 0..self.definition.schema().fields().len();
        Some(vec![all.collect(), output_columns.to_vec()])
    }
}

/// `plan` with its shared rows as far up as they mean the same, so that the optimiser sees all that is below as one plan.
pub fn hoisted(plan: LogicalPlan) -> Result<LogicalPlan> {
    if !any_node(&plan, |node| Ok(SharedRows::of(node).is_some()))? {
        return Ok(plan);
    }
    plan.transform_up_with_subqueries(|node| {
        // DataFusion looks at the expressions of the topmost operator of a subquery that has some.
        if let LogicalPlan::Subquery(subquery) = &node
            && subquery.subquery.head_output_expr()?.is_none()
        {
            let columns = subquery.subquery.schema().columns().into_iter().map(Expr::Column).collect();
            let named = Projection::try_new(columns, Arc::clone(&subquery.subquery))?;
            let named = Arc::new(LogicalPlan::Projection(named));
            return Ok(Transformed::yes(LogicalPlan::Subquery(subquery.with_plan(named))));
        }
        let passes = matches!(
            node,
            LogicalPlan::Projection(_)
                | LogicalPlan::Filter(_)
                | LogicalPlan::Window(_)
                | LogicalPlan::Aggregate(_)
                | LogicalPlan::Join(_)
                | LogicalPlan::Union(_)
                | LogicalPlan::SubqueryAlias(_)
                | LogicalPlan::Distinct(_)
                | LogicalPlan::Unnest(_)
        ) || SharedRows::of(&node).is_some();
        if !passes || !node.inputs().into_iter().any(|input| SharedRows::of(input).is_some()) {
            return Ok(Transformed::no(node));
        }
        // What is in the body of shared rows may read them.
        let mut passing = if SharedRows::of(&node).is_some() { 1 } else { usize::MAX };
        let mut above = Vec::new();
        let node = node.map_children(|mut child| {
            let passes = passing > 0;
            passing = passing.saturating_sub(1);
            while passes && let Some(rows) = SharedRows::of(&child).cloned() {
                child = rows.body.as_ref().clone();
                above.push(rows);
            }
            Ok(Transformed::yes(child))
        })?;
        // The last ones may read the first ones.
        let whole = above.into_iter().rev().fold(node.data, |body, rows| rows.with_body(body));
        Ok(Transformed::yes(whole))
    })
    .data()
}

/// Leaves out columns of shared rows which nobody reads, and no longer shares rows that are read once at most. Filters go
/// below, where other rules see them.
#[derive(Debug)]
pub struct NarrowedRows;

impl OptimizerRule for NarrowedRows {
    fn name(&self) -> &str {
        "narrowed_rows"
    }

    fn rewrite(&self, plan: LogicalPlan, _config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        match any_node(&plan, |node| Ok(SharedRows::of(node).is_some()))? {
            true => plan.transform_up_with_subqueries(narrow),
            false => Ok(Transformed::no(plan)),
        }
    }
}

fn narrow(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if let LogicalPlan::Filter(filter) = &plan
        && let Some(rows) = SharedRows::of(&filter.input)
    {
        let filtered = Filter::try_new(filter.predicate.clone(), Arc::clone(&rows.body))?;
        return Ok(Transformed::yes(rows.with_body(LogicalPlan::Filter(filtered))));
    }
    let Some(rows) = SharedRows::of(&plan) else { return Ok(Transformed::no(plan)) };
    let width = rows.definition.schema().fields().len();
    let (mut readers, mut read) = (0, BTreeMap::new());
    rows.body.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && scanned(node) == Some(rows.number)
        {
            readers += 1;
            let places = scan.projection.clone().unwrap_or_else(|| (0..width).collect());
            read.extend(places.into_iter().map(|place| (place, 0)));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    if readers <= 1 {
        return inlined(rows).map(Transformed::yes);
    }
    // A row has a column, so that rows are counted.
    if read.is_empty() && width > 0 {
        read.insert(0, 0);
    }
    if read.len() == width {
        return Ok(Transformed::no(plan));
    }
    read.values_mut().enumerate().for_each(|(new, place)| *place = new);
    let columns = rows.definition.schema().columns();
    let kept = read.keys().map(|place| Expr::Column(columns[*place].clone())).collect();
    let definition = LogicalPlan::Projection(Projection::try_new(kept, Arc::clone(&rows.definition))?);
    let body = rows.body.as_ref().clone().transform_up_with_subqueries(|node| match node {
        LogicalPlan::TableScan(scan) if is_of(&scan, rows.number) => rescanned(&scan, &read).map(Transformed::yes),
        other => Ok(Transformed::no(other)),
    })?;
    let node = SharedRows { number: rows.number, definition: Arc::new(definition), body: Arc::new(body.data) };
    Ok(Transformed::yes(LogicalPlan::Extension(Extension { node: Arc::new(node) })))
}

fn is_of(scan: &TableScan, number: usize) -> bool {
    scan.source.downcast_ref::<SharedSource>().is_some_and(|source| source.number == number)
}

/// The scan of rows of which only these columns are left, at their new places.
fn rescanned(scan: &TableScan, places: &BTreeMap<usize, usize>) -> Result<LogicalPlan> {
    let Some(source) = scan.source.downcast_ref::<SharedSource>() else {
        return internal_err!("a scan of shared rows is one of another table");
    };
    let fields: Vec<_> = places.keys().map(|place| Arc::clone(&source.schema.fields()[*place])).collect();
    let narrow = SharedSource { number: source.number, schema: Arc::new(Schema::new(fields)) };
    let all = || places.keys().copied().collect();
    let projection = scan.projection.clone().unwrap_or_else(all).iter().map(|place| places[place]).collect();
    let narrow = TableScanBuilder::new(scan.table_name.clone(), Arc::new(narrow))
        .with_projection(Some(projection))
        .with_filters(scan.filters.clone())
        .with_fetch(scan.fetch)
        .build()?;
    Ok(LogicalPlan::TableScan(narrow))
}

/// The body with the definition in the place of its only reader.
fn inlined(rows: &SharedRows) -> Result<LogicalPlan> {
    let body = rows.body.as_ref().clone().transform_up_with_subqueries(|node| {
        let LogicalPlan::TableScan(scan) = &node else { return Ok(Transformed::no(node)) };
        if !is_of(scan, rows.number) {
            return Ok(Transformed::no(node));
        }
        let all = || (0..rows.definition.schema().fields().len()).collect();
        let places = scan.projection.clone().unwrap_or_else(all);
        let columns: Vec<Column> = rows.definition.schema().columns();
        let named = places.iter().zip(scan.projected_schema.iter()).map(|(place, (qualifier, field))| {
            Expr::Column(columns[*place].clone()).alias_qualified(qualifier.cloned(), field.name())
        });
        let definition = Projection::try_new(named.collect(), Arc::clone(&rows.definition))?;
        Ok(Transformed::yes(LogicalPlan::Projection(definition)))
    })?;
    Ok(body.data)
}
