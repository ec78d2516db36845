//! CHECKPOINT, OPTIMIZE TABLE, CLUSTER BY and ANALYZE: what is written anew, found out and published.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::ObjectName;
use forebay_base::{Error, ProjectionId, Result, TableId};
use forebay_engine::analyze::{Curve, Unordered, order_of_queries};
use forebay_engine::cluster::TableOrder;
use forebay_engine::compact::{self, Merging};
use forebay_store::{Replaced, SealedSegment, Segment, TableSnapshot};

use crate::facts::MadeAnew;
use crate::maintenance::Maintenance;
use crate::order::{order_key, shown};
use crate::statements::{order, order_text};

/// The option of a table that tells its order: columns as SQL writes them, with commas between, in parentheses behind the name of a
/// curve where they lie along one.
pub const CLUSTER_OPTION: &str = "cluster_by";

impl Maintenance<'_> {
    /// Puts hot rows into segments, merges small segments of every table, and writes the manifest and the files of those that were in the
    /// redo log only.
    ///
    /// # Errors
    /// Those of reading and writing.
    pub fn checkpoint(&self) -> Result<()> {
        let store = self.engine.store();
        store.freeze()?;
        store.catalog().tables().try_for_each(|table| self.merge(table, Merging::All).map(drop))?;
        store.checkpoint()
    }

    /// Merges small segments of a table of which many have gathered, without hot rows between them; false where there are none.
    ///
    /// # Errors
    /// Those of reading and writing, and `Conflict` where somebody else has changed them meanwhile.
    pub fn merge_gathered(&self, table: TableId) -> Result<bool> {
        // Rows that were deleted one by one are not there any more.
        self.catalog.table_by_id(table).map_or(Ok(false), |table| self.merge(table, Merging::Gathered))
    }

    /// Whether any were merged.
    fn merge(&self, table: &Arc<TableSnapshot>, merging: Merging) -> Result<bool> {
        let merged = match self.known_order(table) {
            Some(order) => self.merged_in_order(table, &order, merging)?,
            None => compact::merge_small(self.engine, table, merging, self.cancel)?,
        };
        let own = merged.into_iter().map(|merged| (ProjectionId::TABLE, merged));
        let laid_out: Vec<_> = own.chain(self.merged_copies(table, merging)?).collect();
        let is_any = !laid_out.is_empty();
        self.lay_out(table, laid_out, None).map(|()| is_any)
    }

    /// Writes a table's segments anew, in its order where it has one.
    ///
    /// # Errors
    /// Those of reading and writing, and `NotFound` where a column of its order is not there any more.
    pub fn optimize(&self, table: &Arc<TableSnapshot>) -> Result<()> {
        self.check_writable()?;
        if let Some((order, text)) = self.declared_order(table)? {
            return self.put_into_order(table, (&order, &text), self.resorted_copies(table)?);
        }
        if let Some(whole) = compact::rewrite_all(self.engine, table, self.options, self.threads, self.cancel)? {
            let copies = self.resorted_copies(table)?;
            self.lay_out(table, std::iter::once((ProjectionId::TABLE, whole)).chain(copies).collect(), None)?;
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
        self.put_into_order(table, (&self.order(table, &text)?, &text), Vec::new())
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
        let keys = columns.iter().map(|column| order_key(self.catalog, table, column)).collect::<Result<Vec<_>>>()?;
        Self::check_keys(&keys)?;
        Ok(TableOrder { keys, curve })
    }

    /// The small segments of a table that follow one another, and what takes their place.
    fn merged_in_order(&self, table: &TableSnapshot, order: &TableOrder, merging: Merging) -> Result<Vec<Replaced>> {
        let merged = |run: &[Arc<Segment>]| {
            let part = Arc::new(table.with_rows(run.iter().cloned()).into());
            Ok((run.iter().map(|segment| segment.as_version()).collect(), self.in_order_of_table(&part, order)?))
        };
        compact::small_runs(table, merging).into_iter().map(merged).collect()
    }

    /// These rows in the order of their table. What they cannot be ordered by orders nothing.
    pub(crate) fn in_order_of_table(
        &self,
        rows: &Arc<TableSnapshot>,
        order: &TableOrder,
    ) -> Result<Vec<SealedSegment>> {
        let columns: Vec<usize> = (0..rows.columns.len()).collect();
        self.sorter().sort(rows, order, &columns, Unordered::LeftOut)
    }

    /// The order that a table has, if its columns are all there.
    pub(crate) fn known_order(&self, table: &TableSnapshot) -> Option<TableOrder> {
        self.order(table, table.options.get(None, CLUSTER_OPTION)?).ok()
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

    /// Puts a table into an order, which it has from then on, some of its projections as this says, and finds out anew which values
    /// its blocks have.
    fn put_into_order(
        &self,
        table: &Arc<TableSnapshot>,
        (order, text): (&TableOrder, &str),
        mut laid_out: Vec<(ProjectionId, Replaced)>,
    ) -> Result<()> {
        self.check_writable()?;
        let columns: Vec<usize> = (0..table.columns.len()).collect();
        let sorted = self.sorter().sort(table, order, &columns, Unordered::Refused)?;
        laid_out.push((ProjectionId::TABLE, (table.segments.versions(), sorted)));
        self.lay_out(table, laid_out, Some(text))?;
        self.make_facts_of(table.id, MadeAnew::Moved)
    }

    /// Has copies of a table's rows lie otherwise, in one commit, and the table in this order from then on.
    fn lay_out(&self, table: &TableSnapshot, copies: Vec<(ProjectionId, Replaced)>, order: Option<&str>) -> Result<()> {
        let is_moved = |(_, (old, new)): &(ProjectionId, Replaced)| !old.is_empty() || !new.is_empty();
        if order.is_none() && !copies.iter().any(is_moved) {
            return Ok(());
        }
        let mut transaction = self.engine.store().begin()?;
        if let Some(order) = order {
            transaction.set_option(table.id, None, CLUSTER_OPTION, Some(order))?;
        }
        for (copy, (old, new)) in copies {
            transaction.lay_out(table.id, copy, &old, new)?;
        }
        if !table.projections.is_empty() {
            Self::drop_idle_facts(&mut transaction, table.id)?;
        }
        transaction.commit()
    }
}
