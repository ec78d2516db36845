//! Tables as sources of pipelines: which predicates run on codes, which within pipelines, which as filters of the scan, and
//! what is known of columns, which the plan then assumes.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::Schema;
use datafusion::catalog::TableProvider;
use datafusion::common::DFSchema;
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::expr_rewriter::unnormalize_col;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator, TableScan};
use datafusion::physical_expr::PhysicalExpr;
use forebay_base::{LogicalType, PhysicalType};
use forebay_context::settings::Sargs;
use forebay_engine::types::arrow_type;
use forebay_pipeline::ir::ValueType;
use forebay_pipeline::{ColumnPredicate, Predicate, merge_tests};
use forebay_store::{ColumnBounds, Constraint, TableSnapshot};
use forebay_tables::assumptions::{AssumedColumn, Assumptions};
use forebay_tables::filter::Predicates;
use forebay_tables::predicate::{TranslatedConjunct as Tested, translate};
use forebay_tables::rows::TableRows;
use forebay_tables::statistics::{UNKNOWN_SELECTIVITY, test_selectivity};
use forebay_tables::table::{ForebayTable, physical};

use crate::carver::expression::Scope;
use crate::carver::{CarvedInput, Carver};
use crate::facts::{Variable, width};
use crate::reason::Reason;
use crate::relation::{Relation, VariableInfo, filtered};
use crate::scalar::Scalar;
use crate::types::{column_bounds, facts_of};
use forebay_pipeline::interval::Interval;

/// Encoded bytes per row up to which a column of strings has few different ones: codes of two bytes, and the dictionary.
const DICTIONARY_ROW_BYTES: f64 = 2.5;

/// Rows up to which every column of strings is worth a dictionary.
const SMALL_TABLE_ROWS: u64 = 20_000;

/// One scan of a table.
#[derive(Debug)]
pub struct ScannedTable {
    /// The table.
    pub table: Arc<TableSnapshot>,
    /// Where its rows are found when the plan is run.
    pub rows_read: TableRows,
    /// What the query calls it.
    pub alias: String,
    /// Tests on codes.
    pub tests: Vec<ColumnPredicate>,
    /// What neither codes nor pipelines can answer, over the table's columns.
    pub residual: Vec<Arc<dyn PhysicalExpr>>,
    /// Rows that pass, estimated.
    pub rows: f64,
    /// Columns that are fetched behind the plan.
    pub fetched: Vec<usize>,
    /// The columns that the query reads.
    columns: BTreeMap<usize, Variable>,
    /// What is computed where it is scanned, and carried from there.
    pub computed: Vec<(Variable, Scalar)>,
    /// What the plan takes for granted of its columns.
    assumed: Vec<AssumedColumn>,
}

impl ScannedTable {
    /// The columns that the query reads, and what is computed of them.
    pub fn variables(&self) -> impl Iterator<Item = Variable> + '_ {
        self.columns.values().copied().chain(self.computed.iter().map(|(variable, _)| *variable))
    }

    /// How a column is stored.
    pub fn physical(&self, column: usize) -> PhysicalType {
        self.table.columns[column].logical.physical()
    }

    /// What the plan takes for granted of the table, of whose rows there are at most so many where that matters.
    pub fn assumptions(&self, most_rows: Option<u64>) -> Assumptions {
        Assumptions { estimated_rows: self.table.rows(), most_rows, columns: self.assumed.clone() }
    }

    /// Whether strings of this column are better carried as ids of a dictionary.
    pub fn is_dictionary(&self, column: usize) -> bool {
        let rows = self.table.rows();
        let is_small = |bytes| bytes <= DICTIONARY_ROW_BYTES;
        rows <= SMALL_TABLE_ROWS || self.table.encoded_row_bytes(column).is_some_and(is_small)
    }

    /// Whether these columns hold all columns of a declared key. Nobody enforces it, so only estimates may rely on it.
    pub fn holds_key(&self, columns: &[usize]) -> bool {
        let holds = |ids: &[forebay_base::ColumnId]| {
            ids.iter().all(|id| columns.iter().any(|column| self.table.columns[*column].id == *id))
        };
        self.table.constraints.iter().any(|constraint| match constraint {
            Constraint::PrimaryKey(ids) | Constraint::Unique(ids) => holds(ids),
            Constraint::ForeignKey { .. } | Constraint::Check { .. } => false,
        })
    }
}

/// `a = 1 OR a = 2 OR a IN (3, 4)` as one list, which codes answer.
fn one_of(predicate: &Expr) -> Option<Expr> {
    fn collect<'e>(predicate: &'e Expr, column: &mut Option<&'e Expr>, list: &mut Vec<Expr>) -> Option<()> {
        let (subject, values) = match predicate {
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
                collect(left, column, list)?;
                return collect(right, column, list);
            }
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => (left, std::slice::from_ref(&**right)),
            Expr::InList(InList { expr, list, negated: false }) => (expr, list.as_slice()),
            _ => return None,
        };
        let is_constant = |value: &Expr| matches!(value, Expr::Literal(..));
        if !matches!(**subject, Expr::Column(_)) || !values.iter().all(is_constant) {
            return None;
        }
        list.extend_from_slice(values);
        (*column.get_or_insert(subject) == &**subject).then_some(())
    }
    let Expr::BinaryExpr(BinaryExpr { op: Operator::Or, .. }) = predicate else { return None };
    let (mut column, mut list) = (None, Vec::new());
    collect(predicate, &mut column, &mut list)?;
    Some(Expr::InList(InList::new(Box::new(column?.clone()), list, false)))
}

/// Whether a predicate compares columns, so that no test on the codes of one follows from it.
fn is_of_several_columns(predicate: &Expr) -> bool {
    let Expr::BinaryExpr(BinaryExpr { op, .. }) = predicate else { return false };
    !matches!(op, Operator::And | Operator::Or) && predicate.column_refs().len() > 1
}

impl Carver<'_> {
    /// A scan of one of our tables.
    pub fn scan(&mut self, scan: &TableScan) -> Result<CarvedInput, Reason> {
        let provider = source_as_provider(&scan.source).map_err(|_| Reason::new("a scan of what is not a table"))?;
        let any: &dyn Any = provider.as_ref();
        let Some(forebay) = any.downcast_ref::<ForebayTable>() else {
            return Err(Reason::new(format!("a scan of {}", scan.table_name)));
        };
        if scan.fetch.is_some() {
            return Err(Reason::new("a scan with LIMIT"));
        }
        let rows_read = forebay.rows().clone();
        let table = rows_read.bind(self.session).map_err(|error| Reason::new(error.to_string()))?;
        let schema = forebay.schema();
        self.engine = Some(Arc::clone(forebay.engine()));
        let position = self.tables.len();
        let rows = table.rows() as f64;
        let alias = scan.table_name.table().to_owned();
        let columns = BTreeMap::new();
        let computed = Vec::new();
        self.tables.push(ScannedTable {
            table,
            rows_read,
            alias,
            tests: Vec::new(),
            residual: Vec::new(),
            rows,
            fetched: forebay.fetched().to_vec(),
            columns,
            computed,
            assumed: Vec::new(),
        });
        let predicates = self.scan_filters(position, &schema, scan)?;
        let projection: Vec<usize> = match &scan.projection {
            Some(columns) => columns.clone(),
            None => (0..schema.fields().len()).collect(),
        };
        // Names repeat from table to table, so that a plan's columns are found by position.
        let columns = projection.into_iter().map(|column| self.column(position, column).ok()).collect();
        self.narrow(position);
        Ok((filtered(Relation::Scan(position), predicates), columns))
    }

    /// Takes note that what is tested on codes has fewer different values behind the scan.
    fn narrow(&mut self, position: usize) {
        let scanned = &self.tables[position];
        for test in &scanned.tests {
            let Some(variable) = scanned.columns.get(&test.column) else { continue };
            let info = &mut self.variables[variable.0 as usize];
            let column = test.column;
            let (bounds, distribution) = (scanned.table.bounds(column), scanned.table.distribution(column));
            let share = || test_selectivity(&test.test, bounds, distribution, &scanned.table.columns[column].logical);
            info.distinct = match &test.test {
                Predicate::Range { low, high } if low == high => 1.0,
                Predicate::Range { .. } => (info.distinct * share()).max(1.0),
                Predicate::In(values) => info.distinct.min(values.len() as f64),
                _ => info.distinct,
            };
        }
    }

    /// Divides the filters of a scan; gives those that pipelines evaluate.
    fn scan_filters(&mut self, position: usize, schema: &Schema, scan: &TableScan) -> Result<Vec<Scalar>, Reason> {
        let lost = |error: datafusion::common::DataFusionError| Reason::new(error.strip_backtrace());
        let bare = DFSchema::try_from(schema.clone()).map_err(lost)?;
        let types: Vec<LogicalType> =
            self.tables[position].table.columns.iter().map(|column| column.logical.clone()).collect();
        let mut predicates = Vec::new();
        let on_codes = Sargs::of(self.session.config()).on_codes;
        for part in scan.filters.iter().flat_map(split_conjunction) {
            let part = unnormalize_col(part.clone());
            let part = one_of(&part).unwrap_or(part);
            if (!on_codes || is_of_several_columns(&part))
                && let Ok(scalar) = self.scan_predicate(position, &bare, &part)
            {
                predicates.push(scalar);
                continue;
            }
            let tested = physical(&part, &bare, self.session).map_err(lost)?;
            let parts = Predicates::of(std::slice::from_ref(&tested), &types);
            self.tables[position].tests.extend(parts.tests);
            for residual in parts.residual {
                // A filter that is a conjunction after all would be evaluated twice, which is no harm.
                debug_assert!(matches!(translate(&residual, &types), Tested::Implied(_)));
                match self.scan_predicate(position, &bare, &part) {
                    Ok(scalar) => predicates.push(scalar),
                    Err(_) => self.tables[position].residual.push(residual),
                }
            }
        }
        let scanned = &mut self.tables[position];
        scanned.tests = merge_tests(std::mem::take(&mut scanned.tests));
        let mut selectivity = UNKNOWN_SELECTIVITY.powi(scanned.residual.len().min(3) as i32);
        for test in &scanned.tests {
            let (bounds, distribution) = (scanned.table.bounds(test.column), scanned.table.distribution(test.column));
            selectivity *= test_selectivity(&test.test, bounds, distribution, &types[test.column]);
        }
        scanned.rows *= selectivity;
        Ok(predicates)
    }

    fn scan_predicate(&mut self, position: usize, schema: &DFSchema, part: &Expr) -> Result<Scalar, Reason> {
        let mut columns = vec![None; schema.fields().len()];
        for column in part.column_refs() {
            if let Some(index) = schema.maybe_index_of_column(column) {
                columns[index] = Some(self.column(position, index)?);
            }
        }
        let scalar = self.expression(part, &Scope { schema, columns: &columns })?;
        match scalar.facts().value {
            ValueType::Bool => Ok(scalar),
            _ => Err(Reason::new("a predicate that is not boolean")),
        }
    }

    /// A column of a scanned table.
    fn column(&mut self, position: usize, column: usize) -> Result<Scalar, Reason> {
        if let Some(known) = self.tables[position].columns.get(&column) {
            return Ok(self.scalar(*known));
        }
        let scanned = &self.tables[position];
        let definition = &scanned.table.columns[column];
        let data_type = arrow_type(&definition.logical);
        let bounds = scanned.table.bounds(column);
        let is_never_null = definition.nullable && bounds.is_some_and(|bounds| bounds.nulls == 0);
        let mut facts = facts_of(&data_type, definition.nullable && !is_never_null)?;
        let mut range = None;
        let rows = scanned.table.rows() as f64;
        let known = scanned.table.distribution(column).map_or(rows, |known| known.distinct.round());
        let mut distinct = rows.min(known.max(1.0));
        match facts.value {
            ValueType::I64 | ValueType::I128 => {
                facts.interval = facts.interval.within(column_bounds(&data_type));
                let mut known = facts.interval;
                if let Some((low, high)) = bounds.and_then(ColumnBounds::integers) {
                    known = facts.interval.within(Interval::new(low, high));
                    facts.interval = if self.leaves_room { facts.interval.within(known.with_room()) } else { known };
                    range = Some(facts.interval);
                }
                facts.value = width(facts.interval);
                let span = known.high.saturating_sub(known.low).saturating_add(1);
                distinct = distinct.min(span as f64);
            }
            ValueType::Bool | ValueType::F64 | ValueType::Bytes => {}
        }
        let name = format!("{}.{}", scanned.alias, definition.name);
        let info = VariableInfo { name, facts, distinct, column: Some((position, column)), same_as: None };
        let variable = self.variable(info);
        let scanned = &mut self.tables[position];
        scanned.columns.insert(column, variable);
        if range.is_some() || is_never_null {
            let column = scanned.table.columns[column].id;
            scanned.assumed.push(AssumedColumn { column, range, is_never_null });
        }
        Ok(self.scalar(variable))
    }
}
