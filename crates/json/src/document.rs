//! A JSON text that was read, and what functions tell of it.

use std::fmt;

use forebay_base::{Error, Result};
pub use serde_json::Value;

/// The members of an object, in their order.
pub type Members = serde_json::Map<String, Value>;

/// Characters of a text that an error shows.
const SHOWN: usize = 60;

/// A JSON text that was read. Its members keep their order.
#[derive(Debug, Clone, PartialEq)]
pub struct Document(pub Value);

impl fmt::Display for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Whether a text is JSON.
pub fn is_valid(text: &str) -> bool {
    serde_json::from_str::<Value>(text).is_ok()
}

impl Document {
    /// Reads a text.
    ///
    /// # Errors
    /// A text that is no JSON, with the place.
    pub fn read(text: &str) -> Result<Self> {
        serde_json::from_str(text).map(Self).map_err(|error| {
            let shown: String = text.chars().take(SHOWN).collect();
            let place = format!("line {}, column {}", error.line(), error.column());
            Error::input(format!("malformed JSON at {place} of {shown:?}"))
        })
    }

    /// The name of the type of a value.
    pub fn type_name(value: &Value) -> &'static str {
        match value {
            Value::Null => "NULL",
            Value::Bool(_) => "BOOLEAN",
            Value::Number(number) if number.is_u64() => "UBIGINT",
            Value::Number(number) if number.is_i64() => "BIGINT",
            Value::Number(_) => "DOUBLE",
            Value::String(_) => "VARCHAR",
            Value::Array(_) => "ARRAY",
            Value::Object(_) => "OBJECT",
        }
    }

    /// A value as a text: a string without its quotes; `None` of null.
    pub fn text(value: &Value) -> Option<String> {
        match value {
            Value::Null => None,
            Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        }
    }

    /// The structure of a value: the types in place of the values.
    pub fn structure(value: &Value) -> Value {
        match value {
            Value::Array(elements) => {
                let types = elements.iter().map(Self::structure);
                Value::Array(vec![types.reduce(both).unwrap_or_else(|| Value::from("NULL"))])
            }
            Value::Object(members) => {
                Value::Object(members.iter().map(|(name, value)| (name.clone(), Self::structure(value))).collect())
            }
            other => Value::from(Self::type_name(other)),
        }
    }

    /// `value` with what `patch` says of its members: null takes one away.
    pub fn merged(value: Value, patch: Value) -> Value {
        let Value::Object(changes) = patch else { return patch };
        let mut members = match value {
            Value::Object(members) => members,
            _ => serde_json::Map::new(),
        };
        for (name, change) in changes {
            match change {
                Value::Null => {
                    members.shift_remove(&name);
                }
                change => {
                    let old = members.get(&name).cloned().unwrap_or(Value::Null);
                    members.insert(name, Self::merged(old, change));
                }
            }
        }
        Value::Object(members)
    }

    /// Whether `part` is in `whole`: an object with some of its members, an array with some of its elements, or an equal value.
    pub fn contains(whole: &Value, part: &Value) -> bool {
        let is_here = match (whole, part) {
            (Value::Object(whole), Value::Object(part)) => {
                part.iter().all(|(name, value)| whole.get(name).is_some_and(|own| Self::contains(own, value)))
            }
            (Value::Array(whole), Value::Array(part)) => {
                part.iter().all(|value| whole.iter().any(|own| Self::contains(own, value)))
            }
            (whole, part) => whole == part,
        };
        is_here
            || match whole {
                Value::Array(elements) => elements.iter().any(|element| Self::contains(element, part)),
                Value::Object(members) => members.values().any(|member| Self::contains(member, part)),
                _ => false,
            }
    }

    /// The value over several lines.
    pub fn pretty(value: &Value) -> String {
        let mut out = String::new();
        indented(value, 0, &mut out);
        out
    }
}

/// What two structures have in common.
fn both(left: Value, right: Value) -> Value {
    if left == right || right == "NULL" {
        return left;
    }
    if left == "NULL" {
        return right;
    }
    match (left, right) {
        (Value::Object(mut left), Value::Object(right)) => {
            for (name, value) in right {
                let merged = match left.get(&name).cloned() {
                    Some(own) => both(own, value),
                    None => value,
                };
                left.insert(name, merged);
            }
            Value::Object(left)
        }
        (Value::Array(mut left), Value::Array(mut right)) => match (left.pop(), right.pop()) {
            (Some(left), Some(right)) => Value::Array(vec![both(left, right)]),
            (one, other) => Value::Array(one.or(other).into_iter().collect()),
        },
        (left, right) => Value::from(both_names(&left, &right)),
    }
}

/// The type that has the values of two types, which differ: JSON where they are not both numbers.
fn both_names(left: &Value, right: &Value) -> &'static str {
    const NUMBERS: [&str; 4] = ["UBIGINT", "BIGINT", "HUGEINT", "DOUBLE"];
    let rank = |value: &Value| NUMBERS.iter().position(|name| value == name);
    match (rank(left), rank(right)) {
        (Some(left), Some(right)) if left.max(right) == NUMBERS.len() - 1 => "DOUBLE",
        (Some(_), Some(_)) => "HUGEINT",
        _ => "JSON",
    }
}

fn indented(value: &Value, depth: usize, out: &mut String) {
    let line = |depth: usize| format!("\n{}", "    ".repeat(depth));
    match value {
        Value::Array(elements) if !elements.is_empty() => {
            out.push('[');
            for (index, element) in elements.iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                out.push_str(&line(depth + 1));
                indented(element, depth + 1, out);
            }
            out.push_str(&line(depth));
            out.push(']');
        }
        Value::Object(members) if !members.is_empty() => {
            out.push('{');
            for (index, (name, member)) in members.iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                out.push_str(&line(depth + 1));
                out.push_str(&format!("{}: ", Value::from(name.as_str())));
                indented(member, depth + 1, out);
            }
            out.push_str(&line(depth));
            out.push('}');
        }
        other => out.push_str(&other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Value {
        Document::read(text).expect("JSON").0
    }

    #[test]
    fn structures_have_the_widest_types() {
        let shown = Document::structure(&read(
            r#"{"b": [1, -2, 2.5], "a": {"x": null}, "c": [{"p": 1}, {"q": "x"}], "d": [], "e": [1, -1], "f": [1, "x"]}"#,
        ));
        let wanted = r#"{"b":["DOUBLE"],"a":{"x":"NULL"},"c":[{"p":"UBIGINT","q":"VARCHAR"}],"d":["NULL"],"e":["HUGEINT"],"f":["JSON"]}"#;
        assert_eq!(shown.to_string(), wanted);
    }

    #[test]
    fn parts_are_found_at_any_depth() {
        let whole = read(r#"{"a": [1, {"b": 2}], "c": "x"}"#);
        for (part, is_in) in
            [("1", true), (r#"{"b":2}"#, true), (r#"{"c":"x"}"#, true), ("3", false), (r#"[{"b":2}]"#, true)]
        {
            assert_eq!(Document::contains(&whole, &read(part)), is_in, "{part}");
        }
    }

    #[test]
    fn patches_take_members_away() {
        let merged = Document::merged(read(r#"{"a":1,"b":{"c":1,"d":2}}"#), read(r#"{"b":{"c":null,"e":3},"a":null}"#));
        assert_eq!(merged.to_string(), r#"{"b":{"d":2,"e":3}}"#);
    }
}
