//! Machine code by what it was made of, so that a query that comes again is not compiled again.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};

use forebay_base::{Error, Result};
use forebay_pipeline::ir::{Program, Sink, Source};

use super::context::Context;
use super::{Compiled, StateLayouts, compile};

/// Functions that are kept: some tens of KiB each.
const ENTRIES: usize = 512;

/// Compiled pipelines, shared by all queries of an engine.
#[derive(Default)]
pub struct CompileCache {
    entries: Mutex<Entries>,
}

#[derive(Default)]
struct Entries {
    by_key: HashMap<String, Entry>,
    /// Counts look-ups.
    clock: u64,
}

struct Entry {
    compiled: Arc<Compiled>,
    used: u64,
}

impl std::fmt::Debug for CompileCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CompileCache").finish_non_exhaustive()
    }
}

impl CompileCache {
    /// The code of a pipeline, and whether it was there already.
    pub fn compile(&self, program: &Program, pipeline: usize, layouts: &StateLayouts) -> Result<(Arc<Compiled>, bool)> {
        let key = key(program, pipeline, layouts)?;
        if let Some(compiled) = self.locked(|entries| entries.find(&key)) {
            return Ok((compiled, true));
        }
        // Two queries may compile the same at once; the later one stays.
        let compiled = compile(program, pipeline, layouts)?;
        self.locked(|entries| entries.insert(key, &compiled));
        Ok((compiled, false))
    }

    fn locked<T>(&self, use_it: impl FnOnce(&mut Entries) -> T) -> T {
        // Entries are whole whenever the lock is free, also after a panic.
        use_it(&mut self.entries.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Entries {
    fn find(&mut self, key: &str) -> Option<Arc<Compiled>> {
        self.clock += 1;
        let entry = self.by_key.get_mut(key)?;
        entry.used = self.clock;
        Some(Arc::clone(&entry.compiled))
    }

    fn insert(&mut self, key: String, compiled: &Arc<Compiled>) {
        if self.by_key.len() >= ENTRIES {
            let oldest = self.by_key.iter().min_by_key(|(_, entry)| entry.used).map(|(key, _)| key.clone());
            oldest.and_then(|oldest| self.by_key.remove(&oldest));
        }
        self.by_key.insert(key, Entry { compiled: Arc::clone(compiled), used: self.clock });
    }
}

/// All that compilation looks at: the pipeline, the states that it names, and how they lie.
fn key(program: &Program, number: usize, layouts: &StateLayouts) -> Result<String> {
    let pipeline = program.pipelines.get(number).ok_or_else(|| Error::internal("there is no such pipeline"))?;
    let mut key = pipeline.to_string();
    if layouts.counted {
        key.push_str("\ncounted");
    }
    if layouts.counts_duplicates {
        key.push_str("\nweighs");
    }
    let mut name = |number: usize, lies: &dyn std::fmt::Debug| {
        let state = program.states.get(number).ok_or_else(|| Error::internal("there is no such state"))?;
        write!(key, "\n{number}: {state} {lies:?}").map_err(|_| Error::internal("a text does not print"))
    };
    for (state, _) in Context::new(program, pipeline, layouts.counted).joins() {
        let number = state.0 as usize;
        name(number, &layouts.joins.get(number))?;
    }
    match &pipeline.source {
        Source::Table(_) => {}
        Source::Groups { state, .. } | Source::BuildRows { state, .. } => name(state.0 as usize, &())?,
    }
    match &pipeline.sink {
        Sink::Build { state, .. } | Sink::Aggregate { state, .. } => {
            name(state.0 as usize, &layouts.groups)?;
        }
        Sink::Mark { .. } | Sink::Collect { .. } => {}
    }
    Ok(key)
}
