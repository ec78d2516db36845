//! Random histories of interleaved transactions against a naive twin, which keeps every version of every row for ever.

use std::collections::BTreeMap;

use forebay_base::{ErrorKind, PhysicalType};
use forebay_hot::{Batch, Cell, Commits, HotTable, Row, RowId, Savepoint, Transaction};
use proptest::prelude::*;

const TYPES: [PhysicalType; 4] = [PhysicalType::I64, PhysicalType::Bytes, PhysicalType::U8, PhysicalType::I128];
const ALL: [usize; 4] = [0, 1, 2, 3];

#[derive(Debug, Clone, PartialEq)]
enum Owned {
    Null,
    Fixed(u128),
    Bytes(Vec<u8>),
}

impl Owned {
    fn of(cell: Cell<'_>) -> Self {
        match cell {
            Cell::Null => Self::Null,
            Cell::Fixed(bits) => Self::Fixed(bits),
            Cell::Bytes(bytes) => Self::Bytes(bytes.to_vec()),
        }
    }

    fn cell(&self) -> Cell<'_> {
        match self {
            Self::Null => Cell::Null,
            Self::Fixed(bits) => Cell::Fixed(*bits),
            Self::Bytes(bytes) => Cell::Bytes(bytes),
        }
    }

    /// A value for a column: NULL, short and long strings, values of all widths.
    fn random(column: usize, seed: u64) -> Self {
        if seed.is_multiple_of(5) {
            return Self::Null;
        }
        match TYPES[column] {
            PhysicalType::Bytes => Self::Bytes(vec![b'a' + (seed % 23) as u8; (seed % 41) as usize]),
            PhysicalType::U8 => Self::Fixed(u128::from(seed as u8)),
            PhysicalType::I64 => Self::Fixed(u128::from(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))),
            _ => Self::Fixed(u128::from(seed) << (seed % 64)),
        }
    }
}

type Values = Option<Vec<Owned>>;

/// One version of a row.
#[derive(Debug, Clone)]
struct Version {
    /// Of the commit; `None` while the session has not committed.
    commit: Option<u64>,
    session: usize,
    /// The write of its session.
    write: usize,
    values: Values,
}

#[derive(Debug, Default)]
struct Twin {
    rows: BTreeMap<RowId, Vec<Version>>,
}

impl Twin {
    fn seen(&self, row: RowId, session: usize, snapshot: u64) -> Values {
        let versions = self.rows.get(&row)?;
        let is_seen = |version: &&Version| match version.commit {
            Some(commit) => commit <= snapshot,
            None => version.session == session,
        };
        versions.iter().rev().find(is_seen)?.values.clone()
    }

    fn conflicts(&self, row: RowId, session: usize, snapshot: u64) -> bool {
        let newest = self.rows.get(&row).and_then(|versions| versions.last());
        newest.is_some_and(|newest| match newest.commit {
            Some(commit) => commit > snapshot,
            None => newest.session != session,
        })
    }

    fn visible(&self, session: usize, snapshot: u64) -> BTreeMap<RowId, Vec<Owned>> {
        let seen = |row: &RowId| self.seen(*row, session, snapshot).map(|values| (*row, values));
        self.rows.keys().filter_map(seen).collect()
    }

    fn roll_back(&mut self, session: usize, write: usize) {
        for versions in self.rows.values_mut() {
            versions.retain(|version| version.commit.is_some() || version.session != session || version.write < write);
        }
    }

    fn commit(&mut self, session: usize, number: u64) {
        for version in self.rows.values_mut().flatten() {
            if version.commit.is_none() && version.session == session {
                version.commit = Some(number);
            }
        }
    }
}

#[derive(Debug)]
struct Session {
    transaction: Transaction,
    snapshot: u64,
    writes: usize,
    savepoints: Vec<(Savepoint, usize)>,
}

#[derive(Debug, Clone, Copy)]
struct Step {
    what: u8,
    session: usize,
    seed: u64,
}

fn steps(longest: usize) -> impl Strategy<Value = Vec<Step>> {
    let step = (0..100_u8, 0..4_usize, any::<u64>());
    prop::collection::vec(step.prop_map(|(what, session, seed)| Step { what, session, seed }), 1..longest)
}

struct World {
    commits: std::sync::Arc<Commits>,
    table: HotTable,
    twin: Twin,
    sessions: [Option<Session>; 4],
    last: u64,
}

impl World {
    fn new() -> Self {
        let commits = Commits::new(3);
        let table = HotTable::new(1, "t", TYPES.to_vec(), 17, &commits);
        Self { commits, table, twin: Twin::default(), sessions: [const { None }; 4], last: 3 }
    }

    /// A row that was made, or one that never was.
    fn row(&self, seed: u64) -> RowId {
        let count = self.twin.rows.len() as u64;
        let made = |at| *self.twin.rows.keys().nth(at).expect("below the count");
        if count == 0 || seed.is_multiple_of(50) {
            RowId::new(17 + (seed % 3) as u32, 60_000)
        } else {
            made((seed % count) as usize)
        }
    }

    fn step(&mut self, step: Step) {
        let Step { what, session: at, seed } = step;
        if self.sessions[at].is_none() {
            let transaction = Transaction::begin(&self.commits);
            self.sessions[at] = Some(Session { transaction, snapshot: self.last, writes: 0, savepoints: Vec::new() });
        }
        let row = self.row(seed >> 8);
        let session = self.sessions[at].as_mut().expect("it has begun");
        let snapshot = session.snapshot;
        match what {
            0..20 => {
                let values: Vec<Owned> = ALL.map(|column| Owned::random(column, seed >> column)).to_vec();
                let cells: Vec<Cell<'_>> = values.iter().map(Owned::cell).collect();
                let row = self.table.insert(&mut session.transaction, &cells).expect("inserts do not fail");
                let write = session.writes;
                session.writes += 1;
                let version = Version { commit: None, session: at, write, values: Some(values) };
                self.twin.rows.entry(row).or_default().push(version);
            }
            20..55 => {
                let mut columns: Vec<usize> = ALL.into_iter().filter(|column| seed >> (column * 2) & 3 == 0).collect();
                if columns.is_empty() {
                    columns.push((seed >> 16) as usize % 4);
                }
                let values: Vec<Owned> = columns.iter().map(|column| Owned::random(*column, seed >> 3)).collect();
                let changes: Vec<(usize, Cell<'_>)> =
                    columns.iter().copied().zip(values.iter().map(Owned::cell)).collect();
                let answer = self.table.update(&mut session.transaction, row, &changes);
                let mut new = self.twin.seen(row, at, snapshot);
                for values in new.iter_mut() {
                    changes.iter().for_each(|(column, cell)| values[*column] = Owned::of(*cell));
                }
                self.wrote(answer, row, at, new);
            }
            55..63 => {
                let answer = self.table.delete(&mut session.transaction, row);
                self.wrote(answer, row, at, None);
            }
            63..72 => {
                let mut out = Row::default();
                let columns = [(seed % 4) as usize, (seed / 4 % 4) as usize, 1];
                let is_seen = self.table.get(session.transaction.view(), row, &columns, &mut out).expect("held");
                let got = is_seen.then(|| out.cells().map(Owned::of).collect::<Vec<_>>());
                let expected = self.twin.seen(row, at, snapshot);
                assert_eq!(got, expected.map(|values| columns.map(|column| values[column].clone()).to_vec()));
            }
            72..80 => self.scan(at),
            80..84 => {
                let savepoint = (session.transaction.savepoint(), session.writes);
                session.savepoints.push(savepoint);
            }
            84..88 => {
                if session.savepoints.is_empty() {
                    return;
                }
                session.savepoints.truncate(1 + seed as usize % session.savepoints.len());
                let (savepoint, writes) = *session.savepoints.last().expect("one is left");
                session.transaction.roll_back_to(savepoint);
                self.twin.roll_back(at, writes);
            }
            88..94 => {
                let session = self.sessions[at].take().expect("it has begun");
                let changed = !session.transaction.is_read_only();
                let number = session.transaction.commit();
                self.last += u64::from(changed);
                assert_eq!(number, if changed { self.last } else { snapshot });
                self.twin.commit(at, number);
            }
            94..97 => {
                self.sessions[at].take().expect("it has begun").transaction.roll_back();
                self.twin.roll_back(at, 0);
            }
            97 => self.table.prune(),
            98 => self.freeze(seed),
            _ => self.changes(at),
        }
    }

    fn wrote(&mut self, answer: forebay_base::Result<bool>, row: RowId, at: usize, new: Values) {
        let session = self.sessions[at].as_mut().expect("it has begun");
        match answer {
            Ok(false) => assert_eq!(self.twin.seen(row, at, session.snapshot), None),
            Ok(true) => {
                assert!(self.twin.seen(row, at, session.snapshot).is_some(), "{row} is not seen");
                assert!(!self.twin.conflicts(row, at, session.snapshot), "{row} conflicts");
                let write = session.writes;
                session.writes += 1;
                let version = Version { commit: None, session: at, write, values: new };
                self.twin.rows.entry(row).or_default().push(version);
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Conflict);
                assert!(self.twin.conflicts(row, at, session.snapshot), "{error}");
            }
        }
    }

    fn scan(&self, at: usize) {
        let session = self.sessions[at].as_ref().expect("it has begun");
        let view = session.transaction.view();
        let expected = self.twin.visible(at, session.snapshot);
        assert_eq!(self.table.count(view), expected.len());
        let mut batch = Batch::default();
        let mut got = BTreeMap::new();
        for chunk in self.table.chunks() {
            let bounds = ALL.map(|column| self.table.bounds(chunk, column).expect("there is the chunk"));
            let rows = self.table.chunk_rows(chunk);
            for start in (0..rows).step_by(37) {
                self.table.scan(view, chunk, start..(start + 37).min(rows), &ALL, &mut batch).expect("held");
                for row in batch.visible().ones() {
                    let values: Vec<Owned> = batch.columns().iter().map(|column| Owned::of(column.cell(row))).collect();
                    for (column, bounds) in bounds.iter().enumerate() {
                        let value = values[column].cell().value(TYPES[column]);
                        assert!(value.is_some() || bounds.has_nulls);
                        assert!(value.is_none() || bounds.least.is_none() || value >= bounds.least);
                        assert!(value.is_none() || bounds.greatest.is_none() || value <= bounds.greatest);
                    }
                    got.insert(RowId::new(chunk, (start + row) as u16), values);
                }
            }
        }
        assert_eq!(got, expected);
    }

    /// A chunk can be frozen where nobody is about to change a row, and all sessions see the same rows of it.
    fn freeze(&self, seed: u64) {
        let chunks = self.table.chunks();
        let chunk = chunks.start + (seed % u64::from(chunks.end - chunks.start)) as u32;
        let of_chunk = |rows: BTreeMap<RowId, Vec<Owned>>| -> BTreeMap<RowId, Vec<Owned>> {
            rows.into_iter().filter(|(row, _)| row.chunk() == chunk).collect()
        };
        let Some(clean) = self.table.freeze(chunk).expect("held") else {
            let pending = self.twin.rows.iter().any(|(row, versions)| {
                let oldest = self.sessions.iter().flatten().map(|session| session.snapshot).min();
                let needed = |version: &Version| version.commit.is_none_or(|commit| Some(commit) > oldest);
                row.chunk() == chunk && versions.iter().any(needed)
            });
            assert!(pending, "nobody needs older versions");
            return;
        };
        let columns = clean.rows.columns();
        let of_row = |row| columns.iter().map(|column| Owned::of(column.cell(row))).collect();
        let got = clean.rows.visible().ones().map(|row| (RowId::new(chunk, row as u16), of_row(row))).collect();
        let everyones: BTreeMap<RowId, Vec<Owned>> = of_chunk(self.twin.visible(99, self.last));
        assert_eq!(everyones, got);
        for (at, session) in self.sessions.iter().enumerate() {
            if let Some(session) = session {
                assert_eq!(of_chunk(self.twin.visible(at, session.snapshot)), got);
            }
        }
    }

    /// What others have committed since a snapshot: all rows that are different, and none that nobody has written.
    fn changes(&self, at: usize) {
        let session = self.sessions[at].as_ref().expect("it has begun");
        const NOBODY: usize = 99;
        let (before, after) = (self.twin.visible(NOBODY, session.snapshot), self.twin.visible(NOBODY, self.last));
        let owned = |row: &Row| row.cells().map(Owned::of).collect::<Vec<_>>();
        let mut named = BTreeMap::new();
        for change in self.table.changes_since(session.transaction.view()) {
            assert_eq!(change.before.as_ref().map(owned).as_ref(), before.get(&change.row));
            assert_eq!(change.after.as_ref().map(owned).as_ref(), after.get(&change.row));
            let versions = &self.twin.rows[&change.row];
            let last = versions.iter().rev().find_map(|version| version.commit);
            assert_eq!(last, Some(change.commit));
            assert!(change.commit > session.snapshot);
            assert!(named.insert(change.row, ()).is_none(), "{} is named once", change.row);
        }
        for row in before.keys().chain(after.keys()) {
            assert!(before.get(row) == after.get(row) || named.contains_key(row), "{row} has changed");
        }
    }

    fn end(mut self) {
        for at in 0..4 {
            if self.sessions[at].is_some() {
                self.scan(at);
            }
        }
        for at in 0..4 {
            if self.sessions[at].take().is_some() {
                self.twin.roll_back(at, 0);
            }
        }
        // Nobody needs older versions now.
        self.table.prune();
        let memory = self.table.memory_bytes();
        assert_eq!((memory.undo, memory.marks), (0, 0));
        let expected = self.twin.visible(99, self.last);
        let mut got = BTreeMap::new();
        for chunk in self.table.chunks() {
            assert!(self.table.version_ranges(chunk).is_empty());
            let clean = self.table.freeze(chunk).expect("held").expect("there are no versions");
            for row in clean.rows.visible().ones() {
                let values = clean.rows.columns().iter().map(|column| Owned::of(column.cell(row))).collect();
                got.insert(RowId::new(chunk, row as u16), values);
            }
            assert!(self.table.release(&clean) && !self.table.release(&clean));
        }
        assert_eq!(got, expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_histories_are_those_of_the_twin(steps in steps(160)) {
        let mut world = World::new();
        steps.into_iter().for_each(|step| world.step(step));
        world.end();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 30, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn long_histories_are_those_of_the_twin(steps in steps(8000)) {
        let mut world = World::new();
        steps.into_iter().for_each(|step| world.step(step));
        world.end();
    }
}
