//! Changes of what has a name and no rows: schemas, views, macros, sequences and types.

use std::sync::Arc;

use forebay_base::{Error, ErrorKind, Result};

use super::{Transaction, constraint, not_found};
use crate::catalog::{
    DEFAULT_SCHEMA, Macro, MacroKind, Named, NamedType, Schema, View, check_name, fold, key, macro_key, names_equal,
};
use crate::sequence::{Sequence, SequenceRange};

impl Transaction {
    /// Makes a schema.
    pub fn create_schema(&mut self, name: &str) -> Result<()> {
        check_name(name)?;
        if self.working.has_schema(name) {
            return Err(Error::new(ErrorKind::AlreadyExists, format!("schema {name} exists already")));
        }
        let id = self.next_object();
        self.change().schemas.insert(fold(name), Arc::new(Schema { id, name: name.to_owned() }));
        Ok(())
    }

    /// Drops a schema, with everything in it if `cascade`; otherwise it must be empty.
    pub fn drop_schema(&mut self, name: &str, cascade: bool) -> Result<()> {
        let schema = self.working.objects.schema(name)?.name.clone();
        if names_equal(&schema, DEFAULT_SCHEMA) {
            return Err(Error::input(format!("schema {schema} cannot be dropped")));
        }
        let inside = |other: &str| names_equal(other, &schema);
        let tables: Vec<_> = self.working.schema_tables().filter(|table| inside(&table.schema)).cloned().collect();
        let views: Vec<_> = self.working.views().filter(|view| inside(&view.schema)).cloned().collect();
        let has_macros = self.working.macros().any(|stored| inside(&stored.schema));
        let has_sequences = self.working.sequences().any(|sequence| inside(&sequence.schema));
        let has_types = self.working.named_types().any(|named| inside(&named.schema));
        let has_others = has_macros || has_sequences || has_types;
        let is_empty = tables.is_empty() && views.is_empty() && !has_others;
        if !is_empty && !cascade {
            let message = format!("schema {schema} is not empty");
            return Err(constraint(message).hint("DROP SCHEMA … CASCADE drops what is in it too"));
        }
        for table in &tables {
            self.check_unreferenced(table, |referrer| inside(&referrer.schema))?;
        }
        let catalog = self.change();
        for table in tables {
            catalog.remove(&table);
        }
        for view in views {
            catalog.unbind(&view.schema, &view.name);
        }
        catalog.macros.retain(|_, stored| !inside(&stored.schema));
        catalog.sequences.retain(|_, sequence| !inside(&sequence.schema));
        catalog.types.retain(|_, named| !inside(&named.schema));
        catalog.schemas.remove(&fold(&schema));
        Ok(())
    }

    /// Makes a view, or replaces a view of that name if `replace`.
    pub fn create_view(&mut self, schema: &str, name: &str, sql: &str, replace: bool) -> Result<()> {
        let schema = self.working.objects.schema(schema)?.name.clone();
        if replace && self.working.view(&schema, name).is_some() {
            self.drop_view(&schema, name)?;
        }
        let id = self.next_object();
        let view = View { id, schema: schema.clone(), name: name.to_owned(), sql: sql.to_owned() };
        self.change().bind(&schema, name, Named::View(Arc::new(view)))
    }

    /// Drops a view.
    pub fn drop_view(&mut self, schema: &str, name: &str) -> Result<()> {
        if self.working.view(schema, name).is_none() {
            return Err(not_found("view", &format!("{schema}.{name}")));
        }
        self.change().unbind(schema, name);
        Ok(())
    }

    /// Makes a macro of these definitions, or replaces the one of that name and kind if `replace`.
    pub fn create_macro(
        &mut self,
        kind: MacroKind,
        schema: &str,
        name: &str,
        definitions: Vec<String>,
        replace: bool,
    ) -> Result<()> {
        let schema = self.working.objects.schema(schema)?.name.clone();
        if replace && self.working.macro_of(kind, &schema, name).is_some() {
            self.drop_macro(kind, &schema, name)?;
        }
        let id = self.next_object();
        self.change().bind_macro(Macro { id, schema, name: name.to_owned(), kind, definitions })
    }

    /// Drops a macro.
    pub fn drop_macro(&mut self, kind: MacroKind, schema: &str, name: &str) -> Result<()> {
        match self.change().macros.remove(&macro_key(kind, schema, name)) {
            Some(_) => Ok(()),
            None => Err(not_found("macro", &format!("{schema}.{name}"))),
        }
    }

    /// Makes a sequence of these numbers.
    pub fn create_sequence(&mut self, schema: &str, name: &str, range: SequenceRange) -> Result<()> {
        range.check()?;
        let schema = self.working.objects.schema(schema)?.name.clone();
        let id = self.next_object();
        let next = Some(range.start);
        self.change().bind_sequence(Sequence { id, schema, name: name.to_owned(), range, next })
    }

    /// Drops a sequence.
    pub fn drop_sequence(&mut self, schema: &str, name: &str) -> Result<()> {
        match self.change().sequences.remove(&key(schema, name)) {
            Some(_) => Ok(()),
            None => Err(not_found("sequence", &format!("{schema}.{name}"))),
        }
    }

    /// Makes a type that stands for `definition`, or replaces the one of that name if `replace`.
    pub fn create_type(&mut self, schema: &str, name: &str, definition: String, replace: bool) -> Result<()> {
        let schema = self.working.objects.schema(schema)?.name.clone();
        if replace && self.working.named_type(&schema, name).is_some() {
            self.drop_type(&schema, name)?;
        }
        let id = self.next_object();
        self.change().bind_type(NamedType { id, schema, name: name.to_owned(), definition })
    }

    /// Drops a type. Columns keep what it stood for.
    pub fn drop_type(&mut self, schema: &str, name: &str) -> Result<()> {
        match self.change().types.remove(&key(schema, name)) {
            Some(_) => Ok(()),
            None => Err(not_found("type", &format!("{schema}.{name}"))),
        }
    }

    /// Takes the next `count` numbers of a sequence.
    ///
    /// # Errors
    /// `NotFound`, or `Constraint` where there are not as many.
    pub fn take_numbers(&mut self, schema: &str, name: &str, count: usize) -> Result<Vec<i64>> {
        match self.change().sequences.get_mut(&key(schema, name)) {
            Some(sequence) => Arc::make_mut(sequence).take(count),
            None => Err(not_found("sequence", &format!("{schema}.{name}"))),
        }
    }
}
