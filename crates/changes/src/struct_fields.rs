//! ALTER TABLE … ADD, DROP and RENAME COLUMN of a field of a struct, `s.a`, also in structs and lists within: the type that the column
//! has then, and the expression of its values.

use datafusion::sql::sqlparser::ast::{ArrayElemTypeDef, DataType, Expr, Ident, ObjectName, StructField};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use forebay_base::{Error, ErrorKind, Result};
use forebay_store::names_equal;
use forebay_syntax::dialect::ForebayDialect;
use forebay_syntax::parse;

use crate::columns::quoted;

/// What the elements of a list are called in a path.
const ELEMENT: &str = "element";

/// The statement, taken apart.
#[derive(Debug)]
pub struct FieldChange {
    /// The table.
    pub table: ObjectName,
    /// Nothing happens where it is not there.
    pub if_exists: bool,
    /// The column, and the fields within it that lead to the one that is meant.
    pub path: Vec<Ident>,
    operation: Operation,
}

#[derive(Debug)]
enum Operation {
    Add { data_type: DataType, default: Option<Box<Expr>>, if_not_exists: bool },
    Drop { if_exists: bool },
    Rename { name: Ident },
}

impl FieldChange {
    /// Takes the text of an ALTER TABLE apart that names a field.
    ///
    /// # Errors
    /// What is no such statement.
    pub fn of(text: &str) -> Result<Self> {
        let parser = Parser::new(&ForebayDialect).with_tokens_with_locations(parse::known(text)?);
        statement(parser).map_err(|error| {
            let (ParserError::TokenizerError(said) | ParserError::ParserError(said)) = error else {
                return Error::input("the statement is nested too deeply");
            };
            Error::input(format!("syntax error: {said}"))
                .hint("Write ALTER TABLE t ADD COLUMN s.a INTEGER, DROP COLUMN s.a or RENAME COLUMN s.a TO b")
        })
    }

    /// The type and the expression of the values of a column of this type; `None` where it stays as it is.
    ///
    /// # Errors
    /// Fields that are not there, or are there already.
    pub fn applied(&self, data_type: &DataType) -> Result<Option<(DataType, String)>> {
        let (column, fields) = self.path.split_first().ok_or_else(|| Error::internal("a field without a column"))?;
        self.changed(&quoted(&column.value), data_type, fields)
    }

    fn changed(&self, value: &str, data_type: &DataType, path: &[Ident]) -> Result<Option<(DataType, String)>> {
        let (name, rest) = path.split_first().ok_or_else(|| Error::internal("a field without a name"))?;
        match data_type {
            DataType::Struct(fields, bracket) => {
                let mut fields: Vec<(StructField, String)> =
                    fields.iter().map(|field| (field.clone(), extracted(value, &name_of(field)))).collect();
                let place = fields.iter().position(|(field, _)| names_equal(&name_of(field), &name.value));
                let is_changed = match (rest.is_empty(), place) {
                    (true, _) => self.at(name, place, &mut fields)?,
                    (false, None) => return Err(unknown(name)),
                    (false, Some(place)) => {
                        let (field, inner) = &mut fields[place];
                        match self.changed(inner, &field.field_type, rest)? {
                            Some((data_type, changed)) => {
                                field.field_type = data_type;
                                *inner = changed;
                                true
                            }
                            None => false,
                        }
                    }
                };
                let member = |(field, value): &(StructField, String)| format!("'{}': {value}", text(&name_of(field)));
                let members: Vec<String> = fields.iter().map(member).collect();
                let built = format!("CASE WHEN {value} IS NULL THEN NULL ELSE {{{}}} END", members.join(", "));
                let fields = fields.into_iter().map(|(field, _)| field).collect();
                Ok(is_changed.then_some((DataType::Struct(fields, *bracket), built)))
            }
            DataType::Array(ArrayElemTypeDef::SquareBracket(element, length))
                if names_equal(&name.value, ELEMENT) && !rest.is_empty() =>
            {
                let changed = self.changed("e", element, rest)?;
                Ok(changed.map(|(element, each)| {
                    let list = DataType::Array(ArrayElemTypeDef::SquareBracket(Box::new(element), *length));
                    (list, format!("list_transform({value}, lambda e: {each})"))
                }))
            }
            other => Err(Error::input(format!("a value of type {other} has no field {name}"))),
        }
    }

    /// Does it to the fields of one struct; false where there is nothing to do.
    fn at(&self, name: &Ident, place: Option<usize>, fields: &mut Vec<(StructField, String)>) -> Result<bool> {
        match (&self.operation, place) {
            (Operation::Add { if_not_exists: true, .. }, Some(_)) | (Operation::Drop { if_exists: true }, None) => {
                Ok(false)
            }
            (Operation::Add { .. }, Some(_)) => {
                Err(Error::new(ErrorKind::AlreadyExists, format!("field {name} exists already")))
            }
            (Operation::Add { data_type, default, .. }, None) => {
                let value = default.as_ref().map_or_else(|| "NULL".to_owned(), ToString::to_string);
                let field =
                    StructField { field_name: Some(name.clone()), field_type: data_type.clone(), options: None };
                fields.push((field, format!("CAST({value} AS {data_type})")));
                Ok(true)
            }
            (Operation::Drop { .. } | Operation::Rename { .. }, None) => Err(unknown(name)),
            (Operation::Drop { .. }, Some(_)) if fields.len() == 1 => {
                Err(Error::input(format!("field {name} is the last of its struct")).hint("DROP the column"))
            }
            (Operation::Drop { .. }, Some(place)) => {
                fields.remove(place);
                Ok(true)
            }
            (Operation::Rename { name: new }, Some(place)) => {
                if fields.iter().any(|(field, _)| names_equal(&name_of(field), &new.value)) {
                    return Err(Error::new(ErrorKind::AlreadyExists, format!("field {new} exists already")));
                }
                fields[place].0.field_name = Some(new.clone());
                Ok(true)
            }
        }
    }
}

fn unknown(name: &Ident) -> Error {
    Error::new(ErrorKind::NotFound, format!("field {name} does not exist"))
}

fn name_of(field: &StructField) -> String {
    field.field_name.as_ref().map(|name| name.value.clone()).unwrap_or_default()
}

fn text(name: &str) -> String {
    name.replace('\'', "''")
}

fn extracted(value: &str, field: &str) -> String {
    format!("struct_extract({value}, '{}')", text(field))
}

fn statement(mut parser: Parser<'_>) -> std::result::Result<FieldChange, ParserError> {
    parser.expect_keywords(&[Keyword::ALTER, Keyword::TABLE])?;
    let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
    let table = parser.parse_object_name(false)?;
    let word = parser.expect_one_of_keywords(&[Keyword::ADD, Keyword::DROP, Keyword::RENAME])?;
    let _ = parser.parse_keyword(Keyword::COLUMN);
    let if_not_exists = word == Keyword::ADD && parser.parse_keywords(&[Keyword::IF, Keyword::NOT, Keyword::EXISTS]);
    let is_there = word == Keyword::DROP && parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
    let path = parser.parse_object_name(false)?.0.into_iter().filter_map(|part| part.as_ident().cloned()).collect();
    let operation = match word {
        Keyword::ADD => {
            let data_type = parser.parse_data_type()?;
            let default =
                parser.parse_keyword(Keyword::DEFAULT).then(|| parser.parse_expr().map(Box::new)).transpose()?;
            Operation::Add { data_type, default, if_not_exists }
        }
        Keyword::DROP => {
            let _ = parser.parse_one_of_keywords(&[Keyword::CASCADE, Keyword::RESTRICT]);
            Operation::Drop { if_exists: is_there }
        }
        _ => {
            parser.expect_keyword(Keyword::TO)?;
            Operation::Rename { name: parser.parse_identifier()? }
        }
    };
    match parser.peek_token().token {
        datafusion::sql::sqlparser::tokenizer::Token::EOF => Ok(FieldChange { table, if_exists, path, operation }),
        _ => parser.expected("the end of the statement", parser.peek_token()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_added_dropped_and_renamed() {
        let data_type = |text: &str| {
            let parser = Parser::new(&ForebayDialect).try_with_sql(text);
            parser.and_then(|mut parser| parser.parse_data_type()).expect(text)
        };
        let check = |statement: &str, before: &str, expect: Option<&str>| {
            let change = FieldChange::of(&format!("ALTER TABLE t {statement}")).expect(statement);
            let after = change.applied(&data_type(before)).expect(statement);
            assert_eq!(after.map(|(after, _)| after.to_string()).as_deref(), expect, "{statement}");
        };
        check("ADD COLUMN s.b INT", "STRUCT(a INT)", Some("STRUCT(a INT, b INT)"));
        check("DROP s.a", "STRUCT(a INT, b INT)", Some("STRUCT(b INT)"));
        check("RENAME COLUMN s.a TO c", "STRUCT(a INT)", Some("STRUCT(c INT)"));
        check("ADD COLUMN IF NOT EXISTS s.a INT", "STRUCT(a INT)", None);
        check("DROP COLUMN IF EXISTS s.b", "STRUCT(a INT)", None);
        check("ADD COLUMN s.l.element.b INT", "STRUCT(l STRUCT(a INT)[])", Some("STRUCT(l STRUCT(a INT, b INT)[])"));
        let wrong = FieldChange::of("ALTER TABLE t DROP COLUMN s.b").expect("a statement");
        assert!(wrong.applied(&data_type("STRUCT(a INT)")).is_err());
    }
}
