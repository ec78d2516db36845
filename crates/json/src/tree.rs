//! The values of a JSON text one by one, with their places in it.

use serde_json::Value;

use crate::path::Path;

/// A value within a text.
#[derive(Debug, Clone, PartialEq)]
pub struct Node<'a> {
    /// The name of a member, or the place of an element.
    pub key: Option<String>,
    /// The value.
    pub value: &'a Value,
    /// Its number: names and values are counted in the order in which they are written.
    pub id: u64,
    /// The number of what it is in.
    pub parent: Option<u64>,
    /// The path that leads to it.
    pub full_path: String,
    /// The path that leads to what it is in.
    pub path: String,
}

/// The members or elements of what a path means; itself where it has none.
pub fn each<'a>(whole: &'a Value, path: &Path) -> Vec<Node<'a>> {
    let nodes = below(whole, path);
    let Some(first) = nodes.first() else { return nodes };
    if !first.value.is_array() && !first.value.is_object() {
        return nodes;
    }
    let parent = first.id;
    let members = nodes.into_iter().filter(|node| node.parent == Some(parent));
    members.map(|node| Node { parent: None, ..node }).collect()
}

/// What a path means, and all that is in it.
pub fn below<'a>(whole: &'a Value, path: &Path) -> Vec<Node<'a>> {
    let Some(start) = path.find(whole).into_iter().next() else { return Vec::new() };
    let mut nodes = Vec::new();
    let root = "$".to_owned();
    let first = Node { key: None, value: whole, id: 0, parent: None, full_path: root.clone(), path: root };
    collect(first, &mut 0, &mut nodes);
    let Some(place) = nodes.iter().position(|node| std::ptr::eq(node.value, start)) else { return Vec::new() };
    let mut known = vec![nodes[place].id];
    let mut found = nodes.split_off(place);
    if let Some(first) = found.first_mut() {
        (first.key, first.parent, first.path) = (None, None, first.full_path.clone());
    }
    let end = found.iter().skip(1).position(|node| {
        let is_inside = node.parent.is_some_and(|parent| known.contains(&parent));
        known.extend(is_inside.then_some(node.id));
        !is_inside
    });
    found.truncate(end.map_or(found.len(), |end| end + 1));
    found
}

/// Puts a value and all that is in it behind the nodes; `last` is the last number.
fn collect<'a>(node: Node<'a>, last: &mut u64, nodes: &mut Vec<Node<'a>>) {
    let (value, parent, path) = (node.value, Some(node.id), node.full_path.clone());
    nodes.push(node);
    match value {
        Value::Array(elements) => {
            for (place, value) in elements.iter().enumerate() {
                *last += 1;
                let full_path = format!("{path}[{place}]");
                let key = Some(place.to_string());
                collect(Node { key, value, id: *last, parent, full_path, path: path.clone() }, last, nodes);
            }
        }
        Value::Object(members) => {
            for (name, value) in members {
                *last += 2;
                let full_path = format!("{path}.{}", step(name));
                let key = Some(name.clone());
                collect(Node { key, value, id: *last, parent, full_path, path: path.clone() }, last, nodes);
            }
        }
        _ => {}
    }
}

/// A name as a step of a path.
fn step(name: &str) -> String {
    match !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        true => name.to_owned(),
        false => Value::from(name).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Document;

    #[track_caller]
    fn check(nodes: &[Node<'_>], expect: &[(&str, u64, Option<u64>)]) {
        let found: Vec<_> = nodes.iter().map(|node| (node.full_path.as_str(), node.id, node.parent)).collect();
        assert_eq!(found, expect);
    }

    #[test]
    fn values_have_numbers_and_paths() {
        let whole = Document::read(r#"{"a":1,"b":[1,{"c d":2}],"z":{"":3}}"#).expect("JSON").0;
        let path = |text| Path::of_text(text).expect("a path");
        let b = [("$.b", 4, None), ("$.b[0]", 5, Some(4)), ("$.b[1]", 6, Some(4)), ("$.b[1].\"c d\"", 8, Some(6))];
        check(&below(&whole, &path("$.b")), &b);
        check(&each(&whole, &path("$")), &[("$.a", 2, None), ("$.b", 4, None), ("$.z", 10, None)]);
        check(&each(&whole, &path("$.a")), &[("$.a", 2, None)]);
        check(&each(&whole, &path("$.z")), &[("$.z.\"\"", 12, None)]);
        check(&each(&whole, &path("$.x")), &[]);
        assert_eq!(below(&whole, &path("$")).len(), 8);
    }
}
