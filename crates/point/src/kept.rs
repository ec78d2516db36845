//! What is known of a prepared statement as a program, from run to run.
//!
//! Must not know: how a statement is recognized.

use std::sync::{Arc, Mutex, PoisonError};

use arrow::datatypes::DataType;

use crate::parameter_value::ParameterValue;
use crate::program::Program;

/// The last program of a statement, or that it is none.
#[derive(Debug, Default)]
pub struct KeptProgram(Mutex<Option<Arc<Known>>>);

/// What holds where schema, settings and types of values are these.
#[derive(Debug)]
pub struct Known {
    numbers: (u64, u64),
    types: Vec<DataType>,
    program: Option<Program>,
}

impl Known {
    /// The program; `None` where the statement has to be planned.
    pub fn program(&self) -> Option<&Program> {
        self.program.as_ref()
    }
}

impl KeptProgram {
    /// What is known where schema and settings have these numbers and values are of these types; else what `recognize` finds for the types, from
    /// now on.
    pub fn find(
        &self,
        numbers: (u64, u64),
        values: &[&ParameterValue],
        recognize: impl FnOnce(&[DataType]) -> Option<Program>,
    ) -> Arc<Known> {
        let types = || values.iter().map(|value| value.data_type());
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let has_types = |known: &Known| {
            known.types.len() == values.len() && known.types.iter().zip(types()).all(|(known, own)| *known == own)
        };
        if let Some(known) = last.filter(|known| known.numbers == numbers && has_types(known)) {
            return known;
        }
        let types: Vec<DataType> = types().collect();
        let program = recognize(&types);
        let known = Arc::new(Known { numbers, types, program });
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&known));
        known
    }

    /// Whether there is a program.
    pub fn is_program(&self) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.as_ref().is_some_and(|known| known.program.is_some())
    }
}
