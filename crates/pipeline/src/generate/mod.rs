//! Programs with their tables, made up from a seed, for tests that compare executions: all operations on all types, all
//! probes, groups of all kinds. Values are small and often equal, so that rows meet, and now and then the least or greatest
//! of their type.
//!
//! Invariants: a seed gives the same case everywhere. Must not know: who executes.

mod steps;
mod values;

use crate::Scalar;
use crate::case::Case;
use crate::ir::*;
use values::Column;

/// Numbers that a seed decides: SplitMix64.
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    /// The numbers of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number.
    pub fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 to below the end.
    pub fn below(&mut self, end: usize) -> usize {
        (self.any() % end as u64) as usize
    }

    /// A number between two, both included.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low + 1) as usize) as i64
    }

    /// True so often of 100 times.
    pub fn percent(&mut self, share: usize) -> bool {
        self.below(100) < share
    }

    /// One of a list, which is not empty.
    pub fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }
}

/// What programs are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Everything that the IR has.
    All,
    /// What a GPU computes: numbers and truths, look-ups by one integer, groups mostly of small integers and truths.
    Device,
}

/// The pipeline that is being made.
struct Scope {
    visible: Vec<(Register, Typed)>,
    steps: Vec<Step>,
    next: u32,
}

impl Scope {
    fn new_register(&mut self) -> Register {
        self.next += 1;
        Register(self.next - 1)
    }

    fn of_type(&self, value: ValueType) -> Vec<(Register, Typed)> {
        self.visible.iter().copied().filter(|(_, typed)| typed.value == value).collect()
    }

    fn typed(&self, register: Register) -> Typed {
        self.visible.iter().find(|(known, _)| *known == register).expect("it is visible").1
    }
}

/// Makes one case from a seed.
#[derive(Debug)]
pub struct Generator {
    random: Random,
    reach: Reach,
    columns: Vec<Vec<Column>>,
    program: Program,
    /// Extreme values appear.
    wild: bool,
}

const TYPES: [ValueType; 5] = [ValueType::Bool, ValueType::I64, ValueType::I128, ValueType::F64, ValueType::Bytes];

impl Generator {
    /// A generator of one case.
    pub fn new(seed: u64, reach: Reach) -> Self {
        let mut random = Random::new(seed);
        let wild = random.percent(25);
        Self { random, reach, columns: Vec::new(), program: Program { dictionaries: 1, ..Program::default() }, wild }
    }

    /// The numbers behind it, for choices of the caller.
    pub fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    /// The program and its tables.
    pub fn case(&mut self) -> Case {
        let tables: Vec<_> = (0..1 + self.random.below(3)).map(|_| self.table()).collect();
        for _ in 0..self.random.below(4) {
            self.build();
        }
        if self.reach == Reach::All && self.random.percent(25) {
            self.marks();
        }
        self.end();
        Case { name: "random".to_owned(), program: self.program.clone(), tables, expect: Ok(Vec::new()) }
    }

    fn types(&self) -> &'static [ValueType] {
        // The last one is of bytes.
        if self.reach == Reach::All { &TYPES } else { &TYPES[..4] }
    }

    fn table(&mut self) -> Vec<Vec<Scalar>> {
        let columns: Vec<Column> = (0..1 + self.random.below(5)).map(|_| self.column()).collect();
        let rows = *self.random.pick(&[0, 1, 2, 10, 30, 60]);
        let rows = (0..rows).map(|_| columns.iter().map(|column| self.stored(column)).collect()).collect();
        self.columns.push(columns);
        rows
    }

    /// The build sides that are there, in random order.
    fn joins(&self) -> Vec<(StateId, JoinState)> {
        let states = (0..).map(StateId).zip(&self.program.states);
        let join = |(id, state): (StateId, &State)| match state {
            State::Join(join) => Some((id, join.clone())),
            State::Aggregate(_) => None,
        };
        states.filter_map(join).collect()
    }

    fn build(&mut self) {
        let (source, mut scope) = self.scan();
        let keeps_all = self.reach == Reach::All && self.random.percent(25);
        let parts = if self.reach == Reach::All && self.random.percent(30) { 2 } else { 1 };
        let values: Vec<ValueType> = (0..parts)
            .map(|_| match self.reach == Reach::Device || self.random.percent(60) {
                true => ValueType::I64,
                false => *self.random.pick(self.types()),
            })
            .collect();
        let keys: Vec<Register> = values.iter().map(|value| self.register(&mut scope, *value)).collect();
        let payload: Vec<Register> = match scope.visible.is_empty() {
            true => Vec::new(),
            false => (0..self.random.below(4)).map(|_| self.random.pick(&scope.visible).0).collect(),
        };
        let key_types = keys.iter().map(|register| {
            let typed = scope.typed(*register);
            Typed { nullable: typed.nullable && (keeps_all || self.random.percent(50)), ..typed }
        });
        let key_types = key_types.collect();
        let payload_types = payload.iter().map(|register| scope.typed(*register)).collect();
        let state = StateId(self.program.states.len() as u32);
        self.program.states.push(State::Join(JoinState { keys: key_types, payload: payload_types, keeps_all }));
        let sink = Sink::Build { state, keys, payload };
        self.program.pipelines.push(Pipeline { source, steps: scope.steps, sink });
    }

    /// Marks rows of a build side that keeps all of them.
    fn marks(&mut self) {
        let keeping: Vec<_> = self.joins().into_iter().filter(|(_, join)| join.keeps_all).collect();
        if keeping.is_empty() {
            return;
        }
        let (state, join) = self.random.pick(&keeping).clone();
        let (source, mut scope) = self.scan();
        let (keys, columns, condition) = self.lookup(&mut scope, &join);
        let sink = Sink::Mark { state, keys, columns, condition };
        self.program.pipelines.push(Pipeline { source, steps: scope.steps, sink });
    }

    /// The last pipelines.
    fn end(&mut self) {
        let (mut source, mut scope) = match self.kept() {
            Some(rows) => rows,
            None => self.scan(),
        };
        if self.random.percent(65) {
            let state = self.aggregate(source, scope);
            (source, scope) = self.groups(state);
        }
        let columns = match scope.visible.is_empty() {
            true => Vec::new(),
            false => (0..1 + self.random.below(6)).map(|_| self.random.pick(&scope.visible).0).collect(),
        };
        self.program.pipelines.push(Pipeline { source, steps: scope.steps, sink: Sink::Collect { columns } });
    }

    /// The rows of a build side that were met, or not.
    fn kept(&mut self) -> Option<(Source, Scope)> {
        let keeping: Vec<_> = self.joins().into_iter().filter(|(_, join)| join.keeps_all).collect();
        if keeping.is_empty() || self.random.percent(50) {
            return None;
        }
        let (state, join) = self.random.pick(&keeping).clone();
        let types: Vec<Typed> = join.keys.iter().chain(&join.payload).copied().collect();
        let (columns, mut scope) = of_state(&types);
        let steps = self.random.below(3);
        self.steps(&mut scope, steps);
        Some((Source::BuildRows { state, matched: self.random.percent(50), columns }, scope))
    }

    fn groups(&mut self, state: StateId) -> (Source, Scope) {
        let State::Aggregate(groups) = &self.program.states[state.0 as usize] else { unreachable!() };
        let results = groups.aggregates.iter().map(Aggregate::result);
        let types: Vec<Typed> = groups.keys.iter().copied().chain(results).collect();
        let (columns, mut scope) = of_state(&types);
        let steps = self.random.below(3);
        self.steps(&mut scope, steps);
        (Source::Groups { state, columns }, scope)
    }

    fn aggregate(&mut self, source: Source, mut scope: Scope) -> StateId {
        let dense = self.random.percent(if self.reach == Reach::All { 50 } else { 95 });
        let keys: Vec<Register> = (0..self.random.below(4))
            .map(|_| match dense {
                true => *self.random.pick(&[ValueType::I64, ValueType::Bool]),
                false => *self.random.pick(self.types()),
            })
            .collect::<Vec<_>>()
            .iter()
            .map(|value| self.register(&mut scope, *value))
            .collect();
        let mut arguments = Vec::new();
        let mut aggregates = Vec::new();
        for _ in 0..self.random.below(5) {
            let (argument, function) = self.aggregate_of(&mut scope, &keys);
            arguments.push(argument);
            let argument = argument.map(|register| scope.typed(register));
            aggregates.push(Aggregate { function, argument });
        }
        let key_types = keys.iter().map(|register| scope.typed(*register));
        let key_types =
            key_types.map(|typed| Typed { nullable: typed.nullable || self.random.percent(20), ..typed }).collect();
        let state = StateId(self.program.states.len() as u32);
        self.program.states.push(State::Aggregate(AggregateState { keys: key_types, aggregates }));
        let sink = Sink::Aggregate { state, keys, arguments };
        self.program.pipelines.push(Pipeline { source, steps: scope.steps, sink });
        state
    }

    fn aggregate_of(&mut self, scope: &mut Scope, keys: &[Register]) -> (Option<Register>, AggregateFunction) {
        let number = *self.random.pick(&[ValueType::I64, ValueType::I64, ValueType::I128, ValueType::F64]);
        let any = *self.random.pick(self.types());
        match self.random.below(8) {
            0 => (None, AggregateFunction::CountRows),
            1 => (Some(self.register(scope, any)), AggregateFunction::Count),
            // Sums of extreme I128 overflow in one order of the rows and not in another.
            2 | 3 if number == ValueType::I128 && self.wild => (None, AggregateFunction::CountRows),
            2 | 3 => (Some(self.register(scope, number)), AggregateFunction::Sum),
            4 => {
                // Whatever is added of what fits must fit.
                let fits = !self.wild && self.random.percent(50);
                let function = if fits { AggregateFunction::SumFitting } else { AggregateFunction::SumWide };
                (Some(self.register(scope, ValueType::I64)), function)
            }
            5 => (Some(self.register(scope, any)), AggregateFunction::Min),
            6 => (Some(self.register(scope, any)), AggregateFunction::Max),
            // Only a key is the same for all rows of a group.
            _ if keys.is_empty() => (None, AggregateFunction::CountRows),
            _ => (Some(*self.random.pick(keys)), AggregateFunction::First),
        }
    }
}

/// Registers for the columns of a state.
fn of_state(types: &[Typed]) -> (Vec<Register>, Scope) {
    let columns: Vec<Register> = (0..types.len() as u32).map(Register).collect();
    let visible = columns.iter().copied().zip(types.iter().copied()).collect();
    (columns, Scope { visible, steps: Vec::new(), next: types.len() as u32 })
}
