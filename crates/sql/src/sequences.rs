//! `nextval` and `currval`. Each call of `nextval` over a batch of rows is one commit, also within a transaction: a number that was given
//! is not given again, whatever happens then.

use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex};

use datafusion::arrow::array::{ArrayRef, AsArray, Int64Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result as DataFusionResult, ScalarValue};
use datafusion::execution::FunctionRegistry;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use datafusion::sql::sqlparser::ast::ObjectName;
use forebay_base::{Error, ErrorKind, Result};
use forebay_context::error::{from_datafusion, into_datafusion, suggestion};
use forebay_context::lock::lock;
use forebay_names::qualified_name::QualifiedName;
use forebay_names::search_path::SearchPath;
use forebay_store::Catalog;
use forebay_syntax::tokens::parse_name;
use forebay_transactions::SessionTransactions;

/// The last number that each sequence gave a session, by schema and name.
type Given = Mutex<HashMap<(String, String), i64>>;

/// Adds `nextval` and `currval` to the functions of a session.
///
/// # Errors
/// None that a user makes.
pub(crate) fn register(
    state: &mut SessionState,
    transactions: &Arc<SessionTransactions>,
    path: &Arc<Mutex<SearchPath>>,
) -> Result<()> {
    let given: Arc<Given> = Arc::default();
    for (name, is_next) in [("nextval", true), ("currval", false)] {
        let function = Numbers {
            name,
            is_next,
            signature: Signature::string(1, Volatility::Volatile),
            transactions: Arc::clone(transactions),
            path: Arc::clone(path),
            given: Arc::clone(&given),
        };
        state.register_udf(Arc::new(ScalarUDF::from(function))).map_err(from_datafusion)?;
    }
    Ok(())
}

/// `nextval('sequence')` or `currval('sequence')`.
struct Numbers {
    name: &'static str,
    is_next: bool,
    signature: Signature,
    transactions: Arc<SessionTransactions>,
    path: Arc<Mutex<SearchPath>>,
    given: Arc<Given>,
}

impl fmt::Debug for Numbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for Numbers {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && Arc::ptr_eq(&self.given, &other.given)
    }
}

impl Eq for Numbers {}

impl Hash for Numbers {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl Numbers {
    /// So many numbers of the sequence that a text names.
    fn of(&self, text: &str, count: usize) -> Result<Vec<i64>> {
        let transaction = self.transactions.of_statement();
        let path = lock(&self.path).clone();
        let found = find(&transaction.catalog(), &path, &parse_name(text)?)?;
        if !self.is_next {
            let last = lock(&self.given).get(&key(&found)).copied();
            let last = last.ok_or_else(|| {
                Error::input(format!("sequence {text} has given no number in this session"))
                    .hint(format!("nextval('{text}') gives the next one"))
            })?;
            return Ok(vec![last; count]);
        }
        let numbers = transaction.take_numbers(&found.schema, &found.name, count)?;
        if let Some(last) = numbers.last() {
            lock(&self.given).insert(key(&found), *last);
        }
        Ok(numbers)
    }

    fn numbers(&self, names: &ColumnarValue, rows: usize) -> Result<ArrayRef> {
        if let ColumnarValue::Scalar(name) = names {
            return Ok(match name.try_as_str().flatten() {
                Some(text) => Arc::new(Int64Array::from(self.of(text, rows)?)),
                None => Arc::new(Int64Array::new_null(rows)),
            });
        }
        let names =
            names.to_array(rows).and_then(|names| Ok(cast(&names, &DataType::Utf8)?)).map_err(from_datafusion)?;
        let number = |name: Option<&str>| name.map(|name| Ok(self.of(name, 1)?[0])).transpose();
        let numbers = names.as_string::<i32>().iter().map(number).collect::<Result<Vec<_>>>()?;
        Ok(Arc::new(Int64Array::from(numbers)))
    }
}

impl ScalarUDFImpl for Numbers {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> DataFusionResult<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        let null = ColumnarValue::Scalar(ScalarValue::Utf8(None));
        let names = args.args.first().unwrap_or(&null);
        self.numbers(names, args.number_rows).map(ColumnarValue::Array).map_err(into_datafusion)
    }
}

fn key(name: &QualifiedName) -> (String, String) {
    (name.schema.to_lowercase(), name.name.to_lowercase())
}

/// The sequence that a name means.
///
/// # Errors
/// There is none of that name.
pub(crate) fn find(catalog: &Catalog, path: &SearchPath, name: &ObjectName) -> Result<QualifiedName> {
    let QualifiedName { schema, name } = QualifiedName::of(name, &path.schema)?;
    let schemas = path.schemas(catalog, &schema, true);
    match schemas.into_iter().find(|schema| catalog.sequence(schema, &name).is_some()) {
        Some(schema) => Ok(QualifiedName { schema, name }),
        None => {
            let error = Error::new(ErrorKind::NotFound, format!("sequence {name} does not exist"));
            Err(match suggestion(&name, catalog.sequences().map(|sequence| sequence.name.as_str())) {
                Some(other) => error.hint(format!("Did you mean {other}?")),
                None => error.hint("CREATE SEQUENCE makes one"),
            })
        }
    }
}
