//! `read_text('file')` and `read_blob('file')`: whole files as rows, with their names, sizes and times.

use std::time::UNIX_EPOCH;

use datafusion::arrow::datatypes::{DataType, Field, TimeUnit};
use datafusion::common::ScalarValue;
use forebay_base::{Error, ErrorKind, Result};

use crate::files;

/// The function whose contents are texts.
const TEXT: &str = "read_text";

/// The zone of instants.
const ZONE: &str = "+00:00";

/// Whether this is one of the functions.
pub(crate) fn is_one(function: &str) -> bool {
    [TEXT, "read_blob"].contains(&function)
}

/// The columns of such a function.
pub(crate) fn columns(function: &str) -> Vec<Field> {
    let content = if function == TEXT { DataType::Utf8 } else { DataType::Binary };
    let instant = DataType::Timestamp(TimeUnit::Microsecond, Some(ZONE.into()));
    let all =
        [("filename", DataType::Utf8), ("content", content), ("size", DataType::Int64), ("last_modified", instant)];
    all.into_iter().map(|(name, data_type)| Field::new(name, data_type, true)).collect()
}

/// The files that a pattern matches, which may be none.
///
/// # Errors
/// Patterns that are not valid.
pub(crate) fn matching(pattern: &str) -> Result<Vec<String>> {
    match files::matching_files(pattern) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        found => found,
    }
}

/// The row of a file, which is read whole into at most so many bytes of memory.
///
/// # Errors
/// Files that cannot be read, do not fit or, of `read_text`, are no UTF-8.
pub(crate) fn row(function: &str, path: &str, memory_bytes: usize) -> Result<Vec<ScalarValue>> {
    let failed = |error: std::io::Error| Error::io(format!("read {path}"), &error);
    let metadata = std::fs::metadata(path).map_err(failed)?;
    if metadata.len() > memory_bytes as u64 {
        let message = format!("the file has {} bytes, more than fit into memory at once", metadata.len());
        return Err(Error::input(message).hint("Read it as a table: FROM read_csv('path')"));
    }
    let bytes = std::fs::read(path).map_err(failed)?;
    let size = i64::try_from(bytes.len()).ok();
    let content = match function == TEXT {
        true => ScalarValue::Utf8(Some(String::from_utf8(bytes).map_err(|error| {
            Error::input(format!("byte {} of the file is not UTF-8", error.utf8_error().valid_up_to()))
                .hint("read_blob reads any bytes")
        })?)),
        false => ScalarValue::Binary(Some(bytes)),
    };
    let modified = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let modified = modified.and_then(|since| i64::try_from(since.as_micros()).ok());
    Ok(vec![
        ScalarValue::Utf8(Some(path.to_owned())),
        content,
        ScalarValue::Int64(size),
        ScalarValue::TimestampMicrosecond(modified, Some(ZONE.into())),
    ])
}
