//! JOIN … USING and NATURAL JOIN: what an unqualified column stands for that joins have in common. It is the left side's
//! column after an inner or left join, the right side's after a right join, and the first that is not NULL after a full
//! join. The planner takes the left one always, finds names of several such joins ambiguous, and in WHERE, in ON and in
//! subqueries those of one. So their columns are written out wherever tables are known; the joins themselves where the planner
//! would join other columns.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Ident, JoinConstraint, JoinOperator, ObjectName, ObjectNamePart, OrderByExpr, OrderByKind,
    Query, ReplaceSelectElement, ReplaceSelectItem, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr,
    TableAlias, TableFactor, TableWithJoins, Value, WildcardAdditionalOptions,
};
use datafusion::sql::sqlparser::parser::Parser;
use forebay_base::{Error, Result};
use forebay_forms::star_options::has_options;

use forebay_grammar::expressions::call;
use forebay_grammar::joins::{ASOF_MARK, NEAREST_CONDITION};
use forebay_grammar::whole_names;

use crate::dialect::ForebayDialect;
use crate::scopes::{Merged, Scopes};
use crate::select_list::is_of_star;
use crate::sides::{Side, UNNAMED, constraint, shares_columns, shows_one_side};
use crate::{outputs, wildcards};

/// Writes out in `select` what its columns in common stand for where the planner does not know, and what `*` stands for, and
/// gives those that unqualified names mean. Errors: columns of EXCLUDE and REPLACE that are not there;
/// [`forebay_base::ErrorKind::Unsupported`] where it cannot be told.
pub fn write_out(scopes: &Scopes, select: &mut Select) -> Result<Merged> {
    let merged = written_out(scopes, select)?;
    whole_names::qualify(select);
    Ok(merged)
}

fn written_out(scopes: &Scopes, select: &mut Select) -> Result<Merged> {
    if !shares_columns(select) && !has_options(select) {
        return Ok(Merged::new());
    }
    name_subqueries(select);
    let has_wildcard = select.projection.iter().any(|item| matches!(item, SelectItem::Wildcard(_)));
    let (mut merged, mut shifted) = (Merged::new(), Merged::new());
    let mut sides = Vec::new();
    for table in &mut select.from {
        let side = side_of(scopes, table)?;
        if side.shifted {
            shifted.extend(side.merged.clone());
        }
        if side.foreign {
            merged.extend(side.merged.clone());
        }
        sides.push(side);
    }
    if !wildcards::write_out(&mut select.projection, &sides)? && has_wildcard && sides.iter().any(|side| side.computed)
    {
        return Err(unclear("SELECT * of several joins with USING on one column"));
    }
    for item in &mut select.projection {
        match item {
            SelectItem::UnnamedExpr(Expr::Identifier(name)) => {
                if let Some(expr) = merged.get(&name.value.to_lowercase()) {
                    *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: name.clone() };
                }
            }
            SelectItem::Wildcard(options) => replace_in_wildcard(options, &shifted),
            _ => {}
        }
    }
    Ok(merged)
}

/// Names the subqueries among the joins of `select` that have no name.
fn name_subqueries(select: &mut Select) {
    fn name(table: &mut TableWithJoins, count: &mut usize) {
        let factors = std::iter::once(&mut table.relation).chain(table.joins.iter_mut().map(|join| &mut join.relation));
        for factor in factors {
            match factor {
                TableFactor::Derived { alias: alias @ None, .. } => {
                    *count += 1;
                    let number = if *count == 1 { String::new() } else { count.to_string() };
                    let name = Ident::new(format!("{}{number}", outputs::UNNAMED_SUBQUERY));
                    *alias = Some(TableAlias { explicit: true, name, columns: Vec::new(), at: None });
                }
                TableFactor::NestedJoin { table_with_joins, alias: None } => name(table_with_joins, count),
                _ => {}
            }
        }
    }
    let mut count = 0;
    select.from.iter_mut().for_each(|table| name(table, &mut count));
}

/// ORDER BY the name of a column in common becomes what is meant by it: what an alias names, the only column of a table that is
/// shown under this name, or else what joins make of the columns of both sides.
pub(crate) fn order(scopes: &Scopes, query: &mut Query) -> Result<()> {
    let SetExpr::Select(select) = query.body.as_ref() else { return Ok(()) };
    let Some(OrderByKind::Expressions(orders)) = query.order_by.as_mut().map(|order| &mut order.kind) else {
        return Ok(());
    };
    let is_name = |order: &OrderByExpr| matches!(order.expr, Expr::Identifier(_));
    if !shares_columns(select) || !orders.iter().any(is_name) {
        return Ok(());
    }
    let merged = write_out(scopes, &mut select.clone())?;
    for order in orders {
        if let Expr::Identifier(name) = &order.expr
            && let Some(stands_for) = merged.get(&name.value.to_lowercase())
            && let Some(meant) = ordering(scopes, select, name, stands_for)
        {
            order.expr = meant;
        }
    }
    Ok(())
}

/// What ORDER BY `name` means, which joins have in common and make `stands_for` of; `None` where the planner finds it.
fn ordering(scopes: &Scopes, select: &Select, name: &Ident, stands_for: &Expr) -> Option<Expr> {
    let is_name = |other: &Ident| other.value.eq_ignore_ascii_case(&name.value);
    let alias = select.projection.iter().rev().find_map(|item| match item {
        SelectItem::ExprWithAlias { expr, alias } if is_name(alias) && !is_of_star(expr, alias) => Some(expr),
        _ => None,
    });
    match alias {
        Some(Expr::Value(_)) => return None,
        Some(expr) => return Some(expr.clone()),
        None => {}
    }
    let has_all = select.projection.iter().any(|item| matches!(item, SelectItem::Wildcard(_)));
    // What is no column of a table is none that is shown.
    let of_table = Some(stands_for).filter(|meant| matches!(meant, Expr::CompoundIdentifier(_)));
    let mut shown: Vec<Expr> = Vec::new();
    // How many columns stand before an item, where that is known.
    let mut before = Some(0);
    for item in &select.projection {
        let mut width = Some(1);
        match item {
            SelectItem::UnnamedExpr(Expr::Identifier(other)) if is_name(other) => shown.extend(of_table.cloned()),
            SelectItem::UnnamedExpr(expr @ Expr::CompoundIdentifier(parts)) if parts.last().is_some_and(is_name) => {
                shown.push(expr.clone());
            }
            SelectItem::ExprWithAlias { expr, alias } if is_name(alias) => shown.push(expr.clone()),
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(table), _) => {
                let columns = columns_of(scopes, select, table);
                width = columns.as_ref().map(Vec::len);
                let place = columns.iter().flatten().position(|column| column.eq_ignore_ascii_case(&name.value));
                shown.extend(place.zip(before).map(|(place, before)| position(before + place + 1)));
            }
            SelectItem::Wildcard(_) => {
                width = None;
                shown.extend(of_table.cloned());
            }
            _ => {}
        }
        before = before.zip(width).map(|(before, width)| before + width);
    }
    if let [only] = shown.as_slice() {
        return (!has_all || only != stands_for).then(|| only.clone());
    }
    let place = select
        .projection
        .iter()
        .position(|item| matches!(item, SelectItem::UnnamedExpr(Expr::Identifier(other)) if is_name(other)));
    let has_stars = has_all || select.projection.iter().any(|item| matches!(item, SelectItem::QualifiedWildcard(..)));
    match place {
        Some(place) if !has_stars => Some(position(place + 1)),
        _ if has_all && shown.is_empty() => None,
        _ => Some(stands_for.clone()),
    }
}

fn position(place: usize) -> Expr {
    Expr::Value(Value::Number(place.to_string(), false).into())
}

/// The columns of a table in FROM.
fn columns_of(scopes: &Scopes, select: &Select, table: &ObjectName) -> Option<Vec<String>> {
    let name = last_of(table)?.value.to_lowercase();
    let tables = outputs::whole_tables_of(scopes, select)?;
    tables.into_iter().find(|(known, _)| known.as_ref() == Some(&name)).map(|(_, columns)| columns)
}

/// What unqualified names mean behind the SELECT, in ORDER BY: the columns in common that are no output.
pub fn behind(scopes: &Scopes, select: &Select) -> Result<Merged> {
    if !shares_columns(select) {
        return Ok(Merged::new());
    }
    let mut copy = select.clone();
    let mut merged = write_out(scopes, &mut copy)?;
    for item in &copy.projection {
        if let SelectItem::ExprWithAlias { alias, .. } = item {
            merged.remove(&alias.value.to_lowercase());
        }
    }
    if select.projection.iter().any(|item| matches!(item, SelectItem::Wildcard(_))) {
        merged.clear();
    }
    Ok(merged)
}

/// `*` as `* REPLACE (… AS k)`.
fn replace_in_wildcard(options: &mut WildcardAdditionalOptions, merged: &Merged) {
    let replace = options.opt_replace.get_or_insert_with(|| ReplaceSelectItem { items: Vec::new() });
    let mut names: Vec<_> = merged.keys().collect();
    names.sort();
    for name in names {
        if !replace.items.iter().any(|item| item.column_name.value.eq_ignore_ascii_case(name)) {
            let (expr, column_name) = (merged[name].clone(), Ident::new(name));
            replace.items.push(Box::new(ReplaceSelectElement { expr, column_name, as_keyword: true }));
        }
    }
    if replace.items.is_empty() {
        options.opt_replace = None;
    }
}

fn side_of(scopes: &Scopes, table: &mut TableWithJoins) -> Result<Side> {
    let mut side = side_of_factor(scopes, &mut table.relation)?;
    for join in &mut table.joins {
        let right = side_of_factor(scopes, &mut join.relation)?;
        side = joined(side, right, &mut join.join_operator)?;
    }
    Ok(side)
}

fn side_of_factor(scopes: &Scopes, table: &mut TableFactor) -> Result<Side> {
    let mut side = Side::default();
    let names = outputs::of_factor(scopes, table);
    match table {
        TableFactor::NestedJoin { table_with_joins, alias: None } => {
            return side_of(scopes, table_with_joins);
        }
        TableFactor::Table { name, alias, args: None, .. } => {
            let last = name.0.last().and_then(ObjectNamePart::as_ident).cloned();
            if let Some(qualifier) = alias.as_ref().map(|alias| alias.name.clone()).or(last) {
                side.tables.push((qualifier, names));
            }
        }
        TableFactor::Table { alias: Some(alias), .. } | TableFactor::Derived { alias: Some(alias), .. } => {
            side.tables.push((alias.name.clone(), names));
        }
        TableFactor::TableFunction { alias: Some(alias), .. }
        | TableFactor::Function { alias: Some(alias), .. }
        | TableFactor::NestedJoin { alias: Some(alias), .. } => side.tables.push((alias.name.clone(), None)),
        _ => side.tables.push((Ident::new(UNNAMED), None)),
    }
    Ok(side)
}

/// What a join does, beyond pairing rows.
#[derive(Clone, Copy)]
struct Kind {
    is_full: bool,
    is_right: bool,
    /// A side of it has columns that stand for something else than the planner takes.
    was_shifted: bool,
}

impl Kind {
    /// Whether the planner does not know what the columns in common stand for.
    fn is_ours(self) -> bool {
        self.is_full || self.is_right || self.was_shifted
    }
}

fn joined(left: Side, right: Side, operator: &mut JoinOperator) -> Result<Side> {
    let kind = Kind {
        is_full: matches!(operator, JoinOperator::FullOuter(_)),
        is_right: matches!(operator, JoinOperator::Right(_) | JoinOperator::RightOuter(_)),
        was_shifted: left.shifted || right.shifted,
    };
    let is_nearest = forget_mark(operator);
    let shows_right = matches!(operator, JoinOperator::RightSemi(_) | JoinOperator::RightAnti(_));
    let is_reduced = shows_one_side(operator);
    let written = constraint(operator);
    let shared = match &written {
        Some(JoinConstraint::Using(columns)) => Some(columns.iter().filter_map(last_of).collect()),
        Some(JoinConstraint::Natural) => left.common(&right),
        _ => Some(Vec::new()),
    };
    let is_natural = matches!(written, Some(JoinConstraint::Natural));
    let columns: Vec<Ident> = match (&shared, is_natural) {
        (Some(columns), false) => columns.clone(),
        (None, _) if kind.is_ours() => return Err(unclear("a NATURAL JOIN of such a subquery")),
        (Some(columns), true) if columns.is_empty() => return Err(nothing_in_common()),
        (Some(columns), true) => columns.clone(),
        // The planner knows what they stand for.
        (None, _) => Vec::new(),
    };
    let mut both = left.beside(&right, shared);
    let condition = merge(&mut both, &left, &right, &columns, kind, is_nearest)?;
    if let (Some(condition), Some(written)) = (condition, written) {
        both.computed = true;
        *written = JoinConstraint::On(condition);
    }
    // Of the side that a join tests for nothing is to be seen.
    Ok(match (is_reduced, shows_right) {
        (true, true) => right,
        (true, false) => left,
        _ => Side { tables: left.tables.into_iter().chain(right.tables).collect(), ..both },
    })
}

/// Tells `both` what columns in common stand for; the join's condition, where the planner would not find it.
fn merge(
    both: &mut Side,
    left: &Side,
    right: &Side,
    columns: &[Ident],
    kind: Kind,
    is_nearest: bool,
) -> Result<Option<Expr>> {
    let (mut conditions, mut is_computed) = (Vec::new(), is_nearest);
    for (place, column) in columns.iter().enumerate() {
        let Some((a, b)) = left.column(column).zip(right.column(column)) else {
            if kind.is_ours() || is_nearest {
                return Err(unclear(&format!("JOIN … USING ({column}) after another join")));
            }
            continue;
        };
        let lower = column.value.to_lowercase();
        let is_again = left.merged.contains_key(&lower) || right.merged.contains_key(&lower);
        // Columns that differ in case are others to the planner.
        let is_other = left.differs(right, column);
        both.shifted |= kind.is_full || kind.is_right;
        both.foreign = true;
        is_computed |= (kind.was_shifted && is_again) || is_other;
        let stands_for = match (kind.is_full, kind.is_right) {
            (true, _) => coalesced(&a, &b)?,
            (_, true) => b.clone(),
            _ => a.clone(),
        };
        both.merged.insert(lower, stands_for);
        let condition = |op| Expr::BinaryOp { left: Box::new(a), op, right: Box::new(b) };
        // The last column of an ASOF JOIN tells the nearest row.
        conditions.push(match is_nearest && place + 1 == columns.len() {
            true => call(NEAREST_CONDITION, vec![condition(BinaryOperator::GtEq)]),
            false => condition(BinaryOperator::Eq),
        });
    }
    let and = |left, right| Expr::BinaryOp { left: Box::new(left), op: BinaryOperator::And, right: Box::new(right) };
    Ok(conditions.into_iter().reduce(and).filter(|_| is_computed))
}

/// Takes the mark of an ASOF JOIN from the columns of USING; false where there is none.
fn forget_mark(operator: &mut JoinOperator) -> bool {
    let Some(JoinConstraint::Using(columns)) = constraint(operator) else { return false };
    let before = columns.len();
    columns.retain(|column| last_of(column).is_none_or(|column| column.value != ASOF_MARK));
    columns.len() < before
}

fn nothing_in_common() -> Error {
    Error::input("a NATURAL JOIN of tables that have no column in common")
        .hint("Write CROSS JOIN for all pairs of rows")
}

fn last_of(name: &ObjectName) -> Option<Ident> {
    name.0.last().and_then(ObjectNamePart::as_ident).cloned()
}

fn coalesced(a: &Expr, b: &Expr) -> Result<Expr> {
    let parsed = Parser::new(&ForebayDialect).try_with_sql(&format!("coalesce({a}, {b})"));
    let parsed = parsed.and_then(|mut parser| parser.parse_expr());
    parsed.map_err(|error| Error::internal(format!("columns of a join could not be written out: {error}")))
}

fn unclear(what: &str) -> Error {
    Error::unsupported(format!("{what} is not supported"))
        .hint("Join ON table.column = table.column, and name the columns")
}
