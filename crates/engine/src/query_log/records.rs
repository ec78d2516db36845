//! The bytes of a record. `docs/format.md`, "Record log".

use std::ops::Bound;
use std::sync::Arc;

use forebay_base::{ColumnId, Result, TableId, Value};
use forebay_pipeline::Predicate;
use forebay_store::serial::{Reader, Writer};

use super::{LoggedFigures, LoggedQuery};
use crate::facts::{Asked, Hop, OrderKey};

/// Layout of a record.
const VERSION: u32 = 2;
/// The layout that has the number of a scan's columns instead of their ids.
const VERSION_OF_COUNTS: u32 = 1;
/// Bytes of what was asked of one statement's scans, at most.
const ASKED_BYTES: usize = 16 << 10;
/// Bytes of the error that is kept.
const ERROR_BYTES: usize = 1 << 10;

const RANGE: u8 = 0;
const NOT_EQUAL: u8 = 1;
const IN: u8 = 2;
const NOT_IN: u8 = 3;
const LIKE: u8 = 4;
const IS_NULL: u8 = 5;
const IS_NOT_NULL: u8 = 6;
const NEVER: u8 = 7;

const UNBOUNDED: u8 = 0;
const INCLUDED: u8 = 1;
const EXCLUDED: u8 = 2;

pub(super) fn to_bytes(query: &LoggedQuery) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.u32(VERSION);
    writer.u64(query.started_us as u64);
    writer.u64(query.elapsed_ns);
    writer.u64(query.rows);
    figures_of(&query.figures).into_iter().for_each(|figure| writer.u64(figure));
    writer.blob(query.text.as_bytes());
    writer.u8(u8::from(query.is_cut));
    let error = query.error.as_deref().map(|error| {
        let end = (0..=error.len().min(ERROR_BYTES)).rev().find(|end| error.is_char_boundary(*end));
        &error[..end.unwrap_or(0)]
    });
    writer.optional_text(error);
    let scans: Vec<Vec<u8>> = query.asked.iter().map(asked_bytes).collect();
    let mut bytes = 0;
    let fits = |scan: &&Vec<u8>| {
        bytes += scan.len();
        bytes <= ASKED_BYTES
    };
    let scans: Vec<&Vec<u8>> = scans.iter().take_while(fits).collect();
    writer.count(scans.len());
    scans.into_iter().for_each(|scan| writer.bytes.extend_from_slice(scan));
    writer.bytes
}

pub(super) fn from_bytes(bytes: &[u8]) -> Result<LoggedQuery> {
    let mut reader = Reader::new(bytes, "the record of a query");
    let version = reader.u32()?;
    if ![VERSION, VERSION_OF_COUNTS].contains(&version) {
        return Err(reader.wrong("another program wrote it"));
    }
    let (started_us, elapsed_ns, rows) = (reader.u64()? as i64, reader.u64()?, reader.u64()?);
    let mut figures = [0; FIGURES];
    for figure in &mut figures {
        *figure = reader.u64()?;
    }
    let (text, is_cut, error) = (reader.text()?, reader.flag()?, reader.optional_text()?);
    let scans = reader.count(size_of::<TableId>())?;
    let asked = (0..scans).map(|_| asked_of(&mut reader, version)).collect::<Result<Vec<_>>>()?;
    reader.finish()?;
    let figures = logged_figures(figures);
    Ok(LoggedQuery { started_us, elapsed_ns, text, is_cut, rows, error, figures, asked })
}

const FIGURES: usize = 7;

fn figures_of(figures: &LoggedFigures) -> [u64; FIGURES] {
    let LoggedFigures { read_bytes, scanned_bytes, plain_bytes, chunks, chunks_pruned, blocks, blocks_pruned } =
        *figures;
    [read_bytes, scanned_bytes, plain_bytes, chunks, chunks_pruned, blocks, blocks_pruned]
}

fn logged_figures(figures: [u64; FIGURES]) -> LoggedFigures {
    let [read_bytes, scanned_bytes, plain_bytes, chunks, chunks_pruned, blocks, blocks_pruned] = figures;
    LoggedFigures { read_bytes, scanned_bytes, plain_bytes, chunks, chunks_pruned, blocks, blocks_pruned }
}

/// A scan, with those of its tests that are no sets of keys learnt while it ran.
fn asked_bytes(asked: &Asked) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.u64(asked.table.0);
    writer.count(asked.columns.len());
    asked.columns.iter().for_each(|column| writer.u32(column.0));
    let tests: Vec<_> = asked.tests.iter().filter(|(_, test)| !matches!(test, Predicate::Keys(_))).collect();
    writer.count(tests.len());
    for (key, test) in tests {
        writer.count(key.hops.len());
        for hop in &key.hops {
            writer.u32(hop.column.0);
            writer.u64(hop.table.0);
            writer.u32(hop.key.0);
        }
        writer.u32(key.column.0);
        write_test(&mut writer, test);
    }
    writer.bytes
}

fn asked_of(reader: &mut Reader<'_>, version: u32) -> Result<Asked> {
    let table = TableId(reader.u64()?);
    let columns = match version {
        VERSION_OF_COUNTS => {
            reader.u32()?;
            Vec::new()
        }
        _ => (0..reader.count(size_of::<u32>())?).map(|_| reader.u32().map(ColumnId)).collect::<Result<_>>()?,
    };
    let mut tests = Vec::new();
    for _ in 0..reader.count(size_of::<u32>())? {
        let mut hops = Vec::new();
        for _ in 0..reader.count(size_of::<u64>())? {
            let (column, table) = (ColumnId(reader.u32()?), TableId(reader.u64()?));
            hops.push(Hop { column, table, key: ColumnId(reader.u32()?) });
        }
        let column = ColumnId(reader.u32()?);
        tests.push((OrderKey { hops, column }, read_test(reader)?));
    }
    Ok(Asked { table, tests, columns, times: 1 })
}

fn write_test(writer: &mut Writer, test: &Predicate) {
    let list = |writer: &mut Writer, kind, values: &[Value]| {
        writer.u8(kind);
        writer.count(values.len());
        values.iter().for_each(|value| writer.value(Some(value)));
    };
    match test {
        Predicate::Range { low, high } => {
            writer.u8(RANGE);
            for bound in [low, high] {
                let (kind, value) = match bound {
                    Bound::Unbounded => (UNBOUNDED, None),
                    Bound::Included(value) => (INCLUDED, Some(value)),
                    Bound::Excluded(value) => (EXCLUDED, Some(value)),
                };
                writer.u8(kind);
                writer.value(value);
            }
        }
        Predicate::NotEqual(value) => list(writer, NOT_EQUAL, std::slice::from_ref(value)),
        Predicate::In(values) => list(writer, IN, values),
        Predicate::NotIn(values) => list(writer, NOT_IN, values),
        Predicate::Like { pattern, negated } => {
            writer.u8(LIKE);
            writer.blob(pattern);
            writer.u8(u8::from(*negated));
        }
        Predicate::IsNull => writer.u8(IS_NULL),
        Predicate::IsNotNull => writer.u8(IS_NOT_NULL),
        Predicate::Never | Predicate::Keys(_) => writer.u8(NEVER),
    }
}

fn read_test(reader: &mut Reader<'_>) -> Result<Predicate> {
    let some = |reader: &mut Reader<'_>| match reader.value()? {
        Some(value) => Ok(value),
        None => Err(reader.wrong("a value is missing")),
    };
    let list =
        |reader: &mut Reader<'_>| -> Result<Vec<Value>> { (0..reader.count(1)?).map(|_| some(reader)).collect() };
    let bound = |reader: &mut Reader<'_>| -> Result<Bound<Value>> {
        let kind = reader.u8()?;
        match (kind, reader.value()?) {
            (UNBOUNDED, None) => Ok(Bound::Unbounded),
            (INCLUDED, Some(value)) => Ok(Bound::Included(value)),
            (EXCLUDED, Some(value)) => Ok(Bound::Excluded(value)),
            _ => Err(reader.wrong("a bound is none")),
        }
    };
    Ok(match reader.u8()? {
        RANGE => Predicate::Range { low: bound(reader)?, high: bound(reader)? },
        NOT_EQUAL => match list(reader)?.pop() {
            Some(value) => Predicate::NotEqual(value),
            None => return Err(reader.wrong("a value is missing")),
        },
        IN => Predicate::In(list(reader)?),
        NOT_IN => Predicate::NotIn(list(reader)?),
        LIKE => Predicate::Like { pattern: Arc::from(reader.blob()?), negated: reader.flag()? },
        IS_NULL => Predicate::IsNull,
        IS_NOT_NULL => Predicate::IsNotNull,
        NEVER => Predicate::Never,
        _ => return Err(reader.wrong("a test is of no known kind")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query() -> LoggedQuery {
        let key = |column| OrderKey { hops: Vec::new(), column: ColumnId(column) };
        let hop = Hop { column: ColumnId(3), table: TableId(7), key: ColumnId(0) };
        let text = |text: &str| Value::Bytes(text.as_bytes().to_vec());
        let tests = vec![
            (key(0), Predicate::Range { low: Bound::Excluded(Value::Int(-5)), high: Bound::Unbounded }),
            (key(1), Predicate::NotEqual(Value::Float(0.5))),
            (key(2), Predicate::In(vec![text("a"), text("b")])),
            (key(3), Predicate::NotIn(vec![Value::Int(1)])),
            (key(4), Predicate::Like { pattern: Arc::from(&b"a%"[..]), negated: true }),
            (OrderKey { hops: vec![hop, hop], column: ColumnId(9) }, Predicate::IsNull),
            (key(6), Predicate::IsNotNull),
            (key(7), Predicate::Never),
        ];
        let columns = vec![ColumnId(3), ColumnId(5)];
        let asked = vec![Asked { table: TableId(4), tests, columns, times: 1 }; 2];
        let figures = LoggedFigures { read_bytes: 1, blocks_pruned: 7, ..LoggedFigures::default() };
        let error = Some("no such table".to_owned());
        let query =
            LoggedQuery { started_us: -3, elapsed_ns: 5, rows: 2, error, figures, asked, ..LoggedQuery::default() };
        query.with_text("SELECT 'naïve'")
    }

    #[test]
    fn what_is_written_is_read_and_cuts_are_errors() {
        let bytes = to_bytes(&query());
        assert_eq!(from_bytes(&bytes).expect("own bytes"), query());
        for cut in 0..bytes.len() {
            assert!(from_bytes(&bytes[..cut]).is_err(), "cut at {cut}");
        }
        for place in 0..bytes.len() {
            let mut wrong = bytes.clone();
            wrong[place] ^= 0xFF;
            // An error or another query; no panic, and no memory beyond what the bytes hold.
            let _ = from_bytes(&wrong);
        }
    }

    /// A scan of table 4, of three columns, without tests.
    #[test]
    fn records_with_numbers_of_columns_are_read() {
        let mut writer = Writer::default();
        writer.u32(1);
        (0..3 + FIGURES).for_each(|_| writer.u64(0));
        writer.blob(b"SELECT 1");
        writer.u8(0);
        writer.optional_text(None);
        writer.count(1);
        writer.u64(4);
        writer.u32(3);
        writer.count(0);
        let read = from_bytes(&writer.bytes).expect("version 1");
        let asked = Asked { table: TableId(4), tests: Vec::new(), columns: Vec::new(), times: 1 };
        assert_eq!((read.text.as_str(), read.asked), ("SELECT 1", vec![asked]));
        writer.bytes[0] = 3;
        assert!(from_bytes(&writer.bytes).is_err());
    }

    #[test]
    fn long_texts_and_much_that_was_asked_are_cut() {
        let text = "é".repeat(forebay_base::limits::LOGGED_TEXT_BYTES);
        let mut long = LoggedQuery { error: Some(text.clone()), ..query() }.with_text(&text);
        assert!(
            long.is_cut && long.text.len() <= forebay_base::limits::LOGGED_TEXT_BYTES && text.starts_with(&long.text)
        );
        let values = (0..100).map(Value::Int).collect();
        long.asked[0].tests.push((OrderKey { hops: Vec::new(), column: ColumnId(8) }, Predicate::In(values)));
        long.asked = vec![long.asked[0].clone(); 50];
        let bytes = to_bytes(&long);
        assert!(bytes.len() <= forebay_base::limits::LOG_RECORD_BYTES);
        let read = from_bytes(&bytes).expect("own bytes");
        assert!((1..50).contains(&read.asked.len()) && read.error.is_some_and(|error| error.len() <= ERROR_BYTES));
        assert!(!query().is_cut);
    }
}
