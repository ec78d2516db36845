//! Operations on the registers of one row.

use forebay_base::{Error, Result};

use crate::ir::*;
use crate::semantics::{
    and, arithmetic_f64, arithmetic_i64, arithmetic_i128, date_part, holds, length, narrow, negate_f64, negate_i64,
    negate_i128, or, substring,
};
use crate::{Fault, LikePattern, Scalar};

/// The registers of one row. A register without a value is undefined: nothing wrote it, or its guard was not true.
#[derive(Default)]
pub(super) struct Registers(Vec<Option<Scalar>>);

/// A value that a row depends on is not defined.
pub(super) fn undefined(register: Register) -> Error {
    Error::internal(format!("{register} is used where its guard is not true"))
}

impl Registers {
    /// Forgets a row.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Writes a register; `None` leaves it undefined.
    pub(super) fn set(&mut self, register: Register, typed: Typed, value: Option<Scalar>) -> Result<()> {
        if let Some(value) = value.as_ref().filter(|value| !value.is_of(typed)) {
            return Err(Error::internal(format!("{register}: {typed} holds {value}")));
        }
        let at = register.0 as usize;
        if self.0.len() <= at {
            self.0.resize(at + 1, None);
        }
        self.0[at] = value;
        Ok(())
    }

    /// What a register holds, if it is defined.
    pub(super) fn get(&self, register: Register) -> Result<&Option<Scalar>> {
        self.0.get(register.0 as usize).ok_or_else(|| Error::internal(format!("{register} was never written")))
    }

    /// The values of registers that must be defined.
    pub(super) fn values(&self, registers: &[Register]) -> Result<Vec<Scalar>> {
        registers.iter().map(|register| self.get(*register)?.clone().ok_or_else(|| undefined(*register))).collect()
    }

    /// Whether a register that must be defined is true; NULL is not.
    pub(super) fn is_true(&self, register: Register) -> Result<bool> {
        let value = self.get(register)?.as_ref().ok_or_else(|| undefined(register))?;
        Ok(boolean(value)? == Some(true))
    }

    /// Does an operation where its guard is true, and leaves the result undefined elsewhere.
    pub(super) fn compute(&mut self, compute: &Compute) -> Result<()> {
        let guard = match compute.guard {
            Some(guard) => self.get(guard)?.as_ref().map(boolean).transpose()?.flatten(),
            None => Some(true),
        };
        let value = if guard == Some(true) { self.evaluate(compute)? } else { None };
        self.set(compute.to, compute.typed, value)
    }

    fn evaluate(&self, compute: &Compute) -> Result<Option<Scalar>> {
        // These are defined though an operand may be not.
        match &compute.op {
            Op::Select { condition, then, otherwise } => {
                let Some(condition) = self.get(*condition)? else { return Ok(None) };
                let taken = if boolean(condition)? == Some(true) { then } else { otherwise };
                return self.get(*taken).cloned();
            }
            Op::Coalesce(a, b) => {
                return Ok(match self.get(*a)? {
                    Some(Scalar::Null) => self.get(*b)?.clone(),
                    value => value.clone(),
                });
            }
            Op::And(a, b) => return self.logic(*a, *b, false, and),
            Op::Or(a, b) => return self.logic(*a, *b, true, or),
            _ => {}
        }
        let operands = compute.op.operands();
        let defined: Option<Vec<Scalar>> =
            operands.iter().map(|register| self.get(*register).cloned()).collect::<Result<_>>()?;
        let Some(values) = defined else {
            // Garbage is harmless where nothing reads the result, unless the operation fails on it.
            let outcome = Err(Error::internal(format!("an operand is undefined: {compute}")));
            return if compute.can_fail() { outcome } else { Ok(None) };
        };
        match apply(&compute.op, compute.typed.value, &values)? {
            Ok(value) => Ok(Some(value)),
            Err(Fault::Overflow) if compute.fits => {
                Err(Error::internal(format!("the result was said to fit, but does not: {compute}")))
            }
            Err(fault) => Err(fault.into()),
        }
    }

    /// An operand that is `decisive` decides, also beside one that is undefined.
    fn logic(
        &self,
        a: Register,
        b: Register,
        decisive: bool,
        function: fn(Option<bool>, Option<bool>) -> Option<bool>,
    ) -> Result<Option<Scalar>> {
        let (a, b) = (self.get(a)?, self.get(b)?);
        Ok(match (a, b) {
            (Some(a), Some(b)) => Some(function(boolean(a)?, boolean(b)?).map_or(Scalar::Null, Scalar::Bool)),
            (Some(Scalar::Bool(known)), None) | (None, Some(Scalar::Bool(known))) if *known == decisive => {
                Some(Scalar::Bool(decisive))
            }
            _ => None,
        })
    }
}

fn boolean(value: &Scalar) -> Result<Option<bool>> {
    match value {
        Scalar::Bool(value) => Ok(Some(*value)),
        Scalar::Null => Ok(None),
        other => Err(Error::internal(format!("{other} is no Bool"))),
    }
}

/// The outcome of an operation on operands that fit it.
type Outcome = std::result::Result<Scalar, Fault>;

/// Does an operation on defined values.
fn apply(op: &Op, to: ValueType, values: &[Scalar]) -> Result<Outcome> {
    if let Op::IsNull(_) = op {
        return Ok(Ok(Scalar::Bool(values[0].is_null())));
    }
    if values.iter().any(Scalar::is_null) {
        return Ok(Ok(Scalar::Null));
    }
    let outcome = match (op, values) {
        (Op::Constant(constant), []) => Scalar::of_constant(constant, to).map(Ok),
        (Op::Arithmetic(arithmetic, ..), [a, b]) => apply_arithmetic(*arithmetic, a, b),
        (Op::Negate(_), [value]) => match value {
            Scalar::I64(value) => Some(negate_i64(*value).map(Scalar::I64)),
            Scalar::I128(value) => Some(negate_i128(*value).map(Scalar::I128)),
            Scalar::F64(value) => Some(Ok(Scalar::F64(negate_f64(*value)))),
            _ => None,
        },
        (Op::Compare(comparison, ..), [a, b]) => Some(Ok(Scalar::Bool(holds(*comparison, a.cmp(b))))),
        (Op::Not(_), [Scalar::Bool(value)]) => Some(Ok(Scalar::Bool(!value))),
        (Op::Convert(_), [value]) => convert(value, to),
        (Op::DatePart(part, _), [Scalar::I64(days)]) => Some(Ok(Scalar::I64(date_part(*part, *days)))),
        (Op::Like { pattern, .. }, [Scalar::Bytes(text)]) => {
            Some(Ok(Scalar::Bool(LikePattern::new(pattern).matches(text))))
        }
        (Op::In { list, .. }, [value]) => {
            let is_found = list.iter().any(|constant| {
                Scalar::of_constant(constant, value.value_type().unwrap_or(to)).is_some_and(|found| found == *value)
            });
            Some(Ok(Scalar::Bool(is_found)))
        }
        (Op::Length(_), [Scalar::Bytes(text)]) => Some(Ok(Scalar::I64(length(text)))),
        (Op::Substring { start, length, .. }, [Scalar::Bytes(text)]) => {
            Some(Ok(Scalar::bytes(substring(text, *start, *length))))
        }
        _ => None,
    };
    outcome.ok_or_else(|| Error::internal(format!("{op} cannot be done on {values:?}")))
}

fn apply_arithmetic(arithmetic: Arithmetic, a: &Scalar, b: &Scalar) -> Option<Outcome> {
    Some(match (a, b) {
        (Scalar::I64(a), Scalar::I64(b)) => arithmetic_i64(arithmetic, *a, *b).map(Scalar::I64),
        (Scalar::I128(a), Scalar::I128(b)) => arithmetic_i128(arithmetic, *a, *b).map(Scalar::I128),
        (Scalar::F64(a), Scalar::F64(b)) => Ok(Scalar::F64(arithmetic_f64(arithmetic, *a, *b))),
        _ => return None,
    })
}

fn convert(value: &Scalar, to: ValueType) -> Option<Outcome> {
    let integer = match value {
        Scalar::Bool(value) => i128::from(*value),
        Scalar::I64(value) => i128::from(*value),
        Scalar::I128(value) => *value,
        Scalar::F64(_) if to == ValueType::F64 => return Some(Ok(value.clone())),
        _ => return None,
    };
    match to {
        ValueType::I64 => Some(narrow(integer).map(Scalar::I64)),
        ValueType::I128 => Some(Ok(Scalar::I128(integer))),
        ValueType::F64 => Some(Ok(Scalar::float(integer as f64))),
        ValueType::Bool | ValueType::Bytes => None,
    }
}
