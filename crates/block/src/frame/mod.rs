//! Frames: up to 64 KiB of one section of a block, stored on their own by a scheme that suits their bytes.
//! `docs/format.md`, "Frame schemes".
//!
//! Schemes of integers pack bits, steps or runs and decode at many gigabytes a second; general codecs are for text and
//! for who wants fewer bytes at any price. Invariants: decoding fills all of its output or fails; whatever the bytes are,
//! it neither panics nor reads beyond them. Must not know: blocks, chunks, checksums.

mod bit_packed;
pub(crate) mod bits;
mod delta;
pub(crate) mod general;
pub(crate) mod integers;
mod patched;
pub(crate) mod planes;
mod reader;
mod run_length;
mod scratch;
pub(crate) mod statistics;
pub(crate) mod word;

use forebay_base::limits::FRAME_BYTES;

use bits::Unpack;
use general::with_codecs;
use integers::Cascade;
use statistics::Statistics;
use word::with_word;

/// How the bytes of a frame are stored. The codes are on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Scheme {
    /// As they are.
    Plain = 0,
    /// An LZ4 block, perhaps of byte planes.
    Lz4 = 1,
    /// One Zstandard frame per byte plane.
    Zstd = 2,
    /// Integers as distances from the smallest, in as many bits as the largest needs.
    BitPacked = 16,
    /// Bit-packed integers with outliers put aside.
    Patched = 17,
    /// Integers as steps from one to the next.
    Delta = 18,
    /// Integers as runs of equal ones.
    RunLength = 19,
}

impl Scheme {
    /// All schemes, in code order.
    pub const ALL: [Self; 7] =
        [Self::Plain, Self::Lz4, Self::Zstd, Self::BitPacked, Self::Patched, Self::Delta, Self::RunLength];

    /// The scheme with this code on disk.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|scheme| *scheme as u8 == code)
    }

    /// Its name in settings and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
            Self::BitPacked => "bit_packed",
            Self::Patched => "patched",
            Self::Delta => "delta",
            Self::RunLength => "run_length",
        }
    }
}

/// What is asked of compression.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// Few bytes, but decoding must not outrun reading (HippogriffDB §3.2).
    #[default]
    Balanced,
    /// The fewest bytes, whatever decoding takes.
    BestRatio,
    /// This scheme where it can hold the bytes and saves any, else as they are.
    Force(Scheme),
}

/// What a section's bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Elements {
    /// Bytes of an element: 1, 2, 4, 8 or 16.
    pub(crate) bytes: usize,
    /// They are numbers that orders and differences make sense of.
    pub(crate) integers: bool,
}

/// How a frame was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) scheme: Scheme,
    /// Byte planes that a general codec works on; 1 for other schemes.
    pub(crate) stride: u8,
}

impl Stored {
    const PLAIN: Self = Self { scheme: Scheme::Plain, stride: 1 };
}

/// Percent of the bytes of the schemes of integers that a general codec may have at most to be taken by
/// [`Compression::BestRatio`].
const GENERAL_PERCENT: usize = 99;
/// A general codec has to leave at most so many percent of the plain bytes.
const LEAST_SAVING_PERCENT: usize = 95;

/// Appends the stored form of `plain`, which has at least one byte and at most [`FRAME_BYTES`], to `out`.
pub(crate) fn encode(plain: &[u8], elements: Elements, compression: Compression, out: &mut Vec<u8>) -> Stored {
    debug_assert!(!plain.is_empty() && plain.len() <= FRAME_BYTES, "a frame of {} bytes", plain.len());
    let start = out.len();
    let stored = match compression {
        Compression::Force(scheme) => forced(plain, elements, scheme, out),
        Compression::Balanced if elements.integers => lightweight(plain, elements, out),
        Compression::Balanced => general(plain, elements, Scheme::Lz4, plain.len() * LEAST_SAVING_PERCENT / 100, out),
        Compression::BestRatio => {
            let stored = lightweight(plain, elements, out);
            let most = (out.len() - start) * GENERAL_PERCENT / 100;
            let behind = out.len();
            match general(plain, elements, Scheme::Zstd, most, out) {
                Stored::PLAIN => {
                    out.truncate(behind);
                    stored
                }
                smaller => {
                    out.drain(start..behind);
                    smaller
                }
            }
        }
    };
    if out.len() - start >= plain.len() && stored != Stored::PLAIN {
        out.truncate(start);
        out.extend_from_slice(plain);
        return Stored::PLAIN;
    }
    stored
}

fn forced(plain: &[u8], elements: Elements, scheme: Scheme, out: &mut Vec<u8>) -> Stored {
    match scheme {
        Scheme::Lz4 | Scheme::Zstd => return general(plain, elements, scheme, plain.len() - 1, out),
        Scheme::BitPacked | Scheme::Patched | Scheme::Delta | Scheme::RunLength if elements.integers => {
            with_word!(elements.bytes, T => {
                let values = aligned::<T>(plain);
                integers::encode(scheme, &values, &Statistics::of::<T>(&values), out);
                return Stored { scheme, stride: 1 };
            }, _ => {})
        }
        Scheme::Plain | Scheme::BitPacked | Scheme::Patched | Scheme::Delta | Scheme::RunLength => {}
    }
    out.extend_from_slice(plain);
    Stored::PLAIN
}

/// The best of the schemes of integers.
fn lightweight(plain: &[u8], elements: Elements, out: &mut Vec<u8>) -> Stored {
    if elements.integers {
        with_word!(elements.bytes, T => {
            let scheme = integers::encode_best(&aligned::<T>(plain), Cascade::Outer, out);
            return Stored { scheme, stride: 1 };
        }, _ => {})
    }
    out.extend_from_slice(plain);
    Stored::PLAIN
}

/// A general codec over bytes or byte planes, whichever is smaller; as they are where that leaves more than `most_bytes`.
fn general(plain: &[u8], elements: Elements, scheme: Scheme, most_bytes: usize, out: &mut Vec<u8>) -> Stored {
    let stride = elements.bytes.min(8) as u8;
    let strides = if stride == 1 || !plain.len().is_multiple_of(stride.into()) { &[1][..] } else { &[1, stride][..] };
    let best = with_codecs(|codecs| {
        let mut size = |stride: u8| codecs.compress(scheme, stride, plain).map_or(plain.len(), <[u8]>::len);
        let (bytes, stride) = strides.iter().map(|stride| (size(*stride), *stride)).min()?;
        let compressed = codecs.compress(scheme, stride, plain).filter(|_| bytes <= most_bytes)?;
        out.extend_from_slice(compressed);
        Some(stride)
    });
    match best {
        Some(stride) => Stored { scheme, stride },
        None => {
            out.extend_from_slice(plain);
            Stored::PLAIN
        }
    }
}

/// Fills `plain`, which lies on a boundary of its elements, from a stored frame.
pub(crate) fn decode(
    with: &dyn Unpack,
    stored: &[u8],
    form: Stored,
    element_bytes: usize,
    plain: &mut [u8],
) -> Result<(), String> {
    match form.scheme {
        Scheme::Plain if stored.len() == plain.len() => {
            plain.copy_from_slice(stored);
            Ok(())
        }
        Scheme::Plain => Err("its length is wrong".into()),
        Scheme::Lz4 | Scheme::Zstd => with_codecs(|codecs| codecs.decompress(form.scheme, form.stride, stored, plain)),
        Scheme::BitPacked | Scheme::Patched | Scheme::Delta | Scheme::RunLength => {
            let wrong = "its scheme is for integers, and its section holds none";
            with_word!(element_bytes, T => {
                let values = bytemuck::try_cast_slice_mut::<u8, T>(plain).map_err(|_| wrong)?;
                Ok(integers::decode(with, form.scheme, stored, values)?)
            }, _ => Err(wrong.into()))
        }
    }
}

/// The values of a frame, which a chunk in the making may hold on any boundary.
fn aligned<T: word::Word>(plain: &[u8]) -> std::borrow::Cow<'_, [T]> {
    match bytemuck::try_cast_slice(plain) {
        Ok(values) => values.into(),
        Err(_) => plain.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect(),
    }
}
