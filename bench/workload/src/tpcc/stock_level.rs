//! How many of the items that a district sold last are short (TPC-C, clause 2.8).

use forebay::Result;

use super::connection::{Access, Connection, Rows, integer};
use super::procedure::{Draw, Ending, Place, Procedure};
use crate::random::RowRandom;

/// Orders that are looked at.
const ORDERS: i64 = 20;

pub(super) struct StockLevel<C: Connection> {
    next_order: C::Statement,
    short: C::Statement,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Input {
    pub(super) warehouse: i32,
    pub(super) district: i32,
    pub(super) threshold: i32,
}

impl Draw for Input {
    fn draw(place: Place, random: &mut RowRandom) -> Self {
        Self { warehouse: place.warehouse, district: place.district, threshold: random.range(10, 20) }
    }
}

impl<C: Connection> Procedure<C> for StockLevel<C> {
    type Input = Input;

    const ACCESS: Access = Access::Reads;

    fn prepare(connection: &C) -> Result<Self> {
        Ok(Self {
            next_order: connection.prepare("SELECT d_next_o_id FROM district WHERE d_w_id = $1 AND d_id = $2")?,
            short: connection.prepare(
                "SELECT count(DISTINCT s_i_id) FROM order_line, stock
                WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id >= $3 AND ol_o_id < $4
                    AND s_w_id = $1 AND s_i_id = ol_i_id AND s_quantity < $5",
            )?,
        })
    }

    fn run(&self, connection: &C, input: &Input) -> Result<Ending> {
        let (warehouse, district) = (integer(input.warehouse), integer(input.district));
        let next = connection.execute(&self.next_order, &[warehouse, district])?.integer(0, 0)?;
        let orders = [warehouse, district, integer(next - ORDERS), integer(next), integer(input.threshold)];
        connection.execute(&self.short, &orders)?.integer(0, 0)?;
        Ok(Ending::Commit)
    }
}
