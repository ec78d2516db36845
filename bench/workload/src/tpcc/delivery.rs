//! The oldest order of each district is delivered (TPC-C, clause 2.7), at once instead of from a queue.

use forebay::Result;

use super::connection::{Access, Connection, Param, Rows, integer};
use super::procedure::{Draw, Ending, Place, Procedure};
use super::random::DISTRICTS;
use crate::random::RowRandom;

/// Digits of the sum of an order's amounts, two of them behind the point.
const SUM_DIGITS: u8 = 12;

pub(super) struct Delivery<C: Connection> {
    oldest: C::Statement,
    delivered: C::Statement,
    customer: C::Statement,
    carried: C::Statement,
    lines: C::Statement,
    amount: C::Statement,
    owed: C::Statement,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Input {
    pub(super) warehouse: i32,
    pub(super) carrier: i32,
}

impl Draw for Input {
    fn draw(place: Place, random: &mut RowRandom) -> Self {
        Self { warehouse: place.warehouse, carrier: random.range(1, 10) }
    }
}

impl<C: Connection> Procedure<C> for Delivery<C> {
    type Input = Input;

    const ACCESS: Access = Access::Writes;

    fn prepare(connection: &C) -> Result<Self> {
        let prepare = |sql: &str| connection.prepare(sql);
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

    fn run(&self, connection: &C, input: &Input) -> Result<Ending> {
        for district in 1..=DISTRICTS {
            let (warehouse, district) = (integer(input.warehouse), integer(district));
            let oldest = connection.execute(&self.oldest, &[warehouse, district])?.integer_or_null(0, 0)?;
            // A district without new orders is passed over (clause 2.7.4.2).
            let Some(order) = oldest else { continue };
            let key = [warehouse, district, integer(order)];
            connection.execute(&self.delivered, &key)?;
            let customer = connection.execute(&self.customer, &key)?.integer(0, 0)?;
            connection.execute(&self.carried, &[key[0], key[1], key[2], integer(input.carrier)])?;
            connection.execute(&self.lines, &key)?;
            let cents = connection.execute(&self.amount, &key)?.unscaled(0, 0)?;
            let amount = Param::Amount { cents, digits: SUM_DIGITS };
            connection.execute(&self.owed, &[warehouse, district, integer(customer), amount])?;
        }
        Ok(Ending::Commit)
    }
}
