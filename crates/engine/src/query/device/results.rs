//! What comes back from a device: groups, or the rows of the result.

use forebay_base::{Error, ErrorKind, Result};
use forebay_cpu::compile::{Finished, Made, Part, collected, finish_within};
use forebay_cpu::groups::GroupTable;
use forebay_cpu::plain_rows::{PlainValues, build_rows_of_columns, rows_of_columns};
use forebay_gpu::columns::value_bytes;
use forebay_gpu::device::Address;
use forebay_gpu::emit::GroupPlace;
use forebay_gpu::groups::DeviceGroupTable as Slots;
use forebay_gpu::kernels::COMPACT;
use forebay_gpu::parameters::Parameters;
use forebay_pipeline::ir::{Pipeline, Register, Source, State, StateId, Step, Typed, ValueType};
use forebay_pipeline::register_types;

use super::{DevicePipeline, Left, check_faults, unsupported, word};

/// The share of a device's memory that groups or a result may take.
const RESULT_SHARE: u64 = 4;

/// Slots of groups come back as they are where they take no more than this; else those that hold a group.
const ALL_SLOTS_BYTES: u64 = 64 << 10;

/// Of groups that were brought together, so much comes back with their number.
const FIRST_KEPT_BYTES: u64 = 16 << 10;

/// Groups are counted in shared memory where they take no more than this: more would leave room for few blocks at a time, each
/// of which adds all its groups to those in device memory at its end.
const MOST_SHARED_BYTES: u64 = 16 << 10;

/// Room for rows of a result.
pub(super) struct Room {
    /// The number of rows.
    pub(super) rows: Address,
    /// By column: its type, values, and NULLs.
    columns: Vec<(Typed, Address, Address)>,
}

impl DevicePipeline<'_> {
    /// How the groups of a pipeline lie, which has read its blocks; an error says why they do not lie on a device.
    pub(super) fn group_table(&mut self, pipeline: &Pipeline, state: StateId, keys: &[Register]) -> Result<Slots> {
        let State::Aggregate(groups) = &self.runner.program.states[state.0 as usize] else {
            return Err(Error::internal("groups in a build side"));
        };
        let types = register_types(&self.runner.program, pipeline)?;
        let range = |key: &Register| {
            let is_bool = types[key.0 as usize].is_some_and(|typed| typed.value == ValueType::Bool);
            let range = if is_bool { Some((0, 1)) } else { self.key_range(pipeline, *key) };
            range.ok_or_else(|| unsupported("a key of groups whose range is not known"))
        };
        let ranges: Vec<(i64, i64)> = keys.iter().map(range).collect::<Result<_>>()?;
        let table = Slots::new(groups, &ranges)?;
        if table.bytes() > self.result_bytes() {
            return Err(unsupported("groups take too much of the device's memory"));
        }
        if table.bytes() > ALL_SLOTS_BYTES {
            self.function(COMPACT)?;
        }
        Ok(table)
    }

    /// Bytes of the device's memory that groups, a build side or a result may take.
    pub(super) fn result_bytes(&self) -> u64 {
        self.accelerator.processor.device().limits().memory_bytes / RESULT_SHARE
    }

    /// Least and greatest value of a group key.
    fn key_range(&self, pipeline: &Pipeline, key: Register) -> Option<(i64, i64)> {
        let runner = self.runner;
        if let Source::Table(source) = &pipeline.source
            && let Some(column) = source.columns.iter().find(|column| column.to == key)
        {
            if let Some(dictionary) = column.dictionary {
                let strings = runner.dictionaries[dictionary.0 as usize].len();
                return Some((0, strings.saturating_sub(1) as i64));
            }
            let (low, high) = runner.query.tables[source.table].table.integers(column.column)?;
            return Some((i64::try_from(low).ok()?, i64::try_from(high).ok()?));
        }
        pipeline.steps.iter().find_map(|step| {
            let Step::Probe(probe) = step else { return None };
            let (payload, _) = probe.columns.iter().find(|(_, to)| *to == key)?;
            runner.joined(probe.state, self.accelerator)?.payload_range(*payload)
        })
    }

    /// Where groups are counted.
    pub(super) fn place_of(&self, table: &Slots) -> GroupPlace {
        let shared_bytes = u64::from(self.accelerator.processor.device().limits().shared_bytes);
        match table.keys.is_empty() {
            true => GroupPlace::One,
            false if table.bytes() <= MOST_SHARED_BYTES.min(shared_bytes) => GroupPlace::Shared,
            false => GroupPlace::Global,
        }
    }

    /// The groups in the words that a kernel left, and the faults that it found. Of many slots only those come back that hold
    /// a group.
    pub(super) fn fetch_groups(
        &mut self,
        state: StateId,
        table: &Slots,
        words: Address,
        faults: Address,
    ) -> Result<Left> {
        let State::Aggregate(groups) = &self.runner.program.states[state.0 as usize] else {
            return Err(Error::internal("groups in a build side"));
        };
        let rows = if table.bytes() <= ALL_SLOTS_BYTES {
            let fetched = self.turn.fetch(&[(faults, 8), (words, table.bytes())])?;
            check_faults(word(&fetched[0]))?;
            table.rows(groups, &words_of(&fetched[1]))?
        } else {
            let (count, kept) = self.turn.compact(words, table.slots, table.layout.words as u64)?;
            // Most results are small: they come at once.
            let fetched = self.turn.fetch(&[(faults, 8), (count, 8), (kept, FIRST_KEPT_BYTES)])?;
            check_faults(word(&fetched[0]))?;
            let bytes = word(&fetched[1]) * table.kept_words() as u64 * 8;
            let mut all = fetched[2][..bytes.min(FIRST_KEPT_BYTES) as usize].to_vec();
            if bytes > FIRST_KEPT_BYTES {
                let rest = self.turn.fetch(&[(kept.offset(FIRST_KEPT_BYTES), bytes - FIRST_KEPT_BYTES)])?;
                all.extend_from_slice(&rest[0]);
            }
            table.kept_rows(groups, &words_of(&all))?
        };
        let table = GroupTable::of_values(groups, &rows);
        self.check_fits(table.memory_bytes())?;
        Ok(Left::State(state, Box::new(Finished::Groups(table))))
    }

    /// What does not fit the memory is made on the CPU, which can put it on disk.
    fn check_fits(&self, bytes: usize) -> Result<()> {
        match self.runner.within_budget(self.runner.state_bytes() + bytes) {
            Err(error) if error.kind() == ErrorKind::OutOfMemory => Err(unsupported("the result goes to disk")),
            checked => checked,
        }
    }

    /// The most rows of these columns that there can be room for.
    pub(super) fn most_rows(&self, types: &[Typed]) -> u64 {
        self.result_bytes() / row_bytes(types).max(1)
    }

    /// Room for so many rows of these columns; appended to the parameters.
    pub(super) fn room(&mut self, types: &[Typed], rows: u64, parameters: &mut Parameters) -> Result<Room> {
        if rows > self.most_rows(types) {
            return Err(unsupported(format!("{rows} rows of a result take too much of the device's memory")));
        }
        let counter = self.turn.zeros(8)?;
        parameters.room(counter, rows);
        let mut room = Room { rows: counter, columns: Vec::new() };
        for typed in types {
            let values = self.turn.take(rows * value_bytes(typed.value))?;
            let nulls = if typed.nullable { self.turn.take(rows)? } else { Address(0) };
            parameters.output(values, nulls);
            room.columns.push((*typed, values, nulls));
        }
        Ok(room)
    }

    /// The first rows of what a kernel collected.
    pub(super) fn fetch_rows(&mut self, room: &Room, rows: u64) -> Result<FetchedRows> {
        let types: Vec<Typed> = room.columns.iter().map(|(typed, ..)| *typed).collect();
        // Here as they lie there, and as the rows that are made of them.
        self.check_fits(rows.saturating_mul(3 * row_bytes(&types)) as usize)?;
        let mut pieces = Vec::new();
        for (typed, values, nulls) in &room.columns {
            pieces.push((*values, rows * value_bytes(typed.value)));
            pieces.push((*nulls, if typed.nullable { rows } else { 0 }));
        }
        Ok(FetchedRows { rows: rows as usize, types, pieces: self.turn.fetch(&pieces)? })
    }

    /// Rows as the pipeline's sink leaves them.
    pub(super) fn left(&self, pipeline: &Pipeline, fetched: &FetchedRows) -> Result<Left> {
        let (runner, columns) = (self.runner, fetched.columns());
        let threads = runner.options.threads;
        let Some(state) = pipeline.sink.fills() else {
            let layout = collected(&runner.program, pipeline);
            return Ok(Left::Rows(rows_of_columns(&layout, &columns, fetched.rows, threads)));
        };
        let State::Join(join) = &runner.program.states[state.0 as usize] else {
            return Err(Error::internal("rows in groups"));
        };
        let parts = build_rows_of_columns(join, &columns, fetched.rows, threads);
        let parts = parts.into_iter().map(Part::Build).collect();
        let limit = runner.state_limit(self.index, state);
        match finish_within(&runner.program, state, parts, threads, limit)? {
            Made::State(table) => Ok(Left::State(state, table)),
            Made::TooLarge(_) => Err(unsupported("the build side goes to disk")),
        }
    }
}

/// Rows that came back from a device.
pub(super) struct FetchedRows {
    rows: usize,
    types: Vec<Typed>,
    /// By column: its values, and its NULLs.
    pieces: Vec<Vec<u8>>,
}

impl FetchedRows {
    fn columns(&self) -> Vec<PlainValues<'_>> {
        let columns = self.types.iter().zip(self.pieces.chunks_exact(2));
        columns.map(|(typed, piece)| PlainValues { typed: *typed, values: &piece[0], nulls: &piece[1] }).collect()
    }
}

/// Bytes of a row of a result on the device.
fn row_bytes(types: &[Typed]) -> u64 {
    types.iter().map(|typed| value_bytes(typed.value) + u64::from(typed.nullable)).sum()
}

fn words_of(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
}
