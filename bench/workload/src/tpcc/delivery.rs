//! The oldest order of each district is delivered (TPC-C, clause 2.7), at once instead of from a queue.

use forebay::{Params, Prepared, Result, Session, Value};

use super::procedure::{Ending, Place, Procedure};
use super::random::DISTRICTS;
use super::rows::execute;
use crate::random::RowRandom;

/// Digits of the sum of an order's amounts, two of them behind the point.
const SUM_DIGITS: u8 = 12;

pub(super) struct Delivery {
    oldest: Prepared,
    delivered: Prepared,
    customer: Prepared,
    carried: Prepared,
    lines: Prepared,
    amount: Prepared,
    owed: Prepared,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Input {
    pub(super) warehouse: i32,
    pub(super) carrier: i32,
}

impl Procedure for Delivery {
    type Input = Input;

    fn prepare(session: &Session) -> Result<Self> {
        let prepare = |sql: &str| session.prepare(sql);
        Ok(Self {
            oldest: prepare("SELECT min(no_o_id) FROM new_order WHERE no_w_id = $1 AND no_d_id = $2")?,
            delivered: prepare("DELETE FROM new_order WHERE no_w_id = $1 AND no_d_id = $2 AND no_o_id = $3")?,
            customer: prepare("SELECT o_c_id FROM orders WHERE o_w_id = $1 AND o_d_id = $2 AND o_id = $3")?,
            carried: prepare("UPDATE orders SET o_carrier_id = $4 WHERE o_w_id = $1 AND o_d_id = $2 AND o_id = $3")?,
            lines: prepare(
                "UPDATE order_line SET ol_delivery_d = CAST(now() AS TIMESTAMP)
                WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3",
            )?,
            amount: prepare(
                "SELECT CAST(sum(ol_amount) AS DECIMAL(12, 2)) FROM order_line
                WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3",
            )?,
            owed: prepare(
                "UPDATE customer SET c_balance = c_balance + $4, c_delivery_cnt = c_delivery_cnt + 1
                WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3",
            )?,
        })
    }

    fn draw(place: Place, random: &mut RowRandom) -> Input {
        Input { warehouse: place.warehouse, carrier: random.range(1, 10) }
    }

    fn run(&self, session: &Session, input: &Input) -> Result<Ending> {
        for district in 1..=DISTRICTS {
            let place = || Params::new().push(i64::from(input.warehouse)).push(i64::from(district));
            let oldest = execute(session, &self.oldest, &place())?.integer_or_null(0, 0)?;
            // A district without new orders is passed over (clause 2.7.4.2).
            let Some(order) = oldest else { continue };
            let of_order = || place().push(order);
            execute(session, &self.delivered, &of_order())?;
            let customer = execute(session, &self.customer, &of_order())?.integer(0, 0)?;
            execute(session, &self.carried, &of_order().push(i64::from(input.carrier)))?;
            execute(session, &self.lines, &of_order())?;
            let amount = execute(session, &self.amount, &of_order())?.unscaled(0, 0)?;
            let owed = place().push(customer).push(Value::decimal(amount, SUM_DIGITS, 2)?);
            execute(session, &self.owed, &owed)?;
        }
        Ok(Ending::Commit)
    }
}
