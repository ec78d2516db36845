//! The population of one warehouse in memory, transactions on it, and changes that each break one condition.

use forebay::Durability;

use super::tally::{Kind, Tally};
use super::*;
use crate::load::count;

fn few() -> Result<(Database, Session)> {
    let database = Database::in_memory(&Options::default())?;
    let session = database.session();
    prepare(&session, NonZeroU32::MIN, &mut Vec::new())?;
    Ok((database, session))
}

#[test]
fn the_population_is_that_of_the_specification_and_conditions_hold_after_transactions() {
    let (database, session) = few().expect("a population");
    let rows = |table: &str| count(&session, table).expect("rows");
    let tables = ["item", "warehouse", "district", "stock", "customer", "history", "orders", "new_order"];
    assert_eq!(tables.map(rows), [100_000, 1, 10, 100_000, 30_000, 30_000, 30_000, 9_000]);
    assert!((290_000..310_000).contains(&rows("order_line")));
    check(&session).expect("a population without errors");

    let statements = Client::new(database.session()).and_then(Statements::prepare).expect("statements");
    let mut terminal = Terminal::new(statements, 0, NonZeroU32::MIN);
    let calls = Calls::new(&database, Durability::Full).expect("tables");
    let mut calling = Terminal::new(calls, 1, NonZeroU32::MIN);
    let mut tally = Tally::default();
    for _ in 0..40 {
        terminal.step(&mut tally).expect("a transaction");
        calling.step(&mut tally).expect("a transaction");
    }
    assert_eq!(tally.count(), 80);
    assert!(Kind::ALL.iter().all(|kind| tally.of(*kind).conflicts == 0), "nobody else is there");
    assert_eq!(rows("history"), 30_000 + tally.of(Kind::Payment).count());
    let new_orders = tally.of(Kind::NewOrder).count() - tally.rolled_back;
    assert_eq!(rows("orders"), 30_000 + new_orders);
    check(&session).expect("transactions without errors");
}

#[test]
fn conditions_see_what_breaks_them() {
    let (_database, session) = few().expect("a population");
    // Each breaks the condition at its place first; those in front hold.
    let breaks = [
        (1, "UPDATE warehouse SET w_ytd = w_ytd + 1"),
        (2, "UPDATE district SET d_next_o_id = 7 WHERE d_id = 3"),
        (3, "DELETE FROM new_order WHERE no_d_id = 1 AND no_o_id = 2500"),
        (4, "DELETE FROM order_line WHERE ol_d_id = 1 AND ol_o_id = 5 AND ol_number = 1"),
        (5, "UPDATE orders SET o_carrier_id = NULL WHERE o_d_id = 1 AND o_id = 5"),
        (6, "UPDATE order_line SET ol_o_id = 6, ol_number = 16 WHERE ol_d_id = 1 AND ol_o_id = 5 AND ol_number = 1"),
        (7, "UPDATE order_line SET ol_delivery_d = NULL WHERE ol_d_id = 1 AND ol_o_id = 5 AND ol_number = 1"),
        (8, "DELETE FROM history WHERE h_d_id = 1 AND h_c_id = 5"),
        (9, "UPDATE history SET h_d_id = 2 WHERE h_d_id = 1 AND h_c_id = 5"),
        (
            10,
            "UPDATE customer SET c_balance = c_balance + 1, c_ytd_payment = c_ytd_payment - 1 WHERE c_id = 5 AND c_d_id = 1",
        ),
        (11, "UPDATE customer SET c_delivery_cnt = 1 WHERE c_id = 5 AND c_d_id = 1"),
        (12, "UPDATE customer SET c_ytd_payment = 11 WHERE c_id = 5 AND c_d_id = 1"),
    ];
    for (clause, statement) in breaks {
        run_sql(&session, "BEGIN").expect("a transaction");
        run_sql(&session, statement).expect("a change");
        let error = check(&session).expect_err("a condition is broken").to_string();
        run_sql(&session, "ROLLBACK").expect("a rollback");
        assert!(error.contains(&format!("condition {clause} of")), "{statement}: {error}");
    }
}

#[test]
fn every_condition_is_a_statement() {
    assert_eq!(CONDITIONS.matches(';').count(), 12, "also of comments");
}
