//! What the rows of a pipeline's table must pass besides its own tests: those of the rows that they join with, as the program has
//! them. Facts about blocks answer such tests before any of these rows is read (sideways pruning, GOLAP §4.3).
//!
//! Only joins count that leave out rows without a partner, and of the sides of such a join both: rows that are looked up, and those of
//! a build side that nobody else reads. Must not know: facts.

use forebay_base::{ColumnId, TableId, limits};
use forebay_pipeline::ir::{
    Pipeline, Probe, ProbeKind, Program, Register, Sink, Source, StateId, Step, TableSource, ValueType,
};

use forebay_store::Catalog;

use super::specialise::Specialised;
use super::{Query, QueryTable};
use crate::facts::{FactUse, Hop, PartnerTest, RuledOut};
use crate::{Engine, Scan};

/// The blocks of a source's table that such facts rule out.
pub(super) fn ruled_out(
    engine: &Engine,
    query: &Query,
    program: &Program,
    (source, facts): (&TableSource, FactUse),
) -> RuledOut {
    let tests = tests_of_table(query, program, (source, facts));
    let catalog = engine.store().catalog();
    let versions = Versions { query, catalog: &catalog };
    let table = &query.tables[source.table].table;
    let ids = source.columns.iter().map(|column| table.columns[column.column].id);
    let columns = ids.filter(|id| *id != ColumnId::PLACES).collect();
    let asked = engine.known_facts().note(table.id, &tests, columns);
    query.tables[source.table].metrics.note_asked(asked);
    engine.known_facts().rule_out((&catalog, facts), table, &tests, &|id| versions.of(id))
}

/// The tests that rows of a source must pass, as far as facts of this use can tell of them.
pub(super) fn tests_of_table<'q>(
    query: &'q Query,
    program: &'q Program,
    (source, facts): (&TableSource, FactUse),
) -> Vec<PartnerTest<'q>> {
    let is_of = |pipeline: &&Pipeline| table_of(pipeline).is_some_and(|other| other.table == source.table);
    let most_hops = if facts == FactUse::All { limits::FACT_HOPS } else { 0 };
    let pipeline = program.pipelines.iter().find(is_of);
    pipeline.map_or_else(Vec::new, |pipeline| tests_of(query, program, pipeline, most_hops))
}

/// The versions of tables whose rows a query reads as the catalog has them.
pub(super) struct Versions<'v> {
    pub(super) query: &'v Query,
    pub(super) catalog: &'v Catalog,
}

impl Versions<'_> {
    /// That of a table; `None` where some scan reads other rows: a part of them, or some that are not published yet.
    pub(super) fn of(&self, id: TableId) -> Option<u64> {
        let known = self.catalog.table_by_id(id)?;
        let mut bound = self.query.tables.iter().map(|bound| &bound.table).filter(|table| table.id == id);
        bound.all(|table| table.has_rows_of(known)).then_some(known.version)
    }
}

/// Has a scan leave out the blocks of which facts tell that no row has one of the keys that its pipeline looks up.
pub(super) fn rule_out_by_keys(
    engine: &Engine,
    bound: &QueryTable,
    (scan, facts): (&Scan, FactUse),
    special: &Specialised,
) {
    if facts == FactUse::None {
        return;
    }
    let learned = special.tests.iter().zip(&special.learned).filter(|(_, text)| text.is_some());
    let own = learned.map(|(test, _)| {
        let column = &bound.table.columns[test.test.column];
        let name = format!("{}.{}", bound.table.name, column.name);
        PartnerTest { hops: Vec::new(), column: column.id, test: &test.test.test, name }
    });
    let tests: Vec<PartnerTest<'_>> = own.collect();
    if tests.is_empty() {
        return;
    }
    let catalog = engine.store().catalog();
    let ruled_out = engine.known_facts().rule_out((&catalog, facts), &bound.table, &tests, &|_| None);
    let by = ruled_out.by.clone();
    let blocks = scan.leave_out(ruled_out);
    if blocks > 0 {
        bound.facts.add(blocks, by);
    }
}

/// The tests that rows of the table that a pipeline scans must pass, over so many joins at most.
fn tests_of<'q>(
    query: &'q Query,
    program: &'q Program,
    pipeline: &'q Pipeline,
    most_hops: usize,
) -> Vec<PartnerTest<'q>> {
    let Some(source) = table_of(pipeline) else { return Vec::new() };
    let table = &query.tables[source.table].table;
    let own = source.tests.iter().map(|test| {
        let column = &table.columns[test.column];
        let name = format!("{}.{}", table.name, column.name);
        PartnerTest { hops: Vec::new(), column: column.id, test: &test.test, name }
    });
    let mut tests: Vec<PartnerTest<'q>> = own.collect();
    if most_hops == 0 {
        return tests;
    }
    tests.extend(tests_of_referencing(query, program, pipeline, source));
    for step in &pipeline.steps {
        let Step::Probe(Probe { kind: ProbeKind::Inner | ProbeKind::Semi, state, keys, .. }) = step else { continue };
        let builds = |other: &&Pipeline| other.sink.fills() == Some(*state);
        let Some(build) = program.pipelines.iter().find(builds) else { continue };
        let Sink::Build { keys: built, .. } = &build.sink else { continue };
        for (key, of_partner) in keys.iter().zip(built) {
            let Some(column) = key_column(query, source, *key) else { continue };
            let Some((partner, partner_key)) = origin(query, program, build, *of_partner) else { continue };
            let Some(partner_source) = table_of(partner) else { continue };
            let hop = Hop { column, table: query.tables[partner_source.table].table.id, key: partner_key };
            let beyond = tests_of(query, program, partner, most_hops - 1);
            tests.extend(beyond.into_iter().map(|mut test| {
                test.hops.insert(0, hop);
                test
            }));
        }
    }
    tests
}

/// The tests of the rows that look up what a pipeline builds, where it builds for them alone and they leave out what they do not find:
/// without such a row its own have no part in any answer.
fn tests_of_referencing<'q>(
    query: &'q Query,
    program: &'q Program,
    pipeline: &'q Pipeline,
    source: &TableSource,
) -> Vec<PartnerTest<'q>> {
    let Sink::Build { keys: built, .. } = &pipeline.sink else { return Vec::new() };
    let Some((other, keys)) = pipeline.sink.fills().and_then(|state| only_probe(program, state)) else {
        return Vec::new();
    };
    let Some(other_source) = table_of(other) else { return Vec::new() };
    let other_table = query.tables[other_source.table].table.id;
    let hops = keys.iter().zip(built).filter_map(|(key, of_own)| {
        let column = key_column(query, source, *of_own)?;
        Some(Hop { column, table: other_table, key: key_column(query, other_source, *key)? })
    });
    hops.flat_map(|hop| {
        let beyond = tests_of(query, program, other, 0);
        beyond.into_iter().map(move |test| PartnerTest { hops: vec![hop], ..test })
    })
    .collect()
}

/// The one pipeline that reads a state, by one probe that leaves out rows without a partner, and the probe's keys. `None` where more
/// read it, or one otherwise.
fn only_probe(program: &Program, state: StateId) -> Option<(&Pipeline, &[Register])> {
    let is_read_otherwise = |pipeline: &Pipeline| {
        let is_source = matches!(&pipeline.source, Source::BuildRows { state: read, .. } if *read == state);
        is_source || matches!(&pipeline.sink, Sink::Mark { state: marked, .. } if *marked == state)
    };
    if program.pipelines.iter().any(is_read_otherwise) {
        return None;
    }
    let steps = program.pipelines.iter().flat_map(|pipeline| pipeline.steps.iter().map(move |step| (pipeline, step)));
    let mut probes = steps.filter_map(|(pipeline, step)| match step {
        Step::Probe(probe) if probe.state == state => Some((pipeline, probe)),
        _ => None,
    });
    match (probes.next(), probes.next()) {
        (Some((pipeline, Probe { kind: ProbeKind::Inner | ProbeKind::Semi, keys, .. })), None) => {
            Some((pipeline, keys))
        }
        _ => None,
    }
}

fn table_of(pipeline: &Pipeline) -> Option<&TableSource> {
    match &pipeline.source {
        Source::Table(source) => Some(source),
        Source::Groups { .. } | Source::BuildRows { .. } => None,
    }
}

/// The pipeline that scans the table whose column of integers a register has, for every row that `pipeline` brings to its sink: itself,
/// or one that filled a state which it looks up, whose rows have passed all that is asked there.
fn origin<'q>(
    query: &Query,
    program: &'q Program,
    pipeline: &'q Pipeline,
    register: Register,
) -> Option<(&'q Pipeline, ColumnId)> {
    if let Some(column) = table_of(pipeline).and_then(|source| key_column(query, source, register)) {
        return Some((pipeline, column));
    }
    pipeline.steps.iter().find_map(|step| {
        let Step::Probe(Probe { kind: ProbeKind::Inner, state, columns, .. }) = step else { return None };
        let (payload, _) = columns.iter().find(|(_, to)| *to == register)?;
        let build = program.pipelines.iter().find(|other| other.sink.fills() == Some(*state))?;
        let Sink::Build { payload: built, .. } = &build.sink else { return None };
        origin(query, program, build, *built.get(*payload)?)
    })
}

/// The column of integers that a register has as it is stored.
fn key_column(query: &Query, source: &TableSource, register: Register) -> Option<ColumnId> {
    let column = source.columns.iter().find(|column| column.to == register)?;
    let is_integer = column.typed.value == ValueType::I64 && column.dictionary.is_none();
    is_integer.then(|| query.tables[source.table].table.columns[column.column].id)
}
