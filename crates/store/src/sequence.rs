//! Sequences: numbers that are given once each.

use forebay_base::{Error, ErrorKind, Result};

use crate::serial::{Reader, Writer};

/// A sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sequence {
    pub(crate) id: u64,
    /// Schema, as the schema's name was given.
    pub schema: String,
    /// Name, as given.
    pub name: String,
    /// What it gives.
    pub range: SequenceRange,
    /// What it gives next; `None` where it has given everything.
    pub(crate) next: Option<i64>,
}

/// The numbers of a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SequenceRange {
    /// The first one.
    pub start: i64,
    /// From one to the next; not 0.
    pub increment: i64,
    /// The least one.
    pub least: i64,
    /// The greatest one.
    pub greatest: i64,
    /// Whether it begins anew when it has given everything.
    pub cycles: bool,
}

impl SequenceRange {
    /// An error where there is no such sequence.
    pub(crate) fn check(&self) -> Result<()> {
        let wrong = match self {
            Self { increment: 0, .. } => "an increment of 0",
            range if range.least >= range.greatest => "a least value that is not less than its greatest",
            range if !(range.least..=range.greatest).contains(&range.start) => {
                "a start beyond its least and greatest value"
            }
            _ => return Ok(()),
        };
        Err(Error::input(format!("a sequence cannot have {wrong}")))
    }

    /// The number behind one.
    fn behind(&self, number: i64) -> Option<i64> {
        let next = number.checked_add(self.increment).filter(|next| (self.least..=self.greatest).contains(next));
        let first = if self.increment > 0 { self.least } else { self.greatest };
        next.or(self.cycles.then_some(first))
    }
}

impl Sequence {
    /// Its number, which no other object of the database has.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// What it has given last; `None` before the first one.
    pub fn last(&self) -> Option<i64> {
        let SequenceRange { start, increment, least, greatest, .. } = self.range;
        match self.next {
            Some(next) if next == start => None,
            Some(next) => next.checked_sub(increment).filter(|last| (least..=greatest).contains(last)),
            None => {
                let end = if increment > 0 { greatest } else { least };
                let steps = (i128::from(end) - i128::from(start)) / i128::from(increment);
                i64::try_from(i128::from(start) + steps * i128::from(increment)).ok()
            }
        }
    }

    /// Whether it is the same sequence, whatever it has given.
    pub fn is_declared_as(&self, other: &Self) -> bool {
        self.id == other.id && self.range == other.range
    }

    /// The next `count` numbers.
    pub(crate) fn take(&mut self, count: usize) -> Result<Vec<i64>> {
        let mut taken = Vec::with_capacity(count);
        for _ in 0..count {
            let Some(next) = self.next else {
                let message = format!("sequence {} has no number left", self.name);
                return Err(Error::new(ErrorKind::Constraint, message)
                    .hint("Make it anew, with CYCLE or another MAXVALUE or MINVALUE"));
            };
            taken.push(next);
            self.next = self.range.behind(next);
        }
        Ok(taken)
    }

    pub(crate) fn encode(&self) -> Writer {
        let mut row = Writer::default();
        row.blob(self.schema.as_bytes());
        row.blob(self.name.as_bytes());
        let SequenceRange { start, increment, least, greatest, cycles } = self.range;
        [start, increment, least, greatest].into_iter().for_each(|number| row.u64(number.cast_unsigned()));
        row.u8(u8::from(cycles));
        row.u8(u8::from(self.next.is_some()));
        row.u64(self.next.unwrap_or(0).cast_unsigned());
        row
    }

    pub(crate) fn decode(reader: &mut Reader<'_>, id: u64) -> Result<Self> {
        let (schema, name) = (reader.text()?, reader.text()?);
        let mut number = || reader.u64().map(u64::cast_signed);
        let (start, increment, least, greatest) = (number()?, number()?, number()?, number()?);
        let range = SequenceRange { start, increment, least, greatest, cycles: reader.flag()? };
        range.check().map_err(|error| reader.wrong(error.message()))?;
        let has_next = reader.flag()?;
        let next = Some(reader.u64()?.cast_signed()).filter(|_| has_next);
        if next.is_some_and(|next| !(least..=greatest).contains(&next)) {
            return Err(reader.wrong("its next number is not one of its numbers"));
        }
        Ok(Self { id, schema, name, range, next })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sequence(range: SequenceRange) -> Sequence {
        Sequence { id: 1, schema: "main".into(), name: "s".into(), range, next: Some(range.start) }
    }

    #[test]
    fn numbers_end_or_begin_anew() {
        let range = SequenceRange { start: 2, increment: 2, least: 1, greatest: 5, cycles: false };
        let mut ends = sequence(range);
        assert_eq!(ends.take(2).expect("two"), [2, 4]);
        assert_eq!(ends.take(1).expect_err("none").kind(), ErrorKind::Constraint);
        let mut cycles = sequence(SequenceRange { cycles: true, ..range });
        assert_eq!(cycles.take(5).expect("five"), [2, 4, 1, 3, 5]);
        let down = SequenceRange { start: -1, increment: -1, least: i64::MIN, greatest: -1, cycles: false };
        assert_eq!(sequence(down).take(3).expect("three"), [-1, -2, -3]);
        let last = SequenceRange { start: i64::MAX, increment: 1, least: 1, greatest: i64::MAX, cycles: false };
        assert_eq!(sequence(last).take(1).expect("one"), [i64::MAX]);
        assert!(sequence(last).take(2).is_err());
    }

    #[test]
    fn ranges_have_numbers() {
        let range = SequenceRange { start: 1, increment: 1, least: 1, greatest: 9, cycles: false };
        range.check().expect("a range");
        for wrong in [
            SequenceRange { increment: 0, ..range },
            SequenceRange { start: 10, ..range },
            SequenceRange { least: 9, ..range },
        ] {
            assert!(wrong.check().is_err(), "{wrong:?}");
        }
    }
}
