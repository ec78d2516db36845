//! The one place for unsafe code in this crate: aligned allocations, io_uring, the limit of open files, and the space that a file
//! system has left.
//!
//! Invariants: every byte of [`Pages`] is initialised; while the kernel or another thread may write to a buffer nothing
//! else in this process can reach it. Must not know: paths, modes, errors of Forebay.

/// Whether this process gets huge pages.
mod huge_pages;

/// Aligned memory.
mod pages;

/// Requests cut into pieces that are filled apart from each other.
mod piece;

/// Memory that the kernel knows for a ring.
mod registered;

/// An io_uring for reads.
mod ring;

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Once;

pub(crate) use huge_pages::{begin_without as begin_without_huge_pages, end_without as end_without_huge_pages};
pub(crate) use pages::Pages;
pub(crate) use piece::{Piece, Transfer};
pub(crate) use ring::{RingQueue, RingWaiter};

/// Raises this process's limit of open files from the soft one, often 1,024, to the hard one. Where that is refused,
/// things stay as they are.
pub(crate) fn raise_open_files() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: both calls get a valid pointer to an initialised `rlimit` that outlives them.
        unsafe {
            if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 && limit.rlim_cur < limit.rlim_max {
                limit.rlim_cur = limit.rlim_max;
                libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
            }
        }
    });
}

/// Bytes that the file system of `path` has left for this process; `None` where it does not tell.
pub(crate) fn free_bytes(path: &Path) -> Option<u64> {
    let path = CString::new(path.as_os_str().as_bytes()).ok()?;
    let mut stat = std::mem::MaybeUninit::<libc::statvfs>::zeroed();
    // SAFETY: the call gets a string that ends in zero and a pointer to memory for the structure, and both outlive it; all
    // zeros are a valid value of the structure.
    let stat = unsafe {
        if libc::statvfs(path.as_ptr(), stat.as_mut_ptr()) != 0 {
            return None;
        }
        stat.assume_init()
    };
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}
