//! A carved subtree in a logical plan: a leaf that remembers what it stands for.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::catalog::Session;
use datafusion::common::{DFSchemaRef, DataFusionError, Result as DataFusionResult};
use datafusion::logical_expr::{Expr, LogicalPlan, Sort, UserDefinedLogicalNodeCore};
use datafusion::physical_expr::PhysicalExpr;
use forebay_base::Result;
use forebay_context::error::into_datafusion;
use forebay_context::settings;
use forebay_engine::copies::CopyOptions;
use forebay_engine::query::{ExpectedRows, FactReports, FilterSource, Query, QueryTable, SortKey, TopK, choose_copies};
use forebay_engine::{Engine, RowFilter};
use forebay_pipeline::ir::{AggregateFunction, DictionaryId, Program};
use forebay_tables::assumptions::{Assumptions, Breach};
use forebay_tables::filter::Predicates;
use forebay_tables::rows::TableRows;

use crate::carver::Carver;
use crate::carver::table::ScannedTable;
use crate::eager::grouped_early;
use crate::early::computed_early;
use crate::emit::emit;
use crate::reason::Reason;
use crate::relation::Relation;
use crate::scalar::Scalar;
use crate::types::{facts_of, is_collected};
use forebay_tables::tree::Line;

/// A subtree that pipelines run.
#[derive(Debug, Clone)]
pub struct PipelinesNode {
    carved: Arc<Carved>,
}

/// What is known of the subtree. It holds no rows: those are of the statement that runs it.
#[derive(Debug)]
pub struct Carved {
    /// The subtree as DataFusion would run it.
    pub plan: LogicalPlan,
    /// The same as pipelines.
    pub program: Program,
    /// The tables that the pipelines scan, by the program's numbers.
    pub scans: Vec<CarvedScan>,
    /// As [`Query::expected_rows`].
    pub expected_rows: Vec<Option<f64>>,
    /// As [`Query::dictionaries`].
    pub dictionaries: Vec<Option<DictionaryId>>,
    /// As [`Query::first`].
    pub first: Option<TopK>,
    /// How the pipelines read: per pipeline its source, its steps, its sink.
    pub text: Vec<Vec<Line>>,
    /// Rows of the result, estimated.
    pub rows: f64,
    /// Runs them.
    pub engine: Arc<Engine>,
}

/// A table that pipelines scan.
#[derive(Debug)]
pub struct CarvedScan {
    /// Its rows.
    pub rows: TableRows,
    /// What the program takes for granted of them.
    pub assumes: Assumptions,
    /// As [`QueryTable::filters`].
    pub filters: Vec<Arc<dyn FilterSource>>,
    /// As [`QueryTable::expected`].
    pub expected: Option<ExpectedRows>,
    /// As [`QueryTable::fetched`].
    pub fetched: Vec<usize>,
}

impl Carved {
    /// The pipelines over the rows that a statement of `session` sees, for one run.
    ///
    /// # Errors
    /// [`Breach`] where these are not as the program assumes, and those of [`TableRows::bind`].
    pub fn bind(&self, session: &dyn Session) -> DataFusionResult<Query> {
        let bind = |scan: &CarvedScan| {
            let table = scan.rows.bind(session).map_err(into_datafusion)?;
            if let Some(breach) = scan.assumes.breach(&table) {
                return Err(DataFusionError::External(Box::new(Breach(breach))));
            }
            let (filters, expected) = (scan.filters.clone(), scan.expected);
            let (facts, fetched) = (FactReports::default(), scan.fetched.clone());
            Ok(QueryTable { table, filters, metrics: Arc::default(), expected, facts, copies: None, fetched })
        };
        let mut query = Query {
            program: self.program.clone(),
            expected_rows: self.expected_rows.clone(),
            tables: self.scans.iter().map(bind).collect::<DataFusionResult<_>>()?,
            schema: Arc::clone(self.plan.schema().inner()),
            dictionaries: self.dictionaries.clone(),
            first: self.first.clone(),
        };
        let (config, copies) = (session.config(), settings::copies(session.config()));
        let (scan, threads) = (settings::of_scans(config), config.target_partitions());
        let options = CopyOptions { copies: &copies, scan, threads };
        choose_copies(&self.engine, &mut query, &options).map_err(into_datafusion)?;
        Ok(query)
    }
}

impl PipelinesNode {
    /// `plan` as pipelines, if they can run all of it.
    pub fn carve(plan: &LogicalPlan, session: &dyn Session) -> std::result::Result<Self, Reason> {
        let mut carved = carve(plan, session, false)?;
        // What may grow is assumed with room to spare, wherever that changes nothing.
        if session.config().get_extension::<LeavesRoom>().is_some()
            && let Ok(roomy) = carve(plan, session, true)
            && roomy.program == carved.program
        {
            let assumed = roomy.scans.into_iter().map(|scan| scan.assumes);
            carved.scans.iter_mut().zip(assumed).for_each(|(scan, assumes)| scan.assumes = assumes);
        }
        Ok(Self { carved: Arc::new(carved) })
    }

    /// The same for an operator above that sorts and takes the first rows: others need not be given.
    #[must_use]
    pub fn with_first(mut self, sort: &Sort) -> Self {
        let schema = self.carved.plan.schema();
        let keys = sort.expr.iter().map_while(|expr| match &expr.expr {
            Expr::Column(column) => {
                let column = schema.maybe_index_of_column(column)?;
                Some(SortKey { column, descending: !expr.asc, nulls_first: expr.nulls_first })
            }
            _ => None,
        });
        let keys: Vec<SortKey> = keys.collect();
        if let (Some(rows), false, Some(carved)) = (sort.fetch, keys.is_empty(), Arc::get_mut(&mut self.carved)) {
            if let Some(collect) = carved.text.last_mut().and_then(|lines| lines.last_mut()) {
                collect.text += &format!(", of which the first {rows} are needed");
            }
            carved.first = Some(TopK { keys, rows });
        }
        self
    }

    /// What is known of the subtree.
    pub fn carved(&self) -> &Arc<Carved> {
        &self.carved
    }
}

/// Says that plans are made for rows that come, as a setting of a session: those that it makes assume less.
#[derive(Debug)]
pub struct LeavesRoom;

/// Whether operators could not be made of a plan because of a [`Breach`].
pub fn is_breach(error: &DataFusionError) -> bool {
    matches!(error.find_root(), DataFusionError::External(inner) if inner.is::<Breach>())
}

/// What pipelines run of `plan`; `leaves_room` as in [`Carver`].
fn carve(plan: &LogicalPlan, session: &dyn Session, leaves_room: bool) -> std::result::Result<Carved, Reason> {
    let mut carver = Carver::new(session);
    carver.leaves_room = leaves_room;
    let (relation, columns) = carver.relation(plan)?;
    if !relation.is_worth_it() {
        return Err(Reason::new("neither a join nor an aggregation"));
    }
    if is_in_zones(&carver, &relation) {
        return Err(Reason::new("metadata knows the answer"));
    }
    let mut columns = result_columns(plan, columns)?;
    let relation = carver.ordered(relation)?;
    for mut single in std::mem::take(&mut carver.one_row_relations) {
        single.relation = carver.ordered(single.relation)?;
        carver.one_row_relations.push(single);
    }
    let relation = grouped_early(&mut carver, relation)?;
    let relation = computed_early(&mut carver, relation, &mut columns);
    let emitted = emit(&carver, &relation, &columns)?;
    if let Err(error) = forebay_pipeline::verify(&emitted.program) {
        debug_assert!(false, "{error}\n{}", emitted.program);
        return Err(Reason::new(error.to_string()));
    }
    let rows = carver.rows(&relation);
    let engine = carver.engine.clone().ok_or_else(|| Reason::new("no table"))?;
    let assumptions = carver.assumptions();
    let scan = |(index, (scanned, assumes)): (usize, (ScannedTable, Assumptions))| CarvedScan {
        rows: scanned.rows_read,
        assumes,
        filters: scanned.residual.into_iter().map(|expr| Arc::new(Residual(expr)) as Arc<dyn FilterSource>).collect(),
        expected: emitted.expected_scans.get(&index).copied(),
        fetched: scanned.fetched,
    };
    Ok(Carved {
        plan: plan.clone(),
        scans: carver.tables.into_iter().zip(assumptions).enumerate().map(scan).collect(),
        program: emitted.program,
        expected_rows: emitted.expected_rows,
        dictionaries: emitted.dictionaries,
        first: None,
        text: emitted.text,
        rows,
        engine,
    })
}

/// The scalars of a plan's columns, if all of them can be handed over.
fn result_columns(plan: &LogicalPlan, columns: Vec<Option<Scalar>>) -> std::result::Result<Vec<Scalar>, Reason> {
    let fields = plan.schema().fields();
    if fields.is_empty() || fields.len() != columns.len() {
        return Err(Reason::new("a result without columns"));
    }
    let result = fields.iter().zip(columns).map(|(field, column)| {
        let refused = || Reason::new(format!("a result of type {}", field.data_type()));
        let column = column.ok_or_else(refused)?;
        let expected = facts_of(field.data_type(), true)?.value;
        let same = crate::registers::wider(column.facts().value, expected)
            == crate::registers::wider(expected, column.facts().value);
        let nulls = field.is_nullable() || !column.facts().nullable;
        match is_collected(field.data_type()) && same && nulls {
            true => Ok(column),
            false => Err(refused()),
        }
    });
    result.collect()
}

/// Whether DataFusion answers this from row counts, minima and maxima without a scan.
fn is_in_zones(carver: &Carver<'_>, relation: &Relation) -> bool {
    let Relation::Aggregate(aggregate) = relation else { return false };
    let Relation::Scan(table) = *aggregate.input else { return false };
    let scanned = &carver.tables[table];
    let known = aggregate.calls.iter().all(|call| {
        let column = call.argument.as_ref().map(|argument| (argument.as_variable().is_some(), argument.facts().value));
        match (call.function, column) {
            (AggregateFunction::CountRows, _) | (AggregateFunction::Count, Some((true, _))) => true,
            (AggregateFunction::Min | AggregateFunction::Max, Some((true, value))) => crate::facts::is_integer(value),
            _ => false,
        }
    });
    known && aggregate.keys.is_empty() && scanned.tests.is_empty() && scanned.residual.is_empty()
}

/// A predicate that pipelines cannot evaluate.
#[derive(Debug)]
struct Residual(Arc<dyn PhysicalExpr>);

impl FilterSource for Residual {
    fn filter(&self) -> Result<Box<dyn RowFilter>> {
        let predicates = Predicates { tests: Vec::new(), residual: vec![Arc::clone(&self.0)] };
        let mut filters = predicates.row_filters(false)?;
        filters.pop().ok_or_else(|| forebay_base::Error::internal("a predicate made no filter"))
    }
}

impl PartialEq for PipelinesNode {
    fn eq(&self, other: &Self) -> bool {
        let (carved, other) = (&self.carved, &other.carved);
        let has_all = |carved: &Carved| carved.first.is_none();
        Arc::ptr_eq(carved, other) || (has_all(carved) && has_all(other) && carved.plan == other.plan)
    }
}

impl Eq for PipelinesNode {}

impl PartialOrd for PipelinesNode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

impl Hash for PipelinesNode {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.carved.plan.hash(state);
    }
}

impl UserDefinedLogicalNodeCore for PipelinesNode {
    fn name(&self) -> &str {
        "Pipelines"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        Vec::new()
    }

    fn schema(&self) -> &DFSchemaRef {
        self.carved.plan.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The logical plan shows what was asked for, the physical plan how it is run.
        let text = self.carved.plan.display_indent().to_string();
        write!(f, "Pipelines")?;
        for line in text.lines() {
            write!(f, "\n    | {line}")?;
        }
        Ok(())
    }

    fn with_exprs_and_inputs(&self, _exprs: Vec<Expr>, _inputs: Vec<LogicalPlan>) -> DataFusionResult<Self> {
        Ok(self.clone())
    }
}
