//! Vectors: what a pipeline's loop reads, some thousand values of one column, unpacked.
//!
//! Invariants: the views of strings point into memory that the vector keeps alive; no vector has views without an owner.
//! A vector's addresses are good until it is loaded again or dropped. Must not know: what the values are used for.

use std::sync::{Arc, Weak};

use bytemuck::{Zeroable, cast_slice_mut};
use forebay_base::limits::BATCH_ROWS;
use forebay_base::{PhysicalType, Result, Value};
use forebay_block::{Access, EncodedBlock, InflatedChunk, Native, StringValues, ValueRef, Values, with_native};
use forebay_pipeline::Scalar;
use forebay_pipeline::ir::{SourceColumn, ValueType};

use crate::arena::{Arena, empty_address};
use crate::dictionary::{Dictionary, UNKNOWN};
use crate::selection::Selected;
use crate::unpack::{CodeSink, Entries, fill_fixed, fill_validity, overwrite};

/// Rows of a vector at most: a handful of vectors fits the second-level cache.
pub const VECTOR_ROWS: usize = BATCH_ROWS;

/// Bytes of a view: address and length.
const VIEW_BYTES: usize = 16;

/// Up to [`VECTOR_ROWS`] values of one column.
#[derive(Debug)]
pub struct Vector {
    physical: PhysicalType,
    rows: usize,
    /// Values of the physical type's width one after the other, whatever it is; strings as [`View`]s.
    memory: Vec<u128>,
    /// One byte a row, 1 = valid; meaningful where `has_nulls`.
    validity: Vec<u8>,
    has_nulls: bool,
    /// What the views point into.
    owner: Owner,
}

/// Address and length of a string. The address is never 0.
pub type View = [u64; 2];

#[derive(Debug)]
enum Owner {
    Nothing,
    Chunk(Arc<InflatedChunk>),
    Arena(Arc<Arena>),
}

/// The ids that the strings of one dictionary block, or the runs of a block, have in a query's dictionary. One worker keeps one of them for each
/// column with a dictionary; it remembers the block of the last load, and looks up only strings that rows have.
#[derive(Debug, Default)]
pub struct BlockIds {
    /// Kept weakly: as long as this is there, no other chunk has the same address.
    chunk: Weak<InflatedChunk>,
    block: usize,
    /// By code, or by run.
    ids: Vec<u32>,
    /// How many of them are not known yet.
    unknown: usize,
}

impl Default for Vector {
    fn default() -> Self {
        Self {
            physical: PhysicalType::I64,
            rows: 0,
            memory: Vec::new(),
            validity: Vec::new(),
            has_nulls: false,
            owner: Owner::Nothing,
        }
    }
}

/// How computed values of a type lie in a vector.
pub fn physical_of(value: ValueType) -> PhysicalType {
    match value {
        ValueType::Bool => PhysicalType::U8,
        ValueType::I64 => PhysicalType::I64,
        ValueType::I128 => PhysicalType::I128,
        ValueType::F64 => PhysicalType::F64,
        ValueType::Bytes => PhysicalType::Bytes,
    }
}

/// How a loaded column lies in a vector: strings with a dictionary as ids of 4 bytes, all else as the table has it.
pub fn physical_of_column(column: &SourceColumn) -> PhysicalType {
    if column.dictionary.is_some() { PhysicalType::U32 } else { column.physical }
}

impl Vector {
    /// Loads `rows` of a block, at most [`VECTOR_ROWS`], which must be of the column's physical type. NULL rows have any
    /// value. A column with a dictionary needs `ids`.
    pub fn load(
        &mut self,
        chunk: &Arc<InflatedChunk>,
        block: usize,
        rows: &Selected<'_>,
        column: &SourceColumn,
        ids: Option<(&Dictionary, &mut BlockIds)>,
    ) -> Result<()> {
        let encoded = chunk.block(block);
        assert_eq!(encoded.physical(), column.physical, "a block has its column's type");
        self.begin(physical_of_column(column), rows.len());
        if column.dictionary.is_some() {
            let (dictionary, ids) = ids.expect("a column with a dictionary is loaded with it");
            load_ids(chunk, block, rows, dictionary, ids, self.values_mut())?;
        } else {
            with_native!(column.physical,
                T => fill_fixed::<T>(&encoded, rows, self.values_mut()),
                bytes => {
                    fill_views(&encoded, rows, self.views_mut());
                    self.owner = Owner::Chunk(Arc::clone(chunk));
                }
            );
        }
        self.has_nulls = fill_validity(&encoded, rows, self.validity_mut());
        Ok(())
    }

    /// Loads `rows` times the same value, for columns that a segment does not have.
    pub fn load_constant(
        &mut self,
        value: Option<&Value>,
        rows: usize,
        column: &SourceColumn,
        dictionary: Option<&Dictionary>,
    ) -> Result<()> {
        let id = match (value, column.dictionary) {
            (Some(Value::Bytes(value)), Some(_)) => {
                let dictionary = dictionary.expect("a column with a dictionary is loaded with it");
                Some(Value::Int(i128::from(dictionary.intern(value)?)))
            }
            _ => None,
        };
        self.load_values(physical_of_column(column), &[id.as_ref().or(value)]);
        self.repeat(rows);
        Ok(())
    }

    /// Loads the places of these rows of a block, of whose first row the place is `first`.
    pub fn load_places(&mut self, first: i64, rows: &Selected<'_>) {
        self.begin(PhysicalType::I64, rows.len());
        for (slot, row) in self.values_mut::<i64>().iter_mut().zip(rows.rows()) {
            *slot = first + row as i64;
        }
        self.has_nulls = false;
    }

    /// Loads single values of a physical type; `None` is NULL. Panics where a value is not of the type.
    pub fn load_values(&mut self, physical: PhysicalType, values: &[Option<&Value>]) {
        self.begin(physical, values.len());
        if physical == PhysicalType::Bytes {
            let mut arena = Arena::default();
            for (view, value) in self.views_mut().iter_mut().zip(values) {
                let value = value.map_or(&[][..], |value| bytes_of(value));
                *view = [arena.keep(value), value.len() as u64];
            }
            self.owner = Owner::Arena(Arc::new(arena));
        }
        with_native!(physical, T => {
            for (slot, value) in self.values_mut::<T>().iter_mut().zip(values) {
                *slot = value.map_or(T::zeroed(), native_of);
            }
        }, bytes => ());
        for (valid, value) in self.validity_mut().iter_mut().zip(values) {
            *valid = u8::from(value.is_some());
        }
        self.has_nulls = values.contains(&None);
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// How the values lie in memory.
    pub fn physical(&self) -> PhysicalType {
        self.physical
    }

    /// Where the values lie.
    pub fn data_address(&self) -> u64 {
        self.memory.as_ptr().expose_provenance() as u64
    }

    /// Where the bytes of validity lie, 1 = valid; 0 where all values are valid.
    pub fn validity_address(&self) -> u64 {
        if self.has_nulls { self.validity.as_ptr().expose_provenance() as u64 } else { 0 }
    }

    /// The values; `T` must be the physical type's Rust type.
    pub fn values<T: Native>(&self) -> &[T] {
        assert_eq!(T::PHYSICAL, self.physical, "a vector is read as its own type");
        &bytemuck::cast_slice(&self.memory)[..self.rows]
    }

    /// The bytes of the values, which are of fixed width, or ids.
    pub fn value_bytes(&self) -> &[u8] {
        let width = self.physical.width().expect("strings are no values of fixed width");
        &bytemuck::cast_slice(&self.memory)[..self.rows * width]
    }

    /// Address and length of each string.
    pub fn views(&self) -> &[View] {
        assert_eq!(self.physical, PhysicalType::Bytes, "a vector is read as its own type");
        &bytemuck::cast_slice(&self.memory)[..self.rows]
    }

    /// The string of a row.
    pub fn bytes(&self, row: usize) -> &[u8] {
        let [address, length] = self.views()[row];
        let length = length as usize;
        match &self.owner {
            _ if length == 0 => &[],
            Owner::Nothing => unreachable!("views have an owner"),
            Owner::Arena(arena) => arena.get(address, length),
            Owner::Chunk(chunk) => {
                let bytes = chunk.as_bytes();
                let start = address as usize - bytes.as_ptr().addr();
                &bytes[start..start + length]
            }
        }
    }

    /// One byte a row, 1 = valid; `None` where all values are valid.
    pub fn validity(&self) -> Option<&[u8]> {
        self.has_nulls.then(|| &self.validity[..self.rows])
    }

    /// Whether the value of a row is not NULL.
    pub fn is_valid(&self, row: usize) -> bool {
        self.validity().is_none_or(|validity| validity[row] != 0)
    }

    /// The value of a row as computed with.
    pub fn scalar(&self, row: usize, as_type: ValueType) -> Scalar {
        let value = self.is_valid(row).then(|| {
            with_native!(self.physical,
                T => value_of(self.values::<T>()[row]),
                bytes => Value::Bytes(self.bytes(row).to_vec())
            )
        });
        Scalar::of_value(value.as_ref(), as_type).expect("columns are widened to the type that they are read as")
    }

    /// Bytes of memory that the vector holds, without those of its owner.
    pub fn memory_bytes(&self) -> usize {
        self.memory.capacity() * size_of::<u128>() + self.validity.capacity()
    }

    /// Makes room for `rows` valid values of `physical`, of any value.
    pub(crate) fn begin(&mut self, physical: PhysicalType, rows: usize) {
        assert!(rows <= VECTOR_ROWS, "a vector has at most {VECTOR_ROWS} rows, not {rows}");
        let width = physical.width().unwrap_or(VIEW_BYTES);
        self.memory.resize(self.memory.len().max(VECTOR_ROWS * width / size_of::<u128>()), 0);
        (self.physical, self.rows, self.has_nulls, self.owner) = (physical, rows, false, Owner::Nothing);
    }

    /// The values, to be written; `T` must be the physical type's Rust type.
    pub(crate) fn values_mut<T: Native>(&mut self) -> &mut [T] {
        assert_eq!(T::PHYSICAL, self.physical, "a vector is written as its own type");
        &mut cast_slice_mut(&mut self.memory)[..self.rows]
    }

    /// The validity, to be written; counts only after [`Vector::set_nulls`].
    pub(crate) fn validity_mut(&mut self) -> &mut [u8] {
        self.validity.resize(VECTOR_ROWS, 1);
        &mut self.validity[..self.rows]
    }

    /// Whether the written validity counts.
    pub(crate) fn set_nulls(&mut self, has_nulls: bool) {
        self.has_nulls = has_nulls;
    }

    /// Writes views of strings that lie in `arena`.
    pub(crate) fn write_views(&mut self, arena: &Arc<Arena>, views: impl Iterator<Item = View>) {
        for (slot, [address, length]) in self.views_mut().iter_mut().zip(views) {
            *slot = if length == 0 { [empty_address(), 0] } else { [address, length] };
        }
        self.owner = Owner::Arena(Arc::clone(arena));
    }

    fn views_mut(&mut self) -> &mut [View] {
        assert_eq!(self.physical, PhysicalType::Bytes, "a vector is written as its own type");
        &mut cast_slice_mut(&mut self.memory)[..self.rows]
    }

    /// Repeats the only row.
    fn repeat(&mut self, rows: usize) {
        assert!(self.rows == 1 && rows <= VECTOR_ROWS, "one row becomes at most {VECTOR_ROWS}, not {rows}");
        self.rows = rows;
        if let Some(first) = self.validity.first().copied() {
            self.validity_mut().fill(first);
        }
        with_native!(self.physical,
            T => { let first = cast_slice_mut(&mut self.memory)[0]; self.values_mut::<T>().fill(first) },
            bytes => { let first = cast_slice_mut(&mut self.memory)[0]; self.views_mut().fill(first) }
        );
    }
}

impl BlockIds {
    /// Writes the ids of the strings that `rows` have.
    fn look_up(
        &mut self,
        dictionary: &Dictionary,
        strings: &StringValues<'_>,
        (entries, rows): (Entries<'_>, &Selected<'_>),
        out: &mut [u32],
    ) -> Result<()> {
        if self.unknown == 0 {
            entries.take(rows, KnownIds { ids: &self.ids, out });
            return Ok(());
        }
        entries.fill(rows, out);
        self.intern(dictionary, strings, out)?;
        for slot in out {
            *slot = self.ids[*slot as usize];
        }
        Ok(())
    }

    /// Finds the ids of those of these codes that have none yet.
    fn intern(&mut self, dictionary: &Dictionary, strings: &StringValues<'_>, codes: &[u32]) -> Result<()> {
        let mut missing = Vec::new();
        for code in codes {
            let id = &mut self.ids[*code as usize];
            if *id == UNKNOWN {
                // So that it is asked for once.
                *id = 0;
                missing.push(*code);
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        missing.sort_unstable();
        let mut ids = vec![UNKNOWN; missing.len()];
        let interned = dictionary.intern_all(missing.iter().map(|code| strings.get(*code as usize)), &mut ids);
        if interned.is_err() {
            ids.fill(UNKNOWN);
        }
        for (code, id) in missing.iter().zip(ids) {
            self.ids[*code as usize] = id;
        }
        interned?;
        self.unknown -= missing.len();
        Ok(())
    }

    /// Forgets what it knows unless that is of this block.
    fn open(&mut self, chunk: &Arc<InflatedChunk>, block: usize, strings: usize) {
        if !std::ptr::eq(self.chunk.as_ptr(), Arc::as_ptr(chunk)) || self.block != block {
            (self.chunk, self.block) = (Arc::downgrade(chunk), block);
            self.ids.clear();
            self.ids.resize(strings, UNKNOWN);
            self.unknown = strings;
        }
    }
}

fn load_ids(
    chunk: &Arc<InflatedChunk>,
    block: usize,
    rows: &Selected<'_>,
    dictionary: &Dictionary,
    ids: &mut BlockIds,
    out: &mut [u32],
) -> Result<()> {
    match chunk.block(block).access() {
        Access::AllNull => out.fill(0),
        Access::Constant(ValueRef::Bytes(value)) => out.fill(dictionary.intern(value)?),
        Access::Dictionary { values: Values::Strings(strings), codes } => {
            ids.open(chunk, block, strings.len());
            ids.look_up(dictionary, &strings, (Entries::Codes(codes), rows), out)?;
        }
        Access::RunLength { values: Values::Strings(strings), ends } => {
            ids.open(chunk, block, strings.len());
            ids.look_up(dictionary, &strings, (Entries::Runs(ends), rows), out)?;
        }
        Access::Plain(Values::Strings(strings)) => {
            dictionary.intern_all(rows.rows().map(|row| strings.get(row)), out)?;
        }
        Access::Constant(ValueRef::Int(_) | ValueRef::Float32(_) | ValueRef::Float64(_))
        | Access::FrameOfReference { .. }
        | Access::Dictionary { values: Values::Fixed(_), .. }
        | Access::Plain(Values::Fixed(_))
        | Access::RunLength { values: Values::Fixed(_), .. } => unreachable!("a block of strings has strings"),
    }
    Ok(())
}

/// Views into the block's own bytes.
fn fill_views(block: &EncodedBlock<'_>, rows: &Selected<'_>, out: &mut [View]) {
    match block.access() {
        Access::AllNull => out.fill([empty_address(), 0]),
        Access::Constant(ValueRef::Bytes(value)) => {
            out.fill([value.as_ptr().expose_provenance() as u64, value.len() as u64]);
        }
        Access::Dictionary { values: Values::Strings(strings), codes } => {
            Entries::Codes(codes).take(rows, FromStrings::new(&strings, out));
        }
        Access::RunLength { values: Values::Strings(strings), ends } => {
            Entries::Runs(ends).take(rows, FromStrings::new(&strings, out));
        }
        Access::Plain(Values::Strings(strings)) => {
            let mut sink = FromStrings::new(&strings, out);
            match rows {
                Selected::Rows(rows) => sink.take(rows.clone()),
                Selected::Positions(positions) => sink.take(positions.iter().copied()),
            }
        }
        Access::Constant(ValueRef::Int(_) | ValueRef::Float32(_) | ValueRef::Float64(_))
        | Access::FrameOfReference { .. }
        | Access::Dictionary { values: Values::Fixed(_), .. }
        | Access::Plain(Values::Fixed(_))
        | Access::RunLength { values: Values::Fixed(_), .. } => unreachable!("a block of strings has strings"),
    }
}

/// Ids by codes.
struct KnownIds<'a> {
    ids: &'a [u32],
    out: &'a mut [u32],
}

impl CodeSink for KnownIds<'_> {
    #[inline]
    fn take<C: Copy + Into<u64>>(&mut self, codes: impl ExactSizeIterator<Item = C>) {
        let ids = self.ids;
        overwrite(&mut self.out, codes.map(|code| ids[code.into() as usize]));
    }
}

/// Views of strings by their numbers.
struct FromStrings<'a> {
    address: u64,
    offsets: &'a [u32],
    out: &'a mut [View],
}

impl<'a> FromStrings<'a> {
    fn new(strings: &StringValues<'a>, out: &'a mut [View]) -> Self {
        Self { address: strings.bytes().as_ptr().expose_provenance() as u64, offsets: strings.offsets(), out }
    }
}

impl CodeSink for FromStrings<'_> {
    #[inline]
    fn take<C: Copy + Into<u64>>(&mut self, codes: impl ExactSizeIterator<Item = C>) {
        let (address, offsets) = (self.address, self.offsets);
        let view = |code: C| {
            let code = code.into() as usize;
            let (start, end) = (u64::from(offsets[code]), u64::from(offsets[code + 1]));
            [address + start, end - start]
        };
        overwrite(&mut self.out, codes.map(view));
    }
}

fn value_of<T: Native>(native: T) -> Value {
    if T::INTEGER { Value::Int(native.bits()) } else { T::value_of_key(native.key().into()) }
}

fn native_of<T: Native>(value: &Value) -> T {
    let bits = match (value, T::PHYSICAL) {
        (Value::Int(value), _) if T::INTEGER => *value,
        (Value::Float(value), PhysicalType::F32) => (*value as f32).bits(),
        (Value::Float(value), PhysicalType::F64) => value.bits(),
        _ => panic!("{value:?} is no {:?}", T::PHYSICAL),
    };
    T::from_bits(bits).unwrap_or_else(|| panic!("{value:?} is no {:?}", T::PHYSICAL))
}

fn bytes_of(value: &Value) -> &[u8] {
    match value {
        Value::Bytes(value) => value,
        _ => panic!("{value:?} is no string"),
    }
}
