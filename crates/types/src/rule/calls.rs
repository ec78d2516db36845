//! Calls of functions: which of them give a value of their arguments' type, and those that choose by the order of it.

use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{AggregateFunction, ScalarFunction, Sort, WindowFunction};
use datafusion::logical_expr::{Expr, ExprSchemable, WindowFunctionDefinition, lit};
use forebay_base::Error;
use forebay_context::error::into_datafusion;

use super::elements::{aggregated, by_order, sought};
use super::nested::{put_together, taken_out};
use super::typing::{Kind, all_become, by_keys_inside, common, prevailing};
use crate::bit_functions::aggregates::is_of_bits;
use crate::bit_functions::calls::{is_operator, replacement, shown_operator};
use crate::extrema::extremum;
use crate::functions::{is_named, key, of_key, range};
use crate::own::{Own, is_inside};
use crate::type_of::type_name;
use crate::zoned_functions::{local, offset_part};

/// Functions of times of day.
const OF_TIMES: [&str; 6] = ["date_part", "epoch_ms", "epoch_us", "epoch_ns", "nanosecond", "epoch"];

/// The type that values of these kinds have in common, or become, where it is ordered by keys.
fn common_key(kinds: &[Kind]) -> Option<Own> {
    prevailing(kinds).or_else(|| common(kinds)).filter(Own::has_keys)
}

/// Functions that give one of their arguments.
const CHOOSING: [&str; 3] = ["coalesce", "nvl", "ifnull"];

/// Aggregates and window functions that give one of the values of their first argument.
const PICKING: [&str; 21] = [
    "first_value",
    "last_value",
    "nth_value",
    "any_value",
    "arbitrary",
    "first",
    "last",
    "lag",
    "lead",
    "mode",
    "arg_min",
    "arg_max",
    "min_by",
    "max_by",
    "argmin",
    "argmax",
    "arg_min_null",
    "arg_max_null",
    "fill",
    "enum_min",
    "enum_max",
];

/// Those of them that choose by the order of their second argument.
const BY_SECOND: [&str; 8] =
    ["arg_min", "arg_max", "min_by", "max_by", "argmin", "argmax", "arg_min_null", "arg_max_null"];

/// Aggregates over the order of values that know no order but that of texts.
const ORDERED: [&str; 4] = ["median", "quantile", "quantile_disc", "approx_quantile"];

/// A call of a scalar function.
pub(super) fn scalar(mut call: ScalarFunction, kinds: &[Kind], schema: &DFSchema) -> Result<(Expr, Kind)> {
    let name = call.name().to_owned();
    if is_named(&name) {
        return of_enum(&name, call.args, common(kinds)).map(|expr| (expr, Kind::Other));
    }
    let is_bits = |kind: &Kind| *kind == Kind::Own(Own::Bit);
    if kinds.iter().any(is_bits)
        && let Some(function) = replacement(&name)
    {
        let of_bits = call.args.len().min(if name.starts_with("shift_") { 1 } else { 2 });
        let others = call.args.split_off(of_bits);
        let args = all_become(call.args, kinds, &Own::Bit).into_iter().chain(others).collect();
        return Ok(as_told(function.call(args), schema));
    }
    sought(&mut call, kinds, schema);
    let call = match by_order(call, schema) {
        Ok(done) => return Ok(done),
        Err(call) => call,
    };
    other_call(call, kinds, schema)
}

/// A call of a function that knows nothing of such types but what a value has.
fn other_call(mut call: ScalarFunction, kinds: &[Kind], schema: &DFSchema) -> Result<(Expr, Kind)> {
    let name = call.name().to_owned();
    if is_operator(&name) {
        refuse_texts(&name, &call.args, kinds, schema)?;
    }
    Ok(match (name.as_str(), common(kinds)) {
        // Literals that are computed lose what is inside of them.
        ("typeof", _) => match (kinds, call.args.first().map(|arg| arg.to_field(schema))) {
            ([Kind::Own(own)], _) => (lit(own.text()), Kind::Other),
            (_, Some(Ok((_, field)))) if is_inside(field.data_type()) => {
                (lit(type_name(field.data_type())), Kind::Other)
            }
            _ => (Expr::ScalarFunction(call), Kind::Other),
        },
        ("greatest" | "least", _) if common_key(kinds).is_some() => {
            let own = common_key(kinds).unwrap_or(Own::ZonedTime);
            let args = all_become(call.args, kinds, &own).into_iter().map(|arg| key(arg, &own)).collect();
            let chosen = Expr::ScalarFunction(ScalarFunction::new_udf(call.func, args));
            (of_key(chosen, &own), Kind::Own(own))
        }
        (name, _) if OF_TIMES.contains(&name) && kinds.contains(&Kind::Own(Own::ZonedTime)) => {
            let of_offset = match call.args.as_slice() {
                [Expr::Literal(part, _), value] => {
                    part.try_as_str().flatten().and_then(|part| offset_part(part, value))
                }
                _ => None,
            };
            if let Some(part) = of_offset {
                return Ok((part, Kind::Other));
            }
            let one = |(arg, kind): (Expr, &Kind)| if *kind == Kind::Own(Own::ZonedTime) { local(arg) } else { arg };
            call.args = call.args.into_iter().zip(kinds).map(one).collect();
            (Expr::ScalarFunction(call), Kind::Other)
        }
        ("uuid", _) => (Expr::ScalarFunction(call), Kind::Own(Own::Uuid)),
        ("coalesce" | "nvl" | "ifnull" | "greatest" | "least" | "nullif", _) if prevailing(kinds).is_some() => {
            let own = prevailing(kinds).unwrap_or(Own::Uuid);
            call.args = all_become(call.args, kinds, &own);
            (Expr::ScalarFunction(call), Kind::Own(own))
        }
        ("nullif", _) => {
            let kind = kinds.first().cloned().unwrap_or(Kind::Other);
            (Expr::ScalarFunction(call), kind)
        }
        (name, own) if CHOOSING.contains(&name) => (Expr::ScalarFunction(call), own.map_or(Kind::Other, Kind::Own)),
        _ => {
            let taken = taken_out(&name, &call.args, schema);
            let (expr, kind) = as_told(put_together(Expr::ScalarFunction(call), &name, kinds, schema), schema);
            (expr, taken.map_or(kind, Kind::Own))
        }
    })
}

/// A call that gives what its field tells.
fn as_told(expr: Expr, schema: &DFSchema) -> (Expr, Kind) {
    let kind = expr.to_field(schema).map_or(Kind::Other, |(_, field)| Kind::of_field(&field));
    (expr, kind)
}

/// An error where what takes integers and bits is given another text.
fn refuse_texts(name: &str, args: &[Expr], kinds: &[Kind], schema: &DFSchema) -> Result<()> {
    let is_text = |arg: &Expr| arg.get_type(schema).is_ok_and(|data_type| data_type.is_string());
    let is_bits = |kind: &Kind| *kind == Kind::Own(Own::Bit);
    match args.iter().any(is_text) && !kinds.iter().any(is_bits) {
        true => {
            let error = Error::input(format!("{} takes integers or BITs, and no texts", shown_operator(name)));
            Err(into_datafusion(error.hint("Cast them, as in '0101'::BIT")))
        }
        false => Ok(()),
    }
}

/// A call of `enum_range` and the like.
fn of_enum(name: &str, args: Vec<Expr>, own: Option<Own>) -> Result<Expr> {
    let Some(Own::Enum(of)) = own else {
        let message = format!("{name} takes values of an ENUM");
        return Err(into_datafusion(Error::input(message).hint(format!("Cast one, as in {name}(NULL::mood)"))));
    };
    let end = |value: Option<&String>| lit(ScalarValue::Utf8View(value.cloned()));
    let mut args = args.into_iter();
    let (first, second) = (args.next().unwrap_or_default(), args.next().unwrap_or_default());
    let none = || lit(ScalarValue::Utf8View(None));
    Ok(match name {
        "enum_first" => end(of.values().first()),
        "enum_last" => end(of.values().last()),
        "enum_code" => key(first, &Own::Enum(of)),
        "enum_range" => range(none(), none(), &of),
        _ => range(first, second, &of),
    })
}

/// Replaces values by which rows are ordered by their keys.
fn order_by_keys(sorts: &mut [Sort], kinds: &[Kind], schema: &DFSchema) {
    for (sort, kind) in sorts.iter_mut().zip(kinds) {
        let by = std::mem::take(&mut sort.expr);
        sort.expr = match kind {
            Kind::Own(own) if own.has_keys() => key(by, own),
            _ => by_keys_inside(by, schema),
        };
    }
}

/// What an aggregate of this name is, of arguments of these kinds.
enum Meaning {
    /// As it is.
    Same(Kind),
    /// The least or the greatest value.
    Extremum(Own, bool),
}

fn meaning(name: &str, args: &mut [Expr], kinds: &[Kind], schema: &DFSchema) -> Result<Meaning> {
    let first = kinds.first().cloned().unwrap_or(Kind::Other);
    if BY_SECOND.contains(&name)
        && let Some(second) = args.get_mut(1)
    {
        let by = std::mem::take(second);
        *second = match kinds.get(1) {
            Some(Kind::Own(own)) if own.has_keys() => key(by, own),
            _ => by_keys_inside(by, schema),
        };
    }
    let unknown = || {
        let shown = match &first {
            Kind::Own(Own::Enum(_)) => "an ENUM",
            Kind::Own(own) => own.text(),
            _ => "this type",
        };
        into_datafusion(Error::unsupported(format!("{name} of {shown} is not supported")).hint("Cast it to VARCHAR"))
    };
    match (&first, name) {
        (Kind::Own(own), "min" | "max") if own.has_keys() => match args.len() {
            1 => Ok(Meaning::Extremum(own.clone(), name == "min")),
            _ => Err(unknown()),
        },
        (Kind::Own(own), "array_agg") => Ok(Meaning::Same(Kind::Listed(own.clone()))),
        (Kind::Own(Own::Bit), name) if is_of_bits(name) => Ok(Meaning::Same(first)),
        (_, "bitstring_agg") => Ok(Meaning::Same(Kind::Own(Own::Bit))),
        (Kind::Own(own), "min" | "max") if own.prevails() && args.len() == 1 => Ok(Meaning::Same(first)),
        (Kind::Own(_), name) if ORDERED.contains(&name) => Err(unknown()),
        // What stands where there is no row may be of another type.
        (Kind::Own(_), "lag" | "lead") if common(&[first.clone(), other(kinds)]).is_none() => {
            Ok(Meaning::Same(Kind::Other))
        }
        // Of several arguments they may give a list.
        (Kind::Own(_), name) if PICKING.contains(&name) && (args.len() < 3 || !BY_SECOND.contains(&name)) => {
            Ok(Meaning::Same(first))
        }
        _ => Ok(Meaning::Same(Kind::Other)),
    }
}

/// What `lag` and `lead` give where there is no row.
fn other(kinds: &[Kind]) -> Kind {
    kinds.get(2).cloned().unwrap_or(Kind::Null)
}

/// A call of an aggregate, and the kinds of its arguments and of the keys of its order.
pub(super) fn aggregate(
    mut call: AggregateFunction,
    kinds: &[Kind],
    sorts: &[Kind],
    schema: &DFSchema,
) -> Result<(Expr, Kind)> {
    if is_of_bits(call.func.name()) {
        refuse_texts(call.func.name(), &call.params.args, kinds, schema)?;
    }
    order_by_keys(&mut call.params.order_by, sorts, schema);
    let name = call.func.name().to_owned();
    let plain = call.clone();
    let given = || Expr::AggregateFunction(plain).get_type(schema).ok();
    if let Some(data_type) = aggregated(&name, &mut call.params.args, kinds, given, schema) {
        return Ok((Expr::AggregateFunction(call), Kind::Keyed(data_type)));
    }
    let kind = match meaning(&name, &mut call.params.args, kinds, schema)? {
        Meaning::Same(kind) => kind,
        Meaning::Extremum(of, is_least) => {
            call.func = extremum(&of, is_least);
            // One value of each kind has the same.
            call.params.distinct = false;
            Kind::Own(of)
        }
    };
    Ok((Expr::AggregateFunction(call), kind))
}

/// A call of a window function, and the kinds of its arguments and of the keys of its order.
pub(super) fn window(
    mut call: WindowFunction,
    kinds: &[Kind],
    sorts: &[Kind],
    schema: &DFSchema,
) -> Result<(Expr, Kind)> {
    if is_of_bits(call.fun.name()) {
        refuse_texts(call.fun.name(), &call.params.args, kinds, schema)?;
    }
    order_by_keys(&mut call.params.order_by, sorts, schema);
    let name = call.fun.name().to_owned();
    let plain = call.clone();
    let given = || Expr::from(plain).get_type(schema).ok();
    if let Some(data_type) = aggregated(&name, &mut call.params.args, kinds, given, schema) {
        return Ok((Expr::from(call), Kind::Keyed(data_type)));
    }
    let kind = match meaning(&name, &mut call.params.args, kinds, schema)? {
        Meaning::Same(kind) => kind,
        Meaning::Extremum(of, is_least) => {
            call.fun = WindowFunctionDefinition::AggregateUDF(extremum(&of, is_least));
            call.params.distinct = false;
            call.params.null_treatment = None;
            Kind::Own(of)
        }
    };
    Ok((Expr::from(call), kind))
}
