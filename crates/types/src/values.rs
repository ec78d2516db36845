//! Rows of VALUES: where a column has values of a type of texts, NULLs and literals beside them become such values. The planner
//! takes columns of one type alone.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, Expr, Parens, Query, SetExpr, Statement, TypedString, Value, VisitorMut,
};
use forebay_base::{Error, Result};
use forebay_grammar::walk::Tree;

use crate::own::Own;
use crate::planned::own_type;

/// Gives each column of VALUES in a statement one type, where it has a type of texts.
///
/// # Errors
/// An ENUM with a value twice.
pub fn unify(statement: &mut Statement) -> Result<()> {
    let mut unifying = Unifying { wrong: None };
    match (statement.walk_mut(&mut unifying), unifying.wrong) {
        (ControlFlow::Break(()), Some(error)) => Err(error),
        _ => Ok(()),
    }
}

struct Unifying {
    wrong: Option<Error>,
}

impl VisitorMut for Unifying {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        match in_body(&mut query.body) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                self.wrong = Some(error);
                ControlFlow::Break(())
            }
        }
    }
}

fn in_body(body: &mut SetExpr) -> Result<()> {
    match body {
        SetExpr::Values(values) if values.rows.len() > 1 => in_rows(&mut values.rows),
        SetExpr::SetOperation { left, right, .. } => {
            in_body(left)?;
            in_body(right)
        }
        _ => Ok(()),
    }
}

/// The type of texts that a value is cast to, if it is.
fn cast_type(value: &Expr) -> Result<Option<(Own, &DataType)>> {
    match value {
        Expr::Cast { data_type, .. } | Expr::TypedString(TypedString { data_type, .. }) => {
            Ok(own_type(data_type)?.map(|own| (own, data_type)))
        }
        Expr::Nested(inner) => cast_type(inner),
        _ => Ok(None),
    }
}

fn is_literal(value: &Expr) -> bool {
    match value {
        Expr::Value(value) => matches!(value.value, Value::Null | Value::SingleQuotedString(_)),
        Expr::Nested(inner) => is_literal(inner),
        _ => false,
    }
}

fn in_rows(rows: &mut [Parens<Vec<Expr>>]) -> Result<()> {
    let columns = rows.iter().map(|row| row.content.len()).min().unwrap_or_default();
    for column in 0..columns {
        let mut found: Option<(Own, DataType)> = None;
        let mut is_one = true;
        let mut is_all = true;
        for row in rows.iter() {
            let value = &row.content[column];
            match (cast_type(value)?, &found) {
                (Some((own, data_type)), None) => found = Some((own, data_type.clone())),
                (Some((own, _)), Some((known, _))) => is_one &= own == *known,
                (None, _) => {
                    is_all = false;
                    is_one &= is_literal(value) || found.as_ref().is_none_or(|(own, _)| own.prevails());
                }
            }
        }
        let Some((_, data_type)) = found.filter(|_| !is_one || !is_all) else { continue };
        let target = if is_one { data_type } else { DataType::Varchar(None) };
        for row in rows.iter_mut() {
            let value = &mut row.content[column];
            if !is_one || cast_type(value)?.is_none() {
                let inner = Box::new(std::mem::replace(value, Expr::Value(Value::Null.into())));
                let data_type = target.clone();
                *value = Expr::Cast { kind: CastKind::Cast, expr: inner, data_type, array: false, format: None };
            }
        }
    }
    Ok(())
}
