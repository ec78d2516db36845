//! Paths into JSON: `$.a[0]."b c"`, `$..a` at any depth, `/a/0`, a name, or a number. An empty one means the whole.

use forebay_base::{Error, Result};
use serde_json::Value;

/// A path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Member(String),
    /// From the end where it is negative.
    Element(i64),
    /// A member or an element, as a pointer has them.
    Either(String),
    Members,
    Elements,
    /// All values within, level by level; the value itself first, but where `*` follows.
    Levels {
        with_self: bool,
    },
}

impl Path {
    /// The path of a number: an element.
    pub fn of_number(number: i64) -> Self {
        Self { steps: vec![Step::Element(number)] }
    }

    /// The path that a text is.
    ///
    /// # Errors
    /// A text that begins with `$` and is none.
    pub fn of_text(text: &str) -> Result<Self> {
        let steps = match text.chars().next() {
            Some('$') => steps(&text[1..]).ok_or_else(|| {
                Error::input(format!("{text:?} is not a path into JSON")).hint("Write one as $.name[0].\"other name\"")
            })?,
            Some('/') => {
                let part = |part: &str| Step::Either(part.replace("~1", "/").replace("~0", "~"));
                text[1..].split('/').map(part).collect()
            }
            Some(_) => vec![Step::Member(text.to_owned())],
            None => Vec::new(),
        };
        Ok(Self { steps })
    }

    /// Whether it means several values.
    pub fn is_several(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::Members | Step::Elements | Step::Levels { .. }))
    }

    /// The values that it means.
    pub fn find<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        let mut found = vec![value];
        for step in &self.steps {
            found = found.into_iter().flat_map(|value| step.of(value)).collect();
        }
        found
    }
}

impl Step {
    fn of<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        let element = |elements: &'a [Value], index: i64| {
            let index = if index < 0 { index.checked_add(elements.len() as i64)? } else { index };
            usize::try_from(index).ok().and_then(|index| elements.get(index))
        };
        let one = match (self, value) {
            (Self::Members, Value::Object(members)) => return members.values().collect(),
            (Self::Elements, Value::Array(elements)) => return elements.iter().collect(),
            (Self::Levels { with_self }, value) => return levels(value).split_off(usize::from(!with_self)),
            (Self::Member(name) | Self::Either(name), Value::Object(members)) => members.get(name),
            (Self::Element(index), Value::Array(elements)) => element(elements, *index),
            (Self::Either(name), Value::Array(elements)) => {
                name.parse().ok().and_then(|index| element(elements, index))
            }
            _ => None,
        };
        one.into_iter().collect()
    }
}

/// A value and all that is in it, level by level.
fn levels(value: &Value) -> Vec<&Value> {
    let mut found = vec![value];
    let mut next = 0;
    while let Some(value) = found.get(next).copied() {
        match value {
            Value::Array(elements) => found.extend(elements),
            Value::Object(members) => found.extend(members.values()),
            _ => {}
        }
        next += 1;
    }
    found
}

/// The steps behind `$`.
fn steps(text: &str) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        if let Some(behind) = rest.strip_prefix("..") {
            let every = behind.strip_prefix('*');
            steps.push(Step::Levels { with_self: every.is_none() });
            rest = match (every, behind.chars().next()?) {
                (Some(behind), _) => behind,
                (None, '[') => behind,
                (None, '.') => return None,
                (None, _) => &rest[1..],
            };
        } else if let Some(behind) = rest.strip_prefix('.') {
            let (step, behind) = match behind.strip_prefix('"') {
                Some(quoted) => {
                    let end = quoted.find('"')?;
                    (Step::Member(quoted[..end].to_owned()), &quoted[end + 1..])
                }
                None => {
                    let end = behind.find(['.', '[']).unwrap_or(behind.len());
                    let name = &behind[..end];
                    let step = if name == "*" { Step::Members } else { Step::Member(name.to_owned()) };
                    (!name.is_empty()).then_some((step, &behind[end..]))?
                }
            };
            steps.push(step);
            rest = behind;
        } else {
            let inner = rest.strip_prefix('[')?;
            let end = inner.find(']')?;
            steps.push(match &inner[..end] {
                "*" => Step::Elements,
                index => match index.strip_prefix('#') {
                    Some(from_end) => Step::Element(from_end.parse().ok().filter(|index| *index < 0)?),
                    None => Step::Element(index.parse().ok()?),
                },
            });
            rest = &inner[end + 1..];
        }
    }
    Some(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, expect: &[&str]) {
        let value: Value =
            serde_json::from_str(r#"{"a": [1, {"b": "x"}, [3]], "c.d": 4, "e": {"0": 5}}"#).expect("JSON");
        let path = Path::of_text(path).expect("a path");
        let found: Vec<String> = path.find(&value).into_iter().map(Value::to_string).collect();
        assert_eq!(found, expect);
    }

    #[test]
    fn paths_find_members_and_elements() {
        check("a", &[r#"[1,{"b":"x"},[3]]"#]);
        check("$.a[1].b", &[r#""x""#]);
        check("$.a[-1][0]", &["3"]);
        check("$.a[#-2].b", &[r#""x""#]);
        check("$.\"c.d\"", &["4"]);
        check("c.d", &["4"]);
        check("/a/1/b", &[r#""x""#]);
        check("/e/0", &["5"]);
        check("$.a[*]", &["1", r#"{"b":"x"}"#, "[3]"]);
        check("$.e.*", &["5"]);
        check("$.a[7]", &[]);
        check("$..b", &[r#""x""#]);
        check("$..[0]", &["1", "3"]);
        check("$.a..*", &["1", r#"{"b":"x"}"#, "[3]", r#""x""#, "3"]);
        check("", &[r#"{"a":[1,{"b":"x"},[3]],"c.d":4,"e":{"0":5}}"#]);
        check("$", &[r#"{"a":[1,{"b":"x"},[3]],"c.d":4,"e":{"0":5}}"#]);
        for wrong in ["$a", "$.", "$..", "$...a", "$[x]", "$[#1]", "$.\"a", "$[1"] {
            assert!(Path::of_text(wrong).is_err(), "{wrong}");
        }
    }
}
