//! DuckDB's dialect of SQL as DuckDB reads it, where the parser's own one differs: comments nest, `||` binds less than
//! arithmetic, so that `'row ' || a % 10` is what it looks like, and `->>` binds as it does; `a = 1` is a comparison as an
//! argument, too, and what follows IS DISTINCT FROM ends before AND. Columns may have options of their own.

use std::any::TypeId;

use datafusion::sql::sqlparser::ast::{
    CastKind, ColumnOption, DataType, Expr, Ident, ObjectName, SqlOption, UnaryOperator, Value,
};
use datafusion::sql::sqlparser::dialect::{Dialect, DuckDbDialect, Precedence};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;
use forebay_engine::goal::COMPRESSION_OPTION;
use forebay_grammar::arrows;
use forebay_grammar::expressions::{self, call};

/// Types in front of texts that the parser does not know.
const TYPES_OF_TEXTS: [&str; 5] = ["TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_US", "TIMESTAMP_NS", "BITSTRING"];

/// The dialect of all statements.
#[derive(Debug)]
pub struct ForebayDialect;

/// What is as in the parser's own dialect.
macro_rules! as_duckdb {
    ($($property:ident),* $(,)?) => {
        $(fn $property(&self) -> bool {
            DuckDbDialect {}.$property()
        })*
    };
}

impl Dialect for ForebayDialect {
    as_duckdb!(
        allow_extract_single_quotes,
        support_map_literal_syntax,
        supports_array_typedef_with_brackets,
        supports_bitwise_shift_operators,
        supports_comma_separated_trim,
        supports_detach,
        supports_dictionary_syntax,
        supports_explain_with_utility_options,
        supports_filter_during_aggregation,
        supports_from_first_select,
        supports_group_by_expr,
        supports_install,
        supports_lambda_functions,
        supports_load_extension,
        supports_named_fn_args_with_assignment_operator,
        supports_notnull_operator,
        supports_order_by_all,
        supports_select_wildcard_exclude,
        supports_select_wildcard_replace,
        supports_trailing_commas,
    );

    fn supports_select_wildcard_rename(&self) -> bool {
        true
    }

    /// A text that goes on in the next line.
    fn supports_string_literal_concatenation_with_newline(&self) -> bool {
        true
    }

    /// `x IN ()`, which has no value.
    fn supports_in_empty_list(&self) -> bool {
        true
    }

    /// `FROM (t)`.
    fn supports_parens_around_table_factor(&self) -> bool {
        true
    }

    /// `INSERT INTO t AS x`.
    fn supports_insert_table_alias(&self) -> bool {
        true
    }

    fn dialect(&self) -> TypeId {
        DuckDbDialect {}.dialect()
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        DuckDbDialect {}.is_identifier_start(ch)
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        DuckDbDialect {}.is_identifier_part(ch)
    }

    fn allow_extract_custom(&self) -> bool {
        true
    }

    fn supports_window_function_null_treatment_arg(&self) -> bool {
        true
    }

    /// `1_000`; the digits are put together in [`phrases`](crate::phrases).
    fn supports_numeric_literal_underscores(&self) -> bool {
        true
    }

    fn supports_comment_on(&self) -> bool {
        true
    }

    fn supports_nested_comments(&self) -> bool {
        true
    }

    fn supports_alter_column_type_using(&self) -> bool {
        true
    }

    fn parse_infix(&self, parser: &mut Parser<'_>, left: &Expr, _: u8) -> Option<Result<Expr, ParserError>> {
        use Keyword::{DISTINCT, FROM, IS, NOT};
        if let Some(found) = expressions::infix(parser, left, self) {
            return Some(found);
        }
        if let Some(operator) = CalledOperator::next(parser) {
            for _ in 0..operator.tokens {
                let _ = parser.next_token();
            }
            let right = parser.parse_subexpr(operator.precedence(self));
            return Some(right.map(|right| call(operator.function, vec![left.clone(), right])));
        }
        if parser.consume_token(&Token::Arrow) {
            let right = parser.parse_subexpr(self.below_sums() - 1);
            return Some(right.map(|right| arrows::part(left.clone(), right)));
        }
        if is_null_test(parser) {
            let _ = parser.next_token();
            return Some(Ok(Expr::IsNull(Box::new(left.clone()))));
        }
        let make = match () {
            () if parser.parse_keywords(&[IS, DISTINCT, FROM]) => Expr::IsDistinctFrom,
            () if parser.parse_keywords(&[IS, NOT, DISTINCT, FROM]) => Expr::IsNotDistinctFrom,
            () => return None,
        };
        let right = parser.parse_subexpr(self.prec_value(Precedence::Is));
        Some(right.map(|right| make(Box::new(left.clone()), Box::new(right))))
    }

    /// `TIMESTAMP_NS '…'` and `B'0101'`, which the parser takes for a name and a text; and `-x`, which binds more closely than a power.
    fn parse_prefix(&self, parser: &mut Parser<'_>) -> Option<Result<Expr, ParserError>> {
        if let Some(found) = expressions::prefix(parser, self) {
            return Some(found);
        }
        if let Some(document) = arrows::document(parser) {
            return Some(Ok(document));
        }
        // Binds as the operators that the grammar has no name for: less closely than sums.
        if parser.peek_token_ref().token == Token::AtSign {
            let _ = parser.next_token();
            let operand = parser.parse_subexpr(self.below_sums());
            return Some(operand.map(|operand| call("abs", vec![operand])));
        }
        if parser.peek_token_ref().token == Token::Minus {
            let _ = parser.next_token();
            let operand = parser.parse_subexpr(self.prec_value(Precedence::MulDivModOp) + 1);
            return Some(operand.map(|expr| Expr::UnaryOp { op: UnaryOperator::Minus, expr: Box::new(expr) }));
        }
        let Token::Word(word) = &parser.peek_token_ref().token else { return None };
        let name = word.value.to_ascii_uppercase();
        let data_type = match name.as_str() {
            _ if word.quote_style.is_some() => return None,
            "B" => DataType::Bit(None),
            name if TYPES_OF_TEXTS.contains(&name) => {
                DataType::Custom(ObjectName::from(vec![Ident::new(name)]), Vec::new())
            }
            _ => return None,
        };
        let Token::SingleQuotedString(text) = parser.peek_nth_token(1).token else { return None };
        let _ = (parser.next_token(), parser.next_token());
        let text = Box::new(Expr::Value(Value::SingleQuotedString(text).into()));
        Some(Ok(Expr::Cast { kind: CastKind::Cast, expr: text, data_type, array: false, format: None }))
    }

    fn parse_column_option(
        &self,
        parser: &mut Parser<'_>,
    ) -> Result<Option<Result<Option<ColumnOption>, ParserError>>, ParserError> {
        Ok(parse_column_option(parser)?.map(|option| Ok(Some(option))))
    }

    fn get_next_precedence(&self, parser: &Parser<'_>) -> Option<Result<u8, ParserError>> {
        if let Some(operator) = CalledOperator::next(parser) {
            return Some(Ok(operator.precedence(self)));
        }
        if is_null_test(parser) {
            return Some(Ok(self.prec_value(Precedence::Is)));
        }
        if expressions::is_not_glob(parser) {
            return Some(Ok(self.prec_value(Precedence::Like)));
        }
        use Token::{Arrow, ArrowAt, AtArrow, LongArrow, StringConcat};
        match parser.peek_token_ref().token {
            StringConcat | LongArrow | AtArrow | ArrowAt => Some(Ok(self.below_sums())),
            Arrow => Some(Ok(self.below_sums() - 1)),
            _ => None,
        }
    }
}

impl ForebayDialect {
    /// How closely operators bind that the grammar has no name for.
    fn below_sums(&self) -> u8 {
        self.prec_value(Precedence::PlusMinus) - 1
    }
}

/// Whether ISNULL comes next, the operator behind a value.
fn is_null_test(parser: &Parser<'_>) -> bool {
    matches!(&parser.peek_token_ref().token, Token::Word(word) if word.quote_style.is_none()
        && word.value.eq_ignore_ascii_case("isnull"))
}

/// An operator that the parser does not know, or knows with another meaning, and the function that it is.
struct CalledOperator {
    function: &'static str,
    tokens: usize,
}

impl CalledOperator {
    /// The one that comes next.
    fn next(parser: &Parser<'_>) -> Option<Self> {
        let (function, tokens) = match &parser.peek_token_ref().token {
            Token::Caret => ("power", 1),
            Token::Mul if parser.peek_nth_token(1).token == Token::Mul => ("power", 2),
            Token::CaretAt => ("prefix", 1),
            Token::DoubleTilde if parser.peek_nth_token(1).token == Token::Tilde => ("glob_match", 2),
            Token::Overlap => ("list_has_any", 1),
            Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("glob") => {
                ("glob_match", 1)
            }
            _ => return None,
        };
        Some(Self { function, tokens })
    }

    /// Powers bind more closely than products, patterns as LIKE, others as operators without a name in the grammar.
    fn precedence(&self, dialect: &ForebayDialect) -> u8 {
        match self.function {
            "power" => dialect.prec_value(Precedence::MulDivModOp) + 1,
            "glob_match" => dialect.prec_value(Precedence::Like),
            _ => dialect.below_sums(),
        }
    }
}

/// An option of a column, if that is what comes next: `WITH (…)` or `USING COMPRESSION name`.
fn parse_column_option(parser: &mut Parser<'_>) -> Result<Option<ColumnOption>, ParserError> {
    if parser.peek_keyword(Keyword::WITH) && parser.peek_nth_token(1).token == Token::LParen {
        return parser.parse_options(Keyword::WITH).map(|options| Some(ColumnOption::Options(options)));
    }
    let is_compression =
        |token: &Token| matches!(token, Token::Word(word) if word.value.eq_ignore_ascii_case(COMPRESSION_OPTION));
    if parser.peek_keyword(Keyword::USING) && is_compression(&parser.peek_nth_token(1).token) {
        let _ = (parser.next_token(), parser.next_token());
        let value = Expr::Identifier(parser.parse_identifier()?);
        return Ok(Some(ColumnOption::Options(vec![SqlOption::KeyValue {
            key: Ident::new(COMPRESSION_OPTION),
            value,
        }])));
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::ast::{BinaryOperator, Function, FunctionArg, FunctionArguments};

    #[test]
    fn operators_bind_as_in_duckdb() {
        let parse = |text| Parser::new(&ForebayDialect).try_with_sql(text).and_then(|mut parser| parser.parse_expr());
        let top = |text| match parse(text).expect("parses") {
            Expr::BinaryOp { op, .. } => op,
            other => panic!("{other}"),
        };
        assert_eq!(top("'a' || b % 10"), BinaryOperator::StringConcat);
        assert_eq!(top("a + 1 || 'b'"), BinaryOperator::StringConcat);
        assert_eq!(top("a || b = c || d"), BinaryOperator::Eq);
        assert_eq!(top("a IS NOT DISTINCT FROM b AND c IS DISTINCT FROM d + 1"), BinaryOperator::And);
        for (text, expect) in [
            ("2 * a ^ 2", "2 * power(a, 2)"),
            ("a ^ b ** 2", "power(power(a, b), 2)"),
            ("-a ^ 2 + 1", "power(-a, 2) + 1"),
            ("a ** 2::int % 3", "power(a, 2::INT) % 3"),
        ] {
            assert_eq!(parse(text).expect("parses").to_string(), expect);
        }
        let call = parse("f(a = 1)").expect("parses");
        let is_unnamed = |call: &Function| match &call.args {
            FunctionArguments::List(list) => matches!(list.args[0], FunctionArg::Unnamed(_)),
            _ => false,
        };
        assert!(matches!(&call, Expr::Function(call) if is_unnamed(call)), "{call}");
    }

    #[test]
    fn arrows_bind_more_closely_than_comparisons() {
        fn grouped(expr: &Expr) -> String {
            match expr {
                Expr::BinaryOp { left, op, right } => format!("({} {op} {})", grouped(left), grouped(right)),
                Expr::UnaryOp { op, expr } => format!("({op} {})", grouped(expr)),
                Expr::IsNull(expr) => format!("({} IS NULL)", grouped(expr)),
                other => other.to_string(),
            }
        }
        for (text, expect) in [
            ("j->>'a' = '1'", "((j ->> 'a') = '1')"),
            ("'1' = j->'a' OR b", "(('1' = (j -> 'a')) OR b)"),
            ("NOT j->'t' AND b", "((NOT (j -> 't')) AND b)"),
            ("j->'a'->>'b' || 'x'", "(((j -> 'a') ->> 'b') || 'x')"),
            ("j->>'a'->'b'->0", "(((j ->> 'a') -> 'b') -> 0)"),
            ("(j)->'a'->0 IS NULL", "(((j -> 'a') -> 0) IS NULL)"),
            ("j->'a' || 'x'", "(j -> ('a' || 'x'))"),
            ("j->>'a' || 1 + 2", "((j ->> 'a') || (1 + 2))"),
            ("list_filter(j->'a', x -> x->>'b' > '1' OR y)", "list_filter(j -> 'a', x -> x ->> 'b' > '1' OR y)"),
        ] {
            let parsed = Parser::new(&ForebayDialect).try_with_sql(text).and_then(|mut parser| parser.parse_expr());
            assert_eq!(grouped(&parsed.expect("parses")), expect);
        }
    }
}
