//! What a Parquet file says of its column chunks, of itself, and under names that its writer chose.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, StructArray};
use datafusion::arrow::array::{MapArray, new_empty_array};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::datatypes::{DataType, Field, TimeUnit};
use datafusion::common::ScalarValue;
use datafusion::common::scalar::ScalarStructBuilder;
use datafusion::parquet::basic::{ColumnOrder, ConvertedType, LogicalType, TimeUnit as ParquetUnit};
use datafusion::parquet::file::metadata::{ColumnChunkMetaData, PageEncodingStats, RowGroupMetaData};
use datafusion::parquet::file::statistics::Statistics;
use datafusion::parquet::schema::types::ColumnDescriptor;
use forebay_functions::casts;

use super::Known;
use crate::told_types::{Rows, box_type, list, map_type, page_type};

/// A row for each column chunk.
pub(crate) fn chunks(file: &str, known: &Known) -> Rows {
    let groups = known.metadata.row_groups().iter().enumerate();
    groups
        .flat_map(|(id, group)| group.columns().iter().enumerate().map(move |column| chunk(file, (id, group), column)))
        .collect()
}

pub(super) fn text(text: impl Into<String>) -> ScalarValue {
    ScalarValue::Utf8(Some(text.into()))
}

pub(super) fn number(number: i64) -> ScalarValue {
    ScalarValue::Int64(Some(number))
}

fn null(data_type: &DataType) -> ScalarValue {
    ScalarValue::try_from(data_type).unwrap_or(ScalarValue::Null)
}

fn chunk(
    file: &str,
    (id, group): (usize, &RowGroupMetaData),
    (place, column): (usize, &ColumnChunkMetaData),
) -> Vec<ScalarValue> {
    let statistics = column.statistics();
    let count = |count: Option<u64>| ScalarValue::Int64(count.and_then(|count| i64::try_from(count).ok()));
    let bound =
        |is_least: bool| ScalarValue::Utf8(statistics.and_then(|known| bound(known, column.column_descr(), is_least)));
    // The fields of old are for values that are ordered by their sign.
    let is_unsigned = matches!(
        column.column_descr().converted_type(),
        ConvertedType::UINT_8 | ConvertedType::UINT_16 | ConvertedType::UINT_32 | ConvertedType::UINT_64
    );
    let signed = |is_least: bool| if is_unsigned { ScalarValue::Utf8(None) } else { bound(is_least) };
    let is_exact = |exact: fn(&Statistics) -> bool, has: fn(&Statistics) -> Option<&[u8]>| {
        ScalarValue::Boolean(statistics.filter(|known| has(known).is_some()).map(exact))
    };
    let encodings: Vec<String> = column.encodings().map(|encoding| encoding.to_string()).collect();
    vec![
        text(file),
        number(id as i64),
        number(group.num_rows()),
        number(group.num_columns() as i64),
        number(group.total_byte_size()),
        number(place as i64),
        number(column.file_offset()),
        number(column.num_values()),
        text(column.column_path().parts().join(", ")),
        text(column.column_type().to_string()),
        signed(true),
        signed(false),
        count(statistics.and_then(Statistics::null_count_opt)),
        count(statistics.and_then(Statistics::distinct_count_opt)),
        bound(true),
        bound(false),
        text(column.compression_codec().to_string()),
        text(encodings.join(", ")),
        ScalarValue::Int64(column.index_page_offset()),
        ScalarValue::Int64(column.dictionary_page_offset()),
        number(column.data_page_offset()),
        number(column.compressed_size()),
        number(column.uncompressed_size()),
        no_entries(),
        ScalarValue::Int64(column.bloom_filter_offset()),
        ScalarValue::Int64(column.bloom_filter_length().map(i64::from)),
        is_exact(Statistics::min_is_exact, Statistics::min_bytes_opt),
        is_exact(Statistics::max_is_exact, Statistics::max_bytes_opt),
        number(group.compressed_size()),
        null(&box_type()),
        null(&list(DataType::Utf8)),
        pages(column),
        ScalarValue::Int64(None),
    ]
}

/// How pages of a chunk are encoded.
fn pages(column: &ColumnChunkMetaData) -> ScalarValue {
    let Some(known) = column.page_encoding_stats() else { return null(&list(page_type())) };
    let page = |page: &PageEncodingStats| {
        let parts = [
            ("page_type", DataType::Utf8, text(page.page_type.to_string())),
            ("encoding", DataType::Utf8, text(page.encoding.to_string())),
            ("count", DataType::Int32, ScalarValue::Int32(Some(page.count))),
        ];
        let built = parts.into_iter().fold(ScalarStructBuilder::new(), |built, (name, data_type, value)| {
            built.with_scalar(Field::new(name, data_type, true), value)
        });
        built.build().unwrap_or(ScalarValue::Null)
    };
    let pages: Vec<ScalarValue> = known.iter().map(page).collect();
    ScalarValue::List(ScalarValue::new_list_nullable(&pages, &page_type()))
}

/// A map without entries.
fn no_entries() -> ScalarValue {
    let DataType::Map(entries, ordered) = map_type() else { return ScalarValue::Null };
    let none = StructArray::from(new_empty_array(entries.data_type()).to_data());
    match MapArray::try_new(entries, OffsetBuffer::from_lengths([0]), none, None, ordered) {
        Ok(map) => ScalarValue::Map(Arc::new(map)),
        Err(_) => ScalarValue::Null,
    }
}

/// The least or greatest value of a chunk, as a text.
fn bound(known: &Statistics, column: &ColumnDescriptor, is_least: bool) -> Option<String> {
    let bytes = if is_least { known.min_bytes_opt()? } else { known.max_bytes_opt()? };
    let value = value(bytes, known, column)?;
    let array: ArrayRef = value.to_array().ok()?;
    let texts = casts::cast(&array, &DataType::Utf8, true).ok()?;
    match ScalarValue::try_from_array(&texts, 0).ok()? {
        ScalarValue::Utf8(text) => text,
        _ => None,
    }
}

fn value(bytes: &[u8], known: &Statistics, column: &ColumnDescriptor) -> Option<ScalarValue> {
    let (converted, logical) = (column.converted_type(), column.logical_type_ref());
    let is_decimal = converted == ConvertedType::DECIMAL || matches!(logical, Some(LogicalType::Decimal(_)));
    let int32 = || bytes.try_into().ok().map(i32::from_le_bytes);
    let int64 = || bytes.try_into().ok().map(i64::from_le_bytes);
    let decimal = |value: i128| {
        ScalarValue::Decimal128(Some(value), column.type_precision().max(1) as u8, column.type_scale() as i8)
    };
    Some(match known {
        Statistics::Boolean(_) => ScalarValue::Boolean(Some(*bytes.first()? != 0)),
        Statistics::Int32(_) if is_decimal => decimal(i128::from(int32()?)),
        Statistics::Int64(_) if is_decimal => decimal(i128::from(int64()?)),
        Statistics::Int32(_) => match converted {
            ConvertedType::DATE => ScalarValue::Date32(Some(int32()?)),
            ConvertedType::UINT_8 | ConvertedType::UINT_16 | ConvertedType::UINT_32 => {
                ScalarValue::UInt32(Some(int32()? as u32))
            }
            ConvertedType::TIME_MILLIS => ScalarValue::Time64Microsecond(Some(i64::from(int32()?) * 1000)),
            _ => ScalarValue::Int32(Some(int32()?)),
        },
        Statistics::Int64(_) => long(int64()?, converted, logical),
        Statistics::Float(_) => ScalarValue::Float32(Some(f32::from_le_bytes(bytes.try_into().ok()?))),
        Statistics::Double(_) => ScalarValue::Float64(Some(f64::from_le_bytes(bytes.try_into().ok()?))),
        Statistics::ByteArray(_) | Statistics::FixedLenByteArray(_) if is_decimal && bytes.len() <= 16 => {
            let sign = if bytes.first().is_some_and(|byte| byte & 0x80 != 0) { 0xff } else { 0 };
            let mut whole = [sign; 16];
            whole[16 - bytes.len()..].copy_from_slice(bytes);
            decimal(i128::from_be_bytes(whole))
        }
        Statistics::ByteArray(_)
            if converted == ConvertedType::UTF8 || matches!(logical, Some(LogicalType::String)) =>
        {
            ScalarValue::Utf8(Some(String::from_utf8_lossy(bytes).into_owned()))
        }
        Statistics::FixedLenByteArray(_) if matches!(logical, Some(LogicalType::Uuid)) && bytes.len() == 16 => {
            let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
            ScalarValue::Utf8(Some(parts.join("-")))
        }
        Statistics::ByteArray(_) | Statistics::FixedLenByteArray(_) => ScalarValue::BinaryView(Some(bytes.to_vec())),
        Statistics::Int96(_) => return None,
    })
}

/// A value of 64 bits.
fn long(value: i64, converted: ConvertedType, logical: Option<&LogicalType>) -> ScalarValue {
    let unit = match logical {
        Some(LogicalType::Timestamp(told)) => Some(match told.unit {
            ParquetUnit::MILLIS => TimeUnit::Millisecond,
            ParquetUnit::MICROS => TimeUnit::Microsecond,
            ParquetUnit::NANOS => TimeUnit::Nanosecond,
        }),
        _ => match converted {
            ConvertedType::TIMESTAMP_MILLIS => Some(TimeUnit::Millisecond),
            ConvertedType::TIMESTAMP_MICROS => Some(TimeUnit::Microsecond),
            _ => None,
        },
    };
    match (unit, converted) {
        (Some(TimeUnit::Millisecond), _) => ScalarValue::TimestampMillisecond(Some(value), None),
        (Some(TimeUnit::Microsecond), _) => ScalarValue::TimestampMicrosecond(Some(value), None),
        (Some(_), _) => ScalarValue::TimestampNanosecond(Some(value), None),
        (None, ConvertedType::TIME_MICROS) => ScalarValue::Time64Microsecond(Some(value)),
        (None, ConvertedType::UINT_64) => ScalarValue::UInt64(Some(value as u64)),
        (None, _) => ScalarValue::Int64(Some(value)),
    }
}

/// The row of a file.
pub(crate) fn file(file: &str, known: &Known) -> Vec<ScalarValue> {
    let told = known.metadata.file_metadata();
    let orders = told.column_orders().map(|orders| {
        let order = |order: &ColumnOrder| match order {
            ColumnOrder::TYPE_DEFINED_ORDER(_) => "ColumnOrder(TYPE_ORDER=TypeDefinedOrder())",
            _ => "ColumnOrder(TYPE_ORDER=<null>)",
        };
        let orders: Vec<ScalarValue> = orders.iter().map(|one| text(order(one))).collect();
        ScalarValue::List(ScalarValue::new_list_nullable(&orders, &DataType::Utf8))
    });
    vec![
        text(file),
        ScalarValue::Utf8(told.created_by().map(str::to_owned)),
        number(told.num_rows()),
        number(known.metadata.num_row_groups() as i64),
        number(i64::from(told.version())),
        ScalarValue::Utf8(None),
        ScalarValue::Utf8(None),
        ScalarValue::UInt64(Some(known.file_bytes)),
        ScalarValue::UInt64(Some(known.footer_bytes)),
        orders.unwrap_or_else(|| null(&list(DataType::Utf8))),
    ]
}

/// A row for each name that the writer chose.
pub(crate) fn entries(file: &str, known: &Known) -> Rows {
    let bytes = |text: Option<&str>| ScalarValue::Binary(text.map(|text| text.as_bytes().to_vec()));
    let entries = known.metadata.file_metadata().key_value_metadata();
    let row = |entry: &datafusion::parquet::file::metadata::KeyValue| {
        vec![text(file), bytes(Some(&entry.key)), bytes(entry.value.as_deref())]
    };
    entries.into_iter().flatten().map(row).collect()
}
