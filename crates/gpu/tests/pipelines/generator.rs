//! Programs with their tables, made up from a seed, of what the device can do: operations on numbers and truths, probes by
//! one integer, groups of small integers and truths. Values are small and often equal, so that rows meet, and now and then
//! the least or greatest of their type.

use std::ops::Bound;

use forebay_base::{PhysicalType, Value};
use forebay_pipeline::case::Case;
use forebay_pipeline::ir::*;
use forebay_pipeline::semantics::compare_constants;
use forebay_pipeline::{ColumnTest, Scalar, Test};

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn between(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low + 1) as usize) as i64
    }

    fn percent(&mut self, share: usize) -> bool {
        self.below(100) < share
    }

    fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }
}

/// A column of a made-up table.
#[derive(Clone)]
struct Column {
    physical: PhysicalType,
    typed: Typed,
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

const TYPES: [ValueType; 4] = [ValueType::Bool, ValueType::I64, ValueType::I128, ValueType::F64];
const COMPARISONS: [Comparison; 6] = [
    Comparison::Equal,
    Comparison::NotEqual,
    Comparison::Less,
    Comparison::LessOrEqual,
    Comparison::Greater,
    Comparison::GreaterOrEqual,
];
const ARITHMETIC: [Arithmetic; 6] = [
    Arithmetic::Add,
    Arithmetic::Subtract,
    Arithmetic::Multiply,
    Arithmetic::Divide,
    Arithmetic::Remainder,
    Arithmetic::DivideRounded,
];
/// Makes one case from a seed.
pub(crate) struct Generator {
    random: Random,
    columns: Vec<Vec<Column>>,
    program: Program,
    /// Extreme values appear.
    wild: bool,
}

impl Generator {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let wild = random.percent(25);
        Self { random, columns: Vec::new(), program: Program { dictionaries: 1, ..Program::default() }, wild }
    }

    pub(crate) fn case(&mut self) -> Case {
        let tables: Vec<_> = (0..1 + self.random.below(3)).map(|_| self.table()).collect();
        for _ in 0..self.random.below(4) {
            self.build();
        }
        self.end();
        Case { name: "random".to_owned(), program: self.program.clone(), tables, expect: Ok(Vec::new()) }
    }

    fn table(&mut self) -> Vec<Vec<Scalar>> {
        let columns: Vec<Column> = (0..1 + self.random.below(5)).map(|_| self.column()).collect();
        let rows = *self.random.pick(&[0, 1, 2, 10, 30, 60]);
        let rows = (0..rows).map(|_| columns.iter().map(|column| self.stored(column)).collect()).collect();
        self.columns.push(columns);
        rows
    }

    fn column(&mut self) -> Column {
        let integers = [PhysicalType::I64, PhysicalType::I32, PhysicalType::U8];
        let physical = match self.random.percent(50) {
            true => *self.random.pick(&integers),
            // Without bytes, the last one.
            false => *self.random.pick(&PhysicalType::ALL[..11]),
        };
        let nullable = self.random.percent(50);
        let value = match physical {
            PhysicalType::U8 if self.random.percent(40) => ValueType::Bool,
            _ => SourceColumn::widened(physical),
        };
        Column { physical, typed: Typed { value, nullable } }
    }

    /// A value of a column.
    fn stored(&mut self, column: &Column) -> Scalar {
        if column.typed.nullable && self.random.percent(20) {
            return Scalar::Null;
        }
        let extreme = self.wild && self.random.percent(4);
        let signed =
            !matches!(column.physical, PhysicalType::U8 | PhysicalType::U16 | PhysicalType::U32 | PhysicalType::U64);
        match column.typed.value {
            ValueType::Bool => Scalar::Bool(self.random.percent(50)),
            ValueType::I64 | ValueType::I128 => {
                let bits = 8 * column.physical.width().expect("integers have a width") as u32;
                let (low, high) = match signed {
                    true => (i128::MIN >> (128 - bits), i128::MAX >> (128 - bits)),
                    false => (0, (1i128 << bits) - 1),
                };
                let small = i128::from(self.random.between(if signed { -3 } else { 0 }, 9));
                let number = if extreme { *self.random.pick(&[low, high, low + 1, high - 1]) } else { small };
                if column.typed.value == ValueType::I64 { Scalar::I64(number as i64) } else { Scalar::I128(number) }
            }
            ValueType::F64 => self.float(),
            ValueType::Bytes => unreachable!("no column is of bytes"),
        }
    }

    fn float(&mut self) -> Scalar {
        let special = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0];
        let quarters = self.random.between(-8, 12) as f64 / 4.0;
        Scalar::float(if self.random.percent(8) { *self.random.pick(&special) } else { quarters })
    }

    /// A constant of a type, not NULL.
    fn constant(&mut self, value: ValueType) -> Constant {
        let extreme = self.wild && self.random.percent(10);
        match value {
            ValueType::Bool => Constant::Bool(self.random.percent(50)),
            ValueType::I64 if extreme => {
                Constant::Int(i128::from(*self.random.pick(&[i64::MIN, i64::MAX, -1, 0, 1 << 40])))
            }
            ValueType::I128 if extreme => Constant::Int(*self.random.pick(&[i128::MIN, i128::MAX, -1, 1 << 64])),
            ValueType::I64 | ValueType::I128 => Constant::Int(i128::from(self.random.between(-2, 9))),
            ValueType::F64 => match self.float() {
                Scalar::F64(value) => Constant::Float(value),
                _ => unreachable!(),
            },
            ValueType::Bytes => unreachable!("nothing is of bytes"),
        }
    }

    /// A pipeline that scans a table, up to some steps.
    fn scan(&mut self) -> (Source, Scope) {
        let table = self.random.below(self.columns.len());
        let tested = self.random.percent(40);
        let mut scope = Scope { visible: Vec::new(), steps: Vec::new(), next: 0 };
        let mut columns = Vec::new();
        for (number, column) in self.columns[table].clone().iter().enumerate() {
            if self.random.percent(80) {
                let to = scope.new_register();
                // Also columns without NULLs may be loaded as if they had some.
                let typed = Typed { nullable: column.typed.nullable || self.random.percent(20), ..column.typed };
                scope.visible.push((to, typed));
                columns.push(SourceColumn {
                    column: number,
                    name: format!("c{number}"),
                    physical: column.physical,
                    typed,
                    dictionary: None,
                    to,
                });
            }
        }
        let tests = if tested { self.tests(table) } else { Vec::new() };
        let source = TableSource { table, name: format!("t{table}"), columns, tests };
        let steps = self.random.below(7);
        self.steps(&mut scope, steps);
        (Source::Table(source), scope)
    }

    /// Tests of a scan.
    fn tests(&mut self, table: usize) -> Vec<ColumnTest> {
        let mut tests = Vec::new();
        for (column, known) in self.columns[table].clone().into_iter().enumerate() {
            if self.random.percent(50) {
                continue;
            }
            let value = |generator: &mut Self| {
                generator.stored(&Column { typed: Typed::required(known.typed.value), ..known }).to_value()
            };
            let values: Vec<Value> = (0..3).filter_map(|_| value(self)).collect();
            let test = match self.random.below(8) {
                0 => Test::IsNull,
                1 => Test::IsNotNull,
                2 => Test::NotEqual(values[0].clone()),
                3 => Test::one_of(values),
                4 => Test::Range { low: Bound::Excluded(values[0].clone()), high: Bound::Unbounded },
                5 => Test::Range { low: Bound::Unbounded, high: Bound::Included(values[0].clone()) },
                6 => Test::equal(values[0].clone()),
                _ => Test::Range { low: Bound::Included(values[0].clone()), high: Bound::Excluded(values[1].clone()) },
            };
            tests.push(ColumnTest { column, test });
        }
        tests
    }

    fn steps(&mut self, scope: &mut Scope, count: usize) {
        for _ in 0..count {
            match self.random.below(10) {
                0 | 1 => {
                    let condition = self.condition(scope);
                    scope.steps.push(Step::Filter(condition));
                }
                2..=4 => self.probe(scope),
                5 => self.guarded(scope),
                _ => {
                    let compute = self.compute(scope);
                    scope.visible.push((compute.to, compute.typed));
                    scope.steps.push(Step::Compute(compute));
                }
            }
        }
    }

    /// A register of a type; computed where there is none.
    fn register(&mut self, scope: &mut Scope, value: ValueType) -> Register {
        let known = scope.of_type(value);
        if !known.is_empty() && self.random.percent(90) {
            return self.random.pick(&known).0;
        }
        let to = scope.new_register();
        let null = self.random.percent(10);
        let constant = if null { Constant::Null } else { self.constant(value) };
        let typed = Typed { value, nullable: null };
        scope.visible.push((to, typed));
        scope.steps.push(plain(to, typed, Op::Constant(constant)));
        to
    }

    /// A Bool that is often true.
    fn condition(&mut self, scope: &mut Scope) -> Register {
        let value = *self.random.pick(&TYPES);
        let (a, b) = (self.register(scope, value), self.register(scope, value));
        let comparison = *self.random.pick(&COMPARISONS);
        self.push(scope, ValueType::Bool, &[a, b], Op::Compare(comparison, a, b))
    }

    fn push(&mut self, scope: &mut Scope, value: ValueType, operands: &[Register], op: Op) -> Register {
        let to = scope.new_register();
        let nullable = operands.iter().any(|register| scope.typed(*register).nullable);
        scope.visible.push((to, Typed { value, nullable }));
        scope.steps.push(plain(to, Typed { value, nullable }, op));
        to
    }

    /// Something that can fail, only where a condition holds, and what stands for it elsewhere.
    fn guarded(&mut self, scope: &mut Scope) {
        let guard = self.condition(scope);
        let value = *self.random.pick(&[ValueType::I64, ValueType::I128]);
        let (a, b) = (self.register(scope, value), self.register(scope, value));
        let other = self.register(scope, value);
        let arithmetic = *self.random.pick(&ARITHMETIC);
        let to = scope.new_register();
        let nullable = scope.typed(a).nullable || scope.typed(b).nullable;
        let typed = Typed { value, nullable };
        scope.steps.push(Step::Compute(Compute {
            to,
            typed,
            op: Op::Arithmetic(arithmetic, a, b),
            guard: Some(guard),
            fits: false,
        }));
        let nullable = nullable || scope.typed(other).nullable;
        let chosen = scope.new_register();
        scope.visible.push((chosen, Typed { value, nullable }));
        let op = Op::Select { condition: guard, then: to, otherwise: other };
        scope.steps.push(plain(chosen, Typed { value, nullable }, op));
    }

    /// Any computation; operands that are not there are made first.
    fn compute(&mut self, scope: &mut Scope) -> Compute {
        let value = *self.random.pick(&TYPES);
        let number = *self.random.pick(&[ValueType::I64, ValueType::I64, ValueType::I128, ValueType::F64]);
        let mut operand = |generator: &mut Self, value| generator.register(scope, value);
        let (result, op) = match self.random.below(13) {
            0..=2 => {
                let arithmetics = match number {
                    ValueType::F64 => &ARITHMETIC[..4],
                    // Mostly what does not fail.
                    _ if self.random.percent(70) => &ARITHMETIC[..3],
                    _ => &ARITHMETIC[..],
                };
                let arithmetic = *self.random.pick(arithmetics);
                (number, Op::Arithmetic(arithmetic, operand(self, number), operand(self, number)))
            }
            3 => (number, Op::Negate(operand(self, number))),
            4 => {
                let comparison = *self.random.pick(&COMPARISONS);
                (ValueType::Bool, Op::Compare(comparison, operand(self, value), operand(self, value)))
            }
            5 => {
                let (a, b) = (operand(self, ValueType::Bool), operand(self, ValueType::Bool));
                (ValueType::Bool, if self.random.percent(50) { Op::And(a, b) } else { Op::Or(a, b) })
            }
            6 => (ValueType::Bool, Op::Not(operand(self, ValueType::Bool))),
            7 => (ValueType::Bool, Op::IsNull(operand(self, value))),
            8 => {
                let condition = operand(self, ValueType::Bool);
                (value, Op::Select { condition, then: operand(self, value), otherwise: operand(self, value) })
            }
            9 => (value, Op::Coalesce(operand(self, value), operand(self, value))),
            10 => {
                let from = *self.random.pick(&[ValueType::Bool, ValueType::I64, ValueType::I128]);
                (number, Op::Convert(operand(self, from)))
            }
            11 => {
                let part = *self.random.pick(&[DatePart::Year, DatePart::Month, DatePart::Day]);
                (ValueType::I64, Op::DatePart(part, operand(self, ValueType::I64)))
            }
            _ => {
                let register = operand(self, value);
                let mut list: Vec<Constant> = (0..self.random.below(9)).map(|_| self.constant(value)).collect();
                list.sort_by(compare_constants);
                list.dedup_by(|a, b| compare_constants(a, b).is_eq());
                (ValueType::Bool, Op::In { value: register, list: list.into() })
            }
        };
        let nullable = |register: &Register| scope.typed(*register).nullable;
        let nullable = match &op {
            Op::IsNull(_) => false,
            Op::Coalesce(a, b) => nullable(a) && nullable(b),
            Op::Select { then, otherwise, .. } => nullable(then) || nullable(otherwise),
            op => op.operands().iter().any(nullable),
        };
        let to = scope.new_register();
        let fits = self.random.percent(15);
        Compute { to, typed: Typed { value: result, nullable }, op, guard: None, fits }
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

    fn probe(&mut self, scope: &mut Scope) {
        let joins = self.joins();
        if joins.is_empty() {
            return;
        }
        let (state, join) = self.random.pick(&joins).clone();
        let (keys, columns, condition) = self.lookup(scope, &join);
        let kind = match self.random.below(6) {
            0 | 1 => ProbeKind::Inner,
            2 => ProbeKind::Left,
            3 => ProbeKind::Semi,
            4 => ProbeKind::Anti,
            _ => ProbeKind::Mark(scope.new_register()),
        };
        for (column, to) in &columns {
            let typed = join.payload[*column];
            match kind {
                ProbeKind::Inner => scope.visible.push((*to, typed)),
                ProbeKind::Left => scope.visible.push((*to, Typed { nullable: true, ..typed })),
                _ => {}
            }
        }
        if let ProbeKind::Mark(to) = kind {
            scope.visible.push((to, Typed::required(ValueType::Bool)));
        }
        scope.steps.push(Step::Probe(Probe { state, kind, keys, columns, condition }));
    }

    /// The keys, columns and condition of a look-up.
    fn lookup(
        &mut self,
        scope: &mut Scope,
        join: &JoinState,
    ) -> (Vec<Register>, Vec<(usize, Register)>, Option<Condition>) {
        let keys = join.keys.iter().map(|key| self.register(scope, key.value)).collect();
        let columns: Vec<(usize, Register)> = (0..join.payload.len())
            .filter(|_| self.random.percent(70))
            .map(|column| (column, scope.new_register()))
            .collect();
        let condition = self.random.percent(35).then(|| self.pair_condition(scope, join, &columns));
        (keys, columns, condition)
    }

    /// A condition over a probing row and a payload.
    fn pair_condition(&mut self, scope: &mut Scope, join: &JoinState, columns: &[(usize, Register)]) -> Condition {
        let inner: Vec<(Register, Typed)> = columns.iter().map(|(column, to)| (*to, join.payload[*column])).collect();
        let (a, value) = match inner.is_empty() {
            false => {
                let (register, typed) = *self.random.pick(&inner);
                (register, typed.value)
            }
            true => (self.register(scope, ValueType::I64), ValueType::I64),
        };
        let b = self.register(scope, value);
        let typed = |register: Register| {
            let own = inner.iter().find(|(known, _)| *known == register);
            own.map_or_else(|| scope.typed(register), |(_, typed)| *typed)
        };
        let nullable = typed(a).nullable || typed(b).nullable;
        let passes = scope.new_register();
        let op = Op::Compare(*self.random.pick(&COMPARISONS), a, b);
        let typed = Typed { value: ValueType::Bool, nullable };
        let computes = vec![Compute { to: passes, typed, op, guard: None, fits: false }];
        Condition { computes, passes }
    }

    fn build(&mut self) {
        let (source, mut scope) = self.scan();
        let keeps_all = false;
        let values = [ValueType::I64];
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

    /// The last pipelines.
    fn end(&mut self) {
        let (mut source, mut scope) = self.scan();
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
        let dense = self.random.percent(95);
        let keys: Vec<Register> = (0..self.random.below(4))
            .map(|_| match dense {
                true => *self.random.pick(&[ValueType::I64, ValueType::Bool]),
                false => *self.random.pick(&TYPES),
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
        let any = *self.random.pick(&TYPES);
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

/// A computation without guard.
fn plain(to: Register, typed: Typed, op: Op) -> Step {
    Step::Compute(Compute { to, typed, op, guard: None, fits: false })
}

/// Registers for the columns of a state.
fn of_state(types: &[Typed]) -> (Vec<Register>, Scope) {
    let columns: Vec<Register> = (0..types.len() as u32).map(Register).collect();
    let visible = columns.iter().copied().zip(types.iter().copied()).collect();
    (columns, Scope { visible, steps: Vec::new(), next: types.len() as u32 })
}
