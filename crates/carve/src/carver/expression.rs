//! DataFusion's expressions as scalars of pipelines.
//!
//! Invariant: what is translated gives the value that DataFusion's kernels give, or fails where they fail; all else is a
//! [`Reason`]. Failing expressions may fail for other rows than DataFusion's would: the operator then asks DataFusion.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::expr::{InList, Like, ScalarFunction};
use datafusion::logical_expr::{Between, BinaryExpr, Case, Expr, ExprSchemable, Operator};
use forebay_pipeline::ir::{Arithmetic, Comparison, DatePart};

use crate::carver::Carver;
use crate::facts::Literal;
use crate::number;
use crate::reason::Reason;
use crate::scalar::Scalar;
use crate::time;
use crate::types::{is_integer, literal, range_of, same_values};

/// What the columns of an expression stand for.
pub struct Scope<'a> {
    /// The names.
    pub schema: &'a DFSchema,
    /// By position in the schema; `None` for columns of types that pipelines do not know.
    pub columns: &'a [Option<Scalar>],
}

impl Scope<'_> {
    /// The type of an expression.
    pub fn data_type(&self, expr: &Expr) -> Result<DataType, Reason> {
        expr.get_type(self.schema).map_err(|error| Reason::new(error.strip_backtrace()))
    }
}

impl Carver<'_> {
    /// An expression as a scalar.
    pub fn expression(&mut self, expr: &Expr, scope: &Scope<'_>) -> Result<Scalar, Reason> {
        self.deeper(|carver| carver.shallow(expr, scope))
    }

    fn shallow(&mut self, expr: &Expr, scope: &Scope<'_>) -> Result<Scalar, Reason> {
        match expr {
            Expr::Alias(alias) => self.expression(&alias.expr, scope),
            Expr::Column(column) => {
                let index = scope.schema.maybe_index_of_column(column);
                let found = index.and_then(|index| scope.columns.get(index)).and_then(Clone::clone);
                found.ok_or_else(|| Reason::new(format!("column {column}")))
            }
            Expr::Literal(value, _) => literal(value),
            Expr::BinaryExpr(binary) => self.binary(binary, scope),
            Expr::Not(inner) => Scalar::negation(self.expression(inner, scope)?),
            Expr::IsNull(inner) | Expr::IsUnknown(inner) => Scalar::is_null(self.expression(inner, scope)?),
            Expr::IsNotNull(inner) | Expr::IsNotUnknown(inner) => {
                Scalar::negation(Scalar::is_null(self.expression(inner, scope)?)?)
            }
            Expr::IsTrue(inner) => is_true(self.expression(inner, scope)?),
            Expr::IsNotTrue(inner) => Scalar::negation(is_true(self.expression(inner, scope)?)?),
            Expr::IsFalse(inner) => is_true(Scalar::negation(self.expression(inner, scope)?)?),
            Expr::IsNotFalse(inner) => Scalar::negation(is_true(Scalar::negation(self.expression(inner, scope)?)?)?),
            Expr::Negative(inner) => {
                let data_type = scope.data_type(inner)?;
                if matches!(data_type, DataType::Float64) {
                    // DataFusion's own minus makes -0, ours does not.
                    return Err(Reason::new("an unchecked minus"));
                }
                Scalar::negate(range_of(&data_type, false)?, self.expression(inner, scope)?)
            }
            Expr::Between(between) => self.between(between, scope),
            Expr::Case(case) => self.case(case, scope),
            Expr::Cast(cast) => {
                let from = scope.data_type(&cast.expr)?;
                number::cast(self.expression(&cast.expr, scope)?, &from, cast.field.data_type())
            }
            Expr::InList(list) => self.in_list(list, scope),
            Expr::Like(like) => self.like(like, scope),
            Expr::ScalarFunction(function) => self.function(function, scope),
            Expr::ScalarSubquery(subquery) => self.scalar_subquery(subquery),
            other => Err(Reason::new(format!("expression {}", other.variant_name()))),
        }
    }

    fn binary(&mut self, binary: &BinaryExpr, scope: &Scope<'_>) -> Result<Scalar, Reason> {
        let left = self.expression(&binary.left, scope)?;
        let right = self.expression(&binary.right, scope)?;
        let comparison = match binary.op {
            Operator::And => return Scalar::and(left, right),
            Operator::Or => return Scalar::or(left, right),
            Operator::Eq => Some(Comparison::Equal),
            Operator::NotEq => Some(Comparison::NotEqual),
            Operator::Lt => Some(Comparison::Less),
            Operator::LtEq => Some(Comparison::LessOrEqual),
            Operator::Gt => Some(Comparison::Greater),
            Operator::GtEq => Some(Comparison::GreaterOrEqual),
            _ => None,
        };
        let (left_type, right_type) = (scope.data_type(&binary.left)?, scope.data_type(&binary.right)?);
        let distinct = matches!(binary.op, Operator::IsDistinctFrom | Operator::IsNotDistinctFrom);
        if (comparison.is_some() || distinct) && !same_values(&left_type, &right_type) {
            return Err(Reason::new(format!("{left_type} beside {right_type}")));
        }
        if let Some(comparison) = comparison {
            return Scalar::compare(comparison, left, right);
        }
        if distinct {
            let same = not_distinct(left, right)?;
            return if binary.op == Operator::IsDistinctFrom { Scalar::negation(same) } else { Ok(same) };
        }
        let op = match binary.op {
            Operator::Plus => Arithmetic::Add,
            Operator::Minus => Arithmetic::Subtract,
            Operator::Multiply => Arithmetic::Multiply,
            Operator::Divide => Arithmetic::Divide,
            Operator::Modulo => Arithmetic::Remainder,
            other => return Err(Reason::new(format!("operator {other}"))),
        };
        let result = scope.data_type(&Expr::BinaryExpr(binary.clone()))?;
        // DataFusion's own operators wrap around where they add and multiply integers.
        let wraps = matches!(op, Arithmetic::Add | Arithmetic::Subtract | Arithmetic::Multiply);
        number::arithmetic(op, (left, &left_type), (right, &right_type), &result, wraps)
    }

    fn between(&mut self, between: &Between, scope: &Scope<'_>) -> Result<Scalar, Reason> {
        let data_type = scope.data_type(&between.expr)?;
        for edge in [&between.low, &between.high] {
            let edge = scope.data_type(edge)?;
            if !same_values(&data_type, &edge) {
                return Err(Reason::new(format!("{data_type} beside {edge}")));
            }
        }
        let value = self.expression(&between.expr, scope)?;
        let low = self.expression(&between.low, scope)?;
        let high = self.expression(&between.high, scope)?;
        let above = Scalar::compare(Comparison::GreaterOrEqual, value.clone(), low)?;
        let within = Scalar::and(above, Scalar::compare(Comparison::LessOrEqual, value, high)?)?;
        if between.negated { Scalar::negation(within) } else { Ok(within) }
    }

    fn case(&mut self, case: &Case, scope: &Scope<'_>) -> Result<Scalar, Reason> {
        let result = scope.data_type(&Expr::Case(case.clone()))?;
        let subject = match &case.expr {
            None => None,
            Some(subject) => Some((self.expression(subject, scope)?, scope.data_type(subject)?)),
        };
        let mut branches = Vec::with_capacity(case.when_then_expr.len());
        for (when, then) in &case.when_then_expr {
            let when_scalar = self.expression(when, scope)?;
            let condition = match &subject {
                None => when_scalar,
                Some((subject, data_type)) if same_values(data_type, &scope.data_type(when)?) => {
                    Scalar::compare(Comparison::Equal, subject.clone(), when_scalar)?
                }
                Some(_) => return Err(Reason::new("a CASE of several types")),
            };
            branches.push((condition, self.branch(then, &result, scope)?));
        }
        let otherwise = match &case.else_expr {
            Some(otherwise) => self.branch(otherwise, &result, scope)?,
            None => Scalar::null(crate::types::facts_of(&result, true)?.value),
        };
        Scalar::case(branches, otherwise)
    }

    /// A value of a CASE, whose type is `result`.
    fn branch(&mut self, expr: &Expr, result: &DataType, scope: &Scope<'_>) -> Result<Scalar, Reason> {
        if matches!(expr, Expr::Literal(value, _) if value.is_null()) {
            return Ok(Scalar::null(crate::types::facts_of(result, true)?.value));
        }
        let data_type = scope.data_type(expr)?;
        match same_values(&data_type, result) {
            true => self.expression(expr, scope),
            false => Err(Reason::new("values of several types")),
        }
    }

    fn in_list(&mut self, list: &InList, scope: &Scope<'_>) -> Result<Scalar, Reason> {
        let data_type = scope.data_type(&list.expr)?;
        let value = self.expression(&list.expr, scope)?;
        let mut items = Vec::with_capacity(list.list.len());
        for item in &list.list {
            if !same_values(&data_type, &scope.data_type(item)?) {
                return Err(Reason::new("a list of several types"));
            }
            match self.expression(item, scope)?.as_constant() {
                Some(Literal::Null) | None => return Err(Reason::new("a list with NULL or expressions")),
                Some(literal) => items.push(literal.clone()),
            }
        }
        let found = Scalar::one_of(value, items)?;
        if list.negated { Scalar::negation(found) } else { Ok(found) }
    }

    fn like(&mut self, like: &Like, scope: &Scope<'_>) -> Result<Scalar, Reason> {
        if like.case_insensitive || like.escape_char.is_some() {
            return Err(Reason::new("ILIKE or LIKE with ESCAPE"));
        }
        if !is_text(&scope.data_type(&like.expr)?) {
            return Err(Reason::new("LIKE on what is not text"));
        }
        let value = self.expression(&like.expr, scope)?;
        let pattern = self.expression(&like.pattern, scope)?;
        let found = match pattern.as_constant() {
            Some(Literal::Bytes(pattern)) if !pattern.contains(&b'\\') => Scalar::like(value, pattern)?,
            _ => return Err(Reason::new("LIKE with a pattern that is computed or escaped")),
        };
        if like.negated { Scalar::negation(found) } else { Ok(found) }
    }

    fn length(&mut self, text: &Expr, scope: &Scope<'_>) -> Result<Scalar, Reason> {
        match is_text(&scope.data_type(text)?) {
            true => Scalar::length(self.expression(text, scope)?),
            false => Err(Reason::new("the length of what is not text")),
        }
    }

    fn function(&mut self, function: &ScalarFunction, scope: &Scope<'_>) -> Result<Scalar, Reason> {
        let unknown = || Reason::new(format!("function {}", function.name()));
        match (function.name(), function.args.as_slice()) {
            (name, [left, right]) if operation(name).is_some() => {
                // Of floats it fails at zero, which a quotient does not.
                if name == "integer_divide" && !is_integer(&scope.data_type(left)?) {
                    return Err(unknown());
                }
                self.checked(operation(name).ok_or_else(unknown)?, left, right, scope)
            }
            // Results of pipelines are in canonical form anyway.
            ("canonical", [inner]) => self.expression(inner, scope),
            ("rounding_cast", [inner]) => {
                let (from, to) = (scope.data_type(inner)?, scope.data_type(&Expr::ScalarFunction(function.clone()))?);
                number::rounding_cast(self.expression(inner, scope)?, &from, &to)
            }
            ("checked_negate", [inner]) => {
                let data_type = scope.data_type(inner)?;
                Scalar::negate(range_of(&data_type, false)?, self.expression(inner, scope)?)
            }
            ("date_part", [Expr::Literal(part, _), date]) if scope.data_type(date)? == DataType::Date32 => {
                let part = match part.try_as_str().flatten().map(str::to_ascii_lowercase).as_deref() {
                    Some("year") => DatePart::Year,
                    Some("month") => DatePart::Month,
                    Some("day") => DatePart::Day,
                    _ => return Err(unknown()),
                };
                if !is_integer(&scope.data_type(&Expr::ScalarFunction(function.clone()))?) {
                    return Err(unknown());
                }
                Scalar::date_part(part, self.expression(date, scope)?)
            }
            ("date_part", [Expr::Literal(part, _), time]) => {
                let whole = is_integer(&scope.data_type(&Expr::ScalarFunction(function.clone()))?);
                let part = part.try_as_str().flatten().filter(|_| whole).ok_or_else(unknown)?;
                let data_type = scope.data_type(time)?;
                time::part(&part.to_ascii_lowercase(), self.expression(time, scope)?, &data_type)
            }
            ("date_trunc", [Expr::Literal(unit, _), time]) => {
                let data_type = scope.data_type(time)?;
                let same = scope.data_type(&Expr::ScalarFunction(function.clone()))? == data_type;
                let unit = unit.try_as_str().flatten().filter(|_| same).ok_or_else(unknown)?;
                time::truncated(&unit.to_ascii_lowercase(), self.expression(time, scope)?, &data_type)
            }
            ("substr" | "substring", [text, Expr::Literal(start, _), rest @ ..]) if rest.len() <= 1 => {
                let length = match rest {
                    [] => None,
                    [Expr::Literal(length, _)] => Some(whole(length).filter(|l| *l >= 0).ok_or_else(unknown)?),
                    _ => return Err(unknown()),
                };
                if !is_text(&scope.data_type(text)?) {
                    return Err(unknown());
                }
                // Characters are counted from the end there.
                let start = whole(start).filter(|start| *start >= 0).ok_or_else(unknown)?;
                if length.is_some_and(|length| start.checked_add(length).is_none()) {
                    return Err(unknown());
                }
                Scalar::substring(self.expression(text, scope)?, start, length)
            }
            ("character_length", [text]) => self.length(text, scope),
            ("coalesce", args) if !args.is_empty() => self.coalesce(args, scope),
            ("nullif", [value, other]) => self.null_if(value, other, scope)?.ok_or_else(unknown),
            _ => Err(unknown()),
        }
    }

    /// `NULLIF(value, other)`; `None` of several types.
    fn null_if(&mut self, value: &Expr, other: &Expr, scope: &Scope<'_>) -> Result<Option<Scalar>, Reason> {
        if !same_values(&scope.data_type(value)?, &scope.data_type(other)?) {
            return Ok(None);
        }
        let (value, other) = (self.expression(value, scope)?, self.expression(other, scope)?);
        let same = Scalar::compare(Comparison::Equal, value.clone(), other)?;
        Scalar::case(vec![(same, Scalar::null(value.facts().value))], value).map(Some)
    }

    /// Arithmetic of two numbers of one type: integers fail where the result leaves it.
    fn checked(&mut self, op: Arithmetic, left: &Expr, right: &Expr, scope: &Scope<'_>) -> Result<Scalar, Reason> {
        let data_type = scope.data_type(left)?;
        if data_type != scope.data_type(right)? || !(is_integer(&data_type) || data_type == DataType::Float64) {
            return Err(Reason::new(format!("arithmetic with {data_type}")));
        }
        let (left, right) = (self.expression(left, scope)?, self.expression(right, scope)?);
        Scalar::arithmetic(op, range_of(&data_type, false)?, left, right)
    }

    fn coalesce(&mut self, args: &[Expr], scope: &Scope<'_>) -> Result<Scalar, Reason> {
        let mut result: Option<(Scalar, DataType)> = None;
        // From the last to the first: COALESCE(a, COALESCE(b, c)).
        for arg in args.iter().rev() {
            let (scalar, data_type) = (self.expression(arg, scope)?, scope.data_type(arg)?);
            result = Some(match result {
                None => (scalar, data_type),
                Some((rest, rest_type)) if same_values(&rest_type, &data_type) => {
                    // A later argument that fails must not where an earlier one has a value.
                    let value = match rest.fallible() {
                        true => Scalar::case(vec![(Scalar::is_null(scalar.clone())?, rest)], scalar)?,
                        false => Scalar::coalesce(scalar, rest)?,
                    };
                    (value, rest_type)
                }
                Some(_) => return Err(Reason::new("COALESCE of several types")),
            });
        }
        result.map(|(scalar, _)| scalar).ok_or_else(|| Reason::new("COALESCE of nothing"))
    }
}

fn is_true(condition: Scalar) -> Result<Scalar, Reason> {
    Scalar::coalesce(condition, Scalar::bool(false))
}

/// Whether two values are equal or both NULL.
fn not_distinct(left: Scalar, right: Scalar) -> Result<Scalar, Reason> {
    let both_null = Scalar::and(Scalar::is_null(left.clone())?, Scalar::is_null(right.clone())?)?;
    Scalar::or(both_null, is_true(Scalar::compare(Comparison::Equal, left, right)?)?)
}

/// The operation that a function of two numbers stands for.
fn operation(function: &str) -> Option<Arithmetic> {
    Some(match function {
        "checked_add" => Arithmetic::Add,
        "checked_subtract" => Arithmetic::Subtract,
        "checked_multiply" => Arithmetic::Multiply,
        "checked_divide" | "integer_divide" => Arithmetic::Divide,
        _ => return None,
    })
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// A constant whole number.
fn whole(value: &ScalarValue) -> Option<i64> {
    if !is_integer(&value.data_type()) {
        return None;
    }
    match literal(value).ok()?.as_constant()? {
        Literal::Int(value) => i64::try_from(*value).ok(),
        _ => None,
    }
}
