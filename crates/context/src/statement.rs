//! What belongs to one running statement: its cancel flag, its account of memory, its figures, its progress.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::{SessionState, TaskContext};
use forebay_base::budget::{Client, Tier};
use forebay_engine::facts::Asked;
use forebay_engine::metrics::MetricsSnapshot;
use forebay_engine::timeline::Recorder;
use forebay_engine::{CancelToken, Metrics};

use crate::operator_memory::OperatorMemory;

/// Shared by the operators of one statement; reaches them as an extension of DataFusion's session configuration.
#[derive(Debug)]
pub struct StatementContext {
    /// Ends the statement.
    pub cancel: CancelToken,
    /// What it takes of the memory.
    pub account: Client,
    /// When it began.
    pub started: Instant,
    scans: Mutex<Vec<Arc<Metrics>>>,
    morsels: AtomicU64,
    activity: Mutex<String>,
    /// Rows or bytes done and expected, for work that is not a scan of ours (reading a file).
    loaded: AtomicU64,
    expected: AtomicU64,
    /// Nanoseconds that it took to plan.
    plan_ns: AtomicU64,
    /// Nanoseconds that its pipelines took to compile.
    compile_ns: AtomicU64,
    /// Files that it reads, other than the database's.
    files: Mutex<Vec<String>>,
    /// When it did what, where somebody asked.
    timeline: OnceLock<Arc<Recorder>>,
    /// What its operators run in, once there are some.
    environment: OnceLock<Arc<RuntimeEnv>>,
}

impl StatementContext {
    /// A statement with this account that began then.
    pub fn new(cancel: CancelToken, account: Client, activity: &str, started: Instant) -> Self {
        Self {
            cancel,
            account,
            started,
            scans: Mutex::default(),
            morsels: AtomicU64::new(0),
            activity: Mutex::new(activity.to_owned()),
            loaded: AtomicU64::new(0),
            expected: AtomicU64::new(0),
            plan_ns: AtomicU64::new(0),
            compile_ns: AtomicU64::new(0),
            files: Mutex::default(),
            timeline: OnceLock::new(),
            environment: OnceLock::new(),
        }
    }

    /// What DataFusion's operators of the statement run with: what the session's do, and memory of the statement's account.
    pub fn task_context(&self, state: &SessionState) -> Arc<TaskContext> {
        let environment = self.environment.get_or_init(|| {
            let memory = OperatorMemory::new(self.account.part(Tier::Operator, "sorts, windows and joins"));
            let session = RuntimeEnv::clone(state.runtime_env());
            Arc::new(RuntimeEnv { memory_pool: Arc::new(memory), ..session })
        });
        Arc::new(TaskContext::from(state).with_runtime(Arc::clone(environment)))
    }

    /// Has its scans note from now on when they do what.
    pub fn record(&self) -> &Arc<Recorder> {
        self.timeline.get_or_init(|| Arc::new(Recorder::new(self.started)))
    }

    /// Where its scans note when they do what, if they do.
    pub fn timeline(&self) -> Option<&Arc<Recorder>> {
        self.timeline.get()
    }

    /// Adds a scan of so many morsels to the statement.
    pub fn watch(&self, metrics: &Arc<Metrics>, morsels: usize) {
        let mut scans = self.scans.lock().unwrap_or_else(PoisonError::into_inner);
        if !scans.iter().any(|known| Arc::ptr_eq(known, metrics)) {
            scans.push(Arc::clone(metrics));
            self.morsels.fetch_add(morsels as u64, Ordering::Relaxed);
        }
    }

    /// The figures of all scans together.
    pub fn figures(&self) -> MetricsSnapshot {
        let sum = Metrics::default();
        for scan in self.scans.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            sum.add_all(&scan.snapshot());
        }
        sum.snapshot()
    }

    /// What scans were asked.
    pub fn asked(&self) -> Vec<Asked> {
        let scans = self.scans.lock().unwrap_or_else(PoisonError::into_inner);
        scans.iter().flat_map(|scan| scan.asked()).collect()
    }

    /// Says that it was planned just now.
    pub fn planned(&self) {
        self.plan_ns.store(self.started.elapsed().as_nanos() as u64, Ordering::Relaxed);
    }

    /// Nanoseconds from its beginning until it was planned; 0 where its plan was there already.
    pub fn plan_ns(&self) -> u64 {
        self.plan_ns.load(Ordering::Relaxed)
    }

    /// Says that pipelines took so much more time to compile.
    pub fn compiled(&self, nanoseconds: u64) {
        self.compile_ns.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    /// Nanoseconds that its pipelines took to compile; 0 where their code was there already.
    pub fn compile_ns(&self) -> u64 {
        self.compile_ns.load(Ordering::Relaxed)
    }

    /// Says that the statement reads these files.
    pub fn reads(&self, files: &[String]) {
        let mut known = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        known.extend_from_slice(files);
        known.sort();
        known.dedup();
    }

    /// The files that it reads, other than the database's, sorted.
    pub fn files(&self) -> Vec<String> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Says that a load expects so many units of work.
    pub fn expect(&self, units: u64) {
        self.expected.store(units, Ordering::Relaxed);
    }

    /// Says that so many more units of a load are done.
    pub fn advance(&self, units: u64) {
        self.loaded.fetch_add(units, Ordering::Relaxed);
    }

    /// What is being done and how much of it is done, from 0 to 1; `None` where that is unknown.
    pub fn progress(&self) -> Option<(String, f64)> {
        let activity = self.activity.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let expected = self.expected.load(Ordering::Relaxed);
        let (done, all) = match expected {
            0 => (self.figures().morsels_done, self.morsels.load(Ordering::Relaxed)),
            _ => (self.loaded.load(Ordering::Relaxed), expected),
        };
        (all > 0).then(|| (activity, (done as f64 / all as f64).min(1.0)))
    }
}

#[cfg(test)]
mod tests {
    use forebay_base::Budget;
    use forebay_base::budget::Backing;

    use super::*;

    #[test]
    fn progress_follows_morsels_then_expectations() {
        let account = Budget::new(0).client("queries", 0, Backing::Heap);
        let context = StatementContext::new(CancelToken::default(), account, "scanning", Instant::now());
        assert_eq!(context.progress(), None);
        let metrics = Arc::new(Metrics::default());
        context.watch(&metrics, 4);
        context.watch(&metrics, 4);
        metrics.morsels_done.add(1);
        assert_eq!(context.progress(), Some(("scanning".to_owned(), 0.25)));
        context.expect(10);
        context.advance(5);
        assert_eq!(context.progress(), Some(("scanning".to_owned(), 0.5)));
    }
}
