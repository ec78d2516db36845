//! Code generation: a pipeline of the IR becomes the text of one kernel in CUDA C++ (Crystal; HippogriffDB §5).
//!
//! A kernel goes through tiles of rows. In a thread, a register of the IR is a small array, one value for each item of the
//! thread; truths, NULLs and the rows that are left are bits of one word. How blocks are encoded is no part of the text:
//! access forms are parameters. Columns are loaded where they are first needed, so that rows which are gone by then cost
//! nothing.
//! Invariants: equal pipelines and shapes give equal texts; what cannot be said is an error of kind `Unsupported` whose
//! message is the reason. Must not know: blocks, devices.

mod compute;
mod look_up;
mod sink;

use std::fmt::Write as _;
use std::ops::Bound;

use forebay_base::{Error, PhysicalType, Result, Value};
use forebay_pipeline::ir::{
    DatePart, Pipeline, Program, Register, Sink, Source, SourceColumn, StateId, Step, TableSource, Typed, ValueType,
};
use forebay_pipeline::{Predicate, register_types, verify};

use crate::parameters::loaded_as;

/// What a text depends on besides its pipeline.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct StatePlaces {
    /// By state: it is a build side that lies on the device.
    pub builds: Vec<bool>,
    /// Where the groups are counted that the pipeline fills.
    pub groups: Option<GroupPlace>,
    /// Keys and payload of a build side are written as the columns of a result are, for the host to make its table of them.
    pub listed: bool,
}

/// Where groups are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GroupPlace {
    /// There is one group: in registers.
    One,
    /// In the shared memory of each block, and added up at its end.
    Shared,
    /// In device memory.
    Global,
}

/// A kernel and what it must be given.
#[derive(Debug, Clone, PartialEq)]
pub struct Kernel {
    /// CUDA C++ that includes the headers of [`crate::kernels`] and defines [`NAME`].
    pub text: String,
    /// The columns of each block, in order.
    pub columns: Vec<ColumnInput>,
    /// The columns of the table that are tested, by position in the source's list of tests.
    pub tests: Vec<usize>,
    /// The build sides that are probed.
    pub builds: Vec<BuildInput>,
    /// The payload columns that are read: position in [`Kernel::builds`], and in the state's payload.
    pub payloads: Vec<(usize, usize)>,
}

/// A column that a kernel reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnInput {
    /// Position in the table's list of columns.
    pub column: usize,
    /// The type that it is loaded as; `None` where it is only tested.
    pub loaded_as: Option<PhysicalType>,
}

/// A build side that a kernel probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuildInput {
    /// The state.
    pub state: StateId,
    /// No two of its rows may have one key.
    pub is_unique: bool,
}

/// The name of every kernel.
pub const NAME: &str = "pipeline";

/// The kernel of a pipeline.
pub fn emit(program: &Program, pipeline: usize, state_places: &StatePlaces) -> Result<Kernel> {
    verify(program)?;
    let pipeline = program.pipelines.get(pipeline).ok_or_else(|| Error::internal("there is no such pipeline"))?;
    let Source::Table(source) = &pipeline.source else {
        return Err(unsupported("a state is read on the CPU"));
    };
    let mut emitter = Emitter {
        program,
        source,
        state_places,
        types: register_types(program, pipeline)?,
        body: String::new(),
        depth: 2,
        loaded: Vec::new(),
        computes: false,
        masks: 0,
        columns: Vec::new(),
        tests: Vec::new(),
        builds: Vec::new(),
        payloads: Vec::new(),
    };
    emitter.loaded = vec![false; emitter.types.len()];
    emitter.scan()?;
    emitter.steps(pipeline)?;
    let sink = emitter.sink(&pipeline.sink)?;
    Ok(emitter.finish(&sink))
}

fn unsupported(reason: impl Into<String>) -> Error {
    Error::unsupported(reason)
}

/// What a sink adds to a kernel around its loop.
#[derive(Debug, Default)]
struct Frame {
    /// The header of what it calls.
    header: &'static str,
    /// Members of the parameters.
    parameters: String,
    before: String,
    after: String,
}

/// The text while it is written.
struct Emitter<'a> {
    program: &'a Program,
    source: &'a TableSource,
    state_places: &'a StatePlaces,
    types: Vec<Option<Typed>>,
    body: String,
    /// Levels of indentation.
    depth: usize,
    /// By register: a column that was loaded.
    loaded: Vec<bool>,
    /// Something is computed.
    computes: bool,
    /// Masks without a register so far.
    masks: usize,
    columns: Vec<ColumnInput>,
    tests: Vec<usize>,
    builds: Vec<BuildInput>,
    payloads: Vec<(usize, usize)>,
}

impl Emitter<'_> {
    /// Writes a line of the loop.
    fn line(&mut self, text: impl AsRef<str>) {
        let _ = writeln!(self.body, "{}{}", "    ".repeat(self.depth), text.as_ref());
    }

    fn typed(&self, register: Register) -> Typed {
        self.types[register.0 as usize].expect("verified: a register that is read was written")
    }

    /// The mask of a register's NULLs; "0" where it has none.
    fn nulls(&self, register: Register) -> String {
        if self.typed(register).nullable { format!("n{}", register.0) } else { "0".to_owned() }
    }

    /// Where one of several registers is NULL; "0" where none can be.
    fn any_null(&self, registers: &[Register]) -> String {
        let mut masks: Vec<String> = registers.iter().map(|register| self.nulls(*register)).collect();
        masks.retain(|mask| mask != "0");
        masks.dedup();
        if masks.is_empty() { "0".to_owned() } else { masks.join(" | ") }
    }

    /// The mask of where a Bool is true.
    fn truth(&self, register: Register) -> String {
        match self.typed(register).nullable {
            true => format!("({register} & ~n{})", register.0),
            false => register.to_string(),
        }
    }

    /// The items of `pass` at which none of these registers is NULL.
    fn live(&self, pass: &str, registers: &[Register]) -> String {
        match self.any_null(registers).as_str() {
            "0" => pass.to_owned(),
            nulls => format!("({pass} & ~({nulls}))"),
        }
    }

    /// A new name for a mask.
    fn mask(&mut self) -> String {
        self.masks += 1;
        format!("m{}", self.masks - 1)
    }

    /// Declares a register's values. Bool registers are masks.
    fn declare(&mut self, register: Register) -> Result<&'static str> {
        let name = type_name(self.typed(register).value)?;
        self.line(format!("{name} {register}[ITEMS];"));
        Ok(name)
    }

    /// Position of a column of the table in the blocks' descriptors.
    fn column(&mut self, column: usize, loaded: Option<PhysicalType>) -> usize {
        let at = self.columns.iter().position(|known| known.column == column).unwrap_or_else(|| {
            self.columns.push(ColumnInput { column, loaded_as: None });
            self.columns.len() - 1
        });
        self.columns[at].loaded_as = self.columns[at].loaded_as.or(loaded);
        at
    }

    fn scan(&mut self) -> Result<()> {
        for (number, test) in self.source.tests.iter().enumerate() {
            let column = self.column(test.column, None);
            self.tests.push(test.column);
            let filter = if names_floats(&test.test) { "filter_floats" } else { "filter" };
            self.line(format!("pass = {filter}(tests[{number}], columns[{column}], tile, pass);"));
        }
        Ok(())
    }

    /// Loads the columns of the source among these registers that are not loaded yet.
    fn need(&mut self, registers: &[Register]) -> Result<()> {
        for register in registers {
            let source = self.source.columns.iter().find(|column| column.to == *register);
            if let Some(column) = source.filter(|_| !self.loaded[register.0 as usize]) {
                self.loaded[register.0 as usize] = true;
                self.load(column)?;
            }
        }
        Ok(())
    }

    fn load(&mut self, column: &SourceColumn) -> Result<()> {
        let stored = loaded_as(column.physical, column.dictionary.is_some())?;
        let at = self.column(column.column, Some(stored));
        let to = column.to;
        self.line(format!("// {}", one_line(&column.name)));
        if column.typed.nullable {
            self.line(format!("Mask n{} = load_nulls(columns[{at}], tile);", to.0));
        }
        if column.typed.value == ValueType::Bool {
            self.line(format!("Mask {to} = unpack_truth(columns[{at}], tile, pass);"));
            return Ok(());
        }
        self.declare(to)?;
        self.line(format!("unpack<{}>(columns[{at}], tile, pass, {to});", stored_name(stored)));
        Ok(())
    }

    fn steps(&mut self, pipeline: &Pipeline) -> Result<()> {
        for step in &pipeline.steps {
            self.line(format!("// {}", one_line(&step.to_string())));
            match step {
                Step::Compute(compute) => self.compute(compute, "pass")?,
                Step::Filter(register) => {
                    self.need(&[*register])?;
                    let truth = self.truth(*register);
                    self.line(format!("pass &= {truth};"));
                }
                Step::Probe(probe) => self.probe(probe)?,
            }
        }
        Ok(())
    }

    fn sink(&mut self, sink: &Sink) -> Result<Frame> {
        match sink {
            Sink::Build { keys, payload, .. } if self.state_places.listed => {
                self.collect(&[&keys[..], payload].concat())
            }
            Sink::Build { state, keys, payload } => self.build(*state, keys, payload),
            Sink::Aggregate { state, keys, arguments } => self.aggregate(*state, keys, arguments),
            Sink::Collect { columns } => self.collect(columns),
            Sink::Mark { .. } => Err(unsupported("rows of a build side are marked on the CPU")),
        }
    }

    fn finish(self, sink: &Frame) -> Kernel {
        let mut text = String::new();
        for header in ["tile", "compute", "unpack", "filter", "probe", "aggregate", "store"] {
            let is_used = match header {
                "compute" => self.computes,
                "unpack" => self.loaded.contains(&true),
                "filter" => !self.tests.is_empty(),
                "probe" => !self.builds.is_empty() || sink.header == header,
                "aggregate" | "store" => sink.header == header,
                _ => true,
            };
            if is_used {
                let _ = writeln!(text, "#include \"{header}.cuh\"");
            }
        }
        text.push_str("\nstruct Parameters {\n    Task task;\n");
        let mut member = |kind: &str, name: &str, count: usize| {
            if count > 0 {
                let _ = writeln!(text, "    {kind} {name}[{count}];");
            }
        };
        member("Build", "builds", self.builds.len());
        member("Payload", "payloads", self.payloads.len());
        let _ = write!(text, "{}}};\n\nKERNEL({NAME}, Parameters) {{\n    u32 faults = 0;\n", sink.parameters);
        let _ = write!(text, "{}", sink.before);
        text.push_str("    for (u64 number = blockIdx.x; number < p.task.tiles; number += gridDim.x) {\n");
        text.push_str("        Tile tile = tile_at(p.task, number);\n");
        if !self.columns.is_empty() {
            let count = self.columns.len();
            let _ = writeln!(text, "        const Column* columns = p.task.columns + (u64)tile.block * {count};");
        }
        if !self.tests.is_empty() {
            let count = self.tests.len();
            let _ = writeln!(text, "        const Test* tests = p.task.tests + (u64)tile.block * {count};");
        }
        text.push_str("        Mask pass = tile.rows;\n");
        text.push_str(&self.body);
        let _ = write!(text, "    }}\n{}    report(p.task, faults);\n}}\n", sink.after);
        Kernel { text, columns: self.columns, tests: self.tests, builds: self.builds, payloads: self.payloads }
    }
}

/// Whether a test is one of floats. Its values are of the family of its column; where it names none, it may be either.
fn names_floats(test: &Predicate) -> bool {
    let is_float = |value: &Value| matches!(value, Value::Float(_));
    match test {
        Predicate::Range { low, high } => {
            let mut named = [low, high].into_iter().filter_map(|bound| match bound {
                Bound::Included(value) | Bound::Excluded(value) => Some(value),
                Bound::Unbounded => None,
            });
            named.next().is_none_or(is_float)
        }
        Predicate::NotEqual(value) => is_float(value),
        Predicate::In(values) | Predicate::NotIn(values) => values.first().is_none_or(is_float),
        Predicate::Keys(_) | Predicate::Like { .. } | Predicate::IsNull | Predicate::IsNotNull | Predicate::Never => {
            false
        }
    }
}

/// A comment may not go on in the next line.
fn one_line(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() || letter == '\\' { ' ' } else { letter }).collect()
}

/// The name of a type that is computed with.
fn type_name(value: ValueType) -> Result<&'static str> {
    match value {
        ValueType::I64 => Ok("i64"),
        ValueType::I128 => Ok("i128"),
        ValueType::F64 => Ok("f64"),
        ValueType::Bool => Ok("Mask"),
        ValueType::Bytes => Err(unsupported("text is computed with")),
    }
}

/// The name of a stored type. Strings are never read as such.
fn stored_name(physical: PhysicalType) -> &'static str {
    match physical {
        PhysicalType::I8 => "i8",
        PhysicalType::I16 => "i16",
        PhysicalType::I32 => "i32",
        PhysicalType::I64 => "i64",
        PhysicalType::I128 => "i128",
        PhysicalType::U8 => "u8",
        PhysicalType::U16 => "u16",
        PhysicalType::U32 | PhysicalType::Bytes => "u32",
        PhysicalType::U64 => "u64",
        PhysicalType::F32 => "f32",
        PhysicalType::F64 => "f64",
    }
}

fn date_part_name(part: DatePart) -> &'static str {
    match part {
        DatePart::Year => "YEAR",
        DatePart::Month => "MONTH",
        DatePart::Day => "DAY",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_of_floats_is_known_by_what_it_names() {
        let range = |low, high| Predicate::Range { low, high };
        let (int, float) = (Value::Int(1), Value::Float(1.0));
        assert!(names_floats(&Predicate::equal(float.clone())));
        assert!(names_floats(&range(Bound::Unbounded, Bound::Excluded(float.clone()))));
        assert!(names_floats(&Predicate::NotEqual(float.clone())));
        assert!(names_floats(&Predicate::NotIn(vec![float.clone()])));
        assert!(names_floats(&Predicate::one_of(vec![float.clone(), Value::Float(2.0)])));
        // They may be of floats.
        assert!(names_floats(&range(Bound::Unbounded, Bound::Unbounded)));
        assert!(names_floats(&Predicate::NotIn(Vec::new())));
        assert!(!names_floats(&range(Bound::Included(int.clone()), Bound::Unbounded)));
        assert!(!names_floats(&Predicate::NotEqual(int)));
        assert!(!names_floats(&Predicate::equal(Value::Bytes(Vec::new()))));
        assert!(!names_floats(&Predicate::IsNotNull));
    }
}
