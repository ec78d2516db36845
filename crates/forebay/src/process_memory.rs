//! What the process has of memory, for a database that has the process for itself.
//!
//! Invariant: the watching thread ends with its database. Must not know: what is made of it.

use std::thread;
use std::time::Duration;

use forebay_engine::ProcessCounter;

/// How often memory is looked at while it changes, and while it does not.
const LOOK: Duration = Duration::from_millis(20);
const IDLE_LOOK: Duration = Duration::from_millis(200);

/// Looks that find the same before it is taken to be idle.
const SAME_LOOKS: u32 = 50;

/// A change that is none.
const CHANGE_BYTES: u64 = 1 << 20;

/// Anonymous memory of this process that is resident: all but files that are mapped, as the program itself. 0 where the system does
/// not say.
pub fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("RssAnon:"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).map_or(0, |kib| kib * 1024)
}

/// Tells the database what the process has, at once and as long as there is one.
pub(crate) fn watch(counter: ProcessCounter) {
    let count = move |bytes: u64| counter.count(usize::try_from(bytes).unwrap_or(usize::MAX));
    if !count(resident_bytes()) {
        return;
    }
    let look = move || {
        let (mut last_bytes, mut same_looks) = (0, 0_u32);
        loop {
            let bytes = resident_bytes();
            if !count(bytes) {
                return;
            }
            same_looks = if bytes.abs_diff(last_bytes) < CHANGE_BYTES { same_looks.saturating_add(1) } else { 0 };
            if same_looks == 0 {
                last_bytes = bytes;
            }
            thread::sleep(if same_looks > SAME_LOOKS { IDLE_LOOK } else { LOOK });
        }
    };
    // Where there can be no thread, nothing more is measured.
    let _ = thread::Builder::new().name("process memory".to_owned()).spawn(look);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_seen() {
        let before = resident_bytes();
        let bytes = 64 << 20;
        let filled = std::hint::black_box(vec![1_u8; bytes]);
        let seen = resident_bytes().saturating_sub(before);
        // Other tests of the process may give some back meanwhile.
        assert!(seen > bytes as u64 / 2, "{seen} with {}", filled.len());
    }
}
