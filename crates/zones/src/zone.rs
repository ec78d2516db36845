//! A time zone.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::timezone::Tz;
use datafusion::arrow::datatypes::TimestampMicrosecondType;
use datafusion::arrow::temporal_conversions::as_datetime_with_timezone;
use datafusion::common::Result;
use forebay_base::Error;
use forebay_context::error::into_datafusion;
use forebay_context::moments::{DAY, INFINITE, in_range, text};

/// Microseconds of a second.
const SECOND: i64 = 1_000_000;

/// A time zone by its name or its distance from UTC.
#[derive(Debug, Clone)]
pub struct Zone {
    name: Arc<str>,
    clocks: Tz,
}

impl PartialEq for Zone {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Zone {}

impl Hash for Zone {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl Zone {
    /// The zone of this name, in any case, or of a distance as `+02:00`.
    ///
    /// # Errors
    /// A zone that does not exist.
    pub fn parse(name: &str) -> Result<Self> {
        let is_name = name.is_ascii() && !name.is_empty();
        let spellings = [name.to_owned(), titled(name), name.to_uppercase()];
        let zone = |name: String| Some(Self { clocks: name.parse().ok()?, name: name.into() });
        spellings.into_iter().filter(|_| is_name).find_map(zone).ok_or_else(|| {
            let error = Error::input(format!("time zone {name} does not exist"));
            into_datafusion(error.hint("Write it as 'Europe/Berlin', 'UTC' or '+02:00'"))
        })
    }

    /// Its name, as the calendar of zones writes it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether clocks in it show UTC.
    pub fn is_utc(&self) -> bool {
        matches!(&*self.name, "UTC" | "Etc/UTC" | "+00:00")
    }

    /// How many microseconds clocks are ahead of UTC at an instant. Instants that the calendar of zones does not reach are at UTC.
    fn offset(&self, instant: i64) -> i64 {
        as_datetime_with_timezone::<TimestampMicrosecondType>(instant, self.clocks)
            .map_or(0, |shown| (shown.naive_local() - shown.naive_utc()).num_seconds() * SECOND)
    }

    /// How many seconds clocks are ahead of UTC at an instant.
    pub fn offset_seconds(&self, instant: i64) -> i64 {
        self.offset(instant) / SECOND
    }

    /// What clocks show at an instant; infinite ones are so everywhere. `None` out of range.
    pub fn local(&self, instant: i64) -> Option<i64> {
        match instant.unsigned_abs() == INFINITE.unsigned_abs() {
            true => Some(instant),
            false => in_range(i128::from(instant) + i128::from(self.offset(instant))),
        }
    }

    /// When clocks show a local time: the later instant where they do so twice, and where they never do, what it would be by the clock
    /// before it was put forward. `None` out of range.
    pub fn instant(&self, local: i64) -> Option<i64> {
        if local.unsigned_abs() == INFINITE.unsigned_abs() {
            return Some(local);
        }
        let (before, after) = (self.offset(local.saturating_sub(DAY)), self.offset(local.saturating_add(DAY)));
        let at = |offset: i64| in_range(i128::from(local) - i128::from(offset));
        let is_so = |offset: i64| at(offset).is_some_and(|instant| self.offset(instant) == offset);
        let known = [before, after].into_iter().filter(|offset| is_so(*offset)).min();
        at(known.unwrap_or(before))
    }

    /// An instant as text: what clocks show, and how far they are from UTC.
    pub fn text(&self, instant: i64) -> Option<String> {
        let local = text(self.local(instant)?, SECOND);
        if instant.unsigned_abs() == INFINITE.unsigned_abs() {
            return Some(local);
        }
        let seconds = self.offset_seconds(instant);
        let (sign, minutes) = (if seconds < 0 { '-' } else { '+' }, seconds.abs() / 60);
        Some(match minutes % 60 {
            0 => format!("{local}{sign}{:02}", minutes / 60),
            rest => format!("{local}{sign}{:02}:{rest:02}", minutes / 60),
        })
    }
}

/// `europe/berlin` as `Europe/Berlin`.
fn titled(name: &str) -> String {
    let mut is_first = true;
    let letter = |letter: char| {
        let written = if is_first { letter.to_ascii_uppercase() } else { letter.to_ascii_lowercase() };
        is_first = matches!(letter, '/' | '_' | '-');
        written
    };
    name.chars().map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_context::moments;

    fn read(text: &str) -> i64 {
        moments::parse(text).and_then(|reading| reading.microseconds(true)).expect(text)
    }

    #[test]
    fn clocks_that_are_put_forward_or_back() {
        let zone = Zone::parse("america/new_york").expect("a zone");
        for (local, expect) in [
            ("2021-11-07 01:30:00", "2021-11-07 01:30:00-05"),
            ("2021-03-14 02:30:00", "2021-03-14 03:30:00-04"),
            ("2021-07-01 00:00:00", "2021-07-01 00:00:00-04"),
            ("2021-12-01 00:00:00", "2021-12-01 00:00:00-05"),
            ("infinity", "infinity"),
        ] {
            let instant = zone.instant(read(local)).expect(local);
            assert_eq!(zone.text(instant).as_deref(), Some(expect));
        }
        assert_eq!(zone.local(read("2021-07-01 12:00:00")), Some(read("2021-07-01 08:00:00")));
    }

    #[test]
    fn names_are_known_in_any_case() {
        for (name, expect) in [
            ("europe/berlin", Some("Europe/Berlin")),
            ("UTC", Some("UTC")),
            ("utc", Some("UTC")),
            ("+02:00", Some("+02:00")),
            ("AMERICA/NEW_YORK", Some("America/New_York")),
            ("Nowhere", None),
            ("", None),
            ("ü", None),
        ] {
            assert_eq!(Zone::parse(name).ok().as_ref().map(Zone::name), expect, "{name}");
        }
    }
}
