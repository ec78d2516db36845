//! Names of types in SQL as types of values: those of `syntax`, and those whose values are texts.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::sql::sqlparser::ast::{DataType as SqlType, TimezoneInfo};
use forebay_context::error::into_datafusion;
use forebay_syntax::types::TypeNames;

use crate::enumeration::Enumeration;
use crate::names::parsed;
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
        SqlType::Time(_, TimezoneInfo::Tz | TimezoneInfo::WithTimeZone) => Ok(Some(Own::ZonedTime)),
        SqlType::Bit(_) | SqlType::BitVarying(_) | SqlType::VarBit(_) => Ok(Some(Own::Bit)),
        SqlType::Custom(name, _) if name.to_string().eq_ignore_ascii_case("bitstring") => Ok(Some(Own::Bit)),
        _ => Ok(None),
    }
}

/// Whether this is a map with keys or values of such a type, whose parts the parser has as texts.
fn has_own_part(data_type: &SqlType) -> bool {
    let SqlType::Custom(name, parts) = data_type else { return false };
    let is_own = |part: &String| parsed(part).is_ok_and(|part| own_type(&part).is_ok_and(|own| own.is_some()));
    parts.len() == 2 && name.to_string().eq_ignore_ascii_case("map") && parts.iter().any(is_own)
}

impl TypePlanner for Types {
    fn plan_type_field(&self, data_type: &SqlType) -> Result<Option<FieldRef>> {
        match own_type(data_type).map_err(into_datafusion)? {
            Some(own) => return Ok(Some(own.field("", DataType::Utf8View))),
            None if !has_own_part(data_type) => return TypeNames.plan_type_field(data_type),
            None => {}
        }
        let SqlType::Custom(_, parts) = data_type else { return Ok(None) };
        let part = |(name, text): (&str, &String)| -> Result<Field> {
            let planned = self.plan_type_field(&parsed(text).map_err(into_datafusion)?)?;
            let Some(field) = planned else { return plan_err!("a map of {text} is not supported") };
            Ok(field.as_ref().clone().with_name(name).with_nullable(name == "value"))
        };
        let fields = ["key", "value"].into_iter().zip(parts).map(part).collect::<Result<Vec<_>>>()?;
        let entries = Field::new("entries", DataType::Struct(fields.into()), false);
        Ok(Some(Arc::new(Field::new("", DataType::Map(Arc::new(entries), false), true))))
    }
}
