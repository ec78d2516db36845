//! Histories of several sessions over a simulated disk, judged by `adya`: which anomalies there are, and what survives when the power fails.
//!
//! One seed decides everything: tables, transactions, whose statement runs next, and at which call of the disk the power goes. One thread runs
//! the statements of all sessions, one after the other, so that a seed gives the same history again. In a history lists are appended to and read,
//! each element is different, and so a reader tells which transactions it has seen (Kingsbury & Alvaro, *Elle*, VLDB 2020).
//!
//! `FOREBAY_HISTORIES` sets how many histories of each kind are played, `FOREBAY_HISTORY` plays that seed alone.

#[path = "../answers/mod.rs"]
mod answers;
mod judge;
mod lists;
mod random;
mod sessions;

use std::collections::BTreeMap;

use judge::Counts;
use lists::{Form, Level};
use sessions::{Plan, play};

/// Histories of each of the six kinds in which the power fails: two thousand in all.
const WITH_POWER_LOSSES: u64 = 340;

/// How many histories of each kind there are, unless the environment says so.
fn histories(usual: u64) -> u64 {
    std::env::var("FOREBAY_HISTORIES").ok().and_then(|count| count.parse().ok()).unwrap_or(usual)
}

/// The histories of a plan with all their seeds, on two threads: the anomalies that a `model` forbids, with how often they are there, and what
/// happened in all of them.
fn anomalies(plan: Plan, model: &str, count: u64) -> (BTreeMap<String, usize>, Counts) {
    let seeds = match std::env::var("FOREBAY_HISTORY").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => seed..seed + 1,
        None => 0..count,
    };
    let half = |which: u64| {
        let (mut found, mut counts) = (BTreeMap::<String, usize>::new(), Counts::default());
        for seed in seeds.clone().filter(|seed| seed % 2 == which) {
            let fail = |wrong: String| panic!("{plan:?}, seed {seed}: {wrong}");
            let journal = play(plan, seed).unwrap_or_else(fail);
            counts.add(journal.counts);
            for anomaly in journal.anomalies(model).unwrap_or_else(|wrong| panic!("{plan:?}, seed {seed}: {wrong}")) {
                assert!(model != plan.level.model(), "{plan:?}, seed {seed}: {anomaly}\n{}", journal.text());
                *found.entry(anomaly.lines().next().unwrap_or_default().to_owned()).or_default() += 1;
            }
        }
        (found, counts)
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| half(1));
        let (mut found, mut counts) = half(0);
        let other = other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        other.0.into_iter().for_each(|(name, times)| *found.entry(name).or_default() += times);
        counts.add(other.1);
        (found, counts)
    })
}

fn keep(level: Level, loses_power: bool) {
    for form in [Form::Hot, Form::Frozen, Form::Mixed] {
        let usual = if loses_power { WITH_POWER_LOSSES } else { 60 };
        let (plan, count) = (Plan { level, form, loses_power }, histories(usual));
        let (found, counts) = anomalies(plan, level.model(), count);
        assert!(found.is_empty(), "{plan:?}: {found:?}");
        println!("{plan:?}: {count} histories, {counts:?}");
        if count < 50 || std::env::var_os("FOREBAY_HISTORY").is_some() {
            continue;
        }
        // They are worth looking at.
        let count = count as usize;
        assert!(counts.committed > 3 * count && counts.failed > count, "{plan:?}: {counts:?}");
        if loses_power {
            assert!(counts.power_losses > count && 20 * counts.unknown > count, "{plan:?}: {counts:?}");
        }
    }
}

#[test]
fn snapshots_have_no_anomaly_but_write_skew() {
    keep(Level::Snapshot, false);
}

#[test]
fn serializable_transactions_have_no_anomaly() {
    keep(Level::Serializable, false);
}

#[test]
fn statements_read_what_is_committed() {
    keep(Level::ReadCommitted, false);
}

#[test]
fn snapshots_survive_when_the_power_fails() {
    keep(Level::Snapshot, true);
}

#[test]
fn serializable_transactions_survive_when_the_power_fails() {
    keep(Level::Serializable, true);
}

/// Histories in which an update was lost: a transaction that made marks of deletions hid them from another one's check.
#[test]
fn deletions_are_of_rows_that_are_there() {
    let plan = Plan { level: Level::Snapshot, form: Form::Frozen, loses_power: true };
    for seed in [82, 161] {
        play(plan, seed).unwrap_or_else(|wrong| panic!("{plan:?}, seed {seed}: {wrong}"));
    }
}

/// The judge sees what weaker levels let through.
#[test]
fn weaker_levels_have_anomalies() {
    for (level, stricter, anomaly) in
        [(Level::Snapshot, Level::Serializable, "G2-item"), (Level::ReadCommitted, Level::Snapshot, "G-single-item")]
    {
        let plan = Plan { level, form: Form::Hot, loses_power: false };
        let (found, _) = anomalies(plan, stricter.model(), 60);
        let times: usize = found.iter().filter(|(name, _)| name.starts_with(anomaly)).map(|(_, times)| times).sum();
        assert!(times > 0, "no {anomaly} in {found:?}");
    }
}
