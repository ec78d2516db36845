//! Which stored name an unquoted column has where it stands: that of the tables in its scope, from the innermost SELECT
//! outwards, and of the table that qualifies it. Columns of subqueries are not known by table; they are looked for among
//! the names of all tables of the statement.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::TableReference;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectName, ObjectNamePart, Select, TableAlias, TableFactor, TableWithJoins,
};

use crate::stored_names::{StoredNames, quote};

/// A table that is written without a schema is found with any.
const ANY_SCHEMA: &str = "main";

/// Tables that WITH names, with their columns where these are known; the innermost last.
pub type Named = Vec<(String, Option<Vec<String>>)>;

/// Columns that joins have in common, by their lower-case names, as what they stand for.
pub type Merged = HashMap<String, Expr>;

/// The tables of a statement, and those of the SELECTs around the place where a visitor is.
#[derive(Debug, Default)]
pub struct Scopes {
    /// By their names in the statement, in lower case.
    tables: HashMap<String, StoredNames>,
    /// Names of all of them together.
    all: StoredNames,
    /// The innermost last.
    stack: Vec<Scope>,
    /// For each query around the place, the tables that its WITH names.
    named: Vec<Named>,
    /// The statement has names in quotes, or its tables have names with capitals: columns of subqueries are told apart by their letters.
    pub(crate) tells_letters: bool,
}

/// The tables of a SELECT, and the columns that its joins have in common.
#[derive(Debug, Default)]
struct Scope {
    tables: Vec<InScope>,
    merged: Merged,
}

/// A table in scope.
#[derive(Debug)]
struct InScope {
    /// What qualifies its columns, in lower case.
    qualifier: String,
    /// The schema that it is written with.
    schema: Option<Ident>,
    /// `None` for subqueries and the like.
    names: Option<StoredNames>,
}

impl Scopes {
    /// Adds a table that the statement names.
    pub fn add_table(&mut self, table: &TableReference, schema: SchemaRef) {
        let parts = [table.catalog(), table.schema(), Some(table.table())];
        self.tables.entry(key(parts.into_iter().flatten())).or_default().add_all(Arc::clone(&schema));
        self.all.add_all(schema);
    }

    /// Adds a table without a name of its own.
    pub fn add_unnamed(&mut self, schema: SchemaRef) {
        self.all.add_all(schema);
    }

    /// The columns of a table that WITH or the statement names, in their order.
    pub fn columns(&self, name: &ObjectName) -> Option<Vec<String>> {
        if let [only] = name.0.as_slice()
            && let Some(plain) = only.as_ident().map(|only| only.value.to_lowercase())
            && let Some((_, columns)) = self.named.iter().flatten().rfind(|(named, _)| *named == plain)
        {
            return columns.clone();
        }
        self.table(name).map(|names| names.in_order().map(str::to_owned).collect())
    }

    /// Whether WITH of a query around the place names a table so, in lower case.
    pub fn is_named(&self, lower: &str) -> bool {
        self.named.iter().flatten().any(|(named, _)| named == lower)
    }

    /// How many queries are around the place.
    pub fn depth(&self) -> usize {
        self.named.len()
    }

    /// Goes into a query whose WITH names these tables.
    pub fn enter_query(&mut self, named: Named) {
        self.named.push(named);
    }

    /// Goes out of it.
    pub fn leave_query(&mut self) {
        self.named.pop();
    }

    /// The names of a table of the statement.
    pub fn table(&self, name: &ObjectName) -> Option<&StoredNames> {
        let idents = name.0.iter().filter_map(ObjectNamePart::as_ident);
        self.tables.get(&key(idents.map(|ident| ident.value.as_str())))
    }

    /// The names of all tables of the statement.
    pub fn all(&self) -> &StoredNames {
        &self.all
    }

    /// Goes into a SELECT whose joins have these columns in common; `None` where its tables are not known.
    /// `columns` are those of its [`factors`], as far as they are known.
    pub fn enter(&mut self, select: Option<&Select>, columns: Vec<Option<StoredNames>>, merged: Merged) {
        let factors = select.into_iter().flat_map(|select| factors(&select.from));
        let columns = columns.into_iter().chain(std::iter::repeat(None));
        let tables = factors.zip(columns).map(|(table, columns)| self.in_scope(table, columns)).collect();
        self.stack.push(Scope { tables, merged });
    }

    /// Goes out of it.
    pub fn leave(&mut self) {
        self.stack.pop();
    }

    fn in_scope(&self, table: &TableFactor, columns: Option<StoredNames>) -> InScope {
        let named = |alias: &TableAlias| alias.name.value.to_lowercase();
        match table {
            TableFactor::Table { name, alias, args: None, .. } => {
                let mut parts = name.0.iter().rev().map(ObjectNamePart::as_ident);
                let (last, schema) = (parts.next().flatten(), parts.next().flatten().cloned());
                let qualifier = alias.as_ref().map(named).or_else(|| last.map(|last| last.value.to_lowercase()));
                // Columns that the alias names are those of no table.
                let is_renamed = alias.as_ref().is_some_and(|alias| !alias.columns.is_empty());
                let names = self.table(name).filter(|_| !is_renamed).cloned().or(columns);
                InScope { qualifier: qualifier.unwrap_or_default(), schema, names }
            }
            TableFactor::Table { alias: Some(alias), .. }
            | TableFactor::Derived { alias: Some(alias), .. }
            | TableFactor::TableFunction { alias: Some(alias), .. }
            | TableFactor::Function { alias: Some(alias), .. } => {
                InScope { qualifier: named(alias), schema: None, names: columns }
            }
            // Its columns are in front of those of queries around, whatever they are called.
            _ => InScope { qualifier: String::new(), schema: None, names: columns },
        }
    }

    /// What an unqualified name stands for, where joins have it in common.
    pub fn merged(&self, name: &Ident) -> Option<&Expr> {
        let lower = name.value.to_lowercase();
        let may_have = |table: &InScope| table.names.as_ref().is_none_or(|names| names.has(&lower));
        let is_here = |scope: &&Scope| scope.merged.contains_key(&lower) || scope.tables.iter().any(may_have);
        self.stack.iter().rev().find(is_here).and_then(|scope| scope.merged.get(&lower))
    }

    /// Replaces an unquoted column name by the stored one.
    pub fn replace(&self, qualifier: Option<&Ident>, name: &mut Ident) {
        if name.quote_style.is_some() {
            return self.replace_quoted(qualifier, name);
        }
        let lower = name.value.to_lowercase();
        let qualifier = qualifier.map(|qualifier| qualifier.value.to_lowercase());
        let is_meant = |table: &&InScope| qualifier.as_ref().is_none_or(|qualifier| *qualifier == table.qualifier);
        for scope in self.stack.iter().rev() {
            let mut tables = scope.tables.iter().filter(is_meant).peekable();
            let is_there = qualifier.is_some() && tables.peek().is_some();
            let mut found: Vec<&str> = Vec::new();
            let mut is_unknown = false;
            for table in tables {
                match &table.names {
                    Some(names) => found.extend(names.stored(&lower)),
                    None => is_unknown = true,
                }
            }
            if let Some(first) = found.first() {
                // Where one name is stored in several cases, the lower-case one is meant.
                if !found.contains(&lower.as_str()) {
                    quote(name, first);
                }
                return;
            }
            match (is_there, is_unknown) {
                (true, false) => return,
                (true, true) => break,
                (false, _) => {}
            }
        }
        self.all.replace(name);
    }

    /// Replaces the column in front of the fields of a name with points.
    pub(crate) fn replace_before_fields(&self, parts: &mut [Ident]) {
        let is_table = |name: &Ident| self.stack.iter().any(|scope| scope.qualifies(&name.value.to_lowercase()));
        match parts {
            _ if !self.tells_letters => {}
            [column, _, ..] if !is_table(column) => self.replace(None, column),
            [table, column, _, ..] => self.replace(Some(table), column),
            _ => {}
        }
    }

    /// As [`Scopes::replace`], for a quoted name: found in any case, too, where all tables around are known and none has a column
    /// that is written so.
    fn replace_quoted(&self, qualifier: Option<&Ident>, name: &mut Ident) {
        let qualifier = qualifier.map(|qualifier| qualifier.value.to_lowercase());
        let is_meant = |table: &&InScope| qualifier.as_ref().is_none_or(|qualifier| *qualifier == table.qualifier);
        for scope in self.stack.iter().rev() {
            let tables: Option<Vec<&StoredNames>> =
                scope.tables.iter().filter(is_meant).map(|table| table.names.as_ref()).collect();
            let Some(tables) = tables else { return };
            if tables.iter().any(|names| names.has_as_written(&name.value)) {
                return;
            }
            let lower = name.value.to_lowercase();
            if let Some(stored) = tables.iter().find_map(|names| names.stored(&lower)) {
                name.value = stored.to_owned();
                return;
            }
        }
    }

    /// A schema in front of a name with points whose first part is a table of a query around, and also a column without fields of a
    /// SELECT further inside, whose field it would be taken for. `None` where it needs none.
    fn schema_of_hidden(&self, parts: &[Ident]) -> Option<Ident> {
        let [first, _, ..] = parts else { return None };
        let first = first.value.to_lowercase();
        let mut is_hidden = false;
        for scope in self.stack.iter().rev() {
            if let Some(table) = scope.tables.iter().find(|table| table.qualifier == first) {
                let schema = table.schema.clone().unwrap_or_else(|| Ident::new(ANY_SCHEMA));
                return is_hidden.then_some(schema);
            }
            let known = scope.tables.iter().filter_map(|table| table.names.as_ref());
            for names in known.filter(|names| names.has(&first)) {
                if !names.is_plain(&first) {
                    return None;
                }
                is_hidden = true;
            }
        }
        None
    }

    /// As [`Scopes::outer_column`], after the name has been given a schema where its table is hidden otherwise.
    pub fn tell_outer_column(&self, parts: &mut Vec<Ident>) -> Option<usize> {
        parts.splice(0..0, self.schema_of_hidden(parts));
        self.outer_column(parts)
    }

    /// How many parts of a name with points are the column of a query around; behind it are fields. `None` where all parts are, and
    /// where the column is one of the innermost SELECT.
    pub fn outer_column(&self, parts: &[Ident]) -> Option<usize> {
        let (own, around) = self.stack.split_last()?;
        let lower = |place: usize| parts.get(place).map(|part| part.value.to_lowercase());
        let first = lower(0)?;
        let is_known = |scope: &Scope| {
            scope.tables.iter().any(|table| table.names.as_ref().is_some_and(|names| names.has(&first)))
        };
        if own.qualifies(&first) || is_known(own) {
            return None;
        }
        let qualifies =
            |place: usize| lower(place).is_some_and(|part| self.stack.iter().any(|scope| scope.qualifies(&part)));
        let column = match (0..3).find(|place| qualifies(*place)) {
            Some(place) => place + 2,
            None if self.is_table(&first) => return None,
            None => {
                let may_have = |table: &InScope| table.names.as_ref().is_none_or(|names| names.has(&first));
                around.iter().any(|scope| scope.tables.iter().any(may_have)).then_some(1)?
            }
        };
        (column < parts.len()).then_some(column)
    }

    /// Whether the statement names a table so, in lower case, whatever its schema is.
    fn is_table(&self, lower: &str) -> bool {
        self.tables.keys().any(|key| key.rsplit('\u{1}').next() == Some(lower))
    }
}

impl Scope {
    /// Whether a name in lower case qualifies columns here.
    fn qualifies(&self, lower: &str) -> bool {
        self.tables.iter().any(|table| table.qualifier == lower)
    }
}

/// The tables of a FROM clause, those of joins in parentheses too.
pub(crate) fn factors(from: &[TableWithJoins]) -> Vec<&TableFactor> {
    fn collect<'a>(table: &'a TableFactor, all: &mut Vec<&'a TableFactor>) {
        match table {
            TableFactor::NestedJoin { table_with_joins, .. } => {
                collect(&table_with_joins.relation, all);
                table_with_joins.joins.iter().for_each(|join| collect(&join.relation, all));
            }
            other => all.push(other),
        }
    }
    let mut all = Vec::new();
    for table in from {
        collect(&table.relation, &mut all);
        table.joins.iter().for_each(|join| collect(&join.relation, &mut all));
    }
    all
}

fn key<'a>(parts: impl Iterator<Item = &'a str>) -> String {
    parts.map(str::to_lowercase).collect::<Vec<_>>().join("\u{1}")
}
