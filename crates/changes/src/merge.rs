//! MERGE: rows of a table that have a partner in a source are changed, those without one, too, and rows of the source without a
//! partner are added. INSERT … ON CONFLICT is one of them ([`crate::conflict`]).

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{Expr, Ident, ObjectName, SelectItem, TableAlias, TableFactor};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{IsOptional, Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;
use forebay_base::{Error, Result};
use forebay_store::{Table, TableSnapshot};
use forebay_syntax::dialect::ForebayDialect;
use forebay_syntax::parse;

use crate::change::PLACE;
use crate::columns::{assigned, cast, default_expr, find, is_default, quoted, whole_table};
use crate::merge_source;

/// What a column is called that tells whether a row has a partner.
const FOUND: &str = "\" found\"";

/// What a column is called that tells which clause a row falls under; 0 of none.
const CLAUSE: &str = "\" clause\"";

/// The text of a MERGE, taken apart.
#[derive(Debug)]
pub struct Parsed {
    /// The table that is changed.
    pub target: ObjectName,
    alias: Option<Ident>,
    /// Where rows come from, as it stands in FROM.
    pub source: TableFactor,
    condition: Condition,
    clauses: Vec<ParsedClause>,
    /// The list of RETURNING.
    pub returning: Option<Vec<SelectItem>>,
}

#[derive(Debug)]
enum Condition {
    On(Box<Expr>),
    Using(Vec<Ident>),
}

#[derive(Debug)]
struct ParsedClause {
    when: When,
    condition: Option<Expr>,
    action: ParsedAction,
}

#[derive(Debug)]
enum ParsedAction {
    Update(Vec<datafusion::sql::sqlparser::ast::Assignment>),
    /// All columns, by their names or by their places.
    UpdateAll {
        by_name: bool,
    },
    Insert(Vec<ObjectName>, Vec<Expr>),
    InsertAll {
        by_name: bool,
    },
    InsertDefaults,
    Delete,
    Nothing,
    Error,
}

/// Which rows a clause is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    Matched,
    /// Rows of the table without a partner.
    NotBySource,
    /// Rows of the source without a partner.
    NotByTarget,
}

/// What a statement makes of a table and a source.
#[derive(Debug)]
pub struct Merge {
    /// The table.
    pub table: Arc<TableSnapshot>,
    /// What the statement calls the table.
    pub alias: String,
    /// The source, as it stands in FROM, and what it is called.
    pub(crate) source: (String, String),
    /// Conditions, one of which makes two rows partners.
    pub(crate) conditions: Vec<String>,
    pub(crate) clauses: Vec<Clause>,
}

#[derive(Debug)]
pub(crate) struct Clause {
    pub(crate) when: When,
    pub(crate) condition: Option<String>,
    pub(crate) action: Action,
}

#[derive(Debug)]
pub(crate) enum Action {
    /// New values, by the places of columns.
    Update(BTreeMap<usize, String>),
    Delete,
    /// A value for each column.
    Insert(Vec<String>),
    Nothing,
    Error,
}

impl Parsed {
    /// Takes a text apart.
    ///
    /// # Errors
    /// What is no MERGE.
    pub fn of(text: &str) -> Result<Self> {
        let parser = Parser::new(&ForebayDialect).with_tokens_with_locations(parse::known(text)?);
        let wrong = |error: ParserError| {
            let (ParserError::TokenizerError(said) | ParserError::ParserError(said)) = error else {
                return Error::input("the statement is nested too deeply");
            };
            Error::input(format!("syntax error: {said}")).hint(
                "Write MERGE INTO t USING s ON t.k = s.k WHEN MATCHED THEN UPDATE SET … WHEN NOT MATCHED THEN INSERT …",
            )
        };
        statement(parser).map_err(wrong)
    }
}

fn statement(mut parser: Parser<'_>) -> std::result::Result<Parsed, ParserError> {
    let with = merge_source::with_text(&mut parser)?;
    parser.expect_keywords(&[Keyword::MERGE, Keyword::INTO])?;
    let target = parser.parse_object_name(false)?;
    let alias = match parser.parse_keyword(Keyword::AS) || !parser.peek_keyword(Keyword::USING) {
        true => Some(parser.parse_identifier()?),
        false => None,
    };
    parser.expect_keyword(Keyword::USING)?;
    let mut source = parser.parse_table_factor()?;
    if let TableFactor::Derived { alias: alias @ None, .. } = &mut source {
        let name = Ident::new("unnamed_subquery");
        *alias = Some(TableAlias { explicit: true, name, columns: Vec::new(), at: None });
    }
    let source = merge_source::with_tables(with.as_deref(), source)?;
    let condition = match parser.parse_keyword(Keyword::USING) {
        true => Condition::Using(parser.parse_parenthesized_column_list(IsOptional::Mandatory, false)?),
        false => {
            parser.expect_keyword(Keyword::ON)?;
            Condition::On(Box::new(parser.parse_expr()?))
        }
    };
    let mut clauses = Vec::new();
    while parser.parse_keyword(Keyword::WHEN) {
        clauses.push(clause(&mut parser)?);
    }
    let returning = match parser.parse_keyword(Keyword::RETURNING) && !clauses.is_empty() {
        true => Some(parser.parse_comma_separated(Parser::parse_select_item)?),
        false => None,
    };
    match parser.peek_token().token {
        Token::EOF if !clauses.is_empty() => Ok(Parsed { target, alias, source, condition, clauses, returning }),
        _ => parser.expected("WHEN MATCHED or WHEN NOT MATCHED", parser.peek_token()),
    }
}

fn clause(parser: &mut Parser<'_>) -> std::result::Result<ParsedClause, ParserError> {
    let is_not = parser.parse_keyword(Keyword::NOT);
    parser.expect_keyword(Keyword::MATCHED)?;
    let when = match is_not {
        false => When::Matched,
        true if parser.parse_keywords(&[Keyword::BY, Keyword::SOURCE]) => When::NotBySource,
        true => {
            let _ = parser.parse_keywords(&[Keyword::BY, Keyword::TARGET]);
            When::NotByTarget
        }
    };
    let condition = parser.parse_keyword(Keyword::AND).then(|| parser.parse_expr()).transpose()?;
    parser.expect_keyword(Keyword::THEN)?;
    let action = match when {
        _ if parser.parse_keywords(&[Keyword::DO, Keyword::NOTHING]) => ParsedAction::Nothing,
        _ if parser.parse_keyword(Keyword::ERROR) => ParsedAction::Error,
        When::NotByTarget => {
            parser.expect_keyword(Keyword::INSERT)?;
            inserted(parser)?
        }
        _ if parser.parse_keyword(Keyword::DELETE) => ParsedAction::Delete,
        _ => {
            parser.expect_keyword(Keyword::UPDATE)?;
            updated(parser)?
        }
    };
    Ok(ParsedClause { when, condition, action })
}

fn is_by_name(parser: &mut Parser<'_>) -> bool {
    let _ = parser.parse_keywords(&[Keyword::BY, Keyword::POSITION]);
    parser.parse_keywords(&[Keyword::BY, Keyword::NAME])
}

fn updated(parser: &mut Parser<'_>) -> std::result::Result<ParsedAction, ParserError> {
    if !parser.parse_keyword(Keyword::SET) {
        return Ok(ParsedAction::UpdateAll { by_name: is_by_name(parser) });
    }
    match parser.consume_token(&Token::Mul) {
        true => Ok(ParsedAction::UpdateAll { by_name: is_by_name(parser) }),
        false => Ok(ParsedAction::Update(parser.parse_comma_separated(Parser::parse_assignment)?)),
    }
}

fn inserted(parser: &mut Parser<'_>) -> std::result::Result<ParsedAction, ParserError> {
    if parser.parse_keywords(&[Keyword::DEFAULT, Keyword::VALUES]) {
        return Ok(ParsedAction::InsertDefaults);
    }
    let by_name = is_by_name(parser);
    let columns = parser.parse_parenthesized_qualified_column_list(IsOptional::Optional, false)?;
    if parser.parse_keyword(Keyword::VALUES) {
        parser.expect_token(&Token::LParen)?;
        let values = parser.parse_comma_separated(Parser::parse_expr)?;
        parser.expect_token(&Token::RParen)?;
        return Ok(ParsedAction::Insert(columns, values));
    }
    let _ = parser.consume_token(&Token::Mul);
    match columns.is_empty() {
        true => Ok(ParsedAction::InsertAll { by_name }),
        false => parser.expected("VALUES", parser.peek_token()),
    }
}

impl Merge {
    /// What a statement makes of `table`; `columns` are those of its source.
    ///
    /// # Errors
    /// Columns that are not there or set twice, and other numbers of values than columns.
    pub fn of(parsed: &Parsed, table: Arc<TableSnapshot>, columns: &[String]) -> Result<Self> {
        let last = parsed.target.0.last().map(ToString::to_string).unwrap_or_default();
        let alias = parsed.alias.as_ref().map_or(last, ToString::to_string);
        let (factor, called) = named(&parsed.source)?;
        let conditions = vec![match &parsed.condition {
            Condition::On(condition) => condition.to_string(),
            Condition::Using(names) => {
                let equal = |name: &Ident| format!("{alias}.{name} = {called}.{name}");
                names.iter().map(equal).collect::<Vec<_>>().join(" AND ")
            }
        }];
        let clauses = parsed.clauses.iter().map(|clause| {
            let action = action(&clause.action, &table, &called, columns)?;
            let condition = clause.condition.as_ref().map(ToString::to_string);
            Ok(Clause { when: clause.when, condition, action })
        });
        let clauses = clauses.collect::<Result<Vec<_>>>()?;
        Ok(Self { table, alias, source: (factor, called), conditions, clauses })
    }

    /// The query that counts the pairs of a row of a part and a row of the source that a clause is for.
    pub fn pairs(&self, part: &str) -> String {
        format!("SELECT count(*) FROM ({}) WHERE {}", self.paired(&numbered(part)), self.acts())
    }

    /// The query that counts the rows of a part that a clause is for.
    pub fn concerned(&self, part: &str) -> String {
        format!("SELECT count(DISTINCT {PLACE}) FROM ({}) WHERE {}", self.paired(&numbered(part)), self.acts())
    }

    /// The query that counts the rows for which a clause says that there is an error, of a part of the table or of the source.
    pub fn errors(&self, part: Option<&str>) -> Option<String> {
        let is_error = |clause: &Clause| {
            matches!(clause.action, Action::Error) && (clause.when == When::NotByTarget) == part.is_none()
        };
        let numbers = self.numbers(&is_error)?;
        let rows = match part {
            Some(part) => self.paired(&numbered(part)),
            None => self.unpaired(&format!("{} AS {CLAUSE}", self.case(When::NotByTarget))),
        };
        Some(format!("SELECT count(*) FROM ({rows}) WHERE {CLAUSE} IN ({numbers})"))
    }

    /// The query of the rows that stand in the place of a part.
    pub fn rows(&self, part: &str) -> String {
        let is_delete = |clause: &Clause| matches!(clause.action, Action::Delete);
        let kept = self.numbers(&is_delete).map_or_else(String::new, |gone| format!(" WHERE {CLAUSE} NOT IN ({gone})"));
        self.changed(part, &kept)
    }

    /// The query of the rows of a part that get new values, with these.
    pub fn updated(&self, part: &str) -> Option<String> {
        let is_update = |clause: &Clause| matches!(clause.action, Action::Update(_));
        self.numbers(&is_update).map(|chosen| self.changed(part, &format!(" WHERE {CLAUSE} IN ({chosen})")))
    }

    /// The query of the rows of a part that go.
    pub fn deleted(&self, part: &str) -> Option<String> {
        let is_delete = |clause: &Clause| matches!(clause.action, Action::Delete);
        self.numbers(&is_delete).map(|chosen| self.changed(part, &format!(" WHERE {CLAUSE} IN ({chosen})")))
    }

    /// As [`Merge::updated`], of a part that has a column of places ([`PLACE`]), with these.
    pub fn updated_with_places(&self, placed: &str) -> Option<String> {
        let is_update = |clause: &Clause| matches!(clause.action, Action::Update(_));
        let names = self.table.columns.iter().map(|column| quoted(&column.name)).chain([PLACE.to_owned()]);
        let items = names.collect::<Vec<_>>().join(", ");
        self.numbers(&is_update).map(|chosen| self.chosen((&items, placed), &format!(" WHERE {CLAUSE} IN ({chosen})")))
    }

    /// The query of the places of the rows of such a part that go.
    pub fn places_of_deleted(&self, placed: &str) -> Option<String> {
        let is_delete = |clause: &Clause| matches!(clause.action, Action::Delete);
        self.numbers(&is_delete).map(|chosen| self.chosen((PLACE, placed), &format!(" WHERE {CLAUSE} IN ({chosen})")))
    }

    /// The query of the rows that are added; `None` where there are none.
    pub fn inserted(&self) -> Option<String> {
        let is_insert = |clause: &Clause| matches!(clause.action, Action::Insert(_));
        let numbers = self.numbers(&is_insert)?;
        let value = |index: usize, column: &forebay_store::Column| {
            let cases = self.clauses.iter().enumerate().filter_map(|(number, clause)| match &clause.action {
                Action::Insert(values) => {
                    Some(format!("WHEN {} THEN {}", number + 1, cast(&self.table, column, &values[index])))
                }
                _ => None,
            });
            let cases: Vec<String> = cases.collect();
            format!("CASE {} {} END AS {}", self.case(When::NotByTarget), cases.join(" "), quoted(&column.name))
        };
        let values: Vec<String> =
            self.table.columns.iter().enumerate().map(|(index, column)| value(index, column)).collect();
        let names: Vec<String> = self.table.columns.iter().map(|column| quoted(&column.name)).collect();
        let rows = self.unpaired(&format!("{}, {} AS {CLAUSE}", values.join(", "), self.case(When::NotByTarget)));
        Some(format!("SELECT {} FROM ({rows}) WHERE {CLAUSE} IN ({numbers})", names.join(", ")))
    }

    /// The rows of a part under a condition, with their new values, in their order.
    fn changed(&self, part: &str, condition: &str) -> String {
        let names: Vec<String> = self.table.columns.iter().map(|column| quoted(&column.name)).collect();
        self.chosen((&names.join(", "), &numbered(part)), condition)
    }

    /// Columns of the rows of a part with places under a condition, in their order.
    fn chosen(&self, (items, placed): (&str, &str), condition: &str) -> String {
        // Of a row with several partners, one of which a clause is for, that one.
        format!(
            "SELECT {items} FROM (SELECT * FROM ({}) QUALIFY row_number() OVER (PARTITION BY {PLACE} ORDER BY {CLAUSE} DESC) = 1){condition} ORDER BY {PLACE}",
            self.paired(placed)
        )
    }

    /// The rows of a part with places, each with its partners, its place, the clause that it falls under, and the values that it has then.
    fn paired(&self, placed: &str) -> String {
        let (alias, (factor, called)) = (&self.alias, &self.source);
        let clause = format!(
            "CASE WHEN {called}.{FOUND} THEN {} ELSE {} END",
            self.case(When::Matched),
            self.case(When::NotBySource)
        );
        let value = |(index, column): (usize, &forebay_store::Column)| {
            let name = quoted(&column.name);
            let cases = self.clauses.iter().enumerate().filter_map(|(number, clause)| match &clause.action {
                Action::Update(values) => {
                    let value = cast(&self.table, column, values.get(&index)?);
                    Some(format!("WHEN {} THEN {value}", number + 1))
                }
                _ => None,
            });
            let cases: Vec<String> = cases.collect();
            match cases.is_empty() {
                true => format!("{alias}.{name} AS {name}"),
                false => format!("CASE {clause} {} ELSE {alias}.{name} END AS {name}", cases.join(" ")),
            }
        };
        let values: Vec<String> = self.table.columns.iter().enumerate().map(value).collect();
        format!(
            "SELECT {}, {alias}.{PLACE} AS {PLACE}, {clause} AS {CLAUSE} FROM {placed} AS {alias} \
             LEFT JOIN (SELECT *, TRUE AS {FOUND} FROM {factor}) AS {called} ON {}",
            values.join(", "),
            self.conditions.join(" OR ")
        )
    }

    /// `items` of the rows of the source without a partner.
    fn unpaired(&self, items: &str) -> String {
        let (alias, (factor, called)) = (&self.alias, &self.source);
        let whole = whole_table(&self.table);
        let without = |condition: &String| format!("NOT EXISTS (SELECT 1 FROM {whole} AS {alias} WHERE {condition})");
        let conditions: Vec<String> = self.conditions.iter().map(without).collect();
        format!("SELECT {items} FROM (SELECT * FROM {factor}) AS {called} WHERE {}", conditions.join(" AND "))
    }

    /// The number of the first clause for such rows whose condition holds.
    fn case(&self, when: When) -> String {
        let of_such = self.clauses.iter().enumerate().filter(|(_, clause)| clause.when == when);
        let cases: Vec<String> = of_such
            .map(|(number, clause)| {
                format!("WHEN {} THEN {}", clause.condition.as_deref().unwrap_or("TRUE"), number + 1)
            })
            .collect();
        match cases.is_empty() {
            true => "0".to_owned(),
            false => format!("CASE {} ELSE 0 END", cases.join(" ")),
        }
    }

    /// Whether a clause changes a row.
    fn acts(&self) -> String {
        let acts = |clause: &Clause| matches!(clause.action, Action::Update(_) | Action::Delete);
        self.numbers(&acts).map_or_else(|| "FALSE".to_owned(), |numbers| format!("{CLAUSE} IN ({numbers})"))
    }

    fn numbers(&self, is_meant: &dyn Fn(&Clause) -> bool) -> Option<String> {
        let meant = self.clauses.iter().enumerate().filter(|(_, clause)| is_meant(clause));
        let numbers: Vec<String> = meant.map(|(number, _)| (number + 1).to_string()).collect();
        (!numbers.is_empty()).then(|| numbers.join(", "))
    }
}

/// The rows of a part with their places, in FROM.
fn numbered(part: &str) -> String {
    format!("(SELECT *, row_number() OVER () AS {PLACE} FROM {part})")
}

/// A source without its name, and its name.
fn named(source: &TableFactor) -> Result<(String, String)> {
    let without_name = Error::input("the source of a MERGE has no name").hint("Write USING (SELECT …) AS s");
    Ok(match source {
        TableFactor::Table { name, alias: None, args: None, .. } => {
            let last = name.0.last().map(ToString::to_string);
            (source.to_string(), last.ok_or(without_name)?)
        }
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. }
        | TableFactor::Function { alias: Some(alias), .. }
        | TableFactor::TableFunction { alias: Some(alias), .. } => (source.to_string(), alias.name.to_string()),
        _ => return Err(without_name),
    })
}

fn action(parsed: &ParsedAction, table: &Table, called: &str, columns: &[String]) -> Result<Action> {
    let of_source = |name: &str| format!("{called}.{}", quoted(name));
    let same = |column: &forebay_store::Column| {
        columns.iter().find(|name| name.eq_ignore_ascii_case(&column.name)).map(|name| of_source(name))
    };
    Ok(match parsed {
        ParsedAction::Nothing => Action::Nothing,
        ParsedAction::Error => Action::Error,
        ParsedAction::Delete => Action::Delete,
        ParsedAction::Update(assignments) => {
            let values = assigned(table, assignments)?.into_iter();
            Action::Update(values.map(|(index, value)| (index, value.to_string())).collect())
        }
        ParsedAction::UpdateAll { by_name: true } => {
            let values = table.columns.iter().enumerate();
            Action::Update(values.filter_map(|(index, column)| Some((index, same(column)?))).collect())
        }
        ParsedAction::UpdateAll { by_name: false } => {
            check_count(columns.len(), table.columns.len())?;
            Action::Update(columns.iter().map(|name| of_source(name)).enumerate().collect())
        }
        ParsedAction::InsertAll { by_name: true } => {
            let value = |column: &forebay_store::Column| match same(column) {
                Some(value) => Ok(value),
                None => default_expr(column).map(|value| value.to_string()),
            };
            Action::Insert(table.columns.iter().map(value).collect::<Result<_>>()?)
        }
        ParsedAction::InsertAll { by_name: false } => {
            check_count(columns.len(), table.columns.len())?;
            Action::Insert(columns.iter().map(|name| of_source(name)).collect())
        }
        ParsedAction::InsertDefaults => Action::Insert(defaults(table)?),
        ParsedAction::Insert(names, given) => {
            let mut values = defaults(table)?;
            let places: Vec<usize> = match names.is_empty() {
                true => (0..table.columns.len()).collect(),
                false => names.iter().map(|name| Ok(find(table, name)?.0)).collect::<Result<_>>()?,
            };
            check_count(given.len(), places.len())?;
            for (place, value) in places.into_iter().zip(given) {
                if !is_default(value) {
                    values[place] = value.to_string();
                }
            }
            Action::Insert(values)
        }
    })
}

fn defaults(table: &Table) -> Result<Vec<String>> {
    table.columns.iter().map(|column| default_expr(column).map(|value| value.to_string())).collect()
}

fn check_count(found: usize, wanted: usize) -> Result<()> {
    match found == wanted {
        true => Ok(()),
        false => Err(Error::input("there is another number of values than of columns")
            .hint(format!("There are {found} values and {wanted} columns"))),
    }
}
