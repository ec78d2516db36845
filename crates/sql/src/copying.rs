//! COPY, of a query or a table into a file, and of files into a table.

use std::sync::Arc;

use forebay_base::{Error, ErrorKind, Result};
use forebay_changes::keys::Key;
use forebay_context::error::from_datafusion;
use forebay_files::copy_to;
use forebay_joins::reading_order;
use forebay_store::RowChanges;
use forebay_syntax::parse::{Copy, CopySource};
use forebay_tables::load::Loaded;

use crate::answer::Answer;
use crate::copy;
use crate::lookup::{find_name, find_table};
use crate::run::Run;

impl Run<'_> {
    /// COPY.
    pub(crate) fn copy(&self, copy: Copy) -> Result<Answer> {
        let state = self.state();
        if copy.to {
            let text = match &copy.source {
                CopySource::Query(query) => query.to_string(),
                CopySource::Table(name, columns) if columns.is_empty() => format!("SELECT * FROM {name}"),
                CopySource::Table(name, columns) => {
                    let columns: Vec<String> = columns.iter().map(ToString::to_string).collect();
                    format!("SELECT {} FROM {name}", columns.join(", "))
                }
            };
            let plan = self.plan_text(&state, &text)?;
            let state = reading_order::state_for(state, &plan).map_err(from_datafusion)?;
            let rows = self.session.wait(copy_to::write(state, plan, &copy.path, &copy.options))?;
            return self.changed(rows);
        }
        let CopySource::Table(name, names) = &copy.source else {
            return Err(Error::internal("COPY (query) FROM was parsed"));
        };
        let table = find_table(&self.planner, &find_name(&self.planner, name)?)?;
        self.planner.transaction().check_writable()?;
        let input =
            self.session.wait(copy::plan_input(&self.planner, &state, &table, names, &copy.path, copy.options))?;
        let physical = self.physical(&state, Arc::clone(&input.plan));
        let loaded = physical.and_then(|physical| self.load(&state, physical, &table.columns, &table.options));
        let Loaded { segments, rows, .. } = match loaded {
            Err(error) if error.kind() != ErrorKind::Cancelled => return Err(input.diagnose(error)),
            loaded => loaded?,
        };
        let added = RowChanges::from(vec![(Vec::new(), segments)]);
        let wrong = |error: Error| match error.kind() {
            ErrorKind::Constraint => error
                .context(format!("file {}", copy.path))
                .hint("No row was loaded. Load the file into another table, and INSERT … ON CONFLICT from that"),
            _ => error,
        };
        self.check_written(&Key::of(&table), &table, &added).map_err(wrong)?;
        self.publish(&table, added.replaced.into_iter().flat_map(|(_, segments)| segments).collect())?;
        self.changed(rows)
    }
}
