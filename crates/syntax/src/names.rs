//! Names in any case: a column `Id` is found as `id` and `ID`, and shown as `Id`. DataFusion makes unquoted names lower-case and
//! compares exactly, so unquoted names of columns whose stored name has capitals are replaced by that, quoted, before planning. Also
//! here, on the way: columns of a SELECT list get names, numbers with an exponent become DOUBLE and `X'…'` BLOB.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::TableFunctionArgs;
use datafusion::execution::SessionState;
use datafusion::logical_expr::lit;
use datafusion::prelude::SessionConfig;
use datafusion::sql::parser::Statement as PlanStatement;
use datafusion::sql::sqlparser::ast::{
    CastKind, Cte, DataType, ExactNumberInfo, ExcludeSelectItem, Expr, Ident, JoinConstraint, ObjectName,
    ObjectNamePart, Query, Select, SelectItem, SetExpr, SetOperator, Statement as Ast, TableAlias, TableFactor,
    TableObject, Value, ValueWithSpan, VisitorMut, WildcardAdditionalOptions,
};
use forebay_base::{Error, Result};
use forebay_context::error::from_datafusion;
use forebay_context::identifier_case::IdentifierCase;
use forebay_context::settings::{DescendingOrder, Variables};
use forebay_forms::{alias_letters, frame_counts, orders, volatile};
use forebay_grammar::given_names;
use forebay_grammar::walk::{Tree, visit_relations};
use forebay_grammar::windows::{self, Windows};
use forebay_grammar::{
    access, arrows, collations, conditions, distinct_on, fields, groupings, joins, lateral, limits, outer_aggregates,
    recursions, row_predicates, with_names,
};

use crate::dialect::ForebayDialect;
use crate::function_calls::FunctionCalls;
use crate::parse::parse_plan;
use crate::rows::Rows;
use crate::scopes::{Merged, Scopes};
use crate::sides::{UNNAMED, constraint};
use crate::stored_names::StoredNames;
use crate::using;
use crate::{aliases, call_forms, columns, outputs, row_types, scopes, select_list, table_forms};

/// Replaces names in `statement`, which may name tables, views and files.
pub async fn resolve(state: &SessionState, statement: &mut PlanStatement) -> Result<()> {
    write_out_dots(statement);
    if let Some(ast) = given_names::explained(statement) {
        alias_letters::keep(ast, IdentifierCase::of(state.config()).letters());
    }
    let given = given_names::of(statement);
    let references = state.resolve_table_references(statement).map_err(from_datafusion)?;
    let mut scopes = Scopes::default();
    for reference in references {
        let catalog = &state.config_options().catalog;
        let resolved = reference.clone().resolve(&catalog.default_catalog, &catalog.default_schema);
        let schemas = state.catalog_list().catalog(&resolved.catalog);
        let Some(schema) = schemas.and_then(|schemas| schemas.schema(&resolved.schema)) else { continue };
        // What is wrong with a table is said when the statement is planned.
        let Ok(Some(table)) = schema.table(&resolved.table).await else { continue };
        scopes.add_table(&reference, table.schema());
    }
    scopes.tells_letters = given.is_some() || scopes.all().has_capitals();
    if let Some((given, ast)) = given.zip(given_names::explained(statement)) {
        given.name_columns(ast, &|name| scopes.all().has(name));
    }
    let mut calls = FunctionCalls::default();
    visit(statement, &mut calls);
    for (function, arguments) in &calls.0 {
        let Some(known) = state.table_functions().get(function) else { continue };
        let arguments: Vec<_> = arguments.iter().map(|text| lit(text.as_str())).collect();
        if let Ok(table) = known.create_table_provider_with_args(TableFunctionArgs::new(&arguments, state)) {
            scopes.add_unnamed(table.schema());
        }
    }
    let (descends, variables) = (DescendingOrder::of(state.config()), Variables::of(state.config()));
    let mut names = Names { descends, variables, ..Names::new(scopes) };
    visit(statement, &mut names);
    names.failed.map_or(Ok(()), Err)
}

/// The expression over these columns that a text of the catalog is, as expressions of statements are known to the planner.
///
/// # Errors
/// Texts that are none.
pub fn resolve_expression(config: &SessionConfig, columns: SchemaRef, text: &str) -> Result<Expr> {
    let mut statement = parse_plan(&format!("SELECT {text} FROM \"{UNNAMED}\""))?;
    if let PlanStatement::Statement(ast) = &mut statement {
        arrows::known(ast.as_mut());
    }
    write_out_dots(&mut statement);
    let mut scopes = Scopes::default();
    scopes.add_table(&UNNAMED.into(), columns);
    let (descends, variables) = (DescendingOrder::of(config), Variables::of(config));
    let mut names = Names { descends, variables, ..Names::new(scopes) };
    visit(&mut statement, &mut names);
    names.failed.map_or(Ok(()), Err)?;
    let shown = match given_names::explained(&mut statement) {
        Some(Ast::Query(query)) => match query.body.as_mut() {
            SetExpr::Select(select) => select.projection.pop(),
            _ => None,
        },
        _ => None,
    };
    match shown {
        Some(SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) => Ok(expr),
        _ => Err(Error::input(format!("{text} is no expression"))),
    }
}

fn write_out_dots(statement: &mut PlanStatement) {
    match statement {
        PlanStatement::Statement(ast) => access::rewrite(ast),
        PlanStatement::Explain(explain) => write_out_dots(&mut explain.statement),
        PlanStatement::CreateExternalTable(_) | PlanStatement::CopyTo(_) | PlanStatement::Reset(_) => {}
    }
}

fn visit(statement: &mut PlanStatement, visitor: &mut dyn VisitorMut<Break = ()>) {
    match statement {
        PlanStatement::Statement(ast) => {
            let _ = ast.walk_mut(visitor);
        }
        PlanStatement::Explain(explain) => visit(&mut explain.statement, visitor),
        PlanStatement::CreateExternalTable(_) | PlanStatement::CopyTo(_) | PlanStatement::Reset(_) => {}
    }
}

/// Replaces names by the stored ones.
#[derive(Debug)]
struct Names {
    scopes: Scopes,
    rows: Rows,
    windows: Windows,
    /// ORDER BY without a direction is descending.
    descends: bool,
    /// What `getvariable` gives.
    variables: Arc<Variables>,
    /// The next query is what an INSERT takes its rows from: they have the types of the table.
    is_inserted: bool,
    /// The next query is VALUES whose columns have names.
    is_named: bool,
    failed: Option<Error>,
}

impl Names {
    fn new(scopes: Scopes) -> Self {
        let (rows, windows) = (Rows::default(), Windows::default());
        let variables = Arc::default();
        Self { scopes, rows, windows, descends: false, variables, is_inserted: false, is_named: false, failed: None }
    }

    fn replace(&self, name: &mut Ident) {
        self.scopes.replace(None, name);
    }

    /// Writes out what COLUMNS chooses of the tables in FROM.
    fn choose(&self, select: &mut Select) -> Result<()> {
        columns::write_out(select, |select, once| match once {
            true => outputs::tables_of(&self.scopes, select),
            false => outputs::whole_tables_of(&self.scopes, select),
        })
    }

    /// The columns of the tables of a SELECT, for those whose names are not in lower case.
    fn columns_of(&self, select: Option<&Select>) -> Vec<Option<StoredNames>> {
        let select = select.filter(|_| self.scopes.tells_letters);
        let tables = select.into_iter().flat_map(|select| scopes::factors(&select.from));
        tables.map(|table| outputs::of_factor(&self.scopes, table)).collect()
    }

    fn or_failed(&mut self, merged: Result<Merged>) -> Merged {
        merged.unwrap_or_else(|error| {
            self.failed.get_or_insert(error);
            Merged::new()
        })
    }

    /// Keeps the first reason why the statement cannot be run.
    fn note(&mut self, done: Result<()>) {
        if let Err(error) = done {
            self.failed.get_or_insert(error);
        }
    }

    fn replace_last(&self, name: &mut ObjectName) {
        if let Some(ObjectNamePart::Identifier(last)) = name.0.last_mut() {
            self.replace(last);
        }
    }

    fn replace_in_alias(&self, alias: &mut Option<TableAlias>) {
        for column in alias.iter_mut().flat_map(|alias| alias.columns.iter_mut()) {
            self.scopes.all().replace(&mut column.name);
        }
    }

    /// As [`Names::replace`], for a name that the planner compares as it is written.
    fn replace_exact(&self, name: &mut Ident) {
        self.replace(name);
        if name.quote_style.is_none() {
            name.value = name.value.to_lowercase();
        }
    }

    fn replace_exact_last(&self, name: &mut ObjectName) {
        if let Some(ObjectNamePart::Identifier(last)) = name.0.last_mut() {
            self.replace_exact(last);
        }
    }

    fn replace_in_wildcard(&self, options: &mut WildcardAdditionalOptions) {
        match &mut options.opt_exclude {
            Some(ExcludeSelectItem::Single(column)) => self.replace_exact_last(column),
            Some(ExcludeSelectItem::Multiple(columns)) => {
                columns.iter_mut().for_each(|column| self.replace_exact_last(column));
            }
            None => {}
        }
        if let Some(except) = &mut options.opt_except {
            self.replace_exact(&mut except.first_element);
            except.additional_elements.iter_mut().for_each(|column| self.replace_exact(column));
        }
        for item in options.opt_replace.iter_mut().flat_map(|replace| replace.items.iter_mut()) {
            self.replace_exact(&mut item.column_name);
        }
    }
}

impl VisitorMut for Names {
    type Break = ();

    fn pre_visit_statement(&mut self, statement: &mut Ast) -> ControlFlow<()> {
        self.is_inserted = matches!(statement, Ast::Insert(_));
        if let Ast::Insert(insert) = statement
            && let TableObject::TableName(table) = &insert.table
            && let Some(names) = self.scopes.table(table)
        {
            for column in insert.columns.iter_mut().filter_map(|column| column.0.last_mut()) {
                if let ObjectNamePart::Identifier(name) = column {
                    names.replace_known(name);
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if self.descends {
            query.order_by.iter_mut().for_each(orders::descend_query);
        }
        limits::fetch_as_limit(query);
        limits::whole_numbers(query);
        self.note(given_names::are_different(query));
        if self.scopes.depth() == 0 {
            let shown = collations::shown(query);
            self.note(shown);
        }
        let counted =
            limits::share_as_count(query, &ForebayDialect).and_then(|()| recursions::mark(query, &ForebayDialect));
        self.note(counted);
        let (is_inserted, is_named) = (std::mem::take(&mut self.is_inserted), std::mem::take(&mut self.is_named));
        if !is_inserted && !is_named {
            let named = table_forms::name_body(&mut query.body);
            self.note(named);
        }
        if let (SetExpr::Values(values), false) = (query.body.as_mut(), is_inserted) {
            row_types::unify(values);
        }
        if let SetExpr::Select(select) = query.body.as_mut() {
            let rewritten = table_forms::rewrite(select);
            self.note(rewritten);
        }
        let tables = |select: &Select| outputs::whole_tables_of(&self.scopes, select);
        outer_aggregates::hoist(query, &tables, &ForebayDialect);
        with_names::tell_apart(query, self.scopes.depth(), |name| self.scopes.is_named(name));
        let named = query.with.as_mut().map_or_else(Vec::new, |with| outputs::name_with(&self.scopes, with));
        self.scopes.enter_query(named);
        // Positions are those of the columns that COLUMNS chooses.
        if let (SetExpr::Select(select), Some(_)) = (query.body.as_mut(), &query.order_by) {
            let chosen = self.choose(select);
            self.note(chosen);
        }
        select_list::order_by_all(query, |query| outputs::of_query(&self.scopes, query).map(|names| names.len()));
        outputs::order_by_other_parts(&self.scopes, query);
        let chosen = columns::write_out_order(query, |select| outputs::tables_of(&self.scopes, select));
        self.note(chosen);
        let checked = orders::check(query).and_then(|()| using::order(&self.scopes, query));
        self.note(checked);
        select_list::order_by_places(query);
        select_list::order_by_last_alias(query);
        aliases::order_different(query, |with, from| outputs::of_sources(&self.scopes, with, from));
        select_list::order_by_positions(query);
        let chosen = distinct_on::order(query, &ForebayDialect);
        self.note(chosen);
        let folded = collations::ordered(query);
        self.note(folded);
        aliases::order_by_sources(query, |with, from| outputs::of_sources(&self.scopes, with, from));
        let limits = check_recursion(query);
        self.note(limits);
        for table in query.with.iter_mut().flat_map(|with| with.cte_tables.iter_mut()) {
            table.alias.columns.iter_mut().for_each(|column| self.scopes.all().replace(&mut column.name));
        }
        // ORDER BY sees the tables of the SELECT.
        let select = match query.body.as_ref() {
            SetExpr::Select(select) => Some(select.as_ref()),
            _ => None,
        };
        let merged = select.map_or_else(|| Ok(Merged::new()), |select| using::behind(&self.scopes, select));
        let merged = self.or_failed(merged);
        self.rows.enter_order(&self.scopes, select, query);
        let columns = self.columns_of(select);
        self.scopes.enter(select, columns, merged);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.rows.leave();
        self.scopes.leave();
        self.scopes.leave_query();
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        // What is written keeps its letters.
        let written = if self.scopes.tells_letters { alias_letters::of(select) } else { HashSet::new() };
        let rewritten = table_forms::rewrite(select);
        self.note(rewritten);
        if self.descends {
            orders::descend_windows(select);
        }
        let joined = joins::check(select);
        self.note(joined);
        fields::write_out(select);
        let chosen = self.choose(select);
        self.note(chosen);
        groupings::write_out(select);
        let folded = collations::grouped(select);
        self.note(folded);
        let merged = using::write_out(&self.scopes, select);
        let merged = self.or_failed(merged);
        lateral::make_lateral(select, &ForebayDialect);
        aliases::write_out(select, |from| outputs::of_sources(&self.scopes, None, from));
        select_list::name_columns(select);
        select_list::tell_casts_apart(select);
        volatile::tell_windows_apart(select);
        let windows = self.windows.enter(select);
        self.note(windows);
        self.rows.enter(&self.scopes, Some(select), select);
        let columns = self.columns_of(Some(select));
        self.scopes.enter(Some(select), columns, merged);
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(Expr::Identifier(name)) = item
                && let Some(expr) = self.rows.of(name)
            {
                *item = SelectItem::ExprWithAlias { expr, alias: name.clone() };
            }
            if let SelectItem::UnnamedExpr(expr @ Expr::CompoundIdentifier(_)) = item
                && let Expr::CompoundIdentifier(parts) = &*expr
                && self.scopes.outer_column(parts).is_some()
                && let Some(last) = parts.last()
            {
                let alias = last.clone();
                *item =
                    SelectItem::ExprWithAlias { expr: std::mem::replace(expr, Expr::Value(Value::Null.into())), alias };
            }
            match item {
                SelectItem::ExprWithAlias { alias, .. } if !written.contains(alias) => self.replace(alias),
                SelectItem::Wildcard(options) | SelectItem::QualifiedWildcard(_, options) => {
                    self.replace_in_wildcard(options);
                }
                SelectItem::ExprWithAlias { .. } | SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAliases { .. } => {}
            }
        }
        for join in select.from.iter_mut().flat_map(|table| table.joins.iter_mut()) {
            if let Some(JoinConstraint::Using(columns)) = constraint(&mut join.join_operator) {
                columns.iter_mut().for_each(|column| self.replace_last(column));
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        conditions::of_select(select);
        for join in select.from.iter_mut().flat_map(|table| table.joins.iter_mut()) {
            constraint(&mut join.join_operator).into_iter().for_each(conditions::of_join);
        }
        self.rows.leave();
        self.scopes.leave();
        self.windows.leave();
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<()> {
        outputs::name_others(&self.scopes, table);
        match table {
            TableFactor::Table { alias, .. } => self.replace_in_alias(alias),
            TableFactor::Derived { alias, subquery, .. } => {
                self.replace_in_alias(alias);
                self.is_named = matches!(subquery.body.as_ref(), SetExpr::Values(_)) && subquery.order_by.is_none();
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.descends {
            orders::descend_call(expr);
        }
        let rewritten = row_predicates::rewrite(expr, &ForebayDialect)
            .and_then(|()| collations::compared(expr))
            .and_then(|()| call_forms::rewrite(expr))
            .and_then(|()| call_forms::put_variable(&self.variables, expr));
        self.note(rewritten);
        match expr {
            Expr::Collate { .. } => self.note(Err(collations::unknown())),
            Expr::Identifier(name) => match self.scopes.merged(name).cloned().or_else(|| self.rows.of(name)) {
                Some(meant) => *expr = meant,
                None => self.replace(name),
            },
            Expr::Function(function) => {
                if let Some(window) = &mut function.over {
                    let written = self.windows.write_out(window);
                    self.note(written);
                    let folded = collations::windowed(window);
                    self.note(folded);
                    frame_counts::count_by_texts(window);
                    windows::move_order(function);
                }
            }
            _ => {}
        }
        if let Expr::CompoundIdentifier(parts) = expr
            && let Some(column) = self.scopes.tell_outer_column(parts)
        {
            *expr = fields::of_column(std::mem::take(parts), column);
        }
        if let Expr::CompoundIdentifier(parts) = expr {
            self.scopes.replace_before_fields(parts);
            if let Some((last, before)) = parts.split_last_mut() {
                self.scopes.replace(before.last(), last);
            }
        }
        ControlFlow::Continue(())
    }

    /// After the visit of its parts, so that the literals inside of the casts stay.
    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        conditions::of_parts(expr);
        let rewritten = call_forms::rewrite_behind(expr);
        self.note(rewritten);
        let Expr::Value(literal) = expr else { return ControlFlow::Continue(()) };
        let (value, data_type) = match &literal.value {
            Value::Number(text, _) if text.contains(['e', 'E']) => {
                (Value::SingleQuotedString(text.clone()), DataType::Double(ExactNumberInfo::None))
            }
            Value::HexStringLiteral(text) => (Value::HexStringLiteral(text.clone()), DataType::Blob(None)),
            _ => return ControlFlow::Continue(()),
        };
        let inner = Box::new(Expr::Value(ValueWithSpan { value, span: literal.span }));
        *expr = Expr::Cast { kind: CastKind::Cast, expr: inner, data_type, array: false, format: None };
        ControlFlow::Continue(())
    }
}

/// The rounds of a recursive query cannot be cut to a number of rows.
fn check_recursion(query: &Query) -> Result<()> {
    let Some(with) = query.with.as_ref().filter(|with| with.recursive) else { return Ok(()) };
    let is_cut = |query: &Query| {
        query.limit_clause.is_some()
            && matches!(query.body.as_ref(), SetExpr::SetOperation { op: SetOperator::Union, .. })
    };
    match with.cte_tables.iter().find(|table| is_cut(&table.query) && names_itself(table)) {
        Some(table) => Err(Error::input(format!("LIMIT in the recursive query {} is not possible", table.alias.name))
            .hint("Write LIMIT behind the query that reads it")),
        None => Ok(()),
    }
}

fn names_itself(table: &Cte) -> bool {
    let own = table.alias.name.value.to_lowercase();
    let is_own = |name: &ObjectName| match name.to_string().to_lowercase() == own {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    };
    visit_relations(table.query.as_ref(), is_own).is_break()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse_plan;
    use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};

    fn check(text: &str, expect: &str) {
        let schema = |names: &[&str]| {
            let fields: Vec<_> = names.iter().map(|name| Field::new(*name, DataType::Int32, true)).collect();
            SchemaRef::new(Schema::new(fields))
        };
        let mut scopes = Scopes::default();
        scopes.add_table(&"t".into(), schema(&["Id", "Total"]));
        scopes.add_table(&"a".into(), schema(&["Id"]));
        scopes.add_table(&"b".into(), schema(&["Id"]));
        scopes.add_table(&"lower".into(), schema(&["key"]));
        scopes.add_table(&"upper".into(), schema(&["Key"]));
        let mut names = Names::new(scopes);
        let mut statement = parse_plan(text).expect("parses");
        visit(&mut statement, &mut FunctionCalls::default());
        visit(&mut statement, &mut names);
        assert_eq!(statement.to_string(), expect);
    }

    #[test]
    fn unquoted_names_of_mixed_case_columns_are_replaced() {
        check("SELECT ID, t.total, x FROM t WHERE id > 1", "SELECT \"Id\", t.\"Total\", x FROM t WHERE \"Id\" > 1");
        check("SELECT * EXCLUDE (id) FROM t", "SELECT t.* EXCLUDE (\"Id\") FROM t");
        check("SELECT x FROM a JOIN b USING (id)", "SELECT x FROM a JOIN b USING(\"Id\")");
        check("INSERT INTO t (id) VALUES (1)", "INSERT INTO t (\"Id\") VALUES (1)");
        // DuckDB takes quoted names in any case, too.
        check("SELECT \"id\" FROM t", "SELECT \"Id\" FROM t");
    }

    #[test]
    fn names_are_those_of_the_tables_in_scope() {
        check(
            "SELECT upper.key, l.key FROM lower l JOIN upper ON l.key = upper.key",
            "SELECT upper.\"Key\", l.key FROM lower l JOIN upper ON l.key = upper.\"Key\"",
        );
        check("SELECT key FROM upper ORDER BY key", "SELECT \"Key\" FROM upper ORDER BY \"Key\"");
        check(
            "SELECT key FROM lower WHERE EXISTS (SELECT 1 FROM upper WHERE KEY = lower.KEY)",
            "SELECT key FROM lower WHERE EXISTS (SELECT 1 AS \"1\" FROM upper WHERE \"Key\" = lower.KEY)",
        );
        check("INSERT INTO upper (key) SELECT key FROM lower", "INSERT INTO upper (\"Key\") SELECT key FROM lower");
        check("SELECT x.id FROM (SELECT id FROM t) AS x", "SELECT x.\"Id\" FROM (SELECT \"Id\" FROM t) AS x");
    }

    #[test]
    fn columns_in_common_stand_for_what_joins_make_of_them() {
        let id = "\"Id\"";
        check(
            "SELECT id FROM a LEFT JOIN b USING (id) WHERE id > 1",
            &format!("SELECT a.{id} AS {id} FROM a LEFT JOIN b USING({id}) WHERE a.{id} > 1"),
        );
        check(
            "SELECT id, count(*) AS n FROM a FULL JOIN b USING (id) GROUP BY id ORDER BY id",
            &format!(
                "SELECT coalesce(a.{id}, b.{id}) AS {id}, count(*) AS n FROM a FULL JOIN b USING({id}) \
                 GROUP BY coalesce(a.{id}, b.{id}) ORDER BY 1"
            ),
        );
        check(
            "SELECT * FROM a RIGHT JOIN b USING (id)",
            &format!("SELECT a.* REPLACE (b.{id} AS {id}), b.* EXCLUDE ({id}) FROM a RIGHT JOIN b USING({id})"),
        );
        check(
            "SELECT id FROM a FULL JOIN b USING (id) JOIN t USING (id)",
            &format!(
                "SELECT coalesce(a.{id}, b.{id}) AS {id} FROM a FULL JOIN b USING({id}) JOIN t ON coalesce(a.{id}, b.{id}) = t.{id}"
            ),
        );
    }

    #[test]
    fn numbers_with_an_exponent_are_doubles() {
        check(
            "SELECT 1e300, 1.5, X'00'",
            "SELECT CAST('1e300' AS DOUBLE) AS \"1e300\", 1.5 AS \"1.5\", CAST(X'00' AS BLOB) AS \"X'00'\"",
        );
    }

    #[test]
    fn named_arguments_become_texts() {
        check(
            "SELECT x FROM read_csv('a', delim = '|', header = false)",
            "SELECT x FROM read_csv('a', 'delim=|', 'header=false')",
        );
    }
}
