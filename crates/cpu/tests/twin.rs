//! Every translated test against `Predicate::passes` on single values, and every unpacking against the naive reading, over
//! all types, encodings, selections and NULLs.

#[path = "../../block/tests/cases/mod.rs"]
mod cases;

use std::ops::Bound;

use cases::{Aligned, Case, Cell, Random, any_case, any_encoding, read, value_of};
use forebay_base::{PhysicalType, Value};
use forebay_block::psma::Worth;
use forebay_block::{Access, EncodedBlock, Encoding, Native, Psma, Values, validity, with_native};
use forebay_cpu::simd::SimdLevel;
use forebay_cpu::{BlockPredicate, Matches, Selection, translate, unpack_codes, unpack_fixed, unpack_validity};
use forebay_pipeline::{KeySet, Predicate};
use proptest::prelude::*;

/// A constant: a value of the column, one next to it, one at an edge, or one of another family.
fn constant(case: &Case, random: &mut Random) -> Value {
    let row = random.below(case.cells.len().max(1) as u64) as usize;
    let known = case.cells.get(row).cloned().flatten().map(|cell| value_of(case.physical, &cell));
    let edge = Case::generate(case.physical, 7, 1, 0, random.next()).value(0).expect("no NULL was asked for");
    let known = known.unwrap_or(edge.clone());
    match (random.below(24), known) {
        (0, _) => Value::Int(i128::MAX),
        (1, _) => Value::Int(i128::MIN),
        (2, _) => Value::Int(3),
        (3, _) => Value::Float(0.5),
        (4, _) => Value::Bytes(b"b".to_vec()),
        (5..8, _) => edge,
        (8..11, Value::Int(value)) => Value::Int(value.saturating_add(1)),
        (11..14, Value::Int(value)) => Value::Int(value.saturating_sub(1)),
        (8..14, Value::Float(value)) => Value::Float(value + 0.001),
        (8..11, Value::Bytes(mut value)) => {
            value.push(0);
            Value::Bytes(value)
        }
        (11..14, Value::Bytes(mut value)) => {
            value.pop();
            Value::Bytes(value)
        }
        (_, value) => value,
    }
}

fn any_test(case: &Case, random: &mut Random) -> Predicate {
    let bound = |random: &mut Random| match random.below(5) {
        0 => Bound::Unbounded,
        1 | 2 => Bound::Included(constant(case, random)),
        _ => Bound::Excluded(constant(case, random)),
    };
    let list = |random: &mut Random, count: u64| {
        let mut values: Vec<Value> = (0..count).map(|_| constant(case, random)).collect();
        values.sort();
        values.dedup();
        values
    };
    let integer = |value| match value {
        Value::Int(value) => Some(value),
        _ => None,
    };
    match random.below(14) {
        0..4 => Predicate::Range { low: bound(random), high: bound(random) },
        4 => Predicate::equal(constant(case, random)),
        5 => Predicate::NotEqual(constant(case, random)),
        6 => Predicate::In(list(random, 3)),
        7 => {
            let count = random.below(60);
            Predicate::In(list(random, count))
        }
        8 => {
            let count = random.below(30);
            Predicate::NotIn(list(random, count))
        }
        9 => Predicate::IsNull,
        11 => {
            // Close keys around one constant, which may be an end of the type.
            let around = integer(constant(case, random)).unwrap_or(0);
            let distances: Vec<i128> = (0..=random.below(30)).map(|_| i128::from(random.below(400)) - 200).collect();
            let keys = KeySet::new(distances.iter().map(|distance| around.saturating_add(*distance)));
            keys.map_or(Predicate::Never, |keys| Predicate::Keys(keys.into()))
        }
        10 => Predicate::IsNotNull,
        12 => Predicate::Like { pattern: any_pattern(case, random).into(), negated: random.below(2) == 0 },
        _ => Predicate::Never,
    }
}

/// A part of a constant with wildcards around it, and sometimes within it.
fn any_pattern(case: &Case, random: &mut Random) -> Vec<u8> {
    let mut text = match constant(case, random) {
        Value::Bytes(text) => text,
        _ => Vec::new(),
    };
    text.truncate(random.below(20) as usize);
    text.drain(..random.below(text.len() as u64 + 1) as usize);
    if random.below(3) == 0 {
        let at = random.below(text.len() as u64 + 1) as usize;
        text.insert(at, if random.below(2) == 0 { b'%' } else { b'_' });
    }
    let around = |random: &mut Random| if random.below(3) == 0 { &b""[..] } else { &b"%"[..] };
    [around(random), &text, around(random)].concat()
}

/// All rows, a range of them, or some of them.
fn any_selection(rows: usize, random: &mut Random) -> Selection {
    let end = random.below(rows as u64 + 1);
    match random.below(3) {
        0 => Selection::Rows(0..rows as u32),
        1 => Selection::Rows(random.below(end + 1) as u32..end as u32),
        _ => {
            let step = 1 + random.below(9);
            Selection::Positions((0..rows).filter(|_| random.below(step) == 0).map(|row| row as u16).collect())
        }
    }
}

fn check_test(case: &Case, block: &EncodedBlock, test: &Predicate, selection: &Selection) {
    let level = SimdLevel::ALL[(selection.len() + case.cells.len()) % SimdLevel::ALL.len()];
    check_test_by(level, case, block, test, selection);
}

fn check_test_by(level: SimdLevel, case: &Case, block: &EncodedBlock, test: &Predicate, selection: &Selection) {
    let expected: Vec<usize> = selection.rows().filter(|row| test.passes(case.value(*row).as_ref())).collect();
    let mut matches = Matches::new(selection.clone(), block.rows(), level);
    let block_test = translate(block, test, level);
    block_test.select(block, &mut matches);
    let found = matches.finish();
    let found_rows: Vec<usize> = found.rows().collect();
    assert_eq!(found_rows, expected, "{test:?} as {block_test:?} on {:?} {:?}", block.encoding(), block.physical());
    if let (Some(first), Some(last)) = (expected.first(), expected.last())
        && last - first + 1 == expected.len()
    {
        assert_eq!(found, Selection::Rows(*first as u32..*last as u32 + 1), "adjacent rows are a range");
    }
}

/// The bits of a test's runs say of each valid row whether it passes.
fn check_run_bits(case: &Case, block: &EncodedBlock, test: &Predicate) {
    let Access::RunLength { ends, .. } = block.access() else { return };
    let Some(bits) = translate(block, test, SimdLevel::best()).run_bits(block, SimdLevel::best()) else { return };
    for row in (0..block.rows()).filter(|row| case.cells[*row].is_some()) {
        let run = ends.run_of(row);
        assert_eq!(bits[run / 64] >> (run % 64) & 1 == 1, test.passes(case.value(row).as_ref()), "{test:?}, row {row}");
    }
}

/// No row that passes is outside of the rows that positional aggregates tell.
fn check_psma(case: &Case, block: &EncodedBlock, test: &Predicate) {
    let Some(psma) = Psma::build(block, Worth::Always) else { return };
    let Some(rows) = translate(block, test, SimdLevel::best()).rows(&psma) else { return };
    let lost = (0..block.rows()).find(|row| test.passes(case.value(*row).as_ref()) && !rows.contains(&(*row as u32)));
    assert_eq!(lost, None, "{test:?} on {:?} {:?} in {rows:?}", block.encoding(), block.physical());
}

fn check_unpack(case: &Case, block: &EncodedBlock, selection: &Selection) {
    let rows: Vec<usize> = selection.rows().collect();
    with_native!(
        case.physical,
        T => {
            let mut out: Vec<T> = vec![bytemuck::Zeroable::zeroed()];
            unpack_fixed(block, selection, &mut out);
            assert_eq!(out.len(), rows.len() + 1);
            for (row, value) in rows.iter().zip(&out[1..]) {
                if let Some(cell) = &case.cells[*row] {
                    assert_eq!(&Cell::Bits(Native::bits(*value)), cell, "row {row}");
                }
            }
        },
        bytes => {}
    );
    if let Access::Dictionary { values, .. } | Access::RunLength { values, .. } = block.access() {
        let mut codes = vec![7];
        unpack_codes(block, selection, &mut codes);
        assert_eq!(codes.len(), rows.len() + 1);
        for (row, code) in rows.iter().zip(&codes[1..]) {
            if let (Some(Cell::Bytes(bytes)), Values::Strings(values)) = (&case.cells[*row], values) {
                assert_eq!(values.get(*code as usize), bytes.as_slice());
            }
        }
    }
    match unpack_validity(block, selection) {
        None => assert_eq!(block.null_count(), 0),
        Some(bitmap) => {
            assert_eq!(bitmap.len(), rows.len().div_ceil(8));
            for (index, row) in rows.iter().enumerate() {
                assert_eq!(validity::is_valid(&bitmap, index), case.cells[*row].is_some(), "row {row}");
            }
            let selected_valid = validity::count_valid(&bitmap, rows.len());
            let all_bits: u32 = bitmap.iter().map(|byte| byte.count_ones()).sum();
            assert_eq!(selected_valid, all_bits as usize, "bits behind the selection are 0");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    #[test]
    fn tests_on_codes_are_tests_on_values(case in any_case(), force in any_encoding(), seed: u64) {
        let (bytes, _) = case.encode(force);
        let block = EncodedBlock::parse(bytes.bytes()).expect("own blocks parse");
        let mut random = Random(seed);
        for _ in 0..12 {
            let test = any_test(&case, &mut random);
            check_test(&case, &block, &test, &any_selection(case.cells.len(), &mut random));
            check_psma(&case, &block, &test);
        }
    }

    #[test]
    fn tests_on_runs_are_tests_on_values(physical in 0..12usize, rows in 1..3000usize, nulls in 0..3u64, seed: u64) {
        let mut random = Random(seed);
        let case = Case::generate(PhysicalType::ALL[physical], cases::RUNS, rows, nulls * 20, seed);
        let (bytes, _) = case.encode(Some(Encoding::RunLength));
        let block = EncodedBlock::parse(bytes.bytes()).expect("own blocks parse");
        for _ in 0..8 {
            let (test, selection) = (any_test(&case, &mut random), any_selection(rows, &mut random));
            for level in SimdLevel::ALL {
                check_test_by(level, &case, &block, &test, &selection);
            }
            check_run_bits(&case, &block, &test);
            check_unpack(&case, &block, &selection);
        }
        prop_assert_eq!(Psma::build(&block, Worth::Always), None, "the runs are the index");
    }

    #[test]
    fn unpacking_reads_what_was_encoded(case in any_case(), force in any_encoding(), seed: u64) {
        let (bytes, _) = case.encode(force);
        let block = EncodedBlock::parse(bytes.bytes()).expect("own blocks parse");
        let mut random = Random(seed);
        for _ in 0..4 {
            check_unpack(&case, &block, &any_selection(case.cells.len(), &mut random));
        }
    }

    #[test]
    fn damaged_blocks_never_panic(case in any_case(), force in any_encoding(), seed: u64) {
        let (bytes, _) = case.encode(force);
        let mut random = Random(seed);
        for _ in 0..30 {
            let mut damaged = bytes.bytes().to_vec();
            for _ in 0..=random.below(2) {
                let end = if random.below(2) == 0 { 64 } else { damaged.len() };
                damaged[random.below(end as u64) as usize] = random.next() as u8;
            }
            let damaged = Aligned::new(&damaged);
            let Ok(block) = EncodedBlock::parse(damaged.bytes()) else { continue };
            let test = any_test(&case, &mut random);
            if let Some(psma) = Psma::build(&block, Worth::Always) {
                std::hint::black_box(translate(&block, &test, SimdLevel::best()).rows(&psma));
            }
            let mut matches = Matches::new(any_selection(block.rows(), &mut random), block.rows(), SimdLevel::best());
            translate(&block, &test, SimdLevel::best()).select(&block, &mut matches);
            let selection = matches.finish();
            with_native!(block.physical(), T => unpack_fixed::<T>(&block, &selection, &mut vec![]), bytes => {});
            unpack_validity(&block, &selection);
            for row in selection.rows() {
                std::hint::black_box(read(&block, row));
            }
        }
    }
}

#[test]
fn constants_out_of_range_decide_without_rows() {
    let case = Case { physical: PhysicalType::I32, cells: (0..100).map(|row| Some(Cell::Bits(row * 1000))).collect() };
    for force in [Encoding::Truncation, Encoding::Dictionary] {
        let (bytes, _) = case.encode(Some(force));
        let block = EncodedBlock::parse(bytes.bytes()).expect("own blocks parse");
        let above = |value| Predicate::Range { low: Bound::Excluded(Value::Int(value)), high: Bound::Unbounded };
        assert_eq!(translate(&block, &above(-1), SimdLevel::best()), BlockPredicate::Always);
        assert_eq!(translate(&block, &above(i128::MAX), SimdLevel::best()), BlockPredicate::Never);
        assert_eq!(translate(&block, &Predicate::equal(Value::Int(-5)), SimdLevel::best()), BlockPredicate::Never);
        assert_eq!(translate(&block, &Predicate::NotEqual(Value::Int(-5)), SimdLevel::best()), BlockPredicate::Always);
        assert_eq!(translate(&block, &Predicate::IsNull, SimdLevel::best()), BlockPredicate::Never);
    }
    let (bytes, _) = case.encode(Some(Encoding::Dictionary));
    let block = EncodedBlock::parse(bytes.bytes()).expect("own blocks parse");
    assert_eq!(
        translate(&block, &Predicate::equal(Value::Int(1001)), SimdLevel::best()),
        BlockPredicate::Never,
        "not in the dictionary"
    );
}

#[test]
fn keys_beyond_a_type_are_none_of_its_values() {
    let ends = |physical, low: i128, high: i128| {
        let cells = [low, low + 1, low + 9, high - 9, high - 1, high].map(|value| Some(Cell::Bits(value))).to_vec();
        Case { physical, cells }
    };
    let cases = [
        ends(PhysicalType::I8, -128, 127),
        ends(PhysicalType::U8, 0, 255),
        ends(PhysicalType::I64, i64::MIN.into(), i64::MAX.into()),
        ends(PhysicalType::U64, 0, u64::MAX.into()),
        ends(PhysicalType::I128, 5, 5 + i128::from(u64::MAX)),
        ends(PhysicalType::I128, i128::MIN, i128::MAX),
    ];
    for case in cases {
        for end in [case.cells[0].clone(), case.cells[5].clone()] {
            let Some(Cell::Bits(end)) = end else { panic!("no NULL was asked for") };
            for (from, to) in [(-12, 12), (-12, -1), (1, 12), (1, 70), (-70, -1), (0, 1 << 20), (-(1 << 20), 0)] {
                let keys = KeySet::new((end.saturating_add(from)..=end.saturating_add(to)).step_by(3));
                let test = Predicate::Keys(keys.expect("keys lie close").into());
                for force in Encoding::ALL {
                    let (bytes, _) = case.encode(Some(force));
                    let block = EncodedBlock::parse(bytes.bytes()).expect("own blocks parse");
                    check_test(&case, &block, &test, &Selection::Rows(0..6));
                }
            }
        }
    }
}

#[test]
fn narrowing_is_exact_for_small_deltas_and_never_loses_rows_of_sorted_blocks() {
    for (physical, step) in [(PhysicalType::U8, 0), (PhysicalType::I32, 1), (PhysicalType::I64, 1 << 20)] {
        let cells = (0..9000).map(|row: i128| Some(Cell::Bits(if step == 0 { row / 40 } else { row * step - 4000 })));
        let case = Case { physical, cells: cells.collect() };
        for force in [Encoding::Truncation, Encoding::Dictionary, Encoding::Uncompressed].map(Some) {
            let (bytes, _) = case.encode(force);
            let block = EncodedBlock::parse(bytes.bytes()).expect("own blocks parse");
            let psma = Psma::of_block(&block).expect("sorted values are worth it");
            for row in (0..9000).step_by(777) {
                let value = case.value(row).expect("no NULL");
                let equal = Predicate::equal(value.clone());
                check_psma(&case, &block, &equal);
                check_psma(&case, &block, &Predicate::Range { low: Bound::Unbounded, high: Bound::Excluded(value) });
                if step == 0 {
                    let start = row as u32 / 40 * 40;
                    assert_eq!(
                        translate(&block, &equal, SimdLevel::best()).rows(&psma),
                        Some(start..(start + 40).min(9000))
                    );
                }
            }
            assert_eq!(translate(&block, &Predicate::NotEqual(Value::Int(1)), SimdLevel::best()).rows(&psma), None);
        }
    }
}

#[test]
fn full_blocks_reach_their_last_row() {
    let cells = (0..65_536).map(|row| Some(Cell::Bits(row % 3))).collect();
    let case = Case { physical: PhysicalType::U16, cells };
    let (bytes, _) = case.encode(None);
    let block = EncodedBlock::parse(bytes.bytes()).expect("own blocks parse");
    check_test(&case, &block, &Predicate::equal(Value::Int(0)), &Selection::Rows(0..65_536));
    let all = Selection::Positions((0..=u16::MAX).collect());
    check_test(&case, &block, &Predicate::NotEqual(Value::Int(1)), &all);
    check_unpack(&case, &block, &all);
}
