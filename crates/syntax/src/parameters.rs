//! Parameters of a statement, `?`, `$1` and `$name`: where they stand in its text, and the text with values in their places;
//! and what PREPARE and EXECUTE say about them.

use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::Expr;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use forebay_base::{Error, Result};
use forebay_grammar::walk::visit_expressions;

use crate::dialect::ForebayDialect;
use crate::syntax_error::{expected, parser_error};
use crate::tokens::{Offsets, tokens};

/// A statement with places for values.
#[derive(Debug, Clone)]
pub struct Template {
    text: Arc<str>,
    names: Vec<String>,
    /// In the order of the text: where, and the index of the parameter's name.
    places: Vec<(Range<usize>, usize)>,
}

impl Template {
    /// Finds the parameters of one statement. A `?` has the number behind the greatest before it.
    ///
    /// Errors: named ones beside numbered ones, `$0`.
    pub fn of(text: &str) -> Result<Self> {
        let offsets = Offsets::new(text);
        let mut found: Vec<(Range<usize>, String)> = Vec::new();
        let mut last = 0;
        for token in tokens(text)? {
            let Token::Placeholder(written) = &token.token else { continue };
            let name = written[1..].to_lowercase();
            let number = match name.parse::<usize>() {
                Ok(0) => return Err(Error::input("parameters are numbered from 1")),
                Ok(number) => Some(number),
                Err(_) if name.is_empty() => Some(last + 1),
                Err(_) => None,
            };
            last = number.unwrap_or_default().max(last);
            let name = number.map_or(name, |number| number.to_string());
            found.push((offsets.byte(token.span.start)..offsets.byte(token.span.end), name));
        }
        let is_number = |name: &String| name.parse::<usize>().is_ok();
        let numbered = found.iter().filter(|(_, name)| is_number(name)).count();
        if numbered > 0 && numbered < found.len() {
            return Err(Error::unsupported("named and numbered parameters do not go together")
                .hint("Use $1 and ?, or names such as $day, but not both"));
        }
        // In their order: by number, or as they are met.
        let mut order: BTreeMap<(usize, usize), String> = BTreeMap::new();
        for (at, (_, name)) in found.iter().enumerate() {
            if !order.values().any(|known| known == name) {
                order.insert((name.parse().unwrap_or_default(), at), name.clone());
            }
        }
        let names: Vec<String> = order.into_values().collect();
        let index = |name: &String| names.iter().position(|known| known == name).unwrap_or_default();
        let places = found.iter().map(|(place, name)| (place.clone(), index(name))).collect();
        Ok(Self { text: text.into(), names, places })
    }

    /// Names of the parameters, without `$`: numbers from 1 in their order, or names in the order of the text.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The statement as it was given.
    pub fn text(&self) -> &Arc<str> {
        &self.text
    }

    /// The statement with `$1` in the place of `?`.
    pub fn numbered(&self) -> String {
        let names: Vec<String> = self.names.iter().map(|name| format!("${name}")).collect();
        self.filled(&names)
    }

    /// The statement with `$1` for the first of [`Template::names`], `$2` for the second, and so on.
    pub fn indexed(&self) -> String {
        let indexes: Vec<String> = (1..=self.names.len()).map(|index| format!("${index}")).collect();
        self.filled(&indexes)
    }

    /// The statement with these texts in the places of its parameters, in the order of [`Template::names`].
    pub fn filled(&self, values: &[String]) -> String {
        let mut text = String::with_capacity(self.text.len());
        let mut at = 0;
        for (place, parameter) in &self.places {
            text.push_str(&self.text[at..place.start]);
            text.push_str(values.get(*parameter).map_or("NULL", String::as_str));
            at = place.end;
        }
        text.push_str(&self.text[at..]);
        text
    }

    /// `arguments` in the order of [`Template::names`]; those without a name are numbered from 1.
    ///
    /// Errors: too few, too many, names that the statement does not have.
    pub fn ordered(&self, arguments: Vec<Argument>) -> Result<Vec<String>> {
        let mut given: Vec<(String, String)> = Vec::with_capacity(arguments.len());
        for (at, argument) in arguments.into_iter().enumerate() {
            let name = argument.name.map_or_else(|| (at + 1).to_string(), |name| name.to_lowercase());
            if given.iter().any(|(known, _)| *known == name) {
                return Err(Error::input(format!("parameter {name} has two values")));
            }
            given.push((name, argument.value));
        }
        let listed = |names: Vec<&str>| names.iter().map(|name| format!("${name}")).collect::<Vec<_>>().join(", ");
        let unknown: Vec<&str> = given
            .iter()
            .map(|(name, _)| name.as_str())
            .filter(|name| !self.names.iter().any(|own| own == name))
            .collect();
        if !unknown.is_empty() {
            let error = Error::input(format!("the statement has no parameter {}", listed(unknown)));
            return Err(match self.names.is_empty() {
                true => error.hint("It has none"),
                false => error.hint(format!("It has {}", listed(self.names.iter().map(String::as_str).collect()))),
            });
        }
        let value = |name: &String| given.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
        let values: Vec<Option<String>> = self.names.iter().map(value).collect();
        let missing: Vec<&str> = self
            .names
            .iter()
            .zip(&values)
            .filter(|(_, value)| value.is_none())
            .map(|(name, _)| name.as_str())
            .collect();
        if !missing.is_empty() {
            return Err(Error::input(format!("no value is given for {}", listed(missing)))
                .hint("Give each parameter of the statement a value; NULL is one"));
        }
        Ok(values.into_iter().flatten().collect())
    }
}

/// A value for a parameter.
#[derive(Debug, Clone)]
pub struct Argument {
    /// The parameter; without a name that of its place.
    pub name: Option<String>,
    /// The value, as SQL.
    pub value: String,
}

/// `(1, 'a')` or `(day := DATE '1996-01-01')` behind the name in EXECUTE.
pub(crate) fn arguments(text: &str) -> Result<Vec<Argument>> {
    let all: Vec<TokenWithSpan> =
        tokens(text)?.into_iter().filter(|token| !matches!(token.token, Token::Whitespace(_) | Token::EOF)).collect();
    let offsets = Offsets::new(text);
    let dialect = ForebayDialect;
    let mut parser = Parser::new(&dialect).with_tokens_with_locations(all);
    if parser.peek_token().token == Token::EOF {
        return Ok(Vec::new());
    }
    parser.expect_token(&Token::LParen).map_err(parser_error)?;
    let mut arguments = Vec::new();
    while !parser.consume_token(&Token::RParen) {
        let name = match (parser.peek_token().token, parser.peek_nth_token(1).token) {
            (Token::Word(word), Token::Assignment) => {
                let _ = (parser.next_token(), parser.next_token());
                Some(word.value)
            }
            _ => None,
        };
        let start = offsets.byte(parser.peek_token().span.start);
        check_constant(&parser.parse_expr().map_err(parser_error)?)?;
        let next = parser.peek_token();
        if !matches!(next.token, Token::Comma | Token::RParen) {
            return Err(expected(&parser, ", or )"));
        }
        let value = format!("({})", text[start..offsets.byte(next.span.start)].trim());
        arguments.push(Argument { name, value });
        let _ = parser.consume_token(&Token::Comma);
    }
    match parser.peek_token().token {
        Token::EOF => Ok(arguments),
        _ => Err(expected(&parser, "the end of the statement")),
    }
}

/// Refuses what is more than a value.
fn check_constant(expr: &Expr) -> Result<()> {
    let found = visit_expressions(expr, |part| match part {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(part.to_string()),
        Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => {
            ControlFlow::Break("a subquery".to_owned())
        }
        _ => ControlFlow::Continue(()),
    });
    match found {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(what) => Err(Error::input(format!("{what} is no value for a parameter"))
            .hint("EXECUTE takes values, not columns or queries")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        Template::of(text).expect("a statement").names().to_vec()
    }

    #[test]
    fn parameters_are_numbered_or_named() {
        assert_eq!(names("SELECT ?, '?', ? -- ?"), ["1", "2"]);
        assert_eq!(names("SELECT $2, $1, $2"), ["1", "2"]);
        assert_eq!(names("SELECT $1, ?"), ["1", "2"]);
        assert_eq!(names("SELECT $b, $A, $B"), ["b", "a"]);
        assert_eq!(names("SELECT 1"), Vec::<String>::new());
        assert!(Template::of("SELECT $1, $x").is_err() && Template::of("SELECT $0").is_err());
    }

    #[test]
    fn values_take_the_places_of_parameters() {
        let template = Template::of("SELECT ? + $1, '$1'").expect("a statement");
        assert_eq!(template.numbered(), "SELECT $1 + $1, '$1'");
        assert_eq!(Template::of("SELECT $b, $a").expect("a statement").indexed(), "SELECT $1, $2");
        assert_eq!(template.filled(&["(-5)".to_owned()]), "SELECT (-5) + (-5), '$1'");
    }

    #[test]
    fn arguments_are_values_for_all_parameters() {
        let ordered = |text: &str, given: &str| Template::of(text)?.ordered(arguments(given)?);
        assert_eq!(ordered("$2, $1", "(1, 'a,)')").expect("two"), ["(1)", "('a,)')"]);
        assert_eq!(ordered("$x", "(X := 1 + 1)").expect("one"), ["(1 + 1)"]);
        assert_eq!(ordered("1", "").expect("none"), Vec::<String>::new());
        for (text, given, said) in [
            ("$1, $2", "(1)", "no value is given for $2"),
            ("$1", "(1, 2)", "no parameter $2"),
            ("$x", "(1)", "no parameter $1"),
            ("$x", "(y := 1)", "no parameter $y"),
            ("1", "(1)", "no parameter $1"),
            ("$1", "(a)", "a is no value"),
            ("$1", "((SELECT 1))", "a subquery is no value"),
            ("$1", "(1", "expected"),
            ("$1", "(1) 2", "the end of the statement"),
        ] {
            let error = ordered(text, given).expect_err(given).to_string();
            assert!(error.contains(said), "{given}: {error}");
        }
    }
}
