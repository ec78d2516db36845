//! The five transactions by the prepared statements of one connection.

use forebay::Result;

use super::connection::Connection;
use super::delivery::{self, Delivery};
use super::new_order::{self, NewOrder};
use super::order_status::{self, OrderStatus};
use super::payment::{self, Payment};
use super::procedure::{Ending, Procedure};
use super::stock_level::{self, StockLevel};
use super::terminal::Run;

/// One connection with its statements.
pub(super) struct Statements<C: Connection> {
    connection: C,
    new_order: NewOrder<C>,
    payment: Payment<C>,
    order_status: OrderStatus<C>,
    delivery: Delivery<C>,
    stock_level: StockLevel<C>,
}

impl<C: Connection> Statements<C> {
    pub(super) fn prepare(connection: C) -> Result<Self> {
        Ok(Self {
            new_order: NewOrder::prepare(&connection)?,
            payment: Payment::prepare(&connection)?,
            order_status: OrderStatus::prepare(&connection)?,
            delivery: Delivery::prepare(&connection)?,
            stock_level: StockLevel::prepare(&connection)?,
            connection,
        })
    }

    /// Runs one of them as a transaction.
    fn run<P: Procedure<C>>(&self, procedure: &P, input: &P::Input) -> Result<Ending> {
        self.connection.begin(P::ACCESS)?;
        match procedure.run(&self.connection, input) {
            Ok(Ending::Commit) => self.connection.commit().map(|()| Ending::Commit),
            Ok(Ending::RollBack) => self.connection.roll_back().map(|()| Ending::RollBack),
            Err(error) => {
                self.connection.roll_back()?;
                Err(error)
            }
        }
    }
}

impl<C: Connection> Run for Statements<C> {
    fn new_order(&self, input: &new_order::Input) -> Result<Ending> {
        self.run(&self.new_order, input)
    }

    fn payment(&self, input: &payment::Input) -> Result<Ending> {
        self.run(&self.payment, input)
    }

    fn order_status(&self, input: &order_status::Input) -> Result<Ending> {
        self.run(&self.order_status, input)
    }

    fn delivery(&self, input: &delivery::Input) -> Result<Ending> {
        self.run(&self.delivery, input)
    }

    fn stock_level(&self, input: &stock_level::Input) -> Result<Ending> {
        self.run(&self.stock_level, input)
    }
}
