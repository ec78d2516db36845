//! The data as a whole: keys, references, formulas, and the selectivities of the 13 queries.

use std::collections::HashSet;

use arrow::array::{AsArray, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::Int32Type;

use super::{Sizes, tables_of};

/// Dimensions of scale factor 10, so that small shares are met, but few orders, so that the test is quick.
const SIZES: Sizes =
    Sizes { customers: 300_000, suppliers: 20_000, parts: 800_000, orders: 200_000, wide_order_keys: false };

const TABLES: [&str; 5] = ["date", "customer", "supplier", "part", "lineorder"];

struct Data {
    tables: Vec<RecordBatch>,
}

impl Data {
    fn generate(seed: u64) -> Self {
        let tables = tables_of(SIZES, seed)
            .iter()
            .map(|source| {
                let batches: Vec<_> = (0..source.parts())
                    .flat_map(|part| source.part(part))
                    .collect::<Result<_, _>>()
                    .expect("rows are generated");
                concat_batches(&source.schema(), &batches).expect("batches have one schema")
            })
            .collect();
        Self { tables }
    }

    fn table(&self, name: &str) -> &RecordBatch {
        &self.tables[TABLES.iter().position(|table| *table == name).expect("a table of SSB")]
    }

    fn ints(&self, table: &str, column: &str) -> &[i32] {
        let array = self.table(table).column_by_name(column).expect("a column of the table");
        array.as_primitive::<Int32Type>().values()
    }

    fn text(&self, table: &str, column: &str, row: usize) -> &str {
        self.table(table).column_by_name(column).expect("a column of the table").as_string::<i32>().value(row)
    }
}

#[test]
fn sizes_follow_the_specification() {
    let at = |scale_factor| {
        let Sizes { customers, suppliers, parts, orders, .. } = Sizes::at(scale_factor);
        (customers, suppliers, parts, orders)
    };
    assert_eq!(at(1.0), (30_000, 2_000, 200_000, 1_500_000));
    assert_eq!(at(10.0), (300_000, 20_000, 800_000, 15_000_000));
    assert_eq!(at(0.01), (300, 20, 2_000, 15_000));
    assert_eq!(at(2.5), (75_000, 5_000, 400_000, 3_750_000));
}

#[test]
fn columns_are_those_of_the_specification() {
    let counts: Vec<_> = tables_of(SIZES, 1).iter().map(|t| (t.name(), t.schema().fields().len())).collect();
    assert_eq!(counts, [("date", 17), ("customer", 8), ("supplier", 7), ("part", 9), ("lineorder", 17)]);
}

#[test]
fn keys_references_and_formulas_hold() {
    let data = Data::generate(7);
    for (table, key, rows) in [
        ("customer", "c_custkey", SIZES.customers),
        ("supplier", "s_suppkey", SIZES.suppliers),
        ("part", "p_partkey", SIZES.parts),
    ] {
        assert!(data.ints(table, key).iter().copied().eq(1..=rows as i32), "{table} has keys 1 to {rows}");
    }
    let int = |column| data.ints("lineorder", column);
    for (column, last) in
        [("lo_custkey", SIZES.customers), ("lo_suppkey", SIZES.suppliers), ("lo_partkey", SIZES.parts)]
    {
        assert!(int(column).iter().all(|key| (1..=last as i32).contains(key)), "{column} refers to a row");
    }
    let days: HashSet<i32> = data.ints("date", "d_datekey").iter().copied().collect();
    assert_eq!(days.len(), 2557);
    let rows = data.table("lineorder").num_rows();
    assert!((SIZES.orders * 4).abs_diff(rows as u64) < 5_000, "{rows} lines");
    let (keys, lines) = (int("lo_orderkey"), int("lo_linenumber"));
    let mut total = 0i64;
    for row in 0..rows {
        assert!(days.contains(&int("lo_orderdate")[row]) && days.contains(&int("lo_commitdate")[row]));
        assert!(int("lo_orderdate")[row] < int("lo_commitdate")[row]);
        let follows = row > 0 && keys[row] == keys[row - 1];
        assert_eq!(lines[row], if follows { lines[row - 1] + 1 } else { 1 }, "lines of order {}", keys[row]);
        assert!(row == 0 || keys[row] >= keys[row - 1], "orders come by key");
        let (price, discount) = (i64::from(int("lo_extendedprice")[row]), i64::from(int("lo_discount")[row]));
        let part = i64::from(int("lo_partkey")[row]);
        let retail = 90_000 + part / 10 % 20_001 + 100 * (part % 1000);
        assert_eq!(price, retail * i64::from(int("lo_quantity")[row]));
        assert_eq!(i64::from(int("lo_revenue")[row]), price * (100 - discount) / 100);
        assert_eq!(i64::from(int("lo_supplycost")[row]), 6 * retail / 10);
        total = if follows { total } else { 0 };
        total += price * (100 - discount) / 100 * (100 + i64::from(int("lo_tax")[row])) / 100;
        if row + 1 == rows || keys[row + 1] != keys[row] {
            assert_eq!(i64::from(int("lo_ordtotalprice")[row]), total, "total of order {}", keys[row]);
        }
    }
}

#[test]
fn words_have_the_forms_the_queries_ask_for() {
    let data = Data::generate(7);
    for row in 0..1000 {
        let city = data.text("supplier", "s_city", row);
        let nation = data.text("supplier", "s_nation", row);
        assert_eq!(city.len(), 10);
        assert!(city.ends_with(|c: char| c.is_ascii_digit()));
        assert!(format!("{nation:<9}").starts_with(&city[..9]), "{city} in {nation}");
        let (brand, category) = (data.text("part", "p_brand1", row), data.text("part", "p_category", row));
        let number: u32 = brand.strip_prefix(category).expect("a brand of its category").parse().expect("a number");
        assert!((1..=40).contains(&number));
        assert!(category.starts_with(data.text("part", "p_mfgr", row)));
        assert!(!data.text("part", "p_name", row).split(' ').any(|word| word == data.text("part", "p_color", row)));
    }
    let distinct = |table, column| -> HashSet<&str> {
        (0..data.table(table).num_rows()).map(|row| data.text(table, column, row)).collect()
    };
    assert_eq!(distinct("part", "p_brand1").len(), 1000);
    assert_eq!(distinct("customer", "c_city").len(), 250);
    assert_eq!(distinct("date", "d_yearmonth").len(), 84);
    assert!(distinct("supplier", "s_city").contains("UNITED KI1"));
    assert!(distinct("part", "p_brand1").contains("MFGR#2221"));
}

/// Rows of lineorder that a query aggregates, against the paper's filter factors (rev. 3, section 3) and against what the
/// order dates of dbgen make of them: 2406 days, of which 365 are in 1993.
#[test]
fn selectivities_are_those_of_the_paper() {
    let data = Data::generate(42);
    let years = |from: i32, to: i32| move |d: &Day<'_>| (from..=to).contains(&d.year);
    let day = 1.0 / 2406.0;
    let (discount, ten_quantities) = (3.0 / 11.0, 10.0 / 50.0);
    let (city_pair, six_years) = (2.0 / 250.0, 2192.0 * day);
    let late = 579.0 * day;
    let rows: Vec<Row<'_>> = Row::all(&data);
    let measured = |filter: &dyn Fn(&Row<'_>) -> bool| rows.iter().filter(|row| filter(row)).count();
    let one = |r: &Row<'_>, years: &dyn Fn(&Day<'_>) -> bool, discounts, quantities: std::ops::RangeInclusive<i32>| {
        let discounts: std::ops::RangeInclusive<i32> = discounts;
        years(&r.day) && discounts.contains(&r.discount) && quantities.contains(&r.quantity)
    };
    let ki = |city: &str| city == "UNITED KI1" || city == "UNITED KI5";
    let low_mfgr = |r: &Row<'_>| r.mfgr == "MFGR#1" || r.mfgr == "MFGR#2";
    // Name, rows, share expected from dbgen's dates, share of the paper (none where the query text differs from it).
    let checks: [(&str, usize, f64, Option<f64>); 13] = [
        ("q1.1", measured(&|r| one(r, &years(1993, 1993), 1..=3, 0..=24)), 365.0 * day * discount * 0.48, Some(0.019)),
        (
            "q1.2",
            measured(&|r| one(r, &|d| d.year_month == 199_401, 4..=6, 26..=35)),
            31.0 * day * discount * ten_quantities,
            Some(0.00065),
        ),
        (
            "q1.3",
            measured(&|r| one(r, &|d| d.year == 1994 && d.week == 6, 5..=7, 26..=35)),
            7.0 * day * discount * ten_quantities,
            None,
        ),
        ("q2.1", measured(&|r| r.category == "MFGR#12" && r.supplier_region == "AMERICA"), 1.0 / 125.0, Some(0.008)),
        (
            "q2.2",
            measured(&|r| ("MFGR#2221"..="MFGR#2228").contains(&r.brand) && r.supplier_region == "ASIA"),
            8.0 / 5000.0,
            Some(0.0016),
        ),
        ("q2.3", measured(&|r| r.brand == "MFGR#2239" && r.supplier_region == "EUROPE"), 1.0 / 5000.0, Some(0.0002)),
        (
            "q3.1",
            measured(&|r| r.customer_region == "ASIA" && r.supplier_region == "ASIA" && years(1992, 1997)(&r.day)),
            six_years / 25.0,
            Some(0.034),
        ),
        (
            "q3.2",
            measured(&|r| {
                r.customer_nation == "UNITED STATES"
                    && r.supplier_nation == "UNITED STATES"
                    && years(1992, 1997)(&r.day)
            }),
            six_years / 625.0,
            Some(0.0014),
        ),
        (
            "q3.3",
            measured(&|r| ki(r.customer_city) && ki(r.supplier_city) && years(1992, 1997)(&r.day)),
            six_years * city_pair * city_pair,
            Some(0.000_055),
        ),
        (
            "q3.4",
            measured(&|r| ki(r.customer_city) && ki(r.supplier_city) && r.day.year_month_name == "Dec1997"),
            31.0 * day * city_pair * city_pair,
            Some(0.000_000_76),
        ),
        (
            "q4.1",
            measured(&|r| r.customer_region == "AMERICA" && r.supplier_region == "AMERICA" && low_mfgr(r)),
            0.4 / 25.0,
            Some(0.016),
        ),
        (
            "q4.2",
            measured(&|r| {
                r.customer_region == "AMERICA"
                    && r.supplier_region == "AMERICA"
                    && low_mfgr(r)
                    && years(1997, 1998)(&r.day)
            }),
            late * 0.4 / 25.0,
            Some(0.0046),
        ),
        (
            "q4.3",
            measured(&|r| r.supplier_nation == "UNITED STATES" && r.category == "MFGR#14" && years(1997, 1998)(&r.day)),
            late / 625.0,
            None,
        ),
    ];
    for (name, found, expected, paper) in checks {
        let mean = expected * rows.len() as f64;
        // Five standard deviations of a count, and 3 % for the drawn shares of the dimensions.
        let tolerance = 5.0 * mean.sqrt() + 0.03 * mean;
        let share = found as f64 / rows.len() as f64;
        println!("{name}: {found} rows, {share:.7}, expected {expected:.7}, paper {paper:?}");
        assert!((found as f64 - mean).abs() <= tolerance, "{name}: {found} rows, expected {mean:.1} ± {tolerance:.1}");
        if let Some(paper) = paper {
            assert!((expected / paper - 1.0).abs() < 0.2, "{name}: {expected} is far from the paper's {paper}");
        }
    }
}

struct Day<'a> {
    year: i32,
    year_month: i32,
    week: i32,
    year_month_name: &'a str,
}

/// A row of lineorder joined with its dimensions.
struct Row<'a> {
    day: Day<'a>,
    discount: i32,
    quantity: i32,
    category: &'a str,
    brand: &'a str,
    mfgr: &'a str,
    customer_region: &'a str,
    customer_nation: &'a str,
    customer_city: &'a str,
    supplier_region: &'a str,
    supplier_nation: &'a str,
    supplier_city: &'a str,
}

impl<'a> Row<'a> {
    fn all(data: &'a Data) -> Vec<Self> {
        let dates = data.ints("date", "d_datekey");
        let int = |column| data.ints("lineorder", column);
        let (order_dates, discounts, quantities) = (int("lo_orderdate"), int("lo_discount"), int("lo_quantity"));
        let (customers, suppliers, parts) = (int("lo_custkey"), int("lo_suppkey"), int("lo_partkey"));
        (0..order_dates.len())
            .map(|row| {
                let date = dates.binary_search(&order_dates[row]).expect("an order date is in the calendar");
                let (part, customer) = (parts[row] as usize - 1, customers[row] as usize - 1);
                let supplier = suppliers[row] as usize - 1;
                Self {
                    day: Day {
                        year: data.ints("date", "d_year")[date],
                        year_month: data.ints("date", "d_yearmonthnum")[date],
                        week: data.ints("date", "d_weeknuminyear")[date],
                        year_month_name: data.text("date", "d_yearmonth", date),
                    },
                    discount: discounts[row],
                    quantity: quantities[row],
                    category: data.text("part", "p_category", part),
                    brand: data.text("part", "p_brand1", part),
                    mfgr: data.text("part", "p_mfgr", part),
                    customer_region: data.text("customer", "c_region", customer),
                    customer_nation: data.text("customer", "c_nation", customer),
                    customer_city: data.text("customer", "c_city", customer),
                    supplier_region: data.text("supplier", "s_region", supplier),
                    supplier_nation: data.text("supplier", "s_nation", supplier),
                    supplier_city: data.text("supplier", "s_city", supplier),
                }
            })
            .collect()
    }
}
