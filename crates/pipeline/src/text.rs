//! The text form of the IR, for people, for files of tests, and as the key of compiled code: it holds everything that
//! compilation depends on. `parse` reads it back.
//!
//! One exception: a test on a [`crate::KeySet`] is summed up, since nobody wants to read a million keys.

use std::fmt::{self, Display, Formatter};
use std::ops::Bound;

use forebay_base::Value;

use crate::ir::*;
use crate::names::Named;
use crate::{ColumnPredicate, Predicate};

impl Display for Program {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "program {} dictionaries", self.dictionaries)?;
        for (number, state) in self.states.iter().enumerate() {
            let letter = match state {
                State::Join(_) => JOIN_LETTER,
                State::Aggregate(_) => AGGREGATE_LETTER,
            };
            writeln!(f, "state {letter}{number}: {state}")?;
        }
        self.pipelines.iter().try_for_each(|pipeline| pipeline.fmt(f))
    }
}

/// Names of join states begin with it.
pub(crate) const JOIN_LETTER: char = 'j';
/// Names of aggregate states begin with it.
pub(crate) const AGGREGATE_LETTER: char = 'a';

impl Display for State {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Join(JoinState { keys, payload, keeps_all }) => {
                let suffix = if *keeps_all { " keeps all" } else { "" };
                write!(f, "join ({}) -> ({}){suffix}", List(keys), List(payload))
            }
            Self::Aggregate(AggregateState { keys, aggregates }) => {
                write!(f, "aggregate ({}) {{ {} }}", List(keys), List(aggregates))
            }
        }
    }
}

impl Display for Pipeline {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "pipeline\n  {}", self.source)?;
        self.steps.iter().try_for_each(|step| writeln!(f, "  {step}"))?;
        writeln!(f, "  {}", self.sink)
    }
}

impl Display for Source {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Table(table) => table.fmt(f),
            Self::Groups { state, columns } => write!(f, "groups {} ({})", Groups(state), List(columns)),
            Self::BuildRows { state, matched, columns } => {
                let which = if *matched { "matched" } else { "unmatched" };
                write!(f, "build rows {} {which} ({})", Build(state), List(columns))
            }
        }
    }
}

impl Display for TableSource {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "scan {} {} ({})", self.table, Name(&self.name), List(&self.columns))?;
        if self.tests.is_empty() { Ok(()) } else { write!(f, " where {}", List(&self.tests)) }
    }
}

impl Display for SourceColumn {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (name, physical) = (Name(&self.name), self.physical.name());
        write!(f, "{}: {} = column {} {name} {physical}", self.to, self.typed, self.column)?;
        match self.dictionary {
            Some(DictionaryId(dictionary)) => write!(f, " in d{dictionary}"),
            None => Ok(()),
        }
    }
}

impl Display for ColumnPredicate {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "column {} {}", self.column, self.test)
    }
}

impl Display for Predicate {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Range { low: Bound::Included(low), high: Bound::Included(high) } if low == high => {
                write!(f, "= {}", Plain(low))
            }
            Self::Range { low, high } => {
                match low {
                    Bound::Included(low) => write!(f, ">= {}", Plain(low))?,
                    Bound::Excluded(low) => write!(f, "> {}", Plain(low))?,
                    Bound::Unbounded => {}
                }
                match (low, high) {
                    (Bound::Unbounded, Bound::Unbounded) => f.write_str("unbounded")?,
                    (Bound::Unbounded, _) | (_, Bound::Unbounded) => {}
                    _ => f.write_str(" and ")?,
                }
                match high {
                    Bound::Included(high) => write!(f, "<= {}", Plain(high)),
                    Bound::Excluded(high) => write!(f, "< {}", Plain(high)),
                    Bound::Unbounded => Ok(()),
                }
            }
            Self::NotEqual(value) => write!(f, "<> {}", Plain(value)),
            Self::In(values) => write!(f, "in ({})", List(&plain(values))),
            Self::NotIn(values) => write!(f, "not in ({})", List(&plain(values))),
            Self::Keys(keys) => write!(f, "in <{} keys in {}..={}>", keys.count(), keys.low(), keys.high()),
            Self::Like { pattern, negated } => {
                let word = if *negated { "not like" } else { "like" };
                write!(f, "{word} {}", Quoted(pattern))
            }
            Self::IsNull => f.write_str("is null"),
            Self::IsNotNull => f.write_str("is not null"),
            Self::Never => f.write_str("never"),
        }
    }
}

impl Display for Step {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Compute(compute) => compute.fmt(f),
            Self::Filter(register) => write!(f, "filter {register}"),
            Self::Probe(probe) => probe.fmt(f),
        }
    }
}

impl Display for Compute {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} = {}", self.to, self.typed, self.op)?;
        if self.fits {
            f.write_str(" fits")?;
        }
        self.guard.map_or(Ok(()), |guard| write!(f, " if {guard}"))
    }
}

impl Display for Op {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant(constant) => write!(f, "const {constant}"),
            Self::Arithmetic(arithmetic, a, b) => write!(f, "{} {a}, {b}", arithmetic.name()),
            Self::Negate(a) => write!(f, "neg {a}"),
            Self::Compare(comparison, a, b) => write!(f, "{} {a}, {b}", comparison.name()),
            Self::And(a, b) => write!(f, "and {a}, {b}"),
            Self::Or(a, b) => write!(f, "or {a}, {b}"),
            Self::Not(a) => write!(f, "not {a}"),
            Self::IsNull(a) => write!(f, "is_null {a}"),
            Self::Select { condition, then, otherwise } => write!(f, "select {condition}, {then}, {otherwise}"),
            Self::Coalesce(a, b) => write!(f, "coalesce {a}, {b}"),
            Self::Convert(a) => write!(f, "convert {a}"),
            Self::DatePart(part, a) => write!(f, "{} {a}", part.name()),
            Self::Length(a) => write!(f, "length {a}"),
            Self::Like { value, pattern } => write!(f, "like {value}, {}", Quoted(pattern)),
            Self::In { value, list } => write!(f, "in {value}, ({})", List(list)),
            Self::Substring { value, start, length } => {
                write!(f, "substring {value}, {start}")?;
                length.map_or(Ok(()), |length| write!(f, ", {length}"))
            }
        }
    }
}

impl Display for Probe {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let state = Build(&self.state);
        let keys = List(&self.keys);
        write!(f, "probe {} {state} ({keys}) -> ({}){}", self.kind, Payload(&self.columns), When(&self.condition))
    }
}

impl Display for ProbeKind {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inner => f.write_str("inner"),
            Self::Left => f.write_str("left"),
            Self::Semi => f.write_str("semi"),
            Self::Anti => f.write_str("anti"),
            Self::Mark(to) => write!(f, "mark {to}"),
        }
    }
}

impl Display for Sink {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Build { state, keys, payload } => {
                write!(f, "build {} ({}) -> ({})", Build(state), List(keys), List(payload))
            }
            Self::Mark { state, keys, columns, condition } => {
                let (keys, columns) = (List(keys), Payload(columns));
                write!(f, "mark {} ({keys}) -> ({columns}){}", Build(state), When(condition))
            }
            Self::Aggregate { state, keys, arguments } => {
                let arguments: Vec<_> = arguments.iter().map(Argument).collect();
                write!(f, "aggregate {} ({}) {{ {} }}", Groups(state), List(keys), List(&arguments))
            }
            Self::Collect { columns } => write!(f, "collect ({})", List(columns)),
        }
    }
}

impl Display for Aggregate {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.function.name())?;
        self.argument.map_or(Ok(()), |argument| write!(f, "({argument})"))
    }
}

impl Display for Constant {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => value.fmt(f),
            Self::Int(value) => value.fmt(f),
            // With a point, an exponent or a word, so that it is not taken for an integer.
            Self::Float(value) => write!(f, "{value:?}"),
            Self::Bytes(value) => Quoted(value).fmt(f),
        }
    }
}

impl Display for Typed {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.value.name(), if self.nullable { "?" } else { "" })
    }
}

impl Display for Register {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "r{}", self.0)
    }
}

/// A join state's name.
struct Build<'a>(&'a StateId);

impl Display for Build<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{JOIN_LETTER}{}", self.0.0)
    }
}

/// An aggregate state's name.
struct Groups<'a>(&'a StateId);

impl Display for Groups<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{AGGREGATE_LETTER}{}", self.0.0)
    }
}

/// An argument of an aggregate.
struct Argument<'a>(&'a Option<Register>);

impl Display for Argument<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(register) => register.fmt(f),
            None => f.write_str("-"),
        }
    }
}

/// Payload columns that are read.
struct Payload<'a>(&'a [(usize, Register)]);

impl Display for Payload<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (number, (column, to)) in self.0.iter().enumerate() {
            write!(f, "{}{column} {to}", if number == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

/// A condition, if there is one.
struct When<'a>(&'a Option<Condition>);

impl Display for When<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Some(Condition { computes, passes }) = self.0 else { return Ok(()) };
        f.write_str(" when { ")?;
        computes.iter().try_for_each(|compute| write!(f, "{compute}; "))?;
        write!(f, "{passes} }}")
    }
}

/// Things with commas between them.
struct List<'a, T>(&'a [T]);

impl<T: Display> Display for List<'_, T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (number, item) in self.0.iter().enumerate() {
            write!(f, "{}{item}", if number == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

/// The value of a test, as the constant that it is.
struct Plain<'a>(&'a Value);

impl Display for Plain<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Int(value) => value.fmt(f),
            Value::Float(value) => Constant::Float(*value).fmt(f),
            Value::Bytes(value) => Quoted(value).fmt(f),
        }
    }
}

fn plain(values: &[Value]) -> Vec<Plain<'_>> {
    values.iter().map(Plain).collect()
}

/// A table's or column's name: bare where it is a plain word, which no word of the grammar follows.
struct Name<'a>(&'a str);

impl Display for Name<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let is_word = self.0.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && self.0.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if is_word { f.write_str(self.0) } else { Quoted(self.0.as_bytes()).fmt(f) }
    }
}

/// Bytes in quotes: what is text stands as it is, but for quotes, backslashes and control characters.
struct Quoted<'a>(&'a [u8]);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let escape = |f: &mut Formatter<'_>, bytes: &[u8]| bytes.iter().try_for_each(|byte| write!(f, "\\x{byte:02x}"));
        f.write_str("\"")?;
        for chunk in self.0.utf8_chunks() {
            for character in chunk.valid().chars() {
                match character {
                    '"' | '\\' => write!(f, "\\{character}")?,
                    '\n' => f.write_str("\\n")?,
                    '\t' => f.write_str("\\t")?,
                    _ if character.is_control() => escape(f, character.encode_utf8(&mut [0; 4]).as_bytes())?,
                    _ => write!(f, "{character}")?,
                }
            }
            escape(f, chunk.invalid())?;
        }
        f.write_str("\"")
    }
}
