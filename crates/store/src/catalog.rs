//! The catalog: schemas, tables with their columns and segments, views. An immutable snapshot that commits replace.
//!
//! Names keep the case they were given and are found in any (ASCII) case, as in DuckDB. Tables and views of a schema
//! share one space of names. Must not know: how it is stored, who reads it.

mod hot;
mod objects;
mod schema;

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_base::{ColumnId, Error, FactId, LogicalType, Result, TableId, Value, limits};

use crate::data_directories::DataDirectories;
use crate::fact::Fact;
use crate::hot::HotView;
use crate::options::TableOptions;
use crate::projection::Projection;
use crate::reads::Reads;
use crate::segment::Segment;
use crate::segment_list::SegmentList;
use crate::sequence::Sequence;
use crate::table_snapshot::TableSnapshot;

/// The schema that every database has.
pub const DEFAULT_SCHEMA: &str = "main";

/// All schemas, tables and views at one moment.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    /// Shared by catalogs between which nothing but hot rows has changed.
    pub(crate) objects: Arc<Objects>,
    /// Commits since the database was made.
    pub(crate) commit: u64,
    /// Hot rows, which the tables of `objects` do not have.
    pub(crate) hot: HotView,
    /// Where it is noted which tables are read, for a serializable transaction.
    pub(crate) reads: Option<Arc<Reads>>,
}

/// What there is in a database, but for hot rows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Objects {
    /// By folded name.
    pub(crate) schemas: BTreeMap<String, Arc<Schema>>,
    pub(crate) tables: BTreeMap<TableId, Arc<TableSnapshot>>,
    /// Made from tables that are there.
    pub(crate) facts: BTreeMap<FactId, Arc<Fact>>,
    /// By folded names of schema and object.
    pub(crate) names: BTreeMap<(String, String), Named>,
    /// By kind and folded names of schema and macro.
    pub(crate) macros: BTreeMap<(MacroKind, String, String), Arc<Macro>>,
    /// By folded names of schema and sequence.
    pub(crate) sequences: BTreeMap<(String, String), Arc<Sequence>>,
    /// By folded names of schema and type.
    pub(crate) types: BTreeMap<(String, String), Arc<NamedType>>,
    /// The commit that changed something besides rows last, of those since the database was opened.
    pub(crate) schema_commit: u64,
    /// Id of the next schema, table, view, macro, sequence or type.
    pub(crate) next_object: u64,
    /// Where segments are besides the database's own directory.
    pub(crate) directories: Arc<DataDirectories>,
}

/// A schema, by its id and its name as given.
#[derive(Debug)]
pub(crate) struct Schema {
    pub(crate) id: u64,
    pub(crate) name: String,
}

/// What a name stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Named {
    Table(TableId),
    View(Arc<View>),
}

/// A table.
#[derive(Debug, Clone)]
pub struct Table {
    /// Unique for the life of the database.
    pub id: TableId,
    /// Schema, as the schema's name was given.
    pub schema: String,
    /// Name, as given.
    pub name: String,
    /// Columns, in their SQL order; never empty.
    pub columns: Vec<Column>,
    /// Declared constraints.
    pub constraints: Vec<Constraint>,
    /// What was asked of how it is stored, as a whole and by column.
    pub options: TableOptions,
    /// Segments, in row order.
    pub segments: SegmentList,
    /// Further copies of the rows, by id.
    pub projections: Vec<Projection>,
    /// Raised by every commit that changes the table: equal numbers, equal tables. The commit that makes it gives it 1.
    pub version: u64,
    pub(crate) next_column: u32,
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Unique within the table, never reused.
    pub id: ColumnId,
    /// Name, as given.
    pub name: String,
    /// Type.
    pub logical: LogicalType,
    /// False for NOT NULL.
    pub nullable: bool,
    /// SQL text of the DEFAULT for new rows.
    pub default: Option<String>,
    /// Value of rows in segments that lack the column because they are older than it; `None` is NULL.
    pub missing: Option<Value>,
}

/// A declared constraint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Constraint {
    /// PRIMARY KEY.
    PrimaryKey(Vec<ColumnId>),
    /// UNIQUE.
    Unique(Vec<ColumnId>),
    /// FOREIGN KEY (columns) REFERENCES table (references).
    ForeignKey {
        /// Referencing columns.
        columns: Vec<ColumnId>,
        /// The referenced table, as [`full_name`] writes it.
        table: String,
        /// Referenced columns, by name.
        references: Vec<String>,
        /// False of one that is declared NOT ENFORCED: told, and never checked.
        is_enforced: bool,
    },
    /// CHECK (condition), which no row may make false.
    Check {
        /// Columns that the condition names.
        columns: Vec<ColumnId>,
        /// Its SQL text, with the columns' names in quotes.
        condition: String,
        /// False of one that is declared NOT ENFORCED: told, and never checked.
        is_enforced: bool,
    },
}

/// A view: SQL text under a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    pub(crate) id: u64,
    /// Schema, as the schema's name was given.
    pub schema: String,
    /// Name, as given.
    pub name: String,
    /// Text of the query.
    pub sql: String,
}

/// What a call of a macro stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MacroKind {
    /// A value.
    Value,
    /// A table. Calls in FROM mean these, so that a macro of each kind may have one name.
    Table,
}

/// A macro: SQL text with parameters under a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Macro {
    pub(crate) id: u64,
    /// Schema, as the schema's name was given.
    pub schema: String,
    /// Name, as given.
    pub name: String,
    /// What calls stand for.
    pub kind: MacroKind,
    /// Texts of its definitions, which take different arguments: `(a, b := 1) AS a + b`.
    pub definitions: Vec<String>,
}

/// A type under a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedType {
    pub(crate) id: u64,
    /// Schema, as the schema's name was given.
    pub schema: String,
    /// Name, as given.
    pub name: String,
    /// The type that it stands for, in SQL's words and without names of other types: `ENUM('a', 'b')`.
    pub definition: String,
}

/// A table to be made. Its columns get the ids 0, 1, … in this order, and constraints name them so.
#[derive(Debug, Clone)]
pub struct TableDefinition {
    /// An existing schema.
    pub schema: String,
    /// Name.
    pub name: String,
    /// Columns, in order.
    pub columns: Vec<ColumnDefinition>,
    /// Constraints. The columns of a primary key become NOT NULL.
    pub constraints: Vec<Constraint>,
}

/// A column to be made.
#[derive(Debug, Clone)]
pub struct ColumnDefinition {
    /// Name.
    pub name: String,
    /// Type.
    pub logical: LogicalType,
    /// False for NOT NULL.
    pub nullable: bool,
    /// SQL text of the DEFAULT for new rows.
    pub default: Option<String>,
    /// Value of the rows that exist already; `None` is NULL.
    pub missing: Option<Value>,
}

/// Whether two names are the same name.
pub fn names_equal(a: &str, b: &str) -> bool {
    a.eq_ignore_ascii_case(b)
}

/// The form of a name under which it is found.
pub(crate) fn fold(name: &str) -> String {
    name.to_ascii_lowercase()
}

/// `schema.name`, for messages and foreign keys. A part with a dot or a quote in it stands in quotes, as in SQL, so that
/// different tables never have the same full name.
pub fn full_name(schema: &str, name: &str) -> String {
    let part = |part: &str| match part.contains(['.', '"']) {
        true => format!("\"{}\"", part.replace('"', "\"\"")),
        false => part.to_owned(),
    };
    format!("{}.{}", part(schema), part(name))
}

pub(crate) fn key(schema: &str, name: &str) -> (String, String) {
    (fold(schema), fold(name))
}

pub(crate) fn macro_key(kind: MacroKind, schema: &str, name: &str) -> (MacroKind, String, String) {
    (kind, fold(schema), fold(name))
}

impl View {
    /// Its number, which no other object of the database has.
    pub fn id(&self) -> u64 {
        self.id
    }
}

impl Catalog {
    /// Names of all schemas, in order.
    pub fn schemas(&self) -> impl Iterator<Item = &str> {
        self.objects.schemas.values().map(|schema| schema.name.as_str())
    }

    /// Whether there is such a schema.
    pub fn has_schema(&self, schema: &str) -> bool {
        self.objects.schemas.contains_key(&fold(schema))
    }

    /// The table of this name, if there is one.
    pub fn table(&self, schema: &str, name: &str) -> Option<&Arc<TableSnapshot>> {
        match self.objects.names.get(&key(schema, name))? {
            Named::Table(id) => self.table_by_id(*id),
            Named::View(_) => None,
        }
    }

    /// The table with this id, if it is there.
    pub fn table_by_id(&self, id: TableId) -> Option<&Arc<TableSnapshot>> {
        if let Some(reads) = &self.reads {
            reads.note(id);
        }
        self.objects.tables.get(&id).map(|frozen| self.hot.table(frozen))
    }

    /// All tables, in order of schema and name.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<TableSnapshot>> {
        self.objects.names.values().filter_map(|named| match named {
            Named::Table(id) => self.table_by_id(*id),
            Named::View(_) => None,
        })
    }

    /// The view of this name, if there is one.
    pub fn view(&self, schema: &str, name: &str) -> Option<&Arc<View>> {
        match self.objects.names.get(&key(schema, name))? {
            Named::Table(_) => None,
            Named::View(view) => Some(view),
        }
    }

    /// All views, in order of schema and name.
    pub fn views(&self) -> impl Iterator<Item = &Arc<View>> {
        self.objects.names.values().filter_map(|named| match named {
            Named::Table(_) => None,
            Named::View(view) => Some(view),
        })
    }

    /// The macro of this name and kind, if there is one.
    pub fn macro_of(&self, kind: MacroKind, schema: &str, name: &str) -> Option<&Arc<Macro>> {
        self.objects.macros.get(&macro_key(kind, schema, name))
    }

    /// The sequence of this name, if there is one.
    pub fn sequence(&self, schema: &str, name: &str) -> Option<&Arc<Sequence>> {
        self.objects.sequences.get(&key(schema, name))
    }

    /// All sequences, in order of schema and name.
    pub fn sequences(&self) -> impl Iterator<Item = &Arc<Sequence>> {
        self.objects.sequences.values()
    }

    /// The type of this name, if there is one.
    pub fn named_type(&self, schema: &str, name: &str) -> Option<&Arc<NamedType>> {
        self.objects.types.get(&key(schema, name))
    }

    /// All types with names, in order of schema and name.
    pub fn named_types(&self) -> impl Iterator<Item = &Arc<NamedType>> {
        self.objects.types.values()
    }

    /// All macros, those that stand for values first, in order of schema and name.
    pub fn macros(&self) -> impl Iterator<Item = &Arc<Macro>> {
        self.objects.macros.values()
    }

    /// Commits since the database was made: equal numbers, equal catalogs.
    pub fn commit_number(&self) -> u64 {
        self.commit
    }

    /// Every segment of every table and projection.
    pub(crate) fn segments(&self) -> impl Iterator<Item = &Arc<Segment>> {
        self.objects.tables.values().flat_map(|table| table.all_segments())
    }

    /// What it has but for hot rows, to be changed.
    pub(crate) fn objects_mut(&mut self) -> &mut Objects {
        Arc::make_mut(&mut self.objects)
    }

    /// Whether nothing but hot rows has changed between it and another one.
    pub(crate) fn has_objects_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.objects, &other.objects)
    }
}

impl Table {
    /// Rows in all segments.
    pub fn rows(&self) -> u64 {
        self.segments.rows()
    }

    /// Its [`full_name`].
    pub fn full_name(&self) -> String {
        full_name(&self.schema, &self.name)
    }

    /// Position and column of this name.
    pub fn column(&self, name: &str) -> Option<(usize, &Column)> {
        self.columns.iter().enumerate().find(|(_, column)| names_equal(&column.name, name))
    }

    /// Position and column with this id.
    pub fn column_by_id(&self, id: ColumnId) -> Option<(usize, &Column)> {
        self.columns.iter().enumerate().find(|(_, column)| column.id == id)
    }

    /// Whether some of the rows in its segments are deleted: bounds of what the segments store say less then of the rows that are
    /// there.
    pub fn has_deleted_rows(&self) -> bool {
        self.segments.iter().any(|segment| !segment.deleted().is_empty())
    }

    /// The same table with these rows only, of which there is no other copy.
    #[must_use]
    pub fn with_rows(&self, segments: impl IntoIterator<Item = Arc<Segment>>) -> Self {
        Self { segments: segments.into_iter().collect(), projections: Vec::new(), ..self.clone() }
    }
}

impl Column {
    /// Whether a row of `segment`, which is one of this column's table, is NULL here.
    pub fn has_nulls_in(&self, segment: &Segment) -> Result<bool> {
        let Some(index) = segment.column_index(self.id) else {
            return Ok(self.missing.is_none() && segment.rows() > 0);
        };
        let mut zones = segment.groups()?.iter().flat_map(|group| &group.columns[index].zones);
        Ok(zones.any(|zone| zone.null_count > 0))
    }
}

impl Constraint {
    /// The table's own columns that take part.
    pub fn columns(&self) -> &[ColumnId] {
        match self {
            Self::PrimaryKey(columns)
            | Self::Unique(columns)
            | Self::ForeignKey { columns, .. }
            | Self::Check { columns, .. } => columns,
        }
    }

    /// Whether this is a foreign key to the table of this [`full_name`].
    pub(crate) fn refers_to(&self, full_name: &str) -> bool {
        matches!(self, Self::ForeignKey { table, .. } if names_equal(table, full_name))
    }
}

/// An error unless `name` can name something.
pub(crate) fn check_name(name: &str) -> Result<()> {
    if name.is_empty() {
        return Err(Error::input("a name must not be empty"));
    }
    if name.len() > limits::NAME_BYTES {
        let message = format!("the name {:.32}… is longer than {} bytes", name, limits::NAME_BYTES);
        return Err(Error::input(message).hint("Choose a shorter name"));
    }
    if name.contains('\0') {
        return Err(Error::input("a name must not contain a zero byte"));
    }
    Ok(())
}
