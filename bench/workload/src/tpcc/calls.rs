//! The five transactions as procedures in Rust: calls by key, without SQL.
//!
//! They do what the prepared statements of the other modules do, on the same input. Must not know: terminals.

use std::time::{SystemTime, UNIX_EPOCH};

use forebay::keyed::{Cell, Row, Table, Transaction};
use forebay::{Database, Durability, Error, Result};

use super::connection::missing;
use super::delivery;
use super::new_order;
use super::order_status;
use super::payment;
use super::procedure::{CustomerInput, Ending, middle};
use super::random::DISTRICTS;
use super::stock_level;
use super::terminal::Run;

/// Orders that stock level looks at.
const ORDERS: i32 = 20;

/// Bytes that are kept of what is noted of a customer (clause 2.5.2.2).
const DATA_BYTES: usize = 500;

/// What runs a terminal's transactions by calls.
pub(super) struct Calls {
    database: Database,
    tables: Tables,
    durability: Durability,
}

impl Calls {
    /// Commits are acknowledged as `durability` says.
    pub(super) fn new(database: &Database, durability: Durability) -> Result<Self> {
        Ok(Self { database: database.clone(), tables: Tables::of(&database.transaction()?)?, durability })
    }

    fn run(&self, procedure: impl FnOnce(&Tables, &mut Transaction) -> Result<Ending>) -> Result<Ending> {
        let mut transaction = self.database.transaction()?;
        transaction.set_durability(self.durability);
        let ending = procedure(&self.tables, &mut transaction)?;
        match ending {
            Ending::Commit => transaction.commit()?,
            Ending::RollBack => transaction.roll_back(),
        }
        Ok(ending)
    }
}

impl Run for Calls {
    fn new_order(&self, input: &new_order::Input) -> Result<Ending> {
        self.run(|tables, transaction| tables.new_order(transaction, input))
    }

    fn payment(&self, input: &payment::Input) -> Result<Ending> {
        self.run(|tables, transaction| tables.payment(transaction, input))
    }

    fn order_status(&self, input: &order_status::Input) -> Result<Ending> {
        self.run(|tables, transaction| tables.order_status(transaction, input))
    }

    fn delivery(&self, input: &delivery::Input) -> Result<Ending> {
        self.run(|tables, transaction| tables.delivery(transaction, input))
    }

    fn stock_level(&self, input: &stock_level::Input) -> Result<Ending> {
        self.run(|tables, transaction| tables.stock_level(transaction, input))
    }
}

/// A table, and the positions of those of its columns that transactions name.
struct Columns<const N: usize> {
    table: Table,
    at: [usize; N],
}

impl<const N: usize> Columns<N> {
    fn of(transaction: &Transaction, table: &str, names: [&str; N]) -> Result<Self> {
        let table = transaction.table(table)?;
        let mut at = [0; N];
        for (at, name) in at.iter_mut().zip(names) {
            *at = table.column(name)?;
        }
        Ok(Self { table, at })
    }
}

/// The tables.
struct Tables {
    /// Name, tax, year to date.
    warehouse: Columns<3>,
    /// Name, tax, year to date, next order.
    district: Columns<4>,
    /// Number, balance, paid, payments, deliveries, credit, data, discount.
    customer: Columns<8>,
    /// Customer, carrier, number.
    orders: Columns<3>,
    /// Number.
    new_order: Columns<1>,
    /// Delivered, amount, item.
    order_line: Columns<3>,
    /// Price.
    item: Columns<1>,
    /// Quantity, year to date, orders, those of other warehouses.
    stock: Columns<4>,
    /// By district what its order lines say.
    stock_info: Vec<usize>,
    history: Table,
}

impl Tables {
    fn of(t: &Transaction) -> Result<Self> {
        let stock = Columns::of(t, "stock", ["s_quantity", "s_ytd", "s_order_cnt", "s_remote_cnt"])?;
        let info = |district: i32| stock.table.column(&format!("s_dist_{district:02}"));
        Ok(Self {
            warehouse: Columns::of(t, "warehouse", ["w_name", "w_tax", "w_ytd"])?,
            district: Columns::of(t, "district", ["d_name", "d_tax", "d_ytd", "d_next_o_id"])?,
            customer: Columns::of(
                t,
                "customer",
                [
                    "c_id",
                    "c_balance",
                    "c_ytd_payment",
                    "c_payment_cnt",
                    "c_delivery_cnt",
                    "c_credit",
                    "c_data",
                    "c_discount",
                ],
            )?,
            orders: Columns::of(t, "orders", ["o_c_id", "o_carrier_id", "o_id"])?,
            new_order: Columns::of(t, "new_order", ["no_o_id"])?,
            order_line: Columns::of(t, "order_line", ["ol_delivery_d", "ol_amount", "ol_i_id"])?,
            item: Columns::of(t, "item", ["i_price"])?,
            stock_info: (1..=DISTRICTS).map(info).collect::<Result<_>>()?,
            stock,
            history: t.table("history")?,
        })
    }

    fn new_order(&self, t: &mut Transaction, input: &new_order::Input) -> Result<Ending> {
        let mut row = Row::default();
        let (warehouse, district) = (int(input.warehouse), int(input.district));
        let [_, tax, _] = self.warehouse.at;
        found(t.get(&self.warehouse.table, &[warehouse], &[tax], &mut row)?)?;
        let [_, tax, _, next] = self.district.at;
        found(t.get(&self.district.table, &[warehouse, district], &[next, tax], &mut row)?)?;
        let order = integer(&row, 0)?;
        found(t.update(&self.district.table, &[warehouse, district], &[(next, int(order + 1))])?)?;
        let customer = int(input.customer);
        let [.., credit, _, discount] = self.customer.at;
        found(t.get(&self.customer.table, &[warehouse, district, customer], &[discount, credit], &mut row)?)?;
        let is_local = input.lines.iter().all(|line| line.supply_warehouse == input.warehouse);
        let count = int(input.lines.len() as i32);
        let about = [int(order), district, warehouse, customer, now(), Cell::Null, count, int(is_local.into())];
        t.insert(&self.orders.table, &about)?;
        t.insert(&self.new_order.table, &[int(order), district, warehouse])?;
        for (place, line) in input.lines.iter().enumerate() {
            if !t.get(&self.item.table, &[int(line.item)], &self.item.at, &mut row)? {
                return Ok(Ending::RollBack);
            }
            let amount = decimal(&row, 0)? * i64::from(line.quantity);
            let (supplier, item) = (int(line.supply_warehouse), int(line.item));
            let info = self.stock_info[input.district as usize - 1];
            let [quantity, year, orders, remote] = self.stock.at;
            let columns = [quantity, year, orders, remote, info];
            found(t.get(&self.stock.table, &[supplier, item], &columns, &mut row)?)?;
            let there = integer(&row, 0)?;
            let left = if there >= line.quantity + 10 { there - line.quantity } else { there - line.quantity + 91 };
            let is_remote = i32::from(line.supply_warehouse != input.warehouse);
            let changes = [
                (quantity, int(left)),
                (year, int(integer(&row, 1)? + line.quantity)),
                (orders, int(integer(&row, 2)? + 1)),
                (remote, int(integer(&row, 3)? + is_remote)),
            ];
            found(t.update(&self.stock.table, &[supplier, item], &changes)?)?;
            let ordered = [
                int(order),
                district,
                warehouse,
                int(place as i32 + 1),
                item,
                supplier,
                Cell::Null,
                int(line.quantity),
                Cell::i64(amount),
                row.cell(4),
            ];
            t.insert(&self.order_line.table, &ordered)?;
        }
        Ok(Ending::Commit)
    }

    fn payment(&self, t: &mut Transaction, input: &payment::Input) -> Result<Ending> {
        let mut row = Row::default();
        let (warehouse, district, cents) = (int(input.warehouse), int(input.district), i64::from(input.cents));
        let [name, _, year] = self.warehouse.at;
        found(t.get(&self.warehouse.table, &[warehouse], &[year, name], &mut row)?)?;
        let mut names = text(&row, 1)?;
        let paid = decimal(&row, 0)? + cents;
        found(t.update(&self.warehouse.table, &[warehouse], &[(year, Cell::i64(paid))])?)?;
        let [name, _, year, _] = self.district.at;
        found(t.get(&self.district.table, &[warehouse, district], &[year, name], &mut row)?)?;
        names.extend_from_slice(b"    ");
        names.extend(text(&row, 1)?);
        let paid = decimal(&row, 0)? + cents;
        found(t.update(&self.district.table, &[warehouse, district], &[(year, Cell::i64(paid))])?)?;

        let place = [int(input.customer_warehouse), int(input.customer_district)];
        let customer = self.customer(t, place, &input.customer)?;
        let key = [place[0], place[1], int(customer)];
        let [_, balance, year, payments, _, credit, data, _] = self.customer.at;
        found(t.get(&self.customer.table, &key, &[balance, year, payments, credit, data], &mut row)?)?;
        let note = match row.cell(3) == Cell::Bytes(b"BC") {
            false => None,
            true => {
                let dollars = f64::from(input.cents) / 100.0;
                let (customer_district, customer_warehouse) = (input.customer_district, input.customer_warehouse);
                let (district, warehouse) = (input.district, input.warehouse);
                let note = format!(
                    "{customer} {customer_district} {customer_warehouse} {district} {warehouse} {dollars:.2} | "
                );
                let mut data = [note.as_bytes(), &text(&row, 4)?].concat();
                data.truncate(DATA_BYTES);
                Some(data)
            }
        };
        let paid = [
            (balance, Cell::i64(decimal(&row, 0)? - cents)),
            (year, Cell::i64(decimal(&row, 1)? + cents)),
            (payments, int(integer(&row, 2)? + 1)),
            (data, Cell::Bytes(note.as_deref().unwrap_or_default())),
        ];
        let changes = if note.is_some() { &paid[..] } else { &paid[..3] };
        found(t.update(&self.customer.table, &key, changes)?)?;
        let history =
            [int(customer), place[1], place[0], district, warehouse, now(), Cell::i64(cents), Cell::Bytes(&names)];
        t.insert(&self.history, &history)?;
        Ok(Ending::Commit)
    }

    fn order_status(&self, t: &mut Transaction, input: &order_status::Input) -> Result<Ending> {
        let mut row = Row::default();
        let place = [int(input.warehouse), int(input.district)];
        let customer = self.customer(t, place, &input.customer)?;
        let [_, balance, ..] = self.customer.at;
        found(t.get(&self.customer.table, &[place[0], place[1], int(customer)], &[balance], &mut row)?)?;
        let mut order = None;
        let [.., number] = self.orders.at;
        t.range_by(&self.orders.table, "orders_by_customer", &[place[0], place[1], int(customer)], &[number], |row| {
            order = Some(integer(row, 0)?);
            Ok(true)
        })?;
        let order = order.ok_or_else(missing)?;
        let mut lines = 0;
        t.range(&self.order_line.table, &[place[0], place[1], int(order)], &self.order_line.at, |_| {
            lines += 1;
            Ok(true)
        })?;
        match lines < 5 {
            true => Err(Error::internal(format!("order {order} has {lines} lines"))),
            false => Ok(Ending::Commit),
        }
    }

    fn delivery(&self, t: &mut Transaction, input: &delivery::Input) -> Result<Ending> {
        let mut row = Row::default();
        for district in 1..=DISTRICTS {
            let place = [int(input.warehouse), int(district)];
            // A district without new orders is passed over (clause 2.7.4.2).
            if !t.first(&self.new_order.table, &place, &self.new_order.at, &mut row)? {
                continue;
            }
            let order = integer(&row, 0)?;
            let key = [place[0], place[1], int(order)];
            found(t.delete(&self.new_order.table, &key)?)?;
            let [customer, carrier, _] = self.orders.at;
            found(t.get(&self.orders.table, &key, &[customer], &mut row)?)?;
            let customer = integer(&row, 0)?;
            found(t.update(&self.orders.table, &key, &[(carrier, int(input.carrier))])?)?;
            let [delivered, amount, _] = self.order_line.at;
            let (mut sum, mut lines) = (0, Vec::new());
            let number = self.order_line.table.key()[3];
            t.range(&self.order_line.table, &key, &[amount, number], |row| {
                sum += decimal(row, 0)?;
                lines.push(integer(row, 1)?);
                Ok(true)
            })?;
            for line in lines {
                let key = [key[0], key[1], key[2], int(line)];
                found(t.update(&self.order_line.table, &key, &[(delivered, now())])?)?;
            }
            let key = [place[0], place[1], int(customer)];
            let [_, balance, _, _, deliveries, ..] = self.customer.at;
            found(t.get(&self.customer.table, &key, &[balance, deliveries], &mut row)?)?;
            let owed = [(balance, Cell::i64(decimal(&row, 0)? + sum)), (deliveries, int(integer(&row, 1)? + 1))];
            found(t.update(&self.customer.table, &key, &owed)?)?;
        }
        Ok(Ending::Commit)
    }

    fn stock_level(&self, t: &mut Transaction, input: &stock_level::Input) -> Result<Ending> {
        let mut row = Row::default();
        let place = [int(input.warehouse), int(input.district)];
        let [.., next] = self.district.at;
        found(t.get(&self.district.table, &place, &[next], &mut row)?)?;
        let next = integer(&row, 0)?;
        let mut items = Vec::new();
        let [.., item] = self.order_line.at;
        for order in next - ORDERS..next {
            t.range(&self.order_line.table, &[place[0], place[1], int(order)], &[item], |row| {
                items.push(integer(row, 0)?);
                Ok(true)
            })?;
        }
        items.sort_unstable();
        items.dedup();
        let mut short = 0;
        let [quantity, ..] = self.stock.at;
        for item in items {
            found(t.get(&self.stock.table, &[place[0], int(item)], &[quantity], &mut row)?)?;
            short += i32::from(integer(&row, 0)? < input.threshold);
        }
        // A screen would show it.
        std::hint::black_box(short);
        Ok(Ending::Commit)
    }

    fn customer(&self, t: &mut Transaction, place: [Cell<'static>; 2], customer: &CustomerInput) -> Result<i32> {
        let name = match customer {
            CustomerInput::Id(id) => return Ok(*id),
            CustomerInput::LastName(name) => Cell::Bytes(name.as_bytes()),
        };
        let mut named = Vec::new();
        let [id, ..] = self.customer.at;
        t.range_by(&self.customer.table, "customer_by_name", &[place[0], place[1], name], &[id], |row| {
            named.push(integer(row, 0)?);
            Ok(true)
        })?;
        named.get(middle(named.len())).copied().ok_or_else(missing)
    }
}

/// A value of a column of INTEGER.
fn int(value: i32) -> Cell<'static> {
    Cell::Fixed(u128::from(value as u32))
}

/// A value of a column of INTEGER that was read.
fn integer(row: &Row, at: usize) -> Result<i32> {
    match row.cell(at) {
        Cell::Fixed(bits) => Ok(bits as u32 as i32),
        Cell::Null | Cell::Bytes(_) => Err(missing()),
    }
}

/// A decimal that was read, as a number of its last digit.
fn decimal(row: &Row, at: usize) -> Result<i64> {
    row.cell(at).as_i64().ok_or_else(missing)
}

fn text(row: &Row, at: usize) -> Result<Vec<u8>> {
    match row.cell(at) {
        Cell::Bytes(text) => Ok(text.to_vec()),
        Cell::Null | Cell::Fixed(_) => Err(missing()),
    }
}

fn now() -> Cell<'static> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Cell::i64(since.as_micros() as i64)
}

fn found(is_found: bool) -> Result<()> {
    if is_found { Ok(()) } else { Err(missing()) }
}
