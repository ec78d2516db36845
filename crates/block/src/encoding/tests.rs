//! What the tests of all encodings share, and the competition between them.

use super::*;
use crate::encode::{EncodeOptions, encode_block};

/// Bytes in memory aligned to 8.
pub(super) struct Aligned {
    words: Vec<u64>,
}

impl Aligned {
    /// Copies bytes whose number is a multiple of 8, as that of blocks is.
    fn new(bytes: &[u8]) -> Self {
        let mut words = vec![0u64; bytes.len() / size_of::<u64>()];
        bytemuck::cast_slice_mut(&mut words).copy_from_slice(bytes);
        Self { words }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(&self.words)
    }
}

fn encode(column: &PlainColumn<'_>, force: Option<Encoding>) -> Aligned {
    let mut out = Vec::new();
    encode_block(column, &EncodeOptions { force }, &mut out).expect("a valid column encodes");
    Aligned::new(&out)
}

pub(super) fn encode_fixed<T: Native>(values: &[T], validity: Option<&[u8]>, force: Option<Encoding>) -> Aligned {
    let plain = PlainValues::Fixed(bytemuck::cast_slice(values));
    encode(&PlainColumn { physical: T::PHYSICAL, rows: values.len(), validity, values: plain }, force)
}

pub(super) fn encode_strings(values: &[&[u8]], force: Option<Encoding>) -> Aligned {
    let physical = forebay_base::PhysicalType::Bytes;
    encode(&PlainColumn { physical, rows: values.len(), validity: None, values: PlainValues::Bytes(values) }, force)
}

/// What parsing says of a block with one byte changed.
pub(super) fn parse_changed(block: &Aligned, at: usize, byte: u8) -> String {
    let mut bytes = block.bytes().to_vec();
    assert_ne!(bytes[at], byte, "a change");
    bytes[at] = byte;
    let error = EncodedBlock::parse(Aligned::new(&bytes).bytes()).expect_err("the change is found");
    error.to_string().trim_start_matches("encoded block: ").to_owned()
}

#[test]
fn codes_and_names_are_distinct() {
    for (code, encoding) in Encoding::ALL.into_iter().enumerate() {
        assert_eq!((encoding as usize, Encoding::from_code(code as u8)), (code, Some(encoding)));
        let same_name = Encoding::ALL.into_iter().filter(|other| other.name() == encoding.name()).count();
        assert_eq!(same_name, 1, "{encoding:?}");
    }
    assert_eq!(Encoding::from_code(Encoding::ALL.len() as u8), None);
}

#[test]
fn the_fewest_estimated_bytes_win_and_who_gives_up_leaves_the_place() {
    let check = |sizes: [usize; 5], gives_up: Option<Encoding>, expected: (Encoding, usize)| {
        let estimate = |encoding: Encoding, _| Some(sizes[encoding as usize]);
        let encode = |encoding, budget| Ok((gives_up != Some(encoding)).then_some((encoding, budget)));
        assert_eq!(compete(None, estimate, encode).expect("one wins"), expected);
    };
    check([9, 9, 9, 9, 9], None, (Encoding::Uncompressed, usize::MAX));
    check([9, 5, 7, 9, 8], None, (Encoding::Truncation, 9));
    check([9, 5, 3, 9, 4], None, (Encoding::Dictionary, 5));
    check([9, 5, 3, 9, 9], Some(Encoding::Dictionary), (Encoding::Truncation, 9));
    check([0, 5, 3, 9, 1], None, (Encoding::SingleValue, 9));
    check([9, 5, 3, 9, 1], None, (Encoding::RunLength, 3));
}

#[test]
fn what_is_forced_is_used_where_it_can_be() {
    let encoding = |block: &Aligned| EncodedBlock::parse(block.bytes()).expect("own blocks parse").encoding();
    for force in Encoding::ALL {
        let expected = if force == Encoding::SingleValue { Encoding::Truncation } else { force };
        assert_eq!(encoding(&encode_fixed::<i64>(&[3, 4, 9], None, Some(force))), expected);
        let can_hold = matches!(force, Encoding::Dictionary | Encoding::Uncompressed | Encoding::RunLength);
        let expected = if can_hold { force } else { Encoding::Dictionary };
        assert_eq!(encoding(&encode_strings(&[b"pear and fig", b"fig", b"pear and fig"], Some(force))), expected);
    }
}
