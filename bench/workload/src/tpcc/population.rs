//! The initial population of TPC-C (clause 4.3.3), made by SQL in one transaction: it is there as a whole, or not at all.

use std::io::Write;
use std::num::NonZeroU32;
use std::time::Instant;

use forebay::units::format_seconds;
use forebay::{Error, ErrorKind, Result, Session};

use super::counted;
use super::random::LAST_NAME_OF_POPULATION;
use crate::load::count;
use crate::measure::run_sql;
use crate::report::line;

/// The tables and their indexes, as statements of SQL.
pub const SCHEMA: &str = include_str!("../../queries/tpcc/schema.sql");
const POPULATION: &str = include_str!("../../queries/tpcc/population.sql");

/// The tables, each with the columns by which its rows are ordered when it is filled: those of its key, if it has one.
pub const TABLES: [(&str, &str); 9] = [
    ("warehouse", "w_id"),
    ("district", "d_w_id, d_id"),
    ("customer", "c_w_id, c_d_id, c_id"),
    ("history", "h_w_id, h_d_id, h_c_id"),
    ("item", "i_id"),
    ("stock", "s_w_id, s_i_id"),
    ("orders", "o_w_id, o_d_id, o_id"),
    ("new_order", "no_w_id, no_d_id, no_o_id"),
    ("order_line", "ol_w_id, ol_d_id, ol_o_id, ol_number"),
];

/// Makes tables and rows unless they are there, and says on `out` what it did.
///
/// # Errors
/// A database of another number of warehouses, or with tables of the same names.
pub fn prepare(session: &Session, warehouses: NonZeroU32, out: &mut dyn Write) -> Result<()> {
    match count(session, "warehouse") {
        Ok(found) if found == u64::from(warehouses.get()) => return line(out, "TPC-C is there already; using it."),
        Ok(found) => {
            return Err(Error::input(format!(
                "the database holds TPC-C with {}, not {warehouses}",
                counted(found, "warehouse")
            ))
            .hint("Use another directory, or --warehouses with its number"));
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let started = Instant::now();
    let population = POPULATION
        .replace("$warehouses", &warehouses.to_string())
        .replace("$c_last", &LAST_NAME_OF_POPULATION.to_string());
    run_sql(session, "BEGIN")?;
    let filled = run_sql(session, SCHEMA).and_then(|_| run_sql(session, &population));
    run_sql(session, if filled.is_ok() { "COMMIT" } else { "ROLLBACK" })?;
    filled?;
    run_sql(session, "CHECKPOINT")?;
    line(out, &format!("Made TPC-C in {}.", format_seconds(started.elapsed().as_secs_f64())))
}
