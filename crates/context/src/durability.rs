//! `SET durability`: when a session's commits are acknowledged.

use std::sync::Arc;
use std::time::Duration;

use datafusion::prelude::SessionConfig;
use forebay_base::{Durability, Error, Result};

/// Milliseconds after which commits are durable at the latest under `group`.
const GROUP_MS: u64 = 10;
/// The most that may be asked for.
const GROUP_MS_MOST: u64 = 60_000;

/// The setting of a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SessionDurability(pub Durability);

impl SessionDurability {
    /// What the setting is called.
    pub const NAME: &'static str = "durability";

    /// That of a session.
    pub fn of(config: &SessionConfig) -> Durability {
        config.get_extension::<Self>().map_or_else(Self::default, |durability| *durability).0
    }

    /// How it is shown: as it may be given.
    pub fn shown(config: &SessionConfig) -> String {
        match Self::of(config) {
            Durability::Full => "full".to_owned(),
            Durability::Within(time) => format!("group({}ms)", time.as_millis()),
            Durability::Off => "off".to_owned(),
        }
    }

    /// Sets it.
    pub(crate) fn set(config: &mut SessionConfig, value: &str) -> Result<()> {
        config.set_extension(Arc::new(Self(parsed(value)?)));
        Ok(())
    }
}

/// `full`, `off`, `group`, `group(20)` or `group(20ms)`.
fn parsed(value: &str) -> Result<Durability> {
    let text = value.trim().to_lowercase();
    let within = |ms| Durability::Within(Duration::from_millis(ms));
    match text.as_str() {
        "full" => return Ok(Durability::Full),
        "off" => return Ok(Durability::Off),
        "group" => return Ok(within(GROUP_MS)),
        _ => {}
    }
    let time = text.strip_prefix("group").map(str::trim_start);
    let time = time.and_then(|time| time.strip_prefix('(')?.strip_suffix(')'));
    let ms = time.and_then(|time| time.trim().trim_end_matches("ms").trim_end().parse().ok());
    ms.filter(|ms| (1..=GROUP_MS_MOST).contains(ms)).map(within).ok_or_else(|| {
        Error::input(format!("{} = {value} is not possible", SessionDurability::NAME))
            .hint(format!("Use full, 'group(10ms)' with a time from 1 to {GROUP_MS_MOST} milliseconds, or off"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_can_be_given() {
        let mut config = SessionConfig::new();
        assert_eq!(SessionDurability::shown(&config), "full");
        for (value, shown) in [
            ("group", "group(10ms)"),
            ("GROUP ( 7 )", "group(7ms)"),
            ("group(60000 ms)", "group(60000ms)"),
            (" Off ", "off"),
            ("FULL", "full"),
        ] {
            SessionDurability::set(&mut config, value).expect(value);
            assert_eq!(SessionDurability::shown(&config), shown);
            SessionDurability::set(&mut config, shown).expect(shown);
            assert_eq!(SessionDurability::shown(&config), shown);
        }
        for value in ["", "on", "group(", "group()", "group(0)", "group(60001)", "group(-1)", "group(1s)", "fully"] {
            let error = SessionDurability::set(&mut config, value).expect_err(value);
            assert!(error.to_string().contains("durability"), "{error}");
        }
    }
}
