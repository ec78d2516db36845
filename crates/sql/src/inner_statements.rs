//! Statements whose answers a query reads, those of WITH that change rows among them, and PIVOT, whose columns are the values that its table has;
//! and columns that depend on the types of values.

use std::sync::Arc;

use datafusion::arrow::array::AsArray;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::sql::parser::Statement as PlanStatement;
use datafusion::sql::sqlparser::ast::{Function, Query, Select, SetExpr, Statement as Ast, TableWithJoins, With};
use forebay_base::{Error, Result};
use forebay_changes::columns::quoted;
use forebay_grammar::inner_statements::{Answers, answered};
use forebay_macros::parts::{self, PART};
use forebay_macros::pivot_queries::{Source, written};
use forebay_syntax::call_forms::planned_name;
use forebay_syntax::dialect::ForebayDialect;
use forebay_syntax::parse::{parse, parse_plan};
use forebay_syntax::types::shown_type;

use crate::answer::Answer;
use crate::run::Run;

impl Run<'_> {
    /// Puts the answers of the statements that a query reads in their places; false where there are none.
    pub(crate) fn answer_inner(&self, statement: &mut PlanStatement) -> Result<bool> {
        match statement {
            PlanStatement::Statement(ast) => {
                let changes = match ast.as_mut() {
                    Ast::Query(query) => self.answer_changes(query)?,
                    Ast::Insert(insert) => match insert.source.as_mut() {
                        Some(query) => self.answer_changes(query)?,
                        None => false,
                    },
                    _ => false,
                };
                Ok(answered(ast.as_mut(), &mut Inner { run: self, is_view: false })? || changes)
            }
            PlanStatement::Explain(explain) => self.answer_inner(&mut explain.statement),
            PlanStatement::CreateExternalTable(_) | PlanStatement::CopyTo(_) | PlanStatement::Reset(_) => Ok(false),
        }
    }

    /// Runs what a WITH has of INSERT, UPDATE and DELETE, and puts their rows of RETURNING in their places; false where there are none.
    fn answer_changes(&self, query: &mut Query) -> Result<bool> {
        let Some(With { with_token, recursive, cte_tables }) = &mut query.with else { return Ok(false) };
        let mut found = false;
        for place in 0..cte_tables.len() {
            let (before, rest) = cte_tables.split_at_mut(place);
            let Some(table) = rest.first_mut() else { continue };
            if !matches!(table.query.body.as_ref(), SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_)) {
                continue;
            }
            let mut change = table.query.clone();
            if !before.is_empty() && change.with.is_none() {
                let (with_token, recursive) = (with_token.clone(), *recursive);
                change.with = Some(With { with_token, recursive, cte_tables: before.to_vec() });
            }
            let statement = PlanStatement::Statement(Box::new(Ast::Query(change)));
            let name = self.add_answer_of(self.plan_statement(statement)?)?;
            *table.query = parsed_query(&format!("SELECT * FROM {}", quoted(&name)))?;
            found = true;
        }
        Ok(found)
    }

    /// Has queries find the rows of an answer. Returns the name of the table that they are.
    fn add_answer_of(&self, mut answer: Answer) -> Result<String> {
        let mut batches = Vec::new();
        while let Some(batch) = answer.next_batch()? {
            batches.push(batch);
        }
        self.planner.add_answer(answer.schema(), batches)
    }

    /// As [`Run::answer_inner`], for the query of a view, which must not depend on rows of today.
    pub(crate) fn answer_in_view(&self, query: &mut Query) -> Result<()> {
        answered(query, &mut Inner { run: self, is_view: true }).map(|_| ())
    }
}

struct Inner<'a> {
    run: &'a Run<'a>,
    is_view: bool,
}

impl Answers for Inner<'_> {
    fn table(&mut self, text: &str) -> Result<String> {
        if self.is_view {
            return Err(Error::unsupported("a view cannot read what DESCRIBE, SHOW or SUMMARIZE say")
                .hint("information_schema.columns and information_schema.tables say it, too"));
        }
        self.run.add_answer_of(self.run.command(parse(text)?)?)
    }

    fn pivot(&mut self, text: &str, with: &str) -> Result<Query> {
        let query = written(text, &ForebayDialect, &mut Asked { run: self.run, with, is_view: self.is_view })?;
        parsed_query(&query)
    }

    fn select(&mut self, select: &mut Select, with: &str, outer: &[TableWithJoins]) -> Result<bool> {
        let asked = Asked { run: self.run, with, is_view: self.is_view };
        let functions = self.run.planner.functions();
        let is_aggregate =
            |call: &Function| functions.aggregate(planned_name(&call.name.to_string().to_lowercase())).is_some();
        parts::write_out(select, outer, &is_aggregate, &mut |select| asked.type_of(select))
    }
}

/// A text of ours as the query that it is.
fn parsed_query(text: &str) -> Result<Query> {
    match parse_plan(text)? {
        PlanStatement::Statement(statement) => match *statement {
            Ast::Query(query) => Ok(*query),
            other => Err(Error::internal(format!("a query became {other}"))),
        },
        other => Err(Error::internal(format!("a query became {other}"))),
    }
}

/// The tables that a PIVOT reads.
struct Asked<'a> {
    run: &'a Run<'a>,
    with: &'a str,
    is_view: bool,
}

impl Asked<'_> {
    /// The type of a part of a SELECT; `None` where it cannot be planned, as its statement then says.
    fn type_of(&self, select: &Select) -> Option<DataType> {
        let (planner, state) = (Arc::clone(&self.run.planner), self.run.state());
        let statement = parse_plan(&format!("{}{select}", self.with)).ok()?;
        let plan = self.run.session.wait_apart(async move { planner.plan(&state, statement).await }).ok()?;
        plan.schema().fields().iter().find(|field| field.name() == PART).map(|field| field.data_type().clone())
    }
}

impl Source for Asked<'_> {
    fn columns(&mut self, query: &str) -> Result<Vec<(String, String)>> {
        let plan = self.run.plan_text(&self.run.state(), &format!("{}{query}", self.with))?;
        let fields = plan.schema().fields().iter();
        Ok(fields.map(|field| (field.name().clone(), shown_type(field.data_type()))).collect())
    }

    fn texts(&mut self, query: &str) -> Result<Vec<String>> {
        let state = self.run.state();
        let plan = self.run.plan_text(&state, &format!("{}{query}", self.with))?;
        let mut answer = self.run.stream(&state, plan)?;
        let mut texts = Vec::new();
        while let Some(batch) = answer.next_batch()? {
            let column = cast(batch.column(0), &DataType::Utf8).map_err(|error| Error::internal(error.to_string()))?;
            texts.extend(column.as_string::<i32>().iter().flatten().map(str::to_owned));
        }
        Ok(texts)
    }

    fn values(&mut self, query: &str) -> Result<Vec<String>> {
        match self.is_view {
            true => Err(Error::unsupported("a view cannot have a column for each value that a table has now")
                .hint("List the values: PIVOT t ON a IN (1, 2)")),
            false => self.texts(query),
        }
    }

    fn is_aggregate(&self, name: &str) -> bool {
        let (all, own, name) = (self.run.planner.functions(), self.run.planner.state(), planned_name(name));
        all.aggregate(name).is_some() || (all.scalar(name).is_none() && !own.scalar_functions().contains_key(name))
    }
}
