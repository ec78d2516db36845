//! Files that are read one by one and put together: where columns tell what file a row is of, by its name or by what the names of
//! its folders say (`year=2024/month=5/x.parquet`), where a file is named twice, and where columns are found by their names.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::catalog::TableProvider;
use datafusion::common::ScalarValue;
use datafusion::datasource::{ViewTable, provider_as_source};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, lit};
use datafusion::prelude::{cast, ident};
use forebay_base::{Error, Result};
use forebay_context::error::from_datafusion;
use forebay_forms::file_options::Options;

/// Files that are read one by one: each is a scan of its own in the plan.
const MOST_FILES: usize = 10_000;

/// What files are read one by one for.
#[derive(Debug, Default)]
pub(crate) struct EachFile {
    /// The column that holds the name of the file.
    filename: Option<String>,
    /// Columns by the names of folders, with a value for each file.
    folders: Vec<Folder>,
    /// Columns that a file lacks are NULL.
    by_name: bool,
    has_doubles: bool,
}

#[derive(Debug)]
struct Folder {
    name: String,
    data_type: DataType,
    values: Vec<Option<String>>,
}

impl EachFile {
    /// What these files have to be read one by one for; `None` if nothing.
    ///
    /// # Errors
    /// Folders that do not say the same of all files where they are asked for, and more files than a plan may have.
    pub(crate) fn of(files: &[String], options: &Options) -> Result<Option<Self>> {
        let folders = match options.hive_partitioning {
            Some(false) => Vec::new(),
            asked => match folders(files) {
                Some(folders) => folders,
                None if asked == Some(true) => {
                    return Err(Error::input("the folders of the files do not name the same columns")
                        .hint("hive_partitioning is for paths such as year=2024/month=5/file.parquet"));
                }
                None => Vec::new(),
            },
        };
        let has_doubles = files.iter().collect::<HashSet<_>>().len() < files.len();
        let each = Self { filename: options.filename.clone(), folders, by_name: options.union_by_name, has_doubles };
        if each.filename.is_none() && each.folders.is_empty() && !each.by_name && !each.has_doubles {
            return Ok(None);
        }
        match files.len() > MOST_FILES {
            true => Err(Error::unsupported(format!("{} files cannot be read one by one", files.len()))
                .hint(format!("At most {MOST_FILES} files may have columns by their names"))),
            false => Ok(Some(each)),
        }
    }

    /// The rows of all files, each of which is one of `tables`.
    ///
    /// # Errors
    /// Files that have other columns than the first one.
    pub(crate) fn together(
        &self,
        files: &[String],
        tables: Vec<Arc<dyn TableProvider>>,
    ) -> Result<Arc<dyn TableProvider>> {
        let columns = self.columns(files, &tables)?;
        let mut all: Option<LogicalPlan> = None;
        for (index, (file, table)) in files.iter().zip(tables).enumerate() {
            let own = table.schema();
            let mut values: Vec<Expr> = Vec::with_capacity(columns.len() + 2);
            for name in &columns {
                let found = own.fields().iter().find(|field| field.name().eq_ignore_ascii_case(name));
                values.push(match found {
                    Some(field) => ident(field.name().as_str()).alias(name),
                    None => lit(ScalarValue::Null).alias(name),
                });
            }
            let filename = self.filename.as_ref().map(|name| lit(file.as_str()).alias(name));
            values.extend(filename);
            for folder in &self.folders {
                let value = lit(ScalarValue::Utf8(folder.values[index].clone()));
                values.push(cast(value, folder.data_type.clone()).alias(&folder.name));
            }
            let scan = LogicalPlanBuilder::scan("file", provider_as_source(table), None)
                .and_then(|scan| scan.project(values))
                .and_then(LogicalPlanBuilder::build)
                .map_err(from_datafusion)?;
            all = Some(match all {
                None => scan,
                Some(before) => LogicalPlanBuilder::from(before)
                    .union(scan)
                    .and_then(LogicalPlanBuilder::build)
                    .map_err(from_datafusion)?,
            });
        }
        let plan = all.ok_or_else(|| Error::internal("there are no files to read one by one"))?;
        Ok(Arc::new(ViewTable::new(plan, None)))
    }

    /// The columns of all files but those that folders name.
    fn columns(&self, files: &[String], tables: &[Arc<dyn TableProvider>]) -> Result<Vec<String>> {
        let is_folder = |name: &str| self.folders.iter().any(|folder| folder.name.eq_ignore_ascii_case(name));
        let mut columns: Vec<String> = Vec::new();
        for (index, (file, table)) in files.iter().zip(tables).enumerate() {
            let schema = table.schema();
            let own = schema.fields().iter().map(|field| field.name()).filter(|name| !is_folder(name));
            let missing = |name: &&String| !columns.iter().any(|known| known.eq_ignore_ascii_case(name));
            let more: Vec<String> = own.filter(missing).cloned().collect();
            if index > 0 && !self.by_name {
                let lacks = columns
                    .iter()
                    .find(|known| !schema.fields().iter().any(|field| field.name().eq_ignore_ascii_case(known)));
                if let Some(name) = more.first().or(lacks) {
                    return Err(not_in_all(name, file));
                }
            }
            columns.extend(more);
        }
        Ok(columns)
    }
}

/// An error about a column that a file lacks.
pub(crate) fn not_in_all(column: &str, file: &str) -> Error {
    Error::input(format!("column {column} is not in all files"))
        .context(format!("file {file}"))
        .hint("With union_by_name = true it is NULL where it is missing")
}

/// The columns that the folders of all files name, if these are the same.
fn folders(files: &[String]) -> Option<Vec<Folder>> {
    let named = |file: &String| -> Vec<(String, String)> {
        let parents = Path::new(file).parent().map(Path::to_path_buf).unwrap_or_default();
        let parts = parents.components().filter_map(|part| part.as_os_str().to_str()?.split_once('='));
        parts.filter(|(name, _)| !name.is_empty()).map(|(name, value)| (name.to_owned(), unescaped(value))).collect()
    };
    let all: Vec<Vec<(String, String)>> = files.iter().map(named).collect();
    let first = all.first().filter(|first| !first.is_empty())?;
    let is_same = |own: &Vec<(String, String)>| {
        own.len() == first.len() && own.iter().zip(first).all(|((name, _), (other, _))| name == other)
    };
    if !all.iter().all(is_same) {
        return None;
    }
    let folder = |(place, (name, _)): (usize, &(String, String))| {
        let value = |own: &Vec<(String, String)>| Some(own[place].1.clone()).filter(|value| value != NO_VALUE);
        let values: Vec<Option<String>> = all.iter().map(value).collect();
        Folder { name: name.clone(), data_type: type_of(&values), values }
    };
    Some(first.iter().enumerate().map(folder).collect())
}

/// What the folder of NULL is called.
pub(crate) const NO_VALUE: &str = "__HIVE_DEFAULT_PARTITION__";

/// BIGINT, DATE or VARCHAR.
fn type_of(values: &[Option<String>]) -> DataType {
    let all = |fits: fn(&str) -> bool| values.iter().flatten().all(|value| fits(value));
    fn is_date(value: &str) -> bool {
        let parts: Vec<&str> = value.split('-').collect();
        let digits = |part: &&str| part.bytes().all(|byte| byte.is_ascii_digit());
        parts.iter().map(|part| part.len()).eq([4, 2, 2]) && parts.iter().all(digits)
    }
    match () {
        () if values.iter().all(Option::is_none) => DataType::Utf8View,
        () if all(|value| value.parse::<i64>().is_ok()) => DataType::Int64,
        () if all(is_date) => DataType::Date32,
        () => DataType::Utf8View,
    }
}

/// `a%20b` as `a b`.
fn unescaped(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let code = bytes.get(at + 1..at + 3).and_then(|code| std::str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()).filter(|_| bytes[at] == b'%') {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8(out).unwrap_or_else(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_name_columns() {
        let files = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>();
        let told = folders(&files(&["a/y=2020/m=x%20y/f.csv", "a/y=2021/m=__HIVE_DEFAULT_PARTITION__/g.csv"]));
        let told = told.expect("columns");
        assert_eq!((told[0].name.as_str(), &told[0].data_type), ("y", &DataType::Int64));
        assert_eq!(told[1].values, [Some("x y".to_owned()), None]);
        assert!(folders(&files(&["a/y=1/f.csv", "a/z=1/f.csv"])).is_none());
        assert!(folders(&files(&["a/y=1.csv"])).is_none());
        assert_eq!(type_of(&[Some("2024-01-02".to_owned())]), DataType::Date32);
    }
}
