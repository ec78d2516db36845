//! Computations of a row, item by item. What can fail does so only where its item counts.

use forebay_base::Result;
use forebay_pipeline::ir::{Arithmetic, Comparison, Compute, Constant, Op, Register, ValueType};

use super::{Emitter, date_part_name, type_name, unsupported};

/// Constants that `in` compares with, one by one.
const LIST_LIMIT: usize = 64;

impl Emitter<'_> {
    /// One computation, for the items of `pass`.
    pub(super) fn compute(&mut self, compute: &Compute, pass: &str) -> Result<()> {
        self.computes = true;
        let operands = compute.op.operands();
        self.need(&operands)?;
        self.need(compute.guard.as_slice())?;
        type_name(compute.typed.value)?;
        for register in &operands {
            type_name(self.typed(*register).value)?;
        }
        if compute.typed.nullable {
            let nulls = self.nulls_of(&compute.op);
            self.line(format!("Mask n{} = {nulls};", compute.to.0));
        }
        let live = match compute.guard {
            Some(guard) => format!("({pass} & {})", self.truth(guard)),
            None => pass.to_owned(),
        };
        let live = self.live(&live, &operands);
        if compute.typed.value == ValueType::Bool {
            let mask = self.bool_of(&compute.op)?;
            let to = compute.to;
            match compute.guard {
                Some(guard) => {
                    let truth = self.truth(guard);
                    self.line(format!("Mask {to} = ({mask}) & {truth};"));
                }
                None => self.line(format!("Mask {to} = {mask};")),
            }
            return Ok(());
        }
        self.number_of(compute, &live)
    }

    fn nulls_of(&self, op: &Op) -> String {
        match op {
            Op::Constant(Constant::Null) => "ALL_ITEMS".to_owned(),
            Op::And(a, b) => {
                let (na, nb) = (self.nulls(*a), self.nulls(*b));
                // NULL unless one is false.
                format!("({na} | {nb}) & ~(~{a} & ~{na}) & ~(~{b} & ~{nb})")
            }
            Op::Or(a, b) => {
                let (na, nb) = (self.nulls(*a), self.nulls(*b));
                format!("({na} | {nb}) & ~({a} & ~{na}) & ~({b} & ~{nb})")
            }
            Op::IsNull(_) => "0".to_owned(),
            Op::Select { condition, then, otherwise } => {
                let truth = self.truth(*condition);
                format!("({truth} & {}) | (~{truth} & {})", self.nulls(*then), self.nulls(*otherwise))
            }
            Op::Coalesce(a, b) => format!("{} & {}", self.nulls(*a), self.nulls(*b)),
            op => self.any_null(&op.operands()),
        }
    }

    /// The mask that an operation with a Bool as its result gives. Where it is NULL, anything.
    fn bool_of(&mut self, op: &Op) -> Result<String> {
        Ok(match op {
            Op::Constant(Constant::Bool(true)) => "ALL_ITEMS".to_owned(),
            Op::Constant(_) => "0".to_owned(),
            Op::Compare(comparison, a, b) if self.typed(*a).value == ValueType::Bool => truths(*comparison, *a, *b),
            Op::Compare(comparison, a, b) => {
                let sign = sign(*comparison);
                self.item_mask(&format!("order_key({a}[i]) {sign} order_key({b}[i])"))
            }
            Op::And(a, b) => format!("{} & {}", self.truth(*a), self.truth(*b)),
            Op::Or(a, b) => format!("{} | {}", self.truth(*a), self.truth(*b)),
            Op::Not(a) => format!("~{a}"),
            Op::IsNull(a) => self.nulls(*a),
            Op::Select { condition, then, otherwise } => {
                let truth = self.truth(*condition);
                format!("({truth} & {then}) | (~{truth} & {otherwise})")
            }
            Op::Coalesce(a, b) => {
                let nulls = self.nulls(*a);
                format!("({a} & ~{nulls}) | ({b} & {nulls})")
            }
            Op::In { value, list } => self.is_in(*value, list)?,
            Op::Convert(a) => a.to_string(),
            _ => return Err(unsupported("text is computed with")),
        })
    }

    /// Collects a truth of each item in a mask, whose name it gives.
    fn item_mask(&mut self, condition: &str) -> String {
        let mask = self.mask();
        self.line(format!("Mask {mask} = 0;"));
        self.line(format!("FOR_ITEMS {mask} |= (Mask)({condition}) << i;"));
        mask
    }

    fn is_in(&mut self, value: Register, list: &[Constant]) -> Result<String> {
        let typed = self.typed(value);
        if list.len() > LIST_LIMIT {
            return Err(unsupported(format!("a list of {} values, more than {LIST_LIMIT}", list.len())));
        }
        if typed.value == ValueType::Bool {
            let own = |constant: &Constant| {
                if *constant == Constant::Bool(true) { format!("{value}") } else { format!("~{value}") }
            };
            let masks: Vec<String> = list.iter().map(own).collect();
            return Ok(if masks.is_empty() { "0".to_owned() } else { masks.join(" | ") });
        }
        let equal = |constant: &Constant| {
            literal(constant, typed.value).map(|text| format!("order_key({value}[i]) == order_key({text})"))
        };
        let conditions = list.iter().map(equal).collect::<Result<Vec<String>>>()?;
        if conditions.is_empty() {
            return Ok("0".to_owned());
        }
        Ok(self.item_mask(&conditions.join(" || ")))
    }

    /// An operation with a number as its result.
    fn number_of(&mut self, compute: &Compute, live: &str) -> Result<()> {
        let (to, value) = (compute.to, compute.typed.value);
        self.declare(to)?;
        let checked = |name: &str, operands: &[Register]| {
            let list: Vec<String> = operands.iter().map(|register| format!("{register}[i]")).collect();
            format!("{name}({}, fault)", list.join(", "))
        };
        let is_integer = value != ValueType::F64;
        let (text, can_fail) = match &compute.op {
            Op::Constant(constant) => (literal(constant, value)?, false),
            Op::Arithmetic(arithmetic, a, b) => {
                let (name, divides) = arithmetic_name(*arithmetic);
                // Even with a proven range, division by zero must be checked.
                match is_integer && (divides || !compute.fits) {
                    true => (checked(name, &[*a, *b]), true),
                    false => (format!("{name}({a}[i], {b}[i])"), false),
                }
            }
            Op::Negate(a) if is_integer && !compute.fits => (checked("negate", &[*a]), true),
            Op::Negate(a) => (format!("negate({a}[i])"), false),
            Op::Select { condition, then, otherwise } => {
                let truth = self.truth(*condition);
                (format!("is_set({truth}, i) ? {then}[i] : {otherwise}[i]"), false)
            }
            Op::Coalesce(a, b) => {
                let nulls = self.nulls(*a);
                (format!("is_set({nulls}, i) ? {b}[i] : {a}[i]"), false)
            }
            Op::Convert(a) => match (self.typed(*a).value, value) {
                (ValueType::Bool, _) => (format!("is_set({a}, i) ? 1 : 0"), false),
                (ValueType::I128, ValueType::I64) => (checked("narrow", &[*a]), true),
                (ValueType::I64 | ValueType::I128, ValueType::F64) => (format!("to_float({a}[i])"), false),
                _ => (format!("{a}[i]"), false),
            },
            Op::DatePart(part, a) => (format!("date_part({}, {a}[i])", date_part_name(*part)), false),
            _ => return Err(unsupported("text is computed with")),
        };
        if !can_fail {
            self.line(format!("FOR_ITEMS {to}[i] = {text};"));
            return Ok(());
        }
        self.line("FOR_ITEMS {");
        self.line("    u32 fault = 0;");
        self.line(format!("    {to}[i] = {text};"));
        self.line(format!("    if (is_set({live}, i)) faults |= fault;"));
        self.line("}");
        Ok(())
    }
}

fn arithmetic_name(arithmetic: Arithmetic) -> (&'static str, bool) {
    match arithmetic {
        Arithmetic::Add => ("add", false),
        Arithmetic::Subtract => ("subtract", false),
        Arithmetic::Multiply => ("multiply", false),
        Arithmetic::Divide => ("divide", true),
        Arithmetic::Remainder => ("remainder_of", true),
        Arithmetic::DivideRounded => ("divide_rounded", true),
    }
}

fn sign(comparison: Comparison) -> &'static str {
    match comparison {
        Comparison::Equal => "==",
        Comparison::NotEqual => "!=",
        Comparison::Less => "<",
        Comparison::LessOrEqual => "<=",
        Comparison::Greater => ">",
        Comparison::GreaterOrEqual => ">=",
    }
}

/// Comparisons of masks; false is below true.
fn truths(comparison: Comparison, a: Register, b: Register) -> String {
    match comparison {
        Comparison::Equal => format!("~({a} ^ {b})"),
        Comparison::NotEqual => format!("{a} ^ {b}"),
        Comparison::Less => format!("~{a} & {b}"),
        Comparison::LessOrEqual => format!("~{a} | {b}"),
        Comparison::Greater => format!("{a} & ~{b}"),
        Comparison::GreaterOrEqual => format!("{a} | ~{b}"),
    }
}

/// A constant as C++ has it.
fn literal(constant: &Constant, value: ValueType) -> Result<String> {
    let small = |number: i64| match number {
        i64::MIN => "(-9223372036854775807ll - 1)".to_owned(),
        _ => format!("{number}ll"),
    };
    Ok(match (constant, value) {
        (Constant::Null, ValueType::I64 | ValueType::I128 | ValueType::F64) => "0".to_owned(),
        (Constant::Int(number), ValueType::I64) => small(*number as i64),
        (Constant::Int(number), ValueType::I128) => match i64::try_from(*number) {
            Ok(number) => format!("(i128){}", small(number)),
            Err(_) => {
                format!("(i128)(((u128){:#x}ull << 64) | {:#x}ull)", (*number >> 64) as u64, *number as u64)
            }
        },
        (Constant::Float(number), ValueType::F64) => {
            let number = forebay_base::canonical_f64(*number);
            match number.is_finite() {
                true => format!("{number:?}"),
                false => format!("__longlong_as_double((i64){:#x}ull)", number.to_bits()),
            }
        }
        _ => return Err(unsupported("text is computed with")),
    })
}
