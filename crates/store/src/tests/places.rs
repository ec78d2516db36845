//! Hot rows and segments of a table are in the order in which they came, whatever becomes of them.

use proptest::prelude::*;

use super::hot::{add, rows_of, seen};
use super::*;

/// What happens to a table.
#[derive(Debug, Clone)]
enum Step {
    /// So many hot rows are added in a transaction.
    Hot(usize),
    /// A segment of so many rows is.
    Segment(usize),
    /// A transaction adds both, and ends behind another one that has begun later.
    Beside(usize),
    /// All hot rows become segments.
    Freeze,
    /// The segment, of hot rows or not, that has the row at this part of all is written anew as one of so many parts.
    Rewrite(usize, usize),
    /// All segments are, each as so many, by one change.
    RewriteAll(usize),
    /// The row at this part of all goes, and another one comes instead, behind all others: in a segment that stays else.
    Move(usize),
    /// The row at this part of all is deleted, if it is hot.
    Delete(usize),
    Checkpoint,
    Reopen,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (1..4_usize).prop_map(Step::Hot),
        3 => (1..4_usize).prop_map(Step::Segment),
        1 => (1..3_usize).prop_map(Step::Beside),
        2 => Just(Step::Freeze),
        3 => (0..100_usize, 1..4_usize).prop_map(|(at, parts)| Step::Rewrite(at, parts)),
        1 => (1..4_usize).prop_map(Step::RewriteAll),
        2 => (0..100_usize).prop_map(Step::Move),
        1 => (0..100_usize).prop_map(Step::Delete),
        1 => Just(Step::Checkpoint),
        1 => Just(Step::Reopen),
    ];
    prop::collection::vec(step, 1..40)
}

struct Scene {
    disk: Arc<dyn Disk>,
    store: Option<Store>,
    id: TableId,
    rows: Vec<i64>,
    next: i64,
}

impl Scene {
    fn store(&self) -> &Store {
        self.store.as_ref().expect("it is open")
    }

    fn new_rows(&mut self, count: usize) -> Vec<i64> {
        let rows: Vec<i64> = (self.next..).take(count).collect();
        self.next += count as i64;
        rows
    }

    fn run(&mut self, step: &Step) -> Result<()> {
        let id = self.id;
        match step {
            Step::Hot(count) => {
                let rows = self.new_rows(*count);
                change(self.store(), |t| rows.iter().try_for_each(|row| add(t, id, *row).map(drop)))?;
                self.rows.extend(rows);
            }
            Step::Segment(count) => {
                let rows = self.new_rows(*count);
                let sealed = segment(self.store(), &rows)?;
                change(self.store(), |t| t.publish(id, vec![sealed]))?;
                self.rows.extend(rows);
            }
            Step::Beside(count) => {
                let (first, second) = (self.new_rows(*count), self.new_rows(*count));
                let store = self.store();
                let mut one = store.begin_on(store.catalog())?;
                first.iter().try_for_each(|row| add(&mut one, id, *row).map(drop))?;
                one.publish(id, vec![segment(store, &[-first[0]])?])?;
                change(store, |t| add(t, id, second[0]).map(drop))?;
                one.commit()?;
                self.rows.extend(first.iter().copied().chain([-first[0], second[0]]));
            }
            Step::Freeze => change(self.store(), |t| t.freeze_hot(id))?,
            Step::Rewrite(at, parts) if !self.rows.is_empty() => {
                let row = self.rows[at * self.rows.len() / 100];
                let catalog = self.store().catalog();
                let table = catalog.table_by_id(id).expect("the table");
                let own = table.segments.iter().find(|own| rows_of(own).contains(&row)).expect("a segment has it");
                let rows = rows_of(own);
                let sealed = rows.chunks(rows.len().div_ceil(*parts));
                let sealed = sealed.map(|rows| segment(self.store(), rows)).collect::<Result<Vec<_>>>()?;
                change(self.store(), |t| t.replace(id, &[own.as_version()], sealed))?;
            }
            Step::Move(at) if !self.rows.is_empty() => {
                let (row, new) = (self.rows[at * self.rows.len() / 100], self.new_rows(1));
                let catalog = self.store().catalog();
                let table = catalog.table_by_id(id).expect("the table");
                let own = table.segments.iter().find(|own| rows_of(own).contains(&row)).expect("a segment has it");
                let index = rows_of(own).iter().position(|other| *other == row).expect("it has it");
                let gone = own.deleted().of_block(0);
                let is_there = |place: &u64| !gone.is_some_and(|gone| gone.contains(*place as usize));
                let place = (0..own.stored_rows()).filter(is_there).nth(index).expect("it has so many");
                let rows = own.rows_at(&[place])?;
                let deleted = vec![(Deleted { segment: own.as_version(), rows }, vec![segment(self.store(), &new)?])];
                let changes = RowChanges { replaced: Vec::new(), deleted };
                change(self.store(), |t| t.change_rows(id, changes, ReplacedCopies::new()))?;
                self.rows.retain(|other| *other != row);
                self.rows.extend(new);
            }
            Step::RewriteAll(parts) => {
                let catalog = self.store().catalog();
                let table = catalog.table_by_id(id).expect("the table");
                let rewritten = table.segments.iter().map(|own| {
                    let rows = rows_of(own);
                    let sealed = rows.chunks(rows.len().div_ceil(*parts)).map(|rows| segment(self.store(), rows));
                    Ok((vec![own.as_version()], sealed.collect::<Result<Vec<_>>>()?))
                });
                let rewritten = rewritten.collect::<Result<Vec<_>>>()?;
                change(self.store(), |t| t.change_rows(id, rewritten, ReplacedCopies::new()))?;
            }
            Step::Delete(at) if !self.rows.is_empty() => {
                let row = self.rows[at * self.rows.len() / 100];
                let mut is_deleted = false;
                change(self.store(), |t| {
                    for hot in t.hot_row_ids(id)? {
                        if t.hot_row(id, hot)?.is_some_and(|values| values.cell(0) == Cell::i64(row)) {
                            is_deleted = t.delete_hot(id, hot)?;
                        }
                    }
                    Ok(())
                })?;
                self.rows.retain(|own| *own != row || !is_deleted);
            }
            Step::Rewrite(..) | Step::Move(_) | Step::Delete(_) => {}
            Step::Checkpoint => self.store().checkpoint()?,
            Step::Reopen => {
                drop(self.store.take());
                self.store = Some(Store::open(Arc::clone(&self.disk), OpenMode::ReadWrite, "test")?);
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn rows_stay_in_their_order(steps in steps()) {
        let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
        let store = Store::open(Arc::clone(&disk), OpenMode::ReadWrite, "test").expect("a database");
        let id = change(&store, |t| t.create_table(table("t"))).expect("a table");
        let mut scene = Scene { disk, store: Some(store), id, rows: Vec::new(), next: 1 };
        for (number, step) in steps.iter().enumerate() {
            scene.run(step).unwrap_or_else(|error| panic!("step {number} of {steps:?}: {error}"));
            prop_assert_eq!(&seen(scene.store(), id), &scene.rows, "behind step {} of {:?}", number, &steps);
        }
    }
}
