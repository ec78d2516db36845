//! One user's session: settings, and the life of a statement from text to rows.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use datafusion::execution::SessionState;
use datafusion::execution::runtime_env::RuntimeEnv;
use forebay_base::{Error, ErrorKind, Result};
use forebay_engine::timeline::Timeline;
use forebay_engine::{CancelToken, Engine};
use forebay_store::DEFAULT_SCHEMA;
use tokio::runtime::Runtime;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use crate::answer::Answer;
use crate::catalog::Planner;
use crate::parse::{self, Command};
use crate::plan_cache::{PlanCache, PlanKey, new_settings};
use crate::run::Run;
use crate::settings;
use crate::statement::StatementContext;

/// How long closing a database waits for a cancelled query that is still in a long computation.
const LAST_WAIT: Duration = Duration::from_millis(40);

/// How long it waits for a cancelled load to remove its file.
const LAST_WAIT_FOR_LOADS: Duration = Duration::from_secs(2);

/// The worker threads. Dropped, they are waited for, but not for long.
#[derive(Debug)]
pub struct Workers {
    runtime: Option<Runtime>,
    loads: Arc<()>,
}

impl Workers {
    /// Takes the runtime over.
    pub fn new(runtime: Runtime) -> Self {
        Self { runtime: Some(runtime), loads: Arc::new(()) }
    }

    /// Kept by every worker of a load until it has ended, so that it is waited for.
    pub(crate) fn load(&self) -> Arc<()> {
        Arc::clone(&self.loads)
    }
}

impl std::ops::Deref for Workers {
    type Target = Runtime;

    fn deref(&self) -> &Runtime {
        self.runtime.as_ref().expect("the runtime is only taken when it is dropped")
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        let start = Instant::now();
        while Arc::strong_count(&self.loads) > 1 && start.elapsed() < LAST_WAIT_FOR_LOADS {
            std::thread::sleep(Duration::from_millis(1));
        }
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(LAST_WAIT);
        }
    }
}

/// What sessions of one database share.
#[derive(Debug, Clone)]
pub struct Shared {
    /// Scans and loads.
    pub engine: Arc<Engine>,
    /// Runs DataFusion's operators.
    pub runtime: Arc<Workers>,
    /// DataFusion's memory budget and spill files.
    pub environment: Arc<RuntimeEnv>,
    /// Worker threads.
    pub threads: usize,
    /// Plans of queries that were run before.
    pub plans: Arc<PlanCache>,
}

/// What a session's statements start from.
#[derive(Clone)]
struct Base {
    /// Settings and functions.
    state: Arc<SessionState>,
    /// The settings by number.
    settings: u64,
}

/// One user's session.
pub struct Session {
    pub(crate) shared: Shared,
    base: Mutex<Base>,
    pub(crate) schema: Mutex<String>,
    pub(crate) running: Arc<Running>,
    /// Whether statements note when they do what.
    records: AtomicBool,
}

/// The running statement, as seen from other threads.
#[derive(Debug, Default)]
pub(crate) struct Running {
    pub(crate) cancel: CancelToken,
    cancelled: Notify,
    statement: Mutex<Option<Arc<StatementContext>>>,
    pub(crate) task: Mutex<Option<AbortHandle>>,
}

impl Running {
    /// What `work` gives, or [`ErrorKind::Cancelled`] as soon as the statement is cancelled.
    pub(crate) async fn unless_cancelled<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let cancelled = self.cancelled.notified();
        self.cancel.check()?;
        tokio::select! {
            done = work => done,
            () = cancelled => Err(Error::new(ErrorKind::Cancelled, "the query was cancelled")),
        }
    }
}

/// Cancels a session's running statement from another thread.
#[derive(Debug, Clone)]
pub struct Canceller(Arc<Running>);

impl Canceller {
    /// The running statement ends with [`ErrorKind::Cancelled`].
    pub fn cancel(&self) {
        self.0.cancel.cancel();
        self.0.cancelled.notify_waiters();
        if let Some(task) = lock(&self.0.task).take() {
            task.abort();
        }
    }

    /// What is being done and how much of it is done, from 0 to 1.
    pub fn progress(&self) -> Option<(String, f64)> {
        let statement = lock(&self.0.statement).clone()?;
        statement.progress()
    }
}

/// Locks what is replaced whole, so that a panicking holder leaves nothing half done.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("schema", &self.schema).finish_non_exhaustive()
    }
}

impl Session {
    /// A session with default settings.
    pub fn new(shared: Shared) -> Self {
        let base = Mutex::new(Base { state: Arc::new(settings::base_state(&shared)), settings: 0 });
        Self {
            shared,
            base,
            schema: Mutex::new(DEFAULT_SCHEMA.to_owned()),
            running: Arc::default(),
            records: AtomicBool::new(false),
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

    /// A handle that cancels and watches the running statement.
    pub fn canceller(&self) -> Canceller {
        Canceller(Arc::clone(&self.running))
    }

    /// Names of tables and views, columns and functions, for completion.
    pub fn names(&self) -> (Vec<String>, Vec<String>, Vec<String>) {
        let catalog = self.shared.engine.store().catalog();
        let tables = catalog.tables().map(|table| table.name.clone());
        let tables: Vec<String> = tables.chain(catalog.views().map(|view| view.name.clone())).collect();
        let all = catalog.tables().flat_map(|table| table.columns.iter().map(|column| column.name.clone()));
        let mut columns: Vec<String> = all.collect();
        columns.sort();
        columns.dedup();
        let base = lock(&self.base).state.clone();
        let mut functions: Vec<String> = base
            .scalar_functions()
            .keys()
            .chain(base.aggregate_functions().keys())
            .chain(base.window_functions().keys())
            .cloned()
            .collect();
        functions.sort();
        functions.dedup();
        (tables, columns, functions)
    }

    /// Runs one statement.
    pub fn execute(&self, text: &str) -> Result<Answer> {
        let Base { state, settings } = lock(&self.base).clone();
        let key = PlanKey { settings, text: text.trim().to_owned() };
        let commit = self.shared.engine.store().catalog().commit_number();
        if let Some(plan) = self.shared.plans.find(&key, commit) {
            return self.run(state, SCANNING, key).known(plan);
        }
        let command = parse::parse(text)?;
        let answer = self.run(state, activity(&command), key).command(command);
        self.shared.plans.forget_before(self.shared.engine.store().catalog().commit_number());
        answer
    }

    fn run(&self, state: Arc<SessionState>, activity: &str, key: PlanKey) -> Run<'_> {
        let cancel = self.running.cancel.clone();
        cancel.reset();
        let statement = Arc::new(StatementContext::new(cancel, activity));
        if self.records.load(Ordering::Relaxed) {
            statement.record();
        }
        *lock(&self.running.statement) = Some(Arc::clone(&statement));
        let planner = Planner::new(state, Arc::clone(&self.shared.engine), Arc::clone(&statement));
        Run::new(self, planner, statement, key)
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
    /// the statement is cancelled, it is left to itself there.
    pub(crate) fn wait_apart<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let handle = self.shared.runtime.handle().clone();
        let task = self.shared.runtime.spawn_blocking(move || handle.block_on(work));
        self.wait(async {
            match task.await {
                Ok(done) => done,
                Err(failed) if failed.is_panic() => std::panic::resume_unwind(failed.into_panic()),
                Err(_) => Err(Error::internal("a statement's planning was stopped")),
            }
        })
    }

    pub(crate) fn default_schema(&self) -> String {
        lock(&self.schema).clone()
    }
}

/// What a query does.
const SCANNING: &str = "scanning";

fn activity(command: &Command) -> &'static str {
    match command {
        Command::Copy(copy) if copy.to => "writing",
        Command::Copy(_) => "loading",
        Command::CheckDatabase => "checking",
        Command::Checkpoint | Command::Optimize(_) => "merging",
        _ => SCANNING,
    }
}
