//! Thrift's compact protocol, in which the metadata of Parquet files lie, walked along the shapes that the format gives
//! them. Nothing is kept.
//!
//! Readers reserve memory for as many elements as a list claims, and take each field for what the format says it is. Who has
//! walked bytes here knows that every list has the elements that it claims, and every field that is known its type.

use forebay_base::{Error, Result};

/// What a value may be. Fields that a structure does not list may be anything.
#[derive(Debug)]
pub(super) enum Shape {
    Bool,
    Byte,
    I16,
    I32,
    I64,
    Double,
    Binary,
    List(&'static Shape),
    Struct(&'static [(i16, Shape)]),
}

/// Levels of structures and lists: the format has seven.
const MOST_DEPTH: usize = 24;

/// What a walk tells: the fields that lead to a number or a flag and what it is, or with `None` that a structure ends.
pub(super) type Visit<'a> = dyn FnMut(&[i16], Option<i64>) -> Result<()> + 'a;

/// Walks bytes from their beginning.
pub(super) struct Walker<'a> {
    bytes: &'a [u8],
    at: usize,
    path: Vec<i16>,
}

impl<'a> Walker<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, path: Vec::new() }
    }

    /// Bytes that were walked.
    pub(super) fn walked(&self) -> usize {
        self.at
    }

    /// Walks a structure with these fields.
    pub(super) fn structure(&mut self, fields: &[(i16, Shape)], visit: &mut Visit<'_>) -> Result<()> {
        self.deeper(0)?;
        let mut last = 0;
        while let Some((id, wire)) = self.field(last)? {
            last = id;
            match fields.iter().find(|(known, _)| *known == id) {
                Some((_, shape)) => {
                    self.path.push(id);
                    self.value(wire, shape, visit)?;
                    self.path.pop();
                }
                None => self.skip(wire, self.path.len())?,
            }
        }
        visit(&self.path, None)
    }

    fn value(&mut self, wire: u8, shape: &Shape, visit: &mut Visit<'_>) -> Result<()> {
        match (shape, wire) {
            (Shape::Bool, 1 | 2) => visit(&self.path, Some(i64::from(wire == 1))),
            (Shape::Byte, 3) => self.take(1).map(drop),
            (Shape::I16 | Shape::I32 | Shape::I64, 4..=6) => {
                let value = self.integer(shape)?;
                visit(&self.path, Some(value))
            }
            (Shape::Double, 7) => self.take(8).map(drop),
            (Shape::Binary, 8) => self.binary(),
            (Shape::List(element), 9 | 10) => {
                let (count, wire) = self.list()?;
                for _ in 0..count {
                    match element {
                        Shape::Bool if matches!(wire, 1 | 2) => self.take(1).map(drop)?,
                        Shape::Bool => return Err(self.wrong("a list has elements of another type")),
                        _ => self.value(wire, element, visit)?,
                    }
                }
                Ok(())
            }
            (Shape::Struct(fields), 12) => self.structure(fields, visit),
            _ => Err(self.wrong("a field is of another type than the format says")),
        }
    }

    /// The next field of a structure behind field `last`, and its type on the wire.
    fn field(&mut self, last: i16) -> Result<Option<(i16, u8)>> {
        let byte = self.byte()?;
        let (delta, wire) = (i16::from(byte >> 4), byte & 0x0f);
        if wire == 0 {
            return Ok(None);
        }
        let id = match delta {
            0 => self.integer(&Shape::I16)? as i16,
            _ => last.checked_add(delta).ok_or_else(|| self.wrong("the number of a field is too large"))?,
        };
        Ok(Some((id, wire)))
    }

    /// Passes over a value of any shape.
    fn skip(&mut self, wire: u8, depth: usize) -> Result<()> {
        self.deeper(depth)?;
        match wire {
            1 | 2 => Ok(()),
            3 => self.take(1).map(drop),
            4..=6 => self.varint().map(drop),
            7 => self.take(8).map(drop),
            8 => self.binary(),
            9 | 10 => {
                let (count, wire) = self.list()?;
                (0..count).try_for_each(|_| self.skip_element(wire, depth + 1))
            }
            11 => {
                let count = self.count()?;
                let wires = if count == 0 { 0 } else { self.byte()? };
                (0..count).try_for_each(|_| {
                    self.skip_element(wires >> 4, depth + 1)?;
                    self.skip_element(wires & 0x0f, depth + 1)
                })
            }
            12 => {
                let mut last = 0;
                while let Some((id, wire)) = self.field(last)? {
                    last = id;
                    self.skip(wire, depth + 1)?;
                }
                Ok(())
            }
            13 => self.take(16).map(drop),
            _ => Err(self.wrong("a field has no known type")),
        }
    }

    fn skip_element(&mut self, wire: u8, depth: usize) -> Result<()> {
        match wire {
            1 | 2 => self.take(1).map(drop),
            _ => self.skip(wire, depth),
        }
    }

    fn deeper(&self, depth: usize) -> Result<()> {
        match depth.max(self.path.len()) > MOST_DEPTH {
            true => Err(self.wrong("structures are nested too deeply")),
            false => Ok(()),
        }
    }

    /// The elements of a list and their type. Each takes a byte at least.
    fn list(&mut self) -> Result<(usize, u8)> {
        let byte = self.byte()?;
        let count = match byte >> 4 {
            15 => self.count()?,
            count => usize::from(count),
        };
        self.fits(count)?;
        Ok((count, byte & 0x0f))
    }

    fn count(&mut self) -> Result<usize> {
        let count = self.varint()?;
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        self.fits(count)?;
        Ok(count)
    }

    fn fits(&self, count: usize) -> Result<()> {
        match count > self.bytes.len() - self.at {
            true => Err(self.wrong(&format!("{count} bytes or elements are claimed and are not there"))),
            false => Ok(()),
        }
    }

    fn binary(&mut self) -> Result<()> {
        let length = self.count()?;
        self.take(length).map(drop)
    }

    /// A number within the range of its shape: readers cut digits off that are too many.
    fn integer(&mut self, shape: &Shape) -> Result<i64> {
        let bits = self.varint()?;
        let value = (bits >> 1) as i64 ^ -((bits & 1) as i64);
        let fits = match shape {
            Shape::I16 => i16::try_from(value).is_ok(),
            Shape::I32 => i32::try_from(value).is_ok(),
            _ => true,
        };
        if fits { Ok(value) } else { Err(self.wrong(&format!("the number {value} is out of range"))) }
    }

    fn varint(&mut self) -> Result<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(self.wrong("a number has more than 64 bits"))
    }

    fn byte(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        self.fits(count)?;
        let taken = &self.bytes[self.at..self.at + count];
        self.at += count;
        Ok(taken)
    }

    fn wrong(&self, what: &str) -> Error {
        Error::input(format!("{what}, {} bytes behind its beginning", self.at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELDS: &[(i16, Shape)] =
        &[(1, Shape::I32), (2, Shape::List(&Shape::Struct(&[(1, Shape::Binary), (5, Shape::I32)]))), (3, Shape::Bool)];

    fn walk(bytes: &[u8]) -> Result<Vec<(Vec<i16>, Option<i64>)>> {
        let mut seen = Vec::new();
        let mut walker = Walker::new(bytes);
        walker.structure(FIELDS, &mut |path, value| {
            seen.push((path.to_vec(), value));
            Ok(())
        })?;
        assert_eq!(walker.walked(), bytes.len());
        Ok(seen)
    }

    #[test]
    fn fields_are_found_and_unknown_ones_passed_over() {
        // 1: 7; 2: [{1: "ab", 5: -1}]; 3: true; 9: {1: [1, 2]}
        let bytes = [0x15, 14, 0x19, 0x1c, 0x18, 2, b'a', b'b', 0x45, 1, 0, 0x11, 0x6c, 0x19, 0x25, 2, 4, 0, 0];
        let expected =
            vec![(vec![1], Some(7)), (vec![2, 5], Some(-1)), (vec![2], None), (vec![3], Some(1)), (vec![], None)];
        assert_eq!(walk(&bytes).expect("a structure"), expected);
    }

    #[test]
    fn nothing_is_believed() {
        for (bytes, expected) in [
            (&[0x19, 0xfc, 0xff, 0xff, 0xff, 0xff, 7][..], "another type"),
            (&[0x29, 0xfc, 0xff, 0xff, 0xff, 0xff, 7], "are claimed"),
            (&[0x29, 0x1c, 0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 1], "are claimed"),
            (&[0x15, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0], "out of range"),
            (&[0x15, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0], "more than 64 bits"),
            (&[0x15], "are claimed"),
            (&[0x9e, 0, 0], "no known type"),
            (&[0x9c; 100], "nested too deeply"),
        ] {
            let error = walk(bytes).expect_err("wrong bytes").to_string();
            assert!(error.contains(expected), "{bytes:x?}: {error}");
        }
    }
}
