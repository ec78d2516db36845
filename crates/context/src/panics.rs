//! Panics of libraries that read what others wrote: caught where they read, so that a damaged file is an error.
//!
//! This is the last net. What would end the process (sizes that no system has memory for, nesting that no stack holds) is
//! checked before a reader sees it.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

use forebay_base::{Error, Result};

thread_local! {
    static IS_CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// The result of `work`, or an error where it panicked. Whatever it changed must not be used after that.
///
/// # Errors
/// Of kind `Input`, without the place.
pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T> {
    let outer = IS_CAUGHT.replace(true);
    let result = catch_unwind(AssertUnwindSafe(work));
    IS_CAUGHT.set(outer);
    result.map_err(|_| {
        Error::input("the content contradicts itself").hint("The file is damaged, or was written by a faulty program")
    })
}

/// As [`caught`], for work that waits.
///
/// # Errors
/// As [`caught`].
pub async fn caught_waiting<T>(work: impl Future<Output = T>) -> Result<T> {
    let mut work = pin!(work);
    std::future::poll_fn(|context| match caught(|| work.as_mut().poll(context)) {
        Ok(Poll::Ready(value)) => Poll::Ready(Ok(value)),
        Ok(Poll::Pending) => Poll::Pending,
        Err(error) => Poll::Ready(Err(error)),
    })
    .await
}

/// Has the process write nothing about panics that are caught here: they are errors, which somebody reads anyhow.
pub fn hide_caught() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !IS_CAUGHT.get() {
            before(panic);
        }
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_and_the_next_work_is_done() {
        hide_caught();
        assert!(caught(|| Vec::<u8>::new()[std::hint::black_box(1)]).is_err());
        assert_eq!(caught(|| 7).expect("no panic"), 7);
        assert!(!IS_CAUGHT.get());
    }
}
