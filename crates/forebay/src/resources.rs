//! What a database may use of the machine: as it is asked for, or else what there is.
//!
//! Must not know: what it is used for.

use forebay_base::{Error, Result, units};

use crate::cores::Cores;
use crate::machine_memory::machine_memory_bytes;

/// Share of the machine's memory that is the budget where none is given.
const DEFAULT_MEMORY_SHARE: f64 = 0.75;

/// Least memory budget: below it not even one row group of a wide table can be loaded.
const LEAST_MEMORY_BYTES: u64 = 64 << 20;

/// Stack of a worker: plans of deeply nested SQL, of many joins for example, recurse. Memory is taken only as it is used.
const WORKER_STACK_BYTES: usize = 64 << 20;

/// What a database may use.
pub(crate) struct Resources {
    pub(crate) memory_bytes: u64,
    pub(crate) threads: usize,
    pub(crate) owns_process: bool,
}

impl Resources {
    /// What is asked for, or else what there is; checked before anything is made.
    pub(crate) fn of(memory_bytes: Option<u64>, threads: Option<usize>, owns_process: bool) -> Result<Self> {
        let memory_bytes = match memory_bytes {
            Some(bytes) if bytes < LEAST_MEMORY_BYTES => {
                return Err(Error::input(format!("a memory budget of {} is too small", units::format_bytes(bytes)))
                    .hint(format!("Give at least {}", units::format_bytes(LEAST_MEMORY_BYTES))));
            }
            Some(bytes) => bytes,
            None => (machine_memory_bytes().max(LEAST_MEMORY_BYTES) as f64 * DEFAULT_MEMORY_SHARE) as u64,
        };
        let threads = match threads {
            Some(threads) if !(1..=1024).contains(&threads) => {
                return Err(Error::input(format!("{threads} threads are not possible")).hint("Give 1 to 1024"));
            }
            Some(threads) => threads,
            None => std::thread::available_parallelism().map_or(1, usize::from),
        };
        Ok(Self { memory_bytes, threads, owns_process })
    }
}

/// Worker threads, on the cores that this thread may run on, whoever has them started: they come when somebody needs them, and that may be a
/// thread with other cores.
pub(crate) fn worker_threads(threads: usize) -> Result<tokio::runtime::Runtime> {
    // Where the system does not tell, workers have the cores of who starts them.
    let cores = Cores::of_thread().ok();
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .on_thread_start(move || {
            // A worker on other cores works all the same.
            let _confined = cores.as_ref().map(Cores::confine_thread);
        })
        .thread_name("forebay-worker")
        .thread_stack_size(WORKER_STACK_BYTES)
        .enable_all()
        .build()
        .map_err(|error| Error::io("start worker threads", &error))
}
