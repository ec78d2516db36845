//! Statements whose answers queries read: `FROM (DESCRIBE t)`, `FROM (SHOW TABLES)`, `FROM (SUMMARIZE t)`, `FROM pragma_table_info('t')`.
//! Each becomes a call with its text, in whose place the answer comes. On the way through a statement, SELECT lists that take values
//! apart are found, too, whose columns depend on types.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, GroupByExpr, Ident, ObjectName, Query, Select, TableFactor, TableFunctionArgs,
    TableWithJoins, Value, Visitor, VisitorMut, With,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use forebay_base::{Error, Result};

use crate::walk::{Tree, visit_relations};
use crate::words::{closes, is_word, keyword, opens, places, text_of};
use crate::{fields, pivots};

/// What the call is called.
const CALL: &str = "?statement";

/// Words that begin such statements.
const BEGINNINGS: [&str; 5] = ["describe", "desc", "show", "summarize", "summarise"];

/// Functions that are pragmas.
const PRAGMAS: [(&str, &str); 2] = [("pragma_table_info", "table_info"), ("pragma_version", "version")];

/// The tokens with calls for statements in FROM.
pub(crate) fn known(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let may_begin = |token: &Token| {
        BEGINNINGS.iter().any(|word| is_word(token, word)) || PRAGMAS.iter().any(|(word, _)| is_word(token, word))
    };
    if !tokens.iter().any(|token| may_begin(&token.token)) {
        return tokens;
    }
    let places = places(&tokens);
    for index in (1..places.len()).rev() {
        let token = |index: usize| places.get(index).map(|place| &tokens[*place].token);
        let is_table = token(index - 1)
            .is_some_and(|before| *before == Token::Comma || matches!(keyword(before), Keyword::FROM | Keyword::JOIN));
        let Some(first) = token(index).filter(|_| is_table) else { continue };
        let pragma = PRAGMAS.iter().find(|(function, _)| is_word(first, function)).map(|(_, pragma)| *pragma);
        let is_statement = *first == Token::LParen
            && token(index + 1).is_some_and(|word| BEGINNINGS.iter().any(|known| is_word(word, known)));
        let open = index + usize::from(pragma.is_some());
        if !(is_statement || pragma.is_some()) || token(open) != Some(&Token::LParen) {
            continue;
        }
        let Some(close) = closing(&tokens, &places, open) else { continue };
        let inner = text_of(&tokens[places[open + 1]..places[close]]);
        let text = match pragma {
            Some(pragma) if inner.trim().is_empty() => format!("PRAGMA {pragma}"),
            Some(pragma) => format!("PRAGMA {pragma}({inner})"),
            None => inner.trim().to_owned(),
        };
        let span = tokens[places[index]].span;
        let call = [Token::make_word(CALL, Some('"')), Token::LParen, Token::SingleQuotedString(text), Token::RParen];
        tokens.splice(places[index]..=places[close], call.map(|token| TokenWithSpan { token, span }));
        return known(tokens);
    }
    tokens
}

fn closing(tokens: &[TokenWithSpan], places: &[usize], open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (index, place) in places.iter().enumerate().skip(open) {
        match &tokens[*place].token {
            token if opens(token) => depth += 1,
            token if closes(token) && depth == 1 => return Some(index),
            token if closes(token) => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Who answers statements that queries read.
pub trait Answers {
    /// The name of the table that holds the answer of a statement.
    ///
    /// # Errors
    /// A statement that fails.
    fn table(&mut self, text: &str) -> Result<String>;

    /// The query that a PIVOT stands for, where `with` (`WITH a AS (…) `, or nothing) names tables.
    ///
    /// # Errors
    /// One that stands for none.
    fn pivot(&mut self, text: &str, with: &str) -> Result<Query>;

    /// Writes out what depends on the types of values in a SELECT that [`depends_on_types`], where `with` names tables and `outer`
    /// are the tables of the queries around it; false where nothing does.
    ///
    /// # Errors
    /// What such values cannot be.
    fn select(&mut self, select: &mut Select, with: &str, outer: &[TableWithJoins]) -> Result<bool>;
}

/// Whether columns of a SELECT depend on the types of values: it takes values apart, or groups by ALL what HAVING names.
pub fn depends_on_types(select: &Select) -> bool {
    fields::are_taken_apart(select) || (select.having.is_some() && matches!(select.group_by, GroupByExpr::All(_)))
}

/// Puts the answers of statements in their places; false where there are none.
///
/// # Errors
/// Those of `answers`.
pub fn answered(tree: &mut dyn Tree, answers: &mut dyn Answers) -> Result<bool> {
    let is_call = |name: &ObjectName| match [CALL, pivots::CALL].iter().any(|call| is_named(name, call)) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    };
    if visit_relations(tree, is_call).is_continue() && tree.walk(&mut OfTypes).is_continue() {
        return Ok(false);
    }
    Statements::new(answers).run(tree)
}

/// Finds a SELECT that depends on types.
struct OfTypes;

impl Visitor for OfTypes {
    type Break = ();

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        match depends_on_types(select) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

struct Statements<'a> {
    answers: &'a mut dyn Answers,
    /// The tables that WITH names around the place, as texts.
    with: Vec<String>,
    /// One of them is RECURSIVE.
    is_recursive: bool,
    /// How many tables there were before each query around the place.
    marks: Vec<usize>,
    /// The WITH of each query around the place: its tables are seen to before the rest.
    seen: Vec<Option<With>>,
    /// The tables of the SELECTs around the place, and how many there were before each.
    outer: Vec<TableWithJoins>,
    outer_marks: Vec<usize>,
    /// Something was written otherwise.
    found: bool,
    failed: Option<Error>,
}

impl<'a> Statements<'a> {
    fn new(answers: &'a mut dyn Answers) -> Self {
        Self {
            answers,
            with: Vec::new(),
            is_recursive: false,
            marks: Vec::new(),
            seen: Vec::new(),
            outer: Vec::new(),
            outer_marks: Vec::new(),
            found: false,
            failed: None,
        }
    }
}

impl Statements<'_> {
    fn run(mut self, tree: &mut dyn Tree) -> Result<bool> {
        let _ = tree.walk_mut(&mut self);
        self.failed.map_or(Ok(self.found), Err)
    }

    /// Does the same in a query that sees the same tables.
    fn run_within(&mut self, query: &mut Query) -> Result<()> {
        let (with, is_recursive, outer) = (self.with.clone(), self.is_recursive, self.outer.clone());
        self.found |= Statements { with, is_recursive, outer, ..Statements::new(self.answers) }.run(query)?;
        Ok(())
    }

    /// The tables that WITH names, before a query that reads them.
    fn with_clause(&self) -> String {
        let recursive = if self.is_recursive { "RECURSIVE " } else { "" };
        match self.with.is_empty() {
            true => String::new(),
            false => format!("WITH {recursive}{} ", self.with.join(", ")),
        }
    }

    fn enter(&mut self, query: &mut Query) -> Result<()> {
        self.marks.push(self.with.len());
        self.seen.push(None);
        let Some(with) = &mut query.with else { return Ok(()) };
        self.is_recursive |= with.recursive;
        for table in &mut with.cte_tables {
            // Each sees those before it.
            self.run_within(&mut table.query)?;
            self.with.push(table.to_string());
        }
        self.seen.pop();
        self.seen.push(query.with.take());
        Ok(())
    }

    fn answer(&mut self, table: &mut TableFactor) -> Result<()> {
        let TableFactor::Table { name, args, alias, .. } = table else { return Ok(()) };
        let Some(text) = args.as_ref().and_then(text) else { return Ok(()) };
        self.found |= is_named(name, CALL) || is_named(name, pivots::CALL);
        if is_named(name, CALL) {
            *name = vec![Ident::with_quote('"', self.answers.table(&text)?)].into();
            *args = None;
        } else if is_named(name, pivots::CALL) {
            let mut query = self.answers.pivot(&text, &self.with_clause())?;
            self.run_within(&mut query)?;
            let (subquery, alias) = (Box::new(query), alias.take());
            *table = TableFactor::Derived { lateral: false, subquery, alias, sample: None };
        }
        Ok(())
    }

    fn goes_on(&mut self, done: Result<()>) -> ControlFlow<()> {
        match done {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                self.failed = Some(error);
                ControlFlow::Break(())
            }
        }
    }
}

impl VisitorMut for Statements<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let entered = self.enter(query);
        self.goes_on(entered)
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.marks.pop().into_iter().for_each(|mark| self.with.truncate(mark));
        if let Some(with) = self.seen.pop().flatten() {
            query.with = Some(with);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        self.outer_marks.push(self.outer.len());
        let relations = select
            .from
            .iter()
            .flat_map(|table| std::iter::once(&table.relation).chain(table.joins.iter().map(|join| &join.relation)));
        let plain = relations.filter(|table| matches!(table, TableFactor::Table { args: None, .. }));
        self.outer.extend(plain.cloned().map(|relation| TableWithJoins { relation, joins: Vec::new() }));
        ControlFlow::Continue(())
    }

    /// Behind its subqueries, which are written out then.
    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        self.outer_marks.pop().into_iter().for_each(|mark| self.outer.truncate(mark));
        if !depends_on_types(select) {
            return ControlFlow::Continue(());
        }
        let with = self.with_clause();
        let done = self.answers.select(select, &with, &self.outer).map(|found| self.found |= found);
        self.goes_on(done)
    }

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<()> {
        let answered = self.answer(table);
        self.goes_on(answered)
    }
}

fn is_named(name: &ObjectName, wanted: &str) -> bool {
    matches!(name.0.as_slice(), [only] if only.as_ident().is_some_and(|only| only.value == wanted))
}

fn text(arguments: &TableFunctionArgs) -> Option<String> {
    match arguments.args.as_slice() {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value)))] => match &value.value {
            Value::SingleQuotedString(text) => Some(text.clone()),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::DuckDbDialect;
    use datafusion::sql::sqlparser::parser::Parser;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    #[derive(Default)]
    struct Found(Vec<String>);

    impl Answers for Found {
        fn table(&mut self, text: &str) -> Result<String> {
            self.0.push(text.to_owned());
            Ok(format!("answer {}", self.0.len()))
        }

        fn pivot(&mut self, text: &str, with: &str) -> Result<Query> {
            self.0.push(format!("{with}{text}"));
            let parsed = Parser::new(&DuckDbDialect {}).try_with_sql("SELECT 1").and_then(|mut p| p.parse_query());
            Ok(*parsed.expect("a query"))
        }

        fn select(&mut self, select: &mut Select, with: &str, outer: &[TableWithJoins]) -> Result<bool> {
            let outer: Vec<String> = outer.iter().map(ToString::to_string).collect();
            self.0.push(format!("{with}{select} in {}", outer.join(", ")));
            select.projection.clear();
            Ok(true)
        }
    }

    fn check(text: &str, expect: &str, texts: &[&str]) {
        let tokens = known(Tokenizer::new(&DuckDbDialect {}, text).tokenize_with_location().expect("tokens"));
        let mut parsed = Parser::new(&DuckDbDialect {}).with_tokens_with_locations(tokens);
        let mut statement = parsed.parse_statement().expect("parses");
        let mut found = Found::default();
        assert_eq!(answered(&mut statement, &mut found).expect("answered"), !texts.is_empty());
        assert_eq!(found.0, texts);
        assert_eq!(statement.to_string(), expect);
    }

    #[test]
    fn statements_are_tables() {
        check(
            "SELECT a FROM (DESCRIBE SELECT 'x' AS a), (SHOW TABLES) AS s",
            "SELECT a FROM \"answer 1\", \"answer 2\" AS s",
            &["DESCRIBE SELECT 'x' AS a", "SHOW TABLES"],
        );
        check("SELECT * FROM pragma_table_info('t')", "SELECT * FROM \"answer 1\"", &["PRAGMA table_info('t')"]);
        check(
            "WITH a AS (SELECT 1), b AS (SELECT * FROM \"?pivot\"('PIVOT a ON x')) SELECT * FROM \"?pivot\"('PIVOT b ON x') p",
            "WITH a AS (SELECT 1), b AS (SELECT * FROM (SELECT 1)) SELECT * FROM (SELECT 1) p",
            &[
                "WITH a AS (SELECT 1) PIVOT a ON x",
                "WITH a AS (SELECT 1), b AS (SELECT * FROM (SELECT 1)) PIVOT b ON x",
            ],
        );
        check(
            "WITH a AS (SELECT 1) SELECT x, (SELECT unnest(t.s)) FROM t",
            "WITH a AS (SELECT 1) SELECT x, (SELECT) FROM t",
            &["WITH a AS (SELECT 1) SELECT unnest(t.s) in t"],
        );
        check("SELECT show FROM describe", "SELECT show FROM describe", &[]);
    }
}
