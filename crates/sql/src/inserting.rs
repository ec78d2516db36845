//! INSERT.

use std::sync::Arc;

use datafusion::logical_expr::{DmlStatement, LogicalPlan, WriteOp};
use datafusion::sql::parser::Statement as PlanStatement;
use datafusion::sql::sqlparser::ast::ObjectName;
use forebay_base::{Error, Result};
use forebay_changes::insert;
use forebay_changes::keys::Key;
use forebay_context::error::from_datafusion;
use forebay_joins::reading_order;
use forebay_store::RowChanges;
use forebay_tables::load::Loaded;

use crate::answer::Answer;
use crate::lookup::{find_name, find_table};
use crate::returning::Returning;
use crate::run::Run;

impl Run<'_> {
    /// Runs an INSERT into the table of this name.
    pub(crate) fn insert(&self, mut statement: PlanStatement, name: &ObjectName) -> Result<Answer> {
        let read_before = self.planner.snapshot().noted_reads();
        let table = find_table(&self.planner, &find_name(&self.planner, name)?)?;
        let mut returning = Returning::of(self, insert::taken_returning(&mut statement).as_ref())?;
        if let Some(source) = insert::source_by_name(&statement) {
            let source = self.plan_text(&self.state(), &source)?;
            insert::name_columns(&mut statement, source.schema().fields().iter().map(|field| field.name()));
        }
        let conflict = insert::taken_conflict(&mut statement, &table)?;
        let alias = insert::taken_alias(&mut statement, name);
        insert::fill_defaults(&mut statement, &table)?;
        self.planner.transaction().check_writable()?;
        let state = self.state();
        let plan = self.plan(&state, statement)?;
        let mut state = reading_order::state_for(state, &plan).map_err(from_datafusion)?;
        if conflict.is_some() {
            // One thread writes rows in their order, the first of which count.
            state.config_mut().options_mut().execution.target_partitions = 1;
        }
        let LogicalPlan::Dml(DmlStatement { op: WriteOp::Insert(_), input, .. }) = plan else {
            return Err(Error::internal("an INSERT was planned as something else"));
        };
        let reads_tables = insert::reads_tables(&input)?;
        let physical = self.physical(&state, input)?;
        let Loaded { segments, rows, .. } = self.load(&state, physical, &table.columns, &table.options)?;
        if let Some(conflict) = conflict {
            let changed = self.insert_or_change(conflict, &table, &segments, &mut returning)?;
            return returning.map_or_else(|| self.changed(changed), |returning| returning.answer(self));
        }
        let added = RowChanges::from(vec![(Vec::new(), segments)]);
        self.check_written(&Key::of(&table), &table, &added)?;
        let segments: Vec<_> = added.replaced.into_iter().flat_map(|(_, segments)| segments).collect();
        if let Some(returning) = &mut returning {
            let written = segments.iter().map(|sealed| Arc::clone(sealed.segment())).collect();
            returning.add_segments(self, &table, &alias, written)?;
        }
        self.add(&table, segments)?;
        // RETURNING may have read tables, too.
        if !reads_tables && returning.is_none() {
            // What is added does not depend on rows that were there, but for keys, which are checked again.
            self.planner.snapshot().forget_reads_since(&read_before);
        }
        match returning {
            Some(returning) => returning.answer(self),
            None => self.changed(rows),
        }
    }
}
