//! Functions whose results DuckDB defines where DataFusion's differ: positions that count from the end of a text, lists where
//! DataFusion takes their texts, and rounding to any digit.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Float64Array, StringViewBuilder};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Float64Type, Int64Type};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue, internal_err};
use datafusion::functions::utils::make_scalar_function;
use datafusion::functions_nested::expr_fn::{array_compact, array_concat, array_distinct};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, Like, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use forebay_base::Error;

use crate::expressions::{ExpressionRule, Kinds};
use crate::typed::ChildTypes;
use forebay_context::error::into_datafusion;

/// Replaces calls by those of the functions here. Must run before type coercion.
#[derive(Debug)]
pub struct DuckFunctions {
    substring: Arc<ScalarUDF>,
    round: Arc<ScalarUDF>,
    lower: Arc<ScalarUDF>,
}

impl Default for DuckFunctions {
    fn default() -> Self {
        let signature = || Signature::user_defined(Volatility::Immutable);
        let function = |kind| Arc::new(ScalarUDF::from(Function { kind, signature: signature() }));
        let lower = forebay_functions::function("lower").expect("it is one of them");
        Self { substring: function(Kind::Substring), round: function(Kind::Round), lower }
    }
}

/// Functions that take the place of DataFusion's by their names.
pub fn functions() -> [Arc<ScalarUDF>; 1] {
    let signature = Signature::user_defined(Volatility::Immutable);
    [Arc::new(ScalarUDF::from(Function { kind: Kind::SplitPart, signature }))]
}

fn is_list(data_type: &Option<DataType>) -> bool {
    matches!(data_type, Some(DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..)))
}

fn is_null(data_type: &Option<DataType>) -> bool {
    matches!(data_type, Some(DataType::Null))
}

impl ExpressionRule for DuckFunctions {
    fn concerns(&self, kinds: Kinds) -> bool {
        kinds.has(Kinds::CALL) || kinds.has(Kinds::LIKE)
    }

    fn rewrite(&self, expr: Expr, types: &ChildTypes, _schema: &DFSchema) -> Result<Transformed<Expr>> {
        let expr = match expr {
            Expr::Like(like) if like.case_insensitive => return Ok(Transformed::yes(self.without_case(like))),
            other => other,
        };
        let Expr::ScalarFunction(ScalarFunction { func, args }) = expr else { return Ok(Transformed::no(expr)) };
        let is_double = |data_type: &Option<DataType>| *data_type == Some(DataType::Float64);
        Ok(match (func.name(), args.len()) {
            // NULL is no value that a list could have several of.
            ("array_distinct", 1) => {
                Transformed::yes(array_distinct(array_compact(args.into_iter().next().unwrap_or_default())))
            }
            ("concat", 1..) if types.iter().any(is_list) => {
                if !types.iter().all(|own| is_list(own) || is_null(own)) {
                    return Err(into_datafusion(
                        Error::input("concat takes lists, or what is none")
                            .hint("Cast what is not a list to VARCHAR[]"),
                    ));
                }
                // What is NULL adds nothing.
                let lists = args.into_iter().zip(types).filter(|(_, own)| is_list(own)).map(|(list, _)| list);
                Transformed::yes(array_concat(lists.collect()))
            }
            ("substr", 2 | 3) if !args[1..].iter().all(is_position) => Transformed::yes(self.substring.call(args)),
            ("round", 2) if types.first().is_some_and(is_double) => Transformed::yes(self.round.call(args)),
            _ => Transformed::no(Expr::ScalarFunction(ScalarFunction { func, args })),
        })
    }
}

impl DuckFunctions {
    /// `ILIKE` compares lower-case letters, of which a letter has one at most.
    fn without_case(&self, like: Like) -> Expr {
        let lower = |expr: Box<Expr>| Box::new(self.lower.call(vec![*expr]));
        Expr::Like(Like { expr: lower(like.expr), pattern: lower(like.pattern), case_insensitive: false, ..like })
    }
}

/// A literal that counts from the beginning: DataFusion means the same by it.
fn is_position(expr: &Expr) -> bool {
    let Expr::Literal(value, _) = expr else { return false };
    matches!(value.cast_to(&DataType::Int64), Ok(ScalarValue::Int64(Some(0..))))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Substring,
    SplitPart,
    Round,
}

/// One of the functions.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Function {
    kind: Kind,
    signature: Signature,
}

impl ScalarUDFImpl for Function {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Substring => "substring_from_end",
            Kind::SplitPart => "split_part",
            Kind::Round => "round_digits",
        }
    }

    /// As the calls that they stand for.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let name = match self.kind {
            Kind::Substring => "substr",
            Kind::SplitPart => "split_part",
            Kind::Round => "round",
        };
        let args: Vec<String> = args.iter().map(|arg| arg.schema_name().to_string()).collect();
        Ok(format!("{name}({})", args.join(",")))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let text = DataType::Utf8View;
        Ok(match (self.kind, types.len()) {
            (Kind::Substring, 2) => vec![text, DataType::Int64],
            (Kind::Substring, 3) => vec![text, DataType::Int64, DataType::Int64],
            (Kind::SplitPart, 3) => vec![text.clone(), text, DataType::Int64],
            (Kind::Round, 2) => vec![DataType::Float64, DataType::Int64],
            _ => {
                return Err(into_datafusion(Error::input(format!(
                    "{} does not take {} arguments",
                    self.name(),
                    types.len()
                ))));
            }
        })
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(if self.kind == Kind::Round { DataType::Float64 } else { DataType::Utf8View })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let compute: fn(&[ArrayRef]) -> Result<ArrayRef> = match self.kind {
            Kind::Substring => substrings,
            Kind::SplitPart => parts,
            Kind::Round => rounded,
        };
        make_scalar_function(compute, Vec::new())(&args.args)
    }
}

fn substrings(args: &[ArrayRef]) -> Result<ArrayRef> {
    let (texts, starts) = (cast(&args[0], &DataType::Utf8View)?, args[1].as_primitive::<Int64Type>());
    let texts = texts.as_string_view();
    let lengths = args.get(2).map(|lengths| lengths.as_primitive::<Int64Type>());
    let mut out = StringViewBuilder::with_capacity(texts.len());
    for row in 0..texts.len() {
        let has_length = lengths.is_none_or(|lengths| lengths.is_valid(row));
        match texts.is_valid(row) && starts.is_valid(row) && has_length {
            true => out.append_value(substring(texts.value(row), starts.value(row), lengths.map(|all| all.value(row)))),
            false => out.append_null(),
        }
    }
    Ok(Arc::new(out.finish()))
}

/// `length` characters from `start` on, counted from 1, or from the end where it is negative. A negative length counts
/// backwards.
fn substring(text: &str, start: i64, length: Option<i64>) -> &str {
    let count = text.chars().count() as i64;
    let first = if start < 0 { count.saturating_add(start) } else { start - 1 };
    let behind = length.map_or(count, |length| first.saturating_add(length));
    let (from, to) = (first.min(behind).clamp(0, count), first.max(behind).clamp(0, count));
    let byte = |character: i64| text.char_indices().nth(character as usize).map_or(text.len(), |(byte, _)| byte);
    &text[byte(from)..byte(to)]
}

fn parts(args: &[ArrayRef]) -> Result<ArrayRef> {
    let [texts, delimiters, positions] = args else { return internal_err!("split_part takes three arguments") };
    let (texts, delimiters) = (texts.as_string_view(), delimiters.as_string_view());
    let positions = positions.as_primitive::<Int64Type>();
    let mut out = StringViewBuilder::with_capacity(texts.len());
    for row in 0..texts.len() {
        match texts.is_valid(row) && delimiters.is_valid(row) && positions.is_valid(row) {
            true => out.append_value(part(texts.value(row), delimiters.value(row), positions.value(row))),
            false => out.append_null(),
        }
    }
    Ok(Arc::new(out.finish()))
}

/// The part at this position, counted from 1, or from the end where it is negative; nothing where there is none. An empty
/// delimiter parts characters.
fn part<'a>(text: &'a str, delimiter: &str, position: i64) -> &'a str {
    let parts: Vec<&str> = match delimiter.is_empty() {
        true => text.char_indices().map(|(at, c)| &text[at..at + c.len_utf8()]).collect(),
        false => text.split(delimiter).collect(),
    };
    let index = match position {
        1.. => usize::try_from(position - 1).ok(),
        0 => None,
        _ => usize::try_from(position.unsigned_abs()).ok().and_then(|back| parts.len().checked_sub(back)),
    };
    index.and_then(|index| parts.get(index)).copied().unwrap_or_default()
}

fn rounded(args: &[ArrayRef]) -> Result<ArrayRef> {
    let (values, digits) = (args[0].as_primitive::<Float64Type>(), args[1].as_primitive::<Int64Type>());
    let rows = values.iter().zip(digits.iter());
    let rounded: Float64Array = rows.map(|(value, digits)| value.zip(digits).map(|(v, d)| round(v, d))).collect();
    Ok(Arc::new(rounded))
}

/// `value` to so many digits behind the point, or to a power of ten where they are negative.
fn round(value: f64, digits: i64) -> f64 {
    let power = 10_f64.powi(digits.unsigned_abs().min(400) as i32);
    if digits < 0 {
        let rounded = (value / power).round() * power;
        return if rounded.is_finite() || !value.is_finite() { rounded } else { 0.0 };
    }
    let rounded = (value * power).round() / power;
    if rounded.is_finite() { rounded } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn substrings_count_from_both_ends() {
        for (start, length, expect) in [
            (0, None, "hello"),
            (0, Some(2), "h"),
            (-3, None, "llo"),
            (-10, None, "hello"),
            (-10, Some(7), "he"),
            (2, Some(-1), "h"),
            (3, Some(-2), "he"),
            (-1, Some(-2), "ll"),
            (10, None, ""),
            (2, Some(0), ""),
            (i64::MIN, None, "hello"),
            (i64::MAX, Some(i64::MAX), ""),
        ] {
            assert_eq!(substring("hello", start, length), expect, "{start} {length:?}");
        }
        assert_eq!(substring("äöü", -2, None), "öü");
    }

    #[test]
    fn parts_count_from_both_ends() {
        for (text, delimiter, position, expect) in [
            ("a,b,c", "", 3, "b"),
            ("a,b,c", ",", -1, "c"),
            ("a,b,c", ",", 0, ""),
            ("a,b,c", ",", 5, ""),
            ("", ",", 1, ""),
            ("abc", "", -1, "c"),
            ("abc", "", -4, ""),
        ] {
            assert_eq!(part(text, delimiter, position), expect, "{text} {delimiter} {position}");
        }
    }

    #[test]
    fn rounding_takes_any_digits() {
        assert_eq!((round(42.1235, 1000), round(42.0, -1000), round(123_456.789, -2)), (42.1235, 0.0, 123_500.0));
        assert!(round(f64::NAN, 2).is_nan() && round(f64::INFINITY, -2).is_infinite());
    }
}
