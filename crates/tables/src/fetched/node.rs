//! Columns of a table that are fetched by the places of its rows, in a logical plan.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::{Column, DFSchemaRef, DataFusionError, Result as DataFusionResult};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{EmptyRelation, Expr, LogicalPlan, UserDefinedLogicalNode, UserDefinedLogicalNodeCore};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{ExtensionPlanner, PhysicalPlanner};
use forebay_base::Error;
use forebay_context::error::into_datafusion;
use forebay_context::settings;
use forebay_context::statement::StatementContext;

use super::not_unique;
use super::operator::{FetchExec, Fetched};
use crate::assumptions::Breach;
use crate::table::ForebayTable;

/// Where a column of the result comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Output {
    /// The column of the input at this position.
    Input(usize),
    /// The fetched column with this number.
    Fetched(usize),
}

/// Gives the rows of its input with columns of a table, whose places the input has.
#[derive(Debug, Clone)]
pub struct FetchNode {
    input: LogicalPlan,
    /// The input's column of places.
    place: Column,
    table: Arc<ForebayTable>,
    /// What the plan calls the table.
    name: String,
    /// Positions in the table's list of columns.
    columns: Vec<usize>,
    outputs: Vec<Output>,
    /// Columns of the table of which it takes for granted that no two rows have the same value.
    keys: BTreeSet<usize>,
    schema: DFSchemaRef,
}

impl FetchNode {
    /// Of `table`, whose scan in the input gives places; the result has the columns of `schema`. It has no input yet.
    pub(super) fn new(
        (table, name): (Arc<ForebayTable>, String),
        (columns, outputs): (Vec<usize>, Vec<Output>),
        place: Column,
        schema: &DFSchemaRef,
    ) -> Self {
        let nothing = EmptyRelation { produce_one_row: false, schema: Arc::clone(schema) };
        let input = LogicalPlan::EmptyRelation(nothing);
        Self { input, place, table, name, columns, outputs, keys: BTreeSet::new(), schema: Arc::clone(schema) }
    }

    /// The same, which takes for granted that no two rows have the same value of one of these columns.
    pub(super) fn relying_on(self, keys: &BTreeSet<usize>) -> Self {
        Self { keys: keys.clone(), ..self }
    }

    /// The same above this input.
    ///
    /// # Errors
    /// Where the input has no places.
    pub(super) fn over(self, input: LogicalPlan) -> DataFusionResult<Self> {
        input.schema().index_of_column(&self.place)?;
        Ok(Self { input, ..self })
    }

    /// What tells it from others, but for its input.
    fn identity(&self) -> (&str, &Column, &[usize], &[Output]) {
        (&self.name, &self.place, &self.columns, &self.outputs)
    }

    /// What is fetched of a table that is called so.
    fn text(&self, table: &str) -> String {
        let schema = datafusion::catalog::TableProvider::schema(self.table.as_ref());
        let names: Vec<&str> = self.columns.iter().map(|column| schema.field(*column).name().as_str()).collect();
        format!("table={table}, columns=[{}]", names.join(", "))
    }
}

impl PartialEq for FetchNode {
    fn eq(&self, other: &Self) -> bool {
        self.identity() == other.identity() && self.input == other.input && self.schema == other.schema
    }
}

impl Eq for FetchNode {}

impl PartialOrd for FetchNode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

impl Hash for FetchNode {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.identity().hash(state);
        self.input.hash(state);
    }
}

impl UserDefinedLogicalNodeCore for FetchNode {
    fn name(&self) -> &str {
        "Fetch"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fetch: {}", self.text(&self.name))
    }

    fn with_exprs_and_inputs(&self, _exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> DataFusionResult<Self> {
        let lost = || DataFusionError::Internal("a fetch has one input".to_owned());
        self.clone().over(inputs.into_iter().next().ok_or_else(lost)?)
    }
}

/// Plans them.
#[derive(Debug)]
pub struct FetchPlanner;

#[async_trait]
impl ExtensionPlanner for FetchPlanner {
    async fn plan_extension(
        &self,
        _planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _logical_inputs: &[&LogicalPlan],
        physical_inputs: &[Arc<dyn ExecutionPlan>],
        session: &dyn Session,
        _context: &PhysicalPlanningContext,
    ) -> DataFusionResult<Option<Arc<dyn ExecutionPlan>>> {
        let (Some(node), [input]) = (node.as_any().downcast_ref::<FetchNode>(), physical_inputs) else {
            return Ok(None);
        };
        let config = session.config();
        let Some(statement) = config.get_extension::<StatementContext>() else {
            return Err(into_datafusion(Error::internal("rows are fetched outside of a statement")));
        };
        let own = node.table.rows().own().bind(session).map_err(into_datafusion)?;
        if let Some(column) = not_unique(node.table.engine(), &own, &node.keys, session)? {
            let breach = format!("{} of {} is unique", own.columns[column].name, own.full_name());
            return Err(DataFusionError::External(Box::new(Breach(breach))));
        }
        let table = node.table.rows().bind(session).map_err(into_datafusion)?;
        let fetched = Fetched {
            engine: Arc::clone(node.table.engine()),
            text: node.text(&table.full_name()),
            table,
            columns: node.columns.clone(),
            place: node.input.schema().index_of_column(&node.place)?,
            outputs: node.outputs.clone(),
            settings: settings::of_scans(config),
            statement,
        };
        Ok(Some(Arc::new(FetchExec::new(Arc::clone(input), fetched, Arc::clone(node.schema.inner())))))
    }
}
