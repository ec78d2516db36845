//! A customer asks for the last order (TPC-C, clause 2.6).

use forebay::{Error, Params, Prepared, Result, Session};

use super::procedure::{CustomerInput, Ending, Place, Procedure, middle};
use super::random::DISTRICTS;
use super::rows::execute;
use crate::random::RowRandom;

pub(super) struct OrderStatus {
    by_id: Prepared,
    by_name: Prepared,
    order: Prepared,
    lines: Prepared,
}

#[derive(Debug, Clone)]
pub(super) struct Input {
    pub(super) warehouse: i32,
    pub(super) district: i32,
    pub(super) customer: CustomerInput,
}

impl Procedure for OrderStatus {
    type Input = Input;

    fn prepare(session: &Session) -> Result<Self> {
        let prepare = |sql: &str| session.prepare(sql);
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

    fn draw(place: Place, random: &mut RowRandom) -> Input {
        let district = random.range(1, DISTRICTS);
        Input { warehouse: place.warehouse, district, customer: CustomerInput::draw(random) }
    }

    fn run(&self, session: &Session, input: &Input) -> Result<Ending> {
        let place = || Params::new().push(i64::from(input.warehouse)).push(i64::from(input.district));
        let customer = match &input.customer {
            CustomerInput::Id(id) => execute(session, &self.by_id, &place().push(i64::from(*id)))?.integer(0, 0)?,
            CustomerInput::LastName(name) => {
                let named = execute(session, &self.by_name, &place().push(name.as_str()))?;
                named.integer(middle(named.len()), 0)?
            }
        };
        let order = execute(session, &self.order, &place().push(customer))?.integer(0, 0)?;
        let lines = execute(session, &self.lines, &place().push(order))?;
        if lines.len() < 5 {
            return Err(Error::internal(format!("order {order} has {} lines", lines.len())));
        }
        Ok(Ending::Commit)
    }
}
