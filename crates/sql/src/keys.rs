//! Rows that a statement writes have no key that another row has: looked at before they are published.

use std::sync::Arc;

use datafusion::arrow::array::AsArray;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use forebay_base::{Error, ErrorKind, Result};
use forebay_changes::columns::quoted;
use forebay_changes::keys::Key;
use forebay_store::{Replaced, Table};

use crate::run::Run;

impl Run<'_> {
    /// An error if `table` had one of `keys` twice once these segments have taken the places of others.
    pub(crate) fn check_keys(&self, keys: &[Key], table: &Table, replaced: &[Replaced]) -> Result<()> {
        if keys.is_empty() || replaced.iter().all(|(_, new)| new.is_empty()) {
            return Ok(());
        }
        // Nobody else may add a row with one of these keys before this statement's rows, or those of its transaction, are there.
        let table = self.planner.transaction().change(|changes| {
            changes.rely_on_rows(table.id);
            let now = changes.catalog().table_by_id(table.id).cloned();
            now.ok_or_else(|| Error::new(ErrorKind::Conflict, format!("table {} was dropped meanwhile", table.name)))
        })?;
        let new = replaced.iter().flat_map(|(_, new)| new).map(|sealed| Arc::clone(sealed.segment()));
        let stays = |id| replaced.iter().all(|(gone, _)| !gone.contains(&id));
        let others: Vec<_> = table.segments.iter().filter(|segment| stays(segment.id())).map(Arc::clone).collect();
        let has_others = !others.is_empty();
        let new = quoted(&self.planner.add_part(table.with_rows(new)));
        let others = quoted(&self.planner.add_part(table.with_rows(others)));
        for key in keys {
            let shared = if has_others { self.first_text(&key.shared(&new, &others))? } else { None };
            let found = if shared.is_some() { shared } else { self.first_text(&key.twice(&new))? };
            if let Some(shown) = found {
                return Err(Error::new(ErrorKind::Constraint, key.violated(&shown)).hint(format!(
                    "Write INSERT OR REPLACE, INSERT OR IGNORE or ON CONFLICT to change rows of {} that are there",
                    table.name
                )));
            }
        }
        Ok(())
    }

    /// The value of the one column of a query's first row, as a text.
    fn first_text(&self, query: &str) -> Result<Option<String>> {
        let state = self.state();
        let mut answer = self.stream(&state, self.plan_text(&state, query)?)?;
        let mut first = None;
        while let Some(batch) = answer.next_batch()? {
            let texts = cast(batch.column(0), &DataType::Utf8).map_err(|error| Error::internal(error.to_string()))?;
            first = first.or_else(|| texts.as_string::<i32>().iter().next().flatten().map(str::to_owned));
        }
        Ok(first)
    }
}
