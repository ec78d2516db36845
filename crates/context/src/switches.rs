//! Settings of a session that are on or off, or something between.

use datafusion::prelude::SessionConfig;
use forebay_base::{Error, Result};

/// Which statements of a session find rows by key without a plan where they can; `SET point_access`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PointAccess {
    /// None.
    Off,
    /// Those that programs have prepared.
    Prepared,
    /// Also texts that change rows.
    On,
}

impl PointAccess {
    /// Of a session.
    pub fn of(config: &SessionConfig) -> Self {
        config.get_extension::<Self>().map_or(Self::On, |access| *access)
    }

    /// The one of this name.
    ///
    /// # Errors
    /// `Input` for other names.
    pub fn parse(name: &str) -> Result<Self> {
        match name.to_ascii_lowercase().as_str() {
            "off" | "false" => Ok(Self::Off),
            "prepared" => Ok(Self::Prepared),
            "on" | "true" => Ok(Self::On),
            _ => Err(Error::input(format!("point_access = {name} is not possible")).hint("Use on, prepared or off")),
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Prepared => "prepared",
            Self::On => "on",
        }
    }
}

/// Whether a session's plans are kept; `SET plan_cache`.
#[derive(Debug, Clone, Copy)]
pub struct KeepsPlans(pub bool);

impl KeepsPlans {
    /// Of a session.
    pub fn of(config: &SessionConfig) -> bool {
        config.get_extension::<Self>().is_none_or(|keeps| keeps.0)
    }
}

/// Whether a session's statements are put into the query log; `SET query_log`.
#[derive(Debug, Clone, Copy)]
pub struct LogsQueries(pub bool);

impl LogsQueries {
    /// Of a session.
    pub fn of(config: &SessionConfig) -> bool {
        config.get_extension::<Self>().is_none_or(|logs| logs.0)
    }
}
