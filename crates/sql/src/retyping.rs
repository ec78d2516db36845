//! ALTER TABLE … ALTER COLUMN … TYPE: a table of the same name takes the place of the table, with the values of one column in
//! another type.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{AlterColumnOperation, AlterTable, AlterTableOperation, DataType, Expr, Ident};
use datafusion::sql::sqlparser::parser::Parser;
use forebay_base::{ColumnId, Error, ErrorKind, Result};
use forebay_changes::columns::{quoted, whole_table};
use forebay_changes::struct_fields::FieldChange;
use forebay_context::error::from_datafusion;
use forebay_layout::CLUSTER_OPTION;
use forebay_names::named::find_column;
use forebay_names::qualified_name::QualifiedName;
use forebay_store::{Constraint, Table, TableOptions};
use forebay_syntax::dialect::ForebayDialect;
use forebay_syntax::parse::parse;
use forebay_tables::load::Loaded;
use forebay_tables::nested_columns;

use crate::answer::Answer;
use crate::ddl;
use crate::lookup::{find_name, find_table};
use crate::run::Run;

impl Run<'_> {
    /// Gives a column another type; `None` where a statement does something else.
    pub(crate) fn retype(&self, alter: &AlterTable) -> Result<Option<Answer>> {
        let [AlterTableOperation::AlterColumn { column_name, op }] = alter.operations.as_slice() else {
            return Ok(None);
        };
        match op {
            AlterColumnOperation::SetDataType { data_type, using, .. } => {
                self.retyped(alter, column_name, data_type, using.as_ref()).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// ALTER TABLE … of a field of a struct, whose column gets another type and other values.
    pub(crate) fn alter_field(&self, text: &str) -> Result<Answer> {
        let change = FieldChange::of(text)?;
        let table = match find_table(&self.planner, &find_name(&self.planner, &change.table)?) {
            Err(error) if change.if_exists && error.kind() == ErrorKind::NotFound => return self.done("ALTER TABLE"),
            found => found?,
        };
        let name = change.path.first().ok_or_else(|| Error::internal("a field without a column"))?;
        let (_, column) = table.column_by_id(find_column(&table, name)?).ok_or_else(|| Error::internal("no column"))?;
        let shown = nested_columns::shown(&table, column);
        let parsed = Parser::new(&ForebayDialect).try_with_sql(&shown).and_then(|mut own| own.parse_data_type());
        let data_type = parsed.map_err(|_| Error::input(format!("column {} is no struct", column.name)))?;
        let Some((data_type, value)) = change.applied(&data_type)? else { return self.done("ALTER TABLE") };
        let (table, column) = (whole_table(&table), quoted(&column.name));
        self.command(parse(&format!("ALTER TABLE {table} ALTER COLUMN {column} TYPE {data_type} USING {value}"))?)
    }

    fn retyped(&self, alter: &AlterTable, name: &Ident, data_type: &DataType, using: Option<&Expr>) -> Result<Answer> {
        let found = find_table(&self.planner, &find_name(&self.planner, &alter.name)?);
        let table = match found {
            Err(error) if alter.if_exists && error.kind() == ErrorKind::NotFound => return self.done("ALTER TABLE"),
            found => found?,
        };
        let column = find_column(&table, name)?;
        check_free(&table, column, name)?;
        self.planner.transaction().check_writable()?;
        let item = |own: &forebay_store::Column| {
            let plain = quoted(&own.name);
            match own.id == column {
                true => {
                    format!("CAST(({}) AS {data_type}) AS {plain}", using.map_or(plain.clone(), ToString::to_string))
                }
                false => plain,
            }
        };
        let items: Vec<String> = table.columns.iter().map(item).collect();
        let mut state = self.state();
        // One thread reads rows in their order.
        state.config_mut().options_mut().execution.target_partitions = 1;
        let plan = self.plan_text(&state, &format!("SELECT {} FROM {}", items.join(", "), whole_table(&table)))?;
        let plan = forebay_types::applied(plan).map_err(from_datafusion)?;
        let told = Arc::clone(plan.schema().inner());
        let physical = self.physical(&state, Arc::new(plan))?;
        let places: BTreeMap<ColumnId, ColumnId> =
            table.columns.iter().enumerate().map(|(place, own)| (own.id, ColumnId(place as u32))).collect();
        let name = QualifiedName { schema: table.schema.clone(), name: table.name.clone() };
        let mut definition = ddl::definition_of_rows(name, &physical.schema(), &[])?;
        for (new, old) in definition.columns.iter_mut().zip(&table.columns) {
            new.nullable = old.nullable;
            new.default.clone_from(&old.default);
            if old.id != column {
                new.logical = old.logical.clone();
            }
        }
        definition.constraints = table.constraints.iter().map(|constraint| moved(constraint, &places)).collect();
        let mut options = TableOptions::default();
        for (own, option, value) in table.options.iter().filter(|(_, option, _)| *option != nested_columns::TYPE_OPTION)
        {
            options.set(own.and_then(|own| places.get(&own).copied()), option, Some(value));
        }
        nested_columns::add_types(&mut options, &physical.schema(), &told);
        let Loaded { segments, .. } = self.load(&state, physical, &ddl::stored_columns(&definition), &options)?;
        self.planner.transaction().change(|transaction| {
            let now = transaction.catalog().table_by_id(table.id).map(|now| now.segments.versions());
            if now != Some(table.segments.versions()) {
                return Err(Error::new(ErrorKind::Conflict, format!("table {} was changed meanwhile", table.name)));
            }
            ddl::create_table(transaction, definition, &options, segments, true)
        })?;
        self.done("ALTER TABLE")
    }
}

/// Refuses columns that something else is told by.
fn check_free(table: &Table, column: ColumnId, name: &Ident) -> Result<()> {
    let is_told = |constraint: &Constraint| match constraint {
        Constraint::PrimaryKey(columns) | Constraint::Unique(columns) | Constraint::Check { columns, .. } => {
            columns.contains(&column)
        }
        Constraint::ForeignKey { .. } => false,
    };
    let reason = match () {
        () if !table.projections.is_empty() => "has projections",
        () if table.options.get(None, CLUSTER_OPTION).is_some() => "is clustered",
        () if table.constraints.iter().any(is_told) => "has a PRIMARY KEY, UNIQUE or CHECK of it",
        () => return Ok(()),
    };
    Err(Error::unsupported(format!("the type of column {name} cannot be changed: table {} {reason}", table.name))
        .hint("Use CREATE TABLE … AS SELECT with a CAST"))
}

/// A constraint over the same columns by other ids.
fn moved(constraint: &Constraint, places: &BTreeMap<ColumnId, ColumnId>) -> Constraint {
    let of = |ids: &[ColumnId]| ids.iter().filter_map(|id| places.get(id).copied()).collect();
    match constraint {
        Constraint::PrimaryKey(columns) => Constraint::PrimaryKey(of(columns)),
        Constraint::Unique(columns) => Constraint::Unique(of(columns)),
        Constraint::ForeignKey { columns, table, references, is_enforced } => Constraint::ForeignKey {
            columns: of(columns),
            table: table.clone(),
            references: references.clone(),
            is_enforced: *is_enforced,
        },
        Constraint::Check { columns, condition, is_enforced } => {
            Constraint::Check { columns: of(columns), condition: condition.clone(), is_enforced: *is_enforced }
        }
    }
}
