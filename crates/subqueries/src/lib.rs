//! Subqueries as joins, wherever they stand and whatever of the rows around them they name.
//!
//! Start with [`unnesting`]; [`membership`] says what `IN`, `EXISTS`, `ANY` and `ALL` mean, [`single_row`] when more than one row is
//! an error, [`shared_rows`] is how rows that several parts of a plan read are computed once, [`rounds`] are recursive queries
//! with keys, [`orders`] is what depends on the order of a subquery, [`branches`] keeps that of UNION ALL,
//! [`first_rows`] are those that count where several rows are no error, and [`bare_subqueries`] are none that are needed. Must not know: tables, files,
//! the list of rules.
#![forbid(unsafe_code)]

pub mod bare_subqueries;
pub mod branches;
pub mod computed_twice;
pub mod correlation;
pub mod first_rows;
pub mod membership;
pub mod orders;
pub mod plans;
mod recursion;
pub mod references;
pub mod rounds;
pub mod row_values;
pub mod shared_rows;
pub mod single_row;
pub mod unnesting;
