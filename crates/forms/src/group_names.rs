//! Names of columns that COLUMNS chooses, from the groups of its regular expression: `COLUMNS('(.)x') AS 'n_\1'`.

use forebay_base::{Error, Result};
use regex::Regex;

/// What a column that COLUMNS chooses is called by an alias with groups: `\0` is its name, `\1` the first group of the pattern in it.
///
/// # Errors
/// Other escapes, and groups where there is no pattern.
pub fn called(alias: &str, pattern: Option<&str>, column: &str) -> Result<String> {
    let wrong = |message: &str| {
        Error::input(format!("{message} in the alias {alias} of COLUMNS")).hint("Write \\0 for the name of the column")
    };
    let pattern = pattern.and_then(|pattern| Regex::new(pattern).ok());
    let groups = pattern.as_ref().and_then(|pattern| pattern.captures(column));
    let (mut name, mut letters) = (String::new(), alias.chars());
    while let Some(letter) = letters.next() {
        match (letter == '\\').then(|| letters.next()) {
            None => name.push(letter),
            Some(Some('\\')) => name.push('\\'),
            Some(Some('0')) => name.push_str(column),
            Some(next) => {
                let place =
                    next.and_then(|digit| digit.to_digit(10)).ok_or_else(|| wrong("no number behind a backslash"))?;
                let groups = groups.as_ref().ok_or_else(|| wrong("a group without a regular expression"))?;
                name.push_str(groups.get(place as usize).map_or("", |group| group.as_str()));
            }
        }
    }
    Ok(if name.is_empty() { column.to_owned() } else { name })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aliases_have_groups() {
        let check = |alias, pattern, expected: Option<&str>| {
            assert_eq!(called(alias, pattern, "abxc").ok().as_deref(), expected, "{alias}");
        };
        check("n_\\1", Some("(.)x"), Some("n_b"));
        check("\\0_\\2_\\\\1", Some("(.)x"), Some("abxc__\\1"));
        check("\\2", Some("(.)x"), Some("abxc"));
        check("n_\\0", None, Some("n_abxc"));
        check("n_\\1", None, None);
        check("n_\\q", Some("x"), None);
        check("n_\\", Some("x"), None);
    }
}
