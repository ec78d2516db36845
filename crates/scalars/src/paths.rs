//! Parts of file names.

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;

use forebay_functions::function::{Call, Definition, Shape, TEXT, is_text};
use forebay_functions::texts::{lists_of, text_list};

pub(crate) const DEFINITIONS: &[Definition] = &[
    Definition { names: &["parse_filename"], shape: name_shape, compute: |call| texts(call, filename) },
    Definition { names: &["parse_dirname"], shape: |types| shape(types, TEXT), compute: |call| texts(call, dirname) },
    Definition { names: &["parse_dirpath"], shape: |types| shape(types, TEXT), compute: |call| texts(call, dirpath) },
    Definition { names: &["parse_path"], shape: |types| shape(types, text_list()), compute: paths },
];

fn shape(types: &[DataType], result: DataType) -> Option<Shape> {
    let fits = matches!(types.len(), 1 | 2) && types.iter().all(is_text);
    fits.then(|| Shape { arguments: vec![TEXT; types.len()], result })
}

/// The second argument may say that the extension is cut off, too.
fn name_shape(types: &[DataType]) -> Option<Shape> {
    match types {
        [text, DataType::Boolean, rest @ ..] if is_text(text) && rest.len() < 2 && rest.iter().all(is_text) => {
            let mut arguments = vec![TEXT, DataType::Boolean];
            arguments.resize(types.len(), TEXT);
            Some(Shape { arguments, result: TEXT })
        }
        _ => shape(types, TEXT),
    }
}

/// The separators that a name of them stands for.
fn separators(name: &str) -> &'static [char] {
    match name {
        "system" | "forward_slash" => &['/'],
        "backslash" => &['\\'],
        _ => &['/', '\\'],
    }
}

fn texts(call: &Call<'_>, part: fn(&str, bool, &[char]) -> String) -> Result<ArrayRef> {
    let texts = call.texts(0);
    let last = call.arguments.len() - 1;
    let flags = call.arguments.get(1).and_then(|second| second.as_boolean_opt());
    let names = (last > 0 && *call.arguments[last].data_type() == TEXT).then(|| call.texts(last));
    call.texts_of(|row| {
        if !texts.is_valid(row) {
            return Ok(None);
        }
        let is_cut = flags.is_some_and(|flags| flags.is_valid(row) && flags.value(row));
        let name = names.filter(|names| names.is_valid(row)).map_or("both_slash", |names| names.value(row));
        Ok(Some(part(texts.value(row), is_cut, separators(name))))
    })
}

fn filename(path: &str, is_cut: bool, separators: &[char]) -> String {
    let name = path.rsplit(separators).next().unwrap_or_default();
    match name.rsplit_once('.') {
        Some((stem, _)) if is_cut => stem.to_owned(),
        _ => name.to_owned(),
    }
}

/// The first folder; that of an absolute path is its separator.
fn dirname(path: &str, _: bool, separators: &[char]) -> String {
    match path.find(separators) {
        Some(0) => path[..1].to_owned(),
        Some(at) => path[..at].to_owned(),
        None => String::new(),
    }
}

fn dirpath(path: &str, _: bool, separators: &[char]) -> String {
    match path.rfind(separators) {
        Some(0) if path.len() == 1 => path.to_owned(),
        Some(at) => path[..at].to_owned(),
        None => String::new(),
    }
}

fn paths(call: &Call<'_>) -> Result<ArrayRef> {
    let texts = call.texts(0);
    let names = call.arguments.get(1).map(|_| call.texts(1));
    lists_of(call.rows, |row| {
        if !texts.is_valid(row) {
            return Ok(None);
        }
        let name = names.filter(|names| names.is_valid(row)).map_or("both_slash", |names| names.value(row));
        let (path, separators) = (texts.value(row), separators(name));
        let root = path.starts_with(separators).then(|| path[..1].to_owned());
        let parts = path.split(separators).filter(|part| !part.is_empty()).map(str::to_owned);
        Ok(Some(root.into_iter().chain(parts).map(Some).collect()))
    })
}
