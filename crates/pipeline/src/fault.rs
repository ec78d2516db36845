//! The ways in which a program can fail because of its rows.
//!
//! Invariants: every such error of every execution is made here, so that all of them say the same.

use forebay_base::{Error, ErrorKind};

use crate::ir::{Arithmetic, Compute, Op, ValueType};

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

impl Compute {
    /// Whether some operands make it fail.
    pub fn can_fail(&self) -> bool {
        use Arithmetic::{Divide, DivideRounded, Remainder};
        let is_integer = matches!(self.typed.value, ValueType::I64 | ValueType::I128);
        match self.op {
            // Even with a proven range, division by zero must be checked.
            Op::Arithmetic(Divide | Remainder | DivideRounded, ..) => is_integer,
            Op::Arithmetic(..) | Op::Negate(_) => is_integer && !self.fits,
            Op::Convert(_) => match self.typed.value {
                // Only 0 and 1 are truth values.
                ValueType::Bool => true,
                ValueType::I64 => !self.fits,
                _ => false,
            },
            _ => false,
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
