//! The pipeline IR: what a query computes, whatever executes it (Data Blocks §4; HippogriffDB §5).
//!
//! A [`Program`] is a list of [`State`]s and of [`Pipeline`]s in the order in which they run. A pipeline takes the rows of
//! its [`Source`] through its [`Step`]s into its [`Sink`]; the sink fills one state, which later pipelines probe or scan.
//! Values are in single assignment form: a [`Register`] is written by one place of one pipeline and read only after it.
//!
//! Meaning, the same on every execution:
//! - a register of a nullable type may be NULL; operations give NULL where an operand is NULL, but for `and`, `or`
//!   (Kleene's logic), [`Op::IsNull`], [`Op::Select`] and [`Op::Coalesce`];
//! - integers never wrap: an operation whose result does not fit is an error, and so is division by zero;
//! - floats are ordered with NaN equal to itself and above all others, and -0.0 is 0.0: the result of an operation is
//!   canonical ([`forebay_base::canonical_f64`]), so that equal values divide alike;
//! - NULL keys of a join match nothing; NULL keys of a group are one group.
//!
//! Must not know: encodings, files, Arrow, how states are laid out in memory.

use std::sync::Arc;

use forebay_base::PhysicalType;

use crate::ColumnPredicate;

/// The type of a value while it is computed with. Narrower integers, dates, times and timestamps are widened to
/// [`ValueType::I64`] when they are loaded, decimals of more than 18 digits and unsigned 64-bit integers to
/// [`ValueType::I128`], binary32 to [`ValueType::F64`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ValueType {
    /// true or false.
    Bool,
    /// 8-byte signed integer.
    I64,
    /// 16-byte signed integer.
    I128,
    /// binary64.
    F64,
    /// Text or blob.
    Bytes,
}

/// A value type and whether its values may be NULL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Typed {
    /// The type.
    pub value: ValueType,
    /// Values may be NULL.
    pub nullable: bool,
}

/// A value that one place of a pipeline computes for each row. Registers of a pipeline are numbered from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Register(pub u32);

/// A state of the program, by its position in [`Program::states`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StateId(pub u32);

/// A dictionary of the program, by number: the strings that a query met in some columns, each with an id. Two columns
/// that share a dictionary give equal ids to equal strings. Ids have no order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DictionaryId(pub u32);

/// A whole query.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Program {
    /// Number of dictionaries.
    pub dictionaries: u32,
    /// What pipelines leave behind.
    pub states: Vec<State>,
    /// In the order in which they run. The last one ends in [`Sink::Collect`], and no other one does.
    pub pipelines: Vec<Pipeline>,
}

/// What a pipeline leaves behind for later ones.
#[derive(Debug, Clone, PartialEq)]
pub enum State {
    /// The build side of a join.
    Join(JoinState),
    /// Groups with their aggregates.
    Aggregate(AggregateState),
}

/// Rows by key.
#[derive(Debug, Clone, PartialEq)]
pub struct JoinState {
    /// Types of the key's parts, at least one. NULL keys are not kept unless [`JoinState::keeps_all`].
    pub keys: Vec<Typed>,
    /// Types of the columns that probes can read.
    pub payload: Vec<Typed>,
    /// Rows are kept even if their key is NULL, because the state is scanned afterwards.
    pub keeps_all: bool,
}

/// Groups by key.
#[derive(Debug, Clone, PartialEq)]
pub struct AggregateState {
    /// Types of the key's parts. Without any there is exactly one group, also over no row.
    pub keys: Vec<Typed>,
    /// The aggregates.
    pub aggregates: Vec<Aggregate>,
}

/// One aggregate of a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Aggregate {
    /// What is computed.
    pub function: AggregateFunction,
    /// The type of the argument; `None` for [`AggregateFunction::CountRows`].
    pub argument: Option<Typed>,
}

/// Aggregate functions. NULL arguments are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AggregateFunction {
    /// Number of rows. Gives I64.
    CountRows,
    /// Number of arguments that are not NULL. Gives I64.
    Count,
    /// Sum in the argument's type, an error where it does not fit; NULL over nothing. I64 arguments are summed in
    /// I128, so that no order of adding fails, and must fit I64 in the end.
    Sum,
    /// Sum of I64 arguments in I128; NULL over nothing. Gives I128.
    SumWide,
    /// Sum of I64 arguments in I64, where the bounds of the columns prove that any sum of rows fits; NULL over nothing.
    SumFitting,
    /// Least argument; NULL over nothing.
    Min,
    /// Greatest argument; NULL over nothing.
    Max,
    /// Any argument; NULL over nothing.
    First,
}

/// One pipeline.
#[derive(Debug, Clone, PartialEq)]
pub struct Pipeline {
    /// Where its rows come from.
    pub source: Source,
    /// What is done with each row.
    pub steps: Vec<Step>,
    /// Where the rows go.
    pub sink: Sink,
}

/// Where rows come from.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// A table.
    Table(TableSource),
    /// The groups of a finished aggregation: keys, then aggregates, each as a register.
    Groups {
        /// An aggregate state.
        state: StateId,
        /// One register per key and aggregate.
        columns: Vec<Register>,
    },
    /// The rows of a build side by whether a [`Sink::Mark`] met them.
    BuildRows {
        /// A join state that keeps all rows.
        state: StateId,
        /// Rows that were met, or those that were not.
        matched: bool,
        /// One register per key part and payload column.
        columns: Vec<Register>,
    },
}

/// A table that is scanned.
#[derive(Debug, Clone, PartialEq)]
pub struct TableSource {
    /// Position in the list of tables that the program is bound to.
    pub table: usize,
    /// The table's name, for readers.
    pub name: String,
    /// The columns that are loaded.
    pub columns: Vec<SourceColumn>,
    /// Tests that rows must pass, evaluated on codes; by position in the table's list of columns.
    pub tests: Vec<ColumnPredicate>,
}

/// A column that a scan loads.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceColumn {
    /// Position in the table's list of columns.
    pub column: usize,
    /// The column's name, for readers.
    pub name: String,
    /// How the table stores it.
    pub physical: PhysicalType,
    /// What is loaded. [`ValueType::Bool`] for columns of booleans; [`ValueType::I64`] for a column of strings with a
    /// dictionary; [`SourceColumn::widened`] for all others.
    pub typed: Typed,
    /// Strings are loaded as their ids in this dictionary.
    pub dictionary: Option<DictionaryId>,
    /// Where it goes.
    pub to: Register,
}

/// One step. Rows go through the steps in order.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Computes a register.
    Compute(Compute),
    /// Only rows for which the register is true go on; NULL is not true.
    Filter(Register),
    /// Looks a join state up.
    Probe(Probe),
}

/// `to = op`, only where `guard` is true: elsewhere `to` holds anything and must not be used.
#[derive(Debug, Clone, PartialEq)]
pub struct Compute {
    /// Where the result goes.
    pub to: Register,
    /// Its type.
    pub typed: Typed,
    /// What is computed.
    pub op: Op,
    /// A Bool. Operations that can fail within a CASE are only done where their branch is taken: what reads `to` is
    /// guarded likewise, cannot fail, or is a [`Op::Select`] that does not choose it. Nothing else may depend on it.
    pub guard: Option<Register>,
    /// The bounds of the columns prove that the result fits its type, so that no execution needs to check.
    pub fits: bool,
}

/// A join with a build side.
#[derive(Debug, Clone, PartialEq)]
pub struct Probe {
    /// A finished join state.
    pub state: StateId,
    /// What goes on.
    pub kind: ProbeKind,
    /// The probe's side of the key, one register per part, of the state's types but for NULLs.
    pub keys: Vec<Register>,
    /// The payload columns that are read: position in the state's payload, and where it goes. Nullable after
    /// [`ProbeKind::Left`]. With [`ProbeKind::Semi`] and [`ProbeKind::Anti`] only the condition may read them.
    pub columns: Vec<(usize, Register)>,
    /// What a pair of rows must pass besides equal keys, for a match.
    pub condition: Option<Condition>,
}

/// Computed for each pair of rows with equal keys. Its registers are read only by itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    /// In order.
    pub computes: Vec<Compute>,
    /// The pair matches where this is true.
    pub passes: Register,
}

/// What becomes of a probing row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProbeKind {
    /// Goes on once for every match.
    Inner,
    /// Goes on once for every match, or once with NULLs where there is none.
    Left,
    /// Goes on once if there is a match.
    Semi,
    /// Goes on once if there is no match.
    Anti,
    /// Goes on once, with whether there is a match in this register (never NULL).
    Mark(Register),
}

/// Where rows go.
#[derive(Debug, Clone, PartialEq)]
pub enum Sink {
    /// Into a build side.
    Build {
        /// A join state.
        state: StateId,
        /// One register per key part.
        keys: Vec<Register>,
        /// One register per payload column.
        payload: Vec<Register>,
    },
    /// Marks the rows of a build side that match, for [`Source::BuildRows`].
    Mark {
        /// A finished join state that keeps all rows.
        state: StateId,
        /// One register per key part.
        keys: Vec<Register>,
        /// The payload columns that the condition reads.
        columns: Vec<(usize, Register)>,
        /// What a pair must pass besides equal keys.
        condition: Option<Condition>,
    },
    /// Into groups.
    Aggregate {
        /// An aggregate state.
        state: StateId,
        /// One register per key part.
        keys: Vec<Register>,
        /// One argument per aggregate; `None` for [`AggregateFunction::CountRows`].
        arguments: Vec<Option<Register>>,
    },
    /// The query's result, in any order.
    Collect {
        /// The columns of the result.
        columns: Vec<Register>,
    },
}

/// Arithmetic of two numbers of one type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Arithmetic {
    /// Sum.
    Add,
    /// Difference.
    Subtract,
    /// Product.
    Multiply,
    /// Quotient: integers are cut towards zero, and division by zero is an error; floats as IEEE 754 has it.
    Divide,
    /// Remainder with the dividend's sign; integers only. The least value by -1 leaves 0; by zero is an error.
    Remainder,
    /// Quotient rounded half away from zero, for decimals; integers only.
    DivideRounded,
}

impl Arithmetic {
    /// All of them, by number.
    pub const ALL: [Self; 6] =
        [Self::Add, Self::Subtract, Self::Multiply, Self::Divide, Self::Remainder, Self::DivideRounded];
}

/// Comparisons of two values of one type; bytes are compared as unsigned bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Comparison {
    /// =
    Equal,
    /// <>
    NotEqual,
    /// <
    Less,
    /// <=
    LessOrEqual,
    /// >
    Greater,
    /// >=
    GreaterOrEqual,
}

/// Parts of a date.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DatePart {
    /// The year, astronomical.
    Year,
    /// 1 to 12.
    Month,
    /// 1 to 31.
    Day,
}

/// What an operation computes.
#[derive(Debug, Clone, PartialEq)]
pub enum Op {
    /// A constant; NULL has the type of the register that it goes to.
    Constant(Constant),
    /// Two numbers of the result's type.
    Arithmetic(Arithmetic, Register, Register),
    /// The number with its sign changed.
    Negate(Register),
    /// Two values of one type; gives a Bool.
    Compare(Comparison, Register, Register),
    /// Kleene's and.
    And(Register, Register),
    /// Kleene's or.
    Or(Register, Register),
    /// Not.
    Not(Register),
    /// Whether it is NULL; never NULL itself.
    IsNull(Register),
    /// `then` where `condition` is true, else `otherwise`; all of the result's type.
    Select {
        /// A Bool.
        condition: Register,
        /// Where true.
        then: Register,
        /// Where false or NULL.
        otherwise: Register,
    },
    /// The first one, or the second where the first is NULL.
    Coalesce(Register, Register),
    /// A number (or Bool, as 0 and 1) as the result's type; an error where it does not fit. Integers become the
    /// nearest float; floats do not become integers.
    Convert(Register),
    /// Part of a date given as I64 days since 1970-01-01; gives an I64.
    DatePart(DatePart, Register),
    /// Number of characters of a text; gives an I64.
    Length(Register),
    /// Whether bytes match a pattern of LIKE; gives a Bool.
    Like {
        /// Bytes.
        value: Register,
        /// `%` is any text, `_` one character (of UTF-8), `\` takes the next character as it is.
        pattern: Arc<[u8]>,
    },
    /// Whether a value is one of these constants, none of them NULL; gives a Bool.
    In {
        /// Any type.
        value: Register,
        /// Of the value's type, sorted, without duplicates.
        list: Arc<[Constant]>,
    },
    /// The characters `start..start + length` of a text, counted from 1, as SQL's substring.
    Substring {
        /// Text.
        value: Register,
        /// First character, counted from 1; may be below.
        start: i64,
        /// Number of characters; `None` for all that follow.
        length: Option<i64>,
    },
}

/// A constant.
#[derive(Debug, Clone, PartialEq)]
pub enum Constant {
    /// NULL.
    Null,
    /// true or false.
    Bool(bool),
    /// An integer, of the type of the register that it goes to: I64 or I128.
    Int(i128),
    /// A float.
    Float(f64),
    /// Text or blob.
    Bytes(Arc<[u8]>),
}

impl Typed {
    /// A type whose values are never NULL.
    pub const fn required(value: ValueType) -> Self {
        Self { value, nullable: false }
    }

    /// A type whose values may be NULL.
    pub const fn nullable(value: ValueType) -> Self {
        Self { value, nullable: true }
    }
}

impl SourceColumn {
    /// The type in which values of `physical` are computed with.
    pub fn widened(physical: PhysicalType) -> ValueType {
        match physical {
            PhysicalType::I8 | PhysicalType::I16 | PhysicalType::I32 | PhysicalType::I64 => ValueType::I64,
            PhysicalType::U8 | PhysicalType::U16 | PhysicalType::U32 => ValueType::I64,
            PhysicalType::U64 | PhysicalType::I128 => ValueType::I128,
            PhysicalType::F32 | PhysicalType::F64 => ValueType::F64,
            PhysicalType::Bytes => ValueType::Bytes,
        }
    }
}

impl Aggregate {
    /// The type of the result.
    pub fn result(&self) -> Typed {
        let argument = self.argument.map_or(ValueType::I64, |argument| argument.value);
        match self.function {
            AggregateFunction::CountRows | AggregateFunction::Count => Typed::required(ValueType::I64),
            AggregateFunction::SumWide => Typed::nullable(ValueType::I128),
            AggregateFunction::Sum
            | AggregateFunction::SumFitting
            | AggregateFunction::Min
            | AggregateFunction::Max
            | AggregateFunction::First => Typed::nullable(argument),
        }
    }
}

impl Sink {
    /// The state that it fills; marks change a state that is there.
    pub fn fills(&self) -> Option<StateId> {
        match self {
            Self::Build { state, .. } | Self::Aggregate { state, .. } => Some(*state),
            Self::Mark { .. } | Self::Collect { .. } => None,
        }
    }
}
