//! `read_csv('file')`, `read_parquet('*.parquet')` and `read_json('file')`: files as tables, with options by name.

use std::sync::Arc;

use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{DataFusionError, Result as DataFusionResult, ScalarValue};
use datafusion::execution::SessionState;
use datafusion::logical_expr::Expr;
use forebay_base::{Error, Result};

use crate::error::into_datafusion;
use crate::files::{self, Format, Options};
use crate::parse;

/// Names of the functions and the formats that they read.
const FUNCTIONS: [(&str, Format); 6] = [
    ("parquet_scan", Format::Parquet),
    ("read_csv", Format::Csv),
    ("read_csv_auto", Format::Csv),
    ("read_json", Format::Json),
    ("read_ndjson", Format::Json),
    ("read_parquet", Format::Parquet),
];

/// Adds the functions to a session.
pub fn register(state: &mut SessionState) {
    for (name, format) in FUNCTIONS {
        state.register_udtf(name, Arc::new(ReadFile { name, format }));
    }
}

/// Whether `name` is one of the functions. Their named arguments come as texts `name=value`.
pub fn is_one(name: &str) -> bool {
    FUNCTIONS.iter().any(|(known, _)| *known == name)
}

#[derive(Debug)]
struct ReadFile {
    name: &'static str,
    format: Format,
}

impl ReadFile {
    fn options(&self, arguments: &[Expr]) -> Result<(String, Options)> {
        let mut texts = arguments.iter().map(|argument| match argument {
            Expr::Literal(ScalarValue::Utf8(Some(text)) | ScalarValue::Utf8View(Some(text)), _) => Ok(text.as_str()),
            other => Err(Error::input(format!("{}: {other} is not a text", self.name))
                .hint(format!("Write {}('path'), with options as name = value", self.name))),
        });
        let Some(path) = texts.next() else {
            return Err(Error::input(format!("{} needs the path of a file", self.name)));
        };
        let path = path?.to_owned();
        let mut options = Options { format: Some(self.format), ..Options::default() };
        for text in texts {
            let text = text?;
            let Some((name, value)) = text.split_once('=') else {
                return Err(Error::input(format!("{}: {text:?} is not an option", self.name))
                    .hint("Write options as name = value, for example header = false"));
            };
            parse::set_option(&mut options, name, value)?;
        }
        Ok((path, options))
    }
}

impl TableFunctionImpl for ReadFile {
    fn call_with_args(&self, args: TableFunctionArgs<'_, '_>) -> DataFusionResult<Arc<dyn TableProvider>> {
        let Some(state) = args.session().as_any().downcast_ref::<SessionState>() else {
            return Err(DataFusionError::Internal("a session is of another kind".to_owned()));
        };
        let (path, options) = self.options(args.exprs()).map_err(into_datafusion)?;
        // Planning waits for the file's first bytes anyhow.
        futures::executor::block_on(files::open(state, &path, &options)).map_err(into_datafusion)
    }
}
