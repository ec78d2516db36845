//! When commits are acknowledged.

use std::time::Duration;

/// When a commit is acknowledged. Whatever is chosen, commits survive the end of the process once they are acknowledged, and what a power
/// loss leaves is all commits up to one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// When it is on the drive.
    #[default]
    Full,
    /// When the operating system has it; it is on the drive after this time, unless the power is lost before.
    Within(Duration),
    /// When the operating system has it. It is on the drive with the next commit that is acknowledged there, with the next checkpoint, or
    /// when the database is closed.
    Off,
}
