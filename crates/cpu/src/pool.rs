//! The standing workers of this process: threads that wait for work, so that a pipeline of some microseconds need not start
//! any. One of the modules that have `unsafe`: work borrows from whoever gives it, and the workers are older than that.
//!
//! Invariants: [`Pool::run`] returns after the last call of its work has ended, whatever panicked; the thread that calls
//! it works too, so that it never waits for a worker that does something else; every job at once gets the workers that it
//! asks for, and the system shares the processors out between them; a worker without work sleeps, and ends in the end.
//! Must not know: what the work is.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// How long a worker without work stays: a query that comes later starts another one.
const IDLE: Duration = Duration::from_secs(10);

/// Looks for new work before a worker sleeps, and for its end before the caller does: some ten microseconds, less than
/// sleeping and waking take. Between two pipelines of one query it is seldom longer.
const SPINS: usize = 1 << 10;

/// The workers of this process, whatever databases are open.
static POOL: Pool = Pool::new();

/// The workers of this process.
pub(crate) fn pool() -> &'static Pool {
    &POOL
}

/// Calls `work` once on this thread and at the same time on up to `threads - 1` workers, and gives what every call gave, a
/// panic as an error. A worker that comes after this thread's call has ended is not needed any more: `work` is to take
/// its share of something until nothing is left.
pub fn run<R: Send>(threads: usize, work: impl Fn() -> R + Sync) -> Vec<std::thread::Result<R>> {
    pool().run(threads, work)
}

/// Keeps the workers of this process: with the last of these they end.
#[derive(Debug)]
pub struct Lease(&'static Pool);

impl Lease {
    /// One for a database that is opened.
    pub fn new() -> Self {
        Self::of(pool())
    }

    fn of(pool: &'static Pool) -> Self {
        pool.lock().leases += 1;
        Self(pool)
    }
}

impl Default for Lease {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.leases -= 1;
        if state.leases > 0 {
            return;
        }
        let workers = std::mem::take(&mut state.handles);
        drop(state);
        self.0.wake.notify_all();
        let others = workers.into_iter().filter(|worker| worker.thread().id() != std::thread::current().id());
        // Their work catches panics; one that failed nevertheless has ended all the same.
        others.for_each(|worker| drop(worker.join()));
    }
}

/// Workers and what they have to do.
#[derive(Debug)]
pub(crate) struct Pool {
    state: Mutex<State>,
    /// There is work, or the workers are to end.
    wake: Condvar,
    /// Jobs that were ever given; whoever sees it change looks for work.
    given: AtomicUsize,
}

#[derive(Debug)]
struct State {
    /// Jobs that want more workers, the oldest first, and how many.
    open: VecDeque<(Arc<Job>, usize)>,
    workers: usize,
    busy: usize,
    leases: usize,
    handles: Vec<JoinHandle<()>>,
}

/// Work that someone waits for.
#[derive(Debug)]
struct Job {
    work: Work,
    /// Workers that are at it. None joins after the job was withdrawn.
    running: AtomicUsize,
    ended: (Mutex<()>, Condvar),
}

/// The work of a job, without its lifetime.
struct Work(*const (dyn Fn() + Sync));

// SAFETY: what it points to is `Sync`, and is called only while the job's caller waits.
unsafe impl Send for Work {}
// SAFETY: as above.
unsafe impl Sync for Work {}

impl std::fmt::Debug for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Work")
    }
}

impl Job {
    /// Does one worker's share, which was counted when the worker took it.
    fn work(&self) {
        // SAFETY: the caller of the job waits until no worker is counted, and this one is until the next line.
        unsafe { (*self.work.0)() }
        if self.running.fetch_sub(1, Ordering::AcqRel) == 1 {
            let _guard = self.ended.0.lock().unwrap_or_else(PoisonError::into_inner);
            self.ended.1.notify_one();
        }
    }

    /// Waits until no worker is at it any more.
    fn wait(&self) {
        let is_done = || self.running.load(Ordering::Acquire) == 0;
        if spin(is_done) {
            return;
        }
        let mut guard = self.ended.0.lock().unwrap_or_else(PoisonError::into_inner);
        while !is_done() {
            guard = self.ended.1.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Withdraws a job, and waits for those who are at it.
struct Given {
    pool: &'static Pool,
    job: Arc<Job>,
}

impl Drop for Given {
    fn drop(&mut self) {
        self.pool.lock().open.retain(|(job, _)| !Arc::ptr_eq(job, &self.job));
        self.job.wait();
    }
}

impl Pool {
    const fn new() -> Self {
        let state = State { open: VecDeque::new(), workers: 0, busy: 0, leases: 0, handles: Vec::new() };
        Self { state: Mutex::new(state), wake: Condvar::new(), given: AtomicUsize::new(0) }
    }

    /// As [`run`].
    pub(crate) fn run<R: Send>(
        &'static self,
        threads: usize,
        work: impl Fn() -> R + Sync,
    ) -> Vec<std::thread::Result<R>> {
        let work = || catch_unwind(AssertUnwindSafe(&work));
        if threads <= 1 {
            return vec![work()];
        }
        let others: Mutex<Vec<Result<R, Box<dyn Any + Send>>>> = Mutex::default();
        let share = || {
            let result = work();
            others.lock().unwrap_or_else(PoisonError::into_inner).push(result);
        };
        let given = self.give(&share, threads - 1);
        let mut results = vec![work()];
        drop(given);
        results.extend(others.into_inner().unwrap_or_else(PoisonError::into_inner));
        results
    }

    /// Gives `work` to so many workers. It must live until what this returns is dropped, which must not be forgotten.
    fn give(&'static self, work: &(dyn Fn() + Sync), seats: usize) -> Given {
        // SAFETY: only the lifetime is left out. Workers call it while they are counted, and [`Given`] is dropped before
        // `work`, by the only caller of this function, after it saw that none is counted.
        let work = unsafe {
            std::mem::transmute::<*const (dyn Fn() + Sync + '_), *const (dyn Fn() + Sync + 'static)>(&raw const *work)
        };
        let job = Job { work: Work(work), running: AtomicUsize::new(0), ended: (Mutex::new(()), Condvar::new()) };
        let job = Arc::new(job);
        let mut state = self.lock();
        state.open.push_back((Arc::clone(&job), seats));
        let wanted = state.busy + state.open.iter().map(|(_, seats)| seats).sum::<usize>();
        state.handles.retain(|worker| !worker.is_finished());
        for _ in state.workers..wanted {
            // Where the system gives no more threads, there are fewer: the caller can do all of it.
            let Ok(worker) = Builder::new().name("forebay-pipeline".to_owned()).spawn(|| self.serve()) else { break };
            state.workers += 1;
            state.handles.push(worker);
        }
        drop(state);
        self.given.fetch_add(1, Ordering::Release);
        (0..seats).for_each(|_| self.wake.notify_one());
        Given { pool: self, job }
    }

    /// The life of a worker.
    fn serve(&self) {
        let mut state = self.lock();
        loop {
            let given = self.given.load(Ordering::Acquire);
            if let Some(job) = state.take() {
                state.busy += 1;
                drop(state);
                job.work();
                state = self.lock();
                state.busy -= 1;
                continue;
            }
            if state.leases == 0 {
                break;
            }
            drop(state);
            let is_given = spin(|| self.given.load(Ordering::Acquire) != given);
            state = self.lock();
            if is_given || !state.open.is_empty() || state.leases == 0 {
                continue;
            }
            let woken = self.wake.wait_timeout(state, IDLE).unwrap_or_else(PoisonError::into_inner);
            state = woken.0;
            if woken.1.timed_out() && state.open.is_empty() {
                break;
            }
        }
        state.workers -= 1;
    }

    /// What is locked is whole between any two statements that can panic.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// A share of the oldest job that wants more workers.
    fn take(&mut self) -> Option<Arc<Job>> {
        let (job, seats) = self.open.front_mut()?;
        let taken = Arc::clone(job);
        taken.running.fetch_add(1, Ordering::Relaxed);
        *seats -= 1;
        if *seats == 0 {
            self.open.pop_front();
        }
        Some(taken)
    }
}

/// Whether `is_done` within a moment.
fn spin(is_done: impl Fn() -> bool) -> bool {
    (0..SPINS).any(|_| {
        std::hint::spin_loop();
        is_done()
    })
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    /// What a worker takes to come at most, however busy the machine is.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// Waits until so many threads have come here; a panic where one never does.
    struct Meeting {
        wanted: usize,
        came: AtomicUsize,
    }

    impl Meeting {
        fn of(wanted: usize) -> Self {
            Self { wanted, came: AtomicUsize::new(0) }
        }

        fn wait(&self) {
            self.came.fetch_add(1, Ordering::AcqRel);
            until(|| self.came.load(Ordering::Acquire) >= self.wanted, "a worker never came");
        }
    }

    fn until(is_so: impl Fn() -> bool, otherwise: &str) {
        let begin = Instant::now();
        while !is_so() {
            assert!(begin.elapsed() < PATIENCE, "{otherwise}");
            std::thread::yield_now();
        }
    }

    fn new_pool() -> &'static Pool {
        Box::leak(Box::new(Pool::new()))
    }

    #[test]
    fn workers_work_at_the_same_time() {
        let pool = new_pool();
        let _lease = Lease::of(pool);
        for threads in [1, 2, 5, 3] {
            let (meeting, number) = (Meeting::of(threads), AtomicUsize::new(0));
            let results = pool.run(threads, || {
                meeting.wait();
                number.fetch_add(1, Ordering::Relaxed)
            });
            let mut results: Vec<usize> = results.into_iter().map(|result| result.expect("no panic")).collect();
            results.sort_unstable();
            assert_eq!(results, (0..threads).collect::<Vec<_>>());
            // A worker that has ended its share is free a moment later.
            until(|| pool.lock().busy == 0, "a worker never ends");
        }
        // Those of the first jobs served the later ones.
        assert!(pool.lock().workers <= 4);
    }

    #[test]
    fn a_panic_is_an_error_and_the_pool_goes_on() {
        let pool = new_pool();
        let _lease = Lease::of(pool);
        for round in 0..20 {
            let (meeting, number) = (Meeting::of(3), AtomicUsize::new(0));
            let results = pool.run(3, || {
                meeting.wait();
                assert!(number.fetch_add(1, Ordering::Relaxed) != round % 3, "one of them fails");
            });
            assert_eq!(results.len(), 3);
            assert_eq!(results.iter().filter(|result| result.is_err()).count(), 1);
        }
    }

    #[test]
    fn jobs_at_the_same_time_get_workers_each() {
        let pool = new_pool();
        let _lease = Lease::of(pool);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let meeting = Meeting::of(3);
                        let inner = || pool.run(2, || 1).into_iter().map(|result| result.expect("no panic")).sum();
                        let sums = pool.run(3, || {
                            meeting.wait();
                            inner()
                        });
                        let sums: Vec<i32> = sums.into_iter().map(|sum| sum.expect("no panic")).collect();
                        assert!(sums.len() == 3 && sums.iter().all(|sum| (1..=2).contains(sum)), "{sums:?}");
                    }
                });
            }
        });
    }

    #[test]
    fn the_last_lease_ends_all_workers() {
        let pool = new_pool();
        let (first, second) = (Lease::of(pool), Lease::of(pool));
        let meet = || {
            let meeting = Meeting::of(3);
            let came = pool.run(3, || meeting.wait());
            came.into_iter().filter(Result::is_ok).count()
        };
        assert_eq!(meet(), 3);
        drop(first);
        assert!(pool.lock().workers >= 2);
        drop(second);
        assert_eq!(pool.lock().workers, 0);
        // Without a lease there are workers for the job alone.
        assert_eq!(meet(), 3);
        drop(Lease::of(pool));
        assert_eq!(pool.lock().workers, 0);
    }

    #[test]
    fn work_borrows_from_its_caller() {
        let pool = new_pool();
        let _lease = Lease::of(pool);
        for size in 0..200 {
            let numbers: Vec<usize> = (0..size).collect();
            let next = AtomicUsize::new(0);
            let take = || std::iter::from_fn(|| numbers.get(next.fetch_add(1, Ordering::Relaxed))).sum::<usize>();
            let sums = pool.run(4, take);
            let sum: usize = sums.into_iter().map(|sum| sum.expect("no panic")).sum();
            assert_eq!(sum, numbers.iter().sum());
        }
    }
}
