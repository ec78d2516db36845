//! Objects by their names: giving and taking them.
//!
//! Invariant: a name of a schema that is there stands for one object of its kind.

use std::sync::Arc;

use forebay_base::{Error, ErrorKind, Result, TableId};

use super::{Macro, Named, NamedType, Objects, Schema, Table, check_name, fold, key, macro_key};
use crate::sequence::Sequence;

impl Objects {
    /// The schema of this name.
    pub(crate) fn schema(&self, name: &str) -> Result<&Arc<Schema>> {
        self.schemas
            .get(&fold(name))
            .ok_or_else(|| Error::new(ErrorKind::NotFound, format!("schema {name} does not exist")))
    }

    /// Gives `named` the name; an error if it is taken or not a name, or the schema is not there.
    pub(crate) fn bind(&mut self, schema: &str, name: &str, named: Named) -> Result<()> {
        check_name(name)?;
        self.schema(schema)?;
        let key = key(schema, name);
        if let Some(taken) = self.names.get(&key) {
            let what = match taken {
                Named::Table(_) => "table",
                Named::View(_) => "view",
            };
            return Err(Error::new(ErrorKind::AlreadyExists, format!("{what} {schema}.{name} exists already")));
        }
        self.names.insert(key, named);
        Ok(())
    }

    /// As [`Objects::bind`], for a macro.
    pub(crate) fn bind_macro(&mut self, new: Macro) -> Result<()> {
        check_name(&new.name)?;
        self.schema(&new.schema)?;
        let key = macro_key(new.kind, &new.schema, &new.name);
        if self.macros.contains_key(&key) {
            let message = format!("macro {}.{} exists already", new.schema, new.name);
            return Err(Error::new(ErrorKind::AlreadyExists, message));
        }
        self.macros.insert(key, Arc::new(new));
        Ok(())
    }

    /// As [`Objects::bind`], for a sequence.
    pub(crate) fn bind_sequence(&mut self, new: Sequence) -> Result<()> {
        check_name(&new.name)?;
        self.schema(&new.schema)?;
        let key = key(&new.schema, &new.name);
        if self.sequences.contains_key(&key) {
            let message = format!("sequence {}.{} exists already", new.schema, new.name);
            return Err(Error::new(ErrorKind::AlreadyExists, message));
        }
        self.sequences.insert(key, Arc::new(new));
        Ok(())
    }

    /// As [`Objects::bind`], for a type.
    pub(crate) fn bind_type(&mut self, new: NamedType) -> Result<()> {
        check_name(&new.name)?;
        self.schema(&new.schema)?;
        let key = key(&new.schema, &new.name);
        if self.types.contains_key(&key) {
            let message = format!("type {}.{} exists already", new.schema, new.name);
            return Err(Error::new(ErrorKind::AlreadyExists, message));
        }
        self.types.insert(key, Arc::new(new));
        Ok(())
    }

    /// A table, to be changed.
    pub(crate) fn edit_table(&mut self, id: TableId) -> Result<&mut Table> {
        let missing = || Error::new(ErrorKind::NotFound, format!("table number {id} does not exist"));
        Ok(Arc::make_mut(self.tables.get_mut(&id).ok_or_else(missing)?).edit())
    }

    /// Takes out a table, with the facts that were made from it.
    pub(crate) fn remove(&mut self, table: &Table) {
        self.unbind(&table.schema, &table.name);
        self.tables.remove(&table.id);
        self.forget_facts_of(table.id);
    }

    pub(crate) fn unbind(&mut self, schema: &str, name: &str) -> Option<Named> {
        self.names.remove(&key(schema, name))
    }
}
