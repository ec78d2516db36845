//! The query texts of the benchmarks, ready to run: 13 of SSB, 22 of TPC-H with its validation parameters, 20 of the wide
//! table, two of taxi trips with three predicates each, and the 22 of the CH-benCHmark.
//!
//! Two TPC-H texts use the freedom of the specification (2.2.4.3): q15 has a WITH clause instead of a view, and the row
//! limits of 2.1.2.9 are LIMIT clauses.

use std::borrow::Cow;

use crate::benchmark::Benchmark;

/// A query with its name.
#[derive(Debug, Clone)]
pub struct Query {
    /// `q1.1` to `q4.3` of SSB, `q1` to `q22` of TPC-H and of the CH-benCHmark, `q1` to `q20` of the wide table, `q1.1` to `q2.3` of taxi trips.
    pub name: &'static str,
    /// One statement, with its final semicolon.
    pub sql: Cow<'static, str>,
}

macro_rules! texts {
    ($folder:literal: $($name:literal)*) => {
        &[$(($name, include_str!(concat!("../queries/", $folder, "/", $name, ".sql")))),*]
    };
}

const SSB: &[(&str, &str)] =
    texts!("ssb": "q1.1" "q1.2" "q1.3" "q2.1" "q2.2" "q2.3" "q3.1" "q3.2" "q3.3" "q3.4" "q4.1" "q4.2" "q4.3");

const TPCH: &[(&str, &str)] = texts!("tpch":
    "q1" "q2" "q3" "q4" "q5" "q6" "q7" "q8" "q9" "q10" "q11" "q12" "q13" "q14" "q15" "q16" "q17" "q18" "q19" "q20"
    "q21" "q22");

const WIDE: &[(&str, &str)] = texts!("wide":
    "q1" "q2" "q3" "q4" "q5" "q6" "q7" "q8" "q9" "q10" "q11" "q12" "q13" "q14" "q15" "q16" "q17" "q18" "q19" "q20");

const TAXI: &[(&str, &str)] = texts!("taxi": "q1.1" "q1.2" "q1.3" "q2.1" "q2.2" "q2.3");

const CHBENCH: &[(&str, &str)] = texts!("chbench":
    "q1" "q2" "q3" "q4" "q5" "q6" "q7" "q8" "q9" "q10" "q11" "q12" "q13" "q14" "q15" "q16" "q17" "q18" "q19" "q20"
    "q21" "q22");

/// The fraction in the text of q11, which is that of scale factor 1.
const Q11_FRACTION: &str = "0.0001";

/// The queries of `benchmark` for data of this scale factor (only TPC-H q11 depends on it: its fraction is
/// 0.0001 / scale factor).
pub fn queries(benchmark: Benchmark, scale_factor: f64) -> Vec<Query> {
    let texts = match benchmark {
        Benchmark::Ssb => SSB,
        Benchmark::Tpch => TPCH,
        Benchmark::Wide => WIDE,
        Benchmark::Taxi => TAXI,
    };
    texts
        .iter()
        .map(|&(name, text)| {
            let sql = if benchmark == Benchmark::Tpch && name == "q11" {
                Cow::Owned(text.replace(Q11_FRACTION, &q11_fraction(scale_factor)))
            } else {
                Cow::Borrowed(text)
            };
            Query { name, sql }
        })
        .collect()
}

/// The queries of the CH-benCHmark over the tables of TPC-C, suppliers, nations and regions.
pub fn chbench_queries() -> Vec<Query> {
    CHBENCH.iter().map(|&(name, text)| Query { name, sql: Cow::Borrowed(text) }).collect()
}

/// 0.0001 / scale factor without an exponent, so that it stays a decimal.
fn q11_fraction(scale_factor: f64) -> String {
    let digits = format!("{:.12}", 0.0001 / scale_factor);
    digits.trim_end_matches('0').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_query_is_one_statement() {
        let of = |benchmark| queries(benchmark, 1.0);
        let all = [
            (of(Benchmark::Ssb), 13),
            (of(Benchmark::Tpch), 22),
            (of(Benchmark::Wide), 20),
            (of(Benchmark::Taxi), 6),
            (chbench_queries(), 22),
        ];
        for (queries, count) in all {
            assert_eq!(queries.len(), count);
            for query in queries {
                assert_eq!(query.sql.matches(';').count(), 1, "{}", query.name);
                assert!(query.sql.trim_end().ends_with(';'), "{}", query.name);
            }
        }
    }

    #[test]
    fn q11_follows_the_scale_factor() {
        let fraction_at = |scale_factor| {
            let sql = queries(Benchmark::Tpch, scale_factor).swap_remove(10).sql.into_owned();
            sql.split(" * ")
                .find_map(|rest| rest.strip_prefix("0.").map(|r| r[..r.find('\n').expect("line")].to_owned()))
        };
        assert_eq!(fraction_at(1.0).as_deref(), Some("0001"));
        assert_eq!(fraction_at(0.1).as_deref(), Some("001"));
        assert_eq!(fraction_at(10.0).as_deref(), Some("00001"));
        assert_eq!(fraction_at(100_000.0).as_deref(), Some("000000001"));
    }
}
