//! SSB, TPC-H and point queries beside each other, where what is asked drifts: from one of SSB's first flights over TPC-H to SSB's
//! last ones. From an empty cache on, no round comes twice.
//!
//! The queries of a stream are drawn by a fixed seed, the same for all policies. Must not know: policies.

use std::io::Write;
use std::time::Instant;

use forebay::units::format_bytes;
use forebay::{Database, Result};

use super::{POLICIES, Policy, Round, conditions, opened, shown};
use crate::benchmark::Benchmark;
use crate::experiments::figure::Figure;
use crate::experiments::{Bench, all};
use crate::measure::run_sql;
use crate::queries::queries;
use crate::random::{RowRandom, Stream, scaled};
use crate::sessions::{FOLDER, IN_SSB, prepare_both};

/// Budgets as percent of the encoded bytes of both fact tables.
const PERCENTS: [u64; 3] = [10, 25, 50];

/// Queries of a phase.
const QUERIES: u64 = 16;

/// Of ten queries of a phase: those of SSB's flights 1 and 2, its flights 3 and 4, TPC-H, points.
const PHASES: [[u64; 4]; 6] = [[8, 0, 0, 2], [5, 0, 3, 2], [2, 0, 6, 2], [0, 2, 6, 2], [0, 5, 3, 2], [0, 8, 0, 2]];

const SEED: u64 = 7;

/// A query, and whether it is one of SSB's.
type Asked = (bool, String);

/// The stream, all phases of it.
fn stream(scale_factor: f64) -> Vec<Asked> {
    let ssb = queries(Benchmark::Ssb, scale_factor);
    let of_flights = |first: &[char]| -> Vec<Asked> {
        let flights = ssb.iter().filter(|query| query.name[1..].starts_with(first));
        flights.map(|query| (true, query.sql.clone().into_owned())).collect()
    };
    let tpch = queries(Benchmark::Tpch, scale_factor).into_iter().map(|query| (false, query.sql.into_owned()));
    let kinds = [of_flights(&['1', '2']), of_flights(&['3', '4']), tpch.collect()];
    let orders = (scale_factor * 1_500_000.0) as u64;
    let mut asked = Vec::new();
    for (phase, parts) in PHASES.iter().enumerate() {
        for number in 0..QUERIES {
            let random = RowRandom::new(SEED, Stream::Query, phase as u64 * QUERIES + number);
            let mut place = scaled(random.at(0), parts.iter().sum());
            let kind = parts.iter().position(|part| {
                let is_here = place < *part;
                place = place.saturating_sub(*part);
                is_here
            });
            asked.push(match kind.and_then(|kind| kinds.get(kind)) {
                Some(texts) => texts[scaled(random.at(1), texts.len() as u64) as usize].clone(),
                None => point(scaled(random.at(1), orders.max(1)), number),
            });
        }
    }
    asked
}

/// A query that few rows answer. Of TPC-H's keys eight in thirty-two are used.
fn point(number: u64, kind: u64) -> Asked {
    let of_tpch = number / 8 * 32 + number % 8 + 1;
    match kind % 3 {
        0 => (false, format!("SELECT * FROM orders WHERE o_orderkey = {of_tpch}")),
        1 => (false, format!("SELECT sum(l_quantity), max(l_shipdate) FROM lineitem WHERE l_orderkey = {of_tpch}")),
        _ => (true, format!("SELECT sum(lo_revenue), max(lo_quantity) FROM lineorder WHERE lo_orderkey = {number}")),
    }
}

/// The stream from an empty cache.
fn measured(database: &Database, stream: &[Asked]) -> Result<Round> {
    let (ssb, tpch) = (database.session(), database.session());
    all(&ssb, &IN_SSB)?;
    let (mut read_bytes, started) = (0, Instant::now());
    for (is_ssb, sql) in stream {
        read_bytes += run_sql(if *is_ssb { &ssb } else { &tpch }, sql)?.0.metrics.read_bytes;
    }
    Ok(Round { seconds: started.elapsed().as_secs_f64(), read_bytes })
}

/// The medians of some runs under a policy and a budget.
fn runs(bench: &Bench<'_>, stream: &[Asked], policy: Policy, budget_bytes: u64) -> Result<Round> {
    let run = |_| measured(&opened(bench, FOLDER, policy, budget_bytes)?, stream);
    let found: Vec<Round> = (0..bench.options.runs).map(run).collect::<Result<_>>()?;
    Ok(Round::median(&found))
}

/// The stream under all policies and budgets.
pub(super) fn mixed(bench: &Bench<'_>, out: &mut dyn Write) -> Result<Figure> {
    prepare_both(bench, &bench.open_options(), out)?;
    let stream = stream(bench.options.scale_factor);
    let storage = Database::open(&bench.options.directory.join(FOLDER), &bench.open_options())?.storage()?;
    let facts = storage.iter().filter(|column| ["lineorder", "lineitem"].contains(&column.table.as_str()));
    let fact_bytes: u64 = facts.map(|column| column.encoded_bytes).sum();
    let mut rows = Vec::new();
    let mut series: Vec<_> = POLICIES.into_iter().map(|policy| (shown(policy), Vec::new())).collect();
    for percent in PERCENTS {
        let budget_bytes = fact_bytes * percent / 100;
        let mut row = vec![format!("{percent} % ({})", format_bytes(budget_bytes))];
        for (policy, (_, points)) in POLICIES.into_iter().zip(&mut series) {
            let Round { seconds, read_bytes } = runs(bench, &stream, policy, budget_bytes)?;
            row.push(format!("{seconds:.3} s, {}", format_bytes(read_bytes)));
            points.push((percent as f64, seconds));
        }
        rows.push(row);
    }
    Ok(Figure {
        title: format!(
            "{} queries of SSB, TPC-H and points from an empty cache, which drift, {}: seconds and bytes read",
            stream.len(),
            conditions(bench)
        ),
        paper: "HPCache has no such stream",
        headings: std::iter::once("budget".to_owned()).chain(POLICIES.map(shown)).collect(),
        rows,
        axes: ("budget, percent of the encoded bytes of lineorder and lineitem", "seconds"),
        ticks: Vec::new(),
        series,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_drifts() {
        let asked = stream(1.0);
        assert_eq!(asked.len() as u64, QUERIES * PHASES.len() as u64);
        assert!(asked == stream(1.0), "drawn by a seed");
        let (first, last) = (&asked[..QUERIES as usize], &asked[asked.len() - QUERIES as usize..]);
        let is_point = |(_, sql): &Asked| sql.contains("orderkey =") && !sql.contains("l_orderkey = o_orderkey");
        assert!(first.iter().all(|one| one.0 || is_point(one)) && last.iter().all(|one| one.0 || is_point(one)));
        assert!(first.iter().filter(|one| !is_point(one)).all(|one| !last.contains(one)), "other flights");
        assert!(asked.iter().any(|(_, sql)| sql.contains("l_returnflag")), "TPC-H in between");
    }
}
