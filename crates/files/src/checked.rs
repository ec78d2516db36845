//! DataFusion's formats of files, read with less trust: a panic while a file is looked at is an error, readers of Parquet get
//! nothing unchecked, and batches of long lines have few rows.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::Session;
use datafusion::common::{Result as DataFusionResult, Statistics};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::file_format::{FileFormat, FileMeta};
use datafusion::datasource::physical_plan::{FileScanConfig, FileScanConfigBuilder, FileSource, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::object_store::{ObjectMeta, ObjectStore};
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_plan::ExecutionPlan;
use forebay_context::error::into_datafusion;
use forebay_context::panics::caught_waiting;

use crate::parquet;

/// A format, and the most rows that a batch of its files has.
#[derive(Debug)]
pub struct Checked {
    /// What reads.
    pub format: Arc<dyn FileFormat>,
    /// `None` for as many as batches have elsewhere.
    pub batch_rows: Option<usize>,
}

/// The outcome of looking at a file. A panic is an error.
async fn guarded<T>(work: impl Future<Output = DataFusionResult<T>>) -> DataFusionResult<T> {
    caught_waiting(work).await.map_err(into_datafusion)?
}

#[async_trait]
impl FileFormat for Checked {
    fn get_ext(&self) -> String {
        self.format.get_ext()
    }

    fn get_ext_with_compression(&self, compression: &FileCompressionType) -> DataFusionResult<String> {
        self.format.get_ext_with_compression(compression)
    }

    fn compression_type(&self) -> Option<FileCompressionType> {
        self.format.compression_type()
    }

    async fn infer_schema(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        objects: &[ObjectMeta],
    ) -> DataFusionResult<SchemaRef> {
        guarded(self.format.infer_schema(state, store, objects)).await
    }

    async fn infer_stats(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        table_schema: SchemaRef,
        object: &ObjectMeta,
    ) -> DataFusionResult<Statistics> {
        guarded(self.format.infer_stats(state, store, table_schema, object)).await
    }

    async fn infer_ordering(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        table_schema: SchemaRef,
        object: &ObjectMeta,
    ) -> DataFusionResult<Option<LexOrdering>> {
        guarded(self.format.infer_ordering(state, store, table_schema, object)).await
    }

    async fn infer_stats_and_ordering(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        table_schema: SchemaRef,
        object: &ObjectMeta,
    ) -> DataFusionResult<FileMeta> {
        guarded(self.format.infer_stats_and_ordering(state, store, table_schema, object)).await
    }

    async fn create_physical_plan(
        &self,
        state: &dyn Session,
        conf: FileScanConfig,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        let conf = match self.batch_rows {
            Some(rows) => FileScanConfigBuilder::from(conf).with_batch_size(Some(rows)).build(),
            None => conf,
        };
        let plan = guarded(self.format.create_physical_plan(state, conf)).await?;
        let scan = plan.downcast_ref::<DataSourceExec>();
        let Some((conf, source)) = scan.and_then(DataSourceExec::downcast_to_file_source::<ParquetSource>) else {
            return Ok(plan);
        };
        let source = parquet::checked_source(source, state).map_err(into_datafusion)?;
        let conf = FileScanConfigBuilder::from(conf.clone()).with_source(Arc::new(source)).build();
        Ok(DataSourceExec::from_data_source(conf))
    }

    fn file_source(&self, table_schema: TableSchema) -> Arc<dyn FileSource> {
        self.format.file_source(table_schema)
    }
}
