//! Which columns of a plan merely pass through from a scan, and which columns of the scans somebody looks at on the way.
//!
//! Groups pass on the columns of a table by whose key they are made: all rows of a group then have the same. Invariant: a column that no
//! expression names but to pass it on is not used; what is not understood uses everything below it.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, JoinType, Result as DataFusionResult};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::{Aggregate, Expr, Join, LogicalPlan, TableScan};
use forebay_store::{Constraint, TableSnapshot};

use crate::table::ForebayTable;

/// Where a column comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Origin {
    /// Number of the scan in the order of [`Trace`].
    pub(super) scan: usize,
    /// Position in the table's list of columns.
    pub(super) column: usize,
}

/// A scan that was met.
#[derive(Debug)]
pub(super) struct Scanned {
    pub(super) scan: TableScan,
    provider: Option<Arc<dyn TableProvider>>,
    /// Its own rows, where it is a table of ours that does not give places already.
    pub(super) rows: Option<Arc<TableSnapshot>>,
    /// Columns that somebody looks at.
    pub(super) used: BTreeSet<usize>,
    /// Columns of which groups take for granted that no two rows have the same value.
    pub(super) keys: BTreeSet<usize>,
}

/// The scans of a plan in the order in which they are met: from left to right.
pub(super) struct Trace<'s> {
    session: &'s dyn Session,
    pub(super) scans: Vec<Scanned>,
    /// Columns that are equal in all rows that come out of a join, or both NULL.
    equal: Vec<(Origin, Origin)>,
}

/// By column of a plan: where it comes from, if it was not computed.
pub(super) type Origins = Vec<Option<Origin>>;

impl Scanned {
    fn new(scan: &TableScan, session: &dyn Session) -> Self {
        let provider = source_as_provider(&scan.source).ok();
        let (used, keys) = (BTreeSet::new(), BTreeSet::new());
        let mut scanned = Self { scan: scan.clone(), provider, rows: None, used, keys };
        scanned.rows = scanned.table().and_then(|table| table.rows().bind(session).ok());
        scanned
    }

    /// The columns that are declared to be keys by themselves.
    fn declared_keys(&self) -> impl Iterator<Item = usize> + '_ {
        let rows = self.rows.as_ref();
        let constraints = rows.into_iter().flat_map(|rows| rows.constraints.iter().map(move |known| (rows, known)));
        constraints.filter_map(|(rows, constraint)| match constraint {
            Constraint::PrimaryKey(ids) | Constraint::Unique(ids) => match ids.as_slice() {
                [id] => rows.column_by_id(*id).map(|(column, _)| column),
                _ => None,
            },
            Constraint::ForeignKey { .. } | Constraint::Check { .. } => None,
        })
    }

    /// The table, if it is one of ours that does not give places already.
    pub(super) fn table(&self) -> Option<&ForebayTable> {
        let any: &dyn Any = self.provider.as_ref()?.as_ref();
        any.downcast_ref::<ForebayTable>().filter(|table| !table.gives_places())
    }
}

/// What is passed on below a plan by expressions that are columns, or else looked at.
pub(super) fn passed(expr: &Expr) -> Option<&datafusion::common::Column> {
    match expr {
        Expr::Column(column) => Some(column),
        Expr::Alias(alias) => passed(&alias.expr),
        _ => None,
    }
}

impl<'s> Trace<'s> {
    pub(super) fn new(session: &'s dyn Session) -> Self {
        Self { session, scans: Vec::new(), equal: Vec::new() }
    }

    /// Where the columns of a plan come from.
    pub(super) fn outputs(&mut self, plan: &LogicalPlan) -> DataFusionResult<Origins> {
        match plan {
            LogicalPlan::TableScan(scan) => self.scan(scan),
            LogicalPlan::SubqueryAlias(alias) => self.outputs(&alias.input),
            LogicalPlan::Limit(limit) => self.outputs(&limit.input),
            LogicalPlan::Projection(projection) => {
                let inner = self.outputs(&projection.input)?;
                let schema = projection.input.schema();
                let of = |expr: &Expr| passed_of(expr, schema, &inner);
                let outputs = projection.expr.iter().map(of).collect::<DataFusionResult<_>>()?;
                for expr in projection.expr.iter().filter(|expr| passed(expr).is_none()) {
                    self.use_of(expr, schema, &inner)?;
                }
                Ok(outputs)
            }
            LogicalPlan::Filter(filter) => {
                let inner = self.outputs(&filter.input)?;
                self.use_of(&filter.predicate, filter.input.schema(), &inner)?;
                Ok(inner)
            }
            LogicalPlan::Sort(sort) => {
                let inner = self.outputs(&sort.input)?;
                sort.expr.iter().try_for_each(|key| self.use_of(&key.expr, sort.input.schema(), &inner))?;
                Ok(inner)
            }
            LogicalPlan::Join(join) => self.join(join),
            LogicalPlan::Aggregate(aggregate) => self.aggregate(aggregate),
            // Whatever else it is looks at all of its columns.
            other => Ok(vec![None; other.schema().fields().len()]),
        }
    }

    fn scan(&mut self, scan: &TableScan) -> DataFusionResult<Origins> {
        let number = self.scans.len();
        let all: Vec<usize> = (0..scan.source.schema().fields().len()).collect();
        let columns = scan.projection.as_ref().unwrap_or(&all);
        let origins: Origins = columns.iter().map(|column| Some(Origin { scan: number, column: *column })).collect();
        let mut scanned = Scanned::new(scan, self.session);
        // Filters are over all columns of the table, those that it does not give included.
        let schema = scan.source.schema();
        for name in scan.filters.iter().flat_map(Expr::column_refs) {
            scanned.used.extend(schema.index_of(&name.name).ok());
        }
        if scan.filters.iter().any(has_subquery) {
            scanned.used.extend(all.iter().copied());
        }
        self.scans.push(scanned);
        Ok(origins)
    }

    fn join(&mut self, join: &Join) -> DataFusionResult<Origins> {
        let (left, right) = (self.outputs(&join.left)?, self.outputs(&join.right)?);
        for (left_key, right_key) in &join.on {
            self.use_of(left_key, join.left.schema(), &left)?;
            self.use_of(right_key, join.right.schema(), &right)?;
            let pair =
                (passed_of(left_key, join.left.schema(), &left)?, passed_of(right_key, join.right.schema(), &right)?);
            if let (JoinType::Inner, (Some(left), Some(right))) = (join.join_type, pair) {
                self.equal.push((left, right));
            }
        }
        let both: Origins = left.iter().chain(&right).copied().collect();
        if let Some(filter) = &join.filter {
            self.use_of(filter, &join.left.schema().join(join.right.schema())?, &both)?;
        }
        Ok(match join.join_type {
            JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full => both,
            JoinType::LeftSemi | JoinType::LeftAnti => left,
            JoinType::RightSemi | JoinType::RightAnti => right,
            JoinType::LeftMark => left.into_iter().chain([None]).collect(),
            JoinType::RightMark => right.into_iter().chain([None]).collect(),
        })
    }

    fn aggregate(&mut self, aggregate: &Aggregate) -> DataFusionResult<Origins> {
        let inner = self.outputs(&aggregate.input)?;
        let schema = aggregate.input.schema();
        let has_sets = aggregate.group_expr.iter().any(|expr| matches!(expr, Expr::GroupingSet(_)));
        let is_distinct = |expr: &Expr| matches!(expr, Expr::AggregateFunction(call) if call.params.distinct);
        aggregate.aggr_expr.iter().try_for_each(|call| self.use_of(call, schema, &inner))?;
        if has_sets || aggregate.aggr_expr.iter().any(is_distinct) {
            aggregate.group_expr.iter().try_for_each(|key| self.use_of(key, schema, &inner))?;
            return Ok(vec![None; aggregate.schema.fields().len()]);
        }
        let mut keys = Origins::new();
        for key in &aggregate.group_expr {
            keys.push(passed_of(key, schema, &inner)?);
        }
        let told = self.told_by(&keys);
        for (expr, key) in aggregate.group_expr.iter().zip(&keys) {
            match key.and_then(|origin| Some((origin, *told.get(&origin.scan)?))) {
                Some((origin, key)) if origin.column != key => {
                    self.scans[origin.scan].keys.insert(key);
                }
                // Rows are put into groups by it.
                _ => self.use_of(expr, schema, &inner)?,
            }
        }
        keys.resize(aggregate.schema.fields().len(), None);
        Ok(keys)
    }

    /// By scan whose rows groups of these keys tell apart, or mere copies of one row: the column that is a key of it.
    fn told_by(&self, keys: &Origins) -> BTreeMap<usize, usize> {
        let has = |key: Origin| {
            let is_equal = |(a, b): &(Origin, Origin)| {
                (*a == key && keys.contains(&Some(*b))) || (*b == key && keys.contains(&Some(*a)))
            };
            keys.contains(&Some(key)) || self.equal.iter().any(is_equal)
        };
        let scans: BTreeSet<usize> = keys.iter().flatten().map(|origin| origin.scan).collect();
        let key_of = |scan: usize| {
            let found = self.scans[scan].declared_keys().find(|column| has(Origin { scan, column: *column }));
            found.map(|column| (scan, column))
        };
        scans.into_iter().filter_map(key_of).collect()
    }

    /// Somebody looks at the columns that an expression names, or at all where it has a query in it.
    fn use_of(&mut self, expr: &Expr, schema: &DFSchema, origins: &Origins) -> DataFusionResult<()> {
        let mut used: Vec<usize> = Vec::new();
        match has_subquery(expr) {
            true => used.extend(0..origins.len()),
            false => {
                for column in expr.column_refs() {
                    used.push(schema.index_of_column(column)?);
                }
            }
        }
        for origin in used.into_iter().filter_map(|position| origins.get(position).copied().flatten()) {
            self.scans[origin.scan].used.insert(origin.column);
        }
        Ok(())
    }
}

/// Where a column comes from that is passed on by an expression over `schema`.
fn passed_of(expr: &Expr, schema: &DFSchema, origins: &Origins) -> DataFusionResult<Option<Origin>> {
    match passed(expr) {
        Some(column) => Ok(origins[schema.index_of_column(column)?]),
        None => Ok(None),
    }
}

fn has_subquery(expr: &Expr) -> bool {
    let mut found = false;
    let _ = expr.apply(|part| {
        found |= matches!(
            part,
            Expr::ScalarSubquery(_)
                | Expr::Exists(_)
                | Expr::InSubquery(_)
                | Expr::SetComparison(_)
                | Expr::OuterReferenceColumn(..)
        );
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    found
}
