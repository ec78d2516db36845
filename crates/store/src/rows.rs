//! The catalog as rows of the manifest, and back (`docs/format.md`, "Manifest").
//!
//! Every row ends in a CRC-32C over its key and payload, and the root row holds the number of rows and a CRC-32C over
//! theirs: a row that changed, went missing, came back or was swapped is noticed when the catalog is loaded. All rows are
//! of the root row's format version; what rows of version 2 lack stands at the end of those of version 3.
//! Must not know: where rows are kept.

mod deleted;
mod segments;
mod unchanged;

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_base::checksum::crc32c;
use forebay_base::{ColumnId, Context, DirectoryId, Error, FactId, LogicalType, Result, SegmentId, TableId, limits};

use crate::catalog::{
    Catalog, Column, Constraint, Macro, MacroKind, Named, NamedType, Objects, Schema, Table, View, fold,
};
use crate::data_directories::{DataDirectories, DatabaseId};
use crate::fact::Fact;
use crate::head::{FORMAT_VERSION, FORMAT_VERSION_OLDEST, check_version};
use crate::options::TableOptions;
use crate::projection::{self, Projection};
use crate::segment::Segment;
use crate::segment_list::SegmentList;
use crate::sequence::Sequence;
use crate::serial::{Reader, Writer};
use crate::volume::{DATABASE_DIRECTORY, Volume};
use deleted::{check_none_left, decode_deleted, seal_deleted};
use segments::{Place, decode_segment, encode_segment, place_projections, place_segments};
use unchanged::{Unchanged, placed};

/// Kind of row, the first byte of its key; the other eight are the id, big-endian.
pub(crate) const ROW_ROOT: u8 = 0;
pub(crate) const ROW_SCHEMA: u8 = 1;
pub(crate) const ROW_TABLE: u8 = 2;
pub(crate) const ROW_VIEW: u8 = 3;
pub(crate) const ROW_SEGMENT: u8 = 4;
pub(crate) const ROW_DATA_DIRECTORIES: u8 = 5;
pub(crate) const ROW_FACT: u8 = 6;
pub(crate) const ROW_MACRO: u8 = 7;
pub(crate) const ROW_SEQUENCE: u8 = 8;
pub(crate) const ROW_TYPE: u8 = 9;
pub(crate) const ROW_PROJECTIONS: u8 = 10;
pub(crate) const ROW_DELETED: u8 = 11;
/// Kind of the keys of hot rows, which are longer than others (`manifest.rs`), and of their changes in records of the redo log.
pub(crate) const ROW_HOT: u8 = 12;
/// The files of hot rows; not among the rows that have a checksum together.
pub(crate) const ROW_HOT_FILES: u8 = 13;

pub(crate) const CONSTRAINT_PRIMARY_KEY: u8 = 0;
pub(crate) const CONSTRAINT_UNIQUE: u8 = 1;
pub(crate) const CONSTRAINT_FOREIGN_KEY: u8 = 2;
pub(crate) const CONSTRAINT_CHECK: u8 = 3;
pub(crate) const CONSTRAINT_FOREIGN_KEY_NOT_ENFORCED: u8 = 4;
pub(crate) const CONSTRAINT_CHECK_NOT_ENFORCED: u8 = 5;

pub(crate) const MACRO_OF_VALUES: u8 = 0;
pub(crate) const MACRO_OF_TABLES: u8 = 1;

/// Bytes of a key.
pub(crate) const KEY_BYTES: usize = 9;
/// Bytes of a row's checksum.
const CRC_BYTES: usize = size_of::<u32>();

pub(crate) type Key = [u8; KEY_BYTES];

/// All rows of a manifest, with their checksums.
pub(crate) type Rows = BTreeMap<Key, Vec<u8>>;

/// Rows that a commit sets, or removes where there is none.
pub(crate) type RowChanges = Vec<(Key, Option<Vec<u8>>)>;

/// What the root row says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Root {
    /// Format version of all rows.
    pub(crate) version: u32,
    pub(crate) commit: u64,
    pub(crate) next_object: u64,
    /// Id of the next segment or fact.
    pub(crate) next_file: u64,
    rows: u64,
    digest: u32,
}

pub(crate) fn key(kind: u8, id: u64) -> Key {
    let mut key = [kind; KEY_BYTES];
    key[1..].copy_from_slice(&id.to_be_bytes());
    key
}

fn seal(rows: &mut Rows, key: Key, mut row: Writer) {
    let crc = row_crc(&key, &row.bytes);
    row.u32(crc);
    rows.insert(key, row.bytes);
}

/// Puts another payload under `key`, so that [`verify`] finds all right.
#[cfg(test)]
pub(crate) fn seal_again(rows: &mut Rows, of: Key, payload: Vec<u8>) {
    seal(rows, of, Writer { bytes: payload });
    let root_key = key(ROW_ROOT, 0);
    let mut root = rows[&root_key].clone();
    let digest_at = root.len() - 2 * CRC_BYTES;
    root[digest_at..digest_at + CRC_BYTES].copy_from_slice(&digest(rows).to_le_bytes());
    root.truncate(digest_at + CRC_BYTES);
    seal(rows, root_key, Writer { bytes: root });
}

fn row_crc(key: &Key, payload: &[u8]) -> u32 {
    let mut checked = Vec::with_capacity(key.len() + payload.len());
    checked.extend_from_slice(key);
    checked.extend_from_slice(payload);
    crc32c(&checked)
}

/// Verifies a row's checksum; its payload.
fn unseal<'a>(key: &Key, row: &'a [u8]) -> Result<&'a [u8]> {
    let wrong = || Error::corrupt(format!("checksum mismatch in manifest row {key:02x?}"));
    let (payload, crc) = row.split_last_chunk::<CRC_BYTES>().ok_or_else(wrong)?;
    if row_crc(key, payload) == u32::from_le_bytes(*crc) { Ok(payload) } else { Err(wrong()) }
}

/// CRC-32C over the checksums of all rows but the root, in key order.
fn digest(rows: &Rows) -> u32 {
    let mut crcs = Vec::with_capacity(rows.len() * CRC_BYTES);
    for (key, row) in rows {
        if key[0] != ROW_ROOT {
            crcs.extend_from_slice(&row[row.len().saturating_sub(CRC_BYTES)..]);
        }
    }
    crc32c(&crcs)
}

/// The catalog as rows.
pub(crate) fn encode(catalog: &Catalog, next_file: u64) -> Rows {
    let mut rows = Rows::new();
    encode_but(catalog, &Unchanged::default(), None, &mut rows);
    seal_root(catalog, next_file, &mut rows);
    rows
}

/// The same of a database that has no data directories: all files lie in its own directory.
pub(crate) fn encode_in_one_directory(catalog: &Catalog, next_file: u64) -> Rows {
    let mut rows = Rows::new();
    encode_but(catalog, &Unchanged::default(), Some(DATABASE_DIRECTORY), &mut rows);
    seal_root(catalog, next_file, &mut rows);
    rows
}

/// Makes rows of `now` of those of `before`; what was changed. It costs what has changed, and a look at the checksum of every row.
pub(crate) fn update(rows: &mut Rows, before: &Catalog, now: &Catalog, next_file: u64) -> RowChanges {
    if now.has_objects_of(before) {
        let root = raised_root(rows, now.commit, next_file);
        return Vec::from_iter(root.into_iter().map(|root| (key(ROW_ROOT, 0), Some(root))));
    }
    let unchanged = Unchanged::between(before, now);
    let (mut old, mut new) = (Rows::new(), Rows::new());
    encode_but(before, &unchanged, None, &mut old);
    encode_but(now, &unchanged, None, &mut new);
    let gone = old.keys().filter(|key| !new.contains_key(*key)).map(|key| (*key, None));
    let mut changes: RowChanges = gone.collect();
    changes.extend(new.into_iter().filter(|(key, row)| old.get(key) != Some(row)).map(|(key, row)| (key, Some(row))));
    apply(&changes, rows);
    rows.remove(&key(ROW_ROOT, 0));
    seal_root(now, next_file, rows);
    changes.push((key(ROW_ROOT, 0), rows.get(&key(ROW_ROOT, 0)).cloned()));
    changes
}

/// Makes the root of rows that have not changed that of another commit; what it is now.
fn raised_root(rows: &mut Rows, commit: u64, next_file: u64) -> Option<Vec<u8>> {
    /// Where in the root the commit stands, and the id of the next file.
    const COMMIT_AT: usize = 4;
    const NEXT_FILE_AT: usize = 20;
    let root_key = key(ROW_ROOT, 0);
    let root = rows.get_mut(&root_key)?;
    root[COMMIT_AT..COMMIT_AT + size_of::<u64>()].copy_from_slice(&commit.to_le_bytes());
    root[NEXT_FILE_AT..NEXT_FILE_AT + size_of::<u64>()].copy_from_slice(&next_file.to_le_bytes());
    let payload = root.len() - CRC_BYTES;
    let crc = row_crc(&root_key, &root[..payload]);
    root[payload..].copy_from_slice(&crc.to_le_bytes());
    Some(root.clone())
}

/// Changes rows as a commit did.
pub(crate) fn apply(changes: &RowChanges, rows: &mut Rows) {
    for (key, row) in changes {
        match row {
            Some(row) => drop(rows.insert(*key, row.clone())),
            None => drop(rows.remove(key)),
        }
    }
}

/// Adds the rows of a catalog but for the root and what is unchanged. All files are in directory `all_in` where one is given, and there are no other
/// directories then.
fn encode_but(catalog: &Catalog, unchanged: &Unchanged, all_in: Option<DirectoryId>, rows: &mut Rows) {
    for schema in catalog.objects.schemas.values() {
        let mut row = Writer::default();
        row.blob(schema.name.as_bytes());
        seal(rows, key(ROW_SCHEMA, schema.id), row);
    }
    for view in catalog.views() {
        let mut row = Writer::default();
        row.blob(view.schema.as_bytes());
        row.blob(view.name.as_bytes());
        row.blob(view.sql.as_bytes());
        seal(rows, key(ROW_VIEW, view.id), row);
    }
    for stored in catalog.macros() {
        let mut row = Writer::default();
        row.blob(stored.schema.as_bytes());
        row.blob(stored.name.as_bytes());
        row.u8(match stored.kind {
            MacroKind::Value => MACRO_OF_VALUES,
            MacroKind::Table => MACRO_OF_TABLES,
        });
        row.count(stored.definitions.len());
        stored.definitions.iter().for_each(|definition| row.blob(definition.as_bytes()));
        seal(rows, key(ROW_MACRO, stored.id), row);
    }
    for sequence in catalog.sequences() {
        seal(rows, key(ROW_SEQUENCE, sequence.id), sequence.encode());
    }
    for named in catalog.named_types() {
        let mut row = Writer::default();
        row.blob(named.schema.as_bytes());
        row.blob(named.name.as_bytes());
        row.blob(named.definition.as_bytes());
        seal(rows, key(ROW_TYPE, named.id), row);
    }
    for table in catalog.objects.tables.values().filter(|table| !unchanged.tables.contains(&table.id)) {
        seal(rows, key(ROW_TABLE, table.id.0), encode_table(table));
        for (place, segment) in placed(table, unchanged) {
            if unchanged.segments.is_empty() || !unchanged.segments.contains(&(place, Arc::as_ptr(segment))) {
                seal(
                    rows,
                    key(ROW_SEGMENT, segment.id().0),
                    encode_segment(segment, place, all_in.unwrap_or(segment.data_directory())),
                );
                seal_deleted(rows, segment, |block| unchanged.blocks.contains(&(segment.id(), block)));
            }
        }
        if !table.projections.is_empty() {
            seal(rows, key(ROW_PROJECTIONS, table.id.0), projection::encode(&table.projections));
        }
    }
    if !catalog.objects.directories.paths.is_empty() && all_in.is_none() {
        let mut row = Writer::default();
        row.u128(catalog.objects.directories.database.0);
        row.count(catalog.objects.directories.paths.len());
        catalog.objects.directories.paths.iter().for_each(|path| row.blob(path.as_bytes()));
        seal(rows, key(ROW_DATA_DIRECTORIES, 0), row);
    }
    for fact in catalog.facts() {
        seal(rows, key(ROW_FACT, fact.id().0), fact.encode(all_in.unwrap_or(fact.data_directory())));
    }
}

/// Adds the root of rows that lack it.
fn seal_root(catalog: &Catalog, next_file: u64, rows: &mut Rows) {
    let mut root = Writer::default();
    root.u32(FORMAT_VERSION);
    root.u64(catalog.commit);
    root.u64(catalog.objects.next_object);
    root.u64(next_file);
    root.u64(rows.len() as u64);
    root.u32(digest(rows));
    seal(rows, key(ROW_ROOT, 0), root);
}

fn encode_table(table: &Table) -> Writer {
    let mut row = Writer::default();
    row.blob(table.schema.as_bytes());
    row.blob(table.name.as_bytes());
    row.u32(table.next_column);
    row.count(table.columns.len());
    for column in &table.columns {
        row.u32(column.id.0);
        row.blob(column.name.as_bytes());
        row.blob(column.logical.to_string().as_bytes());
        row.u8(u8::from(column.nullable));
        row.optional_text(column.default.as_deref());
        row.value(column.missing.as_ref());
    }
    row.count(table.constraints.len());
    for constraint in &table.constraints {
        row.u8(match constraint {
            Constraint::PrimaryKey(_) => CONSTRAINT_PRIMARY_KEY,
            Constraint::Unique(_) => CONSTRAINT_UNIQUE,
            Constraint::ForeignKey { is_enforced: true, .. } => CONSTRAINT_FOREIGN_KEY,
            Constraint::ForeignKey { is_enforced: false, .. } => CONSTRAINT_FOREIGN_KEY_NOT_ENFORCED,
            Constraint::Check { is_enforced: true, .. } => CONSTRAINT_CHECK,
            Constraint::Check { is_enforced: false, .. } => CONSTRAINT_CHECK_NOT_ENFORCED,
        });
        row.count(constraint.columns().len());
        for column in constraint.columns() {
            row.u32(column.0);
        }
        if let Constraint::ForeignKey { table, references, .. } = constraint {
            row.blob(table.as_bytes());
            row.count(references.len());
            for reference in references {
                row.blob(reference.as_bytes());
            }
        }
        if let Constraint::Check { condition, .. } = constraint {
            row.blob(condition.as_bytes());
        }
    }
    row.u64(table.version);
    table.options.encode(&mut row);
    row
}

/// Verifies the checksums of all rows and that they are exactly the rows of one commit.
pub(crate) fn verify(rows: &Rows) -> Result<Root> {
    let root_key = key(ROW_ROOT, 0);
    let root = rows.get(&root_key).ok_or_else(|| Error::corrupt("the manifest has no root row"))?;
    let mut reader = Reader::new(unseal(&root_key, root)?, "the root row of the manifest");
    let version = reader.u32()?;
    check_version(version)?;
    let root = Root {
        version,
        commit: reader.u64()?,
        next_object: reader.u64()?,
        next_file: reader.u64()?,
        rows: reader.u64()?,
        digest: reader.u32()?,
    };
    reader.finish()?;
    for (key, row) in rows {
        unseal(key, row)?;
    }
    if root.rows != rows.len() as u64 - 1 || root.digest != digest(rows) {
        return Err(Error::corrupt("rows of the manifest are missing or out of date"));
    }
    Ok(root)
}

/// The data directories of rows that [`verify`] has found right; none where there is no row of them.
pub(crate) fn data_directories(rows: &Rows) -> Result<DataDirectories> {
    let key = key(ROW_DATA_DIRECTORIES, 0);
    match rows.get(&key) {
        None => Ok(DataDirectories::default()),
        Some(row) => {
            let mut reader = Reader::new(unseal(&key, row)?, "the manifest's row of data directories");
            let directories = decode_directories(&mut reader)?;
            reader.finish()?;
            Ok(directories)
        }
    }
}

fn decode_directories(reader: &mut Reader<'_>) -> Result<DataDirectories> {
    let database = DatabaseId(reader.u128()?);
    let count = reader.count(4)?;
    if !(1..=limits::DATA_DIRECTORIES).contains(&count) {
        return Err(reader.wrong("it has no data directories, or too many"));
    }
    let paths = (0..count).map(|_| reader.text()).collect::<Result<_>>()?;
    Ok(DataDirectories { database, paths })
}

/// The catalog of rows that [`verify`] has found right; `volume` is where its segments are.
pub(crate) fn decode(rows: &Rows, root: &Root, volume: &Arc<Volume>) -> Result<Catalog> {
    let mut objects = Objects { schema_commit: root.commit, next_object: root.next_object, ..Objects::default() };
    let mut segments: BTreeMap<Place, Arc<Segment>> = BTreeMap::new();
    let mut deleted = decode_deleted(rows)?;
    let mut projections: Vec<(TableId, Vec<Projection>)> = Vec::new();
    // Keys order rows by kind: schemas come before tables, tables before views and facts.
    for (key, row) in rows {
        let what = format!("manifest row {key:02x?}");
        let mut reader = Reader::new(unseal(key, row)?, &what);
        let id = u64::from_be_bytes(*key.last_chunk().expect("a key is longer than an id"));
        match key[0] {
            ROW_ROOT | ROW_DELETED => continue,
            ROW_SCHEMA => {
                let name = reader.text()?;
                objects.schemas.insert(fold(&name), Arc::new(Schema { id, name }));
            }
            ROW_TABLE => {
                let table = decode_table(&mut reader, TableId(id), root.version)?;
                objects
                    .bind(&table.schema, &table.name, Named::Table(table.id))
                    .map_err(|e| reader.wrong(e.message()))?;
                objects.tables.insert(table.id, Arc::new(table.into()));
            }
            ROW_VIEW => {
                let view = View { id, schema: reader.text()?, name: reader.text()?, sql: reader.text()? };
                let (schema, name) = (view.schema.clone(), view.name.clone());
                objects.bind(&schema, &name, Named::View(Arc::new(view))).map_err(|e| reader.wrong(e.message()))?;
            }
            ROW_SEGMENT => {
                let deleted = deleted.remove(&SegmentId(id)).unwrap_or_default();
                let (place, segment) = decode_segment(&mut reader, (SegmentId(id), deleted), root.version, volume)?;
                if segments.insert(place, Arc::new(segment)).is_some() {
                    return Err(reader.wrong("two segments have the same position"));
                }
            }
            ROW_FACT => {
                let fact = Fact::decode(&mut reader, FactId(id), volume)?;
                let gone = fact.definition().sources.iter().find(|source| !objects.tables.contains_key(&source.table));
                if let Some(source) = gone {
                    return Err(reader.wrong(&format!("it was made from table {}, which is not there", source.table)));
                }
                objects.facts.insert(fact.id(), Arc::new(fact));
            }
            ROW_MACRO => {
                let decoded = decode_macro(&mut reader, id)?;
                objects.bind_macro(decoded).map_err(|e| reader.wrong(e.message()))?;
            }
            ROW_SEQUENCE => {
                let decoded = Sequence::decode(&mut reader, id)?;
                objects.bind_sequence(decoded).map_err(|e| reader.wrong(e.message()))?;
            }
            ROW_TYPE => {
                objects.bind_type(decode_type(&mut reader, id)?).map_err(|e| reader.wrong(e.message()))?;
            }
            ROW_PROJECTIONS => projections.push((TableId(id), projection::decode(&mut reader)?)),
            ROW_DATA_DIRECTORIES => objects.directories = Arc::new(decode_directories(&mut reader)?),
            _ => return Err(reader.wrong("it is of an unknown kind")),
        }
        reader.finish()?;
    }
    check_none_left(&deleted)?;
    let mut catalog = Catalog { objects: Arc::new(objects), commit: root.commit, ..Catalog::default() };
    place_projections(&mut catalog, projections)?;
    place_segments(&mut catalog, segments)?;
    Ok(catalog)
}

fn decode_type(reader: &mut Reader<'_>, id: u64) -> Result<NamedType> {
    let (schema, name, definition) = (reader.text()?, reader.text()?, reader.text()?);
    Ok(NamedType { id, schema, name, definition })
}

fn decode_macro(reader: &mut Reader<'_>, id: u64) -> Result<Macro> {
    let (schema, name) = (reader.text()?, reader.text()?);
    let kind = match reader.u8()? {
        MACRO_OF_VALUES => MacroKind::Value,
        MACRO_OF_TABLES => MacroKind::Table,
        other => return Err(reader.wrong(&format!("its macro is of the unknown kind {other}"))),
    };
    let count = reader.count(size_of::<u32>())?;
    let definitions = (0..count).map(|_| reader.text()).collect::<Result<_>>()?;
    Ok(Macro { id, schema, name, kind, definitions })
}

fn decode_table(reader: &mut Reader<'_>, id: TableId, format: u32) -> Result<Table> {
    let (schema, name, next_column) = (reader.text()?, reader.text()?, reader.u32()?);
    let count = reader.count(15)?;
    let mut columns = Vec::with_capacity(count);
    for _ in 0..count {
        columns.push(Column {
            id: ColumnId(reader.u32()?),
            name: reader.text()?,
            logical: LogicalType::parse(&reader.text()?).context(|| format!("table {schema}.{name}"))?,
            nullable: reader.flag()?,
            default: reader.optional_text()?,
            missing: reader.value()?,
        });
    }
    let mut constraints = Vec::new();
    for _ in 0..reader.count(5)? {
        let kind = reader.u8()?;
        let of = (0..reader.count(4)?).map(|_| reader.u32().map(ColumnId)).collect::<Result<Vec<_>>>()?;
        constraints.push(match kind {
            CONSTRAINT_PRIMARY_KEY => Constraint::PrimaryKey(of),
            CONSTRAINT_UNIQUE => Constraint::Unique(of),
            CONSTRAINT_FOREIGN_KEY | CONSTRAINT_FOREIGN_KEY_NOT_ENFORCED => {
                let is_enforced = kind == CONSTRAINT_FOREIGN_KEY;
                let table = reader.text()?;
                let references = (0..reader.count(4)?).map(|_| reader.text()).collect::<Result<Vec<_>>>()?;
                Constraint::ForeignKey { columns: of, table, references, is_enforced }
            }
            CONSTRAINT_CHECK | CONSTRAINT_CHECK_NOT_ENFORCED => {
                let is_enforced = kind == CONSTRAINT_CHECK;
                Constraint::Check { columns: of, condition: reader.text()?, is_enforced }
            }
            _ => return Err(reader.wrong("a constraint is of an unknown kind")),
        });
    }
    if columns.is_empty() {
        return Err(reader.wrong("it has no columns"));
    }
    let (version, options) = match format {
        FORMAT_VERSION_OLDEST => (0, TableOptions::default()),
        _ => {
            let has_column = |id| columns.iter().any(|column| column.id == id);
            (reader.u64()?, TableOptions::decode(reader, has_column)?)
        }
    };
    let segments = SegmentList::default();
    let projections = Vec::new();
    Ok(Table { id, schema, name, columns, constraints, options, segments, projections, version, next_column })
}
