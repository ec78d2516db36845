//! What the CH-benCHmark adds to TPC-C: suppliers, nations and regions, made by SQL in one transaction.

use std::io::Write;

use forebay::{ErrorKind, Result, Session};

use crate::load::count;
use crate::measure::run_sql;
use crate::report::line;

const SCHEMA: &str = include_str!("../../queries/chbench/schema.sql");
const POPULATION: &str = include_str!("../../queries/chbench/population.sql");

/// Makes tables and rows unless they are there.
///
/// # Errors
/// Those of the statements.
pub(super) fn prepare(session: &Session, out: &mut dyn Write) -> Result<()> {
    match count(session, "supplier") {
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    run_sql(session, "BEGIN")?;
    let filled = run_sql(session, SCHEMA).and_then(|_| run_sql(session, POPULATION));
    run_sql(session, if filled.is_ok() { "COMMIT" } else { "ROLLBACK" })?;
    filled?;
    run_sql(session, "CHECKPOINT")?;
    line(out, "Added suppliers, nations and regions.")
}
