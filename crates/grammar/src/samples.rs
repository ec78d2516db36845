//! Samples of rows: `FROM t TABLESAMPLE 10%` and `FROM t USING SAMPLE reservoir(50 ROWS)`. What the parser does not know of them
//! becomes words that it does; in the tree, samples become conditions and limits over random numbers.
//!
//! A share of BERNOULLI and SYSTEM takes each row by its own; that of RESERVOIR, and numbers of rows, take exactly so many. Seeds
//! are read and change nothing.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Query, Select, SetExpr,
    Statement, TableAlias, TableFactor, TableSample, TableSampleKind, TableSampleMethod, TableSampleUnit, Value,
};
use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use forebay_base::{Error, Result};

use crate::words::{closes, is_word, keyword, opens, places};

/// What the share in `LIMIT 30%` is called that becomes a number of rows once there is a tree.
pub const SHARE_OF_ALL_ROWS: &str = "share_of_all_rows";

/// The condition behind QUALIFY that USING SAMPLE becomes.
const MARK: &str = "?sample";

/// The tokens with samples in known words.
pub(crate) fn known(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_sample = |token: &TokenWithSpan| is_word(&token.token, "sample") || is_word(&token.token, "tablesample");
    if !tokens.iter().any(is_sample) {
        return tokens;
    }
    let places = places(&tokens);
    let mut found: Vec<(usize, usize, Vec<Token>)> = Vec::new();
    // Whether there is a QUALIFY, for each query around the place.
    let mut qualified = vec![false];
    for index in 0..places.len() {
        let token = &tokens[places[index]].token;
        match keyword(token) {
            _ if opens(token) => qualified.push(false),
            _ if closes(token) && qualified.len() > 1 => {
                qualified.pop();
            }
            Keyword::SELECT | Keyword::UNION | Keyword::EXCEPT | Keyword::INTERSECT => {
                qualified.iter_mut().last().into_iter().for_each(|has| *has = false);
            }
            Keyword::QUALIFY => qualified.iter_mut().last().into_iter().for_each(|has| *has = true),
            _ => {}
        }
        let words = Words { tokens: &tokens, places: &places };
        if is_word(token, "tablesample")
            && let Some((sample, end)) = words.sample(index + 1)
        {
            found.push((index, end, sample.of_table()));
        } else if is_word(token, "using")
            && words.token(index + 1).is_some_and(|next| is_word(next, "sample"))
            && let Some((sample, end)) = words.sample(index + 2)
        {
            let has_condition = qualified.last().is_some_and(|has| *has);
            found.push((index, end, sample.as_condition(has_condition)));
        }
    }
    for (from, to, instead) in found.into_iter().rev() {
        let (first, last) = (places[from], places[to - 1]);
        let span = tokens[first].span;
        tokens.splice(first..=last, instead.into_iter().map(|token| TokenWithSpan { token, span }));
    }
    tokens
}

/// A sample as it is written.
struct Written {
    method: &'static str,
    number: String,
    is_share: bool,
}

impl Written {
    fn unit(&self) -> &'static str {
        if self.is_share { "PERCENT" } else { "ROWS" }
    }

    fn number(&self) -> Token {
        Token::Number(self.number.clone(), false)
    }

    /// `TABLESAMPLE SYSTEM (10 PERCENT)`.
    fn of_table(&self) -> Vec<Token> {
        let word = Token::make_keyword;
        let (open, close) = (Token::LParen, Token::RParen);
        vec![word("TABLESAMPLE"), word(self.method), open, self.number(), word(self.unit()), close]
    }

    /// `QUALIFY "?sample"('SYSTEM', 10, 'PERCENT')`, or the same with AND.
    fn as_condition(&self, has_condition: bool) -> Vec<Token> {
        let text = |text: &str| Token::SingleQuotedString(text.to_owned());
        vec![
            Token::make_keyword(if has_condition { "AND" } else { "QUALIFY" }),
            Token::make_word(MARK, Some('"')),
            Token::LParen,
            text(self.method),
            Token::Comma,
            self.number(),
            Token::Comma,
            text(self.unit()),
            Token::RParen,
        ]
    }
}

struct Words<'a> {
    tokens: &'a [TokenWithSpan],
    places: &'a [usize],
}

impl Words<'_> {
    fn token(&self, index: usize) -> Option<&Token> {
        self.places.get(index).map(|place| &self.tokens[*place].token)
    }

    fn is(&self, index: usize, token: &Token) -> bool {
        self.token(index) == Some(token)
    }

    /// The sample that begins at a place, and the place behind it.
    fn sample(&self, at: usize) -> Option<(Written, usize)> {
        let (method, open) = match self.method(at) {
            Some(method) => (Some(method), at + 1),
            None => (None, at),
        };
        let in_parentheses = self.is(open, &Token::LParen);
        if method.is_some() && !in_parentheses {
            return None;
        }
        let (number, is_share, mut end) = self.size(open + usize::from(in_parentheses))?;
        let mut method = method;
        if in_parentheses {
            end = self.closing(end)?;
        } else if self.is(end, &Token::LParen) && self.method(end + 1).is_some() {
            // `10% (bernoulli, 377)`
            method = self.method(end + 1);
            let has_seed = self.is(end + 2, &Token::Comma);
            end = self.closing(end + if has_seed { 4 } else { 2 })?;
        }
        if self.token(end).is_some_and(|word| is_word(word, "repeatable")) {
            end = self.closing(end + 3)?;
        }
        let method = method.unwrap_or(if is_share { "SYSTEM" } else { "ROW" });
        Some((Written { method, number, is_share }, end))
    }

    fn closing(&self, at: usize) -> Option<usize> {
        self.is(at, &Token::RParen).then_some(at + 1)
    }

    /// The parser knows no reservoirs, but rows.
    fn method(&self, at: usize) -> Option<&'static str> {
        let token = self.token(at)?;
        [("reservoir", "ROW"), ("bernoulli", "BERNOULLI"), ("system", "SYSTEM")]
            .into_iter()
            .find_map(|(name, method)| is_word(token, name).then_some(method))
    }

    /// How many rows or hundredths, which of them, and the place behind.
    fn size(&self, at: usize) -> Option<(String, bool, usize)> {
        let Some(Token::Number(number, _)) = self.token(at) else { return None };
        let unit = self.token(at + 1);
        let is_share = unit.is_some_and(|unit| *unit == Token::Mod || is_word(unit, "percent"));
        let is_rows = unit.is_some_and(|unit| is_word(unit, "rows"));
        Some((number.clone(), is_share, at + 1 + usize::from(is_share || is_rows)))
    }
}

/// What a sample takes.
enum Sample {
    /// Each row with this probability.
    Each(f64),
    /// As many rows as this LIMIT says.
    Limit(String),
}

impl Sample {
    fn of(method: &str, number: &str, is_share: bool) -> Result<Self> {
        let wrong = |why: &str| Error::input(format!("a sample of {number} {why}"));
        let size: f64 = number.parse().map_err(|_| wrong("is no number"))?;
        match (is_share, method) {
            (true, _) if !(0.0..=100.0).contains(&size) => Err(wrong("percent is not possible").hint("Use 0% to 100%")),
            (true, "ROW") => Ok(Self::Limit(format!("{SHARE_OF_ALL_ROWS}({number})"))),
            (true, _) => Ok(Self::Each(size / 100.0)),
            (false, "BERNOULLI") => {
                Err(wrong("rows is none of BERNOULLI").hint("Use reservoir, or a share in percent"))
            }
            (false, _) => Ok(Self::Limit(format!("{}", size.trunc()))),
        }
    }

    fn of_table(sample: &TableSample) -> Result<Self> {
        let other = || Error::unsupported("this kind of TABLESAMPLE is not supported").hint("Write TABLESAMPLE 10%");
        let quantity = sample.quantity.as_ref().ok_or_else(other)?;
        let method = match sample.name {
            Some(TableSampleMethod::Bernoulli) => "BERNOULLI",
            Some(TableSampleMethod::System) => "SYSTEM",
            Some(TableSampleMethod::Row) => "ROW",
            Some(TableSampleMethod::Block) | None => return Err(other()),
        };
        let is_share = quantity.unit == Some(TableSampleUnit::Percent);
        Self::of(method, &quantity.value.to_string(), is_share)
    }

    /// What a call that stands for USING SAMPLE says.
    fn of_mark(call: &Function) -> Result<Self> {
        let FunctionArguments::List(list) = &call.args else {
            return Err(Error::internal("a sample without its size"));
        };
        let part = |argument: &FunctionArg| match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value))) => match &value.value {
                Value::SingleQuotedString(text) | Value::Number(text, _) => Some(text.clone()),
                _ => None,
            },
            _ => None,
        };
        let parts: Option<Vec<String>> = list.args.iter().map(part).collect();
        match parts.as_deref() {
            Some([method, number, unit]) => Self::of(method, number, unit == "PERCENT"),
            _ => Err(Error::internal("a sample without its size")),
        }
    }
}

/// Writes out the samples of a SELECT.
///
/// # Errors
/// Shares that are none, and numbers of rows of a join.
pub fn write_out(select: &mut Select, dialect: &dyn Dialect) -> Result<()> {
    for table in &mut select.from {
        let factors = std::iter::once(&mut table.relation).chain(table.joins.iter_mut().map(|join| &mut join.relation));
        for factor in factors {
            if let TableFactor::Table { sample, .. } | TableFactor::Derived { sample, .. } = factor
                && let Some(TableSampleKind::BeforeTableAlias(sample) | TableSampleKind::AfterTableAlias(sample)) =
                    sample.take()
            {
                cut(factor, &Sample::of_table(&sample)?, dialect)?;
            }
        }
    }
    let Some(call) = taken_mark(&mut select.qualify) else { return Ok(()) };
    let sample = Sample::of_mark(&call)?;
    match (&sample, select.from.as_mut_slice()) {
        (Sample::Each(share), _) => {
            let chosen = parsed(&format!("SELECT 1 WHERE random() < {share}"), dialect)?.selection;
            select.selection = match (chosen, select.selection.take()) {
                (Some(chosen), Some(condition)) => Some(Expr::BinaryOp {
                    left: Box::new(chosen),
                    op: BinaryOperator::And,
                    right: Box::new(Expr::Nested(Box::new(condition))),
                }),
                (chosen, condition) => chosen.or(condition),
            };
            Ok(())
        }
        (Sample::Limit(_), [table]) if table.joins.is_empty() => cut(&mut table.relation, &sample, dialect),
        (Sample::Limit(_), _) => Err(Error::unsupported("USING SAMPLE takes a number of rows of one table only")
            .hint("Write FROM (SELECT … FROM a JOIN b …) USING SAMPLE 10, or a share in percent")),
    }
}

/// Takes the mark out of what stands behind QUALIFY, whose last condition it is.
fn taken_mark(qualify: &mut Option<Expr>) -> Option<Function> {
    fn take(expr: &mut Expr) -> Option<Function> {
        let Expr::BinaryOp { left, right, .. } = expr else { return None };
        match right.as_mut() {
            Expr::Function(call) if is_mark(call) => {
                let call = call.clone();
                let left = std::mem::replace(left.as_mut(), Expr::Value(Value::Null.into()));
                *expr = left;
                Some(call)
            }
            other => take(other),
        }
    }
    match qualify {
        Some(Expr::Function(call)) if is_mark(call) => match qualify.take() {
            Some(Expr::Function(call)) => Some(call),
            _ => None,
        },
        Some(condition) => take(condition),
        None => None,
    }
}

fn is_mark(call: &Function) -> bool {
    matches!(call.name.0.as_slice(), [only] if only.as_ident().is_some_and(|name| name.value == MARK))
}

/// Makes a table a query of some of its rows, under its name.
fn cut(factor: &mut TableFactor, sample: &Sample, dialect: &dyn Dialect) -> Result<()> {
    let text = match sample {
        Sample::Each(share) => format!("SELECT * FROM t WHERE random() < {share}"),
        Sample::Limit(limit) => format!("SELECT * FROM t ORDER BY random() LIMIT {limit}"),
    };
    let mut subquery = Box::new(parsed_query(&text, dialect)?);
    let alias = match factor {
        TableFactor::Table { name, alias, .. } => alias.take().or_else(|| {
            let name: Ident = name.0.last()?.as_ident()?.clone();
            Some(TableAlias { explicit: true, name, columns: Vec::new(), at: None })
        }),
        TableFactor::Derived { alias, .. } => alias.take(),
        _ => None,
    };
    if let SetExpr::Select(select) = subquery.body.as_mut()
        && let Some(table) = select.from.first_mut()
    {
        std::mem::swap(&mut table.relation, factor);
    }
    *factor = TableFactor::Derived { lateral: false, subquery, alias, sample: None };
    Ok(())
}

fn parsed_query(text: &str, dialect: &dyn Dialect) -> Result<Query> {
    match Parser::new(dialect).try_with_sql(text).and_then(|mut parser| parser.parse_statement()) {
        Ok(Statement::Query(query)) => Ok(*query),
        _ => Err(Error::internal(format!("{text} could not be written out"))),
    }
}

fn parsed(text: &str, dialect: &dyn Dialect) -> Result<Select> {
    match *parsed_query(text, dialect)?.body {
        SetExpr::Select(select) => Ok(*select),
        _ => Err(Error::internal(format!("{text} could not be written out"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::DuckDbDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    fn written(text: &str) -> Result<String> {
        let tokens = known(Tokenizer::new(&DuckDbDialect {}, text).tokenize_with_location().expect("tokens"));
        let mut parsed = Parser::new(&DuckDbDialect {}).with_tokens_with_locations(tokens);
        let Statement::Query(mut query) = parsed.parse_statement().expect("parses") else { panic!("{text}") };
        let SetExpr::Select(select) = query.body.as_mut() else { panic!("{text}") };
        write_out(select, &DuckDbDialect {})?;
        Ok(query.to_string())
    }

    #[track_caller]
    fn check(text: &str, expect: &str) {
        assert_eq!(written(text).expect("a sample"), expect);
    }

    #[test]
    fn tables_are_sampled() {
        check("SELECT * FROM t TABLESAMPLE 10%", "SELECT * FROM (SELECT * FROM t WHERE random() < 0.1) AS t");
        check(
            "SELECT * FROM s.t AS x (a) TABLESAMPLE reservoir(20 ROWS) REPEATABLE (5), u",
            "SELECT * FROM (SELECT * FROM s.t ORDER BY random() LIMIT 20) AS x (a), u",
        );
        check(
            "SELECT * FROM t TABLESAMPLE reservoir(20%)",
            "SELECT * FROM (SELECT * FROM t ORDER BY random() LIMIT share_of_all_rows(20)) AS t",
        );
    }

    #[test]
    fn what_from_gives_is_sampled_before_conditions() {
        check(
            "SELECT a FROM t JOIN u USING (a) WHERE a OR b USING SAMPLE 5% (bernoulli, 3)",
            "SELECT a FROM t JOIN u USING(a) WHERE random() < 0.05 AND (a OR b)",
        );
        check(
            "SELECT a FROM t WHERE a QUALIFY b OR c USING SAMPLE 3",
            "SELECT a FROM (SELECT * FROM t ORDER BY random() LIMIT 3) AS t WHERE a QUALIFY b OR c",
        );
        check(
            "SELECT sample FROM t USING SAMPLE 0",
            "SELECT sample FROM (SELECT * FROM t ORDER BY random() LIMIT 0) AS t",
        );
    }

    #[test]
    fn what_is_no_sample() {
        for wrong in [
            "SELECT * FROM t USING SAMPLE 101%",
            "SELECT * FROM t TABLESAMPLE bernoulli(10)",
            "SELECT * FROM t, u USING SAMPLE 10",
        ] {
            assert!(written(wrong).is_err(), "{wrong}");
        }
    }
}
