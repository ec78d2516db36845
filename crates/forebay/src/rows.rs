//! Rows of a result, read value by value.

use arrow::array::{Array, AsArray};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    SchemaRef, Time64MicrosecondType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use forebay_base::{Error, PhysicalType, Result};
use forebay_render::types::sql_name;
use forebay_sql::AnswerRows;
use forebay_store::Cell;

/// Some rows of a result.
///
/// ```
/// use forebay::{Database, Decimal, Options};
/// # fn main() -> forebay::Result<()> {
/// let session = Database::in_memory(&Options::default())?.session();
/// let query = session.prepare("SELECT 5 AS a, 'text' AS b, 1.25 AS c, NULL::INTEGER AS d")?;
/// let mut result = session.execute_prepared(&query, &forebay::Params::new())?;
/// while let Some(rows) = result.next_rows()? {
///     for row in 0..rows.len() {
///         assert_eq!(rows.get::<i64>(row, 0)?, 5);
///         assert_eq!(rows.get::<&str>(row, 1)?, "text");
///         assert_eq!(rows.get::<Decimal>(row, 2)?, Decimal { unscaled: 125, scale: 2 });
///         assert_eq!(rows.get::<Option<i64>>(row, 3)?, None);
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Rows(AnswerRows);

/// A decimal: `unscaled` divided by ten to the power of `scale`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decimal {
    /// The number without its point.
    pub unscaled: i128,
    /// Digits behind the point.
    pub scale: i8,
}

/// A value as Rust knows it, by the type that it has in SQL.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Scalar<'r> {
    Null,
    Boolean(bool),
    /// Also dates as days since 1970, times as microseconds since midnight, and timestamps as so many of their units since 1970.
    Integer(i128),
    Decimal(Decimal),
    Float(f64),
    Text(&'r str),
    Blob(&'r [u8]),
}

/// Rust's types that values of a result are read as: integers, which dates, times and timestamps are too (days since 1970, microseconds since
/// midnight, units since 1970); [`Decimal`], `f64`, `bool`, texts, blobs; and `Option` of them for columns that may have NULL.
pub trait FromValue<'r>: Sized + sealed::FromScalar<'r> {}

mod sealed {
    use super::Scalar;

    /// How a value of Rust is made.
    #[expect(private_interfaces, reason = "nobody else implements it")]
    pub trait FromScalar<'r>: Sized {
        /// What it is called in an error.
        const NAME: &'static str;

        /// The value; `None` where it is another one's.
        fn from_scalar(scalar: Scalar<'r>) -> Option<Self>;
    }
}

use sealed::FromScalar;

impl<'r, T: FromScalar<'r>> FromValue<'r> for T {}

macro_rules! from_scalar {
    ($($target:ty, $name:literal: $pattern:pat => $value:expr;)*) => {
        $(#[expect(private_interfaces, reason = "nobody else implements it")]
        impl<'r> FromScalar<'r> for $target {
            const NAME: &'static str = $name;

            fn from_scalar(scalar: Scalar<'r>) -> Option<Self> {
                match scalar {
                    $pattern => $value,
                    _ => None,
                }
            }
        })*
    };
}

from_scalar! {
    bool, "a Boolean": Scalar::Boolean(value) => Some(value);
    i8, "an 8-bit integer": Scalar::Integer(value) => value.try_into().ok();
    i16, "a 16-bit integer": Scalar::Integer(value) => value.try_into().ok();
    i32, "a 32-bit integer": Scalar::Integer(value) => value.try_into().ok();
    i64, "a 64-bit integer": Scalar::Integer(value) => value.try_into().ok();
    i128, "a 128-bit integer": Scalar::Integer(value) => Some(value);
    u8, "an unsigned 8-bit integer": Scalar::Integer(value) => value.try_into().ok();
    u16, "an unsigned 16-bit integer": Scalar::Integer(value) => value.try_into().ok();
    u32, "an unsigned 32-bit integer": Scalar::Integer(value) => value.try_into().ok();
    u64, "an unsigned 64-bit integer": Scalar::Integer(value) => value.try_into().ok();
    f64, "a float": Scalar::Float(value) => Some(value);
    Decimal, "a decimal": Scalar::Decimal(value) => Some(value);
    &'r str, "a text": Scalar::Text(value) => Some(value);
    String, "a text": Scalar::Text(value) => Some(value.to_owned());
    &'r [u8], "a blob": Scalar::Blob(value) => Some(value);
    Vec<u8>, "a blob": Scalar::Blob(value) => Some(value.to_vec());
}

#[expect(private_interfaces, reason = "nobody else implements it")]
impl<'r, T: FromScalar<'r>> FromScalar<'r> for Option<T> {
    const NAME: &'static str = T::NAME;

    fn from_scalar(scalar: Scalar<'r>) -> Option<Self> {
        match scalar {
            Scalar::Null => Some(None),
            other => T::from_scalar(other).map(Some),
        }
    }
}

impl Rows {
    pub(crate) fn new(rows: AnswerRows) -> Self {
        Self(rows)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        match &self.0 {
            AnswerRows::Found(rows) => rows.len(),
            AnswerRows::Batch(batch) => batch.num_rows(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Names and types of their columns.
    pub fn schema(&self) -> SchemaRef {
        match &self.0 {
            AnswerRows::Found(rows) => SchemaRef::clone(rows.schema()),
            AnswerRows::Batch(batch) => batch.schema(),
        }
    }

    /// The value of a column of a row, both counted from 0.
    ///
    /// Errors: no such row or column; NULL where `T` is no `Option`; a column of a type that is not read as `T`, or a number that does not
    /// fit into it.
    pub fn get<'r, T: FromValue<'r>>(&'r self, row: usize, column: usize) -> Result<T> {
        let scalar = self.scalar(row, column)?;
        T::from_scalar(scalar).ok_or_else(|| self.mismatch::<T>(scalar, row, column))
    }

    #[cold]
    fn mismatch<'r, T: FromScalar<'r>>(&self, scalar: Scalar<'_>, row: usize, column: usize) -> Error {
        let schema = self.schema();
        let (name, data_type) = (schema.field(column).name(), sql_name(schema.field(column).data_type()));
        match scalar {
            Scalar::Null => Error::input(format!("column {name} of row {row} is NULL, which is not {}", T::NAME))
                .hint("Read it as an Option"),
            Scalar::Integer(value) => {
                Error::input(format!("{value} of column {name}, a {data_type}, is not {}", T::NAME))
            }
            _ => Error::input(format!("column {name} is a {data_type}, which is not read as {}", T::NAME)),
        }
    }

    fn scalar(&self, row: usize, column: usize) -> Result<Scalar<'_>> {
        let scalar = match &self.0 {
            AnswerRows::Found(rows) => rows
                .cell(row, column)
                .map(|(cell, physical)| found(cell, physical, rows.schema().field(column).data_type())),
            AnswerRows::Batch(batch) => {
                let array = batch.columns().get(column).filter(|array| row < array.len());
                array.map(|array| stored(array.as_ref(), row))
            }
        };
        match scalar {
            Some(Some(scalar)) => Ok(scalar),
            Some(None) => {
                let schema = self.schema();
                let field = schema.field(column);
                let (name, data_type) = (field.name(), sql_name(field.data_type()));
                Err(Error::unsupported(format!("column {name} is a {data_type}, which is not read value by value"))
                    .hint("Take the rows as a batch of arrays"))
            }
            None => {
                let (rows, columns) = (self.len(), self.schema().fields().len());
                Err(Error::input(format!("row {row}, column {column}: there are {rows} rows of {columns} columns")))
            }
        }
    }
}

/// The value of a cell; `None` of a type that Rust has none for.
fn found<'r>(cell: Cell<'r>, physical: PhysicalType, data_type: &DataType) -> Option<Scalar<'r>> {
    Some(match (cell, data_type) {
        (Cell::Null, _) => Scalar::Null,
        (Cell::Bytes(bytes), DataType::Utf8View) => Scalar::Text(std::str::from_utf8(bytes).ok()?),
        (Cell::Bytes(bytes), _) => Scalar::Blob(bytes),
        (Cell::Fixed(bits), DataType::Boolean) => Scalar::Boolean(bits != 0),
        (Cell::Fixed(bits), DataType::Float32) => Scalar::Float(f32::from_bits(bits as u32).into()),
        (Cell::Fixed(bits), DataType::Float64) => Scalar::Float(f64::from_bits(bits as u64)),
        (Cell::Fixed(_), DataType::Decimal128(_, scale)) => {
            Scalar::Decimal(Decimal { unscaled: cell.integer(physical)?, scale: *scale })
        }
        (Cell::Fixed(_), _) => Scalar::Integer(cell.integer(physical)?),
    })
}

/// The value of a row of an array; `None` of a type that Rust has none for.
fn stored(array: &dyn Array, row: usize) -> Option<Scalar<'_>> {
    if array.is_null(row) || array.data_type() == &DataType::Null {
        return Some(Scalar::Null);
    }
    macro_rules! integer {
        ($of:ty) => {
            Scalar::Integer(array.as_primitive::<$of>().value(row).into())
        };
    }
    Some(match array.data_type() {
        DataType::Boolean => Scalar::Boolean(array.as_boolean().value(row)),
        DataType::Int8 => integer!(Int8Type),
        DataType::Int16 => integer!(Int16Type),
        DataType::Int32 => integer!(Int32Type),
        DataType::Int64 => integer!(Int64Type),
        DataType::UInt8 => integer!(UInt8Type),
        DataType::UInt16 => integer!(UInt16Type),
        DataType::UInt32 => integer!(UInt32Type),
        DataType::UInt64 => integer!(UInt64Type),
        DataType::Date32 => integer!(Date32Type),
        DataType::Time64(TimeUnit::Microsecond) => integer!(Time64MicrosecondType),
        DataType::Timestamp(TimeUnit::Second, _) => integer!(TimestampSecondType),
        DataType::Timestamp(TimeUnit::Millisecond, _) => integer!(TimestampMillisecondType),
        DataType::Timestamp(TimeUnit::Microsecond, _) => integer!(TimestampMicrosecondType),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => integer!(TimestampNanosecondType),
        DataType::Decimal128(_, scale) => {
            Scalar::Decimal(Decimal { unscaled: array.as_primitive::<Decimal128Type>().value(row), scale: *scale })
        }
        DataType::Float32 => Scalar::Float(array.as_primitive::<Float32Type>().value(row).into()),
        DataType::Float64 => Scalar::Float(array.as_primitive::<Float64Type>().value(row)),
        DataType::Utf8 => Scalar::Text(array.as_string::<i32>().value(row)),
        DataType::LargeUtf8 => Scalar::Text(array.as_string::<i64>().value(row)),
        DataType::Utf8View => Scalar::Text(array.as_string_view().value(row)),
        DataType::Binary => Scalar::Blob(array.as_binary::<i32>().value(row)),
        DataType::LargeBinary => Scalar::Blob(array.as_binary::<i64>().value(row)),
        DataType::BinaryView => Scalar::Blob(array.as_binary_view().value(row)),
        _ => return None,
    })
}
