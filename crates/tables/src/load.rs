//! Rows of a physical plan into new segments: INSERT, COPY … FROM and CREATE TABLE AS.

use std::sync::{Arc, Mutex, PoisonError};

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::arrow::datatypes::{DataType, Int64Type, SchemaRef};
use datafusion::arrow::util::display::FormatOptions;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use forebay_base::budget::Tier;
use forebay_base::{Context, Error, LogicalType, Result};
use forebay_context::error::{from_datafusion, worker_error};
use forebay_context::settings;
use forebay_context::statement::StatementContext;
use forebay_engine::run::schema_of_columns;
use forebay_engine::{Engine, LoadTarget, Loader};
use forebay_functions::casts;
use forebay_store::{Column, SealedSegment, TableOptions};
use futures::StreamExt;
use tokio::task::JoinSet;

/// Rows that were loaded.
pub struct Loaded {
    /// Segments with them: none without rows.
    pub segments: Vec<SealedSegment>,
    /// How many they are.
    pub rows: u64,
    /// The places that a plan gives in one column more than the table has.
    pub places: Vec<u64>,
}

/// Runs `plan` and writes its rows, whose columns are in the order of `columns`, into a new segment of a table with these
/// options, or one in each data directory. Each worker keeps a share of `running` until it has ended.
pub async fn load(
    engine: &Engine,
    plan: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
    (columns, options): (&[Column], &TableOptions),
    statement: &Arc<StatementContext>,
    running: &Arc<()>,
) -> Result<Loaded> {
    let loads = settings::of_loads(context.session_config());
    let target = LoadTarget::with_options(engine.store(), columns, options, loads)?;
    let schema = schema_of_columns(columns);
    let types: Arc<[LogicalType]> = columns.iter().map(|column| column.logical.clone()).collect();
    let account = statement.account.part(Tier::Operator, "load");
    let all_places: Arc<Mutex<Vec<u64>>> = Arc::default();
    let mut workers = JoinSet::new();
    for partition in 0..plan.output_partitioning().partition_count() {
        let mut rows = plan.execute(partition, Arc::clone(&context)).map_err(from_datafusion)?;
        let loader = Loader::new(Arc::clone(&target), partition as u32).within(&account);
        let (schema, types, statement) = (Arc::clone(&schema), Arc::clone(&types), Arc::clone(statement));
        let work = (Arc::clone(running), loader);
        let all_places = Arc::clone(&all_places);
        workers.spawn(async move {
            // What comes last goes first: the loader, and an unfinished file with it, before `running`.
            let (_running, mut loader) = work;
            while let Some(batch) = rows.next().await {
                statement.cancel.check()?;
                let batch = batch.map_err(from_datafusion)?;
                if let Some(given) = batch.columns().get(types.len()) {
                    all_places.lock().unwrap_or_else(PoisonError::into_inner).extend(places(given)?);
                }
                let batch = convert(&batch, &schema, &types)?;
                loader.push(&batch)?;
                statement.advance(batch.num_rows() as u64);
            }
            loader.finish()
        });
    }
    while let Some(finished) = workers.join_next().await {
        if let Err(error) = finished.map_err(|error| worker_error(&error)).flatten() {
            // The first failure ends the others; their last one removes the unfinished segment.
            workers.shutdown().await;
            return Err(error);
        }
    }
    statement.cancel.check()?;
    let target = Arc::into_inner(target).ok_or_else(|| Error::internal("a loader outlived its load"))?;
    let rows = target.rows();
    let places = std::mem::take(&mut *all_places.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(Loaded { segments: target.finish()?, rows, places })
}

/// The places of rows that a column of a query gives.
pub fn places(column: &ArrayRef) -> Result<Vec<u64>> {
    let wrong = || Error::internal("places of rows are no numbers");
    let places = column.as_primitive_opt::<Int64Type>().ok_or_else(wrong)?;
    places.iter().map(|place| place.and_then(|place| u64::try_from(place).ok()).ok_or_else(wrong)).collect()
}

/// The batch with the columns' own Arrow types.
pub fn convert(batch: &RecordBatch, schema: &SchemaRef, types: &[LogicalType]) -> Result<RecordBatch> {
    let arrays = (0..types.len())
        .map(|index| {
            convert_array(batch.column(index), schema.field(index).data_type(), &types[index])
                .context(|| format!("column {}", schema.field(index).name()))
        })
        .collect::<Result<Vec<_>>>()?;
    // Nullability is the loader's to check, with a message of its own.
    let fields: Vec<_> = schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true)).collect();
    let relaxed = Arc::new(datafusion::arrow::datatypes::Schema::new(fields));
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(relaxed, arrays, &options)
        .map_err(|error| Error::internal(format!("a load made an invalid batch: {error}")))
}

fn convert_array(array: &ArrayRef, data_type: &DataType, logical: &LogicalType) -> Result<ArrayRef> {
    if array.data_type() == data_type {
        return Ok(Arc::clone(array));
    }
    if array.data_type().is_nested() && *data_type == DataType::Utf8View {
        return casts::cast(array, data_type, false).map_err(|error| from_datafusion(error.into()));
    }
    let options = CastOptions { safe: false, format_options: FormatOptions::default() };
    cast_with_options(array, data_type, &options).map_err(|error| {
        let converted = from_datafusion(error.into());
        Error::input(format!("cannot store {} as {logical}: {}", array.data_type(), converted.message()))
    })
}
