//! DataFusion's physical expressions as tests on columns: what codes and metadata can answer.

use std::ops::Bound;
use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NotExpr,
};
use forebay_base::{LogicalType, TimeUnit, Value};
use forebay_pipeline::{ColumnPredicate, Predicate};

/// What became of one conjunct.
#[derive(Debug)]
pub enum TranslatedConjunct {
    /// The tests together mean exactly the conjunct.
    Exact(Vec<ColumnPredicate>),
    /// The tests are implied by the conjunct, which must be evaluated as well.
    Implied(Vec<ColumnPredicate>),
}

/// Translates a conjunct whose columns are positions in `types`.
pub fn translate(expr: &Arc<dyn PhysicalExpr>, types: &[LogicalType]) -> TranslatedConjunct {
    match exact(expr, types) {
        Some(tests) => TranslatedConjunct::Exact(tests),
        None => TranslatedConjunct::Implied(implied(expr, types)),
    }
}

/// Tests that every row passes for which `expr` is true. `a < 1 OR a = 1 AND b < 2`, which is how the next keys of a top-k
/// are tested, implies `a <= 1`.
fn implied(expr: &Arc<dyn PhysicalExpr>, types: &[LogicalType]) -> Vec<ColumnPredicate> {
    let below = |part: &Arc<dyn PhysicalExpr>| exact(part, types).unwrap_or_else(|| implied(part, types));
    let Some(binary) = expr.downcast_ref::<BinaryExpr>() else {
        return like_prefix(expr, types).into_iter().collect();
    };
    match binary.op() {
        Operator::And => below(binary.left()).into_iter().chain(below(binary.right())).collect(),
        Operator::Or => {
            let right = below(binary.right());
            let hull = |test: &ColumnPredicate| {
                let twin = right.iter().find_map(|other| (other.column == test.column).then_some(&other.test))?;
                Some(ColumnPredicate { column: test.column, test: range_around(&test.test, twin)? })
            };
            below(binary.left()).iter().filter_map(hull).collect()
        }
        _ => Vec::new(),
    }
}

/// A range that holds the integers of two ranges.
fn range_around(a: &Predicate, b: &Predicate) -> Option<Predicate> {
    let (Predicate::Range { low: a_low, high: a_high }, Predicate::Range { low: b_low, high: b_high }) = (a, b) else {
        return None;
    };
    let low = outer(a_low, b_low, i128::lt)?;
    let high = outer(a_high, b_high, i128::gt)?;
    let is_open = low == Bound::Unbounded && high == Bound::Unbounded;
    (!is_open).then_some(Predicate::Range { low, high })
}

/// The bound of two integers that leaves more; `is_further` says which of two does.
fn outer(a: &Bound<Value>, b: &Bound<Value>, is_further: fn(&i128, &i128) -> bool) -> Option<Bound<Value>> {
    let integer = |bound: &Bound<Value>| match bound {
        Bound::Included(Value::Int(value)) | Bound::Excluded(Value::Int(value)) => Some(*value),
        _ => None,
    };
    if *a == Bound::Unbounded || *b == Bound::Unbounded {
        return Some(Bound::Unbounded);
    }
    let (first, second) = (integer(a)?, integer(b)?);
    Some(match first == second {
        true if matches!(a, Bound::Included(_)) => a.clone(),
        true => b.clone(),
        false if is_further(&first, &second) => a.clone(),
        false => b.clone(),
    })
}

fn exact(expr: &Arc<dyn PhysicalExpr>, types: &[LogicalType]) -> Option<Vec<ColumnPredicate>> {
    let one = |column: usize, test: Predicate| Some(vec![ColumnPredicate { column, test }]);
    if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
        if *binary.op() == Operator::And {
            let mut tests = exact(binary.left(), types)?;
            tests.extend(exact(binary.right(), types)?);
            return Some(tests);
        }
        let (column, literal, op) = match (column_of(binary.left()), column_of(binary.right())) {
            (Some(column), None) => (column, literal_of(binary.right())?, *binary.op()),
            (None, Some(column)) => (column, literal_of(binary.left())?, binary.op().swap()?),
            _ => return None,
        };
        let logical = types.get(column)?;
        if !logical.is_ordered() && !matches!(op, Operator::Eq | Operator::NotEq) {
            return None;
        }
        return one(column, comparison(op, value_of(literal, logical)?)?);
    }
    if let Some(list) = expr.downcast_ref::<InListExpr>() {
        let column = column_of(list.expr())?;
        let logical = types.get(column)?;
        let mut values = Vec::with_capacity(list.len());
        for item in list.list() {
            match value_of(literal_of(item)?, logical)? {
                Some(value) => values.push(value),
                // x NOT IN (…, NULL) is never true; in x IN (…, NULL) the NULL adds nothing that passes.
                None if list.negated() => return one(column, Predicate::Never),
                None => {}
            }
        }
        let test = match (list.negated(), Predicate::one_of(values)) {
            (false, test) => test,
            (true, Predicate::In(values)) => Predicate::NotIn(values),
            (true, Predicate::Range { low: Bound::Included(value), .. }) => Predicate::NotEqual(value),
            (true, _) => return None,
        };
        return one(column, test);
    }
    if let Some(like) = expr.downcast_ref::<LikeExpr>() {
        return like_tests(like, types);
    }
    if let Some(null) = expr.downcast_ref::<IsNullExpr>() {
        return one(column_of(null.arg())?, Predicate::IsNull);
    }
    if let Some(null) = expr.downcast_ref::<IsNotNullExpr>() {
        return one(column_of(null.arg())?, Predicate::IsNotNull);
    }
    if let Some(not) = expr.downcast_ref::<NotExpr>() {
        return one(bool_column(not.arg(), types)?, Predicate::equal(Value::Int(0)));
    }
    one(bool_column(expr, types)?, Predicate::equal(Value::Int(1)))
}

fn comparison(op: Operator, value: Option<Value>) -> Option<Predicate> {
    let Some(value) = value else {
        return matches!(
            op,
            Operator::Eq | Operator::NotEq | Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq
        )
        .then_some(Predicate::Never);
    };
    Some(match op {
        Operator::Eq => Predicate::equal(value),
        Operator::NotEq => Predicate::NotEqual(value),
        Operator::Lt => Predicate::Range { low: Bound::Unbounded, high: Bound::Excluded(value) },
        Operator::LtEq => Predicate::Range { low: Bound::Unbounded, high: Bound::Included(value) },
        Operator::Gt => Predicate::Range { low: Bound::Excluded(value), high: Bound::Unbounded },
        Operator::GtEq => Predicate::Range { low: Bound::Included(value), high: Bound::Unbounded },
        _ => return None,
    })
}

/// LIKE on a column of texts: the column and the pattern, `None` for NULL.
fn pattern_of(like: &LikeExpr, types: &[LogicalType]) -> Option<(usize, Option<Vec<u8>>)> {
    let column = column_of(like.expr())?;
    if like.case_insensitive() || types.get(column) != Some(&LogicalType::Varchar) {
        return None;
    }
    match value_of(literal_of(like.pattern())?, &LogicalType::Varchar)? {
        Some(Value::Bytes(pattern)) => Some((column, Some(pattern))),
        Some(_) => None,
        None => Some((column, None)),
    }
}

/// LIKE by its pattern, and where that begins with text, by the range of what begins so, which zones answer too.
/// `LIKE 'abc%'` is that range.
fn like_tests(like: &LikeExpr, types: &[LogicalType]) -> Option<Vec<ColumnPredicate>> {
    let (column, pattern) = pattern_of(like, types)?;
    let Some(pattern) = pattern else { return Some(vec![ColumnPredicate { column, test: Predicate::Never }]) };
    if pattern.contains(&b'\\') {
        return None;
    }
    let prefix = (!like.negated()).then(|| prefix_range(column, &pattern)).flatten();
    let is_prefix = pattern.strip_suffix(b"%").is_some_and(|start| !start.iter().any(|byte| b"%_".contains(byte)));
    if is_prefix && let Some(prefix) = prefix {
        return Some(vec![prefix]);
    }
    let test = Predicate::Like { pattern: pattern.into(), negated: like.negated() };
    Some(prefix.into_iter().chain([ColumnPredicate { column, test }]).collect())
}

/// What a pattern with escapes implies.
fn like_prefix(expr: &Arc<dyn PhysicalExpr>, types: &[LogicalType]) -> Option<ColumnPredicate> {
    let like = expr.downcast_ref::<LikeExpr>().filter(|like| !like.negated())?;
    let (column, pattern) = pattern_of(like, types)?;
    prefix_range(column, &pattern?)
}

/// The range of strings that begin with the part of a pattern before its first wildcard.
fn prefix_range(column: usize, pattern: &[u8]) -> Option<ColumnPredicate> {
    let end = pattern.iter().position(|byte| matches!(byte, b'%' | b'_' | b'\\')).unwrap_or(pattern.len());
    let low = pattern[..end].to_vec();
    let mut high = low.clone();
    // Text never holds the byte 0xFF, so the last byte can always be raised.
    *high.last_mut()? += 1;
    let test = Predicate::Range { low: Bound::Included(Value::Bytes(low)), high: Bound::Excluded(Value::Bytes(high)) };
    Some(ColumnPredicate { column, test })
}

fn column_of(expr: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    expr.downcast_ref::<Column>().map(Column::index)
}

fn bool_column(expr: &Arc<dyn PhysicalExpr>, types: &[LogicalType]) -> Option<usize> {
    column_of(expr).filter(|column| types.get(*column) == Some(&LogicalType::Bool))
}

fn literal_of(expr: &Arc<dyn PhysicalExpr>) -> Option<&ScalarValue> {
    expr.downcast_ref::<Literal>().map(Literal::value)
}

/// The literal as a value of a column of type `logical`; inner `None` is NULL, outer `None` that the types do not meet.
fn value_of(literal: &ScalarValue, logical: &LogicalType) -> Option<Option<Value>> {
    if literal.is_null() {
        return Some(None);
    }
    stored_value(literal, logical).map(Some)
}

/// A non-NULL scalar as the value that a column of type `logical` stores; `None` where the types do not meet exactly.
pub fn stored_value(literal: &ScalarValue, logical: &LogicalType) -> Option<Value> {
    use ScalarValue as S;
    let int = |value: i128| Some(Value::Int(value));
    match (literal, logical) {
        (S::Boolean(Some(v)), LogicalType::Bool) => int(i128::from(*v)),
        (S::Int8(Some(v)), LogicalType::Int8) => int(i128::from(*v)),
        (S::Int16(Some(v)), LogicalType::Int16) => int(i128::from(*v)),
        (S::Int32(Some(v)), LogicalType::Int32) | (S::Date32(Some(v)), LogicalType::Date) => int(i128::from(*v)),
        (S::Int64(Some(v)), LogicalType::Int64) | (S::Time64Microsecond(Some(v)), LogicalType::Time) => {
            int(i128::from(*v))
        }
        (S::UInt8(Some(v)), LogicalType::UInt8) => int(i128::from(*v)),
        (S::UInt16(Some(v)), LogicalType::UInt16) => int(i128::from(*v)),
        (S::UInt32(Some(v)), LogicalType::UInt32) => int(i128::from(*v)),
        (S::UInt64(Some(v)), LogicalType::UInt64) => int(i128::from(*v)),
        (S::Float32(Some(v)), LogicalType::Float32) => Some(Value::Float(f64::from(*v))),
        (S::Float64(Some(v)), LogicalType::Float64) => Some(Value::Float(*v)),
        (S::Decimal128(Some(v), _, s), LogicalType::Decimal { scale, .. }) if *s == *scale as i8 => int(*v),
        (S::TimestampSecond(Some(v), _), LogicalType::Timestamp { unit: TimeUnit::Second, .. })
        | (S::TimestampMillisecond(Some(v), _), LogicalType::Timestamp { unit: TimeUnit::Milli, .. })
        | (S::TimestampMicrosecond(Some(v), _), LogicalType::Timestamp { unit: TimeUnit::Micro, .. })
        | (S::TimestampNanosecond(Some(v), _), LogicalType::Timestamp { unit: TimeUnit::Nano, .. }) => {
            int(i128::from(*v))
        }
        (S::IntervalMonthDayNano(Some(v)), LogicalType::Interval) => int(forebay_engine::plain::interval_bits(*v)),
        (S::Utf8(Some(v)) | S::LargeUtf8(Some(v)) | S::Utf8View(Some(v)), LogicalType::Varchar) => {
            Some(Value::Bytes(v.clone().into_bytes()))
        }
        (S::Binary(Some(v)) | S::LargeBinary(Some(v)) | S::BinaryView(Some(v)), LogicalType::Blob) => {
            Some(Value::Bytes(v.clone()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::datatypes::{Field, Schema};
    use datafusion::physical_expr::expressions::{binary, lit};

    fn comparison_with(literal: ScalarValue, op: Operator, logical: LogicalType) -> TranslatedConjunct {
        let schema = Schema::new(vec![Field::new("a", forebay_engine::types::arrow_type(&logical), true)]);
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new("a", 0));
        let expr = binary(column, op, lit(literal), &schema).expect("valid");
        translate(&expr, &[logical])
    }

    fn check(op: Operator, literal: ScalarValue, expect: Option<Predicate>) {
        match (comparison_with(literal, op, LogicalType::Int32), expect) {
            (TranslatedConjunct::Exact(tests), Some(test)) => {
                assert_eq!(tests, vec![ColumnPredicate { column: 0, test }])
            }
            (TranslatedConjunct::Implied(tests), None) => assert!(tests.is_empty()),
            (got, expect) => panic!("{got:?} instead of {expect:?}"),
        }
    }

    #[test]
    fn comparisons_translate() {
        let three = || Value::Int(3);
        check(Operator::Eq, ScalarValue::Int32(Some(3)), Some(Predicate::equal(three())));
        check(Operator::NotEq, ScalarValue::Int32(Some(3)), Some(Predicate::NotEqual(three())));
        let below = Predicate::Range { low: Bound::Unbounded, high: Bound::Excluded(three()) };
        check(Operator::Lt, ScalarValue::Int32(Some(3)), Some(below));
        check(Operator::Eq, ScalarValue::Int32(None), Some(Predicate::Never));
        check(Operator::IsDistinctFrom, ScalarValue::Int32(None), None);
    }

    #[test]
    fn the_next_keys_of_a_top_k_bound_the_first() {
        let types = [LogicalType::Int32, LogicalType::Int32];
        let fields: Vec<_> = ["a", "b"]
            .iter()
            .zip(&types)
            .map(|(name, logical)| Field::new(*name, forebay_engine::types::arrow_type(logical), true))
            .collect();
        let schema = Schema::new(fields);
        let compared = |column: usize, op, value: i32| {
            let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(["a", "b"][column], column));
            binary(column, op, lit(ScalarValue::Int32(Some(value))), &schema).expect("valid")
        };
        let of = |left, op, right| binary(left, op, right, &schema).expect("valid");
        let implies = |first: Operator, value: i32| {
            let tie = of(compared(0, Operator::Eq, 7), Operator::And, compared(1, Operator::Lt, 3));
            translate(&of(compared(0, first, value), Operator::Or, tie), &types)
        };
        let check = |translated: TranslatedConjunct, expect: Option<Predicate>| {
            let TranslatedConjunct::Implied(tests) = translated else { panic!("{translated:?}") };
            let expect = expect.map(|test| ColumnPredicate { column: 0, test });
            assert_eq!(tests, expect.into_iter().collect::<Vec<_>>());
        };
        let seven = || Bound::Included(Value::Int(7));
        check(implies(Operator::Lt, 7), Some(Predicate::Range { low: Bound::Unbounded, high: seven() }));
        check(implies(Operator::Gt, 7), Some(Predicate::Range { low: seven(), high: Bound::Unbounded }));
        let five = || Bound::Included(Value::Int(5));
        check(implies(Operator::Eq, 5), Some(Predicate::Range { low: five(), high: seven() }));
        check(implies(Operator::NotEq, 7), None);
    }

    /// The stored integers of intervals are not in their order.
    #[test]
    fn intervals_are_compared_for_equality_alone() {
        let day = || ScalarValue::new_interval_mdn(0, 1, 0);
        for op in [Operator::Lt, Operator::LtEq, Operator::Gt, Operator::GtEq] {
            let translated = comparison_with(day(), op, LogicalType::Interval);
            assert!(
                matches!(&translated, TranslatedConjunct::Implied(tests) if tests.is_empty()),
                "{op}: {translated:?}"
            );
        }
        for op in [Operator::Eq, Operator::NotEq] {
            let translated = comparison_with(day(), op, LogicalType::Interval);
            assert!(matches!(translated, TranslatedConjunct::Exact(_)), "{op}: {translated:?}");
        }
    }
}
