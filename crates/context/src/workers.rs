//! The worker threads that run DataFusion's operators, how other threads wait for what they do, and how a database that closes
//! waits for them.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use tokio::runtime::{Handle, Runtime};

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

    /// Waits on this thread for `work`, which workers do. The thread may be one that runs tasks of another runtime, which have
    /// to wait meanwhile.
    pub fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        if Handle::try_current().is_err() {
            return self.runtime().block_on(work);
        }
        let _entered = self.runtime().enter();
        // Of the task that this thread runs: its budget would not be filled up while it waits here.
        wait(tokio::task::unconstrained(work))
    }

    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("the runtime is only taken when it is dropped")
    }

    /// Kept by every worker of a load until it has ended, so that it is waited for.
    pub fn load(&self) -> Arc<()> {
        Arc::clone(&self.loads)
    }
}

impl std::ops::Deref for Workers {
    type Target = Runtime;

    fn deref(&self) -> &Runtime {
        self.runtime()
    }
}

/// Polls `work` on this thread, which sleeps in between.
fn wait<T>(work: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Sleeper(thread::current())));
    let (mut work, mut context) = (pin!(work), Context::from_waker(&waker));
    loop {
        match work.as_mut().poll(&mut context) {
            Poll::Ready(done) => return done,
            Poll::Pending => thread::park(),
        }
    }
}

/// A thread that sleeps until there is something to poll.
struct Sleeper(Thread);

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        let start = Instant::now();
        while Arc::strong_count(&self.loads) > 1 && start.elapsed() < LAST_WAIT_FOR_LOADS {
            std::thread::sleep(Duration::from_millis(1));
        }
        let Some(runtime) = self.runtime.take() else { return };
        let shut_down = move || runtime.shutdown_timeout(LAST_WAIT);
        match Handle::try_current() {
            Err(_) => shut_down(),
            // A thread that runs tasks may not wait for a runtime to end.
            Ok(_) => drop(thread::spawn(shut_down).join()),
        }
    }
}
