//! A plan without columns of one of its scans, and with the places of that one's rows.
//!
//! Invariant: the columns that stay are in the same order. Must not know: which columns these are, and why.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::common::{Column, JoinType, Result as DataFusionResult, TableReference};
use datafusion::datasource::provider_as_source;
use datafusion::functions_aggregate::expr_fn::min;
use datafusion::logical_expr::{Aggregate, Expr, Join, LogicalPlan, Projection, TableScan, TableScanBuilder};
use forebay_store::PLACES_NAME;

use super::trace::passed;
use crate::table::ForebayTable;

/// What became of a plan.
pub(super) struct Rebuilt {
    pub(super) plan: LogicalPlan,
    /// By column of the plan as it was: its position now; `None` where it is gone.
    pub(super) positions: Vec<Option<usize>>,
    /// The column with the places.
    pub(super) place: Column,
}

/// `plan` without the columns `late` of its scan with this number, which is one of `source` from now on; `None` where there is no such
/// scan whose rows come to the top.
pub(super) fn rebuilt(
    plan: &LogicalPlan,
    scan: usize,
    late: &BTreeSet<usize>,
    source: &Arc<ForebayTable>,
) -> DataFusionResult<Option<Rebuilt>> {
    Rebuilding { scan, late, source, met: 0 }.plan(plan)
}

struct Rebuilding<'r> {
    scan: usize,
    late: &'r BTreeSet<usize>,
    source: &'r Arc<ForebayTable>,
    /// Scans that were met so far.
    met: usize,
}

impl Rebuilding<'_> {
    fn plan(&mut self, plan: &LogicalPlan) -> DataFusionResult<Option<Rebuilt>> {
        match plan {
            LogicalPlan::TableScan(scan) => {
                self.met += 1;
                if self.met == self.scan + 1 { self.table(scan).map(Some) } else { Ok(None) }
            }
            LogicalPlan::SubqueryAlias(alias) => {
                let Some(inner) = self.plan(&alias.input)? else { return Ok(None) };
                let place = Column::new(Some(TableReference::clone(&alias.alias)), inner.place.name.clone());
                above(plan, inner).map(|rebuilt| Some(Rebuilt { place, ..rebuilt }))
            }
            LogicalPlan::Limit(limit) => self.over(plan, &limit.input),
            LogicalPlan::Filter(filter) => self.over(plan, &filter.input),
            LogicalPlan::Sort(sort) => self.over(plan, &sort.input),
            LogicalPlan::Projection(projection) => self.projection(projection),
            LogicalPlan::Join(join) => self.join(plan, join),
            LogicalPlan::Aggregate(aggregate) => self.aggregate(aggregate),
            _ => Ok(None),
        }
    }

    /// An operator with the columns of its input.
    fn over(&mut self, plan: &LogicalPlan, input: &LogicalPlan) -> DataFusionResult<Option<Rebuilt>> {
        match self.plan(input)? {
            Some(inner) => above(plan, inner).map(Some),
            None => Ok(None),
        }
    }

    fn table(&self, scan: &TableScan) -> DataFusionResult<Rebuilt> {
        let all: Vec<usize> = (0..scan.source.schema().fields().len()).collect();
        let columns = scan.projection.as_ref().unwrap_or(&all);
        let mut kept = Vec::with_capacity(columns.len());
        let mut positions = Vec::with_capacity(columns.len());
        for column in columns {
            let stays = !self.late.contains(column);
            positions.push(stays.then_some(kept.len()));
            kept.extend(stays.then_some(*column));
        }
        kept.push(all.len());
        let place = Column::new(Some(scan.table_name.clone()), PLACES_NAME);
        let scan = TableScanBuilder::new(scan.table_name.clone(), provider_as_source(Arc::clone(self.source) as _))
            .with_projection(Some(kept))
            .with_filters(scan.filters.clone())
            .with_fetch(scan.fetch)
            .build()?;
        Ok(Rebuilt { plan: LogicalPlan::TableScan(scan), positions, place })
    }

    fn projection(&mut self, projection: &Projection) -> DataFusionResult<Option<Rebuilt>> {
        let Some(inner) = self.plan(&projection.input)? else { return Ok(None) };
        let schema = projection.input.schema();
        let mut kept = Vec::with_capacity(projection.expr.len() + 1);
        let mut positions = Vec::with_capacity(projection.expr.len());
        for expr in &projection.expr {
            let stays = match passed(expr) {
                Some(column) => inner.positions[schema.index_of_column(column)?].is_some(),
                None => true,
            };
            positions.push(stays.then_some(kept.len()));
            kept.extend(stays.then(|| expr.clone()));
        }
        kept.push(Expr::Column(inner.place.clone()));
        let plan = LogicalPlan::Projection(Projection::try_new(kept, Arc::new(inner.plan))?);
        Ok(Some(Rebuilt { plan, positions, place: inner.place }))
    }

    /// Groups have one row each of the table, of whose places, which are the same, each gives the least.
    fn aggregate(&mut self, aggregate: &Aggregate) -> DataFusionResult<Option<Rebuilt>> {
        let Some(inner) = self.plan(&aggregate.input)? else { return Ok(None) };
        let schema = aggregate.input.schema();
        let mut kept = Vec::with_capacity(aggregate.group_expr.len());
        let mut positions = Vec::with_capacity(aggregate.schema.fields().len());
        for key in &aggregate.group_expr {
            let stays = match passed(key) {
                Some(column) => inner.positions[schema.index_of_column(column)?].is_some(),
                None => true,
            };
            positions.push(stays.then_some(kept.len()));
            kept.extend(stays.then(|| key.clone()));
        }
        positions.extend((kept.len()..).take(aggregate.aggr_expr.len()).map(Some));
        let place = min(Expr::Column(inner.place));
        let name = Column::new_unqualified(place.schema_name().to_string());
        let calls = aggregate.aggr_expr.iter().cloned().chain([place]).collect();
        let plan = LogicalPlan::Aggregate(Aggregate::try_new(Arc::new(inner.plan), kept, calls)?);
        Ok(Some(Rebuilt { plan, positions, place: name }))
    }

    fn join(&mut self, plan: &LogicalPlan, join: &Join) -> DataFusionResult<Option<Rebuilt>> {
        let (left, right) = (self.plan(&join.left)?, self.plan(&join.right)?);
        let is_left = left.is_some();
        let Some(inner) = left.or(right) else { return Ok(None) };
        let Rebuilt { plan: narrower, positions, place } = inner;
        let other = if is_left { &join.right } else { &join.left };
        let unchanged = |from: usize| (from..from + other.schema().fields().len()).map(Some);
        let width = narrower.schema().fields().len();
        let other_width = other.schema().fields().len();
        let mark = |positions: Vec<Option<usize>>, width| positions.into_iter().chain([Some(width)]).collect();
        let positions = match (join.join_type, is_left) {
            (JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full, true) => {
                positions.into_iter().chain(unchanged(width)).collect()
            }
            (JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full, false) => {
                let moved = positions.into_iter().map(|position| position.map(|position| position + other_width));
                unchanged(0).chain(moved).collect()
            }
            (JoinType::LeftSemi | JoinType::LeftAnti, true) | (JoinType::RightSemi | JoinType::RightAnti, false) => {
                positions
            }
            (JoinType::LeftMark, true) | (JoinType::RightMark, false) => mark(positions, width),
            // Its rows do not come out of the join.
            _ => return Ok(None),
        };
        let other = LogicalPlan::clone(other);
        let inputs = if is_left { vec![narrower, other] } else { vec![other, narrower] };
        let plan = plan.with_new_exprs(plan.expressions(), inputs)?;
        Ok(Some(Rebuilt { plan, positions, place }))
    }
}

/// An operator above another input.
fn above(plan: &LogicalPlan, inner: Rebuilt) -> DataFusionResult<Rebuilt> {
    let Rebuilt { plan: input, positions, place } = inner;
    let plan = plan.with_new_exprs(plan.expressions(), vec![input])?;
    Ok(Rebuilt { plan, positions, place })
}
