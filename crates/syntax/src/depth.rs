//! How deeply the expressions of a statement nest, counted on its tokens. A long `a + b + c` is a tree as deep as it is
//! long: whatever walks it, and even what drops it, needs stack for each term. So it is refused before there is a tree.
//!
//! Parentheses are not counted: they are the parser's own recursion, which has its own limit.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use forebay_base::{Error, Result};

use crate::dialect::ForebayDialect;
use crate::syntax_error::parser_error;

/// Operators, and queries joined by UNION and the like, that may stand above one another: far more than people write, and
/// few enough to be planned in less than a second.
const MOST_LEVELS: usize = 1000;

/// Returns the tokens of one statement as they are, or the error that it nests too deeply.
pub(crate) fn check(tokens: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>> {
    if tokens.len() <= MOST_LEVELS {
        return Ok(tokens);
    }
    let dialect = ForebayDialect;
    let mut parser = Parser::new(&dialect).with_tokens_with_locations(tokens);
    match deepest(&mut parser)? {
        0..=MOST_LEVELS => Ok(parser.into_tokens()),
        levels => Err(Error::input(format!("expression is nested too deeply: {levels} levels; at most {MOST_LEVELS}"))
            .hint("Split the statement; many comparisons with one column are a list: x IN (1, 2, 3)")),
    }
}

/// The depth of the tree that the parser would make: it puts an operator above what binds more tightly.
fn deepest(parser: &mut Parser<'_>) -> Result<usize> {
    let mut open = vec![Bracket::default()];
    let mut is_behind_operand = false;
    let mut word_before = Keyword::NoKeyword;
    while let Some(bracket) = open.last_mut() {
        // An operator stands behind an operand; where one is missing, it is a sign.
        let precedence = if is_behind_operand { parser.get_next_precedence().map_err(parser_error)? } else { 0 };
        parser.advance_token();
        let token = &parser.get_current_token().token;
        let keyword = match token {
            Token::Word(word) => word.keyword,
            _ => Keyword::NoKeyword,
        };
        let is_next_expression = is_behind_operand && ends_expression(keyword, word_before);
        match token {
            Token::EOF => break,
            Token::LParen | Token::LBracket | Token::LBrace => open.push(Bracket::default()),
            Token::RParen | Token::RBracket | Token::RBrace => close(&mut open, false),
            Token::Comma => bracket.end_expression(),
            _ if keyword == Keyword::CASE => open.push(Bracket { is_case: true, ..Bracket::default() }),
            _ if keyword == Keyword::END => close(&mut open, true),
            _ if joins_queries(keyword) => bracket.end_query(),
            _ if is_next_expression => bracket.end_expression(),
            _ if keyword == Keyword::AND && std::mem::take(&mut bracket.is_between) => {}
            _ if precedence > 0 => {
                bracket.is_between |= keyword == Keyword::BETWEEN;
                bracket.add(precedence);
            }
            _ => {}
        }
        is_behind_operand = match token {
            Token::LParen | Token::LBracket | Token::LBrace | Token::Comma => false,
            Token::Plus | Token::Minus | Token::Tilde => false,
            _ => precedence == 0 && !is_next_expression && !comes_before_operand(keyword),
        };
        word_before = keyword;
    }
    while open.len() > 1 {
        let is_case = open.last().is_some_and(|bracket| bracket.is_case);
        close(&mut open, is_case);
    }
    Ok(open.pop().map_or(0, Bracket::depth))
}

/// Whether a word behind an operand begins another expression.
fn ends_expression(keyword: Keyword, word_before: Keyword) -> bool {
    use Keyword as K;
    match keyword {
        // IS DISTINCT FROM
        K::FROM => word_before != K::DISTINCT,
        K::WHERE | K::HAVING | K::BY | K::JOIN | K::ON | K::QUALIFY | K::LIMIT => true,
        K::WHEN | K::THEN | K::ELSE => true,
        _ => false,
    }
}

fn joins_queries(keyword: Keyword) -> bool {
    matches!(keyword, Keyword::UNION | Keyword::EXCEPT | Keyword::INTERSECT)
}

fn comes_before_operand(keyword: Keyword) -> bool {
    use Keyword as K;
    joins_queries(keyword) || matches!(keyword, K::SELECT | K::ALL | K::DISTINCT | K::NOT | K::CASE)
}

/// What stands between two parentheses or other brackets, or between CASE and END.
#[derive(Debug, Default)]
struct Bracket {
    is_case: bool,
    /// A BETWEEN came, whose AND did not.
    is_between: bool,
    /// Operators whose right operand is not complete: their precedences, ascending, and the depths of their left operands.
    operators: Vec<(u8, usize)>,
    /// Depth of the operand that is being read.
    operand: usize,
    /// Depth of the expressions that ended in this query.
    expressions: usize,
    /// Depth of the queries before it that are joined with it.
    queries: usize,
}

impl Bracket {
    /// Takes an operator: what binds as tightly becomes its left operand.
    fn add(&mut self, precedence: u8) {
        self.complete(precedence);
        self.operators.push((precedence, self.operand));
        self.operand = 0;
    }

    fn complete(&mut self, precedence: u8) {
        while let Some((_, left)) = self.operators.pop_if(|(other, _)| *other >= precedence) {
            self.operand = self.operand.max(left) + 1;
        }
    }

    fn end_expression(&mut self) {
        self.complete(0);
        self.expressions = self.expressions.max(self.operand);
        self.operand = 0;
        self.is_between = false;
    }

    fn end_query(&mut self) {
        self.end_expression();
        self.queries = self.queries.max(self.expressions) + 1;
        self.expressions = 0;
    }

    fn depth(mut self) -> usize {
        self.end_expression();
        self.queries.max(self.expressions)
    }
}

/// Closes the innermost bracket, if it is of this kind and not the statement: it is an operand, or part of one.
fn close(open: &mut Vec<Bracket>, is_case: bool) {
    // One too many is for the parser to report.
    if open.len() < 2 {
        return;
    }
    let closed = open.pop_if(|bracket| bracket.is_case == is_case);
    if let (Some(closed), Some(outer)) = (closed, open.last_mut()) {
        outer.operand = outer.operand.max(closed.depth());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    fn check_levels(text: &str, expect: usize) {
        let dialect = ForebayDialect;
        let tokens = Tokenizer::new(&dialect, text).tokenize_with_location().expect("tokens");
        let mut parser = Parser::new(&dialect).with_tokens_with_locations(tokens);
        assert_eq!(deepest(&mut parser).expect("tokens only"), expect, "{text}");
    }

    #[test]
    fn operators_are_counted_as_the_parser_puts_them_above_one_another() {
        check_levels("SELECT a + b - c", 2);
        check_levels("SELECT a * b * c + d * e * f", 3);
        check_levels("SELECT -a + -b", 1);
        check_levels("SELECT a = 1 OR a = 2 OR a = 3", 3);
        check_levels("SELECT a BETWEEN 1 AND 2 AND b BETWEEN 1 AND 2 AND c", 3);
        check_levels("SELECT a + (b + (c + d))", 3);
        check_levels("SELECT (a + b) + (c + d)", 2);
        check_levels("SELECT a::INT::INT::INT", 3);
        check_levels("SELECT a IS DISTINCT FROM b IS DISTINCT FROM c", 2);
        check_levels("SELECT a AND b IS NOT NULL AND c", 3);
        check_levels("SELECT a * b * c * d + e - f", 5);
    }

    #[test]
    fn lists_clauses_and_queries_side_by_side_are_not_deep() {
        check_levels("INSERT INTO t VALUES (1 + 1, -2), (3 + 3, -4)", 1);
        check_levels("SELECT a + b FROM t WHERE a + b > 1 GROUP BY a + b HAVING a > 1 ORDER BY a + b, a + c", 2);
        check_levels("SELECT CASE WHEN a > 1 THEN b + c WHEN a > 2 THEN b + d ELSE a + b END + 1", 2);
        check_levels("SELECT 1 + CASE WHEN a THEN b + 1 END + CASE WHEN a THEN b END", 3);
        check_levels("SELECT a, b UNION ALL SELECT a + 1, b UNION ALL SELECT a, b", 2);
        check_levels("SELECT sum(x) WITHIN GROUP (ORDER BY y) + 1 + 2", 2);
        check_levels("SELECT ) ) END 1 + 1", 1);
    }

    #[test]
    fn more_than_a_thousand_levels_are_refused() {
        let tokens = |terms: usize| {
            let text = format!("SELECT {}", vec!["a"; terms].join("+"));
            Tokenizer::new(&ForebayDialect, &text).tokenize_with_location().expect("tokens")
        };
        assert_eq!(check(tokens(1001)).expect("a thousand levels").len(), tokens(1001).len());
        let error = check(tokens(100_000)).expect_err("too deep").to_string();
        assert!(error.starts_with("expression is nested too deeply: 99999 levels; at most 1000"), "{error}");
    }
}
