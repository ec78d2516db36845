//! Reads on their way, whatever disk serves them.
//!
//! Invariant: buffers come back in the order of the requests, all of them filled, or an error comes instead.
//! Must not know: how reads are served.

use std::fmt;

use forebay_base::Result;

use crate::ReadRequest;

/// How reads reach the drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ReadPath {
    /// Past the page cache where the file system allows it.
    #[default]
    Direct,
    /// Through the page cache, for people who rely on it.
    PageCache,
}

/// Reads on their way ([`crate::DiskFile::submit_reads`]).
///
/// To drop it early is always safe. What has not reached the drive is then not read, what has is waited for, some
/// milliseconds at most with a sound drive, and the buffers go back to their pool.
#[must_use = "reads that nobody waits for are given up"]
pub struct ReadTicket {
    pending: Box<dyn PendingReads>,
}

impl ReadTicket {
    pub(crate) fn new(pending: Box<dyn PendingReads>) -> Self {
        Self { pending }
    }

    /// For disks that serve reads at submission: `outcome` is what [`ReadTicket::wait`] returns.
    pub fn served(outcome: Result<Vec<ReadRequest>>) -> Self {
        Self::new(Box::new(Served(outcome)))
    }

    /// Whether waiting would return at once. Never blocks; what the drive has done for others may be noted by the way.
    ///
    /// After a short read or an error of the ring, waiting reads the missing part once more.
    pub fn is_done(&self) -> bool {
        self.pending.is_done()
    }

    /// Waits for all of them; the filled buffers in the order of the requests. What has not reached the drive then comes before reads that
    /// nobody waits for.
    ///
    /// # Errors
    /// As [`crate::DiskFile::read_direct`]. The buffers have then gone back to their pool.
    pub fn wait(self) -> Result<Vec<ReadRequest>> {
        self.pending.wait()
    }
}

impl fmt::Debug for ReadTicket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadTicket").finish_non_exhaustive()
    }
}

/// What a disk has to say of reads on their way. Dropping it gives them up.
pub(crate) trait PendingReads: Send + Sync {
    fn is_done(&self) -> bool;

    fn wait(self: Box<Self>) -> Result<Vec<ReadRequest>>;
}

struct Served(Result<Vec<ReadRequest>>);

impl PendingReads for Served {
    fn is_done(&self) -> bool {
        true
    }

    fn wait(self: Box<Self>) -> Result<Vec<ReadRequest>> {
        self.0
    }
}
