//! Programs: what a recognized statement does, step by step.
//!
//! Must not know: how statements are written.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use forebay_base::{LogicalType, PhysicalType, TableId};
use forebay_engine::keyed::KeyColumns;
use forebay_keyed::KeyedTable;

use crate::expression::{Condition, Typed};
use crate::output::{Aggregate, OutputColumn};

/// A statement that finds its rows by key.
#[derive(Debug)]
pub struct Program {
    pub(crate) action: Action,
    /// Whether it asks what time it is.
    pub(crate) needs_now: bool,
}

#[derive(Debug)]
pub(crate) enum Action {
    Select(Select),
    Update {
        step: Step,
        /// Columns and their new values.
        changes: Vec<(usize, Stored)>,
    },
    Delete {
        step: Step,
    },
    Insert {
        table: KeyedTable,
        /// Rows, with a value for each column.
        rows: Vec<Vec<Stored>>,
    },
}

#[derive(Debug)]
pub(crate) struct Select {
    /// One for each table, in the order in which rows are looked for.
    pub(crate) steps: Vec<Step>,
    pub(crate) schema: SchemaRef,
    /// What the values of each column are.
    pub(crate) physical: Arc<[PhysicalType]>,
    pub(crate) output: Output,
    pub(crate) order: Vec<OrderedBy>,
    pub(crate) limit: Option<Typed>,
    /// Rows are found in the order that is asked for, and no more of them are needed than are given out.
    pub(crate) is_in_order: bool,
}

#[derive(Debug)]
pub(crate) enum Output {
    Rows(Vec<OutputColumn>),
    Aggregates(Vec<Aggregate>),
}

/// A column that rows are ordered by, which has no NULLs.
#[derive(Debug)]
pub(crate) struct OrderedBy {
    pub(crate) table: usize,
    pub(crate) slot: usize,
    pub(crate) physical: PhysicalType,
    pub(crate) is_descending: bool,
}

/// The look-up of rows of a table.
#[derive(Debug)]
pub(crate) struct Step {
    /// The number of the table in the statement.
    pub(crate) number: usize,
    pub(crate) table: KeyedTable,
    pub(crate) access: Access,
    /// The columns that are read of each row.
    pub(crate) reads: Vec<usize>,
    /// What has to hold of it, beside its key.
    pub(crate) conditions: Vec<Condition>,
}

#[derive(Debug)]
pub(crate) enum Access {
    /// All columns of a PRIMARY KEY or UNIQUE constraint, by its number.
    Unique { key: usize, values: Vec<Stored> },
    /// The first columns of a key or an index, and bounds of the next one.
    Range { columns: KeyColumns, values: Vec<Stored>, bounds: Box<KeyBounds> },
}

/// What the values of a column lie between.
#[derive(Debug)]
pub(crate) struct KeyBounds {
    pub(crate) low: Option<KeyBound>,
    pub(crate) high: Option<KeyBound>,
}

/// A bound of a column's values.
#[derive(Debug)]
pub(crate) struct KeyBound {
    pub(crate) value: Stored,
    pub(crate) is_included: bool,
}

/// An expression whose value a column has or gets.
#[derive(Debug, Clone)]
pub(crate) struct Stored {
    pub(crate) value: Typed,
    pub(crate) logical: LogicalType,
    pub(crate) is_not_null: bool,
}

impl Output {
    /// What the values of each column are.
    pub(crate) fn physical(&self) -> Arc<[PhysicalType]> {
        match self {
            Self::Rows(columns) => columns.iter().map(|column| column.physical).collect(),
            Self::Aggregates(aggregates) => aggregates.iter().map(Aggregate::physical).collect(),
        }
    }
}

impl Program {
    /// Whether it asks what time it is.
    pub fn needs_now(&self) -> bool {
        self.needs_now
    }

    /// The tables whose rows it looks up or changes.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &KeyedTable> {
        let (steps, changed): (&[Step], _) = match &self.action {
            Action::Select(select) => (&select.steps, None),
            Action::Update { step, .. } | Action::Delete { step } => (std::slice::from_ref(step), None),
            Action::Insert { table, .. } => (&[], Some(table)),
        };
        steps.iter().map(|step| &step.table).chain(changed)
    }

    /// Whether this holds for one of its tables.
    pub fn is_of(&self, holds: &dyn Fn(TableId) -> bool) -> bool {
        self.tables().any(|table| holds(table.id()))
    }

    /// Whether it changes rows.
    pub fn changes_rows(&self) -> bool {
        !matches!(self.action, Action::Select(_))
    }
}
