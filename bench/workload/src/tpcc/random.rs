//! What terminals draw (TPC-C, clauses 2.1.6 and 4.3.2.3).

use crate::random::RowRandom;

/// Items, and rows of stock of a warehouse.
pub(super) const ITEMS: i32 = 100_000;

/// Districts of a warehouse.
pub(super) const DISTRICTS: i32 = 10;

/// Customers of a district.
pub(super) const CUSTOMERS: i32 = 3_000;

/// The constant C for last names when the database is filled.
pub(super) const LAST_NAME_OF_POPULATION: i32 = 42;

/// That of the terminals: 65 to 119 from the other, but neither 96 nor 112 (clause 2.1.6.1).
const LAST_NAME_OF_RUN: i32 = LAST_NAME_OF_POPULATION + 77;

/// The constant C for customers and for items: any number within their A.
const CUSTOMER: i32 = 611;
const ITEM: i32 = 5_077;

/// NURand: some values come more often than others.
fn uneven(random: &mut RowRandom, a: i32, c: i32, low: i32, high: i32) -> i32 {
    ((random.range(0, a) | random.range(low, high)) + c) % (high - low + 1) + low
}

pub(super) fn customer(random: &mut RowRandom) -> i32 {
    uneven(random, 1_023, CUSTOMER, 1, CUSTOMERS)
}

pub(super) fn item(random: &mut RowRandom) -> i32 {
    uneven(random, 8_191, ITEM, 1, ITEMS)
}

/// The last name of some customers.
pub(super) fn last_name(random: &mut RowRandom) -> String {
    name_of(uneven(random, 255, LAST_NAME_OF_RUN, 0, 999))
}

/// The last name of a number below 1,000 (clause 4.3.2.3).
pub(super) fn name_of(number: i32) -> String {
    const SYLLABLES: [&str; 10] = ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];
    [number / 100, number / 10 % 10, number % 10].map(|digit| SYLLABLES[digit as usize]).concat()
}

/// True so many times of a hundred.
pub(super) fn happens(random: &mut RowRandom, percent: u64) -> bool {
    random.below(100) < percent
}

/// Another warehouse than this one, if there is one.
pub(super) fn other_warehouse(random: &mut RowRandom, home: i32, warehouses: i32) -> i32 {
    if warehouses == 1 {
        return home;
    }
    let other = random.range(1, warehouses - 1);
    if other < home { other } else { other + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Stream;

    #[test]
    fn draws_are_in_range_and_uneven() {
        let mut random = RowRandom::new(1, Stream::Terminal, 0);
        let mut counts = vec![0u32; CUSTOMERS as usize + 1];
        for _ in 0..100_000 {
            counts[customer(&mut random) as usize] += 1;
            assert!((1..=ITEMS).contains(&item(&mut random)));
            let other = other_warehouse(&mut random, 2, 3);
            assert!(other == 1 || other == 3);
        }
        assert_eq!(counts[0], 0);
        assert!(counts.iter().max() > Some(&100), "33 would be even");
        assert_eq!(other_warehouse(&mut random, 1, 1), 1);
    }

    #[test]
    fn names_have_three_syllables() {
        assert_eq!([name_of(0), name_of(371), name_of(999)], ["BARBARBAR", "PRICALLYOUGHT", "EINGEINGEING"]);
    }
}
