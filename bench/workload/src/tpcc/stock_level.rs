//! How many of the items that a district sold last are short (TPC-C, clause 2.8).

use forebay::{Params, Prepared, Result, Session};

use super::procedure::{Ending, Place, Procedure};
use super::rows::execute;
use crate::random::RowRandom;

/// Orders that are looked at.
const ORDERS: i64 = 20;

pub(super) struct StockLevel {
    next_order: Prepared,
    short: Prepared,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Input {
    pub(super) warehouse: i32,
    pub(super) district: i32,
    pub(super) threshold: i32,
}

impl Procedure for StockLevel {
    type Input = Input;

    fn prepare(session: &Session) -> Result<Self> {
        Ok(Self {
            next_order: session.prepare("SELECT d_next_o_id FROM district WHERE d_w_id = $1 AND d_id = $2")?,
            short: session.prepare(
                "SELECT count(DISTINCT s_i_id) FROM order_line, stock
                WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id >= $3 AND ol_o_id < $4
                    AND s_w_id = $1 AND s_i_id = ol_i_id AND s_quantity < $5",
            )?,
        })
    }

    fn draw(place: Place, random: &mut RowRandom) -> Input {
        Input { warehouse: place.warehouse, district: place.district, threshold: random.range(10, 20) }
    }

    fn run(&self, session: &Session, input: &Input) -> Result<Ending> {
        let place = || Params::new().push(i64::from(input.warehouse)).push(i64::from(input.district));
        let next = execute(session, &self.next_order, &place())?.integer(0, 0)?;
        let orders = place().push(next - ORDERS).push(next).push(i64::from(input.threshold));
        execute(session, &self.short, &orders)?.integer(0, 0)?;
        Ok(Ending::Commit)
    }
}
