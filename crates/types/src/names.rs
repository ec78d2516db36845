//! Names of types in a statement: each is replaced by what it stands for.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    AlterColumnOperation, AlterTableOperation, ArrayElemTypeDef, DataType, Expr, ObjectName, Statement, TypedString,
    VisitorMut,
};
use datafusion::sql::sqlparser::parser::Parser;
use forebay_base::{Error, Result};
use forebay_grammar::walk::Tree;
use forebay_syntax::dialect::ForebayDialect;

/// What the types of a catalog stand for, in SQL's words.
pub trait Names {
    /// The definition of a type, if there is one of this name.
    fn find(&self, name: &ObjectName) -> Option<String>;
}

/// Replaces the names of types in a statement.
///
/// # Errors
/// A definition that cannot be read.
pub fn replace(statement: &mut Statement, names: &dyn Names) -> Result<()> {
    let mut wrong = None;
    let flow = statement.walk_mut(&mut Replacing { names, wrong: &mut wrong });
    match (flow, wrong) {
        (ControlFlow::Break(()), Some(error)) => Err(error),
        _ => Ok(()),
    }
}

struct Replacing<'a> {
    names: &'a dyn Names,
    wrong: &'a mut Option<Error>,
}

impl Replacing<'_> {
    fn replace(&mut self, data_type: &mut DataType) -> ControlFlow<()> {
        match replace_in(data_type, self.names) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                *self.wrong = Some(error);
                ControlFlow::Break(())
            }
        }
    }
}

impl VisitorMut for Replacing<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Cast { data_type, .. } | Expr::TypedString(TypedString { data_type, .. }) => self.replace(data_type),
            Expr::Convert { data_type: Some(data_type), .. } => self.replace(data_type),
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_statement(&mut self, statement: &mut Statement) -> ControlFlow<()> {
        match statement {
            Statement::CreateTable(create) => {
                create.columns.iter_mut().try_for_each(|column| self.replace(&mut column.data_type))
            }
            Statement::AlterTable(alter) => alter.operations.iter_mut().try_for_each(|operation| match operation {
                AlterTableOperation::AddColumn { column_def, .. } => self.replace(&mut column_def.data_type),
                AlterTableOperation::AlterColumn {
                    op: AlterColumnOperation::SetDataType { data_type, .. }, ..
                } => self.replace(data_type),
                _ => ControlFlow::Continue(()),
            }),
            _ => ControlFlow::Continue(()),
        }
    }
}

/// Replaces the names in a type.
///
/// # Errors
/// A definition that cannot be read.
pub fn replace_in(data_type: &mut DataType, names: &dyn Names) -> Result<()> {
    match data_type {
        DataType::Array(
            ArrayElemTypeDef::SquareBracket(element, _)
            | ArrayElemTypeDef::AngleBracket(element)
            | ArrayElemTypeDef::Parenthesis(element),
        ) => replace_in(element, names),
        DataType::Struct(fields, _) => fields.iter_mut().try_for_each(|field| replace_in(&mut field.field_type, names)),
        DataType::Custom(name, parts) if parts.is_empty() => {
            if let Some(definition) = names.find(name) {
                *data_type = parsed(&definition)?;
            }
            Ok(())
        }
        // The types of keys and values of a map are texts to the parser.
        DataType::Custom(_, parts) => parts.iter_mut().try_for_each(|part| {
            if let Ok(mut inner) = parsed(part) {
                replace_in(&mut inner, names)?;
                *part = inner.to_string();
            }
            Ok(())
        }),
        _ => Ok(()),
    }
}

/// The type that a text is.
///
/// # Errors
/// Another text.
pub fn parsed(text: &str) -> Result<DataType> {
    if text == "ENUM()" {
        return Ok(DataType::Enum(Vec::new(), None));
    }
    let parsed = Parser::new(&ForebayDialect).try_with_sql(text).and_then(|mut parser| parser.parse_data_type());
    parsed.map_err(|error| Error::corrupt(format!("the type {text} cannot be read: {error}")))
}
