//! Names of types in SQL as types of values: those of `syntax`, and those whose values are texts.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::Result;
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::sql::sqlparser::ast::DataType as SqlType;
use forebay_context::error::into_datafusion;
use forebay_syntax::types::TypeNames;

use crate::enumeration::Enumeration;
use crate::own::Own;

/// Gives DataFusion our meaning of type names.
pub struct Types;

impl fmt::Debug for Types {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Types")
    }
}

/// The type whose values are texts that a type in SQL is, if it is one.
///
/// # Errors
/// An ENUM with a value twice.
pub fn own_type(data_type: &SqlType) -> forebay_base::Result<Option<Own>> {
    match data_type {
        SqlType::Enum(members, _) => Ok(Some(Own::Enum(Arc::new(Enumeration::of_members(members)?)))),
        SqlType::JSON => Ok(Some(Own::Json)),
        SqlType::Uuid => Ok(Some(Own::Uuid)),
        _ => Ok(None),
    }
}

impl TypePlanner for Types {
    fn plan_type_field(&self, data_type: &SqlType) -> Result<Option<FieldRef>> {
        match own_type(data_type).map_err(into_datafusion)? {
            Some(own) => Ok(Some(own.field("", DataType::Utf8View))),
            None => TypeNames.plan_type_field(data_type),
        }
    }
}
