//! Columns that only the first rows of an order, or of a limit, are asked for: they are fetched behind it, by the places of these rows
//! (late materialisation of top-k; Abadi et al., "Materialization Strategies in a Column-Oriented DBMS", ICDE 2007).
//!
//! Where a plan ends in few rows, each of its columns that merely passes through from a table to there, so that no condition, key or
//! computation looks at it, is left out of the scan. The scan gives the places of its rows instead, and [`node`] stands above the few
//! rows and takes the columns from the table. Groups by a key of a table count as few rows of it, where the key is declared and no two
//! rows have the same, which is looked at. Reading order: [`pays`] and [`with_fetched`] (the rule), [`trace`] (where columns come
//! from, and who looks at them), [`rebuild`] (the plan without them), [`node`], [`operator`]. Invariant: a plan has the same rows in
//! the same order before and after. Must not know: how rows are read.

pub mod node;
pub mod operator;
mod rebuild;
mod trace;

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::catalog::Session;
use datafusion::common::Result as DataFusionResult;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::{Extension, FetchType, LogicalPlan};
use forebay_base::limits;
use forebay_context::error::into_datafusion;
use forebay_context::late_rows::LateRows;
use forebay_context::statement::StatementContext;
use forebay_engine::Engine;
use forebay_engine::unique::is_unique;
use forebay_store::TableSnapshot;

use node::{FetchNode, Output};
use rebuild::rebuilt;
use trace::{Scanned, Trace};

/// Columns of a scan are fetched where that takes at most one in so many of their frames.
const SAVING: f64 = 2.0;

/// Frames that a string is looked for in, at most, if it is not longer than one: offsets and bytes.
const FRAMES_OF_STRING: f64 = 2.0;

/// `plan` with columns fetched behind its limits, where that pays, for a statement of `session`.
///
/// # Errors
/// Those of making plans.
pub fn with_fetched(plan: LogicalPlan, session: &dyn Session) -> DataFusionResult<LogicalPlan> {
    match LateRows::of(session.config()) {
        0 => Ok(plan),
        most => rewrite(plan, &Rule { session, most }),
    }
}

struct Rule<'s> {
    session: &'s dyn Session,
    /// Rows of a limit at most.
    most: usize,
}

/// From the leaves up, so that limits within others come first.
fn rewrite(plan: LogicalPlan, rule: &Rule<'_>) -> DataFusionResult<LogicalPlan> {
    let mut below = |plan: LogicalPlan| Ok(Transformed::yes(rewrite(plan, rule)?));
    let plan = plan.map_subqueries(&mut below)?.data;
    let plan = plan.map_children(&mut below)?.data;
    let Some(rows) = first_rows(&plan).filter(|rows| *rows <= rule.most) else { return Ok(plan) };
    // Table by table, until there is none left whose columns are worth it.
    let mut fetches = Vec::new();
    let mut top = plan;
    while let Some((narrower, node)) = fetched_of_one(&top, rows, rule)? {
        fetches.push(node);
        top = narrower;
    }
    for node in fetches.into_iter().rev() {
        let node = node.over(top)?;
        top = LogicalPlan::Extension(Extension { node: Arc::new(node) });
    }
    Ok(top)
}

/// The number of rows that a plan gives at most, if that is because of a limit and there are any.
fn first_rows(plan: &LogicalPlan) -> Option<usize> {
    let rows = match plan {
        LogicalPlan::Sort(sort) => sort.fetch,
        LogicalPlan::Limit(limit) => match limit.get_fetch_type() {
            Ok(FetchType::Literal(rows)) => rows,
            _ => None,
        },
        _ => None,
    };
    rows.filter(|rows| *rows > 0)
}

/// A limit without the columns of one table that are worth fetching, and the node that fetches them; `None` where none are.
fn fetched_of_one(
    top: &LogicalPlan,
    rows: usize,
    rule: &Rule<'_>,
) -> DataFusionResult<Option<(LogicalPlan, FetchNode)>> {
    let mut trace = Trace::new(rule.session);
    let origins = trace.outputs(top)?;
    for (number, scanned) in trace.scans.iter().enumerate() {
        let (Some(table), Some(snapshot)) = (scanned.table(), &scanned.rows) else { continue };
        let is_late = |column: &usize| !scanned.used.contains(column) && pays(snapshot, *column, rows);
        let passed = origins.iter().flatten().filter(|origin| origin.scan == number).map(|origin| origin.column);
        let late: BTreeSet<usize> = passed.filter(is_late).collect();
        if late.is_empty() || not_unique(table.engine(), snapshot, &scanned.keys, rule.session)?.is_some() {
            continue;
        }
        let fetched: Vec<usize> = late.iter().copied().collect();
        let source = Arc::new(table.with_places(fetched.clone()));
        // Names that meet above, as those of two places within one subquery, are no error of the query.
        let Ok(Some(narrower)) = rebuilt(top, number, &late, &source) else { continue };
        let outputs = origins.iter().zip(&narrower.positions).map(|(origin, position)| match (origin, position) {
            (Some(origin), None) => fetched.iter().position(|column| *column == origin.column).map(Output::Fetched),
            (_, position) => position.map(Output::Input),
        });
        let Some(outputs) = outputs.collect::<Option<Vec<Output>>>() else { continue };
        let node = FetchNode::new((source, scanned.name()), (fetched, outputs), narrower.place, top.schema());
        let node = node.relying_on(&scanned.keys);
        return Ok(Some((narrower.plan, node)));
    }
    Ok(None)
}

/// The first of these columns that has a value in two rows, or NULL; earlier programs loaded rows without looking at keys.
fn not_unique(
    engine: &Arc<Engine>,
    table: &Arc<TableSnapshot>,
    columns: &BTreeSet<usize>,
    session: &dyn Session,
) -> DataFusionResult<Option<usize>> {
    let config = session.config();
    for column in columns {
        let Some(statement) = config.get_extension::<StatementContext>() else { return Ok(Some(*column)) };
        let metrics = Arc::default();
        statement.watch(&metrics, 0);
        let found = is_unique(engine, table, *column, (config.target_partitions(), &metrics), &statement.cancel);
        if !found.map_err(into_datafusion)? {
            return Ok(Some(*column));
        }
    }
    Ok(None)
}

/// Whether a column of so many rows is better fetched than scanned: by the frames that hold them, as far as is known of those.
fn pays(table: &TableSnapshot, column: usize, rows: usize) -> bool {
    let Some(row_bytes) = table.encoded_row_bytes(column) else { return false };
    let frames = row_bytes * table.rows() as f64 / limits::FRAME_BYTES as f64;
    let is_string = table.columns[column].logical.physical().width().is_none();
    let of_a_row = if is_string { FRAMES_OF_STRING } else { 1.0 };
    rows as f64 * of_a_row * SAVING <= frames
}

impl Scanned {
    /// What a plan calls the table.
    fn name(&self) -> String {
        self.scan.table_name.to_string()
    }
}
