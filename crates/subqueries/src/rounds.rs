//! Recursive queries with keys: a round's row takes the place of the one that has its key, and the next round reads the rows that
//! are new or changed. The query may also read all rows so far. One that reads the rows of the last round in several places is run so,
//! too.
//!
//! ```text
//! KeyedRecursion #1: t by k
//!   the first rows
//!   the rows of a round, made of what scans of t read: those of the last round, or all of them
//! ```

pub mod operator;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::catalog::Session;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, DFSchemaRef, Result, ScalarValue, internal_err, plan_err};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{
    ColumnarValue, Expr, Extension, Filter, LogicalPlan, RecursiveQuery, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, TableScan, TableScanBuilder, TableSource, UserDefinedLogicalNode, UserDefinedLogicalNodeCore,
    Volatility,
};
use datafusion::optimizer::analyzer::AnalyzerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{ExtensionPlanner, PhysicalPlanner};
use forebay_grammar::recursions::{EVERY_ROUND, USING_KEY};

use crate::plans::rewrite_nodes;
use crate::recursion::recursive_name;
use operator::{KeyedRecursionExec, RoundScanExec};

/// The functions that mark such queries. They hold of every row.
pub fn functions() -> impl Iterator<Item = ScalarUDF> {
    [USING_KEY, EVERY_ROUND].into_iter().map(|name| {
        let signature = Signature::one_of(
            vec![
                datafusion::logical_expr::TypeSignature::Nullary,
                datafusion::logical_expr::TypeSignature::VariadicAny,
            ],
            Volatility::Volatile,
        );
        ScalarUDF::from(Mark { name, signature })
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Mark {
    name: &'static str,
    signature: Signature,
}

impl ScalarUDFImpl for Mark {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(ColumnarValue::Scalar(ScalarValue::Boolean(Some(true))))
    }
}

/// The arguments of a mark that a node is a filter by.
fn marked<'a>(plan: &'a LogicalPlan, name: &str) -> Option<&'a [Expr]> {
    let LogicalPlan::Filter(Filter { predicate, .. }) = plan else { return None };
    // Conditions are cast to what they should be.
    let call = match predicate {
        Expr::Cast(cast) => cast.expr.as_ref(),
        other => other,
    };
    match call {
        Expr::ScalarFunction(call) if call.name() == name => Some(&call.args),
        _ => None,
    }
}

/// Which rows a scan reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Which {
    /// Those that the last round made or changed.
    Last,
    /// All so far.
    All,
}

/// Rows of a recursive query with keys, as a table.
struct Rounds {
    number: usize,
    which: Which,
    schema: SchemaRef,
}

impl TableSource for Rounds {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

/// A recursive query with keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyedRecursion {
    number: usize,
    name: String,
    /// The places of the key's columns; without any, all rows are kept.
    keys: Vec<usize>,
    /// Rows that are there already are not of the next round.
    is_distinct: bool,
    first: Arc<LogicalPlan>,
    next: Arc<LogicalPlan>,
    schema: DFSchemaRef,
}

impl Hash for KeyedRecursion {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.number.hash(state);
    }
}

impl PartialOrd for KeyedRecursion {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        self.number.partial_cmp(&other.number)
    }
}

impl UserDefinedLogicalNodeCore for KeyedRecursion {
    fn name(&self) -> &str {
        "KeyedRecursion"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.first, &self.next]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<&str> = self.keys.iter().map(|key| self.schema.field(*key).name().as_str()).collect();
        write!(f, "KeyedRecursion: {} by {}", self.name, keys.join(", "))
    }

    fn with_exprs_and_inputs(&self, _exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        let Ok([first, next]) = <[LogicalPlan; 2]>::try_from(inputs) else {
            return internal_err!("a recursive query has first rows and a round");
        };
        Ok(Self { first: Arc::new(first), next: Arc::new(next), ..self.clone() })
    }

    fn necessary_children_exprs(&self, _output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        let all = |plan: &LogicalPlan| (0..plan.schema().fields().len()).collect();
        Some(vec![all(&self.first), all(&self.next)])
    }
}

impl KeyedRecursion {
    /// Whether `plan` is one.
    pub fn is(plan: &LogicalPlan) -> bool {
        matches!(plan, LogicalPlan::Extension(extension) if extension.node.as_any().is::<Self>())
    }
}

/// Makes such nodes of recursive queries that are marked.
#[derive(Debug)]
pub struct KeyedRecursions;

impl AnalyzerRule for KeyedRecursions {
    fn name(&self) -> &str {
        "keyed_recursions"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let is_recursive = |node: &LogicalPlan| matches!(node, LogicalPlan::RecursiveQuery(_));
        rewrite_nodes(plan, is_recursive, |node| match node {
            LogicalPlan::RecursiveQuery(query) => keyed(query),
            other => Ok(Transformed::no(other)),
        })
        .data()
    }
}

fn keyed(query: RecursiveQuery) -> Result<Transformed<LogicalPlan>> {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let keys = match keys_of(&query.static_term)? {
        Some(keys) => keys,
        // The planner's own rounds have one reader, in FROM. Of equal rows UNION keeps one, UNION ALL keeps all.
        None if readers(&query)? > 1 && query.is_distinct => (0..query.static_term.schema().fields().len()).collect(),
        None if readers(&query)? > 1 => Vec::new(),
        None => return Ok(Transformed::no(LogicalPlan::RecursiveQuery(query))),
    };
    let first = without_mark(query.static_term.as_ref().clone(), USING_KEY)?;
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let next = query.recursive_term.as_ref().clone().transform_down_with_subqueries(|node| {
        if marked(&node, EVERY_ROUND).is_some() {
            let all = without_mark(node, EVERY_ROUND)?;
            return Ok(Transformed::yes(reading(all, &query.name, number, Which::All)?));
        }
        match &node {
            LogicalPlan::TableScan(_) => Ok(Transformed::yes(reading(node, &query.name, number, Which::Last)?)),
            _ => Ok(Transformed::no(node)),
        }
    })?;
    let schema = query.static_term.schema();
    let fields = schema
        .iter()
        .map(|(relation, field)| (relation.cloned(), Arc::new(field.as_ref().clone().with_nullable(true))));
    let schema = Arc::new(DFSchema::new_with_metadata(fields.collect(), schema.metadata().clone())?);
    let (name, is_distinct) = (query.name, query.is_distinct);
    let node =
        KeyedRecursion { number, name, keys, is_distinct, first: Arc::new(first), next: Arc::new(next.data), schema };
    Ok(Transformed::yes(LogicalPlan::Extension(Extension { node: Arc::new(node) })))
}

/// How many scans read the rows of the last round; those in subqueries count as several.
fn readers(query: &RecursiveQuery) -> Result<usize> {
    let mut all = 0;
    let count = |node: &LogicalPlan, all: &mut usize, by: usize| {
        *all += usize::from(recursive_name(node).as_ref() == Some(&query.name)) * by;
        Ok(TreeNodeRecursion::Continue)
    };
    query.recursive_term.apply_with_subqueries(|node| count(node, &mut all, 2))?;
    let mut in_from = 0;
    query.recursive_term.apply(|node| count(node, &mut in_from, 1))?;
    // One that is not in a subquery counts once.
    Ok(all - in_from)
}

/// The places of the keys that a mark near the top names.
fn keys_of(plan: &LogicalPlan) -> Result<Option<Vec<usize>>> {
    let mut node = plan;
    loop {
        if let Some(args) = marked(node, USING_KEY) {
            let place = |key: &Expr| match key {
                Expr::Column(column) => node.schema().index_of_column(column),
                other => plan_err!("the key {other} of a recursive query is no column"),
            };
            return args.iter().map(place).collect::<Result<Vec<_>>>().map(Some);
        }
        match (node, node.inputs().as_slice()) {
            (LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_), [only]) => node = only,
            _ => return Ok(None),
        }
    }
}

/// The plan without its first filter by a mark.
fn without_mark(plan: LogicalPlan, name: &str) -> Result<LogicalPlan> {
    plan.transform_down(|node| match &node {
        LogicalPlan::Filter(filter) if marked(&node, name).is_some() => {
            let input = filter.input.as_ref().clone();
            Ok(Transformed::new(input, true, TreeNodeRecursion::Stop))
        }
        _ => Ok(Transformed::no(node)),
    })
    .data()
}

/// The plan, whose scan of a recursive query's own rows is one of these.
fn reading(plan: LogicalPlan, name: &str, number: usize, which: Which) -> Result<LogicalPlan> {
    plan.transform_up(|node| {
        let (Some(own), LogicalPlan::TableScan(scan)) = (recursive_name(&node), &node) else {
            return Ok(Transformed::no(node));
        };
        if own != name {
            return Ok(Transformed::no(node));
        }
        let source = Arc::new(Rounds { number, which, schema: scan.source.schema() });
        let scan = TableScanBuilder::new(scan.table_name.clone(), source)
            .with_projection(scan.projection.clone())
            .with_filters(scan.filters.clone())
            .with_fetch(scan.fetch)
            .build()?;
        Ok(Transformed::yes(LogicalPlan::TableScan(scan)))
    })
    .data()
}

/// Plans the operators.
#[derive(Debug)]
pub struct RoundsPlanner;

#[async_trait]
impl ExtensionPlanner for RoundsPlanner {
    async fn plan_extension(
        &self,
        _planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _logical_inputs: &[&LogicalPlan],
        physical_inputs: &[Arc<dyn ExecutionPlan>],
        _session: &dyn Session,
        _context: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        match (node.as_any().downcast_ref::<KeyedRecursion>(), physical_inputs) {
            (Some(node), [first, next]) => {
                let (schema, keys) = (Arc::clone(node.schema.inner()), node.keys.clone());
                let (first, next) = (Arc::clone(first), Arc::clone(next));
                let made = KeyedRecursionExec::new(node.number, schema, keys, node.is_distinct, first, next)?;
                Ok(Some(Arc::new(made)))
            }
            _ => Ok(None),
        }
    }

    async fn plan_table_scan(
        &self,
        _planner: &dyn PhysicalPlanner,
        scan: &TableScan,
        _session: &dyn Session,
        _context: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(source) = scan.source.downcast_ref::<Rounds>() else { return Ok(None) };
        let (projection, schema) = (scan.projection.clone(), scan.projected_schema.inner());
        Ok(Some(Arc::new(RoundScanExec::new(source.number, source.which, projection, schema))))
    }
}
