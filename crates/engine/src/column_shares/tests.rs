//! What is made of pipelines.

use forebay_base::{ColumnId, TableId};
use forebay_cache::policy::Facts;

use super::*;
use crate::traffic::{ChunkSource, ColumnTraffic, Traffic};

/// Of nothing: only its budget and its goals matter.
type Cache = ChunkCache<u32, u32, u32>;

const MB: u64 = 1_000_000;

fn key(column: u32) -> ColumnKey {
    ColumnKey { table: TableId(1), column: ColumnId(column) }
}

/// A pipeline that read 100 MB each of these columns, which inflate to 300 MB, in a second.
fn ran(columns: &[u32], work_ms: u64) -> Ran {
    let mut traffic = Traffic::new();
    for column in columns {
        let mut of = ColumnTraffic::default();
        of.add(ChunkSource::Disk, (100 * MB, 300 * MB), 100_000_000);
        traffic.insert(key(*column), of);
    }
    let sizes = columns.iter().map(|column| (key(*column), (100 * MB, 300 * MB))).collect();
    let (elapsed, work) = (Duration::from_secs(1), Duration::from_millis(work_ms));
    Ran { traffic, sizes, rows: (1000, 10), elapsed, work, waited: elapsed, threads: 2 }
}

/// A cache of so many bytes in which there was no room once.
fn short_cache(bytes: u64) -> Arc<Cache> {
    let cache = Arc::new(Cache::new(bytes as usize));
    assert!(!cache.keep(0, Arc::new(0), Facts::of_bytes(bytes as usize + 1)));
    assert!(cache.was_full());
    cache
}

fn solved(shares: &Arc<ColumnShares>, cache: &Arc<Cache>) {
    shares.refresh(cache, || None);
    for _ in 0..5000 {
        if !shares.lock().is_solving {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
    panic!("it never ends");
}

#[test]
fn no_shares_are_sought_while_there_is_memory_for_all() {
    let (shares, cache) = (Arc::new(ColumnShares::default()), Arc::new(Cache::new(200 * MB as usize)));
    cache.set_policy(PolicyKind::Proportional);
    shares.note(vec![ran(&[1], 100)], Duration::from_secs(60));
    let has_goal = || shares.columns().values().any(|column| column.goal.is_some());
    assert!(cache.keep(1, Arc::new(1), Facts::of_bytes(150 * MB as usize)));
    solved(&shares, &cache);
    assert!(!cache.was_full() && !has_goal());
    cache.keep(2, Arc::new(2), Facts::of_bytes(100 * MB as usize));
    solved(&shares, &cache);
    assert!(cache.was_full() && has_goal());
    // Little memory is wanted, however much there is.
    let (shares, cache) = (Arc::new(ColumnShares::default()), Arc::new(Cache::new(2000 * MB as usize)));
    cache.set_policy(PolicyKind::Proportional);
    shares.set_slowdown(Some(1.5));
    shares.note(vec![ran(&[1], 100)], Duration::from_secs(60));
    solved(&shares, &cache);
    assert!(!cache.was_full() && shares.columns().values().any(|column| column.goal.is_some()));
}

#[test]
fn memory_goes_where_it_saves_time() {
    let (shares, cache) = (Arc::new(ColumnShares::default()), short_cache(100 * MB));
    for _ in 0..5 {
        // The first waits for the disk, the other one computes for longer than all its reads take.
        shares.note(vec![ran(&[1], 100), ran(&[2], 5000)], Duration::from_secs(60));
    }
    solved(&shares, &cache);
    assert!(shares.columns().values().all(|column| column.goal.is_none()), "another policy has no goals");
    cache.set_policy(PolicyKind::Proportional);
    solved(&shares, &cache);
    let columns = shares.columns();
    let goal = |column: u32| columns[&key(column)].goal.expect("there is a plan");
    assert!(goal(1).inflated + goal(1).stored > 0.9, "{:?}", goal(1));
    assert!(goal(2).inflated + goal(2).stored < 0.1, "{:?}", goal(2));
    assert!(goal(1).bytes + goal(2).bytes <= 100e6 * 1.001);
    assert_eq!(columns[&key(1)].inflate_bytes_per_s, Some(3e9));
    // What nobody reads any more is forgotten.
    for _ in 0..history::PIPELINES {
        shares.note(vec![ran(&[3], 100)], Duration::from_secs(60));
    }
    solved(&shares, &cache);
    assert_eq!(shares.columns().keys().copied().collect::<Vec<_>>(), [key(3)]);
}

#[test]
fn solving_waits_for_queries() {
    let (shares, cache) = (Arc::new(ColumnShares::default()), short_cache(200 * MB));
    cache.set_policy(PolicyKind::Proportional);
    solved(&shares, &cache);
    assert_eq!(shares.lock().solving_time, Duration::ZERO, "there is nothing to know");
    shares.note(vec![ran(&[1], 100)], Duration::from_nanos(1));
    solved(&shares, &cache);
    let first = shares.lock().solving_time;
    assert!(first > Duration::ZERO);
    solved(&shares, &cache);
    assert_eq!(shares.lock().solving_time, first, "it has taken more than its part");
    shares.note(Vec::new(), first * 200);
    solved(&shares, &cache);
    assert!(shares.lock().solving_time > first);
}

#[test]
fn least_memory_is_asked_for() {
    let (shares, cache) = (Arc::new(ColumnShares::default()), short_cache(2000 * MB));
    cache.set_policy(PolicyKind::Proportional);
    shares.set_slowdown(Some(1.25));
    shares.note(vec![ran(&[1, 2], 2000)], Duration::from_secs(60));
    solved(&shares, &cache);
    let bytes: f64 = shares.columns().values().filter_map(|column| column.goal).map(|goal| goal.bytes).sum();
    // Both take a second over the disk, and as long to compute, of which a tenth is not hidden: nothing need stay.
    assert!(bytes < 10e6, "{bytes}");
}

/// A plan for least memory, too, stays until another one is worth its reads.
#[test]
fn a_plan_stays_while_it_is_good() {
    let (shares, cache) = (Arc::new(ColumnShares::default()), short_cache(2000 * MB));
    cache.set_policy(PolicyKind::Proportional);
    shares.set_slowdown(Some(1.5));
    let goals = |work_ms: [u64; 2]| {
        shares.note(vec![ran(&[1], work_ms[0]), ran(&[2], work_ms[1])], Duration::from_secs(60));
        solved(&shares, &cache);
        shares.columns().values().filter_map(|column| column.goal).collect::<Vec<_>>()
    };
    let first = goals([100, 200]);
    assert!(first.iter().map(|goal| goal.bytes).sum::<f64>() > 50e6, "both wait for the disk: {first:?}");
    assert_eq!(goals([101, 200]), first);
    assert_eq!(goals([100, 202]), first);
    // Both compute for as long as they read.
    (0..history::PIPELINES).for_each(|_| shares.note(vec![ran(&[1], 4000), ran(&[2], 4000)], Duration::from_secs(60)));
    let last = goals([4000, 4000]);
    assert!(last.iter().map(|goal| goal.bytes).sum::<f64>() < 10e6, "{last:?}");
}

#[test]
fn expectations_are_those_of_the_model() {
    let shares = ColumnShares::default();
    let one = ran(&[1, 2], 3000);
    assert_eq!(shares.expected(&one), None, "nobody knows the disk");
    shares.note(vec![one.clone()], Duration::from_secs(1));
    // 200 MB at what the disk gave, 3.2 s of work by two.
    assert_eq!(shares.expected(&one).map(|time| time.as_millis()), Some(1600));
    let slow = Ran { work: Duration::from_secs(9), ..one.clone() };
    assert_eq!(shares.expected(&slow).map(|time| time.as_millis()), Some(1600), "by its work when it ran before");
    let another = Ran { rows: (2000, 10), ..slow };
    assert_eq!(shares.expected(&another).map(|time| time.as_millis()), Some(4600), "another pipeline of these columns");
    assert!(!Ran { elapsed: Duration::from_micros(1), ..one }.tells(), "too short");
}

#[test]
fn a_solver_that_panics_or_finds_nothing_is_asked_again() {
    static ASKED: AtomicU64 = AtomicU64::new(0);
    fn panics(_: &Workload, _: Option<f64>, _: f64, _: &[Shares]) -> Option<Vec<Shares>> {
        ASKED.fetch_add(1, Ordering::Relaxed);
        panic!("as a solver might");
    }
    fn finds_nothing(_: &Workload, _: Option<f64>, _: f64, _: &[Shares]) -> Option<Vec<Shares>> {
        ASKED.fetch_add(1, Ordering::Relaxed);
        None
    }
    for (asked, solver) in [(1, panics as Solver), (4, finds_nothing as Solver)] {
        let shares = Arc::new(ColumnShares { solver, ..ColumnShares::default() });
        let cache = short_cache(200 * MB);
        cache.set_policy(PolicyKind::Proportional);
        for round in 0..3 {
            shares.note(vec![ran(&[1], 100)], Duration::from_secs(60));
            let before = shares.lock().solving_time;
            solved(&shares, &cache);
            assert_eq!(ASKED.load(Ordering::Relaxed), asked + round);
            assert!(shares.lock().solving_time > before, "what it took counts");
        }
        assert!(shares.columns().values().all(|column| column.goal.is_none()));
    }
}

#[test]
fn queries_that_run_are_known() {
    let (shares, cache) = (Arc::new(ColumnShares::default()), short_cache(200 * MB));
    cache.set_policy(PolicyKind::Proportional);
    let query = shares.next_query();
    assert_ne!(query, shares.next_query());
    // A tenth of it took a tenth of a second.
    let part = ran(&[1], 100).extrapolated(10.0);
    shares.note_running(query, 0, part.extrapolated(0.1), Duration::from_nanos(1));
    solved(&shares, &cache);
    let first = shares.lock().solving_time;
    assert!(first > Duration::ZERO, "time to solve for the first time");
    solved(&shares, &cache);
    assert_eq!(shares.lock().solving_time, first, "but no more than its part");
    let goal = shares.lock().plan.goals[&key(1)];
    assert!(goal.inflated + goal.stored > 0.6, "{goal:?}");
    shares.note_running(query, 0, ran(&[1], 100), Duration::from_secs(60));
    shares.note_running(query, 1, ran(&[2], 100), Duration::from_secs(60));
    solved(&shares, &cache);
    assert!(shares.lock().solving_time > first && shares.lock().plan.goals.contains_key(&key(2)));
    shares.forget_running(query);
    assert!(shares.lock().running.is_empty() && shares.columns().is_empty(), "nothing has ended");
}

#[test]
fn tables_that_are_to_stay_get_no_shares() {
    let (shares, cache) = (Arc::new(ColumnShares::default()), short_cache(200 * MB));
    cache.set_policy(PolicyKind::Proportional);
    cache.pin(TableId(1), true);
    shares.note(vec![ran(&[1, 2], 100)], Duration::from_secs(60));
    solved(&shares, &cache);
    assert!(shares.lock().plan.goals.is_empty());
    cache.pin(TableId(1), false);
    solved(&shares, &cache);
    assert_eq!(shares.lock().plan.goals.len(), 2);
}

/// What queries take shows whether the model allows too much.
#[test]
fn a_slowdown_is_one_of_queries_as_they_ran() {
    let in_memory = |elapsed_ms: u64| {
        let mut of = ColumnTraffic::default();
        of.add(ChunkSource::Inflated, (100 * MB, 300 * MB), 0);
        let (traffic, elapsed) = (Traffic::from([(key(1), of)]), Duration::from_millis(elapsed_ms));
        Ran { traffic, elapsed, waited: Duration::ZERO, ..ran(&[1], 1000) }
    };
    let mut state = State::default();
    let run = |state: &mut State, ran: &Ran, times: usize| {
        (0..times).for_each(|_| state.history.add_query(vec![ran.clone()], ran.elapsed, Forms::BOTH));
        state.next_slowdown().0.map(|slowdown| (slowdown * 100.0).round() / 100.0)
    };
    let read = ran(&[1], 1000);
    assert_eq!(run(&mut state, &in_memory(500), 40), None, "nothing is asked for");
    state.slowdown = Some(1.5);
    state.history.begin_anew();
    assert_eq!(run(&mut state, &read, 1), Some(1.5), "the first one since the shares are others");
    assert_eq!(run(&mut state, &read, 1), Some(1.23), "it takes twice as long as in memory");
    assert_eq!(run(&mut state, &read, 3), Some(1.0), "no less than all in memory");
    assert_eq!(run(&mut state, &in_memory(500), 2), Some(1.33), "it may take longer");
    let stored = |columns: &[u32]| {
        let mut ran = ran(columns, 1000);
        let of = ran.traffic.get_mut(&key(1)).expect("it reads the column");
        of.stored = std::mem::take(&mut of.disk);
        ran
    };
    assert_eq!(run(&mut state, &stored(&[1]), 2), Some(1.09), "what is inflated is slower than in memory");
    assert_eq!(run(&mut state, &stored(&[1]), 2), Some(1.0));
    // Nobody knows what this one takes in memory.
    state.history.begin_anew();
    assert_eq!(run(&mut state, &ran(&[2], 1000), 100), Some(1.0));
}

/// A plan for least memory stays until it has been measured, whatever else pipelines tell meanwhile.
#[test]
fn a_plan_is_measured_before_the_next_one() {
    let (shares, cache) = (Arc::new(ColumnShares::default()), short_cache(2000 * MB));
    cache.set_policy(PolicyKind::Proportional);
    let goals = |ran: Ran| {
        let elapsed = ran.elapsed;
        shares.note(vec![ran], elapsed);
        // Enough time of queries for the solving.
        shares.note(Vec::new(), Duration::from_secs(60));
        solved(&shares, &cache);
        shares.columns().values().filter_map(|column| column.goal).collect::<Vec<_>>()
    };
    let mut in_memory = ran(&[1], 100);
    let of = in_memory.traffic.get_mut(&key(1)).expect("it reads the column");
    of.inflated = std::mem::take(&mut of.disk);
    (in_memory.elapsed, in_memory.waited) = (Duration::from_millis(50), Duration::ZERO);
    (0..3).for_each(|_| drop(goals(in_memory.clone())));
    (0..3).for_each(|_| drop(goals(ran(&[1], 100))));
    shares.set_slowdown(Some(10.0));
    let bytes = |goals: &[Goal]| goals.iter().map(|goal| goal.bytes).sum::<f64>();
    let first = goals(ran(&[1], 100));
    assert!(bytes(&first) > 20e6, "{first:?}");
    cache.resize(10 * MB as usize);
    let small = goals(ran(&[1], 100));
    assert!(bytes(&small) <= 10e6, "too little memory is a reason at any time: {small:?}");
    cache.resize(2000 * MB as usize);
    assert_eq!(goals(ran(&[1], 100)), small, "the first run behind a plan brings chunks in and out");
    let second = goals(ran(&[1], 100));
    assert!(bytes(&second) > bytes(&first), "it took 20 times as long: {second:?}");
}

/// Queries that take most of the time are waited for.
#[test]
fn a_slowdown_is_one_of_most_queries() {
    let mut slowdown = slowdown::Slowdown::default();
    let kind = |column: u32| (vec![key(column)], 10, 2);
    [(1, 8.0), (2, 1.5), (3, 0.5)].iter().for_each(|(column, took_s)| slowdown.add(kind(*column), *took_s, true));
    slowdown.begin_anew();
    (0..3).for_each(|_| slowdown.add(kind(1), 16.0, false));
    assert_eq!(slowdown.take(), Measured::TooFew, "8 of 10 s");
    (0..2).for_each(|_| slowdown.add(kind(2), 1.5, false));
    assert_eq!(slowdown.take(), Measured::Times(33.5 / 17.5), "9.5 of 10 s");
    slowdown.add(kind(1), 8.0, false);
    assert_eq!(slowdown.take(), Measured::TooFew);
    slowdown.add(kind(2), 1.5, false);
    assert_eq!(slowdown.take(), Measured::Times(1.0), "none of those before");
    assert_eq!(slowdown::Slowdown::default().take(), Measured::Unknown);
}

/// Goals are for the forms that are allowed, and others are none any more.
#[test]
fn goals_are_for_the_forms_that_are_allowed() {
    let (shares, cache) = (Arc::new(ColumnShares::default()), short_cache(200 * MB));
    cache.set_policy(PolicyKind::Proportional);
    let goals = |forms: Forms| {
        shares.set_forms(forms);
        shares.note(vec![ran(&[1], 100)], Duration::from_secs(60));
        assert!(shares.lock().plan == Plan::default(), "{forms:?}");
        solved(&shares, &cache);
        let goal = shares.columns()[&key(1)].goal.expect("there is a plan");
        (goal.inflated > 0.01, goal.stored > 0.01)
    };
    // 300 MB inflated, and 100 MB stored, in 200 MB.
    assert_eq!(goals(Forms::INFLATED), (true, false));
    assert_eq!(goals(Forms::STORED), (false, true));
    shares.set_forms(Forms::STORED);
    assert!(shares.lock().plan != Plan::default(), "they are as they were");
}
