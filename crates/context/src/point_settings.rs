//! What the settings of a session say of statements by key, found out once for each change of a setting.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use datafusion::prelude::SessionConfig;
use forebay_base::Durability;

use crate::durability::SessionDurability;
use crate::lock::lock;
use crate::settings::{DescendingOrder, PointAccess};
use crate::statement::StatementContext;
use crate::waiting::LockTimeout;

/// What a session knows of such statements.
#[derive(Debug, Default)]
pub struct Points {
    /// What settings of this number say.
    settings: Mutex<Option<(u64, PointSettings)>>,
    /// Nothing is counted of them.
    statement: OnceLock<Arc<StatementContext>>,
}

impl Points {
    /// What settings of this number say, which are these.
    pub fn settings(&self, number: u64, config: &SessionConfig) -> PointSettings {
        let mut known = lock(&self.settings);
        match *known {
            Some((of, settings)) if of == number => settings,
            _ => known.insert((number, PointSettings::of(config))).1,
        }
    }

    /// What all of them share as a statement, made like this where there was none.
    pub fn statement(&self, new: impl FnOnce() -> Arc<StatementContext>) -> Arc<StatementContext> {
        Arc::clone(self.statement.get_or_init(new))
    }
}

/// What settings say of them.
#[derive(Debug, Clone, Copy)]
pub struct PointSettings {
    /// Which statements run without a plan.
    pub access: PointAccess,
    /// Times are told in UTC.
    pub is_utc: bool,
    /// When commits are acknowledged.
    pub durability: Durability,
    /// How long a statement waits for another transaction.
    pub lock_timeout: Duration,
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
