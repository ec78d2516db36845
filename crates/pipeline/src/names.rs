//! The words of the text form: one table for the printer and the parser.

use forebay_base::PhysicalType;

use crate::ir::{AggregateFunction, Arithmetic, Comparison, DatePart, ValueType};

/// An enum whose variants have names.
pub(crate) trait Named: Copy + PartialEq + 'static {
    /// All variants with their names.
    const NAMES: &'static [(Self, &'static str)];

    /// The variant's name.
    fn name(self) -> &'static str {
        let entry = Self::NAMES.iter().find(|(variant, _)| *variant == self);
        entry.expect("every variant has a name").1
    }

    /// The variant with this name.
    fn from_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(_, known)| *known == name).map(|(variant, _)| *variant)
    }
}

macro_rules! names {
    ($($named:ident { $($variant:ident $name:literal),* $(,)? })*) => {$(
        impl Named for $named {
            const NAMES: &'static [(Self, &'static str)] = &[$((Self::$variant, $name)),*];
        }

        // A variant without a name does not compile.
        const _: fn($named) = |named| match named {
            $($named::$variant => {})*
        };
    )*};
}

names! {
    ValueType { Bool "bool", I64 "i64", I128 "i128", F64 "f64", Bytes "bytes" }
    PhysicalType {
        I8 "i8", I16 "i16", I32 "i32", I64 "i64", I128 "i128", U8 "u8", U16 "u16", U32 "u32", U64 "u64",
        F32 "f32", F64 "f64", Bytes "bytes",
    }
    Arithmetic {
        Add "add", Subtract "sub", Multiply "mul", Divide "div", Remainder "rem", DivideRounded "div_rounded",
    }
    Comparison { Equal "eq", NotEqual "ne", Less "lt", LessOrEqual "le", Greater "gt", GreaterOrEqual "ge" }
    DatePart { Year "year", Month "month", Day "day" }
    AggregateFunction {
        CountRows "rows", Count "count", Sum "sum", SumWide "sum_wide", SumFitting "sum_fitting",
        Min "min", Max "max", First "first",
    }
}
