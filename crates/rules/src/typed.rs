//! Rewriting an expression from its leaves up, where each node is told the types of its children. Every type is found
//! once, from those below it: asked for its type, an expression would walk down to its leaves, at each of its nodes.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRewriter};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::type_coercion::binary::BinaryTypeCoercer;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator};

/// Types of a node's children, in their order; `None` where one has no type before its own coercion.
pub type ChildTypes = [Option<DataType>];

/// Takes a node and the types of its children. The node that it gives has the same children in the same order, but that
/// they may be cast, or in a literal.
pub type Rewrite<'a> = dyn Fn(Expr, &ChildTypes) -> Result<Transformed<Expr>> + 'a;

/// Rewrites `expr`, whose columns are those of `schema`.
pub fn transform_up(expr: Expr, schema: &DFSchema, rewrite: &Rewrite<'_>) -> Result<Transformed<Expr>> {
    expr.rewrite(&mut Typing { schema, rewrite, types: Vec::new(), begins: Vec::new() })
}

/// Whether an operator compares two values of one type.
pub fn is_comparison(op: Operator) -> bool {
    use Operator as O;
    matches!(op, O::Eq | O::NotEq | O::Lt | O::LtEq | O::Gt | O::GtEq | O::IsDistinctFrom | O::IsNotDistinctFrom)
}

/// Whether values of a type have parts.
pub fn is_nested(data_type: &DataType) -> bool {
    use DataType as T;
    matches!(data_type, T::List(_) | T::LargeList(_) | T::FixedSizeList(..) | T::Struct(_))
}

/// Whether values of a type are ordered by their parts.
pub fn is_ordered_by_parts(data_type: &DataType) -> bool {
    is_nested(data_type) || matches!(data_type, DataType::Map(..))
}

struct Typing<'a> {
    schema: &'a DFSchema,
    rewrite: &'a Rewrite<'a>,
    /// Types of the nodes that are done and whose parents are not.
    types: Vec<Option<DataType>>,
    /// Where in `types` those of the children begin, of each node that is not done.
    begins: Vec<usize>,
}

impl TreeNodeRewriter for Typing<'_> {
    type Node = Expr;

    fn f_down(&mut self, expr: Expr) -> Result<Transformed<Expr>> {
        self.begins.push(self.types.len());
        Ok(Transformed::no(expr))
    }

    fn f_up(&mut self, expr: Expr) -> Result<Transformed<Expr>> {
        let begin = self.begins.pop().unwrap_or_default();
        let children = self.types.split_off(begin);
        let mut done = (self.rewrite)(expr, &children)?;
        // Nobody asks for the type of the whole.
        if self.begins.is_empty() {
            return Ok(done);
        }
        let (expr, data_type) = type_of(done.data, &children, self.schema)?;
        done.data = expr;
        self.types.push(data_type);
        Ok(done)
    }
}

/// The type of `expr`, for which its children are replaced by columns of their types for a moment.
fn type_of(expr: Expr, children: &ChildTypes, schema: &DFSchema) -> Result<(Expr, Option<DataType>)> {
    // The types of their parameters are not those of columns.
    if matches!(expr, Expr::HigherOrderFunction(_) | Expr::Lambda(_)) {
        let data_type = expr.get_type(schema).ok();
        return Ok((expr, data_type));
    }
    if let Some(known) = known_type(&expr, children, schema) {
        return Ok((expr, known));
    }
    let mut index = 0;
    let mut kept = Vec::new();
    let hollow = expr.map_children(|child| {
        let data_type = match &child {
            Expr::Cast(cast) => Some(cast.field.data_type().clone()),
            Expr::TryCast(cast) => Some(cast.field.data_type().clone()),
            // The type of a function may depend on it.
            Expr::Literal(..) => None,
            _ => children.get(index).cloned().flatten(),
        };
        index += 1;
        let replacement = data_type.map(|data_type| {
            let field = Field::new("child", data_type, true);
            Expr::OuterReferenceColumn(Arc::new(field), Column::from_name("child"))
        });
        Ok(match replacement {
            Some(column) => {
                kept.push(Some(child));
                Transformed::yes(column)
            }
            None => {
                kept.push(None);
                Transformed::no(child)
            }
        })
    })?;
    let data_type = hollow.data.get_type(schema).ok();
    let mut kept = kept.into_iter();
    let whole = hollow.data.map_children(|child| {
        Ok(match kept.next().flatten() {
            Some(kept) => Transformed::yes(kept),
            None => Transformed::no(child),
        })
    })?;
    Ok((whole.data, data_type))
}

/// The type of an expression, or that it has none, where a look at it and the types of its children says so.
fn known_type(expr: &Expr, children: &ChildTypes, schema: &DFSchema) -> Option<Option<DataType>> {
    Some(match expr {
        Expr::Column(_) | Expr::Literal(..) => expr.get_type(schema).ok(),
        Expr::Cast(cast) => Some(cast.field.data_type().clone()),
        Expr::Between(_) | Expr::InList(_) | Expr::IsNull(_) | Expr::IsNotNull(_) => Some(DataType::Boolean),
        Expr::Like(_) | Expr::SimilarTo(_) => Some(DataType::Boolean),
        Expr::BinaryExpr(BinaryExpr { op, .. }) => match children {
            [Some(DataType::Boolean), Some(DataType::Boolean)] if matches!(op, Operator::And | Operator::Or) => {
                Some(DataType::Boolean)
            }
            [Some(left), Some(right)] => BinaryTypeCoercer::new(left, op, right).get_result_type().ok(),
            _ => return None,
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::Schema;
    use datafusion::functions::core::expr_fn::arrow_cast;
    use datafusion::prelude::{cast, coalesce, col, lit, when};

    use super::*;

    /// What every node is told about its children is what they say themselves.
    #[test]
    fn types_are_those_that_expressions_have() {
        let fields = [("i", DataType::Int32), ("b", DataType::Int64), ("d", DataType::Decimal128(9, 2))];
        let fields: Vec<Field> = fields.map(|(name, data_type)| Field::new(name, data_type, true)).into();
        let schema = DFSchema::try_from(Schema::new(fields)).expect("columns of one table");
        let case = when(col("i").gt(lit(1)), col("d")).otherwise(lit(1)).expect("a CASE");
        let cast_by_text = arrow_cast(col("i"), lit("Float64"));
        for expr in [
            (col("i") + col("b")) * col("d") - lit(1),
            coalesce(vec![col("i"), lit(1)]) + cast(col("d"), DataType::Int8),
            -case * cast_by_text,
            col("i").in_list(vec![lit(1), col("b") + lit(2)], false),
            col("d").between(col("i"), col("i") + lit(1)).and(col("i").is_null()),
            col("i").gt(lit(1)).or(lit(true)).and(cast(col("i"), DataType::Boolean)).is_not_null(),
        ] {
            let check = |expr: Expr, types: &ChildTypes| {
                let mut told = types.iter();
                let unchanged = expr.map_children(|child| {
                    assert_eq!(told.next(), Some(&child.get_type(&schema).ok()), "{child}");
                    Ok(Transformed::no(child))
                })?;
                assert_eq!(told.next(), None, "{}", unchanged.data);
                Ok(unchanged)
            };
            let same = transform_up(expr.clone(), &schema, &check).expect("nothing to fail");
            assert_eq!(same.data, expr);
        }
    }
}
