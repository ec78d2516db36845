//! Options of tables and columns, from statements into the catalog: CREATE TABLE … WITH (…), and ALTER TABLE … SET (…) and
//! RESET (…).
//!
//! Must not know: what compression does.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    ColumnDef, ColumnOption, CreateTable, CreateTableOptions, Expr, GeneratedExpressionMode, SqlOption,
};
use forebay_base::{ColumnId, Error, ErrorKind, LogicalType, Result, TableId};
use forebay_changes::checks;
use forebay_changes::columns::unknown_column;
use forebay_grammar::walk::visit_expressions;
use forebay_layout::table_options::{add, known};
use forebay_names::named::find_column;
use forebay_names::qualified_name::ident;
use forebay_store::{ColumnDefinition, Constraint, TableOptions, Transaction, names_equal};
use forebay_syntax::table_options::{Action, AlterOptions, Change};
use forebay_tables::declared::GENERATED;
use forebay_tables::nested_columns;
use forebay_types::collated;

use crate::catalog::Planner;
use crate::lookup::{find_name, find_table};

/// Runs ALTER TABLE … SET (…) or RESET (…).
pub fn alter(planner: &Planner, alter: &AlterOptions) -> Result<()> {
    let name = find_name(planner, &alter.name)?;
    let found = match find_table(planner, &name) {
        Err(error) if alter.if_exists && error.kind() == ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    planner.transaction().change(|transaction| {
        // As the table is now.
        let table = transaction.catalog().table_by_id(found.id).cloned().unwrap_or(found);
        for Action { column, change } in &alter.actions {
            let column = column.as_ref().map(|column| find_column(&table, column)).transpose()?;
            match change {
                Change::Set(options) => {
                    let mut set = TableOptions::default();
                    add(&mut set, column, options)?;
                    store(transaction, table.id, &set)?;
                }
                Change::Reset(names) => {
                    for name in names {
                        transaction.set_option(table.id, column, known(name)?, None)?;
                    }
                }
            }
        }
        Ok(())
    })
}

/// What a CREATE TABLE statement asks of the table and its columns, which have the ids 0, 1, … in their order.
pub fn of_statement(create: &CreateTable) -> Result<TableOptions> {
    let mut all = TableOptions::default();
    match &create.table_options {
        CreateTableOptions::None => {}
        // As comments of columns, they are read over.
        CreateTableOptions::Plain(options) if options.iter().all(|option| matches!(option, SqlOption::Comment(_))) => {}
        CreateTableOptions::With(options) => add(&mut all, None, options)?,
        other => {
            return Err(Error::unsupported(format!("the table options {other} are not supported"))
                .hint("Options stand in WITH (name = value)"));
        }
    }
    for (index, column) in create.columns.iter().enumerate() {
        add_of_column(&mut all, ColumnId(index as u32), column)?;
        add_generated(&mut all, ColumnId(index as u32), column, &create.columns)?;
    }
    Ok(all)
}

/// Adds what the definition of a column asks.
pub fn add_of_column(all: &mut TableOptions, id: ColumnId, column: &ColumnDef) -> Result<()> {
    if let Some(told) = nested_columns::told_type(&column.data_type)? {
        all.set(Some(id), nested_columns::TYPE_OPTION, Some(&told));
    }
    for option in &column.options {
        match &option.option {
            ColumnOption::Options(options) => {
                add(all, Some(id), options).map_err(|error| error.context(format!("column {}", column.name)))?;
            }
            ColumnOption::Collation(name) => all.set(Some(id), collated::OPTION, collated::named(name)?.as_deref()),
            _ => {}
        }
    }
    Ok(())
}

/// Adds what the column computes, which names columns of its table.
fn add_generated(all: &mut TableOptions, id: ColumnId, column: &ColumnDef, columns: &[ColumnDef]) -> Result<()> {
    for option in &column.options {
        let ColumnOption::Generated { generation_expr: Some(expr), generation_expr_mode: mode, .. } = &option.option
        else {
            continue;
        };
        if matches!(mode, Some(GeneratedExpressionMode::Stored)) {
            return Err(Error::unsupported(format!("column {} is STORED, which is not supported", column.name))
                .hint("Write VIRTUAL, or leave the word out"));
        }
        let named = |column: &ColumnDef| {
            let (name, logical) = (ident(&column.name), LogicalType::Varchar);
            ColumnDefinition { name, logical, nullable: true, default: None, missing: None }
        };
        let columns: Vec<ColumnDefinition> = columns.iter().map(named).collect();
        let missing = visit_expressions(expr, |part| match part {
            Expr::Identifier(name) if columns.iter().all(|column| !names_equal(&column.name, &name.value)) => {
                ControlFlow::Break(ident(name))
            }
            Expr::Lambda(_) => ControlFlow::Break(String::new()),
            _ => ControlFlow::Continue(()),
        });
        if let Some(missing) = missing.break_value().filter(|name| !name.is_empty()) {
            return Err(unknown_column(&missing, columns.iter().map(|column| column.name.as_str())));
        }
        if let Constraint::Check { columns, condition, .. } = checks::constraint(expr, &columns)? {
            if columns.contains(&id) {
                return Err(Error::input(format!("column {} is generated from itself", column.name)));
            }
            all.set(Some(id), GENERATED, Some(&condition));
        }
    }
    Ok(())
}

/// Puts options into the catalog.
pub fn store(transaction: &mut Transaction, table: TableId, options: &TableOptions) -> Result<()> {
    options.iter().try_for_each(|(column, name, value)| transaction.set_option(table, column, name, Some(value)))
}
