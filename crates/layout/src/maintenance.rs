//! What statements that change how tables lie on disk are run with.

use std::sync::Arc;

use forebay_base::{Error, Result};
use forebay_engine::analyze::MOST_KEYS;
use forebay_engine::cluster::Sorter;
use forebay_engine::{CancelToken, Engine, LoadOptions, Metrics};
use forebay_store::{Catalog, OrderKey};

/// What maintenance is done with, for one statement.
#[derive(Debug)]
pub struct Maintenance<'m> {
    /// The engine of the database.
    pub engine: &'m Arc<Engine>,
    /// The database as the statement sees it.
    pub catalog: &'m Catalog,
    /// How segments are written.
    pub options: LoadOptions,
    /// Workers.
    pub threads: usize,
    /// Stops it.
    pub cancel: &'m CancelToken,
    /// What reading the table costs.
    pub metrics: Arc<Metrics>,
}

impl Maintenance<'_> {
    /// An error where the database is read-only.
    pub(crate) fn check_writable(&self) -> Result<()> {
        self.engine.store().check_writable()
    }

    /// What sorts tables for it.
    pub(crate) fn sorter(&self) -> Sorter<'_> {
        let Self { engine, catalog, options, threads, cancel, metrics } = self;
        Sorter { engine, catalog, options: *options, metrics, threads: *threads, cancel }
    }

    /// An error where an order has too many columns.
    pub(crate) fn check_keys(keys: &[OrderKey]) -> Result<()> {
        match keys.len() {
            0 => Err(Error::input("an order has no columns")),
            count if count > MOST_KEYS => {
                let most = MOST_KEYS;
                Err(Error::input(format!("an order has 1 to {most} columns, not {count}")))
            }
            _ => Ok(()),
        }
    }
}
