//! A table whose rows are found by keys.
//!
//! Must not know: transactions, rows.

use std::sync::Arc;

use forebay_base::{Error, LogicalType, Result, TableId, Value};
use forebay_engine::keyed::KeyColumns;
use forebay_store::{Catalog, Cell, Constraint, TableSnapshot, names_equal};
use forebay_tables::declared::{generated_from, indexes};
use forebay_tables::table::TYPE_OPTION;

/// A table with its keys.
#[derive(Debug, Clone)]
pub struct KeyedTable {
    pub(crate) id: TableId,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    name: String,
    columns: Vec<(String, LogicalType)>,
    /// PRIMARY KEY and UNIQUE, as they are declared.
    keys: Vec<KeyColumns>,
    primary: Option<usize>,
    /// By name, those of CREATE INDEX over nothing but columns.
    indexes: Vec<(String, KeyColumns)>,
    /// Why its rows are not written by key.
    obstacle: Option<&'static str>,
    /// Whether its rows are not hot whoever writes them.
    is_never_hot: bool,
}

impl KeyedTable {
    /// A table of a catalog.
    pub fn of(table: &TableSnapshot, catalog: &Catalog) -> Self {
        let position = |id| table.column_by_id(id).map(|(position, _)| position);
        let is_key = |own: &&Constraint| matches!(own, Constraint::PrimaryKey(_) | Constraint::Unique(_));
        let keys: Vec<&Constraint> = table.constraints.iter().filter(is_key).collect();
        let primary = keys.iter().position(|own| matches!(own, Constraint::PrimaryKey(_)));
        let columns = |own: &&Constraint| own.columns().iter().filter_map(|id| position(*id)).collect();
        let keys = keys.iter().map(|own| KeyColumns::of(table, columns(own))).collect();
        let named = |part: &str| {
            let part = part.strip_prefix('"').and_then(|part| part.strip_suffix('"')).unwrap_or(part);
            table.columns.iter().position(|column| names_equal(&column.name, part))
        };
        let indexes = indexes(table).filter(|index| !index.is_unique).filter_map(|index| {
            let positions: Option<Vec<usize>> = index.parts.iter().map(|part| named(part)).collect();
            Some((index.name.to_owned(), KeyColumns::of(table, positions?)))
        });
        let shared = Shared {
            name: table.full_name(),
            columns: table.columns.iter().map(|column| (column.name.clone(), column.logical.clone())).collect(),
            keys,
            primary,
            indexes: indexes.collect(),
            obstacle: obstacle_to_hot_rows(table).or_else(|| obstacle_to_keys(table, catalog)),
            is_never_hot: obstacle_to_hot_rows(table).is_some(),
        };
        Self { id: table.id, shared: Arc::new(shared) }
    }

    /// An error where changed rows of it need more than its keys to be right.
    ///
    /// # Errors
    /// `Unsupported`.
    pub fn check_written(&self) -> Result<()> {
        self.shared.obstacle.map_or(Ok(()), |why| Err(self.unsupported(why)))
    }

    /// Whether rows that a plan has computed, and checked, may become hot rows of it.
    pub fn takes_rows_of_plans(&self) -> bool {
        !self.shared.is_never_hot
    }

    pub(crate) fn unsupported(&self, why: &str) -> Error {
        let message = format!("rows of table {} are not written by key: {why}", self.shared.name);
        Error::unsupported(message).hint("Change them by SQL")
    }

    /// The positions of the columns of all of its keys.
    pub fn key_columns(&self) -> Vec<usize> {
        self.shared.keys.iter().flat_map(KeyColumns::positions).copied().collect()
    }

    /// Its number.
    pub fn id(&self) -> TableId {
        self.id
    }

    /// `schema.table`.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Names and types of its columns.
    pub fn columns(&self) -> &[(String, LogicalType)] {
        &self.shared.columns
    }

    /// The position of a column.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn column(&self, name: &str) -> Result<usize> {
        let found = self.shared.columns.iter().position(|(own, _)| names_equal(own, name));
        found.ok_or_else(|| {
            let message = format!("table {} has no column {name}", self.shared.name);
            Error::new(forebay_base::ErrorKind::NotFound, message)
        })
    }

    /// The positions of the columns of its primary key; none where it has none.
    pub fn key(&self) -> &[usize] {
        self.shared.primary.map_or(&[], |primary| self.shared.keys[primary].positions())
    }

    /// An error for a value that a column cannot have.
    ///
    /// # Errors
    /// `Input`.
    pub(crate) fn check_value(&self, column: usize, cell: Cell<'_>) -> Result<()> {
        let Some((name, logical)) = self.shared.columns.get(column) else {
            return Err(Error::input(format!("table {} has no column {column}", self.shared.name)));
        };
        let wrong =
            |why: &str| Err(Error::input(format!("a value of column {name} of table {} {why}", self.shared.name)));
        let physical = logical.physical();
        if !cell.fits(physical) {
            return wrong("is of another type");
        }
        match (logical, cell) {
            (LogicalType::Varchar, Cell::Bytes(text)) if std::str::from_utf8(text).is_err() => wrong("is not UTF-8"),
            (LogicalType::Bool, Cell::Fixed(bits)) if bits > 1 => wrong("is neither 0 nor 1"),
            (LogicalType::Decimal { precision, .. }, _) => match cell.value(physical) {
                Some(Value::Int(int)) if int.unsigned_abs() >= 10_u128.pow(u32::from(*precision)) => {
                    wrong("has too many digits")
                }
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// Its PRIMARY KEY and UNIQUE constraints.
    pub fn keys(&self) -> &[KeyColumns] {
        &self.shared.keys
    }

    /// The number of the primary key among them.
    pub fn primary(&self) -> Option<usize> {
        self.shared.primary
    }

    /// The columns of its indexes.
    pub fn indexes(&self) -> impl Iterator<Item = &KeyColumns> {
        self.shared.indexes.iter().map(|(_, columns)| columns)
    }

    /// The columns of an index.
    ///
    /// # Errors
    /// `NotFound`.
    pub(crate) fn index(&self, name: &str) -> Result<&KeyColumns> {
        let found = self.shared.indexes.iter().find(|(own, _)| names_equal(own, name));
        found.map(|(_, columns)| columns).ok_or_else(|| {
            let message = format!("table {} has no index {name} over columns", self.shared.name);
            Error::new(forebay_base::ErrorKind::NotFound, message)
        })
    }
}

/// Why rows of a table are never hot: what has to be so of them is not looked at where they are written.
fn obstacle_to_hot_rows(table: &TableSnapshot) -> Option<&'static str> {
    if !table.projections.is_empty() {
        return Some("it has projections");
    }
    indexes(table).any(|index| index.is_unique).then_some("it has a unique index")
}

/// Why rows of a table are not written by key: a plan computes or checks something.
fn obstacle_to_keys(table: &TableSnapshot, catalog: &Catalog) -> Option<&'static str> {
    if table.columns.iter().any(|column| generated_from(table, column).is_some()) {
        return Some("it has a generated column");
    }
    if table.columns.iter().any(|column| table.options.get(Some(column.id), TYPE_OPTION).is_some()) {
        return Some("it has a column of a type that texts stand for");
    }
    if table.constraints.iter().any(|own| matches!(own, Constraint::Check { is_enforced: true, .. })) {
        return Some("it has a CHECK");
    }
    let name = table.full_name();
    let refers = |own: &Constraint| match own {
        Constraint::ForeignKey { table: target, is_enforced: true, .. } => names_equal(target, &name),
        _ => false,
    };
    let is_foreign = |own: &Constraint| matches!(own, Constraint::ForeignKey { is_enforced: true, .. });
    let others = catalog.schema_tables().any(|other| other.constraints.iter().any(refers));
    (others || table.constraints.iter().any(is_foreign)).then_some("it has a foreign key, or one leads to it")
}
