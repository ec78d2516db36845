//! `read_csv('file')`, `read_parquet('*.parquet')` and `read_json('file')`: files as tables, with options by name.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, StringArray};
use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{DataFusionError, Result as DataFusionResult, ScalarValue};
use datafusion::datasource::MemTable;
use datafusion::execution::SessionState;
use datafusion::logical_expr::Expr;
use forebay_base::{Error, ErrorKind, Result};
use forebay_context::error::{from_datafusion, into_datafusion};
use forebay_context::words::plain_words;
use forebay_forms::file_options::{Options, READ_FUNCTIONS};
use forebay_syntax::parse;

use crate::files;

/// The function that gives the files that a pattern matches.
const MATCHING: &str = "glob";

/// Adds the functions to a session.
pub fn register(state: &mut SessionState) {
    for (name, _) in READ_FUNCTIONS {
        state.register_udtf(name, Arc::new(ReadFile(name)));
    }
    state.register_udtf(MATCHING, Arc::new(ReadFile(MATCHING)));
}

/// The table that a call of `function` gives.
async fn open(state: &SessionState, function: &str, arguments: &[String]) -> Result<Arc<dyn TableProvider>> {
    let Some((name, format)) = READ_FUNCTIONS.iter().find(|(known, _)| *known == function) else {
        return Err(Error::internal(format!("{function} reads no files")));
    };
    let Some((path, rest)) = arguments.split_first() else {
        return Err(Error::input(format!("{name} needs the path of a file")));
    };
    let mut options = Options { format: Some(*format), ..Options::default() };
    for text in rest {
        let Some((option, value)) = text.split_once('=') else {
            return Err(Error::input(format!("{name}: {text:?} is not an option"))
                .hint("Write options as name = value, for example header = false"));
        };
        parse::set_option(&mut options, option, value)?;
    }
    files::open(state, path, &options).await
}

/// The files that a pattern matches, which may be none.
fn matching(arguments: &[String]) -> Result<Arc<dyn TableProvider>> {
    let [pattern] = arguments else {
        return Err(Error::input("glob takes one pattern").hint("Write FROM glob('data/*.csv')"));
    };
    let files = match files::matching_files(pattern) {
        Ok(files) => files,
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(error),
    };
    let names: ArrayRef = Arc::new(StringArray::from(files));
    let batch = RecordBatch::try_from_iter([("file", names)]).map_err(|error| Error::internal(error.to_string()))?;
    let table = MemTable::try_new(batch.schema(), vec![vec![batch]]).map_err(from_datafusion)?;
    Ok(Arc::new(table))
}

#[derive(Debug)]
struct ReadFile(&'static str);

impl ReadFile {
    fn texts(&self, arguments: &[Expr]) -> Result<Vec<String>> {
        let text = |argument: &Expr| match argument {
            Expr::Literal(ScalarValue::Utf8(Some(text)) | ScalarValue::Utf8View(Some(text)), _) => Ok(text.clone()),
            other => Err(Error::input(plain_words(&format!("{}: {other} is not a text", self.0)))
                .hint(format!("Write {}('path'), with options as name = value", self.0))),
        };
        arguments.iter().map(text).collect()
    }
}

impl TableFunctionImpl for ReadFile {
    fn call_with_args(&self, args: TableFunctionArgs<'_, '_>) -> DataFusionResult<Arc<dyn TableProvider>> {
        let Some(state) = args.session().as_any().downcast_ref::<SessionState>() else {
            return Err(DataFusionError::Internal("a session is of another kind".to_owned()));
        };
        let texts = self.texts(args.exprs()).map_err(into_datafusion)?;
        if self.0 == MATCHING {
            return matching(&texts).map_err(into_datafusion);
        }
        // Planning waits for the file's first bytes anyhow. Unconstrained, since nobody gives this thread another share of
        // steps while it waits here: a long line needs more than one.
        futures::executor::block_on(tokio::task::unconstrained(open(state, self.0, &texts))).map_err(into_datafusion)
    }
}
