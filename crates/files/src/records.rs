//! Delimited text read in sequence, with line numbers: for headers, to find bad values, and to see what its quotes do.

use std::fmt;
use std::io::Read;

use datafusion::common::config::CsvOptions;
use forebay_base::{Error, Result, limits};
use forebay_forms::file_options::{Format, Options, split_compression};

use crate::{input, lines};

/// Bytes read at a time.
const BUFFER_BYTES: usize = 1 << 20;

/// What the quotes of a file do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quotes {
    /// Nothing that matters: every line is a record.
    Inline,
    /// Some values span lines.
    SpanLines,
    /// The last one is not closed.
    Open,
}

/// What the quotes of `path` do, and the bytes of its longest record, of which none may have more than `most_bytes`. Reads it
/// all, at the speed of memory where there are few quotes.
pub fn quotes(path: &str, csv: &CsvOptions, most_bytes: usize) -> Result<(Quotes, usize)> {
    let mut input = input::decompressed(path, csv.compression)?;
    // What is read at once holds no record that is too long.
    let mut buffer = vec![0; BUFFER_BYTES.min(most_bytes)];
    let mut state = QuoteState::new(csv);
    loop {
        let read = input.read(&mut buffer).map_err(|error| Error::io(format!("read {path}"), &error))?;
        state.follow(&buffer[..read]);
        state.note_record();
        if state.longest_bytes > most_bytes {
            return Err(lines::too_long(state.longest_start, most_bytes).context(format!("file {path}")));
        }
        if read == 0 {
            return Ok((state.result(), state.longest_bytes));
        }
    }
}

/// Where in its values' quotes a reader of delimited text is.
struct QuoteState {
    quote: u8,
    delimiter: u8,
    escape: Option<u8>,
    is_inside: bool,
    is_escaped: bool,
    spans_lines: bool,
    /// Bytes that were followed, and of these, those of the record so far.
    at: u64,
    record_bytes: usize,
    /// Where a record begins that is as long as any, but for those that lie in one buffer.
    longest_start: u64,
    longest_bytes: usize,
    /// A value may begin behind it.
    previous: u8,
    /// The byte before was a quote that ended a value, or that stands for itself if another follows.
    was_closed: bool,
}

impl QuoteState {
    fn new(csv: &CsvOptions) -> Self {
        Self {
            quote: csv.quote,
            delimiter: csv.delimiter,
            escape: csv.escape,
            is_inside: false,
            is_escaped: false,
            spans_lines: false,
            at: 0,
            record_bytes: 0,
            longest_start: 0,
            longest_bytes: 0,
            previous: b'\n',
            was_closed: false,
        }
    }

    fn follow(&mut self, bytes: &[u8]) {
        let Some(last) = bytes.last() else { return };
        if !self.is_inside && !bytes.contains(&self.quote) {
            self.previous = *last;
            self.was_closed = false;
            self.pass_lines(bytes);
            return;
        }
        bytes.iter().for_each(|byte| self.take(*byte));
    }

    /// Counts bytes in which every line is a record.
    fn pass_lines(&mut self, bytes: &[u8]) {
        let Some(first) = bytes.iter().position(|byte| is_line_end(*byte)) else {
            self.record_bytes += bytes.len();
            self.at += bytes.len() as u64;
            return;
        };
        self.record_bytes += first;
        self.at += first as u64;
        self.note_record();
        // Those between the first end and the last one count by their average: they are no longer than the buffer.
        let last = bytes.iter().rposition(|byte| is_line_end(*byte)).unwrap_or(first);
        let records = bytes[first..last].iter().filter(|byte| **byte == b'\n').count();
        self.longest_bytes = self.longest_bytes.max((last - first) / records.max(1));
        self.record_bytes = bytes.len() - last - 1;
        self.at += (bytes.len() - first) as u64;
    }

    /// Compares the record so far with the longest.
    fn note_record(&mut self) {
        if self.record_bytes > self.longest_bytes {
            self.longest_bytes = self.record_bytes;
            self.longest_start = self.at - self.record_bytes as u64;
        }
    }

    fn take(&mut self, byte: u8) {
        self.at += 1;
        self.record_bytes += 1;
        let closed = std::mem::take(&mut self.was_closed);
        if std::mem::take(&mut self.is_escaped) {
            // Stands for itself, whatever it is.
        } else if self.is_inside {
            if byte == self.quote {
                self.is_inside = false;
                self.was_closed = true;
            } else if Some(byte) == self.escape {
                self.is_escaped = true;
            } else if byte == b'\n' {
                self.spans_lines = true;
            }
        } else if byte == self.quote {
            let begins = is_line_end(self.previous) || self.previous == self.delimiter;
            self.is_inside = closed || begins;
        }
        if is_line_end(byte) && !self.is_inside {
            self.note_record();
            self.record_bytes = 0;
        }
        self.previous = byte;
    }

    /// Whether the line that `byte` ends is empty.
    fn ends_empty_line(&self, byte: u8) -> bool {
        let is_second_half = byte == b'\n' && self.previous == b'\r';
        is_line_end(byte) && is_line_end(self.previous) && !is_second_half && !self.is_inside && !self.is_escaped
    }

    fn result(&self) -> Quotes {
        match (self.is_inside, self.spans_lines) {
            (true, _) => Quotes::Open,
            (false, true) => Quotes::SpanLines,
            (false, false) => Quotes::Inline,
        }
    }
}

fn is_line_end(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}

/// A file of one column in which an empty line is a row: it gets quotes on its way to readers, which would skip it.
pub struct EmptyLines<R> {
    input: R,
    state: QuoteState,
    /// Rows have begun: the lines before the header are none.
    has_begun: bool,
    read: Vec<u8>,
    ready: Vec<u8>,
    taken: usize,
}

impl<R: Read> EmptyLines<R> {
    /// Reads `input`, which is written as `csv` says.
    pub fn new(input: R, csv: &CsvOptions) -> Self {
        let has_begun = csv.has_header != Some(true);
        let read = vec![0; BUFFER_BYTES];
        Self { input, state: QuoteState::new(csv), has_begun, read, ready: Vec::new(), taken: 0 }
    }

    fn refill(&mut self) -> std::io::Result<()> {
        let count = self.input.read(&mut self.read)?;
        self.ready.clear();
        self.taken = 0;
        for byte in &self.read[..count] {
            if self.has_begun && self.state.ends_empty_line(*byte) {
                self.ready.extend([self.state.quote; 2]);
            }
            self.has_begun |= !is_line_end(*byte);
            self.ready.push(*byte);
            self.state.take(*byte);
        }
        Ok(())
    }
}

impl<R: Read> Read for EmptyLines<R> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        if self.taken == self.ready.len() {
            self.refill()?;
        }
        let count = out.len().min(self.ready.len() - self.taken);
        out[..count].copy_from_slice(&self.ready[self.taken..self.taken + count]);
        self.taken += count;
        Ok(count)
    }
}

/// The values of the first record of a delimited file; none where it is empty.
pub fn first_record(path: &str, options: &Options) -> Result<Vec<String>> {
    let record = Records::open(path, options)?.next_record()?;
    let fields = record.map(|record| record.fields).unwrap_or_default();
    Ok(fields.iter().map(|field| String::from_utf8_lossy(field).into_owned()).collect())
}

/// The line, from 1, where the last record of a file begins.
pub fn last_line(path: &str, options: &Options) -> Result<u64> {
    let mut records = Records::open(path, options)?;
    let mut line = 1;
    while let Some(record) = records.next_record()? {
        line = record.line;
    }
    Ok(line)
}

/// One record of a delimited file.
#[derive(Debug)]
pub struct Record {
    /// The line where it begins, from 1.
    pub line: u64,
    /// Its values, without quotes.
    pub fields: Vec<Vec<u8>>,
}

/// A plain sequential reader of delimited text that knows lines; used for headers and to find bad values, not to load.
pub struct Records {
    reader: csv_core::Reader,
    input: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    line_bytes: usize,
    path: String,
    /// Lines in front of the first record.
    skipped: u64,
}

impl Records {
    /// Opens `path`.
    pub fn open(path: &str, options: &Options) -> Result<Self> {
        let format = options.format.unwrap_or(Format::Csv);
        let compression = options.compression.unwrap_or_else(|| split_compression(&path.to_ascii_lowercase()).1);
        let csv = input::csv_options(format, path, compression, options)?;
        let mut builder = csv_core::ReaderBuilder::new();
        builder.delimiter(csv.delimiter).quote(csv.quote).escape(csv.escape).comment(csv.comment);
        let input = input::behind_lines(path, compression, options.skip)?;
        let has_one_column = options.schema.as_ref().is_some_and(|schema| input::is_single_column(schema, options));
        Ok(Self {
            reader: builder.build(),
            input: if has_one_column { Box::new(EmptyLines::new(input, &csv)) } else { input },
            buffer: vec![0; 1 << 16],
            start: 0,
            end: 0,
            line_bytes: options.line_bytes.unwrap_or(limits::LINE_BYTES),
            path: path.to_owned(),
            skipped: options.skip as u64,
        })
    }

    fn place(&self, error: Error, line: u64) -> Error {
        error.context(format!("line {line}")).context(format!("file {}", self.path))
    }

    /// The next record; `None` at the end.
    pub fn next_record(&mut self) -> Result<Option<Record>> {
        use csv_core::ReadRecordResult as R;
        let (mut out, mut ends) = (vec![0; 1024], vec![0; 64]);
        let (mut written, mut fields) = (0, 0);
        let line = self.reader.line() + self.skipped;
        loop {
            if self.start == self.end {
                let read = self.input.read(&mut self.buffer);
                self.end = read.map_err(|error| Error::io(format!("read {}", self.path), &error))?;
                self.start = 0;
            }
            let input = &self.buffer[self.start..self.end];
            let (result, used, wrote, ended) = self.reader.read_record(input, &mut out[written..], &mut ends[fields..]);
            self.start += used;
            written += wrote;
            fields += ended;
            match result {
                R::InputEmpty => {}
                R::OutputFull if out.len() > self.line_bytes => {
                    let error = Error::input(format!("a record is longer than {} bytes", self.line_bytes));
                    return Err(self.place(error, line).hint("If it is meant to be, allow more with max_line_size"));
                }
                R::OutputEndsFull if ends.len() >= limits::LINE_VALUES => {
                    let error = Error::input(format!("a record has more than {} values", ends.len()));
                    return Err(self.place(error, line).hint("Say which character stands between values: DELIMITER"));
                }
                R::OutputFull => out.resize(out.len() * 2, 0),
                R::OutputEndsFull => ends.resize(ends.len() * 2, 0),
                R::End => return Ok(None),
                R::Record => {
                    let starts = std::iter::once(0).chain(ends[..fields].iter().copied());
                    let slices = starts.zip(&ends[..fields]).map(|(start, end)| out[start..*end].to_vec());
                    return Ok(Some(Record { line, fields: slices.collect() }));
                }
            }
        }
    }
}

impl fmt::Debug for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: Quotes) {
        for piece in [1, 3, 1000] {
            let mut state = QuoteState::new(&CsvOptions::default());
            text.as_bytes().chunks(piece).for_each(|bytes| state.follow(bytes));
            assert_eq!(state.result(), expect, "{text:?}");
        }
    }

    #[test]
    fn the_longest_record_is_found_with_its_beginning() {
        for (text, start, bytes) in [("ab\n123456789\nc\n", 3, 9), ("ab\n1,\"two\nlines\"\nc\n", 3, 13), ("123", 0, 3)]
        {
            for piece in [1, 3, 5] {
                let mut state = QuoteState::new(&CsvOptions::default());
                text.as_bytes().chunks(piece).for_each(|bytes| state.follow(bytes));
                state.note_record();
                // A line end may count as a byte of its record.
                let longest = state.longest_bytes;
                assert!(state.longest_start == start && (bytes..=bytes + 1).contains(&longest), "{text:?}: {longest}");
            }
        }
    }

    #[test]
    fn quotes_are_followed_as_a_reader_would() {
        check("a,b\n1,\"x,\"\"y\"\n", Quotes::Inline);
        check("1,5\" disk\n2,x\n", Quotes::Inline);
        check("1,\"two\nlines\"\n", Quotes::SpanLines);
        check("1,\"abc\n2,x\n", Quotes::Open);
        check("\"\",\"\"\n\"\"\"\"", Quotes::Inline);
    }

    /// Gives one byte at a time.
    struct Bytes<'a>(&'a [u8]);

    impl Read for Bytes<'_> {
        fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
            let count = out.len().min(1);
            self.0.read(&mut out[..count])
        }
    }

    #[test]
    fn empty_lines_of_one_column_become_rows() {
        let check = |text: &str, has_header: bool, expect: &str| {
            let csv = CsvOptions { has_header: Some(has_header), ..CsvOptions::default() };
            let (mut whole, mut bytewise) = (String::new(), String::new());
            EmptyLines::new(text.as_bytes(), &csv).read_to_string(&mut whole).expect("text");
            EmptyLines::new(Bytes(text.as_bytes()), &csv).read_to_string(&mut bytewise).expect("text");
            assert_eq!((whole.as_str(), bytewise.as_str()), (expect, expect), "{text:?}");
        };
        check("a\nx\n\ny\n", true, "a\nx\n\"\"\ny\n");
        check("\n\na\n\n\n", true, "\n\na\n\"\"\n\"\"\n");
        check("\nx", false, "\"\"\nx");
        check("x\r\n\r\ny\r\n", false, "x\r\n\"\"\r\ny\r\n");
        check("\"x\n\ny\"\n\"\"\n\nz", false, "\"x\n\ny\"\n\"\"\n\"\"\nz");
    }
}
