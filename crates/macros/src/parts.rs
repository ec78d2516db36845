//! SELECT lists whose columns depend on the types of values, with these columns: `unnest` of structs and of lists of them, `s.*` of a
//! struct, and what GROUP BY ALL groups by where HAVING names columns.
//!
//! ```text
//! SELECT id, unnest(s) FROM t                      →   SELECT id, s['a'] AS a, s['b'] AS b FROM t
//! SELECT unnest(l, recursive := true) FROM t       →   SELECT unnest(l)['a'] AS a, unnest(l)['b'] AS b FROM t
//! SELECT s.* EXCLUDE (a) FROM t                    →   SELECT s['b'] AS b FROM t
//! ```
//!
//! Must not know: where types come from.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::arrow::datatypes::{DataType, Fields};
use datafusion::sql::sqlparser::ast::{
    AccessExpr, ExcludeSelectItem, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Ident,
    ObjectName, ObjectNamePart, Query, RenameSelectItem, Select, SelectItem, SelectItemQualifiedWildcardKind,
    Subscript, TableWithJoins, Value, Visitor, VisitorMut, WildcardAdditionalOptions,
};
use forebay_base::{Error, Result};
use forebay_grammar::expressions::call;
use forebay_grammar::fields::{are_taken_apart, qualifiers, starred, unnest_call};
use forebay_grammar::walk::Tree;

/// What the value is called whose type is asked for.
pub const PART: &str = "?part";

/// Tells the type of the column [`PART`] of a query, where that can be planned.
pub type TypeOf<'a> = dyn FnMut(&Select) -> Option<DataType> + 'a;

/// Writes out a SELECT whose columns depend on types: the keys of GROUP BY ALL, and the fields of what is taken apart. `outer` are the
/// tables of the queries around it. Returns whether it was changed.
///
/// # Errors
/// Names of EXCLUDE and REPLACE that are no fields.
pub fn write_out(
    select: &mut Select,
    outer: &[TableWithJoins],
    is_aggregate: &dyn Fn(&Function) -> bool,
    type_of: &mut TypeOf<'_>,
) -> Result<bool> {
    let grouped = group_by_having(select, outer, is_aggregate);
    let apart = take_apart(select, &mut |asked| {
        type_of(asked).or_else(|| {
            // A subquery may read columns of the queries around it.
            let mut within = asked.clone();
            within.from.extend_from_slice(outer);
            if outer.is_empty() { None } else { type_of(&within) }
        })
    })?;
    Ok(grouped || apart)
}

/// Writes the fields of what a SELECT list takes apart as columns; false where it takes no struct apart.
///
/// # Errors
/// Names of EXCLUDE and REPLACE that are no fields.
fn take_apart(select: &mut Select, type_of: &mut TypeOf<'_>) -> Result<bool> {
    if !are_taken_apart(select) {
        return Ok(false);
    }
    let tables = qualifiers(&select.from);
    let mut written = Vec::with_capacity(select.projection.len());
    let mut found = false;
    for (place, item) in select.projection.iter().enumerate() {
        let Some(apart) = Apart::of(item, &tables) else {
            written.push(item.clone());
            continue;
        };
        // The other columns stay in their places: GROUP BY may name them.
        let mut asked = select.clone();
        for (other, column) in asked.projection.iter_mut().enumerate() {
            if other == place {
                let alias = Ident::with_quote('"', PART);
                *column = SelectItem::ExprWithAlias { expr: apart.value.clone(), alias };
            } else if Apart::of(column, &tables).is_some() {
                *column = SelectItem::UnnamedExpr(Expr::Value(Value::Null.into()));
            }
        }
        (asked.distinct, asked.qualify) = (None, None);
        match type_of(&asked).map(|whole| apart.columns(&whole)).transpose()?.flatten() {
            Some(columns) => {
                found = true;
                written.extend(columns);
            }
            None => written.push(item.clone()),
        }
    }
    select.projection = written;
    Ok(found)
}

/// A value that is taken apart.
struct Apart<'a> {
    value: Expr,
    /// How many lists and structs within each other.
    depth: usize,
    /// Fields of inner structs are called by the outer ones, too: `b.c`.
    keeps_parents: bool,
    options: Option<&'a WildcardAdditionalOptions>,
}

impl<'a> Apart<'a> {
    fn of(item: &'a SelectItem, tables: &[String]) -> Option<Self> {
        if let SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options) = item {
            let value = starred(name, tables)?;
            return Some(Self { value, depth: 1, keeps_parents: false, options: Some(options) });
        }
        let FunctionArguments::List(list) = &unnest_call(item)?.args else { return None };
        let (first, options) = list.args.split_first()?;
        let FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) = first else { return None };
        let mut apart = Self { value: value.clone(), depth: 1, keeps_parents: false, options: None };
        for option in options {
            let (name, value) = named(option)?;
            match name.as_str() {
                "recursive" if value.eq_ignore_ascii_case("true") => apart.depth = usize::MAX,
                "recursive" if value.eq_ignore_ascii_case("false") => {}
                "max_depth" => apart.depth = value.parse::<u8>().ok().filter(|depth| *depth > 0)?.into(),
                "keep_parent_names" => apart.keeps_parents = value.eq_ignore_ascii_case("true"),
                _ => return None,
            }
        }
        Some(apart)
    }

    /// The columns that it becomes; `None` where no struct is taken apart.
    fn columns(&self, whole: &DataType) -> Result<Option<Vec<SelectItem>>> {
        let (mut element, mut lists) = (whole, 0);
        while let (true, Some(inner)) = (lists < self.depth, element_of(element)) {
            (element, lists) = (inner, lists + 1);
        }
        let fields = match element {
            DataType::Struct(fields) if lists < self.depth => fields,
            _ if self.options.is_some() => {
                return Err(Error::input(format!("{} is no struct, whose fields .* would show", self.value)));
            }
            _ => return Ok(None),
        };
        let mut value = self.value.clone();
        for _ in 1..lists {
            value = call("flatten", vec![value]);
        }
        if lists > 0 {
            value = call("unnest", vec![value]);
        }
        let mut columns = Vec::new();
        let place = Place { value: &value, path: Vec::new(), names: Vec::new() };
        self.add_fields(fields, self.depth - lists, &place, &mut columns);
        match self.options {
            Some(options) => chosen(columns, options, &self.value).map(Some),
            None => {
                let item = |(name, expr)| SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', name) };
                Ok(Some(columns.into_iter().map(item).collect()))
            }
        }
    }

    fn add_fields(&self, fields: &Fields, depth: usize, place: &Place<'_>, columns: &mut Vec<(String, Expr)>) {
        // Values in parentheses, `row(1, 2)`, have fields without names.
        let are_unnamed = fields.iter().enumerate().all(|(index, field)| *field.name() == format!("c{index}"));
        for (index, field) in fields.iter().enumerate() {
            let shown = if are_unnamed { format!("element{}", index + 1) } else { field.name().clone() };
            let inner = place.inner(field.name(), &shown);
            match field.data_type() {
                DataType::Struct(fields) if depth > 1 => self.add_fields(fields, depth - 1, &inner, columns),
                _ if self.keeps_parents => columns.push((inner.names.join("."), inner.expr())),
                _ => columns.push((shown, inner.expr())),
            }
        }
    }
}

/// A struct within others.
struct Place<'a> {
    value: &'a Expr,
    path: Vec<String>,
    /// The names that the path is shown by.
    names: Vec<String>,
}

impl<'a> Place<'a> {
    fn inner(&self, field: &str, shown: &str) -> Place<'a> {
        let (mut path, mut names) = (self.path.clone(), self.names.clone());
        path.push(field.to_owned());
        names.push(shown.to_owned());
        Place { value: self.value, path, names }
    }

    fn expr(&self) -> Expr {
        let root = match self.value {
            plain @ (Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Function(_)) => plain.clone(),
            other => Expr::Nested(Box::new(other.clone())),
        };
        let access_chain = self.path.iter().map(|field| subscript(field)).collect();
        Expr::CompoundFieldAccess { root: Box::new(root), access_chain }
    }
}

/// `['field']` behind a struct.
fn subscript(field: &str) -> AccessExpr {
    let index = Expr::Value(Value::SingleQuotedString(field.to_owned()).into());
    AccessExpr::Subscript(Subscript::Index { index })
}

fn element_of(list: &DataType) -> Option<&DataType> {
    match list {
        DataType::List(element) | DataType::LargeList(element) | DataType::FixedSizeList(element, _) => {
            Some(element.data_type())
        }
        _ => None,
    }
}

/// An option with its value, in lower case.
fn named(argument: &FunctionArg) -> Option<(String, String)> {
    match argument {
        FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), .. } => {
            Some((name.value.to_lowercase(), value.to_string()))
        }
        FunctionArg::ExprNamed { name: Expr::Identifier(name), arg: FunctionArgExpr::Expr(value), .. } => {
            Some((name.value.to_lowercase(), value.to_string()))
        }
        _ => None,
    }
}

/// The fields that `s.*` shows with EXCLUDE, REPLACE and RENAME. Names that RENAME has and no field are passed over, as in DuckDB.
fn chosen(columns: Vec<(String, Expr)>, options: &WildcardAdditionalOptions, value: &Expr) -> Result<Vec<SelectItem>> {
    let is = |name: &str, other: &Ident| name.eq_ignore_ascii_case(&other.value);
    let missing = |name: &Ident, list: &str| {
        let fields: Vec<&str> = columns.iter().map(|(field, _)| field.as_str()).collect();
        Error::input(format!("{list} names {}, which is no field of {value}", name.value))
            .hint(format!("Its fields are {}", fields.join(", ")))
    };
    let excluded: Vec<&ObjectName> = match &options.opt_exclude {
        None => Vec::new(),
        Some(ExcludeSelectItem::Single(name)) => vec![name],
        Some(ExcludeSelectItem::Multiple(names)) => names.iter().collect(),
    };
    let excluded: Vec<&Ident> =
        excluded.iter().filter_map(|name| name.0.last().and_then(ObjectNamePart::as_ident)).collect();
    let replaced: Vec<_> = options.opt_replace.iter().flat_map(|replace| &replace.items).collect();
    let is_field = |name: &Ident| columns.iter().any(|(field, _)| is(field, name));
    if let Some(name) = excluded.iter().find(|name| !is_field(name)) {
        return Err(missing(name, "EXCLUDE"));
    }
    if let Some(item) = replaced.iter().find(|item| !is_field(&item.column_name)) {
        return Err(missing(&item.column_name, "REPLACE"));
    }
    let renamed = match &options.opt_rename {
        None => &[],
        Some(RenameSelectItem::Single(only)) => std::slice::from_ref(only),
        Some(RenameSelectItem::Multiple(names)) => names.as_slice(),
    };
    let shown: Vec<SelectItem> = columns
        .iter()
        .filter(|(field, _)| !excluded.iter().any(|name| is(field, name)))
        .map(|(field, expr)| {
            let instead = replaced.iter().find(|item| is(field, &item.column_name));
            let alias = renamed.iter().find(|name| is(field, &name.ident)).map(|name| name.alias.clone());
            let called = instead.map_or(field, |item| &item.column_name.value);
            SelectItem::ExprWithAlias {
                expr: instead.map_or_else(|| expr.clone(), |item| item.expr.clone()),
                alias: alias.unwrap_or_else(|| Ident::with_quote('"', called.clone())),
            }
        })
        .collect();
    match shown.is_empty() {
        true => Err(Error::input(format!("EXCLUDE leaves no field of {value}"))),
        false => Ok(shown),
    }
}

/// What GROUP BY ALL groups by where HAVING names columns outside of aggregates: what is shown, and these columns, too, as in DuckDB;
/// of a field, the column that holds it. Names of the SELECT list stand for what they name. `outer` are the tables of the queries
/// around it. Returns whether the SELECT was changed.
fn group_by_having(select: &mut Select, outer: &[TableWithJoins], is_aggregate: &dyn Fn(&Function) -> bool) -> bool {
    let (GroupByExpr::All(modifiers), Some(having)) = (&select.group_by, &select.having) else { return false };
    if !modifiers.is_empty() {
        return false;
    }
    let (mut keys, mut aliases) = (Vec::new(), HashMap::new());
    for item in &select.projection {
        let expr = match item {
            SelectItem::UnnamedExpr(expr) => expr,
            SelectItem::ExprWithAlias { expr, alias } => {
                aliases.insert(alias.value.to_lowercase(), expr.clone());
                expr
            }
            _ => return false,
        };
        let used = Used::of(expr, is_aggregate);
        if used.has_windows || used.has_columns_call {
            return false;
        }
        if !used.has_aggregates && !matches!(expr, Expr::Value(_)) {
            keys.push(expr.clone());
        }
    }
    let mut meant = having.clone();
    let _ = meant.walk_mut(&mut Meant { aliases: &aliases, is_aggregate, depth: 0 });
    let columns = Used::of(&meant, is_aggregate).columns;
    if columns.is_empty() {
        return false;
    }
    let tables = [qualifiers(&select.from), qualifiers(outer)].concat();
    for column in columns.into_iter().map(|name| whole_column(name, &tables)) {
        if !keys.contains(&column) {
            keys.push(column);
        }
    }
    select.group_by = GroupByExpr::Expressions(keys, Vec::new());
    select.having = Some(meant);
    true
}

/// The column that holds the field which a name is, `t.s` of `t.s.a` and `s` of `s.a`. Names of `tables` are in lower case.
fn whole_column(name: Expr, tables: &[String]) -> Expr {
    let Expr::CompoundIdentifier(mut parts) = name else { return name };
    let table = parts[..parts.len() - 1].iter().position(|part| tables.contains(&part.value.to_lowercase()));
    parts.truncate(table.map_or(1, |table| table + 2));
    match <[Ident; 1]>::try_from(parts) {
        Ok([column]) => Expr::Identifier(column),
        Err(parts) => Expr::CompoundIdentifier(parts),
    }
}

/// What an expression uses, outside of aggregates and subqueries.
struct Used<'a> {
    is_aggregate: &'a dyn Fn(&Function) -> bool,
    depth: usize,
    columns: Vec<Expr>,
    has_aggregates: bool,
    has_windows: bool,
    /// COLUMNS stands for several columns, which are not known here.
    has_columns_call: bool,
}

impl<'a> Used<'a> {
    fn of(expr: &Expr, is_aggregate: &'a dyn Fn(&Function) -> bool) -> Self {
        let mut used = Self {
            is_aggregate,
            depth: 0,
            columns: Vec::new(),
            has_aggregates: false,
            has_windows: false,
            has_columns_call: false,
        };
        let _ = expr.walk(&mut used);
        used
    }
}

impl Visitor for Used<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Function(call) if self.depth == 0 && call.over.is_some() => self.has_windows = true,
            Expr::Function(call) if call.name.to_string().eq_ignore_ascii_case("columns") => {
                self.has_columns_call = true
            }
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) if self.depth == 0 => self.columns.push(expr.clone()),
            _ => {}
        }
        if is_apart(expr, self.is_aggregate) {
            self.has_aggregates |= self.depth == 0 && !matches!(expr, Expr::Lambda(_));
            self.depth += 1;
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        self.depth -= usize::from(is_apart(expr, self.is_aggregate));
        ControlFlow::Continue(())
    }
}

/// Whether names within this expression are not those of groups: an aggregate, or a lambda.
fn is_apart(expr: &Expr, is_aggregate: &dyn Fn(&Function) -> bool) -> bool {
    match expr {
        Expr::Function(call) => call.over.is_none() && is_aggregate(call),
        Expr::Lambda(_) => true,
        _ => false,
    }
}

/// Puts what names stand for in their places, outside of aggregates and subqueries.
struct Meant<'a> {
    aliases: &'a HashMap<String, Expr>,
    is_aggregate: &'a dyn Fn(&Function) -> bool,
    depth: usize,
}

impl VisitorMut for Meant<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        self.depth += usize::from(is_apart(expr, self.is_aggregate));
        // What stands behind a dot is a field, no name of the SELECT list and no column.
        if let Expr::CompoundFieldAccess { access_chain, .. } = expr {
            for access in access_chain {
                if let AccessExpr::Dot(Expr::Identifier(field)) = access {
                    *access = subscript(&field.value);
                }
            }
        }
        ControlFlow::Continue(())
    }

    /// Behind its parts, so that what is put in is not looked at again.
    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        self.depth -= usize::from(is_apart(expr, self.is_aggregate));
        if let (Expr::Identifier(name), 0) = (&*expr, self.depth)
            && let Some(meant) = self.aliases.get(&name.value.to_lowercase())
        {
            *expr = match meant {
                plain @ (Expr::Identifier(_) | Expr::CompoundIdentifier(_)) => plain.clone(),
                other => Expr::Nested(Box::new(other.clone())),
            };
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::datatypes::Field;
    use datafusion::sql::sqlparser::ast::SetExpr;
    use datafusion::sql::sqlparser::dialect::DuckDbDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    fn select(text: &str) -> Select {
        let parsed = Parser::new(&DuckDbDialect {}).try_with_sql(text).and_then(|mut parser| parser.parse_query());
        match *parsed.expect("parses").body {
            SetExpr::Select(select) => *select,
            other => panic!("{other} is no SELECT"),
        }
    }

    /// The type of `l` is a list of what `s` is: `STRUCT(a, "B" STRUCT(c))`.
    fn type_of(asked: &Select) -> Option<DataType> {
        let field = |name: &str, kind| Field::new(name, kind, true);
        let inner = DataType::Struct(vec![field("c", DataType::Int64)].into());
        let outer = DataType::Struct(vec![field("a", DataType::Int64), field("B", inner)].into());
        let part = asked.projection.iter().find_map(|item| match item {
            SelectItem::ExprWithAlias { expr, alias } if alias.value == PART => Some(expr.to_string()),
            _ => None,
        });
        match part?.as_str() {
            "s" | "t.s" => Some(outer),
            "l" => Some(DataType::List(Field::new("item", outer, true).into())),
            "i" => Some(DataType::Int64),
            _ => None,
        }
    }

    fn check(text: &str, expect: &str) {
        let mut select = select(text);
        take_apart(&mut select, &mut type_of).expect("written");
        assert_eq!(select.to_string(), expect);
    }

    #[test]
    fn fields_are_columns() {
        check("SELECT unnest(s), x FROM t", "SELECT s['a'] AS \"a\", s['B'] AS \"B\", x FROM t");
        check("SELECT unnest(s, recursive := true)", "SELECT s['a'] AS \"a\", s['B']['c'] AS \"c\"");
        check(
            "SELECT unnest(s, max_depth := 2, keep_parent_names := true)",
            "SELECT s['a'] AS \"a\", s['B']['c'] AS \"B.c\"",
        );
        check("SELECT unnest(l) FROM t", "SELECT unnest(l) FROM t");
        check("SELECT unnest(l, max_depth := 2)", "SELECT unnest(l)['a'] AS \"a\", unnest(l)['B'] AS \"B\"");
        check("SELECT unnest(unknown)", "SELECT unnest(unknown)");
        check("SELECT t.s.* EXCLUDE (A) FROM t", "SELECT t.s['B'] AS \"B\" FROM t");
        check("SELECT s.* REPLACE (1 AS a) FROM t", "SELECT 1 AS \"a\", s['B'] AS \"B\" FROM t");
        check("SELECT t.* FROM t", "SELECT t.* FROM t");
    }

    #[test]
    fn what_is_no_field_is_an_error() {
        for text in ["SELECT s.* EXCLUDE (z) FROM t", "SELECT s.* REPLACE (1 AS z) FROM t", "SELECT i.* FROM t"] {
            assert!(take_apart(&mut select(text), &mut type_of).is_err(), "{text}");
        }
    }

    #[test]
    fn having_names_keys() {
        let group = |text: &str| {
            let mut select = select(text);
            let is_aggregate = |call: &Function| call.name.to_string() == "sum";
            group_by_having(&mut select, &[], &is_aggregate);
            select.to_string()
        };
        assert_eq!(
            group("SELECT a % 2 AS p, sum(b) AS s FROM t GROUP BY ALL HAVING p = 1 AND s > 2"),
            "SELECT a % 2 AS p, sum(b) AS s FROM t GROUP BY a % 2, a HAVING (a % 2) = 1 AND (sum(b)) > 2",
        );
        assert_eq!(
            group("SELECT a AS p, sum(b) AS s FROM t GROUP BY ALL HAVING p = 1"),
            "SELECT a AS p, sum(b) AS s FROM t GROUP BY a HAVING a = 1",
        );
        assert_eq!(
            group("SELECT a AS p, sum(b) AS s FROM t GROUP BY ALL HAVING t.a = 1"),
            "SELECT a AS p, sum(b) AS s FROM t GROUP BY a, t.a HAVING t.a = 1",
        );
        assert_eq!(
            group("SELECT s.a FROM t GROUP BY ALL HAVING s.a > 1 AND t.s.b > 1 AND (s).c > 1"),
            "SELECT s.a FROM t GROUP BY s.a, s, t.s HAVING s.a > 1 AND t.s.b > 1 AND (s)['c'] > 1",
        );
        let same = "SELECT a, sum(b) AS s FROM t GROUP BY ALL HAVING sum(c) > 2";
        assert_eq!(group(same), same);
    }
}
