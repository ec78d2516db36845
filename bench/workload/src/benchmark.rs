//! The benchmarks by name, and which scale factors they take.

use std::fmt;
use std::str::FromStr;

use forebay::{Error, Result};

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
}

impl Benchmark {
    /// The name as users write it: `ssb`, `tpch`, `wide`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ssb => "ssb",
            Self::Tpch => "tpch",
            Self::Wide => "wide",
        }
    }
}

impl fmt::Display for Benchmark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ssb => "SSB",
            Self::Tpch => "TPC-H",
            Self::Wide => "Wide table",
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
            _ => Err(Error::input(format!("there is no benchmark {text:?}")).hint("Use ssb, tpch or wide")),
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
        for benchmark in [Benchmark::Ssb, Benchmark::Tpch, Benchmark::Wide] {
            assert_eq!(benchmark.name().parse::<Benchmark>().expect("own name"), benchmark);
        }
        assert!("tpcds".parse::<Benchmark>().is_err());
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
