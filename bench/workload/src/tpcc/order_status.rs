//! A customer asks for the last order (TPC-C, clause 2.6).

use forebay::{Error, Result};

use super::connection::{Access, Connection, Param, Rows, integer};
use super::procedure::{CustomerInput, Draw, Ending, Place, Procedure, middle};
use super::random::DISTRICTS;
use crate::random::RowRandom;

pub(super) struct OrderStatus<C: Connection> {
    by_id: C::Statement,
    by_name: C::Statement,
    order: C::Statement,
    lines: C::Statement,
}

#[derive(Debug, Clone)]
pub(super) struct Input {
    pub(super) warehouse: i32,
    pub(super) district: i32,
    pub(super) customer: CustomerInput,
}

impl Draw for Input {
    fn draw(place: Place, random: &mut RowRandom) -> Self {
        let district = random.range(1, DISTRICTS);
        Self { warehouse: place.warehouse, district, customer: CustomerInput::draw(random) }
    }
}

impl<C: Connection> Procedure<C> for OrderStatus<C> {
    type Input = Input;

    const ACCESS: Access = Access::Reads;

    fn prepare(connection: &C) -> Result<Self> {
        let prepare = |sql: &str| connection.prepare(sql);
        Ok(Self {
            by_id: prepare(
                "SELECT c_id, c_balance, c_first, c_middle, c_last FROM customer
                WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3",
            )?,
            by_name: prepare(
                "SELECT c_id, c_balance, c_first, c_middle, c_last FROM customer
                WHERE c_w_id = $1 AND c_d_id = $2 AND c_last = $3 ORDER BY c_first",
            )?,
            order: prepare(
                "SELECT o_id, o_entry_d, o_carrier_id FROM orders
                WHERE o_w_id = $1 AND o_d_id = $2 AND o_c_id = $3 ORDER BY o_id DESC LIMIT 1",
            )?,
            lines: prepare(
                "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line
                WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3",
            )?,
        })
    }

    fn run(&self, connection: &C, input: &Input) -> Result<Ending> {
        let (warehouse, district) = (integer(input.warehouse), integer(input.district));
        let customer = match &input.customer {
            CustomerInput::Id(id) => {
                connection.execute(&self.by_id, &[warehouse, district, integer(*id)])?.integer(0, 0)?
            }
            CustomerInput::LastName(name) => {
                let named = connection.execute(&self.by_name, &[warehouse, district, Param::Text(name)])?;
                named.integer(middle(named.len()), 0)?
            }
        };
        let order = connection.execute(&self.order, &[warehouse, district, integer(customer)])?.integer(0, 0)?;
        let lines = connection.execute(&self.lines, &[warehouse, district, integer(order)])?;
        if lines.len() < 5 {
            return Err(Error::internal(format!("order {order} has {} lines", lines.len())));
        }
        Ok(Ending::Commit)
    }
}
