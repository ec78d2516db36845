//! A customer orders 5 to 15 items (TPC-C, clause 2.4).

use forebay::{Error, Params, Prepared, Result, Session, Value};

use super::procedure::{Ending, Place, Procedure};
use super::random::{DISTRICTS, ITEMS, customer, happens, item, other_warehouse};
use super::rows::execute;
use crate::random::RowRandom;

/// Digits of an order line's amount, two of them behind the point.
const AMOUNT_DIGITS: u8 = 6;

pub(super) struct NewOrder {
    warehouse: Prepared,
    district: Prepared,
    next_order: Prepared,
    customer: Prepared,
    order: Prepared,
    new_order: Prepared,
    item: Prepared,
    /// By district: each has a column of its own.
    stock: Vec<Prepared>,
    take: Prepared,
    order_line: Prepared,
}

#[derive(Debug, Clone)]
pub(super) struct Input {
    pub(super) warehouse: i32,
    pub(super) district: i32,
    pub(super) customer: i32,
    pub(super) lines: Vec<Line>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Line {
    pub(super) item: i32,
    pub(super) supply_warehouse: i32,
    pub(super) quantity: i32,
}

impl Procedure for NewOrder {
    type Input = Input;

    fn prepare(session: &Session) -> Result<Self> {
        let prepare = |sql: &str| session.prepare(sql);
        let stock = |district: i32| {
            prepare(&format!(
                "SELECT s_quantity, s_dist_{district:02}, s_data FROM stock WHERE s_w_id = $1 AND s_i_id = $2"
            ))
        };
        Ok(Self {
            warehouse: prepare("SELECT w_tax FROM warehouse WHERE w_id = $1")?,
            district: prepare("SELECT d_next_o_id, d_tax FROM district WHERE d_w_id = $1 AND d_id = $2")?,
            next_order: prepare("UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = $1 AND d_id = $2")?,
            customer: prepare(
                "SELECT c_discount, c_last, c_credit FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3",
            )?,
            order: prepare("INSERT INTO orders VALUES ($1, $2, $3, $4, CAST(now() AS TIMESTAMP), NULL, $5, $6)")?,
            new_order: prepare("INSERT INTO new_order VALUES ($1, $2, $3)")?,
            item: prepare("SELECT i_price, i_name, i_data FROM item WHERE i_id = $1")?,
            stock: (1..=DISTRICTS).map(stock).collect::<Result<_>>()?,
            take: prepare(
                "UPDATE stock SET s_quantity = $1, s_ytd = s_ytd + $2, s_order_cnt = s_order_cnt + 1,
                    s_remote_cnt = s_remote_cnt + $3
                WHERE s_w_id = $4 AND s_i_id = $5",
            )?,
            order_line: prepare("INSERT INTO order_line VALUES ($1, $2, $3, $4, $5, $6, NULL, $7, $8, $9)")?,
        })
    }

    fn draw(place: Place, random: &mut RowRandom) -> Input {
        let line = |random: &mut RowRandom| Line {
            item: item(random),
            supply_warehouse: match happens(random, 1) {
                true => other_warehouse(random, place.warehouse, place.warehouses),
                false => place.warehouse,
            },
            quantity: random.range(1, 10),
        };
        let (district, customer) = (random.range(1, DISTRICTS), customer(random));
        let mut lines: Vec<Line> = (0..random.range(5, 15)).map(|_| line(random)).collect();
        // One of a hundred users mistypes the last item.
        if happens(random, 1) {
            lines.last_mut().expect("five lines or more").item = ITEMS + 1;
        }
        Input { warehouse: place.warehouse, district, customer, lines }
    }

    fn run(&self, session: &Session, input: &Input) -> Result<Ending> {
        let (warehouse, district) = (i64::from(input.warehouse), i64::from(input.district));
        let place = || Params::new().push(warehouse).push(district);
        execute(session, &self.warehouse, &Params::new().push(warehouse))?.unscaled(0, 0)?;
        let order = execute(session, &self.district, &place())?.integer(0, 0)?;
        execute(session, &self.next_order, &place())?;
        execute(session, &self.customer, &place().push(i64::from(input.customer)))?.text(0, 1)?;
        let own = || Params::new().push(order).push(district).push(warehouse);
        let is_local = input.lines.iter().all(|line| line.supply_warehouse == input.warehouse);
        let about = own().push(i64::from(input.customer)).push(input.lines.len() as i64).push(i64::from(is_local));
        execute(session, &self.order, &about)?;
        execute(session, &self.new_order, &own())?;
        for (place, line) in input.lines.iter().enumerate() {
            let item = execute(session, &self.item, &Params::new().push(i64::from(line.item)))?;
            if item.len() == 0 {
                return Ok(Ending::RollBack);
            }
            let (supplier, quantity) = (i64::from(line.supply_warehouse), i64::from(line.quantity));
            let of_stock = Params::new().push(supplier).push(i64::from(line.item));
            let by_district = self.stock.get(input.district as usize - 1);
            let by_district = by_district.ok_or_else(|| Error::internal("a district of no warehouse"))?;
            let stock = execute(session, by_district, &of_stock)?;
            let there = stock.integer(0, 0)?;
            let left = if there >= quantity + 10 { there - quantity } else { there - quantity + 91 };
            let taken = Params::new()
                .push(left)
                .push(quantity)
                .push(i64::from(line.supply_warehouse != input.warehouse))
                .push(supplier)
                .push(i64::from(line.item));
            execute(session, &self.take, &taken)?;
            let amount = Value::decimal(item.unscaled(0, 0)? * i128::from(quantity), AMOUNT_DIGITS, 2)?;
            let ordered = own()
                .push(place as i64 + 1)
                .push(i64::from(line.item))
                .push(supplier)
                .push(quantity)
                .push(amount)
                .push(stock.text(0, 1)?);
            execute(session, &self.order_line, &ordered)?;
        }
        Ok(Ending::Commit)
    }
}
