//! The ways in which a program can fail because of its rows.
//!
//! Invariants: every such error of every execution is made here, so that all of them say the same.

use forebay_base::{Error, ErrorKind};

/// Why a program failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// A result does not fit its type.
    Overflow,
    /// An integer was divided by zero.
    DivisionByZero,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Overflow, Self::DivisionByZero];

    /// What compiled code returns for it; 0 is no fault.
    pub const fn code(self) -> u64 {
        match self {
            Self::Overflow => 1,
            Self::DivisionByZero => 2,
        }
    }

    /// Inverse of [`Fault::code`].
    pub fn from_code(code: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|fault| fault.code() == code)
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Overflow => Self::new(ErrorKind::Overflow, "overflow: a result does not fit its type")
                .hint("Cast an operand to a wider type"),
            Fault::DivisionByZero => Self::new(ErrorKind::Input, "division by zero"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_come_back() {
        for fault in Fault::ALL {
            assert_eq!(Fault::from_code(fault.code()), Some(fault));
        }
        assert_eq!(Fault::from_code(0), None);
    }
}
