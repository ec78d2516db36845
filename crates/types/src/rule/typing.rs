//! Rewriting an expression from its leaves up, where each node is told which of its children have a type of texts.

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRewriter};
use datafusion::common::{DFSchema, ExprSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{AggregateFunction, Cast, TryCast, WindowFunction};
use datafusion::logical_expr::{Case, Expr, ExprSchemable};
use datafusion::prelude::try_cast;
use forebay_base::Error;
use forebay_context::error::into_datafusion;
use forebay_syntax::types::shown_type;

use super::{calls, comparisons};
use crate::bit_functions::casts::from_bits;
use crate::bits::numbers::has_bits;
use crate::functions::{as_written, json_text, to_own, uuid_bytes};
use crate::json_values::shaped;
use crate::marks::{before_check, checked, has_keys_inside, keyed};
use crate::own::{Own, is_inside};
use crate::zoned_functions::{in_zone, local};

/// What an expression is, as far as this rule cares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    /// A value of such a type.
    Own(Own),
    /// A list of such values that is not marked as one yet.
    Listed(Own),
    /// A value of this type, with keys in place of values, and without marks yet.
    Keyed(DataType),
    /// NULL without a type.
    Null,
    /// A text in the statement, which becomes what is beside it.
    Literal,
    /// Another.
    Other,
}

impl Kind {
    pub(super) fn of_field(field: &Field) -> Self {
        match Own::of_field(field) {
            Some(own) => Self::Own(own),
            None if field.data_type().is_null() => Self::Null,
            None => Self::Other,
        }
    }
}

/// The type that values of these kinds have in common; there is none where one has another.
pub(super) fn common(kinds: &[Kind]) -> Option<Own> {
    let mut found: Option<&Own> = None;
    for kind in kinds {
        match (kind, found) {
            (Kind::Null, _) => {}
            (Kind::Own(own), None) => found = Some(own),
            (Kind::Own(own), Some(known)) if own == known => {}
            _ => return None,
        }
    }
    found.cloned()
}

/// An expression over columns of this schema, rewritten, and what it is.
pub(super) fn typed(expr: Expr, schema: &DFSchema) -> Result<(Expr, Kind)> {
    let mut typing = Typing { schema, kinds: Vec::new(), begins: Vec::new() };
    let expr = expr.rewrite(&mut typing)?.data;
    Ok((expr, typing.kinds.pop().unwrap_or(Kind::Other)))
}

struct Typing<'a> {
    schema: &'a DFSchema,
    /// Of the nodes that are done and whose parents are not.
    kinds: Vec<Kind>,
    /// Where in `kinds` those of the children begin, of each node that is not done.
    begins: Vec<usize>,
}

impl TreeNodeRewriter for Typing<'_> {
    type Node = Expr;

    fn f_down(&mut self, expr: Expr) -> Result<Transformed<Expr>> {
        self.begins.push(self.kinds.len());
        Ok(Transformed::no(expr))
    }

    fn f_up(&mut self, expr: Expr) -> Result<Transformed<Expr>> {
        let begin = self.begins.pop().unwrap_or_default();
        let children = self.kinds.split_off(begin);
        let (expr, kind) = node(expr, &children, self.schema)?;
        self.kinds.push(kind);
        Ok(Transformed::yes(expr))
    }
}

/// A node whose children are of these kinds.
fn node(expr: Expr, children: &[Kind], schema: &DFSchema) -> Result<(Expr, Kind)> {
    let told = |expr: &Expr| match expr.to_field(schema) {
        Ok((_, field)) => Kind::of_field(&field),
        Err(_) => Kind::Other,
    };
    let only = || children.first().cloned().unwrap_or(Kind::Other);
    Ok(match expr {
        Expr::Column(column) => {
            let kind = schema.field_from_column(&column).map_or(Kind::Other, |field| Kind::of_field(field));
            (Expr::Column(column), kind)
        }
        Expr::Literal(ScalarValue::Null, metadata) => (Expr::Literal(ScalarValue::Null, metadata), Kind::Null),
        Expr::Literal(value, None) if value.data_type().is_string() => (Expr::Literal(value, None), Kind::Literal),
        Expr::Literal(..) | Expr::OuterReferenceColumn(..) | Expr::ScalarVariable(..) | Expr::ScalarSubquery(_) => {
            let kind = told(&expr);
            (expr, kind)
        }
        Expr::Alias(_) | Expr::Unnest(_) => {
            let kind = if matches!(expr, Expr::Alias(_)) { only() } else { told(&expr) };
            (expr, kind)
        }
        Expr::Cast(cast) if Own::of_field(&cast.field).is_some() || is_inside(cast.field.data_type()) => {
            converted(*cast.expr, &only(), &cast.field, false, schema)?
        }
        Expr::TryCast(cast) if Own::of_field(&cast.field).is_some() || is_inside(cast.field.data_type()) => {
            converted(*cast.expr, &only(), &cast.field, true, schema)?
        }
        Expr::Cast(cast) => (cast_away(cast.expr, cast.field, &only(), false)?, Kind::Other),
        Expr::TryCast(cast) => (cast_away(cast.expr, cast.field, &only(), true)?, Kind::Other),
        Expr::InSubquery(membership) => match only() {
            Kind::Own(own) if own.is_compared_as_such() => (comparisons::member(membership, &own)?, Kind::Other),
            _ => (Expr::InSubquery(membership), Kind::Other),
        },
        Expr::BinaryExpr(_) | Expr::Between(_) | Expr::InList(_) | Expr::Like(_) => {
            (comparisons::rewritten(comparisons::by_parts(expr, schema), children), Kind::Other)
        }
        Expr::Case(case) => {
            let case = comparisons::compared(case, children);
            let results = results(&case, children);
            match prevailing(&results) {
                Some(own) => (Expr::Case(all_branches(case, &results, &own)), Kind::Own(own)),
                None => {
                    let kind = common(&results).map_or(Kind::Other, Kind::Own);
                    (Expr::Case(case), kind)
                }
            }
        }
        Expr::ScalarFunction(call) => calls::scalar(call, children, schema)?,
        Expr::AggregateFunction(AggregateFunction { func, params }) => {
            let first_sort = params.args.len() + usize::from(params.filter.is_some());
            let sorts = children.get(first_sort..).unwrap_or_default();
            calls::aggregate(AggregateFunction { func, params }, children, sorts, schema)?
        }
        Expr::WindowFunction(window) => {
            let WindowFunction { fun, params } = *window;
            let first_sort = params.args.len() + params.partition_by.len();
            let sorts = children.get(first_sort..first_sort + params.order_by.len()).unwrap_or_default();
            calls::window(WindowFunction { fun, params }, children, sorts, schema)?
        }
        other => (other, Kind::Other),
    })
}

/// A value by whose order such values are ordered.
pub(super) fn by_keys_inside(value: Expr, schema: &DFSchema) -> Expr {
    match value.get_type(schema) {
        Ok(data_type) if has_keys_inside(&data_type) => keyed(value, data_type),
        _ => value,
    }
}

/// Whether values of a type are read from what stands between the quotes of a JSON string.
fn is_of_text(data_type: &DataType) -> bool {
    !data_type.is_string() && !data_type.is_nested()
}

fn is_binary(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Binary | DataType::BinaryView | DataType::LargeBinary)
}

/// A cast of a value of this kind to a type that is none of these.
fn cast_away(value: Box<Expr>, target: FieldRef, kind: &Kind, or_null: bool) -> Result<Expr> {
    let data_type = target.data_type();
    let value = match kind {
        Kind::Own(Own::Uuid) if is_binary(data_type) => return Ok(uuid_bytes(*value)),
        Kind::Own(Own::Bit) if !data_type.is_string() => return number_of(*value, data_type, or_null),
        Kind::Own(Own::ZonedTime) if !data_type.is_string() => return time_of(*value, data_type, or_null),
        Kind::Own(Own::Json) if is_of_text(data_type) => Box::new(json_text(*value)),
        Kind::Own(Own::Json) if data_type.is_nested() => Box::new(shaped(*value, data_type, or_null)),
        _ => value,
    };
    Ok(match or_null {
        true => Expr::TryCast(TryCast::new_from_field(value, target)),
        false => Expr::Cast(Cast::new_from_field(value, target)),
    })
}

/// A time with its distance from UTC as a value of another type.
fn time_of(value: Expr, target: &DataType, or_null: bool) -> Result<Expr> {
    match target {
        DataType::Time64(_) => Ok(local(value)),
        // What AT TIME ZONE is planned as.
        DataType::Timestamp(TimeUnit::Nanosecond, Some(zone)) => in_zone(value, zone),
        _ if or_null => Ok(Expr::Literal(ScalarValue::try_from(target)?, None)),
        _ => {
            let message = format!("TIME WITH TIME ZONE cannot be cast to {}", shown_type(target));
            Err(into_datafusion(Error::input(message).hint("Cast it to TIME or to VARCHAR first")))
        }
    }
}

/// Bits as a value of another type.
fn number_of(bits: Expr, target: &DataType, or_null: bool) -> Result<Expr> {
    match has_bits(target) {
        true => Ok(from_bits(bits, target.clone(), or_null)),
        false if or_null => Ok(Expr::Literal(ScalarValue::try_from(target)?, None)),
        false => {
            let message = format!("BIT cannot be cast to {}", shown_type(target));
            Err(into_datafusion(Error::input(message).hint("Cast it to VARCHAR or to an integer first")))
        }
    }
}

/// The type that values of these kinds become, where one of them prevails.
pub(super) fn prevailing(kinds: &[Kind]) -> Option<Own> {
    let own = |prevails: fn(&Own) -> bool| {
        kinds.iter().find_map(|kind| match kind {
            Kind::Own(own) if prevails(own) => Some(own.clone()),
            _ => None,
        })
    };
    let adopts = |own: &Own| {
        kinds.iter().all(|kind| match kind {
            Kind::Own(other) => other == own,
            kind => matches!(kind, Kind::Literal | Kind::Null),
        })
    };
    own(Own::prevails).or_else(|| own(Own::adopts_literals).filter(adopts))
}

/// Values of these kinds as such of a type.
pub(super) fn all_become(values: Vec<Expr>, kinds: &[Kind], own: &Own) -> Vec<Expr> {
    let kinds = kinds.iter().map(Some).chain(std::iter::repeat(None));
    let one = |(value, kind): (Expr, Option<&Kind>)| match kind {
        Some(Kind::Own(known)) if known == own => value,
        Some(Kind::Null) => value,
        _ => match &value {
            Expr::Literal(literal, _) => match literal.try_as_str().flatten().and_then(|text| own.value(text)) {
                Some(known) => Expr::Literal(ScalarValue::Utf8View(Some(known.into_owned())), Some(own.metadata())),
                None => to_own(as_written(value), own.clone(), false),
            },
            _ => to_own(as_written(value), own.clone(), false),
        },
    };
    values.into_iter().zip(kinds).map(one).collect()
}

/// A CASE whose results, of these kinds, are of one type.
fn all_branches(mut case: Case, kinds: &[Kind], own: &Own) -> Case {
    let kind = |index: usize| kinds.get(index).map_or(&[][..], std::slice::from_ref);
    let one = |value: &mut Expr, index: usize| {
        if let Some(made) = all_become(vec![std::mem::take(value)], kind(index), own).pop() {
            *value = made;
        }
    };
    let thens = case.when_then_expr.len();
    case.when_then_expr.iter_mut().enumerate().for_each(|(index, (_, then))| one(then, index));
    if let Some(otherwise) = &mut case.else_expr {
        one(otherwise, thens);
    }
    case
}

/// What the branches of a CASE give.
fn results(case: &Case, children: &[Kind]) -> Vec<Kind> {
    let first = usize::from(case.expr.is_some());
    let thens = (0..case.when_then_expr.len()).map(|index| children.get(first + 2 * index + 1));
    let otherwise = case.else_expr.as_ref().map(|_| children.last());
    thens.chain(otherwise).map(|kind| kind.cloned().unwrap_or(Kind::Other)).collect()
}

fn cast_text(value: Expr) -> Expr {
    datafusion::prelude::cast(value, DataType::Utf8View)
}

/// A value as one of this field.
fn converted(value: Expr, kind: &Kind, target: &Field, or_null: bool, schema: &DFSchema) -> Result<(Expr, Kind)> {
    let Some(own) = Own::of_field(target) else {
        let value = match kind {
            Kind::Own(Own::Json) => shaped(value, target.data_type(), or_null),
            _ => value,
        };
        let between = match value.get_type(schema) {
            Ok(source) => before_check(&source, target),
            Err(_) => target.data_type().clone(),
        };
        let cast = if or_null { try_cast(value, between) } else { datafusion::prelude::cast(value, between) };
        return Ok((checked(cast, target.data_type().clone(), or_null), Kind::Other));
    };
    if *kind == Kind::Own(own.clone()) {
        return Ok((value, Kind::Own(own)));
    }
    if let Expr::Literal(literal, _) = &value
        && let Some(text) = literal.try_as_str()
        && text.is_none_or(|text| own.value(text).is_some())
    {
        let value = text.and_then(|text| own.value(text)).map(|value| value.into_owned());
        return Ok((Expr::Literal(ScalarValue::Utf8View(value), Some(own.metadata())), Kind::Own(own)));
    }
    match value.get_type(schema) {
        Ok(source) if own.takes(&source) => Ok((to_own(as_written(value), own.clone(), or_null), Kind::Own(own))),
        // Numbers and truth values are written as in SQL.
        Ok(source) if own == Own::Json && (source.is_numeric() || source == DataType::Boolean) => {
            Ok((to_own(cast_text(value), own.clone(), or_null), Kind::Own(own)))
        }
        Ok(source) if !source.is_string() && !source.is_null() => {
            let message = format!("{} cannot be cast to {}", shown_type(&source), own.text());
            Err(into_datafusion(Error::input(message).hint("Cast it to VARCHAR first")))
        }
        Ok(DataType::Null) => Ok((Expr::Literal(ScalarValue::Utf8View(None), Some(own.metadata())), Kind::Own(own))),
        _ => Ok((to_own(value, own.clone(), or_null), Kind::Own(own))),
    }
}
