//! `*` in a SELECT list, written out table by table where the planner would show other columns: where joins have columns in
//! common, and where EXCLUDE and REPLACE name columns by their table, in another case, or such as are not there.

use datafusion::sql::sqlparser::ast::{
    ExcludeSelectItem, Expr, Ident, ObjectName, ObjectNamePart, ReplaceSelectElement, ReplaceSelectItem, SelectItem,
    SelectItemQualifiedWildcardKind, WildcardAdditionalOptions,
};
use forebay_base::{Error, Result};
use forebay_forms::star_options::is_chosen;

use crate::sides::Side;
use crate::stored_names::StoredNames;

/// Writes out the `*` of a SELECT list over these sides where that is necessary; false where it cannot be told what one stands
/// for. Errors: columns that are not there, or named twice.
pub(crate) fn write_out(projection: &mut Vec<SelectItem>, sides: &[Side]) -> Result<bool> {
    let is_cut = sides.iter().any(Side::is_cut);
    let mut is_told = true;
    let mut written = Vec::with_capacity(projection.len());
    for item in std::mem::take(projection) {
        match &item {
            SelectItem::Wildcard(options) if is_cut || is_chosen(options) => match Shown::of(sides, options)? {
                Some(shown) => written.extend(shown.items()),
                None => {
                    is_told = false;
                    written.push(item);
                }
            },
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options)
                if is_chosen(options) =>
            {
                match of_table(sides, name, options)? {
                    Some(shown) => written.extend(shown.items()),
                    None => written.push(item),
                }
            }
            _ => written.push(item),
        }
    }
    *projection = written;
    Ok(is_told)
}

/// What EXCLUDE and REPLACE name.
struct Choice {
    /// Columns, and the tables that they are named by, in lower case.
    excluded: Vec<(Option<String>, Ident)>,
    replaced: Vec<(Ident, Expr)>,
}

impl Choice {
    /// `None` where there are other options.
    fn of(options: &WildcardAdditionalOptions) -> Result<Option<Self>> {
        let known = WildcardAdditionalOptions {
            wildcard_token: options.wildcard_token.clone(),
            opt_exclude: options.opt_exclude.clone(),
            opt_replace: options.opt_replace.clone(),
            ..WildcardAdditionalOptions::default()
        };
        if known != *options {
            return Ok(None);
        }
        let names = match &options.opt_exclude {
            None => Vec::new(),
            Some(ExcludeSelectItem::Single(name)) => vec![name],
            Some(ExcludeSelectItem::Multiple(names)) => names.iter().collect(),
        };
        let mut excluded = Vec::new();
        for name in names {
            let parts: Vec<&Ident> = name.0.iter().filter_map(ObjectNamePart::as_ident).collect();
            let Some((column, before)) = parts.split_last() else { continue };
            let next = (before.last().map(|table| table.value.to_lowercase()), (*column).clone());
            if excluded.iter().any(|(table, other)| *table == next.0 && is_same(other, &next.1)) {
                return Err(Error::input(format!("EXCLUDE names {name} twice")));
            }
            excluded.push(next);
        }
        let mut replaced: Vec<(Ident, Expr)> = Vec::new();
        for item in options.opt_replace.iter().flat_map(|replace| &replace.items) {
            let name = &item.column_name;
            if replaced.iter().any(|(other, _)| is_same(other, name)) {
                return Err(Error::input(format!("REPLACE names {name} twice")));
            }
            if excluded.iter().any(|(table, other)| table.is_none() && is_same(other, name)) {
                return Err(Error::input(format!("both EXCLUDE and REPLACE name {name}")));
            }
            replaced.push((name.clone(), item.expr.clone()));
        }
        Ok(Some(Self { excluded, replaced }))
    }
}

fn is_same(one: &Ident, other: &Ident) -> bool {
    one.value.eq_ignore_ascii_case(&other.value)
}

fn missing(name: &Ident, list: &str) -> Error {
    Error::input(format!("column {} does not exist", name.value))
        .hint(format!("{list} names columns of the tables in FROM"))
}

/// What `*` shows of a table.
struct ShownTable {
    table: Ident,
    names: Option<StoredNames>,
    excluded: Vec<Ident>,
    replaced: Vec<(Ident, Expr)>,
}

impl ShownTable {
    fn is_named(&self, lower: &str) -> bool {
        self.table.value.to_lowercase() == lower
    }

    /// Whether it has and shows a column; one whose columns are not known has all.
    fn shows(&self, column: &Ident) -> bool {
        self.has(column) && !self.excluded.iter().any(|other| is_same(other, column))
    }

    fn has(&self, column: &Ident) -> bool {
        self.names.as_ref().is_none_or(|names| names.has(&column.value.to_lowercase()))
    }

    /// The column as it is stored.
    fn stored(&self, column: &Ident) -> Ident {
        let stored = self.names.as_ref().and_then(|names| names.stored(&column.value.to_lowercase()));
        stored.map_or_else(|| column.clone(), |stored| Ident::with_quote('"', stored))
    }

    fn exclude(&mut self, column: &Ident) {
        let stored = self.stored(column);
        self.excluded.push(stored);
    }

    fn item(self) -> SelectItem {
        let names: Vec<ObjectName> = self.excluded.into_iter().map(|column| ObjectName::from(vec![column])).collect();
        let replaced: Vec<Box<ReplaceSelectElement>> = self
            .replaced
            .into_iter()
            .map(|(column_name, expr)| Box::new(ReplaceSelectElement { expr, column_name, as_keyword: true }))
            .collect();
        let options = WildcardAdditionalOptions {
            opt_exclude: (!names.is_empty()).then_some(ExcludeSelectItem::Multiple(names)),
            opt_replace: (!replaced.is_empty()).then_some(ReplaceSelectItem { items: replaced }),
            ..WildcardAdditionalOptions::default()
        };
        let name = ObjectName::from(vec![self.table]);
        SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options)
    }
}

/// What `*` shows, table by table.
struct Shown(Vec<ShownTable>);

/// What `table.*` shows.
fn of_table(sides: &[Side], name: &ObjectName, options: &WildcardAdditionalOptions) -> Result<Option<Shown>> {
    let last = name.0.last().and_then(ObjectNamePart::as_ident);
    let tables = || sides.iter().flat_map(|side| &side.tables);
    let is_meant = |(table, _): &&(Ident, Option<StoredNames>)| last.is_some_and(|last| is_same(last, table));
    let Some((table, names)) = tables().find(is_meant) else { return Ok(None) };
    let Some(choice) = Choice::of(options)? else { return Ok(None) };
    if name.0.len() > 1 {
        return Ok(None);
    }
    let (table, names) = (table.clone(), names.clone());
    let mut shown = Shown(vec![ShownTable { table, names, excluded: Vec::new(), replaced: Vec::new() }]);
    shown.choose(&choice)?;
    Ok(Some(shown))
}

impl Shown {
    /// `None` where it cannot be told.
    fn of(sides: &[Side], options: &WildcardAdditionalOptions) -> Result<Option<Self>> {
        let Some(choice) = Choice::of(options)? else { return Ok(None) };
        let tables = sides.iter().flat_map(|side| &side.tables).cloned();
        let mut shown = Self(
            tables.map(|(table, names)| ShownTable { table, names, excluded: vec![], replaced: vec![] }).collect(),
        );
        let is_known = shown.0.len() == 1 || shown.0.iter().all(|table| table.names.is_some());
        if !sides.iter().all(Side::is_clear) || (is_chosen(options) && !is_known) {
            return Ok(None);
        }
        for side in sides {
            shown.hide(side, &choice);
        }
        shown.choose(&choice)?;
        for side in sides {
            shown.merge(side);
        }
        Ok(Some(shown))
    }

    /// Leaves out columns that joins have in common but once: those of the table that shows them, or, where EXCLUDE names that
    /// one, of the next.
    fn hide(&mut self, side: &Side, choice: &Choice) {
        let mut instead = Vec::new();
        for (table, column) in &side.hidden {
            let lower = column.value.to_lowercase();
            let home = side.homes.get(&lower).map(|home| home.value.to_lowercase());
            let is_excluded =
                |(named, other): &(Option<String>, Ident)| named.is_some() && *named == home && is_same(other, column);
            if choice.excluded.iter().any(is_excluded) && !instead.contains(&lower) {
                instead.push(lower);
                continue;
            }
            if let Some(shown) = self.0.iter_mut().find(|shown| is_same(&shown.table, table)) {
                shown.exclude(column);
            }
        }
    }

    fn choose(&mut self, choice: &Choice) -> Result<()> {
        for (table, column) in &choice.excluded {
            let is_meant = |shown: &ShownTable| table.as_ref().is_none_or(|table| shown.is_named(table));
            let mut is_there = false;
            for shown in self.0.iter_mut().filter(|shown| is_meant(shown)) {
                is_there |= shown.has(column);
                if shown.shows(column) {
                    shown.exclude(column);
                }
            }
            if !is_there {
                return Err(missing(column, "EXCLUDE"));
            }
        }
        for (column, expr) in &choice.replaced {
            let mut showing = self.0.iter_mut().filter(|shown| shown.shows(column));
            let Some(first) = showing.next() else { return Err(missing(column, "REPLACE")) };
            let stored = first.stored(column);
            first.replaced.push((stored, expr.clone()));
            showing.for_each(|shown| shown.exclude(column));
        }
        Ok(())
    }

    /// Columns in common are what joins make of them.
    fn merge(&mut self, side: &Side) {
        let mut lower: Vec<&String> = side.merged.keys().collect();
        lower.sort();
        for lower in lower {
            let Some(home) = side.homes.get(lower) else { continue };
            let column = Ident::new(lower);
            let Some(shown) = self.0.iter_mut().find(|shown| is_same(&shown.table, home)) else { continue };
            let is_chosen = !shown.shows(&column) || shown.replaced.iter().any(|(other, _)| is_same(other, &column));
            if !is_chosen && !is_plain(&side.merged[lower], home, lower) {
                let stored = shown.stored(&column);
                shown.replaced.push((stored, side.merged[lower].clone()));
            }
        }
    }

    fn items(self) -> impl Iterator<Item = SelectItem> {
        self.0.into_iter().map(ShownTable::item)
    }
}

/// Whether `expr` is this column of this table.
fn is_plain(expr: &Expr, table: &Ident, lower: &str) -> bool {
    match expr {
        Expr::CompoundIdentifier(parts) => {
            matches!(parts.as_slice(), [of, column] if is_same(of, table) && column.value.to_lowercase() == lower)
        }
        _ => false,
    }
}
