//! Whether this process gets huge pages: they are worth it where much memory stays, and as long as the system has them at hand.
//!
//! A huge page that lies there is cleared in a fraction of a millisecond. One that the kernel must first move others away for, or that
//! the host of a virtual machine took back while nobody used it, takes many milliseconds, longer than a drive needs to fill it;
//! small pages come from pieces that neither of them touches. So a process begins with small pages, the memory of its allocator
//! included, and gets huge ones when its pools have taken as much as short processes never do. From then on it is timed how long they
//! take; after one that took long, small pages do for a while.
//! Must not know: whose memory it is.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use forebay_base::limits::HUGE_PAGE_BYTES;

/// Bytes that pools have taken of the system when the process gets huge pages.
const LEAST_BYTES: usize = 512 << 20;
/// Processor time for a huge page from which on it took long: several times that of clearing it.
const LONG: Duration = Duration::from_millis(2);
/// How long small pages do after that.
const PAUSE: Duration = Duration::from_secs(1);

/// The process gets huge pages.
const GIVEN: u64 = 0;
/// It does not get them before its pools have taken [`LEAST_BYTES`].
const AT_FIRST: u64 = u64::MAX;

/// [`GIVEN`], [`AT_FIRST`], or when the process gets huge pages again, in milliseconds of [`clock`].
static GIVEN_AT: AtomicU64 = AtomicU64::new(GIVEN);
static IS_MANAGED: AtomicBool = AtomicBool::new(false);
static TAKEN_BYTES: AtomicUsize = AtomicUsize::new(0);

/// From now on the process gets huge pages only where they are worth it. Without this they are left to the system's settings.
pub(crate) fn manage() {
    if !IS_MANAGED.swap(true, Ordering::Relaxed) && forbid(true) {
        GIVEN_AT.store(AT_FIRST, Ordering::Relaxed);
    }
}

/// Takes `bytes` of memory of the system by `touch`, on this thread.
pub(super) fn take(bytes: usize, touch: impl FnOnce()) {
    if !IS_MANAGED.load(Ordering::Relaxed) || !are_given(bytes) {
        return touch();
    }
    let before = thread_time();
    touch();
    let pages = u32::try_from(bytes.div_ceil(HUGE_PAGE_BYTES)).unwrap_or(u32::MAX);
    if thread_time().saturating_sub(before) >= LONG.saturating_mul(pages) && forbid(true) {
        GIVEN_AT.store(clock() + PAUSE.as_millis() as u64, Ordering::Relaxed);
    }
}

/// Whether the process gets huge pages for `bytes` that are taken now. Allows them where it is time to.
fn are_given(bytes: usize) -> bool {
    let given_at = GIVEN_AT.load(Ordering::Relaxed);
    let is_time = match given_at {
        GIVEN => return true,
        AT_FIRST => TAKEN_BYTES.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes) >= LEAST_BYTES,
        again_at => clock() >= again_at,
    };
    if is_time && GIVEN_AT.compare_exchange(given_at, GIVEN, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
        forbid(false);
    }
    is_time
}

/// Has the kernel give this process no huge pages, or give them again. False if it was so before, or is refused.
fn forbid(forbids: bool) -> bool {
    const NONE: libc::c_ulong = 0;
    let forbidden = libc::c_ulong::from(forbids);
    is_forbidden() != forbids
        // SAFETY: the arguments are numbers; how memory is provided changes, not what is in it.
        && unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, forbidden, NONE, NONE, NONE) } == 0
}

fn is_forbidden() -> bool {
    const NONE: libc::c_ulong = 0;
    // SAFETY: asks for a number, by numbers.
    unsafe { libc::prctl(libc::PR_GET_THP_DISABLE, NONE, NONE, NONE, NONE) == 1 }
}

/// Milliseconds since this was asked first, and one.
fn clock() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_millis() as u64 + 1
}

/// Processor time of this thread: time in which another one had its processor does not count.
fn thread_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call gets a valid pointer to an initialised `timespec` that outlives it.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn huge_pages_come_with_much_memory_and_go_when_they_take_long() {
        let busy = || {
            let start = thread_time();
            while thread_time() - start < LONG {}
        };
        take(HUGE_PAGE_BYTES, busy);
        assert!(!is_forbidden(), "left to the system's settings");
        manage();
        assert!(is_forbidden());
        take(LEAST_BYTES, || {});
        assert!(!is_forbidden());
        take(HUGE_PAGE_BYTES, || std::thread::sleep(2 * LONG));
        assert!(!is_forbidden(), "sleeping is no processor time");
        take(HUGE_PAGE_BYTES, busy);
        assert!(is_forbidden());
        std::thread::sleep(PAUSE + Duration::from_millis(5));
        take(HUGE_PAGE_BYTES, || {});
        assert!(!is_forbidden());
    }
}
