//! A customer pays (TPC-C, clause 2.5).

use forebay::{Params, Prepared, Result, Session, Value};

use super::procedure::{CustomerInput, Ending, Place, Procedure, middle};
use super::random::{DISTRICTS, happens, other_warehouse};
use super::rows::execute;
use crate::random::RowRandom;

/// Digits of an amount that is paid, two of them behind the point.
const AMOUNT_DIGITS: u8 = 6;

pub(super) struct Payment {
    warehouse: Prepared,
    pay_warehouse: Prepared,
    district: Prepared,
    pay_district: Prepared,
    by_name: Prepared,
    credit: Prepared,
    pay: Prepared,
    pay_with_note: Prepared,
    history: Prepared,
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

impl Procedure for Payment {
    type Input = Input;

    fn prepare(session: &Session) -> Result<Self> {
        let prepare = |sql: &str| session.prepare(sql);
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

    fn draw(place: Place, random: &mut RowRandom) -> Input {
        let district = random.range(1, DISTRICTS);
        let (customer_warehouse, customer_district) = if happens(random, 85) {
            (place.warehouse, district)
        } else {
            (other_warehouse(random, place.warehouse, place.warehouses), random.range(1, DISTRICTS))
        };
        let customer = CustomerInput::draw(random);
        let cents = random.range(100, 500_000);
        Input { warehouse: place.warehouse, district, customer_warehouse, customer_district, customer, cents }
    }

    fn run(&self, session: &Session, input: &Input) -> Result<Ending> {
        let (warehouse, district) = (i64::from(input.warehouse), i64::from(input.district));
        let amount = Value::decimal(input.cents.into(), AMOUNT_DIGITS, 2)?;
        let of_warehouse = || Params::new().push(warehouse);
        let of_district = || of_warehouse().push(district);
        execute(session, &self.pay_warehouse, &of_warehouse().push(amount.clone()))?;
        let warehouse_name = execute(session, &self.warehouse, &of_warehouse())?.text(0, 0)?;
        execute(session, &self.pay_district, &of_district().push(amount.clone()))?;
        let district_name = execute(session, &self.district, &of_district())?.text(0, 0)?;

        let place = || Params::new().push(i64::from(input.customer_warehouse)).push(i64::from(input.customer_district));
        let customer = match &input.customer {
            CustomerInput::Id(id) => i64::from(*id),
            CustomerInput::LastName(name) => {
                let named = execute(session, &self.by_name, &place().push(name.as_str()))?;
                named.integer(middle(named.len()), 0)?
            }
        };
        let of_customer = || place().push(customer);
        let credit = execute(session, &self.credit, &of_customer())?.text(0, 0)?;
        let paid = of_customer().push(amount.clone());
        if credit == "BC" {
            let dollars = f64::from(input.cents) / 100.0;
            let note = format!(
                "{customer} {} {} {district} {warehouse} {dollars:.2} | ",
                input.customer_district, input.customer_warehouse
            );
            execute(session, &self.pay_with_note, &paid.push(note))?;
        } else {
            execute(session, &self.pay, &paid)?;
        }
        let history = Params::new()
            .push(customer)
            .push(i64::from(input.customer_district))
            .push(i64::from(input.customer_warehouse))
            .push(district)
            .push(warehouse)
            .push(amount)
            .push(format!("{warehouse_name}    {district_name}"));
        execute(session, &self.history, &history)?;
        Ok(Ending::Commit)
    }
}
