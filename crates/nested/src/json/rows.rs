//! The values of JSON texts as lists of structs, which `json_each` and `json_tree` have as rows.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, ListArray, StringViewBuilder, StructArray, UInt64Builder, new_null_array,
};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::datatypes::{DataType, Field, Fields};
use datafusion::common::{Result, internal_err};
use forebay_base::Error;
use forebay_context::error::into_datafusion;
use forebay_context::own_types;
use forebay_json::{Document, Path, Value, tree};

use super::{Kind, list_of, paths, read, texts};

/// The type of such a list.
pub(super) fn list_type() -> DataType {
    let text = |name: &str| Field::new(name, DataType::Utf8View, true);
    let json = |name: &str| own_types::marked(text(name), own_types::JSON);
    let number = |name: &str| Field::new(name, DataType::UInt64, true);
    let fields = vec![
        text("key"),
        json("value"),
        text("type"),
        json("atom"),
        number("id"),
        number("parent"),
        text("fullkey"),
        text("path"),
    ];
    list_of(DataType::Struct(fields.into()))
}

/// The rows of each text, below what a path means of it.
pub(super) fn rows(kind: Kind, columns: &[ArrayRef], result: &DataType) -> Result<ArrayRef> {
    let (DataType::List(element), Some(first)) = (result, columns.first()) else {
        return internal_err!("rows of JSON are lists");
    };
    let DataType::Struct(fields) = element.data_type() else { return internal_err!("rows of JSON are structs") };
    if first.data_type().is_null() {
        return Ok(new_null_array(result, first.len()));
    }
    let documents = texts(first)?;
    let paths = match columns.get(1) {
        Some(column) => paths(column)?,
        None => vec![Some(Path::of_text("$").map_err(into_datafusion)?); documents.len()],
    };
    let mut made = Columns::default();
    let mut lengths = Vec::with_capacity(documents.len());
    for (text, path) in documents.iter().zip(&paths) {
        let (Some(text), Some(path)) = (text, path) else {
            lengths.push(0);
            continue;
        };
        if path.is_several() {
            let error = Error::unsupported("json_each and json_tree do not take a path that means several values");
            return Err(into_datafusion(error.hint("Leave out the *")));
        }
        let whole = read(text)?.0;
        let nodes = if kind == Kind::Each { tree::each(&whole, path) } else { tree::below(&whole, path) };
        nodes.iter().for_each(|node| made.add(node));
        lengths.push(nodes.len());
    }
    let structs = made.finish(fields)?;
    Ok(Arc::new(ListArray::try_new(Arc::clone(element), OffsetBuffer::from_lengths(lengths), Arc::new(structs), None)?))
}

/// The columns of all rows.
#[derive(Default)]
struct Columns {
    texts: [StringViewBuilder; 6],
    numbers: [UInt64Builder; 2],
}

impl Columns {
    fn add(&mut self, node: &tree::Node<'_>) {
        let [key, value, kind, atom, full_path, path] = &mut self.texts;
        let [id, parent] = &mut self.numbers;
        let shown = node.value.to_string();
        let is_atom = !matches!(node.value, Value::Null | Value::Array(_) | Value::Object(_));
        key.append_option(node.key.as_deref());
        kind.append_value(Document::type_name(node.value));
        atom.append_option(is_atom.then_some(&shown));
        value.append_value(&shown);
        id.append_value(node.id);
        parent.append_option(node.parent);
        full_path.append_value(&node.full_path);
        path.append_value(&node.path);
    }

    fn finish(mut self, fields: &Fields) -> Result<StructArray> {
        let [key, value, kind, atom, full_path, path] =
            self.texts.each_mut().map(|one| Arc::new(one.finish()) as ArrayRef);
        let [id, parent] = self.numbers.each_mut().map(|one| Arc::new(one.finish()) as ArrayRef);
        Ok(StructArray::try_new(fields.clone(), vec![key, value, kind, atom, id, parent, full_path, path], None)?)
    }
}
