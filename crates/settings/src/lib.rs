//! Settings that change what queries mean, by DuckDB's names.
//!
//! Must not know: settings that say how work is done (`forebay_context::settings`), sessions.
#![forbid(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::Ordering;

use datafusion::execution::SessionState;
use forebay_base::{Error, Result};
use forebay_context::error::from_datafusion;
use forebay_context::identifier_case::IdentifierCase;
use forebay_context::settings::{DescendingOrder, FirstRows, switch};
use forebay_context::told_settings::Setting;
use forebay_rules::arithmetic::division::Division;
use forebay_zones::zone::Zone;

/// Where NULLs are without a word about it, in the planner's words: last, whatever the direction.
pub const NULLS_LAST: &str = "nulls_last";

/// What the time zone of a session is called, in the planner's words last.
const ZONE_NAMES: [&str; 2] = ["timezone", "datafusion.execution.time_zone"];

/// SET variable = value, where it is one of these; false where the variable is another.
pub fn set(base: &mut SessionState, variable: &str, value: &str) -> Result<bool> {
    if matches!(variable, "default_null_order" | "null_order") {
        base.config_mut().options_mut().sql_parser.default_null_ordering = null_order(variable, value)?.to_owned();
        return Ok(true);
    }
    if ZONE_NAMES.contains(&variable) {
        let zone = Zone::parse(value).map_err(from_datafusion)?;
        base.config_mut().options_mut().execution.time_zone = Some(zone.name().to_owned());
        return Ok(true);
    }
    if variable == "default_order" {
        let order = DescendingOrder(is_descending(value)?);
        base.config_mut().set_extension(Arc::new(order));
        return Ok(true);
    }
    if variable == IdentifierCase::NAME {
        base.config_mut().set_extension(Arc::new(IdentifierCase::parse(value)?));
        return Ok(true);
    }
    if variable == "scalar_subquery_error_on_multiple_rows" {
        let first = FirstRows(!switch(variable, value)?);
        base.config_mut().set_extension(Arc::new(first));
        return Ok(true);
    }
    let division = base.config().get_extension::<Division>();
    let Some(division) = division
        .ok_or_else(|| Error::internal("a session without divisions"))?
        .switch(variable)
        .map(|flag| switch(variable, value).map(|on| flag.store(on, Ordering::Relaxed)))
    else {
        return Ok(false);
    };
    division.map(|()| true)
}

/// What quotients are, as settings.
pub fn told(base: &SessionState) -> Vec<Setting> {
    base.config().get_extension::<Division>().map_or_else(Vec::new, |division| division.told())
}

/// Whether NULLs stand first in an order that says nothing of them, by what [`NULLS_LAST`] is one of.
pub fn are_nulls_first(null_order: &str, ascends: bool) -> bool {
    match null_order {
        "nulls_first" => true,
        "nulls_min" => ascends,
        "nulls_max" => !ascends,
        _ => false,
    }
}

/// The value that RESET gives to one of these.
pub fn default_value(variable: &str) -> Option<&'static str> {
    match variable {
        "default_null_order" | "null_order" => Some(NULLS_LAST),
        "default_order" => Some("asc"),
        IdentifierCase::NAME => Some("preserve_case"),
        _ if ZONE_NAMES.contains(&variable) => Some("UTC"),
        "integer_division" => Some("off"),
        "error_on_division_by_zero" | "ieee_floating_point_ops" | "scalar_subquery_error_on_multiple_rows" => {
            Some("on")
        }
        _ => None,
    }
}

/// Whether this is the order DESC.
fn is_descending(value: &str) -> Result<bool> {
    match value.to_lowercase().as_str() {
        "asc" | "ascending" => Ok(false),
        "desc" | "descending" => Ok(true),
        _ => Err(Error::input(format!("default_order = {value} is not possible")).hint("Use asc or desc")),
    }
}

/// An order of NULLs by any of its names.
fn null_order(variable: &str, value: &str) -> Result<&'static str> {
    Ok(match value.to_lowercase().replace(' ', "_").as_str() {
        "nulls_last" | "last" => NULLS_LAST,
        "nulls_first" | "first" => "nulls_first",
        // NULL is the least of all values.
        "sqlite" | "mysql" | "nulls_first_on_asc_last_on_desc" => "nulls_min",
        // It is the greatest.
        "postgres" | "postgresql" | "nulls_last_on_asc_first_on_desc" => "nulls_max",
        _ => {
            return Err(Error::input(format!("{variable} = {value} is not possible"))
                .hint("Use nulls_last, nulls_first, postgres (last, but first with DESC) or sqlite (first, but last with DESC)"));
        }
    })
}
