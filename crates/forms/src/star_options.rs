//! EXCLUDE, REPLACE and RENAME behind a `*`.

use datafusion::sql::sqlparser::ast::{
    ExcludeSelectItem, IdentWithAlias, ObjectName, RenameSelectItem, Select, SelectItem, WildcardAdditionalOptions,
};

/// Whether a `*` of the SELECT list has EXCLUDE or REPLACE.
#[must_use]
pub fn has_options(select: &Select) -> bool {
    select.projection.iter().any(|item| match item {
        SelectItem::Wildcard(options) | SelectItem::QualifiedWildcard(_, options) => is_chosen(options),
        _ => false,
    })
}

/// Whether `*` has EXCLUDE or REPLACE.
#[must_use]
pub fn is_chosen(options: &WildcardAdditionalOptions) -> bool {
    options.opt_exclude.is_some() || options.opt_replace.is_some()
}

/// The columns that `*` leaves out, in lower case; `None` where a table is named, too.
#[must_use]
pub fn excluded(options: &WildcardAdditionalOptions) -> Option<Vec<String>> {
    let names = match &options.opt_exclude {
        None => return Some(Vec::new()),
        Some(ExcludeSelectItem::Single(name)) => std::slice::from_ref(name),
        Some(ExcludeSelectItem::Multiple(names)) => names.as_slice(),
    };
    let plain = |name: &ObjectName| match name.0.as_slice() {
        [only] => only.as_ident().map(|only| only.value.to_lowercase()),
        _ => None,
    };
    names.iter().map(plain).collect()
}

/// The columns that `*` calls otherwise.
#[must_use]
pub fn renames(options: &WildcardAdditionalOptions) -> &[IdentWithAlias] {
    match &options.opt_rename {
        Some(RenameSelectItem::Single(only)) => std::slice::from_ref(only),
        Some(RenameSelectItem::Multiple(names)) => names.as_slice(),
        None => &[],
    }
}

/// Whether `*` has no options, or such as name columns that are there, each once.
#[must_use]
pub fn is_plain(options: &WildcardAdditionalOptions, all: &[&str]) -> bool {
    let Some(mut names) = excluded(options) else { return false };
    let replaced = options.opt_replace.iter().flat_map(|replace| &replace.items);
    names.extend(replaced.map(|item| item.column_name.value.to_lowercase()));
    let is_known = |name: &String| all.iter().any(|column| column.to_lowercase() == *name);
    let is_again = |(place, name): (usize, &String)| names[..place].contains(name);
    options.opt_except.is_none() && names.iter().all(is_known) && !names.iter().enumerate().any(is_again)
}
