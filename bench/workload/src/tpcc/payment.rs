//! A customer pays (TPC-C, clause 2.5).

use forebay::Result;

use super::connection::{Access, Connection, Param, Rows, integer};
use super::procedure::{CustomerInput, Draw, Ending, Place, Procedure, middle};
use super::random::{DISTRICTS, happens, other_warehouse};
use crate::random::RowRandom;

/// Digits of an amount that is paid, two of them behind the point.
const AMOUNT_DIGITS: u8 = 6;

pub(super) struct Payment<C: Connection> {
    warehouse: C::Statement,
    pay_warehouse: C::Statement,
    district: C::Statement,
    pay_district: C::Statement,
    by_name: C::Statement,
    credit: C::Statement,
    pay: C::Statement,
    pay_with_note: C::Statement,
    history: C::Statement,
}

#[derive(Debug, Clone)]
pub(super) struct Input {
    pub(super) warehouse: i32,
    pub(super) district: i32,
    pub(super) customer_warehouse: i32,
    pub(super) customer_district: i32,
    pub(super) customer: CustomerInput,
    pub(super) cents: i32,
}

impl Draw for Input {
    fn draw(place: Place, random: &mut RowRandom) -> Self {
        let district = random.range(1, DISTRICTS);
        let (customer_warehouse, customer_district) = if happens(random, 85) {
            (place.warehouse, district)
        } else {
            (other_warehouse(random, place.warehouse, place.warehouses), random.range(1, DISTRICTS))
        };
        let customer = CustomerInput::draw(random);
        let cents = random.range(100, 500_000);
        Self { warehouse: place.warehouse, district, customer_warehouse, customer_district, customer, cents }
    }
}

impl<C: Connection> Procedure<C> for Payment<C> {
    type Input = Input;

    const ACCESS: Access = Access::Writes;

    fn prepare(connection: &C) -> Result<Self> {
        let prepare = |sql: &str| connection.prepare(sql);
        Ok(Self {
            warehouse: prepare(
                "SELECT w_name, w_street_1, w_street_2, w_city, w_state, w_zip FROM warehouse WHERE w_id = $1",
            )?,
            pay_warehouse: prepare("UPDATE warehouse SET w_ytd = w_ytd + $2 WHERE w_id = $1")?,
            district: prepare(
                "SELECT d_name, d_street_1, d_street_2, d_city, d_state, d_zip FROM district
                WHERE d_w_id = $1 AND d_id = $2",
            )?,
            pay_district: prepare("UPDATE district SET d_ytd = d_ytd + $3 WHERE d_w_id = $1 AND d_id = $2")?,
            by_name: prepare(
                "SELECT c_id FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_last = $3 ORDER BY c_first",
            )?,
            credit: prepare(
                "SELECT c_credit, c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, c_since,
                    c_credit_lim, c_discount, c_balance
                FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3",
            )?,
            pay: prepare(
                "UPDATE customer SET c_balance = c_balance - $4, c_ytd_payment = c_ytd_payment + $4,
                    c_payment_cnt = c_payment_cnt + 1
                WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3",
            )?,
            pay_with_note: prepare(
                "UPDATE customer SET c_balance = c_balance - $4, c_ytd_payment = c_ytd_payment + $4,
                    c_payment_cnt = c_payment_cnt + 1, c_data = left($5 || c_data, 500)
                WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3",
            )?,
            history: prepare("INSERT INTO history VALUES ($1, $2, $3, $4, $5, CAST(now() AS TIMESTAMP), $6, $7)")?,
        })
    }

    fn run(&self, connection: &C, input: &Input) -> Result<Ending> {
        let (warehouse, district) = (integer(input.warehouse), integer(input.district));
        let amount = Param::Amount { cents: input.cents.into(), digits: AMOUNT_DIGITS };
        connection.execute(&self.pay_warehouse, &[warehouse, amount])?;
        let about_warehouse = connection.execute(&self.warehouse, &[warehouse])?;
        connection.execute(&self.pay_district, &[warehouse, district, amount])?;
        let about_district = connection.execute(&self.district, &[warehouse, district])?;

        let of_warehouse = integer(input.customer_warehouse);
        let of_district = integer(input.customer_district);
        let customer = match &input.customer {
            CustomerInput::Id(id) => i64::from(*id),
            CustomerInput::LastName(name) => {
                let named = connection.execute(&self.by_name, &[of_warehouse, of_district, Param::Text(name)])?;
                named.integer(middle(named.len()), 0)?
            }
        };
        let key = [of_warehouse, of_district, integer(customer)];
        let about_customer = connection.execute(&self.credit, &key)?;
        if about_customer.text(0, 0)? == "BC" {
            let dollars = f64::from(input.cents) / 100.0;
            let note = format!(
                "{customer} {} {} {} {} {dollars:.2} | ",
                input.customer_district, input.customer_warehouse, input.district, input.warehouse
            );
            connection.execute(&self.pay_with_note, &[key[0], key[1], key[2], amount, Param::Text(&note)])?;
        } else {
            connection.execute(&self.pay, &[key[0], key[1], key[2], amount])?;
        }
        let names = format!("{}    {}", about_warehouse.text(0, 0)?, about_district.text(0, 0)?);
        let history = [integer(customer), of_district, of_warehouse, district, warehouse, amount, Param::Text(&names)];
        connection.execute(&self.history, &history)?;
        Ok(Ending::Commit)
    }
}
