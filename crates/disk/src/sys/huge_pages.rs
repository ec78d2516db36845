//! Whether this process gets huge pages: they are worth it where much memory stays.
//!
//! A huge page that lies there is cleared in a fraction of a millisecond. One that the kernel must first move others away for, or that
//! the host of a virtual machine took back while nobody used it, takes many milliseconds, longer than a drive needs to fill it;
//! small pages come from pieces that neither of them touches. So a process that may be short begins with small pages, the memory of
//! its allocator included, and gets huge ones when its pools have taken as much as short processes never do.
//! Must not know: whose memory it is.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that pools have taken of the system when the process gets huge pages.
const LEAST_BYTES: usize = 256 << 20;

/// Bytes that pools have yet to take before the process gets huge pages. Zero where it gets them, or where that is not up to it.
static LEFT_BYTES: AtomicUsize = AtomicUsize::new(0);

/// From now on the process gets huge pages only once its pools have taken [`LEAST_BYTES`]. Without this they are left to the
/// system's settings, and so they are where somebody else forbade them before.
pub(crate) fn begin_without() {
    if !are_forbidden() && forbid(true) {
        LEFT_BYTES.store(LEAST_BYTES, Ordering::Relaxed);
    }
}

/// The process gets huge pages from now on, if [`begin_without`] has it do without.
pub(crate) fn end_without() {
    if LEFT_BYTES.swap(0, Ordering::Relaxed) > 0 {
        // Where that is refused, small pages go on to do.
        forbid(false);
    }
}

/// Takes note that a pool takes `bytes` of the system.
pub(super) fn take(bytes: usize) {
    if LEFT_BYTES.load(Ordering::Relaxed) == 0 {
        return;
    }
    let take = |left: usize| (left > 0).then(|| left.saturating_sub(bytes));
    let left = LEFT_BYTES.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
    if left.is_ok_and(|left| left <= bytes) {
        // Where that is refused, small pages go on to do.
        forbid(false);
    }
}

/// Has the kernel give this process no huge pages, or give them again; whether it does.
fn forbid(forbids: bool) -> bool {
    const NONE: libc::c_ulong = 0;
    // SAFETY: the arguments are numbers; how memory is provided changes, not what is in it.
    unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, libc::c_ulong::from(forbids), NONE, NONE, NONE) == 0 }
}

fn are_forbidden() -> bool {
    const NONE: libc::c_ulong = 0;
    // SAFETY: asks for a number, by numbers.
    unsafe { libc::prctl(libc::PR_GET_THP_DISABLE, NONE, NONE, NONE, NONE) == 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn huge_pages_come_with_much_memory() {
        take(LEAST_BYTES);
        assert!(!are_forbidden(), "left to the system's settings");
        end_without();
        begin_without();
        assert!(are_forbidden());
        end_without();
        assert!(!are_forbidden() && LEFT_BYTES.load(Ordering::Relaxed) == 0);
        begin_without();
        take(LEAST_BYTES / 4);
        assert!(are_forbidden());
        take(LEAST_BYTES);
        assert!(!are_forbidden() && LEFT_BYTES.load(Ordering::Relaxed) == 0);
    }
}
