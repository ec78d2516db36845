//! Ids as newtypes, so that a table is never mistaken for a column.

use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id! {
    /// A table, unique for the life of a database; never reused.
    TableId(u64)
}
id! {
    /// A column, unique within its table; never reused after DROP COLUMN.
    ColumnId(u32)
}

impl ColumnId {
    /// The column of a table with the places of its rows, which is computed and never stored.
    pub const PLACES: Self = Self(u32::MAX - 1);
}

id! {
    /// A directory of a database that holds segment files: 0 is the database's own, the others were named when they were
    /// added.
    DirectoryId(u32)
}
id! {
    /// An immutable segment file, unique for the life of a database; never reused, nor is it that of a fact file.
    SegmentId(u64)
}
id! {
    /// A copy of a table's rows, among those that the table has now: 0 is the table itself, the others are its projections.
    ProjectionId(u32)
}
id! {
    /// An immutable fact file, unique for the life of a database; never reused, nor is it that of a segment.
    FactId(u64)
}

impl ProjectionId {
    /// The table itself.
    pub const TABLE: Self = Self(0);
}
