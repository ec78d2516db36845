//! Names as SQL takes them.

/// Words that are names only in quotes: those that DuckDB reserves, and those that begin or join something in our parser.
const RESERVED: &str = "\
    all analyse analyze and anti any array as asc asof asymmetric begin between both by case cast check cluster \
    collate column connect constraint create cross current default deferrable desc describe distinct distribute do \
    else end except exclude exists explain extract false fetch filter for foreign from full glob global group having \
    ilike in initially inner intersect interval into is join lambda lateral leading left like limit match_recognize \
    minus natural not notnull null offset on only or order outer over overlaps partition pivot placing position \
    primary qualify references returning right sample select semi set settings show similar some sort start struct \
    substring summarize symmetric table tablesample then to top trailing trim true try_cast union unique unpivot using \
    values variadic view when where window with within xor";

/// `name` as SQL takes it.
pub(crate) fn quoted(name: &str) -> String {
    let plain = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        && name.starts_with(|c: char| !c.is_ascii_digit())
        && RESERVED.split(' ').all(|word| word != name);
    if plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_mean_something_else_are_quoted() {
        for (name, expected) in
            [("a_1", "a_1"), ("date", "date"), ("order", "\"order\""), ("Order", "\"Order\""), ("a\"b", "\"a\"\"b\"")]
        {
            assert_eq!(quoted(name), expected);
        }
    }
}
