//! Rows by key, one at a time: how many are read, changed and added in a second by one thread, hot and from segments, by calls and by prepared
//! statements.
//!
//! `cargo run --release -p forebay --example keyed -- [ROWS]`, 1,000,000 by default. Transactions of ten calls each, and statements each by
//! itself; syncs off; rows of segments are cached. *Data Blocks* (Lang et al. 2016) has such figures for reads by SQL in Table 3.

use std::time::Instant;

use forebay::keyed::{Cell, Row, Table, Transaction};
use forebay::{Database, Durability, Options, Params, Result};

/// Calls of a transaction.
const CALLS: usize = 10;

/// Calls that are timed.
const TIMED: usize = 200_000;

/// A number that looks drawn, the same for the same input.
fn mixed(number: u64) -> u64 {
    let mixed = (number ^ (number >> 31)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed ^ (mixed >> 29)
}

/// Keys to ask for: one after the other, or in no order.
fn key(call: usize, rows: u64, is_shuffled: bool) -> i64 {
    let number = if is_shuffled { mixed(call as u64) } else { call as u64 };
    (number % rows) as i64
}

struct Bench {
    database: Database,
    rows: u64,
}

impl Bench {
    /// Calls a second, of transactions of ten.
    fn rate(&self, mut call: impl FnMut(&mut Transaction, &Table, usize) -> Result<()>) -> Result<f64> {
        let started = Instant::now();
        for first in (0..TIMED).step_by(CALLS) {
            let mut transaction = self.database.transaction()?;
            transaction.set_durability(Durability::Off);
            let table = transaction.table("account")?;
            (first..first + CALLS).try_for_each(|number| call(&mut transaction, &table, number))?;
            transaction.commit()?;
        }
        Ok(TIMED as f64 / started.elapsed().as_secs_f64())
    }

    fn reads(&self, what: &str) -> Result<()> {
        for (order, is_shuffled) in [("ordered", false), ("shuffled", true)] {
            let mut row = Row::default();
            let rate = self.rate(|transaction, table, call| {
                let found =
                    transaction.get(table, &[Cell::i64(key(call, self.rows, is_shuffled))], &[1, 2], &mut row)?;
                assert!(found, "every key has a row");
                Ok(())
            })?;
            println!("{what}, keys {order}: {:>9.0} reads/s", rate);
        }
        Ok(())
    }
}

/// Prepared statements, each a transaction of its own.
impl Bench {
    /// Statements a second, of `calls`.
    fn statements(&self, sql: &str, calls: usize, values: impl Fn(usize) -> Params) -> Result<f64> {
        let session = self.database.session();
        for statement in session.statements("SET durability = off")? {
            session.execute(&statement)?;
        }
        let prepared = session.prepare(sql)?;
        let (started, mut balances) = (Instant::now(), 0_i64);
        for call in 0..calls {
            let mut answer = session.execute_prepared(&prepared, &values(call))?;
            while let Some(rows) = answer.next_rows()? {
                balances = balances.wrapping_add(rows.get::<i64>(0, 1)?);
            }
        }
        std::hint::black_box(balances);
        assert!(prepared.runs_by_key(), "{sql}");
        Ok(calls as f64 / started.elapsed().as_secs_f64())
    }

    fn statements_read(&self, what: &str) -> Result<()> {
        for (order, is_shuffled) in [("ordered", false), ("shuffled", true)] {
            let key = |call: usize| Params::new().push(key(call, self.rows, is_shuffled));
            let rate = self.statements("SELECT owner, balance FROM account WHERE id = $1", TIMED, key)?;
            println!("prepared, {what}, keys {order}: {rate:>9.0} reads/s");
        }
        Ok(())
    }
}

fn run(database: &Database, sql: &str) -> Result<()> {
    let session = database.session();
    for statement in session.statements(sql)? {
        let mut answer = session.execute(&statement)?;
        while answer.next_batch()?.is_some() {}
    }
    Ok(())
}

fn main() -> Result<()> {
    let rows = std::env::args().nth(1).map_or(1_000_000, |text| text.parse().expect("a number of rows"));
    let database = Database::in_memory(&Options { threads: Some(1), ..Options::default() })?;
    run(&database, "CREATE TABLE account (id BIGINT PRIMARY KEY, owner VARCHAR, balance BIGINT)")?;
    run(&database, &format!("INSERT INTO account SELECT n, 'owner ' || n, n * 10 FROM range({rows}) r(n)"))?;
    let bench = Bench { database, rows };
    bench.reads("in segments")?;
    bench.statements_read("in segments")?;
    let balance = |call: usize| [(2, Cell::i64(call as i64))];
    let rate = bench.rate(|t, table, call| t.update(table, &[Cell::i64(call as i64)], &balance(call)).map(drop))?;
    println!("updates that take rows from segments: {rate:>9.0}/s");
    let rate = bench.rate(|t, table, call| t.update(table, &[Cell::i64(call as i64)], &balance(call)).map(drop))?;
    println!("updates of hot rows: {rate:>9.0}/s");
    let insert = |t: &mut Transaction, table: &Table, call: usize| {
        t.insert(table, &[Cell::i64((rows as usize + call) as i64), Cell::Bytes(b"new"), Cell::i64(0)])
    };
    let rate = bench.rate(insert)?;
    println!("inserts: {rate:>9.0}/s");
    let hot = Bench { rows: TIMED as u64, ..bench };
    hot.reads("hot")?;
    hot.statements_read("hot")?;
    let update = "UPDATE account SET balance = balance + $2 WHERE id = $1";
    let values = |call: usize| Params::new().push(key(call, hot.rows, true)).push(1);
    println!("prepared updates of hot rows: {:>9.0}/s", hot.statements(update, TIMED, values)?);
    let values = |call: usize| Params::new().push((2 * rows as usize + call) as i64).push("new").push(0);
    println!("prepared inserts: {:>9.0}/s", hot.statements("INSERT INTO account VALUES ($1, $2, $3)", TIMED, values)?);
    Ok(())
}
