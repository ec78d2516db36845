//! Steps of made-up pipelines.

use std::sync::Arc;

use super::{Generator, Reach, Scope};
use crate::ir::*;
use crate::semantics::compare_constants;

const COMPARISONS: [Comparison; 6] = [
    Comparison::Equal,
    Comparison::NotEqual,
    Comparison::Less,
    Comparison::LessOrEqual,
    Comparison::Greater,
    Comparison::GreaterOrEqual,
];
const PATTERNS: [&str; 8] = ["%", "a%", "%b", "_", "a_%", "%e%n%", "", "\\%"];

impl Generator {
    /// A pipeline that scans a table, up to some steps.
    pub(super) fn scan(&mut self) -> (Source, Scope) {
        let table = self.random.below(self.columns.len());
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
                    dictionary: column.dictionary.then_some(DictionaryId(0)),
                    to,
                });
            }
        }
        let tests = if self.random.percent(40) { self.tests(table) } else { Vec::new() };
        let source = TableSource { table, name: format!("t{table}"), columns, tests };
        let steps = self.random.below(7);
        self.steps(&mut scope, steps);
        (Source::Table(source), scope)
    }

    pub(super) fn steps(&mut self, scope: &mut Scope, count: usize) {
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
    pub(super) fn register(&mut self, scope: &mut Scope, value: ValueType) -> Register {
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
        let value = *self.random.pick(self.types());
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
        let arithmetic = *self.random.pick(&Arithmetic::ALL);
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
        let value = *self.random.pick(self.types());
        let number = *self.random.pick(&[ValueType::I64, ValueType::I64, ValueType::I128, ValueType::F64]);
        let mut operand = |generator: &mut Self, value| generator.register(scope, value);
        let (result, op) = match self.random.below(if self.reach == Reach::All { 14 } else { 13 }) {
            0..=2 => {
                let arithmetics = match number {
                    ValueType::F64 => &Arithmetic::ALL[..4],
                    // Mostly what does not fail.
                    _ if self.random.percent(70) => &Arithmetic::ALL[..3],
                    _ => &Arithmetic::ALL[..],
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
            12 => {
                let register = operand(self, value);
                let mut list: Vec<Constant> = (0..self.random.below(9)).map(|_| self.constant(value)).collect();
                list.sort_by(compare_constants);
                list.dedup_by(|a, b| compare_constants(a, b).is_eq());
                (ValueType::Bool, Op::In { value: register, list: list.into() })
            }
            _ => {
                let text = operand(self, ValueType::Bytes);
                self.of_text(text)
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

    /// Something that is computed from a text, and its type.
    fn of_text(&mut self, text: Register) -> (ValueType, Op) {
        if self.random.percent(25) {
            (ValueType::I64, Op::Length(text))
        } else if self.random.percent(50) {
            let pattern = Arc::from(self.random.pick(&PATTERNS).as_bytes());
            (ValueType::Bool, Op::Like { value: text, pattern })
        } else {
            let length = self.random.percent(70).then(|| self.random.between(0, 5));
            let start = self.random.between(-2, 5);
            (ValueType::Bytes, Op::Substring { value: text, start, length })
        }
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
    pub(super) fn lookup(
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
}

/// A computation without guard.
fn plain(to: Register, typed: Typed, op: Op) -> Step {
    Step::Compute(Compute { to, typed, op, guard: None, fits: false })
}
