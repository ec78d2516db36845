//! One user's session: its settings, and what its statements share.

use std::collections::HashMap;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use datafusion::execution::SessionState;
use datafusion::execution::runtime_env::RuntimeEnv;
use forebay_base::{Durability, Error, ErrorKind, Result};
use forebay_context::durability::SessionDurability;
use forebay_context::error::worker_error;
use forebay_context::functions::Functions;
use forebay_context::lock::lock;
use forebay_context::point_settings::Points;
use forebay_context::workers::Workers;
use forebay_engine::timeline::Timeline;
use forebay_engine::{Background, Engine};
use forebay_layout::MergeTurns;
use forebay_names::search_path::{self, SearchPath};
use forebay_plans::kept::{PlanCache, new_settings};
use forebay_transactions::{Cancel, SessionTransactions, Sessions};
use futures::FutureExt;
use tokio::sync::oneshot;

use crate::prepared::Prepared;
use crate::running::{Canceller, Running};
use crate::sequences;
use crate::state::base_state;

/// What sessions of one database share.
#[derive(Debug, Clone)]
pub struct Shared {
    /// Scans and loads.
    pub engine: Arc<Engine>,
    /// Runs DataFusion's operators.
    pub runtime: Arc<Workers>,
    /// DataFusion's spill files, and memory for what no statement runs.
    pub environment: Arc<RuntimeEnv>,
    /// Worker threads.
    pub threads: usize,
    /// Plans of queries that were run before.
    pub plans: Arc<PlanCache>,
    /// The sessions, as they see each other.
    pub sessions: Arc<Sessions>,
    /// Who merges small segments of which table.
    pub merges: Arc<MergeTurns>,
    /// What the engine does beside queries: it ends with the last session.
    pub background: Arc<Background>,
}

/// What a session's statements start from.
#[derive(Clone)]
pub(crate) struct Base {
    /// Settings and functions.
    pub(crate) state: Arc<SessionState>,
    /// The settings by number.
    pub(crate) settings: u64,
}

/// One user's session.
pub struct Session {
    pub(crate) shared: Shared,
    pub(crate) base: Mutex<Base>,
    pub(crate) path: Arc<Mutex<SearchPath>>,
    /// What PREPARE made, by folded name.
    pub(crate) prepared: Mutex<HashMap<String, Arc<Prepared>>>,
    pub(crate) running: Arc<Running>,
    /// Its transactions.
    pub(crate) transactions: Arc<SessionTransactions>,
    /// Whether statements note when they do what.
    pub(crate) records: AtomicBool,
    pub(crate) points: Points,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Session {
    /// A session with default settings.
    pub fn new(shared: Shared) -> Self {
        let path = Arc::new(Mutex::new(SearchPath::of_new_session()));
        let mut state = base_state(shared.threads, &shared.environment);
        let running = Arc::<Running>::default();
        let canceller = Canceller(Arc::clone(&running));
        let cancel = Cancel(Box::new(move || canceller.cancel()));
        let transactions = shared.sessions.begin(shared.engine.store(), cancel);
        state.config_mut().set_extension(Arc::clone(&transactions));
        state.config_mut().set_extension(Arc::clone(&shared.sessions));
        let registered = sequences::register(&mut state, &transactions, &path);
        debug_assert!(registered.is_ok(), "functions have names of their own");
        let base = Mutex::new(Base { state: Arc::new(state), settings: 0 });
        Self {
            shared,
            base,
            path,
            prepared: Mutex::default(),
            running,
            transactions,
            records: AtomicBool::new(false),
            points: Points::default(),
        }
    }

    /// Has statements from now on note when they do what, or no longer.
    pub fn record_timelines(&self, records: bool) {
        self.records.store(records, Ordering::Relaxed);
    }

    /// When the statement that was begun last did what, if that was noted.
    pub fn timeline(&self) -> Option<Timeline> {
        let statement = lock(&self.running.statement).clone()?;
        statement.timeline().map(|recorder| recorder.timeline())
    }

    /// When the session's commits are acknowledged.
    pub fn durability(&self) -> Durability {
        SessionDurability::of(lock(&self.base).state.config())
    }

    /// A handle that cancels and watches the running statement.
    pub fn canceller(&self) -> Canceller {
        Canceller(Arc::clone(&self.running))
    }

    /// Names of tables and views, columns and functions, for completion.
    pub fn names(&self) -> (Vec<String>, Vec<String>, Vec<String>) {
        let catalog = self.transactions.catalog();
        let tables = catalog.tables().map(|table| table.name.clone());
        let tables: Vec<String> = tables.chain(catalog.views().map(|view| view.name.clone())).collect();
        let all = catalog.tables().flat_map(|table| table.columns.iter().map(|column| column.name.clone()));
        let mut columns: Vec<String> = all.collect();
        columns.sort();
        columns.dedup();
        let base = lock(&self.base).state.clone();
        let own = base.scalar_functions().keys().cloned();
        let mut functions: Vec<String> = own.chain(Functions::of(base.config()).names().map(str::to_owned)).collect();
        functions.sort();
        functions.dedup();
        (tables, columns, functions)
    }

    /// Changes the session's settings.
    pub(crate) fn set<T>(&self, change: impl FnOnce(&mut SessionState) -> T) -> T {
        let mut base = lock(&self.base);
        base.settings = new_settings();
        change(Arc::make_mut(&mut base.state))
    }

    /// Waits for `work`, or for the statement to be cancelled.
    pub(crate) fn wait<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        self.shared.runtime.block_on(self.running.unless_cancelled(work))
    }

    /// As [`Session::wait`], for work that computes without waiting, such as planning: it has a thread of its own, and if
    /// the statement is cancelled, it is left to itself there until it next waits.
    pub(crate) fn wait_apart<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let handle = self.shared.runtime.handle().clone();
        let (wanted, unwanted) = oneshot::channel::<()>();
        let unless_left = async move {
            tokio::select! {
                biased;
                _ = unwanted => Err(Error::new(ErrorKind::Cancelled, "nobody waits for the statement")),
                done = work => done,
            }
        };
        let task = self.shared.runtime.spawn_blocking(move || handle.block_on(unless_left));
        self.wait(async {
            // Dropped with this future.
            let _wanted = wanted;
            // A panic is an error of this statement.
            task.await.unwrap_or_else(|failed| Err(worker_error(&failed)))
        })
    }

    /// As [`Session::wait_apart`], or on this thread where `is_here` ([`forebay_planning::short`]).
    pub(crate) fn wait_at<T: Send + 'static>(
        &self,
        is_here: bool,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        match is_here {
            true => {
                self.wait(AssertUnwindSafe(work).catch_unwind().map(|done| done.unwrap_or_else(|_| Err(stopped()))))
            }
            false => self.wait_apart(work),
        }
    }

    pub(crate) fn path(&self) -> SearchPath {
        lock(&self.path).clone()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.transactions.close();
        // Those that stay are dropped when the database is opened again.
        let _ = search_path::drop_own(self.shared.engine.store(), &self.path());
    }
}

/// What a panic is to its statement; what it said has been written by then.
fn stopped() -> Error {
    Error::internal("the statement panicked")
}
