//! Memory of a thread that decoding uses over and over.

use std::cell::RefCell;

use super::word::Word;

thread_local! {
    static SCRATCH: RefCell<[Vec<u64>; 2]> = const { RefCell::new([Vec::new(), Vec::new()]) };
}

/// Runs `work` with `count` values each of two types, of any content. Not to be called within itself.
pub(crate) fn with_two<A: Word, B: Word, R>(count: usize, work: impl FnOnce(&mut [A], &mut [B]) -> R) -> R {
    SCRATCH.with_borrow_mut(|[first, second]| work(values(first, count), values(second, count)))
}

fn values<T: Word>(memory: &mut Vec<u64>, count: usize) -> &mut [T] {
    let words = (count * size_of::<T>()).div_ceil(size_of::<u64>());
    if memory.len() < words {
        memory.resize(words, 0);
    }
    &mut bytemuck::cast_slice_mut(&mut memory[..words])[..count]
}
