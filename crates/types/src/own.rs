//! The types whose values are texts.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, StringViewArray};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::metadata::FieldMetadata;
use datafusion::common::{Result, internal_err};
use forebay_base::Error;
use forebay_context::own_types;
use forebay_json::Document;
use forebay_json::document::is_valid;

use crate::bits::digits;
use crate::bits::numbers::{bits_of, has_bits};
use crate::enumeration::Enumeration;
use crate::zoned_times::{self, ZonedTime};

/// A type whose values are texts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Own {
    /// Of a list of texts, in their order.
    Enum(Arc<Enumeration>),
    /// 16 bytes in hexadecimal digits, in groups.
    Uuid,
    /// Bits, as their digits.
    Bit,
    /// Times of day with their distance from UTC.
    ZonedTime,
    /// JSON, as it was written.
    Json,
}

impl Own {
    /// The type of these words.
    pub fn of_text(text: &str) -> Option<Self> {
        match text {
            own_types::UUID => Some(Self::Uuid),
            own_types::BIT => Some(Self::Bit),
            own_types::ZONED_TIME => Some(Self::ZonedTime),
            own_types::JSON => Some(Self::Json),
            _ => Enumeration::of_text(text).map(|read| Self::Enum(Arc::new(read))),
        }
    }

    /// The type of a field.
    pub fn of_field(field: &Field) -> Option<Self> {
        own_types::of(field).and_then(Self::of_text)
    }

    /// The type in SQL's words.
    pub fn text(&self) -> &str {
        match self {
            Self::Enum(values) => values.text(),
            Self::Uuid => own_types::UUID,
            Self::Bit => own_types::BIT,
            Self::ZonedTime => own_types::ZONED_TIME,
            Self::Json => own_types::JSON,
        }
    }

    /// What marks a field of it.
    pub fn metadata(&self) -> FieldMetadata {
        FieldMetadata::from(BTreeMap::from([(own_types::KEY.to_owned(), own_types::name(self.text()))]))
    }

    /// A field of it.
    pub fn field(&self, name: &str, data_type: DataType) -> FieldRef {
        Arc::new(own_types::marked(Field::new(name, data_type, true), self.text()))
    }

    /// The value that a text is, as it is stored; `None` where it is none.
    pub fn value<'a>(&self, text: &'a str) -> Option<Cow<'a, str>> {
        match self {
            Self::Enum(values) => values.place(text).map(|_| Cow::Borrowed(text)),
            Self::Uuid => uuid(text).map(Cow::Owned),
            Self::Bit => digits::of_text(text),
            Self::ZonedTime => ZonedTime::read(text).map(|time| Cow::Owned(time.text())),
            Self::Json => is_valid(text).then_some(Cow::Borrowed(text)),
        }
    }

    /// That a text is no value.
    pub fn unknown(&self, text: &str) -> Error {
        match self {
            Self::Enum(values) => values.unknown(text),
            Self::Bit => digits::unknown(text),
            Self::ZonedTime => zoned_times::unknown(text),
            Self::Json => Document::read(text).err().unwrap_or_else(|| Error::internal("JSON is none")),
            Self::Uuid => {
                let shown: String = text.chars().take(40).collect();
                Error::input(format!("could not convert string {shown:?} to UUID"))
                    .hint("A UUID has 32 hexadecimal digits, as a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")
            }
        }
    }

    /// Whether texts that it is compared with become such values, too.
    pub fn is_compared_as_such(&self) -> bool {
        matches!(self, Self::Uuid | Self::Bit | Self::ZonedTime)
    }

    /// Whether values are in the order of keys, and not of their texts.
    pub fn has_keys(&self) -> bool {
        matches!(self, Self::Enum(_) | Self::ZonedTime)
    }

    /// The type of keys.
    pub fn key_type(&self) -> DataType {
        match self {
            Self::Enum(values) => values.place_type(),
            _ => DataType::Int64,
        }
    }

    /// The key of a value, by which it is ordered; `None` of a text that is no value.
    pub fn key(&self, text: &str) -> Option<i64> {
        match self {
            Self::Enum(values) => values.place(text).map(i64::from),
            Self::ZonedTime => ZonedTime::read(text).map(ZonedTime::key),
            _ => None,
        }
    }

    /// The value of a key.
    pub fn of_key(&self, key: i64) -> Option<Cow<'_, str>> {
        match self {
            Self::Enum(values) => usize::try_from(key).ok().and_then(|at| values.values().get(at)).map(|v| v.into()),
            Self::ZonedTime => Some(Cow::Owned(ZonedTime::of_key(key).text())),
            _ => None,
        }
    }

    /// Whether literals beside it become such values, where it does not prevail over all texts.
    pub fn adopts_literals(&self) -> bool {
        *self == Self::ZonedTime
    }

    /// Whether what is beside it becomes one, too.
    pub fn prevails(&self) -> bool {
        matches!(self, Self::Uuid | Self::Bit | Self::Json)
    }

    /// Whether values of another type than texts become such values.
    pub fn takes(&self, data_type: &DataType) -> bool {
        match self {
            Self::Bit => has_bits(data_type),
            Self::ZonedTime => zoned_times::is_time(data_type),
            _ => false,
        }
    }

    /// Values of a type that it takes, as texts of its own.
    ///
    /// # Errors
    /// Values that it does not have.
    pub fn taken(&self, values: &ArrayRef) -> Result<StringViewArray> {
        match self {
            Self::Bit => bits_of(values),
            Self::ZonedTime => zoned_times::texts_of(values),
            _ => internal_err!("{} takes texts alone", self.text()),
        }
    }
}

/// The usual form of a UUID, which may have other hyphens, or none, and braces around it.
fn uuid(text: &str) -> Option<String> {
    let inner = match text.strip_prefix('{') {
        Some(rest) => rest.strip_suffix('}')?,
        None => text,
    };
    let mut digits = String::with_capacity(36);
    let (mut count, mut was_hyphen) = (0, true);
    for byte in inner.bytes() {
        match byte {
            b'-' if !was_hyphen => was_hyphen = true,
            byte if byte.is_ascii_hexdigit() && count < 32 => {
                if matches!(count, 8 | 12 | 16 | 20) {
                    digits.push('-');
                }
                digits.push(char::from(byte.to_ascii_lowercase()));
                (count, was_hyphen) = (count + 1, false);
            }
            _ => return None,
        }
    }
    (count == 32 && !was_hyphen).then_some(digits)
}

/// Whether values of a type have such a type inside.
pub fn is_inside(data_type: &DataType) -> bool {
    let is_one = |field: &FieldRef| own_types::of(field).is_some() || is_inside(field.data_type());
    match data_type {
        DataType::List(element) | DataType::LargeList(element) | DataType::FixedSizeList(element, _) => is_one(element),
        DataType::Map(entries, _) => is_one(entries),
        DataType::Struct(fields) => fields.iter().any(is_one),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_have_one_form() {
        let usual = Some("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11".to_owned());
        for text in [
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
            "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11",
            "{a0eebc999c0b4ef8bb6d6bb9bd380a11}",
            "a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11",
        ] {
            assert_eq!(uuid(text), usual, "{text}");
        }
        for text in [
            "",
            "x",
            "a0eebc999c0b4ef8bb6d6bb9bd380a1",
            "a0eebc999c0b4ef8bb6d6bb9bd380a111",
            "{a0eebc999c0b4ef8bb6d6bb9bd380a11",
        ] {
            assert_eq!(uuid(text), None, "{text}");
        }
    }
}
