//! `SET late_materialization_max_rows`: how many rows a limit may have for columns to be fetched behind it.

use std::sync::Arc;

use datafusion::prelude::SessionConfig;
use forebay_base::{Error, Result};

/// Rows of a limit at most, behind which columns are fetched that nothing below it needs; 0 for never. With up to as many rows as the
/// default it took less time in all but one measurement, with five times as many as long (docs/experiments.md).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LateRows(pub usize);

impl Default for LateRows {
    fn default() -> Self {
        Self(1000)
    }
}

impl LateRows {
    /// What the setting is called, as in DuckDB.
    pub const NAME: &'static str = "late_materialization_max_rows";

    /// That of a session.
    pub fn of(config: &SessionConfig) -> usize {
        config.get_extension::<Self>().map_or_else(Self::default, |rows| *rows).0
    }

    /// Sets it.
    pub(crate) fn set(config: &mut SessionConfig, value: &str) -> Result<()> {
        let rows = value.parse().map_err(|_| {
            Error::input(format!("{} = {value} is not possible", Self::NAME))
                .hint("Give a number of rows, or 0 for columns to be read where they are scanned")
        })?;
        config.set_extension(Arc::new(Self(rows)));
        Ok(())
    }
}
