//! Join tables against lists of rows: every lookup, in every layout, reads as compiled code does.

use std::collections::HashMap;

use forebay_pipeline::Scalar;
use forebay_pipeline::ir::{Typed, ValueType};
use proptest::prelude::*;

use super::*;
use crate::layout::tag_bit;
use crate::scalars::{any_typed, hash_of, random, row_of, rows_of, scalar};
use crate::vector::VECTOR_ROWS;

type Row = Vec<Scalar>;

fn buffers(state: &JoinState, rows: &[Row], parts: usize) -> Vec<RowBuffer> {
    let layout = build_row(state);
    let mut buffers: Vec<RowBuffer> = (0..parts).map(|_| RowBuffer::new(layout.words)).collect();
    for (number, row) in rows.iter().enumerate() {
        let buffer = &mut buffers[number * 7 % parts];
        let mut words = row_of(&layout, row, &mut |bytes| buffer.keep_bytes(bytes));
        // What compiled code leaves in the first word must not matter.
        (words[0], words[1]) = (u64::MAX, hash_of(&row[..state.keys.len()]));
        buffer.push(&words);
    }
    buffers
}

/// The payload of each row with this key, none of it NULL.
fn look_up(table: &JoinTable, state: &JoinState, key: &[Scalar]) -> Vec<Row> {
    match &table.table {
        Table::Hash(hash) => {
            let (rows, types) = (hash.chain(hash_of(key)), [&state.keys[..], &state.payload].concat());
            let mut vectors = Vec::new();
            let mut found = Vec::new();
            for row in rows {
                hash.rows().read(row..row + 1, &mut vectors);
                let row = rows_of(&vectors, 1, &types).remove(0);
                if row[..key.len()] == *key {
                    found.push(row[key.len()..].to_vec());
                }
            }
            found
        }
        Table::Set(keys) => integer(key).filter(|key| keys.contains(*key)).map(|_| Vec::new()).into_iter().collect(),
        Table::Dense(dense) => {
            let key = integer(key).filter(|key| dense.keys().contains(*key));
            let row = |key: i128| {
                let entry = (key - dense.keys().low()) as usize;
                let column = |(number, typed): (usize, &Typed)| dense.scalar(number, entry, typed.value);
                state.payload.iter().enumerate().map(column).collect()
            };
            key.map(row).into_iter().collect()
        }
    }
}

fn integer(key: &[Scalar]) -> Option<i128> {
    match key {
        [Scalar::I64(key)] => Some(i128::from(*key)),
        _ => None,
    }
}

fn twin(state: &JoinState, rows: &[Row]) -> HashMap<Row, Vec<Row>> {
    let mut twin: HashMap<Row, Vec<Row>> = HashMap::new();
    for row in rows {
        let (key, payload) = row.split_at(state.keys.len());
        if !key.iter().any(Scalar::is_null) {
            twin.entry(key.to_vec()).or_default().push(payload.to_vec());
        }
    }
    twin
}

fn check(state: &JoinState, rows: &[Row], parts: usize, options: &JoinOptions) -> JoinTable {
    let table = JoinTable::finish(state, buffers(state, rows, parts), options);
    let twin = twin(state, rows);
    let drops = !options.counts_matches && state.payload.is_empty() && !state.keeps_all;
    for (key, expected) in &twin {
        let mut found = look_up(&table, state, key);
        let mut expected = expected.clone();
        if drops {
            expected.truncate(1);
        }
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "{key:?} in {:?}", table.layout());
    }
    let mut seed = 1;
    for _ in 0..50 {
        let key: Row = state.keys.iter().map(|typed| scalar(*typed, random(&mut seed), 1000)).collect();
        let expected = if drops { 1 } else { usize::MAX }.min(twin.get(&key).map_or(0, Vec::len));
        assert_eq!(look_up(&table, state, &key).len(), expected, "{key:?} in {:?}", table.layout());
    }
    assert_eq!(table.is_unique(), drops || twin.values().all(|rows| rows.len() == 1));
    if matches!(table.table, Table::Hash(_)) {
        assert_eq!(table.len(), rows.len());
    }
    check_ranges(&table, state, rows);
    table
}

fn check_ranges(table: &JoinTable, state: &JoinState, rows: &[Row]) {
    let range = |column: usize| {
        let values = rows.iter().filter_map(|row| match row[column] {
            Scalar::I64(value) => Some(value),
            _ => None,
        });
        values.clone().min().zip(values.max())
    };
    for part in 0..state.keys.len() {
        assert_eq!(table.part_range(part), range(part));
    }
    for column in 0..state.payload.len() {
        assert_eq!(table.payload_range(column), range(state.keys.len() + column));
    }
    for part in 0..state.keys.len() {
        let values: Vec<i128> = rows.iter().filter_map(|row| integer(&row[part..=part])).collect();
        let set = range(part).and_then(|_| KeySet::new(values.into_iter()));
        assert_eq!(table.part_set(part).as_deref(), set.as_ref());
    }
    assert_eq!(table.key_set(), if state.keys.len() == 1 { table.part_set(0) } else { None });
    let bloom = table.bloom();
    assert_eq!(bloom.is_some(), matches!(table.table, Table::Hash(_)));
    let keys = rows.iter().map(|row| &row[..state.keys.len()]).filter(|key| !key.contains(&Scalar::Null));
    assert!(bloom.is_none_or(|bloom| keys.into_iter().all(|key| bloom.may_have(hash_of(key)))));
}

fn state(keys: Vec<Typed>, payload: Vec<Typed>, keeps_all: bool) -> JoinState {
    JoinState { keys, payload, keeps_all }
}

fn integer_state(payload: Vec<Typed>) -> JoinState {
    state(vec![Typed::required(ValueType::I64)], payload, false)
}

fn options(counts_matches: bool, threads: usize) -> JoinOptions {
    JoinOptions { counts_matches, force: None, threads }
}

fn any_rows(state: &JoinState, rows: usize, domain: u64, seed: &mut u64) -> Vec<Row> {
    let types: Vec<Typed> = state.keys.iter().chain(&state.payload).copied().collect();
    (0..rows).map(|_| types.iter().map(|typed| scalar(*typed, random(seed), domain)).collect()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn finds_what_a_map_finds(
        keys in prop::collection::vec(any_typed(), 1..3),
        payload in prop::collection::vec(any_typed(), 0..4),
        keeps_all: bool,
        rows in 0usize..300,
        (parts, threads, domain) in (1usize..4, 1usize..4, 1u64..1000),
        counts_matches: bool,
        force in prop_oneof![Just(None), Just(Some(JoinKind::Set)), Just(Some(JoinKind::Dense)), Just(Some(JoinKind::Hash))],
        mut seed: u64,
    ) {
        let state = state(keys, payload, keeps_all);
        let rows = any_rows(&state, rows, domain, &mut seed);
        check(&state, &rows, parts, &JoinOptions { counts_matches, force, threads });
    }

    #[test]
    fn distinct_integers_lie_by_key(
        payload in prop::collection::vec(any_typed(), 0..4),
        rows in 1usize..300,
        (low, step, domain) in (any::<i64>(), 1i64..20, 1u64..1000),
        mut seed: u64,
    ) {
        let state = integer_state(payload);
        let mut rows = any_rows(&state, rows, domain, &mut seed);
        let last = rows.len() as i64 - 1;
        let low = low.min(i64::MAX - last * step);
        rows.iter_mut().zip(0..).for_each(|(row, number)| row[0] = Scalar::I64(low + (last - number) * step));
        let table = check(&state, &rows, 2, &options(true, 2));
        let is_set = matches!(table.layout(), JoinLayout::Set);
        let is_dense = matches!(table.layout(), JoinLayout::Dense { .. });
        prop_assert_eq!((is_set, is_dense), (state.payload.is_empty(), !state.payload.is_empty()));
    }
}

#[test]
fn many_rows_in_many_partitions() {
    let mut seed = 3;
    for (keys, domain) in
        [(vec![ValueType::I64], 90_000), (vec![ValueType::I64, ValueType::I64], 400), (vec![ValueType::Bytes], 20)]
    {
        let keys = keys.into_iter().map(Typed::nullable).collect();
        let state = state(keys, vec![Typed::required(ValueType::I64)], false);
        let rows = any_rows(&state, 100_000, domain, &mut seed);
        let force = Some(JoinKind::Hash);
        check(&state, &rows, 3, &JoinOptions { counts_matches: true, force, threads: 3 });
    }
}

#[test]
fn distinct_keys_are_unique_whatever_the_partitions() {
    let state = integer_state(vec![]);
    let rows: Vec<Row> = (0..100_000).map(|key| vec![Scalar::I64(key * 1_000_003)]).collect();
    let table = check(&state, &rows, 2, &options(true, 2));
    assert_eq!(table.layout(), JoinLayout::Hash { unique: true });
    let twice: Vec<Row> = rows.iter().chain(&rows).cloned().collect();
    assert_eq!(check(&state, &twice, 2, &options(true, 2)).layout(), JoinLayout::Hash { unique: false });
    assert_eq!(check(&state, &twice, 2, &options(false, 2)).layout(), JoinLayout::Hash { unique: true });
}

#[test]
fn one_key_a_million_times_is_no_trouble() {
    let state = integer_state(vec![Typed::required(ValueType::I64)]);
    let rows: Vec<Row> = (0..1_000_000).map(|row| vec![Scalar::I64(5), Scalar::I64(row)]).collect();
    let table = JoinTable::finish(&state, buffers(&state, &rows, 2), &options(true, 2));
    assert_eq!(look_up(&table, &state, &[Scalar::I64(5)]).len(), rows.len());
}

#[test]
fn layouts_end_at_their_limits() {
    let layout = |state: &JoinState, keys: &[i64]| {
        let fill = |typed: &Typed| if typed.value == ValueType::I64 { Scalar::I64(1) } else { Scalar::bytes(b"x") };
        let payload: Row = state.payload.iter().map(fill).collect();
        let rows: Vec<Row> = keys.iter().map(|key| [vec![Scalar::I64(*key)], payload.clone()].concat()).collect();
        check(state, &rows, 1, &options(true, 1)).layout()
    };
    let hash = JoinLayout::Hash { unique: true };
    let set = integer_state(vec![]);
    assert_eq!(layout(&set, &[]), hash);
    assert_eq!(layout(&set, &[i64::MIN, i64::MIN + 65_535]), JoinLayout::Set);
    assert_eq!(layout(&set, &[i64::MAX - 65_536, i64::MAX]), hash);
    assert_eq!(layout(&set, &[i64::MIN, i64::MAX]), hash);
    assert_eq!(layout(&set, &[-1, i64::MAX]), hash);
    assert_eq!(layout(&set, &[3, 3]), JoinLayout::Hash { unique: false });
    let dense = integer_state(vec![Typed::required(ValueType::I64)]);
    let column = |bytes, validity| JoinLayout::Dense { payload: vec![DenseColumn { bytes, validity }] };
    assert_eq!(layout(&dense, &[0, 65_535]), column(1, false));
    assert_eq!(layout(&dense, &[0, 65_536]), hash);
    assert_eq!(layout(&dense, &[7, 7]), JoinLayout::Hash { unique: false });
    assert_eq!(layout(&integer_state(vec![Typed::nullable(ValueType::Bytes)]), &[1, 2]), column(16, true));
}

#[test]
fn entries_are_as_wide_as_their_values_need() {
    let state = integer_state(vec![Typed::required(ValueType::I64)]);
    let widths = [
        ((0, 255), 1),
        ((-1, 255), 2),
        ((i64::MAX - 65_535, i64::MAX), 2),
        ((0, 65_536), 4),
        ((-5, i64::from(u32::MAX) - 5), 4),
        ((-6, i64::from(u32::MAX) - 5), 8),
        ((i64::MIN, i64::MAX), 8),
    ];
    for ((low, high), bytes) in widths {
        let rows = [vec![Scalar::I64(1), Scalar::I64(low)], vec![Scalar::I64(2), Scalar::I64(high)]];
        let table = check(&state, &rows, 1, &options(true, 1));
        assert_eq!(table.layout(), JoinLayout::Dense { payload: vec![DenseColumn { bytes, validity: false }] });
    }
}

#[test]
fn rows_are_read_by_whether_they_were_met() {
    let types = [Typed::nullable(ValueType::I64), Typed::nullable(ValueType::Bytes)];
    let state = state(vec![types[0]], vec![types[1]], true);
    let mut seed = 9;
    let rows = any_rows(&state, 20_000, 500, &mut seed);
    let table = check(&state, &rows, 2, &options(true, 2));
    let Table::Hash(hash) = &table.table else { panic!("rows that are kept are hashed") };
    let mut all: Vec<Row> = Vec::new();
    let mut vectors = Vec::new();
    for met in [true, false] {
        (0..table.len()).filter(|row| row % 3 == 0).for_each(|row| hash.mark(row));
        for start in (0..table.len()).step_by(VECTOR_ROWS) {
            let count = table.read(start..table.len().min(start + VECTOR_ROWS), met, &mut vectors);
            all.extend(rows_of(&vectors, count, &types));
        }
        assert_eq!(all.len(), if met { rows.len().div_ceil(3) } else { rows.len() });
    }
    all.sort();
    let mut expected = rows;
    expected.sort();
    assert_eq!(all, expected);
    assert!(table.addresses().matched != 0);
}

#[test]
fn addresses_are_those_of_the_layout() {
    let set = integer_state(vec![]);
    let rows = [vec![Scalar::I64(-4)], vec![Scalar::I64(90)]];
    let addresses = JoinTable::finish(&set, buffers(&set, &rows, 1), &options(true, 1)).addresses();
    assert_eq!((addresses.low, addresses.span, addresses.bits % 8), (-4, 95, 0));
    assert_ne!(addresses.bits, 0);
    let empty = JoinTable::finish(&set, vec![], &options(true, 1));
    let addresses = empty.addresses();
    assert!(empty.is_empty() && addresses.directory != 0 && addresses.shift == 63);
    assert_eq!(empty.key_set(), None);
}

impl HashTable {
    /// The rows that compiled code would look at for a hash.
    fn chain(&self, hash: u64) -> Vec<usize> {
        let addresses = self.addresses();
        let slot = self.slot((hash >> addresses.shift) as usize);
        let mut next = if slot & tag_bit(hash) == 0 { 0 } else { slot & ((1 << crate::layout::SLOT_ROW_BITS) - 1) };
        let mut found = Vec::new();
        while next != 0 {
            let row = next as usize - 1;
            let words = self.rows().rows(row..row + 1).next().expect("rows on a chain are there");
            if words[1] == hash {
                found.push(row);
            }
            next = words[0];
        }
        found
    }
}
