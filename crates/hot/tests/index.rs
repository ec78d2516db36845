//! Indexes of keys, by order and by hash: what views find against a look at all rows, unique keys among transactions beside each other, entries that go.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use forebay_base::{ErrorKind, PhysicalType, Result};
use forebay_hot::{Cell, Commits, HotTable, KeyIndex, Row, RowId, Transaction, UniqueIndex, View};
use proptest::prelude::*;

/// A table of keys and values, with indexes of the keys.
struct Indexed {
    commits: Arc<Commits>,
    table: HotTable,
    index: KeyIndex,
    /// Where no two rows have the same key.
    unique: Option<UniqueIndex>,
}

impl Indexed {
    fn new(is_unique: bool) -> Self {
        let commits = Commits::new(0);
        let table = HotTable::new(1, "t", vec![PhysicalType::I64, PhysicalType::I64], 0, &commits);
        let index = KeyIndex::new(&table, vec![0]);
        let unique = is_unique.then(|| UniqueIndex::new(&table, vec![0]));
        Self { commits, table, index, unique }
    }

    fn key(&self, key: i64) -> Vec<u8> {
        self.index.columns().prefix_of(&[Cell::i64(key)])
    }

    fn unique(&self) -> &UniqueIndex {
        self.unique.as_ref().expect("no two rows have the same key")
    }

    /// Enters a key that a row has now.
    fn enter(&self, t: &Transaction, key: i64, row: RowId) -> Result<()> {
        let key = self.key(key);
        self.unique.as_ref().map_or(Ok(()), |unique| unique.insert(t.view(), &key, row))?;
        self.index.add(&key, row);
        Ok(())
    }

    fn sweep(&self) {
        self.table.prune();
        self.index.sweep();
        self.unique.iter().for_each(UniqueIndex::sweep);
    }

    /// As a statement does it: what it did is taken back where the key is not free.
    fn insert(&self, t: &mut Transaction, key: i64) -> Result<RowId> {
        let savepoint = t.savepoint();
        let row = self.table.insert(t, &[Cell::i64(key), Cell::i64(0)])?;
        self.enter(t, key, row).inspect_err(|_| t.roll_back_to(savepoint))?;
        Ok(row)
    }

    fn move_to(&self, t: &mut Transaction, row: RowId, key: i64) -> Result<bool> {
        let savepoint = t.savepoint();
        if !self.table.update(t, row, &[(0, Cell::i64(key))])? {
            return Ok(false);
        }
        self.enter(t, key, row).inspect_err(|_| t.roll_back_to(savepoint))?;
        Ok(true)
    }

    /// What a view sees, by a look at all rows.
    fn seen(&self, view: View<'_>) -> BTreeMap<i64, Vec<RowId>> {
        let mut seen: BTreeMap<i64, Vec<RowId>> = BTreeMap::new();
        let mut row = Row::default();
        for chunk in self.table.chunks() {
            for position in 0..self.table.chunk_rows(chunk) {
                let id = RowId::new(chunk, position as u16);
                if self.table.get(view, id, &[0], &mut row).expect("chunks are held") {
                    seen.entry(row.cell(0).as_i64().expect("a key")).or_default().push(id);
                }
            }
        }
        seen
    }

    fn in_range(&self, view: View<'_>, low: i64, high: i64, most: usize) -> Vec<RowId> {
        let (low, high) = (self.key(low), self.key(high));
        let mut found = Vec::new();
        let each = |row| {
            found.push(row);
            Ok(found.len() < most)
        };
        self.index.range(view, (Bound::Included(&low), Bound::Excluded(&high)), each).expect("nothing fails");
        found
    }

    fn check(&self, view: View<'_>) {
        let seen = self.seen(view);
        for (key, unique) in (-1..KEYS + 1).flat_map(|key| self.unique.iter().map(move |unique| (key, unique))) {
            let found = unique.find(view, &self.key(key));
            assert_eq!(found.is_some(), seen.contains_key(&key), "{key}");
            // An old snapshot sees a key twice where its transaction takes what another one has given up since.
            assert!(found.is_none_or(|row| seen[&key].contains(&row)));
        }
        let (low, high) = (KEYS / 4, KEYS / 2);
        let mut expected: Vec<RowId> = seen.range(low..high).flat_map(|(_, rows)| rows.clone()).collect();
        let mut found = self.in_range(view, low, high, usize::MAX);
        assert_eq!(self.in_range(view, low, high, 2), found[..found.len().min(2)]);
        assert!(self.in_range(view, high, low, 2).is_empty());
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected);
    }
}

const KEYS: i64 = 12;

#[derive(Debug, Clone)]
enum Step {
    Insert(usize, i64),
    Move(usize, usize, i64),
    Touch(usize, usize),
    Delete(usize, usize),
    Commit(usize),
    RollBack(usize),
    Sweep,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let of = 0..3_usize;
    let step = prop_oneof![
        4 => (of.clone(), 0..KEYS).prop_map(|(of, key)| Step::Insert(of, key)),
        2 => (of.clone(), any::<usize>(), 0..KEYS).prop_map(|(of, row, key)| Step::Move(of, row, key)),
        1 => (of.clone(), any::<usize>()).prop_map(|(of, row)| Step::Touch(of, row)),
        2 => (of.clone(), any::<usize>()).prop_map(|(of, row)| Step::Delete(of, row)),
        2 => of.clone().prop_map(Step::Commit),
        1 => of.prop_map(Step::RollBack),
        1 => Just(Step::Sweep),
    ];
    prop::collection::vec(step, 1..80)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn views_find_what_they_see(steps in steps(), is_unique: bool) {
        let indexed = Indexed::new(is_unique);
        let begin = || Transaction::begin(&indexed.commits);
        let mut open = [begin(), begin(), begin()];
        let mut rows: Vec<RowId> = Vec::new();
        let pick = |rows: &[RowId], at: usize| (!rows.is_empty()).then(|| rows[at % rows.len()]);
        for step in steps {
            match step {
                Step::Insert(of, key) => rows.extend(indexed.insert(&mut open[of], key)),
                Step::Move(of, at, key) => {
                    let _a_conflict_or_not = pick(&rows, at).map(|row| indexed.move_to(&mut open[of], row, key));
                }
                Step::Touch(of, at) => {
                    let change = [(1, Cell::i64(at as i64))];
                    let _a_conflict_or_not = pick(&rows, at).map(|row| indexed.table.update(&mut open[of], row, &change));
                }
                Step::Delete(of, at) => {
                    let _a_conflict_or_not = pick(&rows, at).map(|row| indexed.table.delete(&mut open[of], row));
                }
                Step::Commit(of) => drop(std::mem::replace(&mut open[of], begin()).commit()),
                Step::RollBack(of) => open[of] = begin(),
                Step::Sweep => indexed.sweep(),
            }
            for transaction in &open {
                indexed.check(transaction.view());
            }
            let now = indexed.commits.snapshot();
            let is_once = indexed.seen(now.view()).values().all(|rows| rows.len() == 1);
            prop_assert!(is_once || !is_unique, "two rows have one key");
        }
        // Once nobody reads what was, there are entries for what is, and no others.
        drop(open);
        indexed.sweep();
        let now = indexed.commits.snapshot();
        let count = indexed.table.count(now.view());
        prop_assert_eq!(indexed.index.len(), count);
        prop_assert_eq!(indexed.index.is_empty(), indexed.index.memory_bytes() == 0);
        if let Some(unique) = &indexed.unique {
            prop_assert_eq!((unique.len(), unique.is_empty()), (count, count == 0));
            prop_assert_eq!(unique.is_empty(), unique.memory_bytes() == 0);
        }
    }
}

#[test]
fn a_key_is_taken_by_who_has_it_and_by_who_may_get_it() {
    let indexed = Indexed::new(true);
    let begin = || Transaction::begin(&indexed.commits);
    let kind = |result: Result<RowId>| result.expect_err("the key is taken").kind();
    let mut first = begin();
    let row = indexed.insert(&mut first, 1).expect("free");
    assert_eq!(kind(indexed.insert(&mut first, 1)), ErrorKind::Constraint, "its own");
    let mut second = begin();
    assert_eq!(kind(indexed.insert(&mut second, 1)), ErrorKind::Conflict, "of a transaction that has not ended");
    first.commit();
    assert_eq!(kind(indexed.insert(&mut second, 1)), ErrorKind::Conflict, "committed since it began");
    assert_eq!(kind(indexed.insert(&mut begin(), 1)), ErrorKind::Constraint);
    // Deleted by one that may come back: nobody else gets the key, and it itself does.
    let mut deleting = begin();
    assert!(indexed.table.delete(&mut deleting, row).expect("no conflict"));
    assert_eq!(kind(indexed.insert(&mut begin(), 1)), ErrorKind::Conflict);
    let again = indexed.insert(&mut deleting, 1).expect("its own is gone");
    deleting.commit();
    let now = indexed.commits.snapshot();
    assert_eq!(indexed.unique().find(now.view(), &indexed.key(1)), Some(again));
    // Moved away: the old key is free once that is certain.
    let mut moving = begin();
    assert!(indexed.move_to(&mut moving, again, 2).expect("free"));
    assert_eq!(kind(indexed.insert(&mut begin(), 1)), ErrorKind::Conflict);
    moving.commit();
    let mut next = begin();
    indexed.insert(&mut next, 1).expect("free");
    next.roll_back();
    let mut next = begin();
    indexed.insert(&mut next, 1).expect("free again");
    next.commit();
}

/// Keys that move among the rows of one statement are looked at when it has ended.
#[test]
fn keys_may_be_taken_twice_within_a_statement() {
    let indexed = Indexed::new(true);
    let mut t = Transaction::begin(&indexed.commits);
    let rows: Vec<RowId> = (0..5).map(|key| indexed.insert(&mut t, key).expect("free")).collect();
    let mut shift = |by: i64, rows: &[RowId]| -> Result<()> {
        let keys: Vec<i64> = rows.iter().map(|row| row.position() as i64 + by).collect();
        for (row, key) in rows.iter().zip(&keys) {
            assert!(indexed.table.update(&mut t, *row, &[(0, Cell::i64(*key))])?);
            indexed.unique().add(&indexed.key(*key), *row);
        }
        keys.iter().try_for_each(|key| indexed.unique().check(t.view(), &indexed.key(*key)))
    };
    shift(1, &rows).expect("all move on");
    assert_eq!(shift(2, &rows[..1]).expect_err("taken").kind(), ErrorKind::Constraint);
}

#[test]
fn threads_get_a_key_once() {
    let indexed = Indexed::new(true);
    std::thread::scope(|scope| {
        for seed in 0..4_i64 {
            let indexed = &indexed;
            scope.spawn(move || {
                for step in 0..2000 {
                    let key = (step * 7 + seed * 13) % 50;
                    let mut t = Transaction::begin(&indexed.commits);
                    match indexed.insert(&mut t, key) {
                        Ok(_) if step % 5 == 4 => t.roll_back(),
                        Ok(_) => drop(t.commit()),
                        Err(_) => {
                            let found = indexed.unique().find(t.view(), &indexed.key(key));
                            let _somebody_may_be_first = found.map(|row| indexed.table.delete(&mut t, row));
                            t.commit();
                        }
                    }
                }
            });
        }
    });
    let now = indexed.commits.snapshot();
    // None may be left: threads that run one after the other take away what they have added.
    let seen = indexed.seen(now.view());
    assert!(seen.values().all(|rows| rows.len() == 1), "{seen:?}");
    indexed.check(now.view());
}

/// Who takes the first of a queue again and again drops the entries of those that are gone, and a sweep waits until it is worth it.
#[test]
fn entries_of_rows_that_are_gone_do_not_gather() {
    let indexed = Indexed::new(true);
    let mut filling = Transaction::begin(&indexed.commits);
    let rows: Vec<RowId> = (0..2000).map(|key| indexed.insert(&mut filling, key).expect("free")).collect();
    filling.commit();
    let first = |view: View<'_>| {
        let mut found = None;
        let all = (Bound::Unbounded, Bound::Unbounded);
        let take = |row| {
            found = Some(row);
            Ok(false)
        };
        indexed.index.range(view, all, take).expect("nothing fails");
        found
    };
    let held = indexed.commits.snapshot();
    let take = |rows: &[RowId]| {
        let mut taking = Transaction::begin(&indexed.commits);
        rows.iter().for_each(|row| assert!(indexed.table.delete(&mut taking, *row).expect("no conflict")));
        taking.commit();
    };
    take(&rows[..100]);
    let now = || indexed.commits.snapshot();
    assert_eq!((first(now().view()), first(held.view())), (Some(rows[100]), Some(rows[0])));
    indexed.index.sweep_if_worthwhile();
    assert_eq!(indexed.index.len(), 2000, "a snapshot sees all of them");
    drop(held);
    indexed.table.prune();
    indexed.index.sweep_if_worthwhile();
    assert_eq!(indexed.index.len(), 2000, "a hundred of two thousand are not worth a sweep");
    assert_eq!(first(now().view()), Some(rows[100]));
    assert_eq!(indexed.index.len(), 1900);
    // Few stay where they are.
    take(&rows[100..104]);
    indexed.table.prune();
    assert_eq!((first(now().view()), indexed.index.len()), (Some(rows[104]), 1900));
    // Those behind the first one nobody meets.
    take(&rows[500..1500]);
    indexed.table.prune();
    assert_eq!((first(now().view()), indexed.index.len()), (Some(rows[104]), 1900));
    indexed.index.sweep_if_worthwhile();
    assert_eq!(indexed.index.len(), 2000 - 104 - 1000);
    // From the middle on, across more than one step of entries.
    let mut found = Vec::new();
    let from = indexed.key(490);
    let range = (Bound::Included(&from[..]), Bound::Unbounded);
    let each = |row| {
        found.push(row);
        Ok(found.len() < 400)
    };
    indexed.index.range(now().view(), range, each).expect("nothing fails");
    assert!(found.iter().eq(rows[490..500].iter().chain(&rows[1500..1890])));
}
