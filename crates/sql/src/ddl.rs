//! CREATE, DROP and ALTER: one store transaction per statement.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, Schema};
use datafusion::execution::SessionState;
use datafusion::sql::sqlparser::ast::{
    AlterColumnOperation, AlterTable, AlterTableOperation, ColumnDef, ColumnOption, ConstraintCharacteristics,
    CreateTable, CreateView, DataType as SqlType, Expr, ForeignKeyConstraint, IndexColumn, ObjectName, ObjectType,
    RenameTableNameKind, TableConstraint,
};
use forebay_base::{ColumnId, Error, ErrorKind, LogicalType, Result, TableId};
use forebay_changes::checks::constraint as constraint_of;
use forebay_changes::columns::unknown_column;
use forebay_changes::keys::free_of_indexes;
use forebay_context::error::suggestion;
use forebay_names::named::find_column;
use forebay_names::qualified_name::{QualifiedName, ident};
use forebay_names::search_path::is_temporary;
use forebay_store::{
    ColumnDefinition, Constraint, DEFAULT_SCHEMA, SealedSegment, TableDefinition, TableOptions, TableSnapshot,
    Transaction, full_name, names_equal,
};
use forebay_syntax::types::sql_type;
use forebay_system::schema::check_free;
use forebay_tables::nested_columns;

use crate::catalog::Planner;
use crate::default_expressions;
use crate::lookup::{find_name, find_table};
use crate::options;

/// The definition that a CREATE TABLE statement with a list of columns gives.
pub fn table_definition(planner: &Arc<Planner>, create: &CreateTable, name: QualifiedName) -> Result<TableDefinition> {
    let mut columns = Vec::with_capacity(create.columns.len());
    let (mut constraints, mut checks) = (Vec::new(), Vec::new());
    for (index, column) in create.columns.iter().enumerate() {
        columns.push(column_definition(planner, column)?);
        let id = ColumnId(index as u32);
        for option in &column.options {
            match &option.option {
                ColumnOption::PrimaryKey(key) => {
                    always_enforced(&key.characteristics)?;
                    constraints.push(Constraint::PrimaryKey(vec![id]));
                }
                ColumnOption::Unique(key) => {
                    always_enforced(&key.characteristics)?;
                    constraints.push(Constraint::Unique(vec![id]));
                }
                ColumnOption::Check(check) => checks.push(check),
                ColumnOption::ForeignKey(key) => {
                    constraints.push(foreign_key(planner, vec![id], key, &name)?);
                }
                _ => {}
            }
        }
    }
    let position = |wanted: &str| {
        let found = columns.iter().position(|column: &ColumnDefinition| names_equal(&column.name, wanted));
        let found = found.map(|index| ColumnId(index as u32));
        found.ok_or_else(|| unknown_column(wanted, columns.iter().map(|column| column.name.as_str())))
    };
    for constraint in &create.constraints {
        constraints.push(match constraint {
            TableConstraint::PrimaryKey(key) => {
                always_enforced(&key.characteristics)?;
                Constraint::PrimaryKey(index_columns(&key.columns, &position)?)
            }
            TableConstraint::Unique(key) => {
                always_enforced(&key.characteristics)?;
                Constraint::Unique(index_columns(&key.columns, &position)?)
            }
            TableConstraint::ForeignKey(key) => {
                let ids = key.columns.iter().map(|column| position(&ident(column))).collect::<Result<_>>()?;
                foreign_key(planner, ids, key, &name)?
            }
            TableConstraint::Check(check) => {
                checks.push(check);
                continue;
            }
            other => return Err(Error::unsupported(format!("the constraint {other} is not supported"))),
        });
    }
    for check in checks {
        let mut constraint = constraint_of(&check.expr, &columns)?;
        if let Constraint::Check { is_enforced, .. } = &mut constraint {
            *is_enforced = check.enforced != Some(false);
        }
        constraints.push(constraint);
    }
    if constraints.iter().filter(|constraint| matches!(constraint, Constraint::PrimaryKey(_))).count() > 1 {
        return Err(Error::input(format!("table {} has more than one primary key", name.name)));
    }
    Ok(TableDefinition { schema: name.schema, name: name.name, columns, constraints })
}

/// The columns of a key.
pub(crate) fn index_columns(
    columns: &[IndexColumn],
    position: &dyn Fn(&str) -> Result<ColumnId>,
) -> Result<Vec<ColumnId>> {
    columns
        .iter()
        .map(|column| match &column.column.expr {
            Expr::Identifier(name) => position(&ident(name)),
            other => Err(Error::unsupported(format!("a key over the expression {other} is not supported"))),
        })
        .collect()
}

/// An error where a key, which is always enforced, is declared NOT ENFORCED.
fn always_enforced(characteristics: &Option<ConstraintCharacteristics>) -> Result<()> {
    match characteristics.as_ref().and_then(|told| told.enforced) {
        Some(false) => Err(Error::input("PRIMARY KEY and UNIQUE cannot be NOT ENFORCED")
            .hint("CHECK and FOREIGN KEY can; leave NOT ENFORCED out, or leave the key out")),
        _ => Ok(()),
    }
}

fn foreign_key(
    planner: &Planner,
    columns: Vec<ColumnId>,
    key: &ForeignKeyConstraint,
    referrer: &QualifiedName,
) -> Result<Constraint> {
    let references: Vec<String> = key.referred_columns.iter().map(ident).collect();
    let is_enforced = key.characteristics.as_ref().and_then(|told| told.enforced) != Some(false);
    let name = QualifiedName::of(&key.foreign_table, &referrer.schema)?;
    let is_self = names_equal(&name.schema, &referrer.schema) && names_equal(&name.name, &referrer.name);
    if is_self {
        let table = full_name(&name.schema, &name.name);
        return Ok(Constraint::ForeignKey { columns, table, references, is_enforced });
    }
    let found = find_table(planner, &name)?;
    let references = match references.is_empty() {
        true => forebay_tables::table::primary_key(&found),
        false => references,
    };
    if references.len() != columns.len() {
        return Err(Error::input(format!(
            "a foreign key of {} columns refers to {} columns of {}",
            columns.len(),
            references.len(),
            found.name
        )));
    }
    for reference in &references {
        if found.column(reference).is_none() {
            return Err(unknown_column(reference, found.columns.iter().map(|column| column.name.as_str())));
        }
    }
    Ok(Constraint::ForeignKey { columns, table: found.full_name(), references, is_enforced })
}

fn column_definition(planner: &Arc<Planner>, column: &ColumnDef) -> Result<ColumnDefinition> {
    let told = nested_columns::told_type(&column.data_type);
    let logical = match told.map_err(|error| error.context(format!("column {}", column.name)))? {
        // The type is planned to see whether it is one.
        Some(_) if nested_columns::is_nested(&column.data_type) => {
            planner.default_expr(&format!("CAST(NULL AS {})", column.data_type)).map(|_| LogicalType::Varchar)
        }
        Some(_) => Ok(LogicalType::Varchar),
        None => sql_type(&column.data_type),
    };
    let logical = logical.map_err(|error| error.context(format!("column {}", column.name)))?;
    let mut definition =
        ColumnDefinition { name: ident(&column.name), logical, nullable: true, default: None, missing: None };
    for option in &column.options {
        match &option.option {
            ColumnOption::Null | ColumnOption::Unique(_) | ColumnOption::ForeignKey(_) | ColumnOption::Comment(_) => {}
            ColumnOption::Check(_) => {}
            // Not of the column, but of how it is stored, and what is computed of the other ones.
            ColumnOption::Options(_)
            | ColumnOption::Collation(_)
            | ColumnOption::Generated { generation_expr: Some(_), .. } => {}
            ColumnOption::NotNull | ColumnOption::PrimaryKey(_) => definition.nullable = false,
            ColumnOption::Default(expr) => {
                let text = expr.to_string();
                let value = default_expressions::value(planner, &text, &definition.logical)?;
                let told = nested_columns::told_type(&column.data_type)?;
                definition.missing = nested_columns::stored_value(told.as_deref(), value)
                    .map_err(|error| error.context(format!("DEFAULT {text} of column {}", definition.name)))?;
                definition.default = Some(text);
            }
            other => {
                return Err(Error::unsupported(format!("the column option {other} is not supported"))
                    .context(format!("column {}", definition.name)));
            }
        }
    }
    Ok(definition)
}

/// Makes a table together with its options and first rows; with `replace`, in place of one of its name.
pub fn create_table(
    transaction: &mut Transaction,
    definition: TableDefinition,
    options: &TableOptions,
    rows: Vec<SealedSegment>,
    replace: bool,
) -> Result<()> {
    if replace {
        let old = transaction.catalog().table(&definition.schema, &definition.name).map(|table| table.id);
        if let Some(old) = old {
            transaction.drop_table(old)?;
        }
    }
    add_temporary_schema(transaction, &definition.schema)?;
    let id = transaction.create_table(definition)?;
    options::store(transaction, id, options)?;
    transaction.publish(id, rows)
}

/// Makes the schema of a session's temporary tables, if it is that and not there yet.
pub fn add_temporary_schema(transaction: &mut Transaction, schema: &str) -> Result<()> {
    match is_temporary(schema) && !transaction.catalog().has_schema(schema) {
        true => transaction.create_schema(schema),
        false => Ok(()),
    }
}

/// The text of a view's query, and a check that it can be planned.
pub async fn create_view(state: &SessionState, planner: &Arc<Planner>, view: &CreateView) -> Result<()> {
    if view.materialized {
        return Err(Error::unsupported("materialized views are not supported"));
    }
    let name = planner.path().name_new(planner.snapshot(), &view.name, view.temporary)?;
    let text = match view.columns.is_empty() {
        true => view.query.to_string(),
        false => {
            let columns: Vec<String> = view.columns.iter().map(|column| column.name.to_string()).collect();
            format!("SELECT * FROM ({}) AS {}({})", view.query, view.name.0[view.name.0.len() - 1], columns.join(", "))
        }
    };
    planner.plan_text(state, &text).await?;
    planner.transaction().change(|transaction| {
        let exists = transaction.catalog().view(&name.schema, &name.name).is_some();
        if exists && view.if_not_exists {
            return Ok(());
        }
        add_temporary_schema(transaction, &name.schema)?;
        transaction.create_view(&name.schema, &name.name, &text, view.or_replace)
    })
}

/// DROP TABLE, VIEW or SCHEMA.
pub fn drop(planner: &Planner, kind: &ObjectType, names: &[ObjectName], if_exists: bool, cascade: bool) -> Result<()> {
    planner.transaction().change(|transaction| {
        names.iter().try_for_each(|object| drop_one((planner, transaction), kind, object, if_exists, cascade))
    })
}

fn drop_one(
    (planner, transaction): (&Planner, &mut Transaction),
    kind: &ObjectType,
    object: &ObjectName,
    if_exists: bool,
    cascade: bool,
) -> Result<()> {
    match kind {
        ObjectType::Table => {
            let name = planner.path().find(transaction.catalog(), object)?;
            match transaction.catalog().table(&name.schema, &name.name).map(|table| table.id) {
                Some(id) => transaction.drop_table(id)?,
                None if if_exists => {}
                None => return Err(find_table(planner, &name).err().unwrap_or_else(|| gone(&name.name))),
            }
        }
        ObjectType::View => {
            let name = planner.path().find(transaction.catalog(), object)?;
            match transaction.catalog().view(&name.schema, &name.name).is_some() {
                true => transaction.drop_view(&name.schema, &name.name)?,
                false if if_exists => {}
                false => {
                    let names: Vec<String> = transaction.catalog().views().map(|view| view.name.clone()).collect();
                    let error = Error::new(ErrorKind::NotFound, format!("view {} does not exist", name.name));
                    return Err(match suggestion(&name.name, names.iter().map(String::as_str)) {
                        Some(other) => error.hint(format!("Did you mean {other}?")),
                        None => error,
                    });
                }
            }
        }
        ObjectType::Schema => {
            let name = QualifiedName::of(object, DEFAULT_SCHEMA)?.name;
            match transaction.catalog().has_schema(&name) {
                true => transaction.drop_schema(&name, cascade)?,
                false if if_exists => {}
                false => {
                    check_free(&name, &name)?;
                    return Err(Error::new(ErrorKind::NotFound, format!("schema {name} does not exist")));
                }
            }
        }
        other => return Err(Error::unsupported(format!("DROP {other} is not supported"))),
    }
    Ok(())
}

fn gone(name: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("table {name} was dropped meanwhile"))
}

/// ALTER TABLE.
pub fn alter_table(planner: &Arc<Planner>, alter: &AlterTable) -> Result<()> {
    let name = find_name(planner, &alter.name)?;
    let table = match find_table(planner, &name) {
        Err(error) if alter.if_exists && error.kind() == ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    planner.transaction().change(|transaction| {
        for operation in &alter.operations {
            let table = match transaction.catalog().table_by_id(table.id) {
                Some(table) => Arc::clone(table),
                None => return Err(gone(&name.name)),
            };
            alter_once(planner, transaction, &table, operation)?;
        }
        Ok(())
    })
}

fn alter_once(
    planner: &Arc<Planner>,
    transaction: &mut Transaction,
    table: &TableSnapshot,
    operation: &AlterTableOperation,
) -> Result<()> {
    match operation {
        AlterTableOperation::AddColumn { if_not_exists, column_def, .. } => {
            if *if_not_exists && table.column(&ident(&column_def.name)).is_some() {
                return Ok(());
            }
            let definition = column_definition(planner, column_def)?;
            if column_def.options.iter().any(|option| matches!(option.option, ColumnOption::Generated { .. })) {
                return Err(Error::unsupported("a generated column cannot be added to a table that is there")
                    .hint("Make a new table with it, and INSERT the rows"));
            }
            if let Some(text) = definition.default.as_ref().filter(|_| table.rows() > 0)
                && default_expressions::is_volatile(planner, text)?
            {
                return Err(Error::unsupported(format!("DEFAULT {text} has another value for each row that is there"))
                    .hint("Add the column without it, UPDATE the rows, then ALTER COLUMN … SET DEFAULT"));
            }
            let id = transaction.add_column(table.id, definition)?;
            let mut added = TableOptions::default();
            options::add_of_column(&mut added, id, column_def)?;
            options::store(transaction, table.id, &added)
        }
        AlterTableOperation::DropColumn { column_names, if_exists, .. } => {
            for column in column_names {
                match find_column(table, column) {
                    Ok(id) => {
                        free_of_indexes(table, id)?;
                        transaction.drop_column(table.id, id)?;
                    }
                    Err(_) if *if_exists => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        }
        AlterTableOperation::RenameColumn { old_column_name, new_column_name } => {
            let id = find_column(table, old_column_name)?;
            free_of_indexes(table, id)?;
            transaction.rename_column(table.id, id, &ident(new_column_name))
        }
        AlterTableOperation::RenameTable { table_name } => {
            let (RenameTableNameKind::As(new) | RenameTableNameKind::To(new)) = table_name;
            let new = QualifiedName::of(new, &table.schema)?;
            if !names_equal(&new.schema, &table.schema) {
                return Err(Error::unsupported("a table cannot be moved to another schema"));
            }
            transaction.rename_table(table.id, &new.name)
        }
        AlterTableOperation::AlterColumn { column_name, op } => {
            alter_column(planner, transaction, table, find_column(table, column_name)?, op)
        }
        other => Err(Error::unsupported(format!("ALTER TABLE … {other} is not supported"))),
    }
}

fn alter_column(
    planner: &Arc<Planner>,
    transaction: &mut Transaction,
    table: &TableSnapshot,
    column: ColumnId,
    operation: &AlterColumnOperation,
) -> Result<()> {
    let Some((position, definition)) = table.column_by_id(column) else { return Err(gone(&table.name)) };
    match operation {
        AlterColumnOperation::SetDefault { value } => {
            let text = value.to_string();
            let value = default_expressions::value(planner, &text, &definition.logical)?;
            nested_columns::stored_value(table.options.get(Some(column), nested_columns::TYPE_OPTION), value)
                .map_err(|error| error.context(format!("DEFAULT {text} of column {}", definition.name)))?;
            transaction.set_default(table.id, column, Some(text))
        }
        AlterColumnOperation::DropDefault => transaction.set_default(table.id, column, None),
        AlterColumnOperation::DropNotNull => transaction.set_nullable(table.id, column, true),
        AlterColumnOperation::SetNotNull => {
            // Rows that are deleted count there, too: whoever gave the statement has looked at those that are not.
            if table.read_bounds(position)?.is_some_and(|bounds| bounds.nulls > 0) && !table.has_deleted_rows() {
                return Err(holds_nulls(&table.name, &definition.name));
            }
            transaction.set_nullable(table.id, column, false)
        }
        AlterColumnOperation::SetDataType { .. } => {
            Err(Error::unsupported(format!("the type of column {} cannot be changed", definition.name))
                .hint("Use CREATE TABLE … AS SELECT with a CAST"))
        }
        AlterColumnOperation::AddGenerated { .. } => Err(Error::unsupported("generated columns are not supported")),
    }
}

/// The error of a column that cannot become NOT NULL.
pub fn holds_nulls(table: &str, column: &str) -> Error {
    Error::new(ErrorKind::Constraint, format!("column {column} of table {table} holds NULLs"))
}

/// Empties a table.
pub fn truncate(planner: &Planner, table: TableId) -> Result<u64> {
    planner.transaction().change(|transaction| {
        let Some(table) = transaction.catalog().table_by_id(table).map(Arc::clone) else { return Err(gone("")) };
        let emptied = table.projections.iter().map(|copy| (copy.definition.id, (copy.segments.versions(), Vec::new())));
        transaction.change_rows(table.id, vec![(table.segments.versions(), Vec::new())], emptied.collect())?;
        Ok(table.rows())
    })
}

/// The table that holds the rows of a query: CREATE TABLE name [(columns)] AS query.
pub fn definition_of_query(name: QualifiedName, schema: &Schema, create: &CreateTable) -> Result<TableDefinition> {
    let is_name = |column: &ColumnDef| column.data_type == SqlType::Unspecified && column.options.is_empty();
    if !create.columns.iter().all(is_name) || !create.constraints.is_empty() {
        return Err(Error::unsupported(
            "types, constraints and options of columns are not supported in CREATE TABLE … AS",
        )
        .hint("CAST in the query, or use CREATE TABLE and INSERT … SELECT"));
    }
    if !create.columns.is_empty() && create.columns.len() != schema.fields().len() {
        let message = format!("{} columns are named for a query of {}", create.columns.len(), schema.fields().len());
        return Err(Error::input(message));
    }
    definition_of_rows(name, schema, &create.columns)
}

/// A table for the rows of a query whose columns get these names, or keep their own where there are none.
pub fn definition_of_rows(name: QualifiedName, schema: &Schema, names: &[ColumnDef]) -> Result<TableDefinition> {
    let mut columns: Vec<ColumnDefinition> = Vec::with_capacity(schema.fields().len());
    for (index, field) in schema.fields().iter().enumerate() {
        let mut column = match names.get(index) {
            Some(named) => ident(&named.name),
            None => field.name().clone(),
        };
        let mut suffix = 1;
        while columns.iter().any(|other| names_equal(&other.name, &column)) {
            column = format!("{}_{suffix}", field.name());
            suffix += 1;
        }
        let stored = match field.data_type() {
            // Sums are wider than what they add; one that is too wide for a table fails when it is stored.
            DataType::Decimal256(_, scale) => DataType::Decimal128(DECIMAL128_MAX_PRECISION, *scale),
            other => other.clone(),
        };
        let logical = match nested_columns::type_text(&stored) {
            Some(_) => LogicalType::Varchar,
            None => forebay_engine::types::logical_type(&stored, &column)?,
        };
        columns.push(ColumnDefinition { name: column, logical, nullable: true, default: None, missing: None });
    }
    Ok(TableDefinition { schema: name.schema, name: name.name, columns, constraints: Vec::new() })
}

/// The columns as the table will have them: ids count from 0.
pub fn stored_columns(definition: &TableDefinition) -> Vec<forebay_store::Column> {
    let column = |(index, column): (usize, &ColumnDefinition)| forebay_store::Column {
        id: forebay_base::ColumnId(index as u32),
        name: column.name.clone(),
        logical: column.logical.clone(),
        nullable: column.nullable,
        default: column.default.clone(),
        missing: column.missing.clone(),
    };
    definition.columns.iter().enumerate().map(column).collect()
}
