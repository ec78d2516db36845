//! JOIN … USING and NATURAL JOIN: what an unqualified column stands for that joins have in common. It is the left side's
//! column after an inner or left join, the right side's after a right join, and the first that is not NULL after a full
//! join. The planner takes the left one always, and finds names of several such joins ambiguous.
//!
//! Invariant: joins of which the planner makes the right thing by itself are left as they are.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, ExcludeSelectItem, Expr, Ident, Join, JoinConstraint, JoinOperator, ObjectName, ObjectNamePart,
    Select, SelectItem, SelectItemQualifiedWildcardKind, TableFactor, TableWithJoins, WildcardAdditionalOptions,
};
use datafusion::sql::sqlparser::ast::{ReplaceSelectElement, ReplaceSelectItem};
use datafusion::sql::sqlparser::parser::Parser;
use forebay_base::{Error, Result};

use crate::dialect::ForebayDialect;
use crate::scopes::{Merged, Scopes, StoredNames};

/// The name of a table without one.
const UNNAMED: &str = "?";

/// One side of a join: its tables, and the columns that joins within it have in common.
#[derive(Default)]
struct Side {
    /// What qualifies the columns of each, and its columns where they are known.
    tables: Vec<(Ident, Option<StoredNames>)>,
    merged: Merged,
    /// The planner would not find what some of `merged` stand for.
    foreign: bool,
    /// Some of them stand for something else than the leftmost table's column.
    shifted: bool,
    /// Columns in common that `*` shows once, by the table that it does not show them of.
    hidden: Vec<(Ident, Ident)>,
    /// It cannot be told which columns `*` shows of which table.
    unclear: bool,
}

impl Side {
    /// What a column of this side is called, where that is certain.
    fn column(&self, name: &Ident) -> Option<Expr> {
        let lower = name.value.to_lowercase();
        if let Some(merged) = self.merged.get(&lower) {
            return Some(merged.clone());
        }
        let has = |names: &Option<StoredNames>| names.as_ref().is_some_and(|names| names.has(&lower));
        let qualifier = match self.tables.as_slice() {
            [(only, _)] => only,
            tables => {
                let mut having = tables.iter().filter(|(_, names)| has(names));
                let (first, _) = having.next()?;
                if having.next().is_some() || tables.iter().any(|(_, names)| names.is_none()) {
                    return None;
                }
                first
            }
        };
        Some(Expr::CompoundIdentifier(vec![qualifier.clone(), name.clone()]))
    }

    /// What `*` shows of this side, table by table; `None` where it cannot be told. The planner would show the columns in
    /// common of whatever table comes first by name.
    fn shown(&self) -> Option<Vec<SelectItem>> {
        let is_known = |(table, _): &(Ident, Option<StoredNames>)| table.value != UNNAMED;
        if self.unclear || self.shifted || !self.tables.iter().all(is_known) {
            return None;
        }
        let item = |(table, _): &(Ident, Option<StoredNames>)| {
            let hidden = self.hidden.iter().filter(|(of, _)| of.value.eq_ignore_ascii_case(&table.value));
            let hidden: Vec<ObjectName> = hidden.map(|(_, column)| ObjectName::from(vec![column.clone()])).collect();
            let opt_exclude = (!hidden.is_empty()).then_some(ExcludeSelectItem::Multiple(hidden));
            let options = WildcardAdditionalOptions { opt_exclude, ..WildcardAdditionalOptions::default() };
            let name = ObjectName::from(vec![table.clone()]);
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options)
        };
        Some(self.tables.iter().map(item).collect())
    }

    /// The columns that two sides have in common, where both are known.
    fn common(&self, right: &Self) -> Option<Vec<Ident>> {
        let names = |side: &Self| {
            let all = side.tables.iter().map(|(_, names)| names.as_ref().map(StoredNames::lower));
            Some(all.collect::<Option<Vec<_>>>()?.into_iter().flatten().collect::<Vec<String>>())
        };
        let (left, right) = (names(self)?, names(right)?);
        let mut common: Vec<_> = left.into_iter().filter(|name| right.contains(name)).collect();
        common.sort();
        common.dedup();
        Some(common.into_iter().map(Ident::new).collect())
    }
}

/// Writes out in `select` what its columns in common stand for where the planner does not know, and gives those that
/// unqualified names mean. Errors: [`forebay_base::ErrorKind::Unsupported`] where it cannot be told.
pub fn write_out(scopes: &Scopes, select: &mut Select) -> Result<Merged> {
    let has_wildcard = select.projection.iter().any(|item| matches!(item, SelectItem::Wildcard(_)));
    let (mut merged, mut shifted) = (Merged::new(), Merged::new());
    let mut shown = Some(Vec::new());
    for table in &mut select.from {
        let side = side_of(scopes, table, has_wildcard)?;
        if side.shifted {
            shifted.extend(side.merged.clone());
        }
        shown = shown.zip(side.shown()).map(|(mut all, of_side)| {
            all.extend(of_side);
            all
        });
        if side.foreign {
            merged.extend(side.merged);
        }
    }
    if let Some(shown) = shown.filter(|shown| shown.iter().any(is_cut)) {
        let items = std::mem::take(&mut select.projection).into_iter().flat_map(|item| match &item {
            SelectItem::Wildcard(options) if *options == WildcardAdditionalOptions::default() => shown.clone(),
            _ => vec![item],
        });
        select.projection = items.collect();
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

/// What unqualified names mean behind the SELECT, in ORDER BY: the columns in common that are no output.
pub fn behind(scopes: &Scopes, select: &Select) -> Result<Merged> {
    let joins = select.from.iter().flat_map(|table| &table.joins);
    let shares = |join: &Join| {
        let mut operator = join.join_operator.clone();
        matches!(constraint(&mut operator), Some(JoinConstraint::Using(_) | JoinConstraint::Natural))
    };
    if !joins.into_iter().any(shares) {
        return Ok(Merged::new());
    }
    let mut copy = select.clone();
    let mut merged = write_out(scopes, &mut copy)?;
    for item in &copy.projection {
        match item {
            SelectItem::ExprWithAlias { alias, .. } => {
                merged.remove(&alias.value.to_lowercase());
            }
            SelectItem::Wildcard(_) => merged.clear(),
            _ => {}
        }
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

/// Whether an item hides a column.
fn is_cut(item: &SelectItem) -> bool {
    matches!(item, SelectItem::QualifiedWildcard(_, options) if options.opt_exclude.is_some())
}

fn side_of(scopes: &Scopes, table: &mut TableWithJoins, has_wildcard: bool) -> Result<Side> {
    let mut side = side_of_factor(scopes, &mut table.relation, has_wildcard)?;
    for join in &mut table.joins {
        let right = side_of_factor(scopes, &mut join.relation, has_wildcard)?;
        side = joined(side, right, &mut join.join_operator, has_wildcard)?;
    }
    Ok(side)
}

fn side_of_factor(scopes: &Scopes, table: &mut TableFactor, has_wildcard: bool) -> Result<Side> {
    let mut side = Side::default();
    match table {
        TableFactor::NestedJoin { table_with_joins, alias: None } => {
            return side_of(scopes, table_with_joins, has_wildcard);
        }
        TableFactor::Table { name, alias, args: None, .. } => {
            let last = name.0.last().and_then(ObjectNamePart::as_ident).cloned();
            let renames = alias.as_ref().is_some_and(|alias| !alias.columns.is_empty());
            let names = scopes.table(name).filter(|_| !renames).cloned();
            if let Some(qualifier) = alias.as_ref().map(|alias| alias.name.clone()).or(last) {
                side.tables.push((qualifier, names));
            }
        }
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. }
        | TableFactor::TableFunction { alias: Some(alias), .. }
        | TableFactor::Function { alias: Some(alias), .. }
        | TableFactor::NestedJoin { alias: Some(alias), .. } => side.tables.push((alias.name.clone(), None)),
        _ => side.tables.push((Ident::new(UNNAMED), None)),
    }
    Ok(side)
}

fn joined(left: Side, right: Side, operator: &mut JoinOperator, has_wildcard: bool) -> Result<Side> {
    let is_full = matches!(operator, JoinOperator::FullOuter(_));
    let is_right = matches!(operator, JoinOperator::Right(_) | JoinOperator::RightOuter(_));
    let is_reduced = shows_one_side(operator);
    let was_shifted = left.shifted || right.shifted;
    let mut foreign = left.foreign || right.foreign;
    let mut shifted = was_shifted;
    let written = constraint(operator);
    let columns = match &written {
        Some(JoinConstraint::Using(columns)) => columns.iter().filter_map(last_of).collect(),
        Some(JoinConstraint::Natural) if is_full || is_right || was_shifted => {
            left.common(&right).ok_or_else(|| unclear("a NATURAL JOIN of a subquery"))?
        }
        _ => Vec::new(),
    };
    let mut hidden: Vec<(Ident, Ident)> = left.hidden.iter().chain(&right.hidden).cloned().collect();
    let mut is_unclear = left.unclear || right.unclear || is_reduced;
    let shared = match &written {
        Some(JoinConstraint::Natural) => left.common(&right),
        _ => Some(columns.clone()),
    };
    match (shared, right.tables.as_slice()) {
        (Some(shared), [(table, _)]) => hidden.extend(shared.into_iter().map(|column| (table.clone(), column))),
        (Some(shared), _) if shared.is_empty() => {}
        _ => is_unclear = true,
    }
    let mut merged = left.merged.clone();
    merged.extend(right.merged.clone());
    let (mut conditions, mut is_computed) = (Vec::new(), false);
    for column in columns {
        let pair = left.column(&column).zip(right.column(&column));
        let Some((a, b)) = pair else {
            if is_full || is_right || was_shifted {
                return Err(unclear(&format!("JOIN … USING ({column}) after another join")));
            }
            continue;
        };
        let lower = column.value.to_lowercase();
        let is_again = left.merged.contains_key(&lower) || right.merged.contains_key(&lower);
        shifted |= is_full || is_right;
        foreign |= is_full || is_right || is_again;
        is_computed |= was_shifted && is_again;
        let stands_for = match (is_full, is_right) {
            (true, _) => coalesced(&a, &b)?,
            (_, true) => b.clone(),
            _ => a.clone(),
        };
        merged.insert(lower, stands_for);
        conditions.push(Expr::BinaryOp { left: Box::new(a), op: BinaryOperator::Eq, right: Box::new(b) });
    }
    if let (true, Some(written)) = (is_computed, written) {
        if has_wildcard {
            return Err(unclear("SELECT * of several joins with USING on one column"));
        }
        let and =
            |left, right| Expr::BinaryOp { left: Box::new(left), op: BinaryOperator::And, right: Box::new(right) };
        if let Some(condition) = conditions.into_iter().reduce(and) {
            *written = JoinConstraint::On(condition);
        }
    }
    let tables = left.tables.into_iter().chain(right.tables).collect();
    Ok(Side { tables, merged, foreign, shifted, hidden, unclear: is_unclear })
}

fn shows_one_side(operator: &JoinOperator) -> bool {
    use JoinOperator as J;
    matches!(operator, J::Semi(_) | J::LeftSemi(_) | J::RightSemi(_) | J::Anti(_) | J::LeftAnti(_) | J::RightAnti(_))
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

/// What a join's rows must meet, where the join has such a thing.
pub fn constraint(operator: &mut JoinOperator) -> Option<&mut JoinConstraint> {
    use JoinOperator as J;
    match operator {
        J::Join(constraint)
        | J::Inner(constraint)
        | J::Left(constraint)
        | J::LeftOuter(constraint)
        | J::Right(constraint)
        | J::RightOuter(constraint)
        | J::FullOuter(constraint)
        | J::Semi(constraint)
        | J::LeftSemi(constraint)
        | J::RightSemi(constraint)
        | J::Anti(constraint)
        | J::LeftAnti(constraint)
        | J::RightAnti(constraint) => Some(constraint),
        _ => None,
    }
}
