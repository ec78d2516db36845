//! What the settings of a session say of statements by key, found out once for each change of a setting.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use datafusion::prelude::SessionConfig;
use forebay_base::Durability;
use forebay_context::durability::SessionDurability;
use forebay_context::lock::lock;
use forebay_context::settings::{DescendingOrder, PointAccess};
use forebay_context::statement::StatementContext;
use forebay_context::waiting::LockTimeout;

/// What a session knows of such statements.
#[derive(Debug, Default)]
pub(crate) struct Points {
    /// What settings of this number say.
    settings: Mutex<Option<(u64, PointSettings)>>,
    /// Nothing is counted of them.
    statement: OnceLock<Arc<StatementContext>>,
}

impl Points {
    /// What settings of this number say, which are these.
    pub(crate) fn settings(&self, number: u64, config: &SessionConfig) -> PointSettings {
        let mut known = lock(&self.settings);
        match *known {
            Some((of, settings)) if of == number => settings,
            _ => known.insert((number, PointSettings::of(config))).1,
        }
    }

    /// What all of them share as a statement, made like this where there was none.
    pub(crate) fn statement(&self, new: impl FnOnce() -> Arc<StatementContext>) -> Arc<StatementContext> {
        Arc::clone(self.statement.get_or_init(new))
    }
}

/// What settings say of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PointSettings {
    pub(crate) access: PointAccess,
    pub(crate) is_utc: bool,
    pub(crate) durability: Durability,
    pub(crate) lock_timeout: Duration,
}

impl PointSettings {
    fn of(config: &SessionConfig) -> Self {
        let access = if DescendingOrder::of(config) { PointAccess::Off } else { PointAccess::of(config) };
        Self {
            access,
            is_utc: config.options().execution.time_zone.as_deref().is_none_or(|zone| zone == "UTC"),
            durability: SessionDurability::of(config),
            lock_timeout: LockTimeout::of(config),
        }
    }
}
