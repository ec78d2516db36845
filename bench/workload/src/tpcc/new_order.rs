//! A customer orders 5 to 15 items (TPC-C, clause 2.4).

use forebay::{Error, Result};

use super::connection::{Access, Connection, Param, Rows, integer};
use super::procedure::{Draw, Ending, Place, Procedure};
use super::random::{DISTRICTS, ITEMS, customer, happens, item, other_warehouse};
use crate::random::RowRandom;

/// Digits of an order line's amount, two of them behind the point.
const AMOUNT_DIGITS: u8 = 6;

pub(super) struct NewOrder<C: Connection> {
    warehouse: C::Statement,
    district: C::Statement,
    next_order: C::Statement,
    customer: C::Statement,
    order: C::Statement,
    new_order: C::Statement,
    item: C::Statement,
    /// By district: each has a column of its own.
    stock: Vec<C::Statement>,
    take: C::Statement,
    order_line: C::Statement,
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

impl Draw for Input {
    fn draw(place: Place, random: &mut RowRandom) -> Self {
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
        Self { warehouse: place.warehouse, district, customer, lines }
    }
}

impl<C: Connection> Procedure<C> for NewOrder<C> {
    type Input = Input;

    const ACCESS: Access = Access::Writes;

    fn prepare(connection: &C) -> Result<Self> {
        let prepare = |sql: &str| connection.prepare(sql);
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

    fn run(&self, connection: &C, input: &Input) -> Result<Ending> {
        let (warehouse, district) = (integer(input.warehouse), integer(input.district));
        connection.execute(&self.warehouse, &[warehouse])?.unscaled(0, 0)?;
        let order = connection.execute(&self.district, &[warehouse, district])?.integer(0, 0)?;
        connection.execute(&self.next_order, &[warehouse, district])?;
        let customer = integer(input.customer);
        connection.execute(&self.customer, &[warehouse, district, customer])?.text(0, 1)?;
        let order = integer(order);
        let is_local = input.lines.iter().all(|line| line.supply_warehouse == input.warehouse);
        let (count, is_local) = (integer(input.lines.len() as i64), integer(is_local));
        connection.execute(&self.order, &[order, district, warehouse, customer, count, is_local])?;
        connection.execute(&self.new_order, &[order, district, warehouse])?;
        for (place, line) in input.lines.iter().enumerate() {
            let about_item = connection.execute(&self.item, &[integer(line.item)])?;
            if about_item.is_empty() {
                return Ok(Ending::RollBack);
            }
            let (supplier, item, quantity) =
                (integer(line.supply_warehouse), integer(line.item), i64::from(line.quantity));
            let by_district = self.stock.get(input.district as usize - 1);
            let by_district = by_district.ok_or_else(|| Error::internal("a district of no warehouse"))?;
            let stock = connection.execute(by_district, &[supplier, item])?;
            let there = stock.integer(0, 0)?;
            let left = if there >= quantity + 10 { there - quantity } else { there - quantity + 91 };
            let is_remote = integer(line.supply_warehouse != input.warehouse);
            connection.execute(&self.take, &[integer(left), integer(quantity), is_remote, supplier, item])?;
            let amount = Param::Amount { cents: about_item.unscaled(0, 0)? * quantity, digits: AMOUNT_DIGITS };
            let info = stock.text(0, 1)?;
            let (number, quantity) = (integer(place as i64 + 1), integer(quantity));
            let ordered = [order, district, warehouse, number, item, supplier, quantity, amount, Param::Text(&info)];
            connection.execute(&self.order_line, &ordered)?;
        }
        Ok(Ending::Commit)
    }
}
