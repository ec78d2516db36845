//! Texts beside values of another type. A literal stands for a value of that type, and so does any text that is compared with such
//! values for equality. Where values are ordered or stand in one column, other texts are refused, as in DuckDB: `coalesce(n, name)`
//! is neither a number nor a text.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::Result;
use datafusion::functions::core;
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::planner::RawBinaryExpr;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use forebay_functions::function::refused;
use forebay_syntax::types::shown_type;
use forebay_types::supertypes::{Purpose, united_type};

/// What operands of an operator that compares are brought together for.
pub(crate) fn purpose_of(op: Operator) -> Purpose {
    match op {
        Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq => Purpose::Order,
        _ => Purpose::Compare,
    }
}

/// The type that all values take where texts are among values of another one; `None` where none are, or where equality leaves it
/// to what else knows of such types.
///
/// # Errors
/// Texts that are no literals, where they must be.
pub(crate) fn type_of_all(expressions: &[Expr], types: &[DataType], purpose: Purpose) -> Result<Option<DataType>> {
    let others: Vec<DataType> = types.iter().filter(|data_type| is_other(data_type)).cloned().collect();
    let texts = || expressions.iter().zip(types).filter(|(_, data_type)| data_type.is_string());
    let (Some(other), Some((_, text))) = (others.first(), texts().next()) else { return Ok(None) };
    if !matches!(purpose, Purpose::Compare) && texts().any(|(expr, _)| !is_literal(expr)) {
        check(text, other)?;
    }
    Ok(match purpose {
        Purpose::Compare | Purpose::Order if !is_strict(other) => None,
        _ => united_type(&others),
    })
}

/// An error where one type is that of texts, and the other one is not.
pub(crate) fn check(left: &DataType, right: &DataType) -> Result<()> {
    match (left.is_string() && is_other(right)) || (right.is_string() && is_other(left)) {
        false => Ok(()),
        true => Err(refused(
            format!("values of type {} and {} cannot be mixed here", shown_type(left), shown_type(right)),
            "Cast one of them",
        )),
    }
}

/// A comparison whose operands DataFusion would not compare: of truth values with texts, floats and decimals, of intervals, lists and
/// the like with texts.
pub(crate) fn comparable(expr: &RawBinaryExpr, type_of: impl Fn(&Expr) -> Option<DataType>) -> Result<Option<Expr>> {
    let Some(op) = comparison(&expr.op) else { return Ok(None) };
    let (Some(left), Some(right)) = (type_of(&expr.left), type_of(&expr.right)) else { return Ok(None) };
    let target = match (&left, &right) {
        (text, other) | (other, text) if text.is_string() && is_strict(other) => other,
        (DataType::Boolean, number) | (number, DataType::Boolean) if number.is_floating() || number.is_decimal() => {
            number
        }
        _ => return Ok(None),
    };
    let both = [expr.left.clone(), expr.right.clone()];
    let target = target.clone();
    type_of_all(&both, &[left, right], purpose_of(op))?;
    let [left, right] = both.map(|side| Box::new(Expr::Cast(Cast::new(Box::new(side), target.clone()))));
    Ok(Some(Expr::BinaryExpr(BinaryExpr::new(left, op, right))))
}

fn comparison(op: &BinaryOperator) -> Option<Operator> {
    Some(match op {
        BinaryOperator::Eq => Operator::Eq,
        BinaryOperator::NotEq => Operator::NotEq,
        BinaryOperator::Lt => Operator::Lt,
        BinaryOperator::LtEq => Operator::LtEq,
        BinaryOperator::Gt => Operator::Gt,
        BinaryOperator::GtEq => Operator::GtEq,
        _ => return None,
    })
}

fn is_literal(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(_, None) | Expr::Placeholder(_))
}

/// Whether texts beside values of this type are not simply texts.
pub(crate) fn is_other(data_type: &DataType) -> bool {
    !data_type.is_string() && !data_type.is_null() && !data_type.is_binary()
}

/// Whether DataFusion has no comparison of such values with texts.
fn is_strict(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Boolean | DataType::Interval(_)) || data_type.is_nested()
}

/// `coalesce`, whose arguments may be of types that DataFusion does not bring together.
pub fn coalesce() -> Arc<ScalarUDF> {
    let signature = Signature::user_defined(Volatility::Immutable);
    Arc::new(ScalarUDF::from(Coalesce { inner: core::coalesce(), signature }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Coalesce {
    inner: Arc<ScalarUDF>,
    signature: Signature,
}

impl ScalarUDFImpl for Coalesce {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let others: Vec<DataType> = types.iter().filter(|data_type| is_other(data_type)).cloned().collect();
        let has_flags = others.contains(&DataType::Boolean) && others.iter().any(DataType::is_numeric);
        let has_texts = !others.is_empty() && types.iter().any(DataType::is_string);
        match united_type(&others).filter(|_| has_flags || has_texts) {
            Some(common) => Ok(vec![common; types.len()]),
            None => self.inner.coerce_types(types),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.inner.return_field_from_args(args)
    }

    fn simplify(&self, args: Vec<Expr>, context: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.inner.simplify(args, context)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.inner.invoke_with_args(args)
    }

    fn conditional_arguments<'a>(&self, args: &'a [Expr]) -> Option<(Vec<&'a Expr>, Vec<&'a Expr>)> {
        self.inner.conditional_arguments(args)
    }

    fn short_circuits(&self) -> bool {
        self.inner.short_circuits()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::prelude::{col, lit};

    #[test]
    fn literal_texts_take_the_type_beside_them_and_others_are_refused() {
        let types = [DataType::Int32, DataType::Utf8];
        let of = |text: Expr, purpose| type_of_all(&[col("n"), text], &types, purpose);
        assert_eq!(of(lit("5"), Purpose::Unite).expect("a literal"), Some(DataType::Int32));
        assert_eq!(of(col("s"), Purpose::Compare).expect("DataFusion knows it"), None);
        assert!(of(col("s"), Purpose::Unite).is_err());
        assert!(of(col("s"), Purpose::Order).is_err());
        let flags = [DataType::Boolean, DataType::Utf8];
        let told = type_of_all(&[col("b"), col("s")], &flags, Purpose::Compare);
        assert_eq!(told.expect("for equality"), Some(DataType::Boolean));
    }
}
