//! Functions that are NULL where one of their arguments is.

use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{Expr, ScalarUDFImpl};

/// A call of such a function: NULL of its type if an argument is known to be NULL. The other arguments are not computed then, so
/// that nothing in them fails.
pub fn simplified(
    function: &dyn ScalarUDFImpl,
    args: Vec<Expr>,
    context: &SimplifyContext,
) -> Result<ExprSimplifyResult> {
    let is_null = |arg: &Expr| matches!(arg, Expr::Literal(value, _) if value.is_null());
    if !args.iter().any(is_null) {
        return Ok(ExprSimplifyResult::Original(args));
    }
    let types = args.iter().map(|arg| context.get_data_type(arg)).collect::<Result<Vec<_>>>()?;
    let null = ScalarValue::try_new_null(&function.return_type(&types)?)?;
    Ok(ExprSimplifyResult::Simplified(Expr::Literal(null, None)))
}
