//! Which copies of its tables' rows a query reads.
//!
//! Invariant: a table of a query has the same rows before and after. Must not know: how times are predicted.

use std::collections::BTreeSet;
use std::sync::Arc;

use forebay_base::Result;
use forebay_pipeline::ir::{Source, TableSource};
use forebay_store::TableSnapshot;

use super::Query;
use super::partner_tests::{Versions, tests_of_table};
use crate::Engine;
use crate::copies::{CopyChoice, CopyOptions, ScanNeeds, choose_by};

/// Has a query read the copies of its tables' rows that are predicted to take the least time.
///
/// # Errors
/// Those of making its filters.
pub fn choose_copies(engine: &Engine, query: &mut Query, options: &CopyOptions<'_>) -> Result<()> {
    let mut chosen = Vec::new();
    for number in 0..query.tables.len() {
        if let Some(choice) = choice(engine, query, number, options)? {
            chosen.push((number, choice));
        }
    }
    for (number, (copy, choice)) in chosen {
        let bound = &mut query.tables[number];
        (bound.table, bound.copies) = (copy, Some(choice));
    }
    Ok(())
}

fn choice(
    engine: &Engine,
    query: &Query,
    number: usize,
    options: &CopyOptions<'_>,
) -> Result<Option<(Arc<TableSnapshot>, CopyChoice)>> {
    let bound = &query.tables[number];
    if bound.table.projections.is_empty() {
        return Ok(None);
    }
    let of_table = |source: &&TableSource| source.table == number;
    let sources = query.program.pipelines.iter().filter_map(|pipeline| match &pipeline.source {
        Source::Table(source) => Some(source),
        Source::Groups { .. } | Source::BuildRows { .. } => None,
    });
    let sources: Vec<&TableSource> = sources.filter(of_table).collect();
    let Some(first) = sources.first() else { return Ok(None) };
    let mut columns: BTreeSet<usize> = bound.fetched.iter().copied().collect();
    for source in &sources {
        columns.extend(source.columns.iter().map(|column| column.column));
        columns.extend(source.tests.iter().map(|test| test.column));
    }
    for filter in &bound.filters {
        columns.extend(filter.filter()?.columns());
    }
    let needs = ScanNeeds { columns, tests: &first.tests };
    let (catalog, facts) = (engine.store().catalog(), options.scan.facts);
    let tests = tests_of_table(query, &query.program, (first, facts));
    let versions = Versions { query, catalog: &catalog };
    let ruled_out = |copy: &TableSnapshot| {
        engine.known_facts().rule_out((&catalog, facts), copy, &tests, &|table| versions.of(table))
    };
    Ok(choose_by(engine, &bound.table, &needs, options, &ruled_out))
}
