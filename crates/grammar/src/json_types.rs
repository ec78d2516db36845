//! The type that a structure of JSON describes, as `json_transform` takes it: `{"a": "INTEGER", "b": ["VARCHAR"]}`.

use datafusion::sql::sqlparser::ast::{Expr, Value, ValueWithSpan};
use forebay_json::{Document, Value as Json};

/// The type in SQL's words; `None` of NULL.
///
/// # Errors
/// What is no literal, or describes no type.
pub(crate) fn of_structure(structure: &Expr) -> Result<Option<String>, &'static str> {
    match structure {
        Expr::Value(ValueWithSpan { value: Value::Null, .. }) => Ok(None),
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) => {
            let document = Document::read(text).map_err(|_| "the structure of json_transform is no JSON")?;
            described(&document.0).map(Some)
        }
        _ => Err("the structure of json_transform is a text, as '{\"a\": \"INTEGER\"}'"),
    }
}

fn described(structure: &Json) -> Result<String, &'static str> {
    match structure {
        Json::String(name) => Ok(name.clone()),
        Json::Array(elements) => match elements.as_slice() {
            [element] => Ok(format!("{}[]", described(element)?)),
            _ => Err("a list in the structure of json_transform has one type, as [\"INTEGER\"]"),
        },
        Json::Object(members) if !members.is_empty() => {
            let field =
                |(name, part): (&String, &Json)| Ok(format!("\"{}\" {}", name.replace('"', "\"\""), described(part)?));
            let fields = members.iter().map(field).collect::<Result<Vec<_>, &'static str>>()?;
            Ok(format!("STRUCT({})", fields.join(", ")))
        }
        _ => Err("the structure of json_transform has names of types, lists and objects of them"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_are_types() {
        let told = |text: &str| of_structure(&Expr::Value(Value::SingleQuotedString(text.to_owned()).into()));
        let nested = r#"{"a": ["INTEGER"], "b c": {"d": "DATE"}}"#;
        assert_eq!(told(nested), Ok(Some(r#"STRUCT("a" INTEGER[], "b c" STRUCT("d" DATE))"#.to_owned())));
        assert_eq!(told("\"JSON\""), Ok(Some("JSON".to_owned())));
        assert!(told("{}").is_err() && told("[]").is_err() && told("5").is_err() && told("{").is_err());
        assert_eq!(of_structure(&Expr::Value(Value::Null.into())), Ok(None));
    }
}
