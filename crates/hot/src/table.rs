//! A table of hot rows: chunks, each below a latch of its own.
//!
//! Writers do not wait for each other's transactions: who meets a version that it does not see gets a conflict, and whether to wait is
//! for the caller to decide, whose transaction knows the writer then ([`Transaction::take_blocker`]). Readers meet writers only for the length of one row's change.
//!
//! Lock order: a chunk's latch, then the list of live snapshots. The latch for new chunks is taken alone.
//!
//! Must not know: keys, SQL, logs, files.

mod freezing;
mod writers;

use std::ops::Range;
use std::sync::{Arc, PoisonError};

use forebay_base::limits::{STRING_MAX_BYTES, TABLE_COLUMNS};
use forebay_base::{Error, ErrorKind, PhysicalType, Result};

use crate::batch::Batch;
use crate::bits::Bits;
use crate::cell::{Cell, Row};
use crate::chunk::{Change, Chunk, ColumnBounds, MemoryBytes, Newest, OwnChange, Writer, Written};
use crate::chunk_list::ChunkList;
use crate::commits::{Commits, View};
use crate::row_id::RowId;
use crate::stamp::{FIRST_ID, TransactionId};
use crate::sync::{AtomicU32, Mutex, Ordering, RwLock, RwLockReadGuard, RwLockWriteGuard};
use crate::transaction::{Restore, Transaction};
use crate::waiting::Blocker;

pub use freezing::CleanRows;

/// Rows in memory with versions. Clones are the same table.
#[derive(Debug, Clone)]
pub struct HotTable {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    number: u64,
    name: String,
    types: Vec<PhysicalType>,
    commits: Arc<Commits>,
    /// The number of the first chunk.
    first: u32,
    chunks: ChunkList<RwLock<Chunk>>,
    /// The index of the last chunk, which takes new rows.
    last: AtomicU32,
    growing: Mutex<()>,
}

impl HotTable {
    /// An empty table. `number` tells it from other tables ([`Transaction::written`]), `name` is for errors; the first chunk gets the
    /// number `first_chunk`, others those behind it.
    ///
    /// # Panics
    /// Without columns, or with too many.
    pub fn new(
        number: u64,
        name: impl Into<String>,
        types: Vec<PhysicalType>,
        first_chunk: u32,
        commits: &Arc<Commits>,
    ) -> Self {
        assert!((1..=TABLE_COLUMNS).contains(&types.len()), "a table has 1 to {TABLE_COLUMNS} columns");
        let chunks = ChunkList::default();
        chunks.add(0, RwLock::new(Chunk::new(&types)));
        let (commits, name) = (Arc::clone(commits), name.into());
        let (last, growing) = (AtomicU32::new(0), Mutex::default());
        Self { shared: Arc::new(Shared { number, name, types, commits, first: first_chunk, chunks, last, growing }) }
    }

    /// Its number.
    pub fn number(&self) -> u64 {
        self.shared.number
    }

    /// The types of its columns.
    pub fn types(&self) -> &[PhysicalType] {
        &self.shared.types
    }

    /// The numbers of its chunks.
    pub fn chunks(&self) -> Range<u32> {
        self.shared.first..self.shared.first + self.shared.last.load(Ordering::Acquire) + 1
    }

    /// Positions of a chunk, with rows or without; 0 where there is no such chunk.
    pub fn chunk_rows(&self, chunk: u32) -> usize {
        self.shared.chunk(chunk).map_or(0, |chunk| read(chunk).rows())
    }

    /// Has new rows go to a chunk from this one on.
    pub fn open(&self, chunk: u32) {
        let index = chunk.saturating_sub(self.shared.first);
        loop {
            match self.shared.last.load(Ordering::Acquire) {
                last if last < index => self.shared.grow(last),
                _ => return,
            }
        }
    }

    /// Has new rows go to a chunk without any; the number of that one.
    pub fn close_last(&self) -> u32 {
        let last = self.shared.last.load(Ordering::Acquire);
        let is_used = self.shared.chunks.get(last as usize).is_some_and(|chunk| {
            let mut chunk = write(chunk);
            chunk.is_closed |= chunk.rows() > 0;
            chunk.is_closed
        });
        if is_used {
            self.shared.grow(last);
        }
        self.shared.first + self.shared.last.load(Ordering::Acquire)
    }

    /// Adds a row with a value for each column.
    ///
    /// # Errors
    /// `Input` for a string that is too long; `Internal` for values that do not fit the columns.
    pub fn insert(&self, transaction: &mut Transaction, cells: &[Cell<'_>]) -> Result<RowId> {
        let shared = &self.shared;
        shared.check_cells(cells)?;
        loop {
            let last = shared.last.load(Ordering::Acquire);
            let mut chunk = write(shared.chunks.get(last as usize).expect("the last chunk is there"));
            if chunk.is_full() {
                drop(chunk);
                shared.grow(last);
                continue;
            }
            let position = chunk.insert(shared.writer(transaction), cells);
            shared.prune_now_and_then(&mut chunk);
            drop(chunk);
            let row = RowId::new(shared.first + last, position as u16);
            transaction.wrote(shared, row);
            return Ok(row);
        }
    }

    /// Puts a row where it was when the table was last in memory. It has no older versions: everybody sees it. For who fills the table,
    /// before others know it.
    ///
    /// # Errors
    /// As [`HotTable::insert`], and `Corrupt` for a row that lies before the first chunk.
    pub fn put(&self, row: RowId, cells: &[Cell<'_>]) -> Result<()> {
        let shared = &self.shared;
        shared.check_cells(cells)?;
        let Some(index) = row.chunk().checked_sub(shared.first) else {
            return Err(Error::corrupt(format!("{row} lies before chunk {}", shared.first)).context(shared.place()));
        };
        self.open(row.chunk());
        write(shared.chunks.get(index as usize).expect("it was just made")).put(row.position(), cells);
        Ok(())
    }

    /// Overwrites some columns of a row; false if the transaction does not see the row.
    ///
    /// # Errors
    /// `Conflict` where another transaction has changed the row that this one sees; else as [`HotTable::insert`].
    pub fn update(&self, transaction: &mut Transaction, row: RowId, changes: &[Change<'_>]) -> Result<bool> {
        changes.iter().try_for_each(|(column, cell)| self.shared.check_cell(*column, *cell))?;
        self.shared.change(transaction, row, |chunk, writer| chunk.update(writer, row.position(), changes))
    }

    /// Deletes a row; false if the transaction does not see it.
    ///
    /// # Errors
    /// As [`HotTable::update`].
    pub fn delete(&self, transaction: &mut Transaction, row: RowId) -> Result<bool> {
        self.shared.change(transaction, row, |chunk, writer| chunk.delete(writer, row.position()))
    }

    /// Reads columns of a row into `out`, in the order in which they are named; false if the view does not see the row.
    ///
    /// # Errors
    /// `Internal` where the chunk was released.
    pub fn get(&self, view: View<'_>, row: RowId, columns: &[usize], out: &mut Row) -> Result<bool> {
        let Some(chunk) = self.shared.read_chunk(view, row.chunk())? else { return Ok(false) };
        Ok(chunk.read(view, row.position(), columns.iter().copied(), out))
    }

    /// Copies columns of rows of a chunk into `batch`, as the view sees them; `rows` ends where the chunk does.
    ///
    /// Rows of ranges without versions are copied as they lie; where there are versions, older values then overwrite newer ones, row by row.
    /// The chunk's latch is held meanwhile: some thousand rows a call keep writers' waits in microseconds.
    ///
    /// # Errors
    /// `Internal` where the chunk was released, `NotFound` where there is none.
    pub fn scan(
        &self,
        view: View<'_>,
        chunk: u32,
        rows: Range<usize>,
        columns: &[usize],
        batch: &mut Batch,
    ) -> Result<()> {
        let Some(chunk) = self.shared.read_chunk(view, chunk)? else { return Err(self.shared.no_chunk(chunk)) };
        chunk.scan(view, rows, columns, batch);
        Ok(())
    }

    /// The rows of a chunk that the view sees, one bit for each position; none where there is no such chunk, or it was released.
    pub fn visible(&self, view: View<'_>, chunk: u32) -> Bits {
        assert!(view.is_of(&self.shared.commits), "a view is of the table's clock");
        self.shared.held_chunk(chunk).map_or_else(Bits::default, |chunk| chunk.visible(view))
    }

    /// No view sees more bytes of values than these in a chunk, until the next change.
    pub fn value_bytes_at_most(&self, chunk: u32) -> usize {
        self.shared.chunk(chunk).map_or(0, |chunk| read(chunk).value_bytes_at_most())
    }

    /// How often a chunk has been changed, if a view sees the newest version of all of its rows: whatever later views see of the chunk as long as
    /// it has been changed as often is the same. `None` where there is no such chunk, or it was released.
    pub fn changes_seen(&self, view: View<'_>, chunk: u32) -> Option<u64> {
        let chunk = self.shared.held_chunk(chunk)?;
        chunk.is_newest(view).then_some(chunk.changes)
    }

    /// Whether it is the same table as another one.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Whether there are no rows for whoever begins now, and no open transaction has changed any.
    pub fn is_empty(&self) -> bool {
        self.shared.chunks.iter().all(|chunk| read(chunk).is_empty())
    }

    /// Number of rows that the view sees; those of released chunks do not count.
    pub fn count(&self, view: View<'_>) -> usize {
        assert!(view.is_of(&self.shared.commits), "a view is of the table's clock");
        self.shared.chunks.iter().map(|chunk| read(chunk).count(view)).sum()
    }

    /// Number of rows that are there, whoever has written them.
    pub fn newest_count(&self) -> usize {
        self.shared.chunks.iter().map(|chunk| read(chunk).newest_count()).sum()
    }

    /// What all values of a column of a chunk lie within, whatever the snapshot.
    ///
    /// # Errors
    /// `NotFound` where there is no such chunk.
    pub fn bounds(&self, chunk: u32, column: usize) -> Result<ColumnBounds> {
        let found = self.shared.chunk(chunk).ok_or_else(|| self.shared.no_chunk(chunk))?;
        Ok(read(found).bounds(column))
    }

    /// First and last position with versions of every 1,024 rows of a chunk that have any.
    pub fn version_ranges(&self, chunk: u32) -> Vec<Range<usize>> {
        self.shared.chunk(chunk).map_or_else(Vec::new, |chunk| read(chunk).version_ranges())
    }

    /// What a transaction has made of a row that it has written, seen by its own view. `columns` are those of which values are read into `out`.
    ///
    /// # Errors
    /// `Internal` where the chunk was released.
    pub fn own_change(&self, view: View<'_>, row: RowId, columns: &mut Vec<usize>, out: &mut Row) -> Result<OwnChange> {
        let Some(chunk) = self.shared.read_chunk(view, row.chunk())? else { return Ok(OwnChange::Gone) };
        Ok(chunk.own_change(view, row.position(), columns, out))
    }

    /// As [`HotTable::get`], but that no row of a chunk that was released is seen.
    pub fn get_held(&self, view: View<'_>, row: RowId, columns: &[usize], out: &mut Row) -> bool {
        let chunk = self.shared.held_chunk(row.chunk());
        chunk.is_some_and(|chunk| chunk.read(view, row.position(), columns.iter().copied(), out))
    }

    /// Whether a view sees a row of a chunk that was not released, with values in these columns that make a key.
    pub(crate) fn has_key(&self, view: View<'_>, row: RowId, columns: &[usize], key: &[u8]) -> bool {
        let chunk = self.shared.held_chunk(row.chunk());
        chunk.is_some_and(|chunk| chunk.has_key(view, row.position(), columns, key))
    }

    /// Reads columns of a row's newest version into `out`, whoever has written it; what it is to a view. Nothing is read where it is gone.
    pub(crate) fn newest(&self, view: View<'_>, row: RowId, columns: &[usize], out: &mut Row) -> Newest {
        let chunk = self.shared.held_chunk(row.chunk());
        chunk.map_or(Newest::Gone, |chunk| chunk.newest(view, row.position(), columns, out))
    }

    /// Reads columns of the only version of a row: whether the row is there; `None` where it has older versions.
    pub(crate) fn only_version(&self, row: RowId, columns: &[usize], out: &mut Row) -> Option<bool> {
        let chunk = self.shared.held_chunk(row.chunk());
        chunk.map_or(Some(false), |chunk| chunk.only_version(row.position(), columns, out))
    }

    /// Calls `each` with columns of every version of the rows of a chunk, whoever has written them, also of rows that are deleted.
    pub(crate) fn versions(&self, chunk: u32, columns: &[usize], mut each: impl FnMut(RowId, &Row)) {
        let Some(found) = self.shared.held_chunk(chunk) else { return };
        let mut row = Row::default();
        for position in 0..found.rows() {
            found.versions(position, columns, &mut row, |row| each(RowId::new(chunk, position as u16), row));
        }
    }

    /// Calls `each` with columns of every row that is there, whoever has written its newest version, or that will be there again if another
    /// transaction than `own` takes back what it has changed.
    pub fn each_lasting(&self, own: Option<TransactionId>, columns: &[usize], mut each: impl FnMut(&Row)) {
        let mut row = Row::default();
        let view = View::of_last_commit(&self.shared.commits).with_own(own);
        for latch in self.shared.chunks.iter() {
            let chunk = read(latch);
            for position in 0..chunk.rows() {
                if chunk.newest_there(position, columns, &mut row)
                    || chunk.read(view, position, columns.iter().copied(), &mut row)
                {
                    each(&row);
                }
            }
        }
    }

    /// Lets go of all versions that no snapshot needs. Writers do the same for the chunk that they write to whenever its versions have
    /// doubled; this is for chunks that nobody writes to any more.
    pub fn prune(&self) {
        let live = self.shared.commits.live();
        for latch in self.shared.chunks.iter() {
            let memory = read(latch).memory_bytes();
            if memory.undo + memory.marks > 0 {
                write(latch).prune(&live, false);
            }
        }
    }

    /// Memory in bytes, by kind.
    pub fn memory_bytes(&self) -> MemoryBytes {
        let bytes = self.shared.chunks.iter().map(|chunk| read(chunk).memory_bytes());
        bytes.fold(MemoryBytes::default(), |sum, chunk| sum + chunk)
    }

    pub(crate) fn commits(&self) -> &Arc<Commits> {
        &self.shared.commits
    }

    pub(crate) fn with_chunk<R>(&self, chunk: u32, look: impl FnOnce(&Chunk) -> R) -> Option<R> {
        self.shared.chunk(chunk).map(|latch| look(&read(latch)))
    }
}

impl Shared {
    fn chunk(&self, number: u32) -> Option<&RwLock<Chunk>> {
        self.chunks.get(number.checked_sub(self.first)? as usize)
    }

    fn read_chunk(&self, view: View<'_>, number: u32) -> Result<Option<RwLockReadGuard<'_, Chunk>>> {
        assert!(view.is_of(&self.commits), "a view is of the table's clock");
        let Some(chunk) = self.chunk(number).map(read) else { return Ok(None) };
        self.check_held(number, &chunk)?;
        Ok(Some(chunk))
    }

    /// A chunk whose rows are here.
    fn held_chunk(&self, number: u32) -> Option<RwLockReadGuard<'_, Chunk>> {
        self.chunk(number).map(read).filter(|chunk| !chunk.is_released)
    }

    fn change(
        self: &Arc<Self>,
        transaction: &mut Transaction,
        row: RowId,
        change: impl FnOnce(&mut Chunk, Writer<'_>) -> Written,
    ) -> Result<bool> {
        let Some(latch) = self.chunk(row.chunk()) else { return Ok(false) };
        let mut chunk = write(latch);
        self.check_held(row.chunk(), &chunk)?;
        let written = change(&mut chunk, self.writer(transaction));
        let blocker = match written {
            Written::Conflict(stamp) if stamp > FIRST_ID => chunk.newest_owner(row.position()),
            _ => None,
        };
        let blocker = blocker.and_then(|stamp| Blocker::new(stamp, &self.commits.waits));
        self.prune_now_and_then(&mut chunk);
        drop(chunk);
        match written {
            Written::Recorded => transaction.wrote(self, row),
            Written::Covered => (),
            Written::Unseen => return Ok(false),
            Written::Conflict(stamp) => {
                transaction.blocked_by(blocker);
                return Err(self.conflict(row, stamp));
            }
        }
        Ok(true)
    }

    fn writer<'t>(&self, transaction: &'t Transaction) -> Writer<'t> {
        let view = transaction.view();
        assert!(view.is_of(&self.commits), "a transaction is of the table's clock");
        let (write, floor) = transaction.next_write();
        Writer { view, stamp: transaction.stamp(), write, floor }
    }

    fn prune_now_and_then(&self, chunk: &mut Chunk) {
        if chunk.wants_pruning() {
            chunk.prune(&self.commits.live(), true);
        }
    }

    /// Makes the chunk behind `last`, unless somebody has.
    fn grow(&self, last: u32) {
        let _turn = self.growing.lock().unwrap_or_else(PoisonError::into_inner);
        if self.last.load(Ordering::Acquire) == last {
            self.chunks.add(last as usize + 1, RwLock::new(Chunk::new(&self.types)));
            self.last.store(last + 1, Ordering::Release);
        }
    }

    fn check_cells(&self, cells: &[Cell<'_>]) -> Result<()> {
        if cells.len() != self.types.len() {
            let message = format!("{} values for {} columns", cells.len(), self.types.len());
            return Err(Error::internal(message).context(self.place()));
        }
        cells.iter().enumerate().try_for_each(|(column, cell)| self.check_cell(column, *cell))
    }

    fn check_cell(&self, column: usize, cell: Cell<'_>) -> Result<()> {
        let physical = *self.types.get(column).ok_or_else(|| Error::internal(format!("no column {column}")))?;
        if !cell.fits(physical) {
            return Err(Error::internal(format!("{cell:?} is no {physical:?}")).context(self.place()));
        }
        if matches!(cell, Cell::Bytes(string) if string.len() > STRING_MAX_BYTES) {
            return Err(Error::input("a string of more than 1 GiB").context(self.place()));
        }
        Ok(())
    }

    fn check_held(&self, number: u32, chunk: &Chunk) -> Result<()> {
        if chunk.is_released {
            return Err(Error::internal(format!("hot chunk {number} was released")).context(self.place()));
        }
        Ok(())
    }

    fn conflict(&self, row: RowId, stamp: u64) -> Error {
        let who = match stamp > FIRST_ID {
            true => "is being changed by another transaction",
            false => "was changed by a transaction that has committed since this one began",
        };
        Error::new(ErrorKind::Conflict, format!("{row} {who}")).context(self.place()).hint("Run the transaction again")
    }

    fn no_chunk(&self, number: u32) -> Error {
        Error::new(ErrorKind::NotFound, format!("hot chunk {number} does not exist")).context(self.place())
    }

    fn place(&self) -> String {
        format!("table {}", self.name)
    }
}

impl Restore for Shared {
    fn number(&self) -> u64 {
        self.number
    }

    fn restore(&self, row: RowId) {
        let latch = self.chunk(row.chunk()).expect("a changed row is in a chunk");
        write(latch).restore(row.position());
    }
}

/// A panic below a latch leaves nothing half done that others could see: who panics is a bug, and its transaction rolls back.
fn read(latch: &RwLock<Chunk>) -> RwLockReadGuard<'_, Chunk> {
    latch.read().unwrap_or_else(PoisonError::into_inner)
}

fn write(latch: &RwLock<Chunk>) -> RwLockWriteGuard<'_, Chunk> {
    latch.write().unwrap_or_else(PoisonError::into_inner)
}
