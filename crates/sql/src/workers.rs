//! The worker threads that run DataFusion's operators, and how a database that closes waits for them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;

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
