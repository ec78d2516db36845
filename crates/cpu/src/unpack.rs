//! Unpacking the selected rows of a block by position (Data Blocks §3.4).

use forebay_block::{Access, Codes, EncodedBlock, Native, ValueRef, Values, validity};

use crate::Selection;

/// Appends the selected values to `out`; NULL rows give any value. `T` must be the block's physical type.
pub fn unpack_fixed<T: Native>(block: &EncodedBlock, selection: &Selection, out: &mut Vec<T>) {
    assert_eq!(T::PHYSICAL, block.physical(), "a block is unpacked as its own type");
    match block.access() {
        Access::AllNull => out.extend(std::iter::repeat_n(T::zeroed(), selection.len())),
        Access::Constant(value) => {
            let bits = match value {
                ValueRef::Int(value) => value,
                ValueRef::Float32(value) => value.bits(),
                ValueRef::Float64(value) => value.bits(),
                ValueRef::Bytes(_) => unreachable!("a fixed-width block has no string"),
            };
            let value = T::from_bits(bits).expect("parsing checked that the constant is of the block's type");
            out.extend(std::iter::repeat_n(value, selection.len()));
        }
        Access::FrameOfReference { base, codes } => {
            let base = T::from_bits(base).expect("parsing checked that the base is of the block's type");
            with_codes(codes, selection, FromFrame { base, out });
        }
        Access::Dictionary { values: Values::Fixed(values), codes } => {
            with_codes(codes, selection, FromDictionary { values: &values.natives(), out });
        }
        Access::Plain(Values::Fixed(values)) => match selection {
            Selection::Rows(rows) => {
                let start = out.len();
                out.resize(start + rows.len(), T::zeroed());
                let bytes = &values.bytes()[rows.start as usize * T::WIDTH..rows.end as usize * T::WIDTH];
                bytemuck::cast_slice_mut(&mut out[start..]).copy_from_slice(bytes);
            }
            Selection::Positions(positions) => {
                out.extend(positions.iter().map(|row| values.native::<T>(usize::from(*row))));
            }
        },
        Access::Dictionary { values: Values::Strings(_), .. } | Access::Plain(Values::Strings(_)) => {
            unreachable!("a fixed-width block has no strings")
        }
    }
}

/// Appends the dictionary codes of the selected rows to `out`. The block must be a dictionary block.
pub fn unpack_codes(block: &EncodedBlock, selection: &Selection, out: &mut Vec<u32>) {
    let Access::Dictionary { codes, .. } = block.access() else {
        panic!("codes are unpacked from dictionary blocks, not from {:?}", block.encoding());
    };
    with_codes(codes, selection, FromFrame { base: 0u32, out });
}

/// Bitmap of the selected rows' validity, least significant bit first, 1 = valid; `None` where the block has no NULL.
pub fn unpack_validity(block: &EncodedBlock, selection: &Selection) -> Option<Vec<u8>> {
    if block.null_count() == 0 {
        return None;
    }
    let selected = selection.len();
    let mut out = Vec::with_capacity(selected.div_ceil(64) * 8);
    if let Some(bitmap) = block.validity() {
        match selection {
            Selection::Rows(rows) => {
                for row in rows.clone().step_by(64) {
                    out.extend_from_slice(&validity::word(bitmap, row as usize).to_le_bytes());
                }
            }
            Selection::Positions(positions) => {
                for rows in positions.chunks(64) {
                    let bit = |row: &u16| u64::from(validity::is_valid(bitmap, usize::from(*row)));
                    let word = rows.iter().rev().fold(0u64, |word, row| word << 1 | bit(row));
                    out.extend_from_slice(&word.to_le_bytes());
                }
            }
        }
    }
    // Bits behind the selection are 0.
    out.resize(selected.div_ceil(8), 0);
    if let (false, Some(last)) = (selected.is_multiple_of(8), out.last_mut()) {
        *last &= (1 << (selected % 8)) - 1;
    }
    Some(out)
}

/// What is made of codes, in whatever width they are.
trait CodeSink {
    fn take<C: Copy + Into<u64>>(self, codes: impl Iterator<Item = C>);
}

struct FromFrame<'a, T> {
    base: T,
    out: &'a mut Vec<T>,
}

impl<T: Native> CodeSink for FromFrame<'_, T> {
    #[inline]
    fn take<C: Copy + Into<u64>>(self, codes: impl Iterator<Item = C>) {
        self.out.extend(codes.map(|code| self.base.plus(code.into())));
    }
}

struct FromDictionary<'a, T> {
    values: &'a [T],
    out: &'a mut Vec<T>,
}

impl<T: Native> CodeSink for FromDictionary<'_, T> {
    #[inline]
    fn take<C: Copy + Into<u64>>(self, codes: impl Iterator<Item = C>) {
        self.out.extend(codes.map(|code| self.values[code.into() as usize]));
    }
}

#[inline]
fn with_codes(codes: Codes, selection: &Selection, sink: impl CodeSink) {
    match codes {
        Codes::U8(codes) => selected(codes, selection, sink),
        Codes::U16(codes) => selected(codes, selection, sink),
        Codes::U32(codes) => selected(codes, selection, sink),
        Codes::U64(codes) => selected(codes, selection, sink),
    }
}

#[inline]
fn selected<C: Copy + Into<u64>>(codes: &[C], selection: &Selection, sink: impl CodeSink) {
    match selection {
        Selection::Rows(rows) => sink.take(codes[rows.start as usize..rows.end as usize].iter().copied()),
        Selection::Positions(positions) => sink.take(positions.iter().map(|row| codes[usize::from(*row)])),
    }
}
