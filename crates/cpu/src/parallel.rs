//! Work over several threads: items are taken one after the other, results keep their order.

use std::sync::Mutex;

/// What `work` makes of `items`, on at most `threads` threads. A panic of one is a panic of all.
pub(crate) fn map<T: Send, R: Send>(threads: usize, items: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let threads = threads.min(items.len());
    if threads <= 1 {
        return items.into_iter().map(work).collect();
    }
    let queue = Mutex::new(items.into_iter().enumerate());
    let take = || queue.lock().expect("taking an item does not panic").next();
    let run = || std::iter::from_fn(take).map(|(number, item)| (number, work(item))).collect::<Vec<_>>();
    let mut results: Vec<(usize, R)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (1..threads).map(|_| scope.spawn(run)).collect();
        let mut results = run();
        for worker in workers {
            results.extend(worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        results
    });
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
