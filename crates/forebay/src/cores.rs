//! The cores that threads run on: those of a database's workers are the cores of whoever opened it, so that a program can keep some for
//! transactions and others for queries (H2TAP §4.2).
//!
//! Must not know: what threads do.

use forebay_base::{Error, Result};
use nix::errno::Errno;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

const THIS_THREAD: Pid = Pid::from_raw(0);

/// Some cores of the machine.
#[derive(Debug, Clone)]
pub struct Cores(CpuSet);

impl Cores {
    /// Those that this thread may run on; without restrictions, all of the machine.
    ///
    /// # Errors
    /// `Io` where the system does not tell, or has more than 1,024 cores.
    pub fn of_thread() -> Result<Self> {
        sched_getaffinity(THIS_THREAD).map(Self).map_err(|error| failed("ask for the cores of a thread", error))
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.numbers().count()
    }

    /// The first ones of them, so many, and the others.
    ///
    /// # Errors
    /// `Input` where either would be none.
    pub fn split(&self, first: usize) -> Result<(Self, Self)> {
        let all: Vec<usize> = self.numbers().collect();
        if first == 0 || first >= all.len() {
            let message = format!("{first} of {} cores for one side leave none for one of two", all.len());
            return Err(Error::input(message).hint("Use another number, or leave the cores to the operating system"));
        }
        let (first, others) = all.split_at(first);
        Ok((Self::of(first)?, Self::of(others)?))
    }

    /// Confines this thread to them, and the threads that it starts from now on.
    ///
    /// # Errors
    /// `Io` where the system refuses.
    pub fn confine_thread(&self) -> Result<()> {
        sched_setaffinity(THIS_THREAD, &self.0).map_err(|error| failed("confine a thread to cores", error))
    }

    fn of(numbers: &[usize]) -> Result<Self> {
        let mut set = CpuSet::new();
        let all = numbers.iter().try_for_each(|number| set.set(*number));
        all.map(|()| Self(set)).map_err(|error| failed("name a core", error))
    }

    fn numbers(&self) -> impl Iterator<Item = usize> {
        (0..CpuSet::count()).filter(|number| self.0.is_set(*number).unwrap_or(false))
    }
}

fn failed(operation: &str, error: Errno) -> Error {
    Error::io(operation, &error.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_split_and_threads_stay_on_them() {
        let all = Cores::of_thread().expect("the system tells");
        assert!(all.count() >= std::thread::available_parallelism().expect("a number").get());
        assert!(all.split(0).is_err() && all.split(all.count()).is_err());
        let Ok((one, others)) = all.split(1) else { return assert_eq!(all.count(), 1) };
        assert_eq!((one.count(), others.count()), (1, all.count() - 1));
        let confined = move || {
            one.confine_thread().expect("allowed");
            std::thread::spawn(|| Cores::of_thread().expect("the system tells").count()).join().expect("no panic")
        };
        assert_eq!(std::thread::spawn(confined).join().expect("no panic"), 1);
    }
}
