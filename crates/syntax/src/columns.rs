//! `COLUMNS(…)` in a SELECT list, in WHERE and in keys of an order: an expression once for each column of the tables in FROM that
//! is meant, by `*`, by a regular expression, by a list of names or by a lambda. In WHERE all of them must hold. It is written out
//! before planning.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Array, BinaryOperator, Distinct, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList,
    FunctionArguments, GroupByExpr, Ident, ObjectNamePart, OrderByExpr, OrderByKind, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, VisitorMut, WildcardAdditionalOptions,
};
use forebay_base::{Error, Result};
use forebay_forms::beside;
use forebay_forms::calls::{is_columns, unpacked_call};
use forebay_forms::group_names::called;
use forebay_forms::star_options::{excluded, is_plain, renames};
use forebay_grammar::expressions::position;
use forebay_grammar::named_columns::{are_meant, pattern};
use forebay_grammar::walk::Tree;

/// Tables in FROM, with their columns.
type Tables = Vec<(Option<String>, Vec<String>)>;

/// Writes out the calls of a SELECT; `tables` tells the tables in FROM, and with `true` what joins have in common but once. Errors: what
/// chooses no column, and tables whose columns are not known.
pub(crate) fn write_out(select: &mut Select, mut tables: impl FnMut(&Select, bool) -> Option<Tables>) -> Result<()> {
    let (has_calls, mut shows_twice, given) =
        (has_calls(select), beside::shows_twice(select), beside::given_names(select));
    if !has_calls && !shows_twice && given.is_empty() {
        return Ok(());
    }
    let Some(known) = tables(select, true) else {
        // The planner says which column is there twice.
        if !has_calls {
            return Ok(());
        }
        return Err(Error::unsupported(
            "COLUMNS over tables whose columns are known when they are read is not supported",
        )
        .hint("Name the columns"));
    };
    let all = columns(known);
    shows_twice |= all.iter().any(|column| given.contains(&column.name.to_lowercase()));
    if !has_calls && !shows_twice {
        return Ok(());
    }
    let mut positions = Positions { all: &all, depth: 0, has_places: true, failed: None };
    let _ = select.walk_mut(&mut positions);
    if let Some(error) = positions.failed {
        return Err(error);
    }
    let names: Vec<&str> = all.iter().map(|column| column.name.as_str()).collect();
    let is_written = |options: &WildcardAdditionalOptions| {
        options.opt_rename.is_some() || (shows_twice && is_plain(options, &names))
    };
    let mut written = Vec::with_capacity(select.projection.len());
    for item in std::mem::take(&mut select.projection) {
        let (mut expr, alias) = match &item {
            SelectItem::UnnamedExpr(expr) => (expr.clone(), None),
            SelectItem::ExprWithAlias { expr, alias } => (expr.clone(), Some(alias)),
            SelectItem::Wildcard(options) if is_written(options) => {
                written.extend(renamed(&all, None, options)?);
                continue;
            }
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(table), options)
                if is_written(options) =>
            {
                let table = table.0.last().and_then(ObjectNamePart::as_ident).map(|table| table.value.to_lowercase());
                // Columns that joins have in common are those of the table here.
                let own = tables(select, false).map_or_else(|| all.clone(), qualified);
                written.extend(renamed(&own, table.as_ref(), options)?);
                continue;
            }
            _ => {
                written.push(item);
                continue;
            }
        };
        match Calls::of(&mut expr, &all)? {
            None => written.push(item),
            Some(chosen) => {
                for column in chosen {
                    let alias = alias_of(&mut expr, alias, &column)?;
                    written.push(SelectItem::ExprWithAlias { expr: Calls::replaced(&expr, &column), alias });
                }
            }
        }
    }
    select.projection = written;
    test_each(select, &all)
}

/// What an expression of a column is called: by its alias, in which groups are written out, or as the column.
fn alias_of(expr: &mut Expr, alias: Option<&Ident>, column: &Column) -> Result<Ident> {
    Ok(match alias {
        Some(alias) if alias.value.contains('\\') => {
            let pattern = Calls::pattern(expr);
            Ident::with_quote('"', called(&alias.value, pattern.as_deref(), &column.name)?)
        }
        Some(alias) => alias.clone(),
        None => Ident::with_quote('"', column.name.clone()),
    })
}

/// Each column that WHERE chooses has to meet its test.
fn test_each(select: &mut Select, all: &[Column]) -> Result<()> {
    if let Some(test) = &mut select.selection
        && let Some(chosen) = Calls::of(test, all)?
    {
        let tests = chosen.iter().map(|column| Expr::Nested(Box::new(Calls::replaced(test, column))));
        let both =
            |left, right| Expr::BinaryOp { left: Box::new(left), op: BinaryOperator::And, right: Box::new(right) };
        select.selection = tests.reduce(both);
    }
    Ok(())
}

/// Writes out the calls in ORDER BY and in DISTINCT ON: each becomes a key for each column that it chooses.
pub(crate) fn write_out_order(query: &mut Query, tables: impl FnOnce(&Select) -> Option<Tables>) -> Result<()> {
    let SetExpr::Select(select) = query.body.as_mut() else { return Ok(()) };
    let mut looked = Calls::default();
    if let Some(Distinct::On(keys)) = &mut select.distinct {
        for key in keys {
            let _ = key.walk_mut(&mut looked);
        }
    }
    let mut none = Vec::new();
    let orders = match query.order_by.as_mut().map(|order| &mut order.kind) {
        Some(OrderByKind::Expressions(orders)) => orders,
        _ => &mut none,
    };
    for order in orders.iter_mut() {
        let _ = order.expr.walk_mut(&mut looked);
    }
    if looked.found.is_empty() && !looked.is_unpacked {
        return Ok(());
    }
    let all = columns(tables(select).ok_or_else(refused)?);
    if let Some(Distinct::On(keys)) = &mut select.distinct {
        let written: Result<Vec<Vec<Expr>>> = std::mem::take(keys).into_iter().map(|key| each(key, &all)).collect();
        *keys = written?.into_iter().flatten().collect();
    }
    for order in std::mem::take(orders) {
        let keys = each(order.expr.clone(), &all)?.into_iter();
        orders.extend(keys.map(|expr| OrderByExpr { expr, ..order.clone() }));
    }
    Ok(())
}

/// A key with each of the columns in the place of its calls.
fn each(mut key: Expr, all: &[Column]) -> Result<Vec<Expr>> {
    let mut unpacked = Positions { all, depth: 0, has_places: false, failed: None };
    let _ = key.walk_mut(&mut unpacked);
    if let Some(error) = unpacked.failed {
        return Err(error);
    }
    Ok(match Calls::of(&mut key, all)? {
        None => vec![key],
        Some(chosen) => chosen.iter().map(|column| Calls::replaced(&key, column)).collect(),
    })
}

/// Whether there are calls, outside of subqueries.
fn has_calls(select: &mut Select) -> bool {
    let mut calls = Calls::default();
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            let _ = expr.walk_mut(&mut calls);
        }
    }
    if let Some(test) = &mut select.selection {
        let _ = test.walk_mut(&mut calls);
    }
    let is_renamed = |item: &SelectItem| match item {
        SelectItem::Wildcard(options) | SelectItem::QualifiedWildcard(_, options) => options.opt_rename.is_some(),
        _ => false,
    };
    !calls.found.is_empty() || calls.has_positions || calls.is_unpacked || select.projection.iter().any(is_renamed) || {
        let groups = match &mut select.group_by {
            GroupByExpr::Expressions(groups, _) => groups.iter_mut(),
            GroupByExpr::All(_) => std::slice::IterMut::default(),
        };
        groups.chain(&mut select.having).any(|expr| {
            let _ = expr.walk_mut(&mut calls);
            calls.has_positions || calls.is_unpacked
        })
    }
}

/// What `* RENAME (a AS b)` shows, of one table or of all, each column by itself. Names that no column has are passed over, as in
/// DuckDB.
fn renamed(all: &[Column], table: Option<&String>, options: &WildcardAdditionalOptions) -> Result<Vec<SelectItem>> {
    let excluded = excluded(options).ok_or_else(|| {
        Error::unsupported("RENAME beside an EXCLUDE that names tables is not supported").hint("Name the columns alone")
    })?;
    let names = renames(options);
    let replaced: Vec<_> = options.opt_replace.iter().flat_map(|replace| &replace.items).collect();
    let is = |column: &Column, name: &Ident| column.name.eq_ignore_ascii_case(&name.value);
    let is_shown = |column: &&Column| {
        !excluded.contains(&column.name.to_lowercase())
            && table.is_none_or(|table| column.table.as_ref() == Some(table))
    };
    let item = |column: &Column| {
        let instead = replaced.iter().find(|item| is(column, &item.column_name));
        let alias = names.iter().find(|name| is(column, &name.ident)).map(|name| name.alias.clone());
        SelectItem::ExprWithAlias {
            expr: instead.map_or_else(|| column.reference.clone(), |item| item.expr.clone()),
            alias: alias.unwrap_or_else(|| Ident::with_quote('"', column.name.clone())),
        }
    };
    Ok(all.iter().filter(is_shown).map(item).collect())
}

/// Puts columns in the places of `#1`, and of `*COLUMNS(…)` among arguments.
struct Positions<'a> {
    all: &'a [Column],
    depth: usize,
    /// `#1` is a column of the tables, too.
    has_places: bool,
    failed: Option<Error>,
}

impl Positions<'_> {
    /// The columns that an argument stands for.
    fn unpacked(&mut self, argument: FunctionArg) -> Vec<FunctionArg> {
        let FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Function(call))) = &argument else {
            return vec![argument];
        };
        let Some(call) = unpacked_call(call) else { return vec![argument] };
        match chosen(call, self.all) {
            Ok(columns) => {
                let argument = |column: Column| FunctionArg::Unnamed(FunctionArgExpr::Expr(column.reference));
                columns.into_iter().map(argument).collect()
            }
            Err(error) => {
                self.failed.get_or_insert(error);
                Vec::new()
            }
        }
    }
}

impl VisitorMut for Positions<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.depth > 0 {
            return ControlFlow::Continue(());
        }
        match expr {
            Expr::Function(Function { args: FunctionArguments::List(list), .. }) => {
                list.args = std::mem::take(&mut list.args).into_iter().flat_map(|one| self.unpacked(one)).collect();
            }
            Expr::Array(Array { elem: list, .. }) | Expr::InList { list, .. } => {
                let elements = std::mem::take(list)
                    .into_iter()
                    .flat_map(|element| self.unpacked(FunctionArg::Unnamed(FunctionArgExpr::Expr(element))));
                *list = elements.filter_map(expression).collect();
            }
            _ => {}
        }
        if let Some(place) = position(expr).filter(|_| self.has_places) {
            match place.checked_sub(1).and_then(|place| self.all.get(place)) {
                Some(column) => *expr = column.reference.clone(),
                None => {
                    let error = Error::input(format!("#{place} is the place of no column"));
                    let count = self.all.len();
                    self.failed.get_or_insert(error.hint(format!("The tables in FROM have {count} columns")));
                }
            }
        }
        ControlFlow::Continue(())
    }
}

/// A column of a table in FROM.
#[derive(Debug, Clone, PartialEq)]
struct Column {
    /// What qualifies it, in lower case.
    table: Option<String>,
    name: String,
    /// How it is named where it is meant.
    reference: Expr,
}

fn columns(tables: Tables) -> Vec<Column> {
    let count = |name: &str| {
        let same = |other: &&String| other.eq_ignore_ascii_case(name);
        tables.iter().flat_map(|(_, columns)| columns).filter(same).count()
    };
    let mut all = Vec::new();
    for (table, names) in &tables {
        for name in names {
            let own = Ident::with_quote('"', name.clone());
            let reference = match table {
                Some(table) if count(name) > 1 => {
                    Expr::CompoundIdentifier(vec![Ident::with_quote('"', table.clone()), own])
                }
                _ => Expr::Identifier(own),
            };
            all.push(Column { table: table.clone(), name: name.clone(), reference });
        }
    }
    all
}

/// All columns, each by its table.
fn qualified(tables: Tables) -> Vec<Column> {
    let of_table = |(table, names): (Option<String>, Vec<String>)| {
        let column = move |name: String| {
            let mut parts: Vec<Ident> = table.iter().map(|table| Ident::with_quote('"', table.clone())).collect();
            parts.push(Ident::with_quote('"', name.clone()));
            Column { table: table.clone(), name, reference: Expr::CompoundIdentifier(parts) }
        };
        names.into_iter().map(column)
    };
    tables.into_iter().flat_map(of_table).collect()
}

/// Goes to the calls in an expression.
#[derive(Default)]
struct Calls {
    found: Vec<Function>,
    /// What stands in their place; nothing where they are only looked for.
    replacement: Option<Expr>,
    /// There are columns that are named by their places.
    has_positions: bool,
    /// There are columns among arguments.
    is_unpacked: bool,
    /// Subqueries around the place, whose calls are their own.
    inside: usize,
}

impl Calls {
    /// The columns that the calls in an expression choose; `None` where there are no calls.
    fn of(expr: &mut Expr, all: &[Column]) -> Result<Option<Vec<Column>>> {
        let mut calls = Self::default();
        let _ = expr.walk_mut(&mut calls);
        let mut lists = calls.found.iter().map(|call| chosen(call, all));
        let Some(first) = lists.next().transpose()? else { return Ok(None) };
        for other in lists {
            if other? != first {
                return Err(Error::input("the COLUMNS of one expression choose different columns")
                    .hint("Choose the same in all of them"));
            }
        }
        Ok(Some(first))
    }

    /// The regular expression of the first call.
    fn pattern(expr: &mut Expr) -> Option<String> {
        let mut calls = Self::default();
        let _ = expr.walk_mut(&mut calls);
        match &calls.found.first()?.args {
            FunctionArguments::List(FunctionArgumentList { args, .. }) => match args.as_slice() {
                [FunctionArg::Unnamed(FunctionArgExpr::Expr(test))] => pattern(test).map(str::to_owned),
                _ => None,
            },
            _ => None,
        }
    }

    /// The expression with a column in the place of its calls.
    fn replaced(expr: &Expr, column: &Column) -> Expr {
        let mut calls = Self { replacement: Some(column.reference.clone()), ..Self::default() };
        let mut expr = expr.clone();
        let _ = expr.walk_mut(&mut calls);
        expr
    }
}

impl VisitorMut for Calls {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.inside += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.inside -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        self.has_positions |= self.inside == 0 && position(expr).is_some();
        self.is_unpacked |= self.inside == 0 && matches!(expr, Expr::Function(call) if unpacked_call(call).is_some());
        if let Expr::Function(call) = expr
            && self.inside == 0
            && is_columns(call)
        {
            match &self.replacement {
                Some(replacement) => *expr = replacement.clone(),
                None => self.found.push(call.clone()),
            }
        }
        ControlFlow::Continue(())
    }
}

/// The columns that a call chooses: `*` and `t.*` with their options, and what a text, a list or a lambda chooses of them; what a
/// text does not match, where FALSE stands beside it.
fn chosen(call: &Function, all: &[Column]) -> Result<Vec<Column>> {
    let FunctionArguments::List(list) = &call.args else { return Err(refused()) };
    let (mut found, mut test, mut is_negated) = (all.to_vec(), None, false);
    for argument in &list.args {
        let FunctionArg::Unnamed(argument) = argument else { return Err(refused()) };
        match argument {
            FunctionArgExpr::Wildcard => {}
            FunctionArgExpr::WildcardWithOptions(options) => found = with_options(found, options)?,
            FunctionArgExpr::QualifiedWildcard(table) => {
                let table = table.0.last().and_then(ObjectNamePart::as_ident).map(|table| table.value.to_lowercase());
                found.retain(|column| column.table == table);
            }
            FunctionArgExpr::Expr(_) if test.is_some() => is_negated = true,
            FunctionArgExpr::Expr(expr) => test = Some(expr),
        }
    }
    let Some(test) = test else {
        return if list.args.is_empty() { Err(refused()) } else { some_of(call, found) };
    };
    let names: Vec<&str> = found.iter().map(|column| column.name.as_str()).collect();
    let flags = are_meant(test, &names)?.ok_or_else(refused)?;
    let meant = found.into_iter().zip(flags).filter(|(_, is_meant)| *is_meant != is_negated);
    some_of(call, meant.map(|(column, _)| column).collect())
}

fn some_of(call: &Function, found: Vec<Column>) -> Result<Vec<Column>> {
    match found.is_empty() {
        true => Err(Error::input(format!("{call} chooses no column"))
            .hint("A text is a regular expression, a lambda tests the name of a column")),
        false => Ok(found),
    }
}

/// Columns without those that EXCLUDE names, with what REPLACE has in the place of some, and as RENAME calls them.
fn with_options(mut all: Vec<Column>, options: &WildcardAdditionalOptions) -> Result<Vec<Column>> {
    let left_out = excluded(options).ok_or_else(refused)?;
    if let Some(missing) = left_out.iter().find(|name| !all.iter().any(|column| column.name.to_lowercase() == **name)) {
        return Err(Error::input(format!("column {missing} does not exist"))
            .hint("EXCLUDE names columns of the tables in FROM"));
    }
    all.retain(|column| !left_out.contains(&column.name.to_lowercase()));
    let is = |column: &Column, name: &Ident| column.name.eq_ignore_ascii_case(&name.value);
    for item in options.opt_replace.iter().flat_map(|replace| &replace.items) {
        let Some(column) = all.iter_mut().find(|column| is(column, &item.column_name)) else {
            return Err(Error::input(format!("column {} does not exist", item.column_name.value))
                .hint("REPLACE names columns of the tables in FROM"));
        };
        column.reference = Expr::Nested(Box::new(item.expr.clone()));
    }
    for column in &mut all {
        if let Some(rename) = renames(options).iter().find(|rename| is(column, &rename.ident)) {
            column.name.clone_from(&rename.alias.value);
        }
    }
    Ok(all)
}

fn refused() -> Error {
    Error::unsupported(
        "COLUMNS takes *, a text with a regular expression, a list of names, or a lambda that tests names",
    )
    .hint("Write COLUMNS('^a'), COLUMNS(['a', 'b']), or COLUMNS(lambda c: c LIKE 'a%')")
}

fn expression(argument: FunctionArg) -> Option<Expr> {
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    }
}
