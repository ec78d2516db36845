//! Running compiled code: the one module of this part that has `unsafe`. It calls the code, holds the functions that the
//! code calls, and makes slices of the addresses that pass between them.
//!
//! What all of it relies on: a [`Worker`] fills the context with addresses of vectors and states that it borrows or owns
//! during the call, of the types and lengths that the code was compiled for (it checks those that callers choose); code
//! from a verified program reads and writes by the layouts of `layout.rs` only, and passes to the functions here addresses
//! that it got from the context, from rows, or from [`Kept`].

use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use cranelift_jit::JITModule;
use forebay_base::{Error, ErrorKind, Result};
use forebay_pipeline::ir::{Arithmetic, DatePart, StateId};
use forebay_pipeline::semantics::{arithmetic_i64, arithmetic_i128, date_part, length, substring};
use forebay_pipeline::{Fault, LikePattern};

use super::context::{CURSOR, GROUP_CURSORS, MULTIPLICITIES, RESULT, ROWS, SINK, STAGES, STOP};
use super::function::Function;
use super::members::{Members, has, has_short};
use super::sink_state::SinkState;
use super::{Compiled, Finished, KEY_OUT_OF_RANGE, Part, STOPPED, SinkKind};
use crate::groups::{GroupPart, GroupPlan};
use crate::layout::hash_bytes;
use crate::runs::{Partitions, RunLayout, WriteRun};
use crate::vector::{VECTOR_ROWS, Vector};

/// What compiled code is called by: with a context, for a fault.
type Entry = extern "C" fn(*mut u64) -> u64;

/// Machine code of one pipeline.
pub(super) struct Code {
    module: Option<JITModule>,
    entry: Entry,
}

// SAFETY: the module is only looked at again to free its memory, by the last owner; the code itself is never changed and
// keeps nothing between calls.
unsafe impl Send for Code {}
// SAFETY: as above.
unsafe impl Sync for Code {}

impl Code {
    /// The finished function of `module` at this address, which was built to take a context.
    pub(super) fn new(module: JITModule, address: *const u8) -> Self {
        // SAFETY: the address is that of a function in the module with this signature, compiled for this machine.
        let entry = unsafe { std::mem::transmute::<*const u8, Entry>(address) };
        Self { module: Some(module), entry }
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        if let Some(module) = self.module.take() {
            // SAFETY: no one can call the code any more, since whoever runs it owns a share of it.
            unsafe { module.free_memory() }
        }
    }
}

/// Runs a compiled pipeline on one thread.
pub struct Worker {
    compiled: Arc<Compiled>,
    /// Keeps the states alive whose addresses are in the context.
    finished: Vec<Arc<Finished>>,
    sink: SinkState,
    context: Vec<u64>,
    /// What goes from stage to stage.
    stages: Vec<u64>,
    /// Code of the same pipeline for rows that stand for several equal ones.
    duplicates_code: Option<Arc<Compiled>>,
    /// Keeps the byte alive whose address is in the context.
    _stop: Arc<AtomicBool>,
}

/// For columns that are valid throughout.
static ALL_VALID: [u8; VECTOR_ROWS] = [1; VECTOR_ROWS];

impl Worker {
    /// A worker that looks `finished` states up, by state. `groups` says how the groups are found that the
    /// pipeline fills.
    pub fn new(
        compiled: &Arc<Compiled>,
        finished: &[Option<Arc<Finished>>],
        groups: Option<&GroupPlan>,
    ) -> Result<Self> {
        let mut worker = Self {
            compiled: Arc::clone(compiled),
            finished: Vec::new(),
            sink: SinkState::new(compiled, groups)?,
            context: vec![0; compiled.context.words],
            stages: vec![0; compiled.stage_words],
            duplicates_code: compiled.layouts.counts_duplicates.then(|| Arc::clone(compiled)),
            _stop: Arc::default(),
        };
        worker.watch(&Arc::default());
        worker.bind_joins(finished)?;
        worker.bind_dense_keys();
        Ok(worker)
    }

    /// The same worker, whose runs end with [`ErrorKind::Cancelled`] soon after `stop` is set.
    pub fn stopped_by(mut self, stop: &Arc<AtomicBool>) -> Self {
        self.watch(stop);
        self
    }

    fn watch(&mut self, stop: &Arc<AtomicBool>) {
        self.context[STOP] = stop.as_ptr().expose_provenance() as u64;
        self._stop = Arc::clone(stop);
    }

    /// Whether [`Worker::rebind`] can go on with this code.
    pub fn can_rebind(&self, compiled: &Compiled) -> bool {
        let (old, new) = (&self.compiled, compiled);
        (old.context.words, old.layouts.groups, &old.columns) == (new.context.words, new.layouts.groups, &new.columns)
    }

    /// From here on runs other code of the same pipeline, which looks these states up; what the worker has made stays.
    pub fn rebind(&mut self, new: &Arc<Compiled>, finished: &[Option<Arc<Finished>>]) -> Result<()> {
        self.can_rebind(new).then_some(()).ok_or_else(|| Error::internal("a worker goes on with other code"))?;
        self.stages.resize(new.stage_words, 0);
        self.compiled = Arc::clone(new);
        self.duplicates_code = new.layouts.counts_duplicates.then(|| Arc::clone(new));
        self.bind_joins(finished)
    }

    /// From here on [`Worker::run_duplicates`] runs `code`, which is of the same pipeline and takes each row as many times as it stands for.
    pub fn count_duplicates_with(&mut self, code: &Arc<Compiled>) -> Result<()> {
        let layout = |of: &Compiled, state: StateId| of.layouts.joins.get(state.0 as usize).cloned();
        let mut joins = code.context.joins().iter().map(|(state, _)| *state);
        let lie_alike = joins.all(|state| layout(code, state) == layout(&self.compiled, state));
        if !code.layouts.counts_duplicates || !self.can_rebind(code) || !lie_alike {
            return Err(Error::internal("a worker counts duplicates with the code of another pipeline"));
        }
        self.stages.resize(self.stages.len().max(code.stage_words), 0);
        self.duplicates_code = Some(Arc::clone(code));
        Ok(())
    }

    /// Whether it has code for rows that stand for several equal ones.
    pub fn counts_duplicates(&self) -> bool {
        self.duplicates_code.is_some()
    }

    /// Lets go of the states that the worker looks up; it runs again once it is bound to others.
    pub fn release(&mut self) {
        self.finished.clear();
    }

    fn bind_joins(&mut self, finished: &[Option<Arc<Finished>>]) -> Result<()> {
        self.finished.clear();
        for (state, _) in self.compiled.context.joins().to_vec() {
            let table = finished.get(state.0 as usize).and_then(Option::as_ref);
            let table = table.ok_or_else(|| Error::internal("a probed state is not finished"))?;
            let Finished::Join(join) = &**table else {
                return Err(Error::internal("a probed state is no build side"));
            };
            if self.compiled.layouts.joins.get(state.0 as usize) != Some(&Some(join.layout())) {
                return Err(Error::internal("a build side of another layout than was compiled for"));
            }
            self.compiled.context.write_join(&mut self.context, state, &join.addresses());
            self.finished.push(Arc::clone(table));
        }
        Ok(())
    }

    fn bind_dense_keys(&mut self) {
        if let SinkState::Groups(part) = &self.sink {
            self.compiled.context.write_dense_keys(&mut self.context, part.plan().keys());
        }
    }

    /// Takes the first `rows` rows of `vectors`, which are the source's columns in order, through the pipeline. After an
    /// error the worker's rows are incomplete.
    pub fn run(&mut self, vectors: &[Vector], rows: usize) -> Result<()> {
        if self.compiled.layouts.counts_duplicates {
            return Err(Error::internal("code that counts duplicates runs without multiplicities"));
        }
        self.enter(self.compiled.code.entry, vectors, rows, &[])
    }

    /// As [`Worker::run`], with rows that stand for so many equal ones each.
    pub fn run_duplicates(&mut self, vectors: &[Vector], multiplicities: &[u64]) -> Result<()> {
        let code =
            self.duplicates_code.as_ref().ok_or_else(|| Error::internal("a worker has no code for duplicates"))?;
        self.enter(code.code.entry, vectors, multiplicities.len(), multiplicities)
    }

    /// Runs code on rows; it reads `multiplicities` only if it counts duplicates; there are as many as rows then.
    fn enter(&mut self, entry: Entry, vectors: &[Vector], rows: usize, multiplicities: &[u64]) -> Result<()> {
        let columns = &self.compiled.columns;
        if vectors.len() != columns.len() {
            return Err(Error::internal(format!("{} vectors for {} columns", vectors.len(), columns.len())));
        }
        for (number, (vector, (physical, nullable))) in vectors.iter().zip(columns).enumerate() {
            let nulls = vector.validity_address();
            if vector.physical() != *physical || vector.rows() < rows || (nulls != 0 && !nullable) {
                return Err(Error::internal(format!("vector {number} is not of its column's type or length")));
            }
            let word = self.compiled.context.column(number);
            self.context[word] = vector.data_address();
            self.context[word + 1] = if nulls == 0 { ALL_VALID.as_ptr().expose_provenance() as u64 } else { nulls };
        }
        if self.finished.len() != self.compiled.context.joins().len() {
            return Err(Error::internal("a worker runs without the states that it looks up"));
        }
        if rows > VECTOR_ROWS {
            return Err(Error::internal(format!("{rows} rows in one run")));
        }
        self.context[ROWS] = rows as u64;
        self.context[MULTIPLICITIES] = multiplicities.as_ptr().expose_provenance() as u64;
        self.context[STAGES] = self.stages.as_mut_ptr().expose_provenance() as u64;
        self.sink.open(&mut self.context);
        self.context[SINK] = (&raw mut self.sink).expose_provenance() as u64;
        let code = entry(self.context.as_mut_ptr());
        if let SinkState::Rows(buffer) = &mut self.sink {
            buffer.set_cursor(self.context[CURSOR]);
        }
        match Fault::from_code(code) {
            None if code == 0 => Ok(()),
            None if code == STOPPED => Err(Error::new(ErrorKind::Cancelled, "the query was cancelled")),
            None if code == KEY_OUT_OF_RANGE => Err(Error::internal("a key of a group is out of its range")),
            None => Err(Error::internal(format!("compiled code returned {code}"))),
            Some(fault) => Err(fault.into()),
        }
    }

    /// Rows that left each step so far, 0 for computations; nothing where the code does not count.
    pub fn step_rows(&self) -> &[u64] {
        &self.context[self.compiled.context.counts()]
    }

    /// Bytes of memory that the worker's part of the sink holds.
    pub fn memory_bytes(&self) -> usize {
        self.sink.memory_bytes()
    }

    /// Its groups, if it makes any.
    pub fn groups(&mut self) -> Option<&mut GroupPart> {
        if let SinkState::Groups(groups) = &mut self.sink { Some(groups) } else { None }
    }

    /// Gives what the worker has made as runs, and has made nothing then. Not for dense groups.
    pub fn take_runs(&mut self, layout: &RunLayout, partitions: &Partitions, write: &mut WriteRun<'_>) -> Result<()> {
        self.sink.take_runs(layout, partitions, write)
    }

    /// What the worker adds to the state or result that the pipeline fills.
    pub fn finish(self) -> Part {
        match (self.sink, &self.compiled.sink) {
            (SinkState::Rows(buffer), SinkKind::Build(_)) => Part::Build(buffer),
            (SinkState::Rows(buffer), _) => Part::Collect(buffer),
            (SinkState::Groups(part), _) => Part::Groups(part),
            (SinkState::Marks, _) => Part::Marked,
        }
    }
}

impl Function {
    /// Where it lies.
    pub(super) fn address(self) -> u64 {
        let address = match self {
            Self::Arithmetic64 => arithmetic64 as *const (),
            Self::Arithmetic128 => arithmetic128 as *const (),
            Self::DatePart => part_of_date as *const (),
            Self::Length => length_of_text as *const (),
            Self::Substring => part_of_text as *const (),
            Self::CompareBytes => compare_bytes as *const (),
            Self::EqualBytes => equal_bytes as *const (),
            Self::HashBytes => hash_of_bytes as *const (),
            Self::FloatOf => float_of as *const (),
            Self::Like => like as *const (),
            Self::Member => member as *const (),
            Self::Grow => grow as *const (),
            Self::KeepBytes => keep_bytes as *const (),
            Self::ReplaceBytes => replace_bytes as *const (),
            Self::NewGroup => new_group as *const (),
            Self::GrowPartition => grow_partition as *const (),
        };
        address.expose_provenance() as u64
    }
}

/// Two words.
#[repr(C)]
struct Pair(u64, u64);

/// All parts of dates, by number.
const DATE_PARTS: [DatePart; 3] = [DatePart::Year, DatePart::Month, DatePart::Day];

/// The bytes that compiled code names.
///
/// # Safety
/// They must be readable and unchanged while the slice is used.
unsafe fn slice<'a>(address: u64, length: u64) -> &'a [u8] {
    if length == 0 {
        return &[];
    }
    // SAFETY: the caller says so; the address is not 0 because no bytes of a length are there.
    unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance(address as usize), length as usize) }
}

/// The sink of the worker that runs.
///
/// # Safety
/// `context` is the one that [`Worker::run`] gave.
unsafe fn sink<'a>(context: *mut u64) -> &'a mut SinkState {
    // SAFETY: the worker wrote its sink's address there, and does not touch it before the code returns.
    unsafe { &mut *std::ptr::with_exposed_provenance_mut(*context.add(SINK) as usize) }
}

/// The words of the context before those that depend on the pipeline.
///
/// # Safety
/// `context` is the one that [`Worker::run`] gave.
unsafe fn words<'a>(context: *mut u64) -> &'a mut [u64] {
    // SAFETY: every context has them, and compiled code does not run beside this function.
    unsafe { std::slice::from_raw_parts_mut(context, GROUP_CURSORS + 1) }
}

unsafe extern "C" fn arithmetic64(context: *mut u64, operation: u64, a: i64, b: i64) -> u64 {
    match arithmetic_i64(Arithmetic::ALL[operation as usize], a, b) {
        Ok(result) => {
            // SAFETY: it is the worker's context.
            let words = unsafe { words(context) };
            words[RESULT] = result as u64;
            0
        }
        Err(fault) => fault.code(),
    }
}

unsafe extern "C" fn arithmetic128(context: *mut u64, operation: u64, a: u64, a_high: u64, b: u64, b_high: u64) -> u64 {
    match arithmetic_i128(Arithmetic::ALL[operation as usize], wide(a, a_high), wide(b, b_high)) {
        Ok(result) => {
            // SAFETY: it is the worker's context.
            let words = unsafe { words(context) };
            (words[RESULT], words[RESULT + 1]) = (result as u64, (result >> 64) as u64);
            0
        }
        Err(fault) => fault.code(),
    }
}

fn wide(low: u64, high: u64) -> i128 {
    (i128::from(high as i64) << 64) | i128::from(low)
}

extern "C" fn part_of_date(part: u64, days: i64) -> i64 {
    date_part(DATE_PARTS[part as usize], days)
}

unsafe extern "C" fn length_of_text(address: u64, bytes: u64) -> i64 {
    // SAFETY: bytes in registers are readable.
    length(unsafe { slice(address, bytes) })
}

unsafe extern "C" fn part_of_text(address: u64, length: u64, start: i64, characters: i64, limited: u64) -> Pair {
    // SAFETY: bytes in registers are readable.
    let text = unsafe { slice(address, length) };
    let part = substring(text, start, (limited != 0).then_some(characters));
    // The part lies in the text, whose address was exposed where it came from.
    let offset = part.as_ptr().addr().wrapping_sub(text.as_ptr().addr()) as u64;
    if part.is_empty() { Pair(address, 0) } else { Pair(address + offset, part.len() as u64) }
}

unsafe extern "C" fn compare_bytes(a: u64, a_length: u64, b: u64, b_length: u64) -> i64 {
    // SAFETY: bytes in registers and rows are readable.
    let (a, b) = unsafe { (slice(a, a_length), slice(b, b_length)) };
    match a.cmp(b) {
        Ordering::Less => -1,
        Ordering::Equal => 0,
        Ordering::Greater => 1,
    }
}

unsafe extern "C" fn equal_bytes(a: u64, b: u64, length: u64) -> u64 {
    // SAFETY: bytes in registers and rows are readable, and both have this length.
    // Empty texts lie anywhere, and comparing nothing at an address that is not mapped is slow.
    u64::from(length == 0 || a == b || unsafe { slice(a, length) == slice(b, length) })
}

unsafe extern "C" fn hash_of_bytes(address: u64, length: u64) -> u64 {
    // SAFETY: bytes in registers are readable.
    hash_bytes(unsafe { slice(address, length) })
}

extern "C" fn float_of(low: u64, high: u64) -> u64 {
    (wide(low, high) as f64).to_bits()
}

unsafe extern "C" fn like(pattern: u64, address: u64, length: u64) -> u64 {
    // SAFETY: the pattern is one that the code keeps; bytes in registers are readable.
    let (pattern, text) =
        unsafe { (&*std::ptr::with_exposed_provenance::<LikePattern>(pattern as usize), slice(address, length)) };
    u64::from(pattern.matches(text))
}

unsafe extern "C" fn member(list: u64, low: u64, high: u64) -> u64 {
    // SAFETY: the list is one that the code keeps.
    let list = unsafe { &*std::ptr::with_exposed_provenance::<Members>(list as usize) };
    u64::from(match list {
        Members::I64(list) => list.binary_search(&(low as i64)).is_ok(),
        Members::I128(list) => list.binary_search(&wide(low, high)).is_ok(),
        Members::F64(list) => list.binary_search(&low).is_ok(),
        // SAFETY: bytes in registers are readable.
        Members::Bytes(list) => has(list, unsafe { slice(low, high) }),
        // SAFETY: as above.
        Members::ShortBytes(list) => has_short(list, unsafe { slice(low, high) }),
    })
}

unsafe extern "C" fn grow(context: *mut u64) {
    // SAFETY: it is the worker's context.
    let (sink, words) = unsafe { (sink(context), words(context)) };
    if let SinkState::Rows(buffer) = sink {
        buffer.grow(words[CURSOR]);
    }
    sink.open(words);
}

unsafe extern "C" fn keep_bytes(context: *mut u64, address: u64, length: u64) -> u64 {
    // SAFETY: it is the worker's context, and bytes in registers are readable.
    let (sink, bytes) = unsafe { (sink(context), slice(address, length)) };
    match sink {
        SinkState::Rows(buffer) => buffer.keep_bytes(bytes),
        SinkState::Groups(part) => part.keep_bytes(bytes),
        SinkState::Marks => 0,
    }
}

unsafe extern "C" fn replace_bytes(context: *mut u64, old: u64, old_length: u64, address: u64, length: u64) -> u64 {
    // SAFETY: it is the worker's context, and bytes in registers are readable; they are copied before the old ones, which
    // no register holds, are used again.
    let (sink, bytes) = unsafe { (sink(context), slice(address, length)) };
    match sink {
        SinkState::Groups(part) => part.replace_bytes(old, old_length as usize, bytes),
        SinkState::Rows(_) | SinkState::Marks => 0,
    }
}

unsafe extern "C" fn new_group(context: *mut u64, hash: u64, key: u64, words: u64) -> u64 {
    // SAFETY: it is the worker's context, and the key's words lie in it behind those that are written here.
    let (sink, key) = unsafe {
        let key = std::ptr::with_exposed_provenance::<u64>(key as usize);
        (sink(context), std::slice::from_raw_parts(key, words as usize))
    };
    let SinkState::Groups(part) = sink else { return 0 };
    let (row, moved) = part.insert(hash, key);
    if moved {
        // SAFETY: as above.
        sink.open(unsafe { self::words(context) });
    }
    row
}

unsafe extern "C" fn grow_partition(context: *mut u64, partition: u64) -> u64 {
    // SAFETY: it is the worker's context.
    let SinkState::Groups(part) = (unsafe { sink(context) }) else { return 0 };
    part.grow_partition(partition as usize).map_or_else(Fault::code, |()| 0)
}
