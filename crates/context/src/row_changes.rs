//! `SET row_changes`: what becomes of segments of which a statement changes some rows.

use datafusion::prelude::SessionConfig;
use forebay_base::{Error, Result};

/// What becomes of segments of which a statement changes some rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RowChangeMode {
    /// Large segments of which few rows change stay, and it is noted which rows are deleted; others are written anew.
    #[default]
    Auto,
    /// Segments are written anew.
    CopyOnWrite,
    /// Segments stay, whatever their size.
    MergeOnRead,
}

impl RowChangeMode {
    /// The one of this name.
    ///
    /// # Errors
    /// `Input` where there is none.
    pub fn parse(value: &str) -> Result<Self> {
        match value.to_lowercase().as_str() {
            "auto" => Ok(Self::Auto),
            "copy_on_write" => Ok(Self::CopyOnWrite),
            "merge_on_read" => Ok(Self::MergeOnRead),
            _ => Err(Error::input(format!("row_changes = {value} is not possible"))
                .hint("Use auto, copy_on_write or merge_on_read")),
        }
    }

    /// That of a session.
    pub fn of(config: &SessionConfig) -> Self {
        config.get_extension::<Self>().map_or_else(Self::default, |mode| *mode)
    }
}
