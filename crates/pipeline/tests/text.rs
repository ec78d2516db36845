//! The text form: whatever is printed is read again as it was, and what cannot be read says where.

use std::ops::Bound;
use std::sync::Arc;

use expect_test::{Expect, expect};
use forebay_base::{PhysicalType, Value};
use forebay_pipeline::ir::*;
use forebay_pipeline::{ColumnPredicate, KeySet, Predicate};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

fn register() -> impl Strategy<Value = Register> {
    (0..40u32).prop_map(Register)
}

fn registers() -> impl Strategy<Value = Vec<Register>> {
    vec(register(), 0..4)
}

fn typed() -> impl Strategy<Value = Typed> {
    let values = vec![ValueType::Bool, ValueType::I64, ValueType::I128, ValueType::F64, ValueType::Bytes];
    (select(values), any::<bool>()).prop_map(|(value, nullable)| Typed { value, nullable })
}

fn state_id() -> impl Strategy<Value = StateId> {
    (0..9u32).prop_map(StateId)
}

/// Names that need quotes and such that do not, words of the grammar among them.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[a-zA-Z_][a-z0-9_]{0,8}",
        select(vec!["", "in", "where", "r0", "null", "9a", "é"]).prop_map(str::to_owned)
    ]
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![vec(any::<u8>(), 0..12), any::<String>().prop_map(String::into_bytes)]
}

fn constant() -> impl Strategy<Value = Constant> {
    prop_oneof![
        Just(Constant::Null),
        any::<bool>().prop_map(Constant::Bool),
        any::<i128>().prop_map(Constant::Int),
        any::<i8>().prop_map(|value| Constant::Int(i128::from(value))),
        any::<u64>().prop_map(|bits| Constant::Float(f64::from_bits(bits))),
        select(vec![0.0, -0.0, 1e300, -2.0, f64::INFINITY, f64::NEG_INFINITY]).prop_map(Constant::Float),
        bytes().prop_map(|bytes| Constant::Bytes(bytes.into())),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<i128>().prop_map(Value::Int),
        // One zero: the bounds of `= 0.0` are printed once.
        any::<u64>().prop_map(|bits| Value::Float(f64::from_bits(bits) + 0.0)),
        bytes().prop_map(Value::Bytes),
    ]
}

fn bound() -> impl Strategy<Value = Bound<Value>> {
    prop_oneof![Just(Bound::Unbounded), value().prop_map(Bound::Included), value().prop_map(Bound::Excluded)]
}

fn test() -> impl Strategy<Value = Predicate> {
    prop_oneof![
        (bound(), bound()).prop_map(|(low, high)| Predicate::Range { low, high }),
        value().prop_map(Predicate::equal),
        value().prop_map(Predicate::NotEqual),
        vec(value(), 0..4).prop_map(Predicate::In),
        vec(value(), 0..4).prop_map(Predicate::NotIn),
        (bytes(), any::<bool>()).prop_map(|(pattern, negated)| Predicate::Like { pattern: pattern.into(), negated }),
        select(vec![Predicate::IsNull, Predicate::IsNotNull, Predicate::Never]),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    use Arithmetic::*;
    use Comparison::*;
    let arithmetic = select(vec![Add, Subtract, Multiply, Divide, Remainder, DivideRounded]);
    let comparison = select(vec![Equal, NotEqual, Less, LessOrEqual, Greater, GreaterOrEqual]);
    let part = select(vec![DatePart::Year, DatePart::Month, DatePart::Day]);
    let pair = || (register(), register());
    prop_oneof![
        constant().prop_map(Op::Constant),
        (arithmetic, pair()).prop_map(|(arithmetic, (a, b))| Op::Arithmetic(arithmetic, a, b)),
        (comparison, pair()).prop_map(|(comparison, (a, b))| Op::Compare(comparison, a, b)),
        (part, register()).prop_map(|(part, a)| Op::DatePart(part, a)),
        register().prop_map(Op::Length),
        register().prop_map(Op::Negate),
        register().prop_map(Op::Not),
        register().prop_map(Op::IsNull),
        register().prop_map(Op::Convert),
        pair().prop_map(|(a, b)| Op::And(a, b)),
        pair().prop_map(|(a, b)| Op::Or(a, b)),
        pair().prop_map(|(a, b)| Op::Coalesce(a, b)),
        (register(), pair()).prop_map(|(condition, (then, otherwise))| Op::Select { condition, then, otherwise }),
        (register(), bytes()).prop_map(|(value, pattern)| Op::Like { value, pattern: pattern.into() }),
        (register(), vec(constant(), 0..4)).prop_map(|(value, list)| Op::In { value, list: list.into() }),
        (register(), any::<i64>(), option::of(any::<i64>())).prop_map(|(value, start, length)| Op::Substring {
            value,
            start,
            length
        }),
    ]
}

fn compute() -> impl Strategy<Value = Compute> {
    let parts = (register(), typed(), op(), option::of(register()), any::<bool>());
    parts.prop_map(|(to, typed, op, guard, fits)| Compute { to, typed, op, guard, fits })
}

fn condition() -> impl Strategy<Value = Option<Condition>> {
    let parts = (vec(compute(), 0..3), register());
    option::of(parts.prop_map(|(computes, passes)| Condition { computes, passes }))
}

fn payload() -> impl Strategy<Value = Vec<(usize, Register)>> {
    vec((0..9usize, register()), 0..3)
}

fn step() -> impl Strategy<Value = Step> {
    let kind = prop_oneof![
        select(vec![ProbeKind::Inner, ProbeKind::Left, ProbeKind::Semi, ProbeKind::Anti]),
        register().prop_map(ProbeKind::Mark)
    ];
    prop_oneof![
        3 => compute().prop_map(Step::Compute),
        1 => register().prop_map(Step::Filter),
        2 => (state_id(), kind, registers(), payload(), condition()).prop_map(|(state, kind, keys, columns, condition)| {
            Step::Probe(Probe { state, kind, keys, columns, condition })
        }),
    ]
}

fn source() -> impl Strategy<Value = Source> {
    let physical = select(PhysicalType::ALL.to_vec());
    let column = (0..99usize, name(), physical, typed(), option::of((0..9u32).prop_map(DictionaryId)), register())
        .prop_map(|(column, name, physical, typed, dictionary, to)| SourceColumn {
            column,
            name,
            physical,
            typed,
            dictionary,
            to,
        });
    let tests = vec((0..99usize, test()).prop_map(|(column, test)| ColumnPredicate { column, test }), 0..3);
    prop_oneof![
        (0..9usize, name(), vec(column, 0..4), tests)
            .prop_map(|(table, name, columns, tests)| Source::Table(TableSource { table, name, columns, tests })),
        (state_id(), registers()).prop_map(|(state, columns)| Source::Groups { state, columns }),
        (state_id(), any::<bool>(), registers())
            .prop_map(|(state, matched, columns)| { Source::BuildRows { state, matched, columns } }),
    ]
}

fn sink() -> impl Strategy<Value = Sink> {
    prop_oneof![
        (state_id(), registers(), registers()).prop_map(|(state, keys, payload)| Sink::Build { state, keys, payload }),
        (state_id(), registers(), payload(), condition()).prop_map(|(state, keys, columns, condition)| Sink::Mark {
            state,
            keys,
            columns,
            condition
        }),
        (state_id(), registers(), vec(option::of(register()), 0..4))
            .prop_map(|(state, keys, arguments)| Sink::Aggregate { state, keys, arguments }),
        registers().prop_map(|columns| Sink::Collect { columns }),
    ]
}

fn state() -> impl Strategy<Value = State> {
    use AggregateFunction::*;
    let function = select(vec![CountRows, Count, Sum, SumWide, SumFitting, Min, Max, First]);
    let aggregate = (function, option::of(typed())).prop_map(|(function, argument)| Aggregate { function, argument });
    let types = || vec(typed(), 0..4);
    prop_oneof![
        (types(), types(), any::<bool>()).prop_map(|(keys, payload, keeps_all)| State::Join(JoinState {
            keys,
            payload,
            keeps_all
        })),
        (types(), vec(aggregate, 0..4))
            .prop_map(|(keys, aggregates)| State::Aggregate(AggregateState { keys, aggregates })),
    ]
}

fn program() -> impl Strategy<Value = Program> {
    let pipeline =
        (source(), vec(step(), 0..6), sink()).prop_map(|(source, steps, sink)| Pipeline { source, steps, sink });
    (0..9u32, vec(state(), 0..4), vec(pipeline, 0..4)).prop_map(|(dictionaries, states, pipelines)| Program {
        dictionaries,
        states,
        pipelines,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn what_is_printed_is_read_as_it_was(program in program()) {
        let text = program.to_string();
        match Program::parse(&text) {
            // NaN is not equal to itself as a constant, but prints like itself.
            Ok(again) => prop_assert_eq!(format!("{:?}", again), format!("{:?}", program), "{}", text),
            Err(error) => prop_assert!(false, "{}\n{}", error, text),
        }
    }

    /// The key of compiled code: different programs have different texts.
    #[test]
    fn texts_tell_programs_apart(a in program(), b in program()) {
        prop_assert_eq!(a.to_string() == b.to_string(), format!("{:?}", a) == format!("{:?}", b));
    }

    #[test]
    fn no_text_makes_the_parser_panic(program in program(), cut in any::<prop::sample::Index>(), junk in ".{0,3}") {
        let text = program.to_string();
        let at = text.floor_char_boundary(cut.index(text.len()));
        let _ = Program::parse(&format!("{}{junk}{}", &text[..at], &text[at..]));
        let _ = Program::parse(&text[..at]);
    }
}

#[test]
fn a_program_is_easy_to_read() {
    let program = Program::parse(
        "program 1 dictionaries state j0: join (i64) -> (i64, i64?) keeps all
         state a1: aggregate (i64, i64?) { rows, sum(i64?), sum_wide(i64) }
         pipeline scan 0 dates (r0: i64 = column 0 d_datekey i32, r1: i64? = column 4 \"the year\" i16) where column 4 >= 1992 and <= 1997, column 5 < 2.5
         build j0 (r0) -> (r0, r1)
         pipeline scan 1 lineorder (r0: i64 = column 5 lo_orderdate i32, r1: i64? = column 7 lo_region bytes in d0)
         where column 3 = \"x\\\"y\" r2: i64 = const 7 r3: i64 = mul r0, r2 fits r4: bool = lt r2, r3 r9: i64 = div r0, r2 if r4 filter r4
         probe inner j0 (r0) -> (0 r5, 1 r6) when { r7: bool? = ne r6, r1; r7 }
         aggregate a1 (r5, r1) { -, r6, r3 }
         pipeline groups a1 (r0, r1, r2, r3, r4) collect (r0, r3)",
    )
    .expect("a program");
    check(
        &program.to_string(),
        &expect![[r#"
            program 1 dictionaries
            state j0: join (i64) -> (i64, i64?) keeps all
            state a1: aggregate (i64, i64?) { rows, sum(i64?), sum_wide(i64) }
            pipeline
              scan 0 dates (r0: i64 = column 0 d_datekey i32, r1: i64? = column 4 "the year" i16) where column 4 >= 1992 and <= 1997, column 5 < 2.5
              build j0 (r0) -> (r0, r1)
            pipeline
              scan 1 lineorder (r0: i64 = column 5 lo_orderdate i32, r1: i64? = column 7 lo_region bytes in d0) where column 3 = "x\"y"
              r2: i64 = const 7
              r3: i64 = mul r0, r2 fits
              r4: bool = lt r2, r3
              r9: i64 = div r0, r2 if r4
              filter r4
              probe inner j0 (r0) -> (0 r5, 1 r6) when { r7: bool? = ne r6, r1; r7 }
              aggregate a1 (r5, r1) { -, r6, r3 }
            pipeline
              groups a1 (r0, r1, r2, r3, r4)
              collect (r0, r3)
        "#]],
    );
}

#[test]
fn errors_say_the_line() {
    let error = |text: &str| Program::parse(text).expect_err("no program").to_string();
    check(&error("program x"), &expect!["expected a number, found `x` (line 1)"]);
    check(
        &error("program 0 dictionaries\npipeline\n  scan 0 t ()\n  r0: i64 = frob r1\n"),
        &expect!["expected an operation, found `frob` (line 4)"],
    );
    check(&error("program 0 dictionaries\nstate j1: join () -> ()"), &expect!["expected `j0`, found `j1` (line 2)"]);
    check(
        &error("program 0 dictionaries\npipeline\n  scan 0 t () where column 0 = null\n"),
        &expect!["expected a number or quoted bytes, found `null` (line 3)"],
    );
    check(&error("program 0 dictionaries\n\"\\q\""), &expect!["unknown escape in a quoted text (line 2)"]);
    check(&error("program 0 dictionaries\n\n\"abc"), &expect!["a quoted text has no end (line 3)"]);
    check(&error("program 0 dictionaries\n§"), &expect!["unexpected character '§' (line 2)"]);
    check(
        &error("program 0 dictionaries\npipeline\n  scan 0 t ()\n"),
        &expect!["expected a step or a sink, found the end (line 3)"],
    );
    check(
        &error(
            "program 0 dictionaries\npipeline\n  scan 0 t ()\n  r0: i64 = const 1701411834604692317316873037158841057280\n",
        ),
        &expect!["expected a constant, found `1701411834604692317316873037158841057280` (line 4)"],
    );
}

#[test]
fn key_sets_are_summed_up() {
    let keys = KeySet::new([-70, 5, 200].into_iter()).expect("keys lie close");
    let test = ColumnPredicate { column: 3, test: Predicate::Keys(Arc::new(keys)) };
    check(&test.to_string(), &expect!["column 3 in <3 keys in -70..=200>"]);
}

fn check(text: &str, expected: &Expect) {
    expected.assert_eq(text);
}
