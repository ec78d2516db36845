//! `SET lock_timeout`, `SET idle_in_transaction_session_timeout` and `SET default_transaction_isolation`, by PostgreSQL's names: how a session's
//! transactions meet those of others.

use std::sync::Arc;
use std::time::Duration;

use datafusion::prelude::SessionConfig;
use forebay_base::{Error, Result};

/// How long a statement waits for transactions that have changed its rows, in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockTimeout(pub Duration);

impl Default for LockTimeout {
    fn default() -> Self {
        Self(Duration::from_secs(10))
    }
}

/// The units that a time may have.
const UNITS: [(&str, u64); 4] = [("ms", 1), ("min", 60_000), ("s", 1000), ("h", 3_600_000)];

impl LockTimeout {
    /// What the setting is called.
    pub const NAME: &'static str = "lock_timeout";

    /// That of a session.
    pub fn of(config: &SessionConfig) -> Duration {
        config.get_extension::<Self>().map_or_else(Self::default, |timeout| *timeout).0
    }

    /// How it is shown: as it may be given.
    pub fn shown(config: &SessionConfig) -> String {
        shown(Self::of(config))
    }

    /// Sets it.
    pub(crate) fn set(config: &mut SessionConfig, value: &str) -> Result<()> {
        let timeout = time(value, Self::NAME, "Give a time, as 500ms or 10s, or 0 for not waiting at all")?;
        config.set_extension(Arc::new(Self(timeout)));
        Ok(())
    }
}

/// How long a transaction waits for its next statement before it is ended; 0 = for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IdleTimeout(pub Duration);

impl IdleTimeout {
    /// What the setting is called.
    pub const NAME: &'static str = "idle_in_transaction_session_timeout";

    /// That of a session.
    pub fn of(config: &SessionConfig) -> Duration {
        config.get_extension::<Self>().map_or_else(Self::default, |timeout| *timeout).0
    }

    /// How it is shown: as it may be given.
    pub fn shown(config: &SessionConfig) -> String {
        shown(Self::of(config))
    }

    /// Sets it.
    pub(crate) fn set(config: &mut SessionConfig, value: &str) -> Result<()> {
        let timeout = time(value, Self::NAME, "Give a time, as 30s or 10min, or 0 for as long as the session lasts")?;
        config.set_extension(Arc::new(Self(timeout)));
        Ok(())
    }
}

/// A time as it may be given.
fn shown(time: Duration) -> String {
    match time.as_millis() {
        0 => "0".to_owned(),
        ms if ms % 1000 == 0 => format!("{}s", ms / 1000),
        ms => format!("{ms}ms"),
    }
}

/// The time that is the value of a setting: a number alone means milliseconds.
fn time(value: &str, setting: &str, hint: &'static str) -> Result<Duration> {
    let text = value.trim().to_lowercase();
    let (number, unit_ms) = match UNITS.iter().find(|(unit, _)| text.ends_with(unit)) {
        Some((unit, ms)) => (text.trim_end_matches(unit).trim_end(), *ms),
        None => (text.as_str(), 1),
    };
    let ms = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit_ms));
    let ms = ms.filter(|ms| *ms <= u64::from(u32::MAX));
    let ms = ms.ok_or_else(|| Error::input(format!("{setting} = {value} is not possible")).hint(hint))?;
    Ok(Duration::from_millis(ms))
}

/// The isolation level of transactions whose BEGIN names none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefaultIsolation(&'static str);

/// The levels by their names.
const LEVELS: [&str; 5] = ["read uncommitted", "read committed", "repeatable read", "snapshot", "serializable"];

impl DefaultIsolation {
    /// What the setting is called.
    pub const NAME: &'static str = "default_transaction_isolation";

    /// The name of that of a session.
    pub fn of(config: &SessionConfig) -> &'static str {
        config.get_extension::<Self>().map_or("snapshot", |level| level.0)
    }

    /// Sets it.
    pub(crate) fn set(config: &mut SessionConfig, value: &str) -> Result<()> {
        let found = LEVELS.into_iter().find(|level| level.eq_ignore_ascii_case(value.trim()));
        let level = found.ok_or_else(|| {
            Error::input(format!("{} = {value} is not possible", Self::NAME))
                .hint(format!("Use one of: {}", LEVELS.join(", ")))
        })?;
        config.set_extension(Arc::new(Self(level)));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        let mut config = SessionConfig::new();
        assert_eq!(LockTimeout::shown(&config), "10s");
        for (value, shown) in [
            ("0", "0"),
            ("250", "250ms"),
            ("3 s", "3s"),
            ("2min", "120s"),
            ("1h", "3600s"),
            ("7MS", "7ms"),
            ("1500", "1500ms"),
        ] {
            LockTimeout::set(&mut config, value).expect(value);
            assert_eq!(LockTimeout::shown(&config), shown, "{value}");
            LockTimeout::set(&mut config, shown).expect(shown);
            assert_eq!(LockTimeout::shown(&config), shown);
        }
        for value in ["", "-1", "s", "1.5s", "1d", "18446744073709551615", "18446744073709551615h", "soon"] {
            let error = LockTimeout::set(&mut config, value).expect_err(value);
            assert!(error.to_string().contains("lock_timeout"), "{error}");
        }
    }

    #[test]
    fn idle_transactions_last_unless_asked() {
        let mut config = SessionConfig::new();
        assert_eq!((IdleTimeout::of(&config), IdleTimeout::shown(&config)), (Duration::ZERO, "0".to_owned()));
        IdleTimeout::set(&mut config, "10min").expect("a time");
        assert_eq!(IdleTimeout::of(&config), Duration::from_secs(600));
        assert_eq!(LockTimeout::shown(&config), "10s");
        let error = IdleTimeout::set(&mut config, "later").expect_err("no time");
        assert!(error.to_string().contains(IdleTimeout::NAME), "{error}");
    }

    #[test]
    fn levels_are_those_of_begin() {
        let mut config = SessionConfig::new();
        assert_eq!(DefaultIsolation::of(&config), "snapshot");
        DefaultIsolation::set(&mut config, "Read Committed").expect("a level");
        assert_eq!(DefaultIsolation::of(&config), "read committed");
        let error = DefaultIsolation::set(&mut config, "chaos").expect_err("none");
        assert!(error.to_string().contains("serializable"), "{error}");
    }
}
