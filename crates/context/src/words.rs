//! Messages of libraries in the words of SQL: its types, its operators and its values, and nothing of how a library keeps
//! them. Every text that is not ours passes here on its way to the user.
//!
//! Must not know: errors.

/// A message in the words of SQL.
pub fn plain_words(text: &str) -> String {
    let mut text = sql_types(&without_kinds(text));
    for (function, operator) in OPERATORS {
        text = text.replace(function, operator);
    }
    let text = reworded(&without_structures(&plain_values(&without_places(text))));
    match shorter(&text) {
        Some(shorter) => shorter,
        None => text,
    }
}

/// Names that libraries put in front of their messages for the kind of error.
const KINDS: [&str; 12] = [
    "Execution error: ",
    "execution error: ",
    "Error during planning: ",
    "Schema error: ",
    "This feature is not implemented: ",
    "Invalid argument error: ",
    "Arrow error: ",
    "Cast error: ",
    "Compute error: ",
    "Parser error: ",
    "External error: ",
    "Internal error: ",
];

fn without_kinds(text: &str) -> String {
    KINDS.iter().fold(text.to_owned(), |text, kind| text.replace(kind, ""))
}

/// Arrow's names of types in a message as SQL's.
pub fn sql_types(text: &str) -> String {
    const NAMES: [(&str, &str); 17] = [
        ("Interval(MonthDayNano)", "INTERVAL"),
        ("Timestamp(µs)", "TIMESTAMP"),
        ("Time64(µs)", "TIME"),
        ("Utf8View", "VARCHAR"),
        ("LargeUtf8", "VARCHAR"),
        ("Utf8", "VARCHAR"),
        ("BinaryView", "BLOB"),
        ("Float64", "DOUBLE"),
        ("Float32", "FLOAT"),
        ("Int64", "BIGINT"),
        ("Int32", "INTEGER"),
        ("Int16", "SMALLINT"),
        ("Int8", "TINYINT"),
        ("Date32", "DATE"),
        ("Decimal128", "DECIMAL"),
        ("Boolean", "BOOLEAN"),
        ("List(", "LIST("),
    ];
    let mut text = text.to_owned();
    for (arrow, sql) in NAMES {
        text = text.replace(&format!("U{arrow}"), &format!("U{sql}")).replace(arrow, sql);
    }
    text
}

/// Operators by the names of the functions that stand for them in plans.
const OPERATORS: [(&str, &str); 9] = [
    ("checked_add", "operator +"),
    ("checked_subtract", "operator -"),
    ("checked_multiply", "operator *"),
    ("checked_divide", "operator /"),
    ("checked_modulo", "operator %"),
    ("checked_negate", "operator -"),
    ("integer_divide", "operator //"),
    ("shift_left", "operator <<"),
    ("shift_right", "operator >>"),
];

/// A text without places in the SQL text (`Span(Location(1,8)..Location(1,9))`).
fn without_places(mut text: String) -> String {
    while let Some(start) = text.find("Span(") {
        let end = closing(&text[start + 4..]).map_or(text.len(), |length| start + 4 + length);
        let before = text[..start].trim_end_matches("span: ").trim_end_matches(", ").to_owned();
        text = before + &text[end..];
    }
    text
}

/// Where the parenthesis is closed that a text begins with, and behind it.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let inner = text.char_indices().find(|(_, c)| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        *c == ')' && depth == 0
    });
    inner.map(|(length, _)| length + 1)
}

/// Values as they are written, instead of within their types: `BIGINT(7)` is 7.
fn plain_values(text: &str) -> String {
    const TYPES: [&str; 13] = [
        "UTINYINT(",
        "TINYINT(",
        "USMALLINT(",
        "SMALLINT(",
        "UINTEGER(",
        "INTEGER(",
        "UBIGINT(",
        "BIGINT(",
        "DOUBLE(",
        "FLOAT(",
        "BOOLEAN(",
        "VARCHAR(",
        "Literal(",
    ];
    let mut text = text.to_owned();
    for name in TYPES {
        let mut from = 0;
        while let Some(found) = text[from..].find(name) {
            let start = from + found;
            let open = start + name.len() - 1;
            let is_word = text[..start].chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '_');
            let Some(length) = closing(&text[open..]).filter(|_| !is_word) else {
                from = open;
                continue;
            };
            let inner = text[open + 1..open + length - 1].trim_end_matches(", None");
            let is_text = inner.len() > 1 && inner.starts_with('"') && inner.ends_with('"');
            let inner = if is_text { format!("'{}'", &inner[1..inner.len() - 1]) } else { inner.to_owned() };
            text = format!("{}{inner}{}", &text[..start], &text[open + length..]);
            from = start + inner.len();
        }
    }
    text
}

/// A text up to where a library prints a structure of its own (`Substring { expr: …`, `WindowFunction(WindowFunction {`).
fn without_structures(text: &str) -> String {
    let is_name = |name: &str| {
        let name = name.rsplit(|c: char| !c.is_alphanumeric()).next().unwrap_or("");
        name.starts_with(|c: char| c.is_ascii_uppercase()) && name.contains(|c: char| c.is_ascii_lowercase())
    };
    let braces = text.match_indices(" {").map(|(at, _)| at).find(|at| is_name(&text[..*at]));
    let trees = ["(Identifier(", "(Ident {", "Nested(", "Some(", "(WindowFunction", "(AggregateFunction"];
    let tree = trees.iter().filter_map(|tree| text.find(tree)).min();
    let Some(end) = braces.into_iter().chain(tree).min() else { return text.to_owned() };
    // Without the name of the structure, and what leads to it.
    let head = text[..end].trim_end_matches(|c: char| c.is_alphanumeric() || c == '(');
    let head = head.rfind(", got").map_or(head, |got| &head[..got]);
    head.trim_end_matches(|c: char| " :,".contains(c)).to_owned()
}

/// What libraries call things, and what SQL calls them.
fn reworded(text: &str) -> String {
    const WORDS: [(&str, &str); 12] = [
        (
            "Unnest should be rewritten to LogicalPlan::Unnest before type coercion",
            "unnest makes rows in a SELECT list or in FROM only",
        ),
        ("Array overflow on ", " overflow: "),
        ("schema contains duplicate unqualified field name ", "two columns have the name "),
        ("Schema contains duplicate unqualified field name ", "two columns have the name "),
        ("Schema contains duplicate qualified field name ", "two columns have the name "),
        ("schema contains duplicate qualified field name ", "two columns have the name "),
        ("Unsupported ast node in sqltorel", "this expression is not supported"),
        ("Unsupported ast node", "this clause is not supported"),
        ("Column count doesn't match insert query!", "the query has another number of columns than are inserted"),
        ("Numeric(1)", "a number"),
        ("(String", "(VARCHAR"),
        (" String", " VARCHAR"),
    ];
    WORDS.iter().fold(text.to_owned(), |text, (theirs, ours)| text.replace(theirs, ours))
}

/// The message for one that says something simple at length.
fn shorter(text: &str) -> Option<String> {
    let between = |start: &str, end: &str| {
        let rest = &text[text.find(start)? + start.len()..];
        Some(rest.split(end).next().unwrap_or(rest))
    };
    for start in [
        "annot coerce arithmetic expression ",
        "annot get result type for arithmetic operation ",
        "annot get result type for temporal operation ",
        "annot infer common argument type for logical boolean operation ",
        "annot infer common argument type for comparison operation ",
        "annot infer common string type for string concat operation ",
        "annot infer common type for bitwise operation ",
    ] {
        if let Some(operation) = between(start, " to valid types") {
            let operation = operation.split(": ").next().unwrap_or(operation);
            return Some(format!("there is no operation {operation}. Cast one of them"));
        }
    }
    for start in ["annot cast string ", "annot cast value "] {
        if let (Some(value), Some(wanted)) = (between(start, " to value of "), between(" to value of ", " type")) {
            return Some(format!("cannot read {value} as {wanted}"));
        }
    }
    if let (Some(value), Some(wanted)) = (between("an't cast value ", " to type "), between(" to type ", " ")) {
        return Some(format!("{value} is out of range for {wanted}"));
    }
    let range = (between("value of ", " is out of range "), between(" is out of range ", " "));
    if let (Some(value), Some(wanted)) = range
        && !value.contains(' ')
        && wanted != "for"
    {
        return Some(format!("{value} is out of range for {wanted}"));
    }
    if let Some(wanted) = between("annot create filter with non-boolean predicate ", " returning") {
        return Some(format!("{wanted} is no condition, which is true or false"));
    }
    if text.contains("does not support logical expression") {
        return Some("an aggregate, a window function or a subquery is not possible in this place".to_owned());
    }
    if text.contains("regex parse error") || text.contains("regular expression did not compile") {
        let cause = text.rsplit("error: ").next().unwrap_or(text).trim_end_matches(|c: char| " ~)".contains(c));
        return Some(format!("the regular expression is not valid: {cause}"));
    }
    if let Some(statement) = between("nsupported SQL statement: ", "\n") {
        let words = if statement.starts_with("CREATE ") { 2 } else { 1 };
        let statement: Vec<&str> = statement.split_whitespace().take(words).collect();
        return Some(format!("{} is not supported", statement.join(" ")));
    }
    if let (Some(got), Some(row)) = (between("across values list: got ", " values"), between(" in row ", " ")) {
        let wanted = between("but expected ", " ").unwrap_or("another number");
        let row = row.parse::<u64>().unwrap_or(0) + 1;
        return Some(format!("row {row} of VALUES has {got} values, and {wanted} are expected"));
    }
    if text.contains("is declared as non-nullable but contains null values") {
        return Some("NULL in a column that is NOT NULL".to_owned());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(theirs: &str, expected: &str) {
        assert_eq!(plain_words(theirs), expected);
    }

    #[test]
    fn types_operators_and_values_are_those_of_sql() {
        check("no function checked_subtract(Utf8, Int64)", "no function operator -(VARCHAR, BIGINT)");
        check("HAVING: Boolean(true) and UInt64(7) or Utf8(\"x\")", "HAVING: true and 7 or 'x'");
        check("got Literal(Utf8(\"x\"), None)", "got 'x'");
        check("of type Decimal128(9, 2) or List(Int64)", "of type DECIMAL(9, 2) or LIST(BIGINT)");
        check("Execution error: Execution error: no square root", "no square root");
    }

    #[test]
    fn structures_of_libraries_are_left_out() {
        check("no column x, span: Span(Location(1,8)..Location(1,9))", "no column x");
        check("substring is not valid Substring { expr: Value(1) }", "substring is not valid");
        check(
            "Unsupported interval argument. Expected a number, got: Nested(Identifier(Ident { value: \"k\" }))",
            "Unsupported interval argument. Expected a number",
        );
        check("Unsupported ast node in sqltorel: Collate { expr: 1 }", "this expression is not supported");
        check("a text with {braces} stays", "a text with {braces} stays");
    }

    #[test]
    fn what_is_simple_is_said_simply() {
        check(
            "Cannot coerce arithmetic expression Int64 + Utf8 to valid types",
            "there is no operation BIGINT + VARCHAR. Cast one of them",
        );
        check("Cannot cast string 'x' to value of Int32 type", "cannot read 'x' as INTEGER");
        check("Can't cast value 300 to type Int8", "300 is out of range for TINYINT");
        check("value of 300 is out of range Int8", "300 is out of range for TINYINT");
        check("the value of a + b is out of range here", "the value of a + b is out of range here");
        check("regex parse error: ( ^ error: unclosed group", "the regular expression is not valid: unclosed group");
        check(
            "Inconsistent data length across values list: got 2 values in row 1 but expected 1",
            "row 2 of VALUES has 2 values, and 1 are expected",
        );
    }
}
