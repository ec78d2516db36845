//! CHECKPOINT, OPTIMIZE TABLE, CLUSTER BY and ANALYZE: what is written anew, found out and published.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::ObjectName;
use forebay_base::{Error, Result, TableId};
use forebay_engine::analyze::{Curve, build, build_filters, order_of_queries, worth_filtering, worth_making};
use forebay_engine::cluster::TableOrder;
use forebay_engine::facts::{BLOOM_KIND, KIND};
use forebay_engine::{CancelToken, Engine, LoadOptions, Metrics, cluster, compact};
use forebay_store::{Catalog, TableSnapshot};

use crate::order::{order_key, shown};
use crate::statements::{order, order_text};

/// The option of a table that tells its order: columns as SQL writes them, with commas between, in parentheses behind the name of a
/// curve where they lie along one.
pub const CLUSTER_OPTION: &str = "cluster_by";

/// What maintenance is done with, for one statement.
#[derive(Debug)]
pub struct Maintenance<'m> {
    /// The engine of the database.
    pub engine: &'m Arc<Engine>,
    /// The database as the statement sees it.
    pub catalog: &'m Catalog,
    /// How segments are written.
    pub options: LoadOptions,
    /// Workers.
    pub threads: usize,
    /// Stops it.
    pub cancel: &'m CancelToken,
    /// What reading the table costs.
    pub metrics: Arc<Metrics>,
}

impl Maintenance<'_> {
    /// An error where the database is read-only.
    fn check_writable(&self) -> Result<()> {
        self.engine.store().begin().map(drop)
    }

    /// Merges small segments of every table.
    ///
    /// # Errors
    /// Those of reading and writing.
    pub fn checkpoint(&self) -> Result<()> {
        for table in self.catalog.tables() {
            let merged = compact::merge_small(self.engine, table, self.cancel)?;
            if merged.is_empty() {
                continue;
            }
            let mut transaction = self.engine.store().begin()?;
            for (old, new) in merged {
                transaction.replace(table.id, &old, new)?;
            }
            transaction.commit()?;
        }
        self.check_writable()
    }

    /// Writes a table's segments anew, in its order where it has one.
    ///
    /// # Errors
    /// Those of reading and writing, and `NotFound` where a column of its order is not there any more.
    pub fn optimize(&self, table: &Arc<TableSnapshot>) -> Result<()> {
        self.check_writable()?;
        if let Some((order, text)) = self.declared_order(table)? {
            return self.put_into_order(table, &order, &text);
        }
        if let Some((old, new)) = compact::rewrite_all(self.engine, table, self.options, self.threads, self.cancel)? {
            let mut transaction = self.engine.store().begin()?;
            transaction.replace(table.id, &old, new)?;
            transaction.commit()?;
            // Facts are about segments.
            if self.catalog.facts_of(table.id).next().is_some() {
                return self.make_facts_of(table.id, MadeAnew::All);
            }
        }
        Ok(())
    }

    /// Puts a table into the order of these columns, which go together so, or with `None` into one that serves the queries so far.
    ///
    /// # Errors
    /// Those of reading and writing, `NotFound` where a column is not there, and `Input` where there are none or too many.
    pub fn cluster(&self, table: &Arc<TableSnapshot>, columns: Option<&[ObjectName]>, curve: Curve) -> Result<()> {
        let text: Vec<String> = match columns {
            Some(columns) => columns.iter().map(ToString::to_string).collect(),
            None => self.columns_of_queries(table)?,
        };
        let text = order_text(&text.join(", "), curve);
        self.put_into_order(table, &self.order(table, &text)?, &text)
    }

    /// Finds out anew which values the blocks of a table have; of its own columns and of the rows that they join with, or of the
    /// latter only.
    ///
    /// # Errors
    /// Those of reading and writing.
    pub fn analyze(&self, table: &Arc<TableSnapshot>, sideways_only: bool) -> Result<()> {
        self.check_writable()?;
        self.make_facts(self.catalog, table, if sideways_only { MadeAnew::OfOthers } else { MadeAnew::All })
    }

    fn order(&self, table: &TableSnapshot, text: &str) -> Result<TableOrder> {
        let (columns, curve) = order(text)?;
        let keys = columns.iter().map(|column| order_key(self.catalog, table, column));
        Ok(TableOrder { keys: keys.collect::<Result<_>>()?, curve })
    }

    /// The order that a table is to lie in, as its option says.
    fn declared_order(&self, table: &TableSnapshot) -> Result<Option<(TableOrder, String)>> {
        let Some(text) = table.options.get(None, CLUSTER_OPTION) else { return Ok(None) };
        let hint = format!("ALTER TABLE {} CLUSTER BY (…) gives it another order, RESET (cluster_by) none", table.name);
        let order = self.order(table, text);
        let order = order.map_err(|error| error.context(format!("the order of table {}", table.name)).hint(hint))?;
        Ok(Some((order, text.to_owned())))
    }

    /// The columns that queries of this database asked for, in the order that serves them best.
    fn columns_of_queries(&self, table: &Arc<TableSnapshot>) -> Result<Vec<String>> {
        let keys = order_of_queries(self.engine, self.catalog, table, (self.threads, self.cancel))?;
        if keys.is_empty() {
            let message = format!("no column of table {} and of those that it refers to tells rows apart", table.name);
            return Err(Error::input(message).hint("Name the columns: CLUSTER BY (a, b)"));
        }
        keys.iter().map(|key| shown(self.catalog, table, key)).collect()
    }

    /// Puts a table into an order, which it has from then on, and finds out anew which values its blocks have.
    fn put_into_order(&self, table: &Arc<TableSnapshot>, order: &TableOrder, text: &str) -> Result<()> {
        self.check_writable()?;
        let how = (self.threads, self.cancel);
        let sorted = cluster::cluster(self.engine, self.catalog, table, order, self.options, &self.metrics, how)?;
        let mut transaction = self.engine.store().begin()?;
        transaction.set_option(table.id, None, CLUSTER_OPTION, Some(text))?;
        if let Some((old, new)) = sorted {
            transaction.replace(table.id, &old, new)?;
        }
        transaction.commit()?;
        self.make_facts_of(table.id, MadeAnew::Moved)
    }

    /// Makes facts about a table as it is now.
    fn make_facts_of(&self, table: TableId, made_anew: MadeAnew) -> Result<()> {
        let catalog = self.engine.store().catalog();
        catalog.table_by_id(table).map_or(Ok(()), |table| self.make_facts(&catalog, table, made_anew))
    }

    /// Makes the facts about a table that are worth it, in the place of those that there are.
    fn make_facts(&self, catalog: &Catalog, table: &Arc<TableSnapshot>, made_anew: MadeAnew) -> Result<()> {
        let how = (self.threads, self.cancel);
        let wanted = worth_making(catalog, table, made_anew != MadeAnew::All);
        let mut made = build(self.engine, catalog, table, &wanted, how)?;
        if made_anew != MadeAnew::OfOthers {
            let wanted = worth_filtering(self.engine, table)?;
            made.extend(build_filters(self.engine, catalog, table, &wanted, how)?);
        }
        let mut transaction = self.engine.store().begin()?;
        let known = transaction.catalog().facts_of(table.id).filter(|fact| {
            let definition = fact.definition();
            match (definition.kind, definition.version) {
                KIND => made_anew == MadeAnew::All || definition.sources.len() > 1,
                BLOOM_KIND => made_anew != MadeAnew::OfOthers,
                _ => false,
            }
        });
        let known: Vec<_> = known.map(|fact| fact.id()).collect();
        if known.is_empty() && made.is_empty() {
            return Ok(());
        }
        known.into_iter().try_for_each(|fact| transaction.drop_fact(fact))?;
        for fact in made {
            transaction.publish_fact(fact)?;
        }
        transaction.commit()
    }
}

/// Facts about a table that are found out anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MadeAnew {
    /// All of them.
    All,
    /// Those about the rows that its own join with.
    OfOthers,
    /// Those, and filters: the table lies in another order.
    Moved,
}
