//! Rounds at run time. All rows are kept in memory, in the form in which rows compare; what scans read is made of them anew for
//! each round.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::{Arc, Mutex};

use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::row::{OwnedRow, RowConverter, SortField};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, ReplaceChildrenOptions, reset_plan_states};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, InputDistributionRequirements, Partitioning,
    PlanProperties,
};
use forebay_base::Error;
use forebay_context::error::into_datafusion;
use forebay_context::lock::lock;
use futures::StreamExt;

use super::Which;

/// What the scans of a round read.
#[derive(Debug, Default)]
struct Round(Mutex<Option<[RecordBatch; 2]>>);

/// Runs rounds until one makes nothing new.
#[derive(Debug)]
pub struct KeyedRecursionExec {
    keys: Vec<usize>,
    is_distinct: bool,
    first: Arc<dyn ExecutionPlan>,
    next: Arc<dyn ExecutionPlan>,
    round: Arc<Round>,
    properties: Arc<PlanProperties>,
}

fn one_partition(schema: &SchemaRef, emission: EmissionType) -> Arc<PlanProperties> {
    let equivalences = EquivalenceProperties::new(Arc::clone(schema));
    Arc::new(PlanProperties::new(equivalences, Partitioning::UnknownPartitioning(1), emission, Boundedness::Bounded))
}

impl KeyedRecursionExec {
    /// Rounds of `next` behind the rows of `first`, of which those with the same values at the places `keys` replace each other;
    /// without places, all are kept.
    ///
    /// # Errors
    /// Operators that cannot be changed.
    pub fn new(
        number: usize,
        schema: SchemaRef,
        keys: Vec<usize>,
        is_distinct: bool,
        first: Arc<dyn ExecutionPlan>,
        next: Arc<dyn ExecutionPlan>,
    ) -> Result<Self> {
        let round = Arc::<Round>::default();
        let next = next.transform_up(|node| match node.downcast_ref::<RoundScanExec>() {
            Some(scan) if scan.number == number => {
                let scan = RoundScanExec { round: Some(Arc::clone(&round)), ..scan.clone() };
                Ok(Transformed::yes(Arc::new(scan) as Arc<dyn ExecutionPlan>))
            }
            _ => Ok(Transformed::no(node)),
        });
        let properties = one_partition(&schema, EmissionType::Final);
        Ok(Self { keys, is_distinct, first, next: next.data()?, round, properties })
    }

    fn with_children(&self, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let Ok([first, next]) = <[Arc<dyn ExecutionPlan>; 2]>::try_from(children) else {
            return internal_err!("a recursive query has first rows and a round");
        };
        Ok(Arc::new(Self {
            first,
            next,
            keys: self.keys.clone(),
            round: Arc::clone(&self.round),
            properties: Arc::clone(&self.properties),
            ..*self
        }))
    }
}

impl DisplayAs for KeyedRecursionExec {
    fn fmt_as(&self, _style: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyedRecursion: keys={:?}", self.keys)
    }
}

impl ExecutionPlan for KeyedRecursionExec {
    fn name(&self) -> &str {
        "KeyedRecursion"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.first, &self.next]
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition; 2])
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false, false]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false, false]
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.with_children(children)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.with_children(children)
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, _partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let memory = MemoryConsumer::new("recursive rows").register(context.memory_pool());
        let mut rows = KeyedRows::new(self.schema(), &self.keys, self.is_distinct, memory)?;
        let (first, next, round) = (Arc::clone(&self.first), Arc::clone(&self.next), Arc::clone(&self.round));
        let schema = self.schema();
        let whole = async move {
            rows.take(first, &context).await?;
            while let Some(last) = rows.changed()? {
                *lock(&round.0) = Some([last, rows.all()?]);
                rows.take(reset_plan_states(Arc::clone(&next))?, &context).await?;
            }
            rows.all()
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, futures::stream::once(whole))))
    }
}

/// One row for each key, in the order in which keys came.
struct KeyedRows {
    schema: SchemaRef,
    keys: Vec<usize>,
    is_distinct: bool,
    of_keys: RowConverter,
    of_rows: RowConverter,
    places: HashMap<OwnedRow, usize>,
    rows: Vec<OwnedRow>,
    /// The places of rows that the round made or changed, each once.
    changed: Vec<usize>,
    /// The round that changed each of them last.
    rounds: Vec<usize>,
    round: usize,
    memory: MemoryReservation,
}

impl KeyedRows {
    fn new(schema: SchemaRef, keys: &[usize], is_distinct: bool, memory: MemoryReservation) -> Result<Self> {
        let field = |at: usize| SortField::new(schema.field(at).data_type().clone());
        let of_keys = RowConverter::new(keys.iter().map(|key| field(*key)).collect())?;
        let of_rows = RowConverter::new((0..schema.fields().len()).map(field).collect())?;
        Ok(Self {
            keys: keys.to_vec(),
            is_distinct,
            of_keys,
            of_rows,
            schema,
            places: HashMap::new(),
            rows: Vec::new(),
            changed: Vec::new(),
            rounds: Vec::new(),
            round: 1,
            memory,
        })
    }

    /// Takes the rows of a plan.
    async fn take(&mut self, plan: Arc<dyn ExecutionPlan>, context: &Arc<TaskContext>) -> Result<()> {
        let mut batches = plan.execute(0, Arc::clone(context))?;
        while let Some(batch) = batches.next().await {
            self.add(&batch?)?;
        }
        Ok(())
    }

    fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let fields = self.schema.fields().iter();
        let columns = batch.columns().iter().zip(fields).map(|(column, field)| cast(column, field.data_type()));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        if self.keys.is_empty() {
            return self.append(&columns);
        }
        let keys: Vec<_> = self.keys.iter().map(|key| Arc::clone(&columns[*key])).collect();
        let (keys, rows) = (self.of_keys.convert_columns(&keys)?, self.of_rows.convert_columns(&columns)?);
        for (key, row) in keys.iter().zip(rows.iter()) {
            let bytes = key.as_ref().len() + row.as_ref().len();
            let place = match self.places.entry(key.owned()) {
                Entry::Vacant(vacant) => {
                    self.memory.try_grow(bytes + 2 * size_of::<(OwnedRow, usize)>())?;
                    self.rows.push(row.owned());
                    self.rounds.push(0);
                    *vacant.insert(self.rows.len() - 1)
                }
                Entry::Occupied(known) => {
                    let place = *known.get();
                    if self.is_distinct && self.rows[place].row() == row {
                        continue;
                    }
                    self.rows[place] = row.owned();
                    place
                }
            };
            if self.rounds[place] != self.round {
                self.rounds[place] = self.round;
                self.changed.push(place);
            }
        }
        Ok(())
    }

    /// Keeps all of these rows.
    fn append(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let rows = self.of_rows.convert_columns(columns)?;
        for row in &rows {
            self.memory.try_grow(row.as_ref().len() + size_of::<(OwnedRow, usize)>())?;
            self.changed.push(self.rows.len());
            self.rows.push(row.owned());
            self.rounds.push(self.round);
        }
        Ok(())
    }

    /// The rows that the round made or changed, if there are any; the next round begins.
    fn changed(&mut self) -> Result<Option<RecordBatch>> {
        self.round += 1;
        let changed = std::mem::take(&mut self.changed);
        match changed.is_empty() {
            true => Ok(None),
            false => self.batch(changed.iter().map(|place| &self.rows[*place])).map(Some),
        }
    }

    fn all(&self) -> Result<RecordBatch> {
        self.batch(self.rows.iter())
    }

    fn batch<'a>(&self, rows: impl Iterator<Item = &'a OwnedRow>) -> Result<RecordBatch> {
        let columns = self.of_rows.convert_rows(rows.map(OwnedRow::row))?;
        let fields = self.schema.fields().iter();
        let columns = columns.iter().zip(fields).map(|(column, field)| cast(column, field.data_type()));
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns.collect::<Result<_, _>>()?)?)
    }
}

/// Reads rows of the rounds before.
#[derive(Debug, Clone)]
pub struct RoundScanExec {
    number: usize,
    which: Which,
    projection: Option<Vec<usize>>,
    /// Where the rows are, known to who is below the operator that makes them.
    round: Option<Arc<Round>>,
    properties: Arc<PlanProperties>,
}

impl RoundScanExec {
    /// A scan of these columns; `schema` is what comes out.
    pub fn new(number: usize, which: Which, projection: Option<Vec<usize>>, schema: &SchemaRef) -> Self {
        let properties = one_partition(schema, EmissionType::Incremental);
        Self { number, which, projection, round: None, properties }
    }
}

impl DisplayAs for RoundScanExec {
    fn fmt_as(&self, _style: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RoundScan: {:?}", self.which)
    }
}

impl ExecutionPlan for RoundScanExec {
    fn name(&self) -> &str {
        "RoundScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn replace_children(
        self: Arc<Self>,
        _children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(self: Arc<Self>, _children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, _partition: usize, _context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = self.round.as_ref().and_then(|round| lock(&round.0).clone());
        let Some([last, all]) = rows else {
            let message =
                "a recursive query with keys is read by a subquery in the place of a value, which is not supported";
            return Err(into_datafusion(Error::unsupported(message).hint("Join its rows in FROM")));
        };
        let batch = if self.which == Which::Last { last } else { all };
        let batch = match &self.projection {
            Some(places) => batch.project(places)?,
            None => batch,
        };
        let schema = self.schema();
        let batch = batch.with_schema(Arc::clone(&schema)).map_err(DataFusionError::from);
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, futures::stream::once(async move { batch }))))
    }
}
