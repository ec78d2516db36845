//! The program's memory: mimalloc, which keeps what is freed for the next query where there is enough.
//!
//! A page that the system hands out is cleared first, and on virtual machines fetched from the host: 0.1 to 0.5 ms a MiB,
//! more than most pipelines need to fill it. Queries that follow each other take the same amounts again and again.

use std::ffi::{c_int, c_long};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Runs before the program allocates anything: what the allocator takes first would be a huge page.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = before_main;

extern "C" fn before_main() {
    forebay::begin_without_huge_pages();
}

/// `mi_option_purge_delay` of mimalloc 3: milliseconds until free memory goes back to the system.
const PURGE_DELAY: c_int = 15;

/// Long enough that a session's next query finds the memory of the one before.
const KEEP_MS: c_long = 60_000;

// Linked with the allocator. They take any numbers, and may be called at any time by any thread.
unsafe extern "C" {
    #[cfg(test)]
    safe fn mi_option_get(option: c_int) -> c_long;
    safe fn mi_option_set_default(option: c_int, value: c_long);
}

/// A smaller budget has freed memory go back to the system at once: what nobody counts, such as plans and batches on their way, is
/// much beside it.
const LEAST_BYTES: u64 = 4 << 30;

/// Keeps freed memory for a while if the budget is not small, unless the environment (`MIMALLOC_PURGE_DELAY`) says how long.
pub(crate) fn keep_memory(budget_bytes: Option<u64>) {
    let is_small = budget_bytes.is_some_and(|bytes| bytes < LEAST_BYTES);
    mi_option_set_default(PURGE_DELAY, if is_small { 0 } else { KEEP_MS });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn purge_delay_is_the_option_that_it_is_taken_for() {
        // What mimalloc 3 begins with: another number here is another option.
        assert_eq!(mi_option_get(PURGE_DELAY), 1000);
        keep_memory(None);
        assert_eq!(mi_option_get(PURGE_DELAY), KEEP_MS);
        keep_memory(Some(1 << 30));
        assert_eq!(mi_option_get(PURGE_DELAY), 0);
    }
}
