//! How long the lines of a text file are: readers keep a whole one in memory, and as many as a batch has rows.
//!
//! Of a plain file little is read: a line that is too long covers a window of half of that length in which no line ends.
//! A compressed one is inflated once, piece by piece, so that no file inflates into memory.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use datafusion::common::parsers::CompressionTypeVariant;
use forebay_base::units::format_bytes;
use forebay_base::{Error, Result, limits};

use crate::input;

/// Bytes read at a time where the end of a line is looked for.
const PROBE_BYTES: usize = 4096;

/// Bytes inflated at a time.
const PIECE_BYTES: usize = 1 << 20;

/// Checks that no line of a JSON file has more than `most_bytes`, or is nested too deeply, for which it is read once. Gives a
/// length that lines were seen to have.
///
/// # Errors
/// With the byte where the line begins, not with the file.
pub fn check_json(path: &str, compression: CompressionTypeVariant, most_bytes: usize) -> Result<usize> {
    pass(path, BoundedLines::json(input::decompressed(path, compression)?, most_bytes))
}

/// Checks that no line of a file has more than `most_bytes`. Gives a length that lines were seen to have.
///
/// # Errors
/// With the byte where the line begins, not with the file.
pub fn check(path: &str, compression: CompressionTypeVariant, most_bytes: usize) -> Result<usize> {
    if compression == CompressionTypeVariant::UNCOMPRESSED {
        let file = File::open(path).map_err(|error| Error::io(format!("open {path}"), &error))?;
        let bytes = file.metadata().map_err(|error| Error::io(format!("read {path}"), &error))?.len();
        return Probe { file, bytes }.check(most_bytes).map_err(|error| Error::io(format!("read {path}"), &error));
    }
    pass(path, BoundedLines::new(input::decompressed(path, compression)?, most_bytes))
}

/// Reads to the end.
fn pass(path: &str, mut input: BoundedLines<impl Read>) -> Result<usize> {
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        match input.read(&mut piece) {
            Ok(0) => return Ok(input.longest_bytes),
            Ok(_) => {}
            Err(error) => return Err(Error::io(format!("read {path}"), &error)),
        }
    }
}

/// Rows of a batch whose lines are about so long.
pub fn batch_rows(line_bytes: usize) -> usize {
    (limits::BATCH_TEXT_BYTES / line_bytes.max(1)).clamp(1, limits::BATCH_ROWS)
}

/// The error of a line, or of a value over several, that begins at a byte of the plain text.
pub fn too_long(start: u64, most_bytes: usize) -> Error {
    Error::input(format!("a line is longer than {}", format_bytes(most_bytes as u64)))
        .context(format!("at byte {start}"))
        .hint("If it is meant to be, allow more bytes: max_line_size for CSV, maximum_object_size for JSON")
}

/// A plain file of so many bytes.
struct Probe {
    file: File,
    bytes: u64,
}

impl Probe {
    fn check(&mut self, most_bytes: usize) -> std::io::Result<usize> {
        let window = (most_bytes as u64 / 2).max(1);
        let (mut start, mut longest) = (0, 0);
        while start + window <= self.bytes {
            match self.line_end(start, start + window)? {
                Some(end) => longest = longest.max(end - start),
                None => {
                    let begin = self.line_start(start, most_bytes as u64)?;
                    let end = self.line_end(start + window, begin + most_bytes as u64 + 1)?;
                    if end.is_none() && self.bytes > begin + most_bytes as u64 {
                        return Err(std::io::Error::other(too_long(begin, most_bytes)));
                    }
                    longest = longest.max(end.unwrap_or(self.bytes) - begin);
                }
            }
            start += window;
        }
        if start == 0 {
            longest = self.line_end(0, self.bytes)?.unwrap_or(self.bytes);
        }
        Ok(usize::try_from(longest).unwrap_or(usize::MAX))
    }

    /// Where the first line ends behind `start` and in front of `end`.
    fn line_end(&mut self, start: u64, end: u64) -> std::io::Result<Option<u64>> {
        let mut buffer = [0; PROBE_BYTES];
        let mut at = start;
        self.file.seek(SeekFrom::Start(start))?;
        while at < end {
            let count = self.file.read(&mut buffer)?;
            let count = count.min(usize::try_from(end - at).unwrap_or(usize::MAX));
            if count == 0 {
                break;
            }
            if let Some(found) = buffer[..count].iter().position(|byte| *byte == b'\n') {
                return Ok(Some(at + found as u64));
            }
            at += count as u64;
        }
        Ok(None)
    }

    /// Where the line that holds `at` begins, or what is `most` bytes in front of it.
    fn line_start(&mut self, at: u64, most: u64) -> std::io::Result<u64> {
        let mut buffer = [0; PROBE_BYTES];
        let lowest = at.saturating_sub(most);
        let mut end = at;
        while end > lowest {
            let start = end.saturating_sub(PROBE_BYTES as u64).max(lowest);
            let piece = &mut buffer[..usize::try_from(end - start).unwrap_or(PROBE_BYTES)];
            self.file.seek(SeekFrom::Start(start))?;
            self.file.read_exact(piece)?;
            if let Some(found) = piece.iter().rposition(|byte| *byte == b'\n') {
                return Ok(start + found as u64 + 1);
            }
            end = start;
        }
        Ok(lowest)
    }
}

/// Text whose lines are at most so long; a longer one is an error.
pub struct BoundedLines<R> {
    input: R,
    most_bytes: usize,
    /// Bytes of the line so far.
    line_bytes: usize,
    longest_bytes: usize,
    /// Bytes read.
    at: u64,
    /// Of JSON.
    levels: Option<Levels>,
}

/// Where among the levels of a line of JSON a reader is.
#[derive(Debug, Default)]
struct Levels {
    depth: usize,
    is_text: bool,
    is_escaped: bool,
}

impl Levels {
    /// Follows the text, and says whether it stayed within the levels that are allowed.
    fn follow(&mut self, bytes: &[u8]) -> bool {
        for byte in bytes {
            if self.is_text {
                match byte {
                    _ if std::mem::take(&mut self.is_escaped) => {}
                    b'\\' => self.is_escaped = true,
                    b'"' => self.is_text = false,
                    b'\n' => *self = Self::default(),
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' => self.is_text = true,
                b'{' | b'[' => {
                    self.depth += 1;
                    if self.depth > limits::JSON_LEVELS {
                        return false;
                    }
                }
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                b'\n' => self.depth = 0,
                _ => {}
            }
        }
        true
    }
}

impl<R: Read> BoundedLines<R> {
    /// Reads `input`.
    pub fn new(input: R, most_bytes: usize) -> Self {
        Self { input, most_bytes, line_bytes: 0, longest_bytes: 0, at: 0, levels: None }
    }

    /// Reads `input`, which is JSON and may not be nested too deeply.
    pub fn json(input: R, most_bytes: usize) -> Self {
        Self { levels: Some(Levels::default()), ..Self::new(input, most_bytes) }
    }

    fn note(&mut self, bytes: usize) -> std::io::Result<()> {
        self.longest_bytes = self.longest_bytes.max(bytes);
        if bytes > self.most_bytes {
            return Err(std::io::Error::other(too_long(self.at - self.line_bytes as u64, self.most_bytes)));
        }
        Ok(())
    }
}

impl<R: Read> Read for BoundedLines<R> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let most = out.len().min(PIECE_BYTES.min(self.most_bytes));
        let count = self.input.read(&mut out[..most])?;
        let read = &out[..count];
        if !self.levels.as_mut().is_none_or(|levels| levels.follow(read)) {
            let error = Error::input(format!("a value is nested more than {} levels deep", limits::JSON_LEVELS));
            return Err(std::io::Error::other(error.context(format!("near byte {}", self.at))));
        }
        // Between the first end and the last one lie lines that are no longer than what is read: they count by their average.
        match read.iter().position(|byte| *byte == b'\n') {
            Some(first) => {
                let last = read.iter().rposition(|byte| *byte == b'\n').unwrap_or(first);
                self.note(self.line_bytes + first)?;
                let lines = read[first..last].iter().filter(|byte| **byte == b'\n').count();
                self.longest_bytes = self.longest_bytes.max((last - first) / lines.max(1));
                self.line_bytes = count - last - 1;
                self.at += count as u64;
            }
            None => {
                self.line_bytes += count;
                self.at += count as u64;
                self.note(self.line_bytes)?;
            }
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// Checks texts of lines with these lengths, plain and read piece by piece.
    fn check_lengths(lengths: &[usize], most: usize) -> bool {
        let text: String = lengths.iter().map(|length| "x".repeat(*length) + "\n").collect();
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(text.as_bytes()).expect("room");
        let plain = Probe { file, bytes: text.len() as u64 }.check(most).is_ok();
        let mut read = Vec::new();
        let piecewise = BoundedLines::new(text.as_bytes(), most).read_to_end(&mut read).is_ok();
        assert_eq!(plain, piecewise, "{lengths:?}");
        assert!(!piecewise || read == text.as_bytes());
        plain
    }

    #[test]
    fn lines_are_as_long_as_they_may_be_and_no_longer() {
        let most = 20_000;
        for lengths in [&[][..], &[0, 0, 0], &[most], &[most, 1, most], &[5, most, most, 7], &[9_999, 10_001, 10_000]] {
            assert!(check_lengths(lengths, most), "{lengths:?}");
        }
        for lengths in [&[most + 1][..], &[1, 2, most + 1], &[most, most + 1, 0], &[7_000, 100_000, 7]] {
            assert!(!check_lengths(lengths, most), "{lengths:?}");
        }
    }

    #[test]
    fn levels_are_counted_outside_of_texts() {
        let check = |text: &str| {
            let mut levels = Levels::default();
            let is_fine = text.as_bytes().chunks(3).all(|bytes| levels.follow(bytes));
            let mut read = Vec::new();
            let same = BoundedLines::json(text.as_bytes(), 1 << 20).read_to_end(&mut read).is_ok();
            assert_eq!(is_fine, same);
            is_fine
        };
        let most = limits::JSON_LEVELS;
        assert!(check(&("[".repeat(most) + &"]".repeat(most) + "{}\n" + &"{\"a\":".repeat(most))));
        assert!(check(&(r#"{"a": "[[\"[["#.to_owned() + &"[".repeat(500) + "\"}")));
        assert!(check(&"[\n".repeat(500)) && check(&"[]{}".repeat(500)));
        assert!(!check(&"[".repeat(most + 1)) && !check(&("[\"]\",".repeat(most) + "[")));
    }

    #[test]
    fn long_lines_make_small_batches() {
        assert_eq!(
            (batch_rows(0), batch_rows(100), batch_rows(usize::MAX)),
            (limits::BATCH_ROWS, limits::BATCH_ROWS, 1)
        );
        assert_eq!(batch_rows(1 << 20), 16);
    }
}
