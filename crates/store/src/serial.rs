//! Little-endian, fixed-width values written to and read from bytes: the alphabet of footers, manifest rows, facts and `HEAD`.
//!
//! Invariants: reading never panics and never allocates more than the bytes at hand can hold, whatever they are.

use forebay_base::checksum::crc32c;
use forebay_base::{Error, Result, Value};

const VALUE_NONE: u8 = 0;
const VALUE_INT: u8 = 1;
const VALUE_FLOAT: u8 = 2;
const VALUE_BYTES: u8 = 3;

/// Appends values to bytes.
#[derive(Debug, Default)]
pub struct Writer {
    /// What was written.
    pub bytes: Vec<u8>,
}

/// Takes values from bytes; every failure is a corruption of `what`.
#[derive(Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    what: &'a str,
}

impl Writer {
    /// One that has room for so many bytes without growing.
    pub fn with_capacity(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes) }
    }
}

macro_rules! integers {
    ($($name:ident),*) => {
        impl Writer {
            $(/// Appends a number.
            pub fn $name(&mut self, value: $name) {
                self.bytes.extend_from_slice(&value.to_le_bytes());
            })*
        }

        impl Reader<'_> {
            $(/// Takes a number.
            pub fn $name(&mut self) -> Result<$name> {
                let mut bytes = [0; size_of::<$name>()];
                bytes.copy_from_slice(self.take(size_of::<$name>())?);
                Ok($name::from_le_bytes(bytes))
            })*
        }
    };
}

integers!(u8, u16, u32, u64, u128, i128);

impl Writer {
    /// A count that [`Reader::count`] reads.
    pub fn count(&mut self, count: usize) {
        self.u32(u32::try_from(count).expect("counts are bounded by limits far below 2^32"));
    }

    /// What `write` appends, with the number of its bytes in front: [`Reader::blob`] reads it.
    pub fn measured(&mut self, write: impl FnOnce(&mut Self)) {
        let start = self.bytes.len();
        self.u32(0);
        write(self);
        let length = (self.bytes.len() - start - size_of::<u32>()) as u32;
        self.bytes[start..start + size_of::<u32>()].copy_from_slice(&length.to_le_bytes());
    }

    /// Bytes of any length.
    pub fn blob(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.bytes.extend_from_slice(bytes);
    }

    /// Text that may be missing.
    pub fn optional_text(&mut self, text: Option<&str>) {
        self.u8(u8::from(text.is_some()));
        if let Some(text) = text {
            self.blob(text.as_bytes());
        }
    }

    /// A value or NULL.
    pub fn value(&mut self, value: Option<&Value>) {
        match value {
            None => self.u8(VALUE_NONE),
            Some(Value::Int(int)) => {
                self.u8(VALUE_INT);
                self.i128(*int);
            }
            Some(Value::Float(float)) => {
                self.u8(VALUE_FLOAT);
                self.u64(float.to_bits());
            }
            Some(Value::Bytes(bytes)) => {
                self.u8(VALUE_BYTES);
                self.blob(bytes);
            }
        }
    }
}

/// First bytes of a file or a record: what it is, its layout, its number, and a CRC-32C of these.
pub(crate) fn numbered(magic: &[u8; 8], version: u32, number: u64) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.bytes.extend_from_slice(magic);
    writer.u32(version);
    writer.u64(number);
    let crc = crc32c(&writer.bytes);
    writer.u32(crc);
    writer.bytes
}

impl<'a> Reader<'a> {
    /// Reads these bytes, which errors call `what`.
    pub fn new(bytes: &'a [u8], what: &'a str) -> Self {
        Self { rest: bytes, what }
    }

    /// The error of bytes that are not what was written.
    pub fn wrong(&self, why: &str) -> Error {
        Error::corrupt(format!("{} is damaged: {why}", self.what))
    }

    /// Takes so many bytes.
    pub fn take(&mut self, bytes: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(bytes).ok_or_else(|| self.wrong("it ends too early"))?;
        self.rest = rest;
        Ok(taken)
    }

    /// A count of things that take at least `item_bytes` each in what remains.
    pub fn count(&mut self, item_bytes: usize) -> Result<usize> {
        let count = self.u32()? as usize;
        if count.saturating_mul(item_bytes) > self.rest.len() {
            return Err(self.wrong("it counts more than it holds"));
        }
        Ok(count)
    }

    /// What remains.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Takes a flag.
    pub fn flag(&mut self) -> Result<bool> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.wrong("a flag is neither 0 nor 1")),
        }
    }

    /// Takes bytes of any length.
    pub fn blob(&mut self) -> Result<&'a [u8]> {
        let bytes = self.count(1)?;
        self.take(bytes)
    }

    /// Takes text.
    pub fn text(&mut self) -> Result<String> {
        let bytes = self.blob()?;
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => Err(self.wrong("text is not UTF-8")),
        }
    }

    /// Takes text that may be missing.
    pub fn optional_text(&mut self) -> Result<Option<String>> {
        if self.flag()? { self.text().map(Some) } else { Ok(None) }
    }

    /// Takes a value or NULL.
    pub fn value(&mut self) -> Result<Option<Value>> {
        Ok(match self.u8()? {
            VALUE_NONE => None,
            VALUE_INT => Some(Value::Int(self.i128()?)),
            VALUE_FLOAT => Some(Value::Float(f64::from_bits(self.u64()?))),
            VALUE_BYTES => Some(Value::Bytes(self.blob()?.to_vec())),
            _ => return Err(self.wrong("a value has an unknown family")),
        })
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Everything must have been read.
    pub fn finish(self) -> Result<()> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.wrong("bytes are left over")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_read_back_and_cuts_are_errors() {
        let mut writer = Writer::default();
        let values = [None, Some(Value::Int(i128::MIN)), Some(Value::Float(-0.5)), Some(Value::Bytes(b"abc".to_vec()))];
        for value in &values {
            writer.value(value.as_ref());
        }
        writer.optional_text(Some("naïve"));
        writer.optional_text(None);
        let mut reader = Reader::new(&writer.bytes, "row");
        for value in &values {
            assert_eq!(&reader.value().expect("own bytes"), value);
        }
        assert_eq!(reader.optional_text().expect("own bytes").as_deref(), Some("naïve"));
        assert_eq!(reader.optional_text().expect("own bytes"), None);
        reader.finish().expect("all was read");
        for cut in 0..writer.bytes.len() {
            let mut reader = Reader::new(&writer.bytes[..cut], "row");
            let all = (0..4)
                .try_for_each(|_| reader.value().map(drop))
                .and_then(|()| reader.optional_text().map(drop))
                .and_then(|()| reader.optional_text().map(drop));
            assert!(all.is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn absurd_counts_are_errors_not_allocations() {
        let mut reader = Reader::new(&[0xFF; 12], "row");
        assert!(reader.blob().is_err());
        assert!(Reader::new(&[0xFF; 12], "row").count(1).is_err());
    }
}
