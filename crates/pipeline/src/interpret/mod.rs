//! Runs programs row by row: the definition that every other execution is compared with, written for plainness.
//!
//! Invariants: what a compiled program may rely on is checked here while it runs: NULL only where the type allows it,
//! results that were said to fit, and that nothing depends on a register whose guard was not true. A breach is an
//! internal error.
//! Must not know: tables, how rows are stored.

mod evaluate;
mod state;

use forebay_base::{Error, Result};

use crate::Scalar;
use crate::ir::*;
use evaluate::{Registers, undefined};
use state::{Groups, JoinRows};

/// A program while it runs. Its pipelines are run in order, each once.
#[derive(Debug)]
pub struct Machine {
    program: Program,
    /// Number of the pipeline that runs next.
    next: usize,
    states: Vec<Finished>,
    result: Vec<Vec<Scalar>>,
    counts: Counts,
}

/// How many rows there were in the pipeline that ran last.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Rows of its source.
    pub came: u64,
    /// Rows that left each step; 0 for computations, which let all pass.
    pub steps: Vec<u64>,
    /// Rows of the state or result that it filled; 0 where it marked.
    pub filled: u64,
}

/// A state as later pipelines see it.
#[derive(Debug)]
enum Finished {
    Nothing,
    Join(JoinRows),
    Groups(Groups),
}

/// What a pipeline leaves while it runs.
struct Run {
    filling: Filling,
    came: u64,
    /// By step.
    passed: Vec<u64>,
}

/// What a pipeline fills while it runs.
enum Filling {
    Join(JoinRows),
    Groups(Groups),
    /// Rows of a build side that were met.
    Marks(Vec<bool>),
    Result(Vec<Vec<Scalar>>),
}

impl Machine {
    /// A program that has not begun. It must be one that [`crate::verify()`] accepts.
    pub fn new(program: &Program) -> Self {
        let states = program.states.iter().map(|_| Finished::Nothing).collect();
        Self { program: program.clone(), next: 0, states, result: Vec::new(), counts: Counts::default() }
    }

    /// Runs a pipeline over the rows of its table: the source's columns in order, of the rows that pass its tests.
    pub fn run(&mut self, pipeline: usize, rows: &mut dyn Iterator<Item = Result<Vec<Scalar>>>) -> Result<()> {
        let Source::Table(table) = &self.begin(pipeline)?.source else {
            return Err(Error::internal(format!("pipeline {pipeline} reads a state, not rows")));
        };
        let columns: Vec<(Register, Typed)> = table.columns.iter().map(|column| (column.to, column.typed)).collect();
        self.drive(pipeline, &columns, rows)
    }

    /// Runs a pipeline whose source is a state.
    pub fn run_state(&mut self, pipeline: usize) -> Result<()> {
        let (columns, rows) = match &self.begin(pipeline)?.source {
            Source::Table(_) => return Err(Error::internal(format!("pipeline {pipeline} reads a table"))),
            Source::Groups { state, columns } => {
                let groups = self.groups(*state)?;
                (groups.types().into_iter().zip(columns), groups.rows()?)
            }
            Source::BuildRows { state, matched, columns } => {
                let join = self.join(*state)?;
                (join.types().into_iter().zip(columns), join.rows(*matched))
            }
        };
        let columns: Vec<(Register, Typed)> = columns.map(|(typed, register)| (*register, typed)).collect();
        self.drive(pipeline, &columns, &mut rows.into_iter().map(Ok))
    }

    /// The rows that the pipeline that ran last had.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The rows of the last pipeline, in no order.
    pub fn into_result(self) -> Vec<Vec<Scalar>> {
        self.result
    }

    fn begin(&self, pipeline: usize) -> Result<&Pipeline> {
        if pipeline != self.next {
            return Err(Error::internal(format!("pipeline {pipeline} runs when {} is next", self.next)));
        }
        self.program.pipelines.get(pipeline).ok_or_else(|| Error::internal("the program is over"))
    }

    fn join(&self, state: StateId) -> Result<&JoinRows> {
        match &self.states[state.0 as usize] {
            Finished::Join(rows) => Ok(rows),
            _ => Err(Error::internal(format!("state {} is no finished build side", state.0))),
        }
    }

    fn groups(&self, state: StateId) -> Result<&Groups> {
        match &self.states[state.0 as usize] {
            Finished::Groups(groups) => Ok(groups),
            _ => Err(Error::internal(format!("state {} has no finished groups", state.0))),
        }
    }

    fn drive(
        &mut self,
        number: usize,
        columns: &[(Register, Typed)],
        rows: &mut dyn Iterator<Item = Result<Vec<Scalar>>>,
    ) -> Result<()> {
        let pipeline = &self.program.pipelines[number];
        let mut run = Run { filling: self.start(&pipeline.sink)?, came: 0, passed: vec![0; pipeline.steps.len()] };
        let mut registers = Registers::default();
        for row in rows {
            let row = row?;
            run.came += 1;
            registers.clear();
            if row.len() != columns.len() {
                return Err(Error::internal(format!("a row has {} columns, not {}", row.len(), columns.len())));
            }
            for ((register, typed), value) in columns.iter().zip(row) {
                registers.set(*register, *typed, Some(value))?;
            }
            self.steps(pipeline, 0, &mut registers, &mut run)?;
        }
        self.finish(number, run)
    }

    fn start(&self, sink: &Sink) -> Result<Filling> {
        Ok(match sink {
            Sink::Build { state, .. } => match &self.program.states[state.0 as usize] {
                State::Join(join) => Filling::Join(JoinRows::new(join)),
                State::Aggregate(_) => return Err(Error::internal("a build side in groups")),
            },
            Sink::Aggregate { state, .. } => match &self.program.states[state.0 as usize] {
                State::Aggregate(groups) => Filling::Groups(Groups::new(groups)),
                State::Join(_) => return Err(Error::internal("groups in a build side")),
            },
            Sink::Mark { state, .. } => Filling::Marks(vec![false; self.join(*state)?.len()]),
            Sink::Collect { .. } => Filling::Result(Vec::new()),
        })
    }

    fn finish(&mut self, number: usize, run: Run) -> Result<()> {
        let sink = &self.program.pipelines[number].sink;
        let mut filled = 0;
        match (sink, run.filling) {
            (Sink::Build { state, .. }, Filling::Join(rows)) => {
                filled = rows.len();
                self.states[state.0 as usize] = Finished::Join(rows);
            }
            (Sink::Aggregate { state, .. }, Filling::Groups(groups)) => {
                // Sums that do not fit fail here, also where nothing reads them.
                filled = groups.rows()?.len();
                self.states[state.0 as usize] = Finished::Groups(groups);
            }
            (Sink::Mark { state, .. }, Filling::Marks(marks)) => match &mut self.states[state.0 as usize] {
                Finished::Join(rows) => rows.mark(&marks),
                _ => return Err(Error::internal("marks of no build side")),
            },
            (Sink::Collect { .. }, Filling::Result(rows)) => {
                filled = rows.len();
                self.result = rows;
            }
            _ => return Err(Error::internal("a sink that was filled by another")),
        }
        self.counts = Counts { came: run.came, steps: run.passed, filled: filled as u64 };
        self.next += 1;
        Ok(())
    }

    /// The steps from `at` on, then the sink.
    fn steps(&self, pipeline: &Pipeline, at: usize, registers: &mut Registers, run: &mut Run) -> Result<()> {
        for (number, step) in pipeline.steps.iter().enumerate().skip(at) {
            match step {
                Step::Compute(compute) => registers.compute(compute)?,
                Step::Filter(register) => {
                    if !registers.is_true(*register)? {
                        return Ok(());
                    }
                    run.passed[number] += 1;
                }
                Step::Probe(probe) => return self.probe(probe, pipeline, number, registers, run),
            }
        }
        self.sink(&pipeline.sink, registers, &mut run.filling)
    }

    fn probe(
        &self,
        probe: &Probe,
        pipeline: &Pipeline,
        at: usize,
        registers: &mut Registers,
        run: &mut Run,
    ) -> Result<()> {
        let matches = self.matches(probe.state, &probe.keys, &probe.columns, probe.condition.as_ref(), registers)?;
        let join = self.join(probe.state)?;
        let goes_on = match probe.kind {
            ProbeKind::Inner | ProbeKind::Left => {
                for row in &matches {
                    join.load(*row, &probe.columns, registers)?;
                    run.passed[at] += 1;
                    self.steps(pipeline, at + 1, registers, run)?;
                }
                if probe.kind == ProbeKind::Left {
                    for (column, to) in &probe.columns {
                        registers.set(
                            *to,
                            Typed { nullable: true, ..join.payload_type(*column) },
                            Some(Scalar::Null),
                        )?;
                    }
                }
                probe.kind == ProbeKind::Left && matches.is_empty()
            }
            ProbeKind::Semi => !matches.is_empty(),
            ProbeKind::Anti => matches.is_empty(),
            ProbeKind::Mark(to) => {
                let marked = Scalar::Bool(!matches.is_empty());
                registers.set(to, Typed::required(ValueType::Bool), Some(marked))?;
                true
            }
        };
        if !goes_on {
            return Ok(());
        }
        run.passed[at] += 1;
        self.steps(pipeline, at + 1, registers, run)
    }

    /// The rows of a build side that match.
    fn matches(
        &self,
        state: StateId,
        keys: &[Register],
        columns: &[(usize, Register)],
        condition: Option<&Condition>,
        registers: &mut Registers,
    ) -> Result<Vec<usize>> {
        let join = self.join(state)?;
        let mut matches = Vec::new();
        for row in join.find(&registers.values(keys)?) {
            let passes = match condition {
                None => true,
                Some(Condition { computes, passes }) => {
                    join.load(*row, columns, registers)?;
                    computes.iter().try_for_each(|compute| registers.compute(compute))?;
                    registers.is_true(*passes)?
                }
            };
            if passes {
                matches.push(*row);
            }
        }
        Ok(matches)
    }

    fn sink(&self, sink: &Sink, registers: &mut Registers, filling: &mut Filling) -> Result<()> {
        match (sink, filling) {
            (Sink::Build { keys, payload, .. }, Filling::Join(rows)) => {
                rows.push(registers.values(keys)?, registers.values(payload)?);
            }
            (Sink::Mark { state, keys, columns, condition }, Filling::Marks(marks)) => {
                for row in self.matches(*state, keys, columns, condition.as_ref(), registers)? {
                    marks[row] = true;
                }
            }
            (Sink::Aggregate { keys, arguments, .. }, Filling::Groups(groups)) => {
                let argument = |register: &Option<Register>| match register {
                    Some(register) => registers.get(*register)?.clone().ok_or_else(|| undefined(*register)).map(Some),
                    None => Ok(None),
                };
                let arguments = arguments.iter().map(argument).collect::<Result<Vec<_>>>()?;
                groups.add(registers.values(keys)?, &arguments)?;
            }
            (Sink::Collect { columns }, Filling::Result(rows)) => rows.push(registers.values(columns)?),
            _ => return Err(Error::internal("a sink that is filled as another")),
        }
        Ok(())
    }
}
