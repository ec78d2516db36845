//! An ENUM: its values in their order, and the text by which it is known.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};

use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{DataType as SqlType, EnumMember};
use forebay_base::{Error, Result};

/// An ENUM. Two of the same values in the same order are the same type, whatever they are called.
#[derive(Debug)]
pub struct Enumeration {
    text: String,
    values: Vec<String>,
    places: HashMap<String, u32>,
}

impl PartialEq for Enumeration {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Enumeration {}

impl Hash for Enumeration {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl Enumeration {
    /// The ENUM of these values.
    ///
    /// # Errors
    /// A value that is there twice.
    pub fn new(values: Vec<String>) -> Result<Self> {
        let mut places = HashMap::with_capacity(values.len());
        for (place, value) in values.iter().enumerate() {
            if places.insert(value.clone(), place as u32).is_some() {
                return Err(Error::input(format!("an ENUM has each value once, and {value:?} is there twice")));
            }
        }
        let quoted: Vec<String> = values.iter().map(|value| format!("'{}'", value.replace('\'', "''"))).collect();
        Ok(Self { text: format!("ENUM({})", quoted.join(", ")), values, places })
    }

    /// The ENUM that SQL writes so.
    ///
    /// # Errors
    /// Values with numbers, and what [`Enumeration::new`] does not take.
    pub fn of_members(members: &[EnumMember]) -> Result<Self> {
        let value = |member: &EnumMember| match member {
            EnumMember::Name(name) => Ok(name.clone()),
            EnumMember::NamedValue(name, _) => {
                Err(Error::unsupported(format!("the value {name:?} of an ENUM has a number of its own"))
                    .hint("Values are numbered in their order"))
            }
        };
        Self::new(members.iter().map(value).collect::<Result<_>>()?)
    }

    /// The ENUM of the text that [`Enumeration::text`] gives.
    pub fn of_text(text: &str) -> Option<Self> {
        let mut rest = text.strip_prefix("ENUM(")?.strip_suffix(')')?;
        let mut values = Vec::new();
        while !rest.is_empty() {
            let (value, behind) = quoted(rest)?;
            values.push(value);
            rest = match behind.strip_prefix(", ") {
                Some(next) if !next.is_empty() => next,
                Some(_) => return None,
                None if behind.is_empty() => behind,
                None => return None,
            };
        }
        Self::new(values).ok()
    }

    /// The type in SQL's words: `ENUM('a', 'b')`.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The type as the parser has it.
    pub fn sql(&self) -> SqlType {
        SqlType::Enum(self.values.iter().cloned().map(EnumMember::Name).collect(), None)
    }

    /// All values, in their order.
    pub fn values(&self) -> &[String] {
        &self.values
    }

    /// The place of a value, counted from 0.
    pub fn place(&self, value: &str) -> Option<u32> {
        self.places.get(value).copied()
    }

    /// The type of places.
    pub fn place_type(&self) -> DataType {
        match self.values.len() {
            0..=0xff => DataType::UInt8,
            0x100..=0xffff => DataType::UInt16,
            _ => DataType::UInt32,
        }
    }

    /// A place as a value of [`Enumeration::place_type`].
    pub fn place_value(&self, place: Option<u32>) -> ScalarValue {
        match self.place_type() {
            DataType::UInt8 => ScalarValue::UInt8(place.map(|place| place as u8)),
            DataType::UInt16 => ScalarValue::UInt16(place.map(|place| place as u16)),
            _ => ScalarValue::UInt32(place),
        }
    }

    /// That a text is none of the values.
    pub fn unknown(&self, value: &str) -> Error {
        let shown: String = value.chars().take(40).collect();
        let listed: Vec<&str> = self.values.iter().take(8).map(String::as_str).collect();
        let more = self.values.len().saturating_sub(listed.len());
        let more = if more > 0 { format!(", … {more} more") } else { String::new() };
        Error::input(format!("could not convert string {shown:?} to an ENUM that does not have it"))
            .hint(format!("Its values are {}{more}", listed.join(", ")))
    }
}

/// The value in quotes that a text begins with, and what is behind it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut rest = text.strip_prefix('\'')?;
    let mut value = String::new();
    loop {
        let end = rest.find('\'')?;
        value.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        // Two quotes in a row are one of the value.
        match rest.strip_prefix('\'') {
            Some(behind) => {
                value.push('\'');
                rest = behind;
            }
            None => return Some((value, rest)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_an_enum_is_read_again() {
        for values in [&["a", "b"][..], &[], &[""], &["it's", "'", "''", "a, b", "')"], &["', '", "x"]] {
            let values: Vec<String> = values.iter().map(|value| (*value).to_owned()).collect();
            let made = Enumeration::new(values.clone()).expect("different values");
            let read = Enumeration::of_text(made.text()).expect("its own text");
            assert_eq!(read.values(), values, "{}", made.text());
        }
        for wrong in ["ENUM", "ENUM('a'", "ENUM('a)", "ENUM(a)", "ENUM('a', 'a')"] {
            assert!(Enumeration::of_text(wrong).is_none(), "{wrong}");
        }
    }
}
