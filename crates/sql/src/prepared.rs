//! A statement that is kept with what was found out about it, for runs with values.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, SchemaRef};
use forebay_point::{KeptProgram, Named, ParameterValue, ordered};
use forebay_syntax::parameters::Template;
use forebay_transactions::Control;

/// A statement that can be run with values for its parameters.
#[derive(Debug, Clone)]
pub struct Prepared {
    pub(crate) template: Template,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) columns: Option<SchemaRef>,
    /// Its parameters are `$1`, `$2` and so on, in this order.
    pub(crate) is_numbered: bool,
    /// What it does with the session's transaction, where it is BEGIN, COMMIT or the like.
    pub(crate) control: Option<Control>,
    /// What is known of it as a program; clones share it.
    pub(crate) point: Arc<KeptProgram>,
}

/// A parameter of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    /// `1` of `$1`, `day` of `$day`.
    pub name: String,
    /// The type that its place asks for, where that is known.
    pub data_type: Option<DataType>,
}

impl Prepared {
    /// Values in the order of the parameters; `None` where there are too few, too many or others.
    pub(crate) fn ordered<'v>(&self, values: &'v [Named]) -> Option<Vec<&'v ParameterValue>> {
        let in_their_order = self.is_numbered && values.iter().all(|(name, _)| name.is_none());
        match in_their_order && values.len() == self.parameters.len() {
            true => Some(values.iter().map(|(_, value)| value).collect()),
            false => ordered(self.template.names(), values),
        }
    }

    /// The parameters: by number, or as they are met.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// Names and types of the columns that the statement gave when it was prepared, without values; none of a statement that
    /// gives no rows; `None` where that is known only by running it.
    pub fn columns(&self) -> Option<&SchemaRef> {
        self.columns.as_ref()
    }

    /// Whether the last run found its rows by key, without a plan, or would have but for its values.
    pub fn runs_by_key(&self) -> bool {
        self.point.is_program()
    }
}
