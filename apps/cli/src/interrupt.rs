//! What ^C does: it cancels the running statement; a second one, or one while nothing runs, ends a program that is not
//! at its prompt.
//!
//! Invariants: one handler per process. Must not know: what a statement does.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay::{Canceller, Error, Result};

/// Exit status of a program that ^C ended, as shells count it.
pub(crate) const EXIT_STATUS: i32 = 130;

/// The handler's view of what runs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Interrupt(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    interactive: bool,
    running: Option<Canceller>,
    pressed: bool,
}

impl Interrupt {
    /// Takes over ^C for the whole process.
    pub(crate) fn install(interactive: bool) -> Result<Self> {
        let interrupt = Self(Arc::new(Mutex::new(State { interactive, ..State::default() })));
        let handler = interrupt.clone();
        ctrlc::set_handler(move || handler.press())
            .map_err(|error| Error::internal(format!("cannot handle interrupts: {error}")))?;
        Ok(interrupt)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn press(&self) {
        let mut state = self.state();
        let again = std::mem::replace(&mut state.pressed, true);
        match &state.running {
            Some(canceller) if state.interactive || !again => canceller.cancel(),
            _ if state.interactive => {}
            _ => std::process::exit(EXIT_STATUS),
        }
    }

    /// From now on ^C cancels through `canceller`, until the result is dropped.
    pub(crate) fn watch(&self, canceller: Canceller) -> Watch<'_> {
        let mut state = self.state();
        state.pressed = false;
        state.running = Some(canceller);
        Watch(self)
    }
}

/// While it lives, ^C cancels a statement.
#[derive(Debug)]
pub(crate) struct Watch<'a>(&'a Interrupt);

impl Watch<'_> {
    /// Whether ^C came.
    pub(crate) fn is_pressed(&self) -> bool {
        self.0.state().pressed
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.0.state().running = None;
    }
}
