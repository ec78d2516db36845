//! Terminals: each runs one transaction after the other, and counts what it did.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use forebay::{Error, ErrorKind, Result};

use super::delivery;
use super::new_order;
use super::order_status;
use super::payment;
use super::procedure::{Draw, Ending, Place};
use super::random::DISTRICTS;
use super::stock_level;
use super::tally::{Done, Kind, Outcome, Tally};
use crate::random::{RowRandom, Stream};

/// The seed of what terminals draw.
const SEED: u64 = 42;

/// What runs a terminal's transactions, each from its beginning to its end.
pub(super) trait Run {
    fn new_order(&self, input: &new_order::Input) -> Result<Ending>;
    fn payment(&self, input: &payment::Input) -> Result<Ending>;
    fn order_status(&self, input: &order_status::Input) -> Result<Ending>;
    fn delivery(&self, input: &delivery::Input) -> Result<Ending>;
    fn stock_level(&self, input: &stock_level::Input) -> Result<Ending>;
}

/// How long terminals work.
#[derive(Debug, Clone, Copy, Default)]
pub struct Schedule {
    /// They work for so long first, which does not count.
    pub warm_up: Duration,
    /// They work for so long, which counts; as long as nobody stops them where unset.
    pub duration: Option<Duration>,
}

/// What others see of terminals at work, and how they end it.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Says that it is over.
    pub(crate) is_over: AtomicBool,
    /// Orders that were entered and committed.
    pub(crate) new_orders: AtomicU64,
}

/// One user.
pub(super) struct Terminal<R> {
    runner: R,
    place: Place,
    random: RowRandom,
}

impl<R: Run> Terminal<R> {
    pub(super) fn new(runner: R, client: usize, warehouses: NonZeroU32) -> Self {
        let (client, warehouses) = (client as u64, warehouses.get());
        let of_warehouse = client % u64::from(warehouses);
        let of_district = client / u64::from(warehouses) % DISTRICTS as u64;
        let place = Place {
            warehouse: of_warehouse as i32 + 1,
            district: of_district as i32 + 1,
            warehouses: warehouses as i32,
        };
        Self { runner, place, random: RowRandom::new(SEED, Stream::Terminal, client) }
    }

    /// Runs transactions until it is time, or somebody says that it is over.
    fn work(&mut self, until: Option<Instant>, progress: &Progress) -> Result<Tally> {
        let mut tally = Tally::default();
        while until.is_none_or(|until| Instant::now() < until) && !progress.is_over.load(Ordering::Relaxed) {
            if self.step(&mut tally)? == (Kind::NewOrder, Ending::Commit) {
                progress.new_orders.fetch_add(1, Ordering::Release);
            }
        }
        Ok(tally)
    }

    /// Runs one transaction to its end: which one it was, and how it ended.
    pub(super) fn step(&mut self, tally: &mut Tally) -> Result<(Kind, Ending)> {
        let kind = Kind::draw(&mut self.random);
        let Self { runner, place, random } = self;
        let (place, done) = (*place, &mut tally.done[kind as usize]);
        let ending = match kind {
            Kind::NewOrder => repeat(place, random, done, |input| runner.new_order(input)),
            Kind::Payment => repeat(place, random, done, |input| runner.payment(input)),
            Kind::OrderStatus => repeat(place, random, done, |input| runner.order_status(input)),
            Kind::Delivery => repeat(place, random, done, |input| runner.delivery(input)),
            Kind::StockLevel => repeat(place, random, done, |input| runner.stock_level(input)),
        };
        let ending = ending.map_err(|error| error.context(format!("transaction {}", kind.name())))?;
        tally.rolled_back += u64::from(ending == Ending::RollBack);
        Ok((kind, ending))
    }
}

/// Runs one transaction, again as long as others make it vain.
fn repeat<I: Draw>(
    place: Place,
    random: &mut RowRandom,
    done: &mut Done,
    once: impl Fn(&I) -> Result<Ending>,
) -> Result<Ending> {
    let input = I::draw(place, random);
    let started = Instant::now();
    loop {
        match once(&input) {
            Ok(ending) => {
                done.seconds.push(started.elapsed().as_secs_f64());
                return Ok(ending);
            }
            Err(error) if error.kind() == ErrorKind::Conflict => done.conflicts += 1,
            Err(error) => return Err(error),
        }
    }
}

/// Has all terminals work at once, as the schedule says or until somebody says that it is over. One that fails ends all.
pub(super) fn work<R: Run + Send>(
    terminals: Vec<Terminal<R>>,
    schedule: &Schedule,
    progress: &Progress,
) -> Result<Outcome> {
    let counted_from = Instant::now() + schedule.warm_up;
    let until = schedule.duration.map(|duration| counted_from + duration);
    let tally = thread::scope(|scope| {
        let workers: Vec<_> = terminals
            .into_iter()
            .map(|mut terminal| {
                scope.spawn(move || {
                    let warmed_up = terminal.work(Some(counted_from), progress);
                    let tally = warmed_up.and_then(|_| terminal.work(until, progress));
                    if tally.is_err() {
                        progress.is_over.store(true, Ordering::Relaxed);
                    }
                    tally
                })
            })
            .collect();
        let mut all = Tally::default();
        for worker in workers {
            all.add(worker.join().unwrap_or_else(|_| Err(Error::internal("a terminal panicked")))?);
        }
        Ok::<_, Error>(all)
    })?;
    Ok(Outcome { tally, seconds: counted_from.elapsed().as_secs_f64() })
}
