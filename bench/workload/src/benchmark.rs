//! The benchmarks by name, and which scale factors they take.

use std::fmt;
use std::str::FromStr;

use forebay::units::format_count;
use forebay::{Error, Result};

use crate::{taxi, wide};

/// Smallest scale factor: below it TPC-H has too few suppliers for its key formulas.
pub(crate) const SCALE_FACTOR_MIN: f64 = 0.001;

/// Largest scale factor: that of the largest official TPC-H size.
pub(crate) const SCALE_FACTOR_MAX: f64 = 100_000.0;

/// A benchmark: tables, data and queries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Benchmark {
    /// Star Schema Benchmark, revision 3 (O'Neil, O'Neil, Chen): one fact table, four dimensions, 13 queries.
    Ssb,
    /// TPC-H: eight tables, 22 queries.
    Tpch,
    /// One table of 100 columns as web analytics keeps them, and 20 queries of the kinds of ClickBench.
    Wide,
    /// One table of taxi trips as New York publishes them, and two queries with three predicates each (GOLAP §6).
    Taxi,
}

impl Benchmark {
    /// The name as users write it: `ssb`, `tpch`, `wide`, `taxi`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ssb => "ssb",
            Self::Tpch => "tpch",
            Self::Wide => "wide",
            Self::Taxi => "taxi",
        }
    }

    /// Whether columns have NULLs, which the tbl format cannot tell from empty text.
    pub(crate) fn has_nulls(self) -> bool {
        matches!(self, Self::Wide | Self::Taxi)
    }

    /// The scale factor at which the table has so many rows.
    ///
    /// Errors: a benchmark whose size is no number of rows, fewer rows than the smallest scale factor has, or more than the
    /// largest has.
    pub fn scale_factor_of_rows(self, rows: u64) -> Result<f64> {
        let rows_at_one = match self {
            Self::Wide => wide::ROWS,
            Self::Taxi => taxi::ROWS,
            Self::Ssb | Self::Tpch => {
                return Err(Error::input(format!("{self} has several tables: no number of rows says how large it is"))
                    .hint("Use --sf"));
            }
        };
        let scale_factor = rows as f64 / rows_at_one;
        if (SCALE_FACTOR_MIN..=SCALE_FACTOR_MAX).contains(&scale_factor) {
            return Ok(scale_factor);
        }
        let count = |scale_factor: f64| format_count((rows_at_one * scale_factor) as u64);
        Err(Error::input(format!("{} rows are out of range", format_count(rows))).hint(format!(
            "Use a number from {} to {}",
            count(SCALE_FACTOR_MIN),
            count(SCALE_FACTOR_MAX)
        )))
    }
}

impl fmt::Display for Benchmark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ssb => "SSB",
            Self::Tpch => "TPC-H",
            Self::Wide => "Wide table",
            Self::Taxi => "Taxi trips",
        })
    }
}

impl FromStr for Benchmark {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.to_ascii_lowercase().as_str() {
            "ssb" => Ok(Self::Ssb),
            "tpch" | "tpc-h" => Ok(Self::Tpch),
            "wide" => Ok(Self::Wide),
            "taxi" => Ok(Self::Taxi),
            _ => Err(Error::input(format!("there is no benchmark {text:?}")).hint("Use ssb, tpch, wide or taxi")),
        }
    }
}

/// Refuses scale factors that are not numbers, not positive, or absurd.
pub(crate) fn check_scale_factor(scale_factor: f64) -> Result<()> {
    if (SCALE_FACTOR_MIN..=SCALE_FACTOR_MAX).contains(&scale_factor) {
        return Ok(());
    }
    Err(Error::input(format!("scale factor {scale_factor} is out of range"))
        .hint(format!("Use a number from {SCALE_FACTOR_MIN} to {SCALE_FACTOR_MAX}; 1 is about one gigabyte of text")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        for benchmark in [Benchmark::Ssb, Benchmark::Tpch, Benchmark::Wide, Benchmark::Taxi] {
            assert_eq!(benchmark.name().parse::<Benchmark>().expect("own name"), benchmark);
        }
        assert!("tpcds".parse::<Benchmark>().is_err());
    }

    #[test]
    fn rows_become_scale_factors() {
        for rows in [10_000, 10_001, 123_456_789, 7_777_777_777] {
            let scale_factor = Benchmark::Taxi.scale_factor_of_rows(rows).expect("a fine number");
            assert_eq!((taxi::ROWS * scale_factor).round() as u64, rows);
        }
        assert_eq!(Benchmark::Wide.scale_factor_of_rows(2_000_000).expect("a fine number"), 2.0);
        let few = Benchmark::Taxi.scale_factor_of_rows(9_999).expect_err("too few").to_string();
        assert!(few.contains("9,999 rows are out of range. Use a number from 10,000 to"), "{few}");
        assert!(Benchmark::Ssb.scale_factor_of_rows(1_000_000).is_err());
    }

    #[test]
    fn absurd_scale_factors_are_refused() {
        for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY, 100_001.0, 1e-9] {
            assert!(check_scale_factor(wrong).is_err(), "{wrong}");
        }
        for fine in [0.001, 0.01, 1.0, 2.5, 100_000.0] {
            assert!(check_scale_factor(fine).is_ok(), "{fine}");
        }
    }
}
