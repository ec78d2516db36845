//! Groups of several workers, filled as compiled code does, against lists of arguments by key.

use std::collections::HashMap;

use forebay_pipeline::Scalar;
use forebay_pipeline::ir::{Aggregate, AggregateFunction, Typed};
use proptest::prelude::*;

use super::partitioned::FIRST_BYTES;
use super::plan::PARTITIONED_GROUPS;
use super::*;
use crate::layout::Accumulator;
use crate::rows::wide;
use crate::scalars::{any_typed, hash_of, random, row_of, rows_of, scalar, words_of};
use crate::vector::VECTOR_ROWS;

type Row = Vec<Scalar>;

impl GroupPart {
    /// What compiled code does with a row of the sink.
    fn feed(&mut self, key: &[Scalar], arguments: &[Option<Scalar>]) {
        let first = match self.plan.layout {
            GroupLayout::Dense { .. } => {
                let slot = self.slot_of(key);
                self.touched[slot] = u8::from(!key.is_empty());
                slot * self.words
            }
            GroupLayout::Hash => {
                let hash = hash_of(key);
                let found = self.find(hash, key).unwrap_or_else(|| {
                    let layout = self.row.key.clone();
                    let words = row_of(&layout, key, &mut |bytes| self.keep_bytes(bytes));
                    let (address, _) = self.insert(hash, &words[1..]);
                    (address - self.addresses().rows) as usize / (self.words * WORD)
                });
                found * self.words + self.row.key.words
            }
            GroupLayout::Partitioned => {
                let layout = self.row.key.clone();
                self.rows = row_of(&layout, key, &mut |_| panic!("partitioned groups have no bytes"));
                self.rows[0] = hash_of(key);
                self.rows.resize(self.words, 0);
                self.row.key.words
            }
        };
        for (accumulator, argument) in self.row.accumulators.clone().iter().zip(arguments) {
            let behind = |word| first + word - self.row.key.words;
            let place = (behind(accumulator.word), accumulator.seen.map(behind));
            if argument.as_ref().is_none_or(|argument| !argument.is_null()) {
                self.accumulate(accumulator, place, argument.as_ref());
            }
        }
        if self.plan.layout == GroupLayout::Partitioned {
            let new = std::mem::take(&mut self.rows);
            self.partitioned.push(&new, |pieces| merge::combine_one(&self.row, &pieces));
        }
    }

    fn slot_of(&self, key: &[Scalar]) -> usize {
        let number = |(key, scalar): (&DenseKey, &Scalar)| match scalar {
            Scalar::Null => key.span * key.stride,
            Scalar::Bool(value) => u64::from(*value) * key.stride,
            Scalar::I64(value) => {
                let number = value.wrapping_sub(key.low) as u64;
                assert!(number < key.span);
                number * key.stride
            }
            _ => panic!("dense keys are integers"),
        };
        self.plan.keys.iter().zip(key).map(number).sum::<u64>() as usize
    }

    fn find(&mut self, hash: u64, key: &[Scalar]) -> Option<usize> {
        let addresses = self.addresses();
        let mut slot = (hash >> addresses.shift) as usize;
        while self.directory[slot] != 0 {
            let word = self.directory[slot];
            let group = (word & ((1 << SLOT_ROW_BITS) - 1)) as usize - 1;
            let row = &self.rows[group * self.words..][..self.words];
            if word >> SLOT_ROW_BITS << SLOT_ROW_BITS == group_tag(hash) && row[0] == hash {
                let fields = Field::of_row(&self.row.key);
                let is_it = fields.iter().zip(key).all(|(field, scalar)| self.value(field, row) == *scalar);
                if is_it {
                    return Some(group);
                }
            }
            slot = (slot + 1) % addresses.slots as usize;
        }
        None
    }

    fn value(&self, field: &Field, row: &[u64]) -> Scalar {
        let word = field.word;
        match field.value {
            _ if !field.is_valid(row) => Scalar::Null,
            ValueType::Bool => Scalar::Bool(row[word] != 0),
            ValueType::I64 => Scalar::I64(row[word] as i64),
            ValueType::F64 => Scalar::F64(f64::from_bits(row[word])),
            ValueType::I128 => Scalar::I128(wide(&row[word..])),
            ValueType::Bytes => Scalar::bytes(self.arena.get(row[word], row[word + 1] as usize)),
        }
    }

    fn accumulate(
        &mut self,
        accumulator: &Accumulator,
        (word, seen): (usize, Option<usize>),
        argument: Option<&Scalar>,
    ) {
        let was_seen = seen.is_some_and(|seen| std::mem::replace(&mut self.rows[seen], 1) == 1);
        let old = self.value(&Field { value: accumulator.value, word, valid: Valid::Always }, &self.rows);
        let argument = argument.cloned().unwrap_or(Scalar::Null);
        let new = match (accumulator.aggregate.function, old, argument) {
            (AggregateFunction::CountRows | AggregateFunction::Count, Scalar::I64(count), _) => Scalar::I64(count + 1),
            (AggregateFunction::Min, old, argument) => {
                if was_seen {
                    old.min(argument)
                } else {
                    argument
                }
            }
            (AggregateFunction::Max, old, argument) => {
                if was_seen {
                    old.max(argument)
                } else {
                    argument
                }
            }
            (AggregateFunction::First, old, argument) => {
                if was_seen {
                    old
                } else {
                    argument
                }
            }
            (_, Scalar::I128(sum), Scalar::I64(value)) => Scalar::I128(sum + i128::from(value)),
            (_, Scalar::I128(sum), Scalar::I128(value)) => Scalar::I128(sum.wrapping_add(value)),
            (_, Scalar::I64(sum), Scalar::I64(value)) => Scalar::I64(sum.wrapping_add(value)),
            (_, Scalar::F64(sum), Scalar::F64(value)) => Scalar::float(sum + value),
            (function, old, argument) => panic!("{function:?} of {old:?} and {argument:?}"),
        };
        let (address, length) = match accumulator.value {
            ValueType::Bytes if was_seen => (self.rows[word], self.rows[word + 1] as usize),
            _ => (0, 0),
        };
        let words = words_of(&new, accumulator.value, &mut |bytes| self.arena.replace(address, length, bytes));
        self.rows[word..word + words.len()].copy_from_slice(&words);
    }
}

/// What a program's reader expects of an aggregate over these arguments; `None` is an overflow.
fn expected(aggregate: &Aggregate, rows: usize, arguments: &[Scalar]) -> Option<Scalar> {
    let integer = |scalar: &Scalar| match scalar {
        Scalar::I64(value) => i128::from(*value),
        Scalar::I128(value) => *value,
        other => panic!("{other:?} is no integer"),
    };
    let sum = || arguments.iter().map(integer).sum::<i128>();
    Some(match aggregate.function {
        AggregateFunction::CountRows => Scalar::I64(rows as i64),
        AggregateFunction::Count => Scalar::I64(arguments.len() as i64),
        _ if arguments.is_empty() => Scalar::Null,
        AggregateFunction::Min => arguments.iter().min()?.clone(),
        AggregateFunction::Max => arguments.iter().max()?.clone(),
        AggregateFunction::First => arguments[0].clone(),
        AggregateFunction::Sum | AggregateFunction::SumWide | AggregateFunction::SumFitting => {
            match aggregate.result().value {
                ValueType::I64 => Scalar::I64(i64::try_from(sum()).ok()?),
                ValueType::F64 => Scalar::float(arguments.iter().fold(0.0, |sum, argument| match argument {
                    Scalar::F64(value) => sum + value,
                    other => panic!("{other:?} is no float"),
                })),
                _ => Scalar::I128(sum()),
            }
        }
    })
}

/// Rows of key parts and arguments through `parts` workers, and what comes out, sorted.
fn run(
    state: &AggregateState,
    plan: &GroupPlan,
    rows: &[(Row, Vec<Option<Scalar>>)],
    (workers, threads): (usize, usize),
) -> Result<Vec<Row>, Fault> {
    let mut parts: Vec<GroupPart> = (0..workers).map(|_| GroupPart::new(state, plan)).collect();
    for (number, (key, arguments)) in rows.iter().enumerate() {
        parts[number * 7 % workers.max(1)].feed(key, arguments);
    }
    assert!(parts.iter().all(|part| part.memory_bytes() > 0));
    let table = GroupTable::merge(state, plan, parts, threads)?;
    let mut found = groups_of(state, &table);
    found.sort();
    Ok(found)
}

/// The rows of a table of groups: keys, then aggregates.
fn groups_of(state: &AggregateState, table: &GroupTable) -> Vec<Row> {
    let types: Vec<Typed> = state.keys.iter().copied().chain(state.aggregates.iter().map(Aggregate::result)).collect();
    let mut found = Vec::new();
    let mut vectors = Vec::new();
    for start in (0..table.len()).step_by(VECTOR_ROWS) {
        let range = start..table.len().min(start + VECTOR_ROWS);
        table.rows().read(range.clone(), &mut vectors);
        found.extend(rows_of(&vectors, range.len(), &types));
    }
    found
}

fn twin(state: &AggregateState, rows: &[(Row, Vec<Option<Scalar>>)]) -> Result<Vec<Row>, Fault> {
    let mut groups: HashMap<&Row, Vec<&Vec<Option<Scalar>>>> = HashMap::new();
    let none = Row::new();
    if state.keys.is_empty() {
        groups.insert(&none, Vec::new());
    }
    rows.iter().for_each(|(key, arguments)| groups.entry(key).or_default().push(arguments));
    let mut found = Vec::new();
    for (key, rows) in groups {
        let mut row = key.clone();
        for (number, aggregate) in state.aggregates.iter().enumerate() {
            let arguments: Vec<Scalar> =
                rows.iter().filter_map(|row| row[number].clone()).filter(|argument| !argument.is_null()).collect();
            row.push(expected(aggregate, rows.len(), &arguments).ok_or(Fault::Overflow)?);
        }
        found.push(row);
    }
    found.sort();
    Ok(found)
}

/// `First` may be any argument, so that both sides say only whether there is one.
fn without_choice(state: &AggregateState, rows: Result<Vec<Row>, Fault>) -> Result<Vec<Row>, Fault> {
    let firsts = state.aggregates.iter().map(|aggregate| aggregate.function == AggregateFunction::First);
    let is_choice: Vec<bool> = state.keys.iter().map(|_| false).chain(firsts).collect();
    let simple = |(scalar, is_choice): (Scalar, &bool)| match is_choice {
        true => Scalar::Bool(scalar.is_null()),
        false => scalar,
    };
    let mut rows: Vec<Row> =
        rows?.into_iter().map(|row| row.into_iter().zip(&is_choice).map(simple).collect()).collect();
    rows.sort();
    Ok(rows)
}

fn any_aggregate() -> impl Strategy<Value = Aggregate> {
    (any_typed(), 0..8usize).prop_map(|(typed, function)| {
        let is_number = matches!(typed.value, ValueType::I64 | ValueType::I128 | ValueType::F64);
        let is_integer = typed.value == ValueType::I64;
        let function = match function {
            0 => return Aggregate { function: AggregateFunction::CountRows, argument: None },
            1 if is_number => AggregateFunction::Sum,
            2 if is_integer => AggregateFunction::SumWide,
            3 if is_integer => AggregateFunction::SumFitting,
            4 => AggregateFunction::Max,
            5 => AggregateFunction::First,
            6 => AggregateFunction::Count,
            _ => AggregateFunction::Min,
        };
        Aggregate { function, argument: Some(typed) }
    })
}

/// Rows for a state. Sums that need not be checked get small numbers.
fn any_rows(state: &AggregateState, rows: usize, domain: u64, seed: &mut u64) -> Vec<(Row, Vec<Option<Scalar>>)> {
    let argument = |aggregate: &Aggregate, random: u64| {
        let typed = aggregate.argument?;
        let fits = aggregate.function == AggregateFunction::SumFitting
            || aggregate.function == AggregateFunction::Sum && random >> 60 != 0;
        Some(match scalar(typed, random, 1000) {
            Scalar::I64(value) if fits => Scalar::I64(value % 1000),
            other => other,
        })
    };
    let row = |_| {
        let key = state.keys.iter().map(|typed| scalar(*typed, random(seed), domain)).collect();
        (key, state.aggregates.iter().map(|aggregate| argument(aggregate, random(seed))).collect())
    };
    (0..rows).map(row).collect()
}

fn ranges(state: &AggregateState, rows: &[(Row, Vec<Option<Scalar>>)]) -> Vec<Option<(i64, i64)>> {
    let range = |key: usize| {
        let values = rows.iter().filter_map(|(row, _)| match row[key] {
            Scalar::I64(value) => Some(value),
            _ => None,
        });
        values.clone().min().zip(values.max())
    };
    (0..state.keys.len()).map(range).collect()
}

/// Extremes out of the keys, so that they lie close.
fn calm(state: &AggregateState, rows: &mut [(Row, Vec<Option<Scalar>>)]) {
    for (key, _) in rows.iter_mut() {
        for (scalar, _) in key.iter_mut().zip(&state.keys) {
            if let Scalar::I64(value) = scalar {
                *value %= 100;
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn groups_are_those_of_a_map(
        keys in prop::collection::vec(any_typed(), 0..4),
        aggregates in prop::collection::vec(any_aggregate(), 0..5),
        rows in 0usize..400,
        (workers, threads, domain) in (0usize..4, 1usize..4, 1u64..300),
        (is_calm, is_dense, is_partitioned) in any::<(bool, bool, bool)>(),
        mut seed: u64,
    ) {
        let state = AggregateState { keys, aggregates };
        let rows = if workers == 0 { 0 } else { rows };
        let mut rows = any_rows(&state, rows, domain, &mut seed);
        if is_calm {
            calm(&state, &mut rows);
        }
        let plan = match is_dense || state.keys.is_empty() {
            true => GroupPlan::pick(&state, &ranges(&state, &rows), 0, 0),
            false if is_partitioned => GroupPlan::partitioned(&state),
            false => GroupPlan::hash(),
        };
        let found = run(&state, &plan, &rows, (workers, threads));
        prop_assert_eq!(without_choice(&state, found), without_choice(&state, twin(&state, &rows)));
    }
}

fn aggregate(function: AggregateFunction, value: ValueType) -> Aggregate {
    let argument = (function != AggregateFunction::CountRows).then_some(Typed::required(value));
    Aggregate { function, argument }
}

#[test]
fn many_groups_in_many_partitions() {
    let sums = [AggregateFunction::Sum, AggregateFunction::CountRows, AggregateFunction::Max];
    for (keys, domain) in [(vec![ValueType::I64], 100_000), (vec![ValueType::Bytes, ValueType::I64], 3000)] {
        let keys = keys.into_iter().map(Typed::nullable).collect();
        let aggregates = sums.iter().map(|function| aggregate(*function, ValueType::I64)).collect();
        let state = AggregateState { keys, aggregates };
        let mut rows = any_rows(&state, 200_000, domain, &mut 5);
        for (_, arguments) in &mut rows {
            arguments[0] = Some(Scalar::I64(1 << 40));
        }
        for plan in [GroupPlan::hash(), GroupPlan::partitioned(&state)] {
            assert_eq!(run(&state, &plan, &rows, (3, 3)), twin(&state, &rows));
        }
    }
}

#[test]
fn a_single_worker_checks_its_sums_too() {
    let state = AggregateState {
        keys: vec![Typed::required(ValueType::I64)],
        aggregates: vec![aggregate(AggregateFunction::Sum, ValueType::I64)],
    };
    let row = |key, value| (vec![Scalar::I64(key)], vec![Some(Scalar::I64(value))]);
    for plan in [GroupPlan::hash(), GroupPlan::partitioned(&state), GroupPlan::pick(&state, &[Some((0, 9))], 0, 0)] {
        let over = [row(1, i64::MAX), row(1, 1)];
        assert_eq!(run(&state, &plan, &over, (1, 1)), Err(Fault::Overflow));
        assert_eq!(run(&state, &plan, &over, (2, 1)), Err(Fault::Overflow));
        let back = [row(1, i64::MAX), row(1, 1), row(1, -2)];
        assert_eq!(run(&state, &plan, &back, (2, 1)), Ok(vec![vec![Scalar::I64(1), Scalar::I64(i64::MAX - 1)]]));
    }
}

#[test]
fn wide_sums_overflow_when_they_are_merged() {
    let state = AggregateState { keys: vec![], aggregates: vec![aggregate(AggregateFunction::Sum, ValueType::I128)] };
    let plan = GroupPlan::pick(&state, &[], 0, 0);
    let row = |value| (vec![], vec![Some(Scalar::I128(value))]);
    assert_eq!(run(&state, &plan, &[row(i128::MAX), row(1)], (2, 1)), Err(Fault::Overflow));
    assert_eq!(run(&state, &plan, &[row(i128::MIN), row(i128::MAX)], (2, 1)), Ok(vec![vec![Scalar::I128(-1)]]));
}

#[test]
fn without_keys_there_is_always_a_row() {
    let functions = [AggregateFunction::CountRows, AggregateFunction::Sum, AggregateFunction::Min];
    let aggregates = functions.iter().map(|function| aggregate(*function, ValueType::I64)).collect();
    let state = AggregateState { keys: vec![], aggregates };
    let plan = GroupPlan::pick(&state, &[], 0, 0);
    assert!(plan.layout().is_dense());
    for workers in [0, 1, 3] {
        let row = vec![Scalar::I64(0), Scalar::Null, Scalar::Null];
        assert_eq!(run(&state, &plan, &[], (workers, 2)), Ok(vec![row]));
    }
    let keyed = AggregateState { keys: vec![Typed::required(ValueType::I64)], ..state };
    assert_eq!(run(&keyed, &GroupPlan::hash(), &[], (2, 2)), Ok(vec![]));
    assert_eq!(run(&keyed, &GroupPlan::pick(&keyed, &[Some((0, 9))], 0, 0), &[], (2, 2)), Ok(vec![]));
}

#[test]
fn dense_groups_end_at_their_limits() {
    let state = |keys: &[Typed], aggregates| AggregateState { keys: keys.to_vec(), aggregates };
    let (integer, nullable) = (Typed::required(ValueType::I64), Typed::nullable(ValueType::I64));
    let layout = |state: &AggregateState, ranges: &[Option<(i64, i64)>]| GroupPlan::pick(state, ranges, 0, 0).layout();
    let distinct = state(&[integer], vec![]);
    assert_eq!(layout(&distinct, &[Some((5, 4 + (1 << 20)))]), GroupLayout::Dense { is_large: false });
    assert_eq!(layout(&distinct, &[Some((5, 5 + (1 << 20)))]), GroupLayout::Hash);
    assert_eq!(layout(&state(&[nullable], vec![]), &[Some((5, 4 + (1 << 20)))]), GroupLayout::Hash);
    assert_eq!(layout(&distinct, &[Some((i64::MIN, i64::MAX))]), GroupLayout::Hash);
    assert_eq!(layout(&distinct, &[None]), GroupLayout::Hash);
    assert_eq!(layout(&distinct, &[Some((1, 0))]), GroupLayout::Hash);
    let wide = vec![aggregate(AggregateFunction::SumWide, ValueType::I64); 4];
    assert_eq!(
        layout(&state(&[integer], wide.clone()), &[Some((1, (8 << 20) / 65))]),
        GroupLayout::Dense { is_large: true }
    );
    assert_eq!(layout(&state(&[integer], wide), &[Some((1, (8 << 20) / 65 + 1))]), GroupLayout::Hash);
    let pair = state(&[nullable, Typed::nullable(ValueType::Bool)], vec![]);
    let plan = GroupPlan::pick(&pair, &[Some((i64::MAX - 9, i64::MAX)), None], 0, 0);
    let keys = [DenseKey { low: i64::MAX - 9, span: 10, stride: 1 }, DenseKey { low: 0, span: 2, stride: 11 }];
    assert_eq!((plan.layout(), plan.keys(), plan.slots), (GroupLayout::Dense { is_large: false }, &keys[..], 33));
    assert_eq!(layout(&state(&[Typed::required(ValueType::F64)], vec![]), &[None]), GroupLayout::Hash);
}

/// A part that has outgrown the caches begins anew; a key that it meets again is one group all the same.
#[test]
fn generations_are_merged() {
    let state = counted();
    let keys = GENERATION_GROUPS as i64 * 5 / 2;
    for workers in [1, 2] {
        let mut parts: Vec<_> = (0..workers).map(|_| GroupPart::new(&state, &GroupPlan::hash())).collect();
        for part in &mut parts {
            for key in (0..keys).chain(0..100) {
                part.feed(&[Scalar::I64(key)], &[None]);
            }
            assert_eq!(
                (part.earlier.word_count() / part.words, part.len()),
                (2 * GENERATION_GROUPS, keys as usize + 100)
            );
            assert!(part.memory_bytes() >= part.len() * part.words * WORD);
        }
        let table = GroupTable::merge(&state, &GroupPlan::hash(), parts, 2).expect("counts fit");
        assert_eq!(table.len(), keys as usize);
        let mut vectors = Vec::new();
        let mut counts = HashMap::new();
        for start in (0..table.len()).step_by(VECTOR_ROWS) {
            let end = table.len().min(start + VECTOR_ROWS);
            table.rows().read(start..end, &mut vectors);
            for (key, count) in vectors[0].values::<i64>().iter().zip(vectors[1].values::<i64>()) {
                assert_eq!(counts.insert(*key, *count), None);
            }
        }
        assert!((0..keys).all(|key| counts[&key] == workers * if key < 100 { 2 } else { 1 }));
    }
}

fn counted() -> AggregateState {
    AggregateState {
        keys: vec![Typed::required(ValueType::I64)],
        aggregates: vec![Aggregate { function: AggregateFunction::CountRows, argument: None }],
    }
}

/// Generations are put aside beyond all bounds only where they have different keys.
#[test]
fn generations_of_the_same_keys_end() {
    let state = counted();
    let most = EARLIER_BYTES / (GroupRow::new(&state).words * WORD);
    let (same, rows) = (GENERATION_GROUPS as i64 * 3 / 2, most as i64 * 5 / 4);
    let [repeated, different] = [same, rows].map(|keys| {
        let mut part = GroupPart::new(&state, &GroupPlan::hash());
        (0..rows).for_each(|row| part.feed(&[Scalar::I64(row % keys)], &[None]));
        let earlier = part.earlier.word_count() / part.words;
        let table = GroupTable::merge(&state, &GroupPlan::hash(), vec![part], 2).expect("counts fit");
        assert_eq!(table.len(), keys as usize);
        earlier
    });
    assert!((most - GENERATION_GROUPS..=most).contains(&repeated), "{repeated} rows of {most}");
    assert!(different >= rows as usize - GENERATION_GROUPS, "{different} rows of {rows}");
}

/// What a part gives as runs: rows, of which none has a key of another one in its run.
fn rows_of_runs(state: &AggregateState, part: &mut GroupPart) -> usize {
    let words = part.words;
    let mut read = 0;
    let mut write = |_: usize, run: &crate::runs::Run| {
        let hashes: std::collections::HashSet<u64> = run.words.chunks_exact(words).map(|row| row[0]).collect();
        assert_eq!(hashes.len(), run.words.len() / words, "the hash tells these keys apart");
        read += hashes.len();
        Ok(())
    };
    part.take_runs(&RunLayout::of_groups(state), &Partitions::first(), &mut write).expect("nothing fails");
    assert!(part.is_empty());
    read
}

#[test]
fn no_run_has_a_key_of_two_generations() {
    let state = counted();
    let mut part = GroupPart::new(&state, &GroupPlan::hash());
    let keys = GENERATION_GROUPS as i64 + 1000;
    (0..3 * keys).for_each(|row| part.feed(&[Scalar::I64(row % keys)], &[None]));
    let groups = part.len();
    assert_eq!(rows_of_runs(&state, &mut part), groups);
}

/// A part without a table combines rows of equal keys as it takes them, and when it gives them away; it goes on behind that.
#[test]
fn partitioned_rows_are_combined() {
    let (state, plan) = (counted(), GroupPlan::partitioned(&counted()));
    assert_eq!(plan.layout(), GroupLayout::Partitioned);
    let mut part = GroupPart::new(&state, &plan);
    assert!(part.is_empty() && rows_of_runs(&state, &mut part) == 0);
    let (keys, rows) = (5000, 2_000_000);
    for _ in 0..2 {
        (0..rows).for_each(|row| part.feed(&[Scalar::I64(row % keys)], &[None]));
        assert!((keys as usize..400_000).contains(&part.len()), "{} rows of {rows} are left", part.len());
        assert!(part.memory_bytes() >= part.len() * part.words * WORD);
        assert_eq!(rows_of_runs(&state, &mut part), keys as usize);
    }
    let text = AggregateState { keys: vec![Typed::required(ValueType::Bytes)], aggregates: vec![] };
    assert_eq!(GroupPlan::partitioned(&text).layout(), GroupLayout::Hash, "texts are not copied once for each row");
}

#[test]
fn many_expected_groups_are_partitioned() {
    let layout = |expected, most_bytes| GroupPlan::pick(&counted(), &[None], expected, most_bytes).layout();
    assert_eq!(layout(PARTITIONED_GROUPS - 1, 1 << 30), GroupLayout::Hash);
    assert_eq!(layout(PARTITIONED_GROUPS, 1 << 30), GroupLayout::Partitioned);
    assert_eq!(layout(usize::MAX, 1 << 30), GroupLayout::Partitioned);
    assert_eq!(layout(usize::MAX, FIRST_BYTES), GroupLayout::Hash, "the first pieces would take all memory");
}

/// Blocks of rows whose keys no other block has but for the first and the last, and NULL, by turns to two workers; one block
/// have more groups than a generation. What was taken out and what is left are all groups, each once.
#[test]
fn finished_groups_are_taken_out_once() {
    let aggregates = [AggregateFunction::Sum, AggregateFunction::CountRows, AggregateFunction::Min];
    let state = AggregateState {
        keys: vec![Typed::required(ValueType::I64), Typed::nullable(ValueType::I64)],
        aggregates: aggregates.iter().map(|function| aggregate(*function, ValueType::I64)).collect(),
    };
    let plan = GroupPlan::hash();
    assert!(GroupPart::can_finish(&state, 0) && GroupPart::can_finish(&state, 1));
    let (mut seed, mut all) = (3, Vec::new());
    let mut parts: Vec<GroupPart> = (0..2).map(|_| GroupPart::new(&state, &plan)).collect();
    let mut found = Vec::new();
    let mut taken = Vec::new();
    let mut low = -1000;
    for block in 0..24 {
        let keys = if block == 4 { GENERATION_GROUPS as i64 + 5000 } else { 40 * (block % 5) };
        let high = low + keys;
        let mut rows = Vec::new();
        for row in 0..(keys + 1) * 2 {
            let random = random(&mut seed);
            let key = if random.is_multiple_of(8) { Scalar::Null } else { Scalar::I64(low + row % (keys + 1)) };
            let value = Some(Scalar::I64((random >> 40) as i64 - (1 << 20)));
            rows.push((vec![Scalar::I64(row % 2), key], vec![value.clone(), None, value]));
        }
        let part = &mut parts[block as usize % 2];
        rows.iter().for_each(|(key, arguments)| part.feed(key, arguments));
        let finished = part.take_finished(1, (low + 1, high - 1));
        taken.push(finished.is_some());
        found.extend(finished.iter().flat_map(|table| groups_of(&state, table)));
        // A second time there is nothing: they are taken out. Not asked where the first call found them divided.
        assert!(finished.is_none() || part.take_finished(1, (low + 1, high - 1)).is_none());
        all.extend(rows);
        low = high;
    }
    // Block 4 is too large to be finished as a whole; 0, 5, 10, 15 and 20 have one key.
    let expected: Vec<bool> = (0..24).map(|block| block != 4 && block % 5 != 0).collect();
    assert_eq!(taken, expected);
    let rest = GroupTable::merge(&state, &plan, parts, 2).expect("sums are small");
    found.extend(groups_of(&state, &rest));
    found.sort();
    assert_eq!(Ok(found), twin(&state, &all));
}
