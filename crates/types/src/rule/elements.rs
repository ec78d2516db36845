//! Functions and aggregates over values with such types inside, or over several such values: those that go by the order of values are
//! called with keys, and what they give has values again; a text that is sought among values becomes one of them.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::DFSchema;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Expr, ExprSchemable};
use forebay_context::own_types;

use super::typing::{Kind, all_become};
use crate::functions::{key, of_key};
use crate::marks::{has_keys_inside, keyed, retyped, unmarked};
use crate::own::{Own, is_inside};

/// A field that is marked as one of this type.
pub(super) fn part(field: &Field, own: &Own) -> FieldRef {
    Arc::new(own_types::marked(field.clone(), own.text()))
}

/// What has keys, with values of this type in their place. Maps of ENUMs stay maps of texts: no column of a table can have such a type.
pub(super) fn restored(value: Expr, data_type: DataType) -> Expr {
    let is_plain = match &data_type {
        DataType::Map(entries, _) => has_enum(entries),
        _ => false,
    };
    let plain = is_plain.then(|| unmarked(&data_type));
    let marked = retyped(value, data_type);
    plain.into_iter().fold(marked, retyped)
}

/// Whether a part of an entry of a map is of an ENUM.
pub(super) fn has_enum(entries: &Field) -> bool {
    match entries.data_type() {
        DataType::Struct(pair) => pair.iter().any(|field| matches!(Own::of_field(field), Some(Own::Enum(_)))),
        _ => false,
    }
}

/// The field of the elements of a list.
fn element_of(data_type: &DataType) -> Option<&FieldRef> {
    match data_type {
        DataType::List(element) | DataType::FixedSizeList(element, _) => Some(element),
        _ => None,
    }
}

/// A map whose keys are of the type of `like`.
fn with_keys_of(data_type: &DataType, like: &Field) -> Option<DataType> {
    let DataType::Map(entries, is_sorted) = data_type else { return None };
    let DataType::Struct(pair) = entries.data_type() else { return None };
    let [key, value] = pair.as_ref() else { return None };
    let marked = key.as_ref().clone().with_data_type(like.data_type().clone());
    let marked = Own::of_field(like).map_or_else(|| Arc::new(marked.clone()), |own| part(&marked, &own));
    let pair = DataType::Struct(vec![marked, Arc::clone(value)].into());
    Some(DataType::Map(Arc::new(entries.as_ref().clone().with_data_type(pair)), *is_sorted))
}

/// Functions that go by the order of a list's elements, or give some of them.
const ORDERING: [&str; 7] =
    ["list_sort", "list_reverse_sort", "list_grade_up", "list_min", "list_max", "list_aggregate", "list_histogram"];

/// Functions that seek their second argument among the elements of a list or the keys of a map, their first.
const SEEKING: [&str; 7] =
    ["array_has", "array_position", "array_positions", "contains", "map_extract", "map_extract_value", "map_contains"];

/// What a call that orders the elements of a list gives: one of them, or a value of a type.
enum Given {
    Element,
    Whole(DataType),
}

/// A call of a function that goes by the order of the elements of its first argument, if it is one; else the call as it is.
pub(super) fn by_order(mut call: ScalarFunction, schema: &DFSchema) -> Result<(Expr, Kind), ScalarFunction> {
    if !ORDERING.contains(&call.name()) {
        return Err(call);
    }
    let Some(Ok(list)) = call.args.first().map(|list| list.get_type(schema)) else { return Err(call) };
    let Some(element) = element_of(&list).filter(|_| is_inside(&list)).cloned() else { return Err(call) };
    let listed = || DataType::List(Arc::new(element.as_ref().clone().with_name("item").with_nullable(true)));
    let is_ordered = has_keys_inside(&list);
    let named = match call.args.get(1) {
        Some(Expr::Literal(name, _)) => name.try_as_str().flatten().map(str::to_lowercase),
        _ => None,
    };
    let given = match (call.name(), named.as_deref()) {
        ("list_sort" | "list_reverse_sort", _) => Given::Whole(listed()),
        ("list_grade_up", _) if is_ordered => Given::Whole(DataType::new_list(DataType::Int64, true)),
        ("list_min" | "list_max", _) if is_ordered => Given::Element,
        ("list_aggregate", Some("min" | "max")) if call.args.len() > 2 => Given::Whole(listed()),
        ("list_aggregate", Some("min" | "max")) => Given::Element,
        ("list_histogram", _) | ("list_aggregate", Some("histogram")) => {
            let plain = Expr::ScalarFunction(call.clone()).get_type(schema).ok();
            match plain.and_then(|plain| with_keys_of(&plain, &element)) {
                Some(map) => Given::Whole(map),
                None => return Err(call),
            }
        }
        ("list_aggregate", Some("mode" | "first" | "arbitrary" | "last" | "any_value")) => Given::Element,
        _ => return Err(call),
    };
    if let Some(first) = call.args.first_mut() {
        *first = keyed(std::mem::take(first), list);
    }
    let call = Expr::ScalarFunction(call);
    Ok(match (given, Own::of_field(&element)) {
        (Given::Element, Some(own)) if own.has_keys() => (of_key(call, &own), Kind::Own(own)),
        (Given::Element, Some(own)) => (call, Kind::Own(own)),
        (Given::Element, None) => (retyped(call, element.data_type().clone()), Kind::Other),
        (Given::Whole(data_type), _) if is_inside(&data_type) => (restored(call, data_type), Kind::Other),
        (Given::Whole(_), _) => (call, Kind::Other),
    })
}

/// The arguments of a call that seeks a value among the elements of a list or the keys of a map, where a text becomes such a value.
pub(super) fn sought(call: &mut ScalarFunction, kinds: &[Kind], schema: &DFSchema) {
    if !SEEKING.contains(&call.func.name()) {
        return;
    }
    let [whole, value] = call.args.as_mut_slice() else { return };
    let own = match whole.get_type(schema) {
        Ok(DataType::Map(entries, _)) => match entries.data_type() {
            DataType::Struct(pair) => pair.first().and_then(|key| Own::of_field(key)),
            _ => None,
        },
        Ok(list) => element_of(&list).and_then(|element| Own::of_field(element)),
        Err(_) => None,
    };
    let (Some(own), Some(kind)) = (own.filter(Own::is_compared_as_such), kinds.get(1)) else { return };
    let is_text = || value.get_type(schema).is_ok_and(|data_type| data_type.is_string());
    let becomes = *kind == Kind::Literal || (own.prevails() && *kind == Kind::Other && is_text());
    if becomes && let Some(made) = all_become(vec![std::mem::take(value)], std::slice::from_ref(kind), &own).pop() {
        *value = made;
    }
}

/// Puts keys in place of values in the arguments of an aggregate that goes by the order of its first one. Returns the type of
/// what it gives once the keys in it are values again; `None` of other aggregates. `given` is the type that it gives of values.
pub(super) fn aggregated(
    name: &str,
    args: &mut [Expr],
    kinds: &[Kind],
    given: impl FnOnce() -> Option<DataType>,
    schema: &DFSchema,
) -> Option<DataType> {
    let own = match kinds.first() {
        Some(Kind::Own(own)) if own.has_keys() => Some(own.clone()),
        _ => None,
    };
    let data_type = args.first()?.get_type(schema).ok()?;
    let of_value = Field::new_list_field(data_type.clone(), true);
    let of_value = own.as_ref().map_or_else(|| Arc::new(of_value.clone()), |own| part(&of_value, own));
    let is_concerned = is_inside(&data_type) || own.is_some();
    let target = match (name, args.len()) {
        ("min" | "max", 1) if is_inside(&data_type) => data_type.clone(),
        ("min_several" | "max_several", _) if is_concerned => DataType::List(of_value),
        ("histogram", 1) if is_concerned => with_keys_of(&given()?, &of_value)?,
        _ => return None,
    };
    let first = args.first_mut()?;
    let value = std::mem::take(first);
    *first = match own {
        Some(own) => key(value, &own),
        None => keyed(value, data_type),
    };
    Some(target)
}
