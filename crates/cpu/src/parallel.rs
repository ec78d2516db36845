//! Work over several threads: items are taken one after the other, results keep their order.

use std::sync::Mutex;

use crate::pool;

/// What `work` makes of `items`, on at most `threads` threads. A panic of one is a panic of all.
pub(crate) fn map<T: Send, R: Send>(threads: usize, items: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let threads = threads.min(items.len());
    if threads <= 1 {
        return items.into_iter().map(work).collect();
    }
    let queue = Mutex::new(items.into_iter().enumerate());
    let take = || queue.lock().expect("taking an item does not panic").next();
    let run = || std::iter::from_fn(take).map(|(number, item)| (number, work(item))).collect::<Vec<_>>();
    let results = pool::run(threads, run).into_iter();
    let results = results.flat_map(|result| result.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
    let mut results: Vec<(usize, R)> = results.collect();
    results.sort_by_key(|(number, _)| *number);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_keep_their_order() {
        for threads in [1, 2, 7] {
            let squares = map(threads, (0..1000u64).collect(), |number| number * number);
            assert_eq!(squares, (0..1000).map(|number| number * number).collect::<Vec<_>>());
        }
        assert_eq!(map(4, Vec::<u8>::new(), |number| number), [0u8; 0]);
    }
}
