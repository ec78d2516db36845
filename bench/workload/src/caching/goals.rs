//! The least memory for a slowdown (`SET memory_goal`; HPCache §4.2): SSB's queries over and over with all the memory that they
//! use, and then where so many times that time are allowed: what chunks take then, and the time.

use std::io::Write;

use forebay::units::format_bytes;
use forebay::{Database, Options, Result, Session};

use super::{Round, bytes_of, conditions, prepared, round, ssb};
use crate::experiments::figure::Figure;
use crate::experiments::{Bench, all};

/// Slowdowns that are allowed.
const SLOWDOWNS: [f64; 5] = [1.1, 1.25, 1.5, 2.0, 3.0];

/// Rounds before those that are measured: shares are found, chunks come and go, and times are compared with what was expected.
const SETTLING_ROUNDS: usize = 12;

fn measured(session: &Session, stream: &[String], runs: usize) -> Result<Round> {
    (0..SETTLING_ROUNDS).try_for_each(|_| round(session, stream).map(drop))?;
    let rounds: Vec<Round> = (0..runs).map(|_| round(session, stream)).collect::<Result<_>>()?;
    Ok(Round::median(&rounds))
}

/// SSB with all memory, and by slowdown.
pub(super) fn goals(bench: &Bench<'_>, out: &mut dyn Write) -> Result<Figure> {
    prepared(bench, out)?;
    let options = Options { read_bytes_per_second: bench.options.read_bytes_per_second, ..bench.open_options() };
    let database = Database::open(&bench.options.directory.join("ssb"), &options)?;
    let (session, stream) = (database.session(), ssb(bench.options.scale_factor));
    all(&session, &["SET cache_policy = proportional", "SET memory_goal = off"])?;
    let fastest = measured(&session, &stream, bench.options.runs)?;
    let most_bytes = bytes_of(&session, "inflated_bytes + stored_bytes")?;
    let mut rows = vec![vec![
        "all memory".to_owned(),
        format!("{:.3} s", fastest.seconds),
        "1.00".to_owned(),
        format_bytes(most_bytes),
        String::new(),
        format_bytes(fastest.read_bytes),
    ]];
    let (mut reached, mut memory) = (Vec::new(), Vec::new());
    for slowdown in SLOWDOWNS {
        all(&session, &[&format!("SET memory_goal = '{slowdown}x'")])?;
        let found = measured(&session, &stream, bench.options.runs)?;
        let bytes = bytes_of(&session, "inflated_bytes + stored_bytes")?;
        let factor = found.seconds / fastest.seconds;
        rows.push(vec![
            format!("{slowdown} times"),
            format!("{:.3} s", found.seconds),
            format!("{factor:.2}"),
            format_bytes(bytes),
            format!("{:.0} %", (1.0 - bytes as f64 / most_bytes.max(1) as f64) * 100.0),
            format_bytes(found.read_bytes),
        ]);
        reached.push((slowdown, factor));
        memory.push((slowdown, bytes as f64 / most_bytes.max(1) as f64));
    }
    Ok(Figure {
        title: format!("The least memory for a slowdown: SSB, {}", conditions(bench)),
        paper: "HPCache §4.2 states the program; it is not measured there",
        headings: ["allowed", "time", "times as long", "memory", "saved", "read"].map(str::to_owned).to_vec(),
        rows,
        axes: ("times as long as with all memory, allowed", "times as long; part of the memory"),
        ticks: Vec::new(),
        series: vec![("times as long".to_owned(), reached), ("part of the memory".to_owned(), memory)],
    })
}
