//! What threads meet at. Tests of interleavings (`tests/interleavings`) have these from `shuttle`, which decides who goes on at each of them.
#![allow(unexpected_cfgs)]

#[cfg(not(interleavings))]
pub(crate) use std::sync::{
    Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard,
    atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
};

#[cfg(interleavings)]
pub(crate) use shuttle::sync::{
    Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard,
    atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
};
