//! What a CSV file is like, told from its first rows, as in DuckDB: the delimiter that gives every row as many values, whether the
//! first row names the columns, and their types.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::execution::SessionState;
use datafusion::logical_expr::Expr;
use datafusion::prelude::ident;
use forebay_base::{Error, LogicalType, Result, TimeUnit, limits};
use forebay_engine::types::arrow_type;
use forebay_forms::file_options::{Format, Options};
use forebay_functions::casts;

use crate::input::too_wide;
use crate::records::{Record, Records};
use crate::typed_values;

/// Delimiters that are tried; of two that give as many columns, the first.
const DELIMITERS: [u8; 4] = [b',', b'|', b';', b'\t'];

/// A delimiter that no file of one column has: ASCII's separator of units.
const NO_DELIMITER: u8 = 0x1f;

/// Rows that delimiters are told by.
const DELIMITER_ROWS: usize = 1000;

/// Rows in front of the others that have another number of values.
const TITLE_ROWS: usize = 10;

/// Rows that types are told by, and values, of which wide rows have many.
const TYPE_ROWS: usize = 20_480;
const TYPE_VALUES: usize = 400_000;

/// Bytes of values that are held at a time.
const SAMPLE_BYTES: usize = 8 << 20;

/// Separators of dates, and the orders of their parts; `-` stands for any separator.
const SEPARATORS: [&str; 3] = ["/", "-", "."];
const DATE_ORDERS: [&str; 3] = ["%d-%m-%Y", "%m-%d-%Y", "%Y-%m-%d"];

/// What a file is like.
#[derive(Debug)]
pub(crate) struct Sniffed {
    /// Between values.
    pub(crate) delimiter: u8,
    /// The first row names columns.
    pub(crate) has_header: bool,
    /// Lines in front of the rows.
    pub(crate) skip: usize,
    columns: Vec<Column>,
}

#[derive(Debug)]
struct Column {
    name: String,
    kind: Kind,
    /// Values have blanks around them, or other forms than Arrow's reader takes.
    is_cast: bool,
}

/// What the values of a column are.
#[derive(Debug, Clone, PartialEq)]
enum Kind {
    Plain(DataType),
    /// Dates or timestamps of a form that `strptime` reads.
    Moment(DataType, String),
}

impl Kind {
    fn data_type(&self) -> &DataType {
        match self {
            Self::Plain(data_type) | Self::Moment(data_type, _) => data_type,
        }
    }
}

/// What the first of some files is like; what `options` say is taken from them.
///
/// # Errors
/// A file that cannot be read, and options that do not fit it.
pub(crate) fn sniff(path: &str, options: &Options) -> Result<Sniffed> {
    let mut options = Options { format: Some(Format::Csv), ..options.clone() };
    let delimiter = match options.delimiter {
        Some(delimiter) => delimiter,
        None => {
            let (delimiter, lines) = delimiter(path, &options)?;
            options.skip += lines;
            delimiter
        }
    };
    options.delimiter = Some(delimiter);
    let mut rows = first_rows(path, &options, TYPE_ROWS)?;
    if options.ignore_errors && !options.null_padding {
        let width = rows.first().map_or(0, Vec::len).max(options.names.len());
        rows.retain(|row| row.len() == width);
    }
    let rows = rows;
    let width = rows.iter().map(Vec::len).max().unwrap_or(1).max(options.names.len());
    if width > limits::TABLE_COLUMNS + 1 {
        return Err(too_wide(path, width));
    }
    let (first, others) = match rows.split_first() {
        Some((first, others)) => (first.as_slice(), others),
        None => (&[][..], &[][..]),
    };
    let of = |rows: &[Vec<String>], index: usize| column_of(rows, index, &options);
    let told: Vec<(Kind, bool)> =
        (0..width).map(|index| of(if others.is_empty() { &rows } else { others }, index)).collect();
    let has_header = options.header.unwrap_or_else(|| is_header(first, others, &told, &options));
    let told = match has_header || others.is_empty() {
        true if has_header && others.is_empty() => vec![(Kind::Plain(DataType::Utf8View), false); width],
        true => told,
        // The first row counts, too.
        false => (0..width).map(|index| of(&rows, index)).collect(),
    };
    let names = names(if has_header { first } else { &[] }, width, &options);
    let mut columns = Vec::with_capacity(width);
    for (index, (name, (kind, is_cast))) in names.into_iter().zip(told).enumerate() {
        let named = |(wanted, _): &&(Option<String>, LogicalType)| match wanted {
            Some(wanted) => wanted.eq_ignore_ascii_case(&name),
            None => false,
        };
        let by_place = options.types.get(index).filter(|(wanted, _)| wanted.is_none());
        columns.push(match options.types.iter().find(named).or(by_place) {
            Some((_, logical)) => Column { name, kind: Kind::Plain(arrow_type(logical)), is_cast: true },
            None if options.all_text => Column { name, kind: Kind::Plain(DataType::Utf8View), is_cast: false },
            None => Column { name, kind, is_cast },
        });
    }
    if let Some((Some(wanted), _)) = options.types.iter().find(|(wanted, _)| {
        wanted.as_ref().is_some_and(|wanted| !columns.iter().any(|column| column.name.eq_ignore_ascii_case(wanted)))
    }) {
        let known: Vec<&str> = columns.iter().map(|column| column.name.as_str()).take(8).collect();
        return Err(Error::input(format!("the option types names column {wanted}, which is not there"))
            .context(format!("file {path}"))
            .hint(format!("Its columns are {}", known.join(", "))));
    }
    Ok(Sniffed { delimiter, has_header, skip: options.skip, columns })
}

/// The delimiter of a file whose rows have `width` values, where the one by default gives another number.
///
/// # Errors
/// A file that cannot be read.
pub fn delimiter_for(path: &str, width: usize, options: &Options) -> Result<Option<u8>> {
    let options = Options { format: Some(Format::Csv), ..options.clone() };
    let fits = |delimiter: Option<u8>| -> Result<bool> {
        let rows = first_rows(path, &Options { delimiter, ..options.clone() }, 2)?;
        Ok(!rows.is_empty() && rows.iter().all(|row| row.len() == width))
    };
    if width < 2 || fits(None)? {
        return Ok(None);
    }
    for delimiter in DELIMITERS {
        if fits(Some(delimiter))? {
            return Ok(Some(delimiter));
        }
    }
    Ok(None)
}

/// The first delimiter of those that give all rows as many columns as any does, and how many lines stand in front of these rows:
/// a title, or comments. The usual delimiter where none does.
fn delimiter(path: &str, options: &Options) -> Result<(u8, usize)> {
    let is_tabs = path.to_ascii_lowercase().contains(".tsv");
    let usual = if is_tabs { b'\t' } else { DELIMITERS[0] };
    let mut tried = Vec::new();
    for delimiter in DELIMITERS.into_iter().filter(|delimiter| options.decimal != Some(*delimiter)) {
        // With a wrong delimiter a row may be too wide to be held.
        if let Ok(rows) = records(path, &Options { delimiter: Some(delimiter), ..options.clone() }, DELIMITER_ROWS) {
            tried.push((delimiter, rows));
        }
    }
    let most = if options.skip == 0 { TITLE_ROWS } else { 0 };
    for titles in 0..=most {
        let mut best = None;
        for (delimiter, rows) in &tried {
            let Some((before, rows)) = rows.split_at_checked(titles) else { continue };
            let width = rows.first().map_or(0, |row| row.fields.len());
            // With a tolerant reader some rows may have other numbers of values.
            let width = match options.null_padding {
                true => rows.iter().map(|row| row.fields.len()).max().unwrap_or(0),
                false => width,
            };
            let even = rows.iter().filter(|row| row.fields.len() == width).count();
            let is_even = match (options.null_padding, options.ignore_errors) {
                (true, _) => true,
                (false, true) => 2 * even >= rows.len(),
                (false, false) => even == rows.len(),
            };
            let is_better = best.is_none_or(|(_, most, _)| width > most);
            let is_table = (2..=limits::TABLE_COLUMNS).contains(&width);
            if !is_table || !is_better || !is_even || !may_be_titles(before, rows) {
                continue;
            }
            let lines = if titles > 0 { rows[0].line.saturating_sub(1) } else { 0 };
            best = Some((*delimiter, width, usize::try_from(lines).unwrap_or(0)));
        }
        if let Some((delimiter, _, lines)) = best {
            return Ok((delimiter, lines));
        }
    }
    // Of one column: a delimiter may stand in its values.
    let is_one_column = |(delimiter, rows): &(u8, Vec<Record>)| {
        *delimiter == usual && rows.first().is_none_or(|row| row.fields.len() == 1)
    };
    Ok((if tried.iter().any(is_one_column) { NO_DELIMITER } else { usual }, 0))
}

/// Whether what stands before these rows may be titles: a text each, before more rows, not all of whose columns are texts.
fn may_be_titles(before: &[Record], rows: &[Record]) -> bool {
    if before.is_empty() {
        return true;
    }
    let Some((_, behind_header)) = rows.split_first() else { return false };
    let texts: Vec<Vec<String>> = behind_header.iter().map(texts).collect();
    let is_text = |index: usize| column_of(&texts, index, &Options::default()).0 == Kind::Plain(DataType::Utf8View);
    let is_comment = |title: &Record| title.fields[0].starts_with(b"#");
    (rows.len() > before.len() + 1 || before.iter().all(is_comment))
        && before.iter().all(|title| title.fields.len() == 1)
        && !(0..rows[0].fields.len()).all(is_text)
}

fn texts(record: &Record) -> Vec<String> {
    record.fields.iter().map(|field| String::from_utf8_lossy(field).into_owned()).collect()
}

/// So many rows from the beginning of a file, blank lines apart, which are rows only where there is one column.
fn records(path: &str, options: &Options, count: usize) -> Result<Vec<Record>> {
    let mut records = Records::open(path, options)?;
    let (mut rows, mut values, mut bytes) = (Vec::new(), 0, 0);
    while rows.len() < count && values < TYPE_VALUES && bytes < SAMPLE_BYTES {
        let Some(record) = records.next_record()? else { break };
        if record.fields.len() == 1 && record.fields[0].is_empty() {
            continue;
        }
        values += record.fields.len();
        bytes += record.fields.iter().map(Vec::len).sum::<usize>();
        rows.push(record);
    }
    Ok(rows)
}

/// The values of [`records`].
fn first_rows(path: &str, options: &Options, count: usize) -> Result<Vec<Vec<String>>> {
    Ok(records(path, options, count)?.iter().map(texts).collect())
}

/// Whether the first row has a value that its column could not have, or has nowhere else; where all columns hold texts, it names
/// them.
fn is_header(first: &[String], others: &[Vec<String>], told: &[(Kind, bool)], options: &Options) -> bool {
    let is_text = |kind: &Kind| *kind == Kind::Plain(DataType::Utf8View);
    if told.iter().all(|(kind, _)| is_text(kind)) {
        return !first.is_empty();
    }
    let is_empty = |index: usize| {
        !others.is_empty() && others.iter().all(|row| row.get(index).is_none_or(|value| options.is_null(value)))
    };
    first.iter().zip(told).enumerate().any(|(index, (value, (kind, _)))| {
        if is_empty(index) {
            return !options.is_null(value);
        }
        !is_text(kind) && !options.is_null(value) && {
            let (own, _) = column_of(&[vec![value.clone()]], 0, options);
            // A whole number may be a number with digits behind the point.
            let is_number = own.data_type().is_numeric() && *kind.data_type() == DataType::Float64;
            own != *kind && !is_number
        }
    })
}

/// The names of columns: those of the header, or by place; none twice.
fn names(header: &[String], width: usize, options: &Options) -> Vec<String> {
    let digits = width.saturating_sub(1).to_string().len();
    let mut names: Vec<String> = Vec::with_capacity(width);
    let mut taken = HashSet::new();
    for index in 0..width {
        let written = options.names.get(index).or(header.get(index)).map(|name| name.trim()).unwrap_or_default();
        let name = match written.is_empty() {
            true => format!("column{index:0digits$}"),
            false => written.to_owned(),
        };
        let mut own = std::iter::once(name.clone()).chain((1..).map(|number| format!("{name}_{number}")));
        names.push(own.find(|name| taken.insert(name.to_lowercase())).unwrap_or(name));
    }
    names
}

/// What the values of a column are, and whether they have to be cast.
fn column_of(rows: &[Vec<String>], index: usize, options: &Options) -> (Kind, bool) {
    let text = || (Kind::Plain(DataType::Utf8View), false);
    let values = rows.iter().filter_map(|row| row.get(index)).filter(|value| !options.is_null(value));
    let values: Vec<&str> = values.map(String::as_str).collect();
    if values.is_empty() {
        return text();
    }
    let trimmed: Vec<&str> = values.iter().map(|value| value.trim()).collect();
    let has_blanks = values.iter().zip(&trimmed).any(|(value, trimmed)| value.len() != trimmed.len());
    if options.decimal.is_some() || options.thousands.is_some() {
        let written: Option<Vec<String>> = trimmed.iter().map(|value| as_number(value, options)).collect();
        return match written {
            Some(numbers) if numbers.iter().all(|number| is_whole(number) && number.parse::<i64>().is_ok()) => {
                (Kind::Plain(DataType::Int64), true)
            }
            Some(numbers) if numbers.iter().all(|number| is_number(number)) => (Kind::Plain(DataType::Float64), true),
            _ => moment_of(&trimmed, options).unwrap_or_else(text),
        };
    }
    let all = |fits: fn(&str) -> bool| trimmed.iter().all(|value| fits(value));
    if all(is_truth) {
        let is_plain = |value: &&str| value.eq_ignore_ascii_case("true") || value.eq_ignore_ascii_case("false");
        return (Kind::Plain(DataType::Boolean), has_blanks || !trimmed.iter().all(is_plain));
    }
    if all(is_whole) {
        let is_short = trimmed.iter().all(|value| value.parse::<i64>().is_ok());
        return match is_short {
            true => (Kind::Plain(DataType::Int64), has_blanks),
            false if trimmed.iter().all(|value| value.trim_start_matches('-').len() <= 38) => {
                (Kind::Plain(arrow_type(&LogicalType::Decimal { precision: 38, scale: 0 })), true)
            }
            false => (Kind::Plain(DataType::Float64), has_blanks),
        };
    }
    if all(is_number) {
        return (Kind::Plain(DataType::Float64), has_blanks);
    }
    moment_of(&trimmed, options).map_or_else(text, |(kind, is_cast)| (kind, is_cast || has_blanks))
}

/// A number as other numbers are written; `None` where it has a point, which is not its separator.
fn as_number(value: &str, options: &Options) -> Option<String> {
    let mut number = value.to_owned();
    if let Some(thousands) = options.thousands {
        number = number.replace(char::from(thousands), "");
    }
    match options.decimal {
        Some(separator) if separator != b'.' => {
            (!number.contains('.')).then(|| number.replace(char::from(separator), "."))
        }
        _ => Some(number),
    }
}

fn is_truth(value: &str) -> bool {
    ["true", "false", "t", "f", "yes", "no"].iter().any(|known| value.eq_ignore_ascii_case(known))
}

fn is_whole(value: &str) -> bool {
    let digits = value.strip_prefix('-').unwrap_or(value);
    !digits.is_empty()
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && (digits == "0" || !digits.starts_with('0'))
}

fn is_number(value: &str) -> bool {
    let unsigned = value.strip_prefix('-').unwrap_or(value);
    let has_zeros = unsigned.len() > 1 && unsigned.starts_with('0') && unsigned.as_bytes()[1].is_ascii_digit();
    let plain = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-');
    !has_zeros && unsigned.bytes().all(plain) && !unsigned.starts_with(['+', '-']) && value.parse::<f64>().is_ok()
}

/// Dates, times and timestamps.
fn moment_of(values: &[&str], options: &Options) -> Option<(Kind, bool)> {
    // Texts are left quickly.
    let may_be = |value: &&str| value.len() <= 40 && value.bytes().any(|byte| byte.is_ascii_digit());
    if !values.iter().all(may_be) {
        return None;
    }
    let has_clock = values.iter().all(|value| value.contains(':'));
    let has_no_clock = values.iter().all(|value| !value.contains(':'));
    let is_long = values.iter().all(|value| value.len() > 10);
    let date = || DataType::Date32;
    let timestamp = |zone| arrow_type(&LogicalType::Timestamp { unit: TimeUnit::Micro, zone });
    if has_no_clock {
        if let Some(format) = &options.date_format {
            return Some((Kind::Moment(date(), format.clone()), true));
        }
        if values.iter().all(|value| value.bytes().filter(|byte| *byte == b'-').count() == 2)
            && casts_to(values, &date())
        {
            return Some((Kind::Plain(date()), values.iter().any(|value| value.len() != 10)));
        }
        return format_of(values, "").map(|format| (Kind::Moment(date(), format), true));
    }
    if !has_clock {
        return None;
    }
    if !is_long || !values.iter().any(|value| value.contains(['-', '/'])) {
        let time = arrow_type(&LogicalType::Time);
        let has_minutes = |value: &&str| value.split(':').skip(1).all(|part| part.len() >= 2);
        return (values.iter().all(has_minutes) && casts_to(values, &time)).then_some((Kind::Plain(time), true));
    }
    if let Some(format) = &options.timestamp_format {
        return Some((Kind::Moment(timestamp(None), format.clone()), true));
    }
    let has_zone = |value: &&str| value.ends_with('Z') || value[10..].contains('+') || value[10..].contains('-');
    if values.iter().all(|value| value.is_char_boundary(10)) {
        let is_zoned = values.iter().any(has_zone);
        let zone = is_zoned.then(|| "UTC".into());
        if casts_to(values, &timestamp(zone.clone())) {
            return Some((Kind::Plain(timestamp(zone)), true));
        }
    }
    format_of(values, " %H:%M:%S").map(|format| (Kind::Moment(timestamp(None), format), true))
}

fn casts_to(values: &[&str], data_type: &DataType) -> bool {
    let texts: ArrayRef = Arc::new(StringArray::from(values.to_vec()));
    casts::cast(&texts, data_type, true).is_ok_and(|cast| cast.null_count() == 0)
}

/// The form that all of these dates have, with `end` behind it.
fn format_of(values: &[&str], end: &str) -> Option<String> {
    for order in DATE_ORDERS {
        for separator in SEPARATORS {
            let has_form = |value: &&str| {
                let date = value.split(' ').next().unwrap_or_default();
                let parts: Vec<&str> = date.split(separator).collect();
                parts.len() == 3 && is_date(&parts, order) && (end.is_empty() || is_clock(value, date))
            };
            if values.iter().all(has_form) {
                return Some(order.replace('-', separator) + end);
            }
        }
    }
    None
}

fn is_date(parts: &[&str], order: &str) -> bool {
    order.split('-').zip(parts).all(|(part, digits)| {
        let number = digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse::<u32>().ok()).flatten();
        number.is_some_and(|number| match part {
            "%d" => (1..=31).contains(&number) && digits.len() <= 2,
            "%m" => (1..=12).contains(&number) && digits.len() <= 2,
            _ => digits.len() == 4,
        })
    })
}

/// Whether `hh:mm:ss` follows the date.
fn is_clock(value: &str, date: &str) -> bool {
    let clock = value[date.len()..].trim_start();
    let parts: Vec<&str> = clock.split(':').collect();
    parts.len() == 3 && parts.iter().all(|part| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit()))
}

impl Sniffed {
    /// Names and types of the columns, and the forms of those that are dates or timestamps of other forms than SQL's.
    pub(crate) fn columns(&self) -> impl Iterator<Item = (&str, &DataType, Option<&str>)> {
        self.columns.iter().map(|column| match &column.kind {
            Kind::Plain(data_type) => (column.name.as_str(), data_type, None),
            Kind::Moment(data_type, form) => (column.name.as_str(), data_type, Some(form.as_str())),
        })
    }

    /// The columns as a reader gives them: in their own types where it knows their values, else as texts.
    pub(crate) fn read_schema(&self, has_null_text: bool) -> SchemaRef {
        let field = |column: &Column| {
            let is_text = has_null_text || column.is_cast;
            let data_type = if is_text { DataType::Utf8View } else { column.kind.data_type().clone() };
            Field::new(&column.name, data_type, true)
        };
        Arc::new(Schema::new(self.columns.iter().map(field).collect::<Vec<_>>()))
    }

    /// Whether columns that were read have to be cast.
    pub(crate) fn is_cast(&self) -> bool {
        self.columns.iter().any(|column| column.is_cast)
    }

    /// Each column of what was read, in its type, and NULL where it is a text for that.
    ///
    /// # Errors
    /// A session without the functions of this program.
    pub(crate) fn values(&self, state: &SessionState, options: &Options) -> Result<Vec<Expr>> {
        let value = |column: &Column| {
            let form = match &column.kind {
                Kind::Moment(_, form) => Some(form.as_str()),
                Kind::Plain(_) => None,
            };
            let value = match options.reads_texts() || column.is_cast {
                true => typed_values::value(state, &column.name, column.kind.data_type(), form, options)?,
                false => ident(column.name.as_str()),
            };
            Ok(value.alias(&column.name))
        };
        self.columns.iter().map(value).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sniffed(text: &str, options: &Options) -> String {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.csv");
        std::fs::write(&path, text).expect("written");
        let sniffed = sniff(path.to_str().expect("a path"), options).expect("sniffed");
        let column = |column: &Column| format!("{} {}", column.name, column.kind.data_type());
        let columns: Vec<String> = sniffed.columns.iter().map(column).collect();
        format!(
            "{}{} {}",
            char::from(sniffed.delimiter),
            if sniffed.has_header { " header" } else { "" },
            columns.join(", ")
        )
    }

    #[track_caller]
    fn check(text: &str, expect: &str) {
        assert_eq!(sniffed(text, &Options::default()), expect, "{text:?}");
    }

    #[test]
    fn delimiters_give_all_rows_as_many_values() {
        check("a;b\n1;x\n2;y\n", "; header a Int64, b Utf8View");
        check("a|b\n\"x|1\"|2\nhello, all|3\n", "| header a Utf8View, b Int64");
        check("a\tb\n\t1\n", "\t header a Utf8View, b Int64");
        check("a;b\n1,5;x\n2,5;y\n", "; header a Utf8View, b Utf8View");
        check("a,b\n1,2\n3\n", ", header a Int64, b Int64");
        check("a b\n1 2\n", "\u{1f} header a b Utf8View");
        check("# a comment\na,b\n1,2\n", ", header a Int64, b Int64");
        check("a\nx\nhello, world\nhello, world\n", "\u{1f} header a Utf8View");
        check("a title\n\n# and more\na;b\n1;2\n3;4\n5;6\n", "; header a Int64, b Int64");
    }

    #[test]
    fn headers_have_values_that_columns_have_not() {
        check("1,x\n2,y\n", ", column0 Int64, column1 Utf8View");
        check("1,\n2,x\n", ", column0 Int64, column1 Utf8View");
        check("3,5\n6,\n", ", header 3 Int64, 5 Utf8View");
        check("a,b\nx,y\n", ", header a Utf8View, b Utf8View");
        check("a,b\n", ", header a Utf8View, b Utf8View");
        check("1,2\n", ", column0 Int64, column1 Int64");
        check("1,2\n1.5,3\n", ", column0 Float64, column1 Int64");
        check("a,,A,a_1\n1,2,3,4\n", ", header a Int64, column1 Int64, A_1 Int64, a_1_1 Int64");
        check("", "\u{1f} column0 Utf8View");
    }

    #[test]
    fn types_are_those_of_all_values() {
        check("a\n007\n", "\u{1f} header a Utf8View");
        check("a\n.5\n1.\n-2e3\n", "\u{1f} header a Float64");
        check("a\nyes\nFALSE\n", "\u{1f} header a Boolean");
        check("a\n99999999999999999999\n", "\u{1f} header a Decimal128(38, 0)");
        check("a\n31/12/2020\n", "\u{1f} header a Date32");
        check("a\n2020-1-5\n", "\u{1f} header a Date32");
        check("a\n2020-01-01 10:00\n", "\u{1f} header a Timestamp(µs)");
        check("a\n25/12/2020 10:00:00\n", "\u{1f} header a Timestamp(µs)");
        check("a\n10:30\n", "\u{1f} header a Time64(µs)");
        check("a\n1:2\n", "\u{1f} header a Utf8View");
        check("a\n2020-01-01\n2020-01-01 10:00:00\n", "\u{1f} header a Utf8View");
        check("a, b\n1, 2\n", ", header a Int64, b Int64");
    }

    #[test]
    fn options_come_first() {
        let options = Options { names: vec!["x".to_owned()], header: Some(false), ..Options::default() };
        assert_eq!(sniffed("1,a\n", &options), ", x Int64, column1 Utf8View");
        let options = Options { all_text: true, ..Options::default() };
        assert_eq!(sniffed("a,b\n1,2\n", &options), ", header a Utf8View, b Utf8View");
        let types = vec![(Some("B".to_owned()), LogicalType::Float64)];
        let options = Options { types, ..Options::default() };
        assert_eq!(sniffed("a,b\n1,2\n", &options), ", header a Int64, b Float64");
        let options = Options { null: Some("NA".to_owned()), ..Options::default() };
        assert_eq!(sniffed("a,b\nNA,2\n1,NA\n", &options), ", header a Int64, b Int64");
    }
}
