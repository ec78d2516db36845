//! A terminal: it runs one transaction after the other, by a session's statements or by calls, and counts what it did.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use forebay::keyed::Transaction;
use forebay::{Database, Durability, ErrorKind, Result, Session};

use super::calls::Tables;
use super::delivery::Delivery;
use super::new_order::NewOrder;
use super::order_status::OrderStatus;
use super::payment::Payment;
use super::procedure::{Ending, Place, Procedure};
use super::random::DISTRICTS;
use super::stock_level::StockLevel;
use crate::measure::run_sql;
use crate::random::{RowRandom, Stream};

/// The seed of what terminals draw.
const SEED: u64 = 42;

/// The five transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    NewOrder,
    Payment,
    OrderStatus,
    Delivery,
    StockLevel,
}

impl Kind {
    pub(super) const ALL: [Self; 5] =
        [Self::NewOrder, Self::Payment, Self::OrderStatus, Self::Delivery, Self::StockLevel];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::NewOrder => "new order",
            Self::Payment => "payment",
            Self::OrderStatus => "order status",
            Self::Delivery => "delivery",
            Self::StockLevel => "stock level",
        }
    }

    /// 45, 43, 4, 4 and 4 of a hundred.
    fn draw(random: &mut RowRandom) -> Self {
        match random.below(100) {
            0..45 => Self::NewOrder,
            45..88 => Self::Payment,
            88..92 => Self::OrderStatus,
            92..96 => Self::Delivery,
            _ => Self::StockLevel,
        }
    }
}

/// What was done of one kind.
#[derive(Debug, Default)]
pub(super) struct Done {
    /// Seconds of each transaction, from the first statement of its first try to its end.
    seconds: Vec<f64>,
    /// Tries that another transaction made vain.
    pub(super) conflicts: u64,
}

impl Done {
    pub(super) fn count(&self) -> u64 {
        self.seconds.len() as u64
    }

    /// So many of all were as fast or faster; `None` where there are none.
    pub(super) fn quantile(&self, share: f64) -> Option<f64> {
        let mut sorted = self.seconds.clone();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1)?;
        sorted.get((last as f64 * share).round() as usize).copied()
    }
}

/// What terminals did.
#[derive(Debug, Default)]
pub(super) struct Tally {
    done: [Done; 5],
    /// Transactions whose input has them rolled back.
    pub(super) rolled_back: u64,
}

impl Tally {
    pub(super) fn of(&self, kind: Kind) -> &Done {
        &self.done[kind as usize]
    }

    pub(super) fn count(&self) -> u64 {
        self.done.iter().map(Done::count).sum()
    }

    pub(super) fn add(&mut self, other: Self) {
        for (own, other) in self.done.iter_mut().zip(other.done) {
            own.seconds.extend(other.seconds);
            own.conflicts += other.conflicts;
        }
        self.rolled_back += other.rolled_back;
    }
}

/// What runs a terminal's transactions.
enum Runner {
    Statements(Box<Statements>),
    Calls { database: Database, tables: Box<Tables>, durability: Durability },
}

/// One session with its statements.
struct Statements {
    session: Session,
    new_order: NewOrder,
    payment: Payment,
    order_status: OrderStatus,
    delivery: Delivery,
    stock_level: StockLevel,
}

/// One user.
pub(super) struct Terminal {
    runner: Runner,
    place: Place,
    random: RowRandom,
}

impl Terminal {
    /// One that runs prepared statements. Terminals are dealt to warehouses, and to their districts, in turn.
    pub(super) fn new(session: Session, client: usize, warehouses: NonZeroU32) -> Result<Self> {
        let statements = Statements {
            new_order: NewOrder::prepare(&session)?,
            payment: Payment::prepare(&session)?,
            order_status: OrderStatus::prepare(&session)?,
            delivery: Delivery::prepare(&session)?,
            stock_level: StockLevel::prepare(&session)?,
            session,
        };
        Ok(Self::of(Runner::Statements(Box::new(statements)), client, warehouses))
    }

    /// One that runs procedures in Rust, whose commits are acknowledged like this.
    pub(super) fn calling(
        database: &Database,
        durability: Durability,
        client: usize,
        warehouses: NonZeroU32,
    ) -> Result<Self> {
        let tables = Box::new(Tables::of(&database.transaction()?)?);
        Ok(Self::of(Runner::Calls { database: database.clone(), tables, durability }, client, warehouses))
    }

    fn of(runner: Runner, client: usize, warehouses: NonZeroU32) -> Self {
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
    pub(super) fn work(mut self, until: Instant, is_over: &AtomicBool) -> Result<Tally> {
        let mut tally = Tally::default();
        while Instant::now() < until && !is_over.load(Ordering::Relaxed) {
            self.step(&mut tally)?;
        }
        Ok(tally)
    }

    /// Runs one transaction to its end.
    pub(super) fn step(&mut self, tally: &mut Tally) -> Result<()> {
        let kind = Kind::draw(&mut self.random);
        let Self { runner, place, random } = self;
        let (place, done) = (*place, &mut tally.done[kind as usize]);
        let ending = match runner {
            Runner::Statements(own) => {
                let Statements { session, new_order, payment, order_status, delivery, stock_level } = &**own;
                match kind {
                    Kind::NewOrder => run::<NewOrder>(place, random, done, |input| by_sql(new_order, session, input)),
                    Kind::Payment => run::<Payment>(place, random, done, |input| by_sql(payment, session, input)),
                    Kind::OrderStatus => {
                        run::<OrderStatus>(place, random, done, |input| by_sql(order_status, session, input))
                    }
                    Kind::Delivery => run::<Delivery>(place, random, done, |input| by_sql(delivery, session, input)),
                    Kind::StockLevel => {
                        run::<StockLevel>(place, random, done, |input| by_sql(stock_level, session, input))
                    }
                }
            }
            Runner::Calls { database, tables, durability } => {
                let (database, durability) = (&*database, *durability);
                match kind {
                    Kind::NewOrder => run::<NewOrder>(place, random, done, |input| {
                        by_calls(database, durability, |t| tables.new_order(t, input))
                    }),
                    Kind::Payment => run::<Payment>(place, random, done, |input| {
                        by_calls(database, durability, |t| tables.payment(t, input))
                    }),
                    Kind::OrderStatus => run::<OrderStatus>(place, random, done, |input| {
                        by_calls(database, durability, |t| tables.order_status(t, input))
                    }),
                    Kind::Delivery => run::<Delivery>(place, random, done, |input| {
                        by_calls(database, durability, |t| tables.delivery(t, input))
                    }),
                    Kind::StockLevel => run::<StockLevel>(place, random, done, |input| {
                        by_calls(database, durability, |t| tables.stock_level(t, input))
                    }),
                }
            }
        };
        let ending = ending.map_err(|error| error.context(format!("transaction {}", kind.name())))?;
        tally.rolled_back += u64::from(ending == Ending::RollBack);
        Ok(())
    }
}

/// Runs one transaction, again as long as others make it vain.
fn run<P: Procedure>(
    place: Place,
    random: &mut RowRandom,
    done: &mut Done,
    once: impl Fn(&P::Input) -> Result<Ending>,
) -> Result<Ending> {
    let input = P::draw(place, random);
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

fn by_sql<P: Procedure>(procedure: &P, session: &Session, input: &P::Input) -> Result<Ending> {
    run_sql(session, "BEGIN")?;
    let ending = procedure.run(session, input);
    match ending {
        Ok(Ending::Commit) => run_sql(session, "COMMIT").map(|_| Ending::Commit),
        Ok(Ending::RollBack) => run_sql(session, "ROLLBACK").map(|_| Ending::RollBack),
        Err(error) => {
            run_sql(session, "ROLLBACK")?;
            Err(error)
        }
    }
}

fn by_calls(
    database: &Database,
    durability: Durability,
    procedure: impl FnOnce(&mut Transaction) -> Result<Ending>,
) -> Result<Ending> {
    let mut transaction = database.transaction()?;
    transaction.set_durability(durability);
    let ending = procedure(&mut transaction)?;
    match ending {
        Ending::Commit => transaction.commit()?,
        Ending::RollBack => transaction.roll_back(),
    }
    Ok(ending)
}
