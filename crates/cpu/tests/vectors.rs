//! Vectors loaded from chunks against the naive reading of their blocks, over all types, encodings, selections and NULLs.

#[path = "../../block/tests/cases/mod.rs"]
mod cases;

use std::sync::Arc;

use cases::{Case, Random, any_case, any_encoding};
use forebay_base::{PhysicalType, Value};
use forebay_block::{Access, ChunkOptions, Encoding, Inflate, InflatedChunk, inflate_chunk, seal_chunk};
use forebay_cpu::Selection;
use forebay_cpu::dictionary::Dictionary;
use forebay_cpu::fold::Fold;
use forebay_cpu::vector::{BlockIds, VECTOR_ROWS, Vector};
use forebay_pipeline::Scalar;
use forebay_pipeline::ir::{DictionaryId, Register, SourceColumn, Typed, ValueType};
use proptest::prelude::*;

fn chunk_of(cases: &[Case], force: Option<Encoding>) -> Arc<InflatedChunk> {
    let (mut encoded, mut offsets) = (Vec::new(), Vec::new());
    for case in cases {
        offsets.push(encoded.len() as u32);
        encoded.extend_from_slice(case.encode(force).0.bytes());
    }
    let sealed = seal_chunk(&encoded, &offsets, &ChunkOptions::default()).expect("own blocks make a chunk");
    Arc::new(
        inflate_chunk(&sealed.directory, &sealed.bytes, cases[0].physical, &Inflate::default())
            .expect("own chunks inflate"),
    )
}

fn column(physical: PhysicalType, with_dictionary: bool) -> SourceColumn {
    let value = if with_dictionary { ValueType::I64 } else { SourceColumn::widened(physical) };
    SourceColumn {
        column: 0,
        name: "c".into(),
        physical,
        typed: Typed::nullable(value),
        dictionary: with_dictionary.then_some(DictionaryId(0)),
        to: Register(0),
    }
}

fn any_selection(rows: usize, random: &mut Random) -> Selection {
    let (a, b) = (random.below(rows as u64 + 1) as u32, random.below(rows as u64 + 1) as u32);
    match random.below(3) {
        0 => Selection::Rows(0..rows as u32),
        1 => Selection::Rows(a.min(b)..a.max(b)),
        _ => {
            let percent = random.below(101);
            Selection::Positions((0..rows).filter(|_| random.below(100) < percent).map(|row| row as u16).collect())
        }
    }
}

/// A value as it is computed with.
fn scalar(value: Option<&Value>, typed: Typed) -> Scalar {
    Scalar::of_value(value, typed.value).expect("values are of their column's type")
}

/// The values of the vector; ids as the strings that they stand for.
fn read(vector: &Vector, column: &SourceColumn, dictionary: &Dictionary) -> Vec<Scalar> {
    let strings = dictionary.snapshot();
    let value = |row| match vector.scalar(row, column.typed.value) {
        Scalar::I64(id) if column.dictionary.is_some() => Scalar::bytes(strings.get(id as u32)),
        other => other,
    };
    (0..vector.rows()).map(value).collect()
}

proptest! {
    #[test]
    fn loads_what_was_encoded(case in any_case(), force in any_encoding(), seed: u64) {
        let mut random = Random(seed);
        let chunk = chunk_of(&[case.clone(), case.clone()], force);
        let dictionary = Dictionary::default();
        let (mut vector, mut ids) = (Vector::default(), BlockIds::default());
        for _ in 0..6 {
            let column = column(case.physical, case.physical == PhysicalType::Bytes && random.below(2) == 0);
            let selection = any_selection(case.cells.len(), &mut random);
            let from = random.below(selection.len() as u64 + 1) as usize;
            let rows = selection.part(from, (selection.len() - from).min(VECTOR_ROWS));
            let block = random.below(2) as usize;
            vector.load(&chunk, block, &rows, &column, Some((&dictionary, &mut ids))).expect("there are few strings");
            let shown = if column.dictionary.is_some() { Typed::nullable(ValueType::Bytes) } else { column.typed };
            let expected: Vec<Scalar> = rows.rows().map(|row| scalar(case.value(row).as_ref(), shown)).collect();
            prop_assert_eq!(read(&vector, &column, &dictionary), expected);
            let has_nulls = case.cells.iter().any(Option::is_none);
            prop_assert_eq!(vector.validity_address() != 0, has_nulls);
            prop_assert_ne!(vector.data_address(), 0);
        }
    }

    #[test]
    fn a_constant_is_each_row(case in any_case(), rows in 0..VECTOR_ROWS, is_null: bool) {
        let value = case.cells.iter().position(Option::is_some).and_then(|row| case.value(row)).filter(|_| !is_null);
        let dictionary = Dictionary::default();
        let mut vector = Vector::default();
        for with_dictionary in [false, case.physical == PhysicalType::Bytes] {
            let column = column(case.physical, with_dictionary);
            vector.load_constant(value.as_ref(), rows, &column, Some(&dictionary)).expect("there are few strings");
            let shown = if with_dictionary { Typed::nullable(ValueType::Bytes) } else { column.typed };
            prop_assert_eq!(read(&vector, &column, &dictionary), vec![scalar(value.as_ref(), shown); rows]);
        }
    }
}

/// Columns with few values, and one with many now and then; NULLs in none, some or all rows.
fn few_values(rows: usize, random: &mut Random) -> Case {
    let types = [PhysicalType::Bytes, PhysicalType::I64, PhysicalType::U8, PhysicalType::F64, PhysicalType::I16];
    let (physical, shape) = (types[random.below(5) as usize], [0, 0, 1, 4, 4, 4, 5][random.below(7) as usize]);
    Case::generate(physical, shape, rows, [0, 0, 20, 100][random.below(4) as usize], random.next())
}

#[test]
fn a_folded_block_has_each_of_its_rows_once() {
    let mut random = Random(20_261_122);
    let (mut fold, mut folded, mut larger) = (Fold::default(), 0, 0);
    for _ in 0..3000 {
        let rows = [1, 2, 50, 3000][random.below(4) as usize];
        let cases: Vec<Case> = (0..random.below(4)).map(|_| few_values(rows, &mut random)).collect();
        let force = [None, None, Some(Encoding::Dictionary)][random.below(3) as usize];
        let chunks: Vec<_> = cases.iter().map(|case| chunk_of(std::slice::from_ref(case), force)).collect();
        let blocks: Vec<_> = chunks.iter().map(|chunk| chunk.block(0)).collect();
        let selection = any_selection(rows, &mut random);
        if !Fold::pays(&blocks, &selection) {
            continue;
        }
        fold.fold(&blocks, &selection);
        let mut expected: Vec<(u16, u64)> = Vec::new();
        let mut known = std::collections::HashMap::new();
        for row in selection.all().rows() {
            let values: Vec<String> = cases.iter().map(|case| format!("{:?}", case.value(row))).collect();
            let place = *known.entry(values).or_insert_with(|| {
                expected.push((row as u16, 0));
                expected.len() - 1
            });
            expected[place].1 += 1;
        }
        let found: Vec<_> = fold.rows().iter().copied().zip(fold.multiplicities().iter().copied()).collect();
        assert_eq!(found, expected, "{} columns, {selection:?}", cases.len());
        folded += 1;
        larger += usize::from(found.len() > 1);
    }
    assert!(folded > 1000 && larger > 300, "{folded} blocks were folded, {larger} to more than one row");
}

/// Runs alone, or beside other encodings: equal rows may be kept more than once, but stand for all of them together.
#[test]
fn folded_runs_stand_for_all_rows() {
    let mut random = Random(20_261_123);
    let (mut fold, mut folded, mut runs_alone) = (Fold::default(), 0, 0);
    for _ in 0..3000 {
        let rows = [1, 63, 64, 65, 700, 5000][random.below(6) as usize];
        let columns = 1 + random.below(3);
        let cases: Vec<Case> = (0..columns)
            .map(|_| match random.below(4) {
                0 => few_values(rows, &mut random),
                _ => Case::generate(PhysicalType::ALL[random.below(12) as usize], cases::RUNS, rows, 15, random.next()),
            })
            .collect();
        let forced = if random.below(2) == 0 { Some(Encoding::RunLength) } else { None };
        let chunks: Vec<_> = cases.iter().map(|case| chunk_of(std::slice::from_ref(case), forced)).collect();
        let blocks: Vec<_> = chunks.iter().map(|chunk| chunk.block(0)).collect();
        let selection = any_selection(rows, &mut random);
        if !Fold::pays(&blocks, &selection) {
            continue;
        }
        fold.fold(&blocks, &selection);
        let values = |row: usize| cases.iter().map(|case| format!("{:?}", case.value(row))).collect::<Vec<_>>();
        let mut multiplicities = std::collections::HashMap::new();
        selection.rows().for_each(|row| *multiplicities.entry(values(row)).or_insert(0) += 1);
        assert!(fold.rows().windows(2).all(|pair| pair[0] < pair[1]));
        for (row, multiplicity) in fold.rows().iter().zip(fold.multiplicities()) {
            assert!(selection.rows().any(|selected| selected == usize::from(*row)));
            *multiplicities.entry(values(usize::from(*row))).or_insert(0) -= *multiplicity as i64;
        }
        assert!(multiplicities.values().all(|left| *left == 0), "{columns} columns, {selection:?}");
        folded += 1;
        runs_alone += usize::from(blocks.iter().all(|block| matches!(block.access(), Access::RunLength { .. })));
    }
    assert!(folded > 500 && runs_alone > 300, "{folded} blocks were folded, {runs_alone} of runs alone");
}

#[test]
fn ids_are_those_of_the_block_that_is_loaded() {
    let dictionary = Dictionary::default();
    let column = column(PhysicalType::Bytes, true);
    let (mut vector, mut ids) = (Vector::default(), BlockIds::default());
    // Chunks that come and go lie at the same address now and then; what is known of one must not be taken for another.
    for round in 0..200u64 {
        let case = |shift| Case::generate(PhysicalType::Bytes, 1, 500, 10, round * 2 + shift);
        let cases = [case(0), case(1)];
        let chunk = chunk_of(&cases, Some(Encoding::Dictionary));
        for block in [0, 1, 0] {
            let rows = Selection::Rows(0..500);
            vector.load(&chunk, block, &rows.all(), &column, Some((&dictionary, &mut ids))).expect("few strings");
            let typed = Typed::nullable(ValueType::Bytes);
            let expected: Vec<Scalar> = (0..500).map(|row| scalar(cases[block].value(row).as_ref(), typed)).collect();
            assert_eq!(read(&vector, &column, &dictionary), expected);
        }
    }
}

#[test]
fn views_outlive_the_chunk_of_the_caller() {
    let case = Case::generate(PhysicalType::Bytes, 2, 3000, 0, 5);
    let mut vector = Vector::default();
    let chunk = chunk_of(std::slice::from_ref(&case), None);
    let rows = Selection::Rows(0..3000);
    vector.load(&chunk, 0, &rows.all(), &column(PhysicalType::Bytes, false), None).expect("strings need no dictionary");
    drop(chunk);
    for row in 0..3000 {
        assert_eq!(Some(Value::Bytes(vector.bytes(row).to_vec())), case.value(row));
    }
}
