//! TIME WITH TIME ZONE: times of day with their distance from UTC, as texts of one form. They are in the order of their moments in
//! UTC, and of one moment the ones farther to the east come first.

use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringViewArray};
use datafusion::arrow::datatypes::{DataType, Time64MicrosecondType, TimeUnit, TimestampMicrosecondType};
use datafusion::common::{Result, internal_err};
use forebay_base::Error;
use forebay_context::clock;
use forebay_context::moments;

/// Microseconds of a second.
const SECOND: i64 = 1_000_000;

/// The greatest distance from UTC, in seconds: that of `+15:59:59`.
const MOST_OFFSET: i64 = 16 * 3_600 - 1;

/// Places of a key for the distance.
const OFFSET_BITS: u32 = 17;

/// A time of day somewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ZonedTime {
    /// Microseconds since midnight there.
    pub local: i64,
    /// Seconds that clocks there are ahead of UTC.
    pub offset: i64,
}

impl ZonedTime {
    /// The time that a text is: `10:20:30+02`, and without a distance that of UTC; a timestamp is its time in UTC.
    pub fn read(text: &str) -> Option<Self> {
        let text = text.trim_ascii();
        let Some((nanoseconds, rest)) = clock::read(text) else { return Self::of_timestamp(text) };
        let (local, rest) = (nanoseconds / 1_000, rest.trim_ascii_start());
        if rest.is_empty() {
            return Some(Self { local, offset: 0 });
        }
        let is_whole = text[..text.len() - rest.len()].matches(':').count() == 2;
        let (offset, behind) = rest.starts_with(['+', '-']).then(|| moments::parse_offset(rest)).flatten()?;
        let fits = is_whole && behind.is_empty() && offset.abs() <= MOST_OFFSET;
        fits.then_some(Self { local, offset })
    }

    fn of_timestamp(text: &str) -> Option<Self> {
        let moment = moments::parse(text)?.microseconds(true)?;
        (moment.abs() != moments::INFINITE).then(|| Self::of_moment(moment))
    }

    /// The time of day in UTC of so many microseconds since 1970.
    pub fn of_moment(moment: i64) -> Self {
        Self { local: moment.rem_euclid(moments::DAY), offset: 0 }
    }

    /// Its text: `10:20:30.5+02:30`.
    pub fn text(self) -> String {
        let (sign, offset) = (if self.offset < 0 { '-' } else { '+' }, self.offset.abs());
        let (hours, minutes, seconds) = (offset / 3_600, offset / 60 % 60, offset % 60);
        let clock = clock::text(self.local.unsigned_abs());
        match (minutes, seconds) {
            (0, 0) => format!("{clock}{sign}{hours:02}"),
            (_, 0) => format!("{clock}{sign}{hours:02}:{minutes:02}"),
            _ => format!("{clock}{sign}{hours:02}:{minutes:02}:{seconds:02}"),
        }
    }

    /// A number that is greater for a later one.
    pub fn key(self) -> i64 {
        let utc = self.local - self.offset * SECOND + MOST_OFFSET * SECOND;
        utc << OFFSET_BITS | (MOST_OFFSET - self.offset)
    }

    /// The time of a key.
    pub fn of_key(key: i64) -> Self {
        let offset = MOST_OFFSET - (key & ((1 << OFFSET_BITS) - 1));
        Self { local: (key >> OFFSET_BITS) - MOST_OFFSET * SECOND + offset * SECOND, offset }
    }
}

/// That a text is no such time.
pub fn unknown(text: &str) -> Error {
    let shown: String = text.chars().take(40).collect();
    Error::input(format!("could not convert string {shown:?} to TIME WITH TIME ZONE"))
        .hint("Write it as 10:20:30+02, with less than 16 hours behind the sign")
}

/// Whether values of a type are times of day in UTC.
pub fn is_time(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Time64(TimeUnit::Microsecond) | DataType::Timestamp(TimeUnit::Microsecond, _))
}

/// The texts of times and timestamps.
///
/// # Errors
/// Values of another type.
pub fn texts_of(array: &ArrayRef) -> Result<StringViewArray> {
    Ok(match array.data_type() {
        DataType::Time64(TimeUnit::Microsecond) => {
            let text = |local: i64| ZonedTime { local, offset: 0 }.text();
            array.as_primitive::<Time64MicrosecondType>().iter().map(|time| time.map(text)).collect()
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            let text = |moment: i64| (moment.abs() != moments::INFINITE).then(|| ZonedTime::of_moment(moment).text());
            array.as_primitive::<TimestampMicrosecondType>().iter().map(|moment| moment.and_then(text)).collect()
        }
        other => return internal_err!("{other} is no time of day"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_and_shown() {
        for (text, expect) in [
            ("10:20:30+02:00", Some("10:20:30+02")),
            (" 1:2:3.50 -0230 ", Some("01:02:03.5-02:30")),
            ("10:20", Some("10:20:00+00")),
            ("24:00:00-15:59:59", Some("24:00:00-15:59:59")),
            ("2020-01-01 10:20:30+02", Some("08:20:30+00")),
            ("10:20+02", None),
            ("10:20:30+16", None),
            ("10:20:30+2", None),
            ("10:20:30Z", None),
            ("25:00:00", None),
            ("", None),
        ] {
            assert_eq!(ZonedTime::read(text).map(ZonedTime::text).as_deref(), expect, "{text}");
        }
    }

    #[test]
    fn keys_are_in_the_order_of_times() {
        let ordered =
            ["00:00:00+15:59:59", "23:00:00+15", "10:00:00+02", "08:00:00+00", "07:00:00-01", "24:00:00-15:59:59"];
        let times: Vec<ZonedTime> = ordered.iter().filter_map(|text| ZonedTime::read(text)).collect();
        assert_eq!(times.len(), ordered.len());
        assert!(times.is_sorted_by_key(|time| time.key()));
        assert!(times.iter().all(|time| ZonedTime::of_key(time.key()) == *time));
    }
}
