//! Settings of a session that are on or off.

use datafusion::prelude::SessionConfig;

/// Whether a session's prepared statements find rows by key without a plan where they can; `SET point_access`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PointAccess(pub bool);

impl PointAccess {
    /// Of a session.
    pub fn of(config: &SessionConfig) -> bool {
        config.get_extension::<Self>().is_none_or(|is_on| is_on.0)
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
