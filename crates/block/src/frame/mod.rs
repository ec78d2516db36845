//! Frames: up to 64 KiB of one section of a block, stored on their own by a scheme that suits their bytes.
//! `docs/format.md`, "Frame schemes".
//!
//! Schemes of integers pack bits, steps or runs and decode at many gigabytes a second; general codecs are for text and
//! for who wants fewer bytes at any price. Invariants: decoding fills all of its output or fails; whatever the bytes are,
//! it neither panics nor reads beyond them. Must not know: blocks, chunks, checksums.

mod alp;
mod bit_packed;
pub(crate) mod bits;
mod delta;
#[cfg(test)]
pub(crate) mod distributions;
mod fsst;
pub(crate) mod general;
#[cfg(test)]
mod hostile;
pub(crate) mod integers;
#[cfg(test)]
#[path = "../../tests/mutations/mod.rs"]
mod mutations;
mod patched;
pub(crate) mod planes;
mod rans;
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
    /// A Snappy block, perhaps of byte planes.
    Snappy = 3,
    /// A Deflate stream, perhaps of byte planes.
    Deflate = 4,
    /// Integers as distances from the smallest, in as many bits as the largest needs.
    BitPacked = 16,
    /// Bit-packed integers with outliers put aside.
    Patched = 17,
    /// Integers as steps from one to the next.
    Delta = 18,
    /// Integers as runs of equal ones.
    RunLength = 19,
    /// Bytes by how often they occur (rANS).
    Rans = 32,
    /// Text as codes of frequent symbols (FSST).
    Fsst = 33,
    /// Floats as decimals (ALP).
    Alp = 34,
}

impl Scheme {
    /// All schemes, in code order.
    pub const ALL: [Self; 12] = [
        Self::Plain,
        Self::Lz4,
        Self::Zstd,
        Self::Snappy,
        Self::Deflate,
        Self::BitPacked,
        Self::Patched,
        Self::Delta,
        Self::RunLength,
        Self::Rans,
        Self::Fsst,
        Self::Alp,
    ];

    /// The scheme with this code on disk.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|scheme| *scheme as u8 == code)
    }

    /// Its place in [`Scheme::ALL`].
    pub(crate) fn index(self) -> usize {
        Self::ALL.iter().position(|scheme| *scheme == self).expect("all schemes are there")
    }

    /// Its name in settings and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
            Self::Snappy => "snappy",
            Self::Deflate => "deflate",
            Self::BitPacked => "bit_packed",
            Self::Patched => "patched",
            Self::Delta => "delta",
            Self::RunLength => "run_length",
            Self::Rans => "rans",
            Self::Fsst => "fsst",
            Self::Alp => "alp",
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

impl Compression {
    /// Its name in settings and reports: that of the scheme where one is forced.
    pub fn name(self) -> &'static str {
        match self {
            Self::Balanced => "balanced",
            Self::BestRatio => "best_ratio",
            Self::Force(scheme) => scheme.name(),
        }
    }
}

/// What a section's bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Elements {
    /// Bytes of an element: 1, 2, 4, 8 or 16.
    pub(crate) bytes: usize,
    pub(crate) kind: Kind,
}

/// What elements are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Numbers of up to 8 bytes that orders and differences make sense of.
    Integers,
    /// Floats.
    Floats,
    /// Bytes of strings.
    Text,
    /// Numbers of 16 bytes.
    Wide,
}

impl Elements {
    fn are_integers(&self) -> bool {
        self.kind == Kind::Integers
    }
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

/// A general codec has to leave at most so many percent of the plain bytes.
const LEAST_SAVING_PERCENT: usize = 95;

/// Stores the frames of one chunk.
#[derive(Default)]
pub(crate) struct Encoder {
    /// The symbols of the text before, with the percent of its bytes that it took by them.
    symbols: Option<(fsst::Table, usize)>,
    /// What the first text of the chunk took less by.
    text: Option<Scheme>,
    attempt: Vec<u8>,
}

/// Symbols are chosen anew for text that takes so many percent more of its bytes by those of the text before.
const RETRAIN_PERCENT: usize = 10;

impl Encoder {
    /// Appends the stored form of `plain`, which has at least one byte and at most [`FRAME_BYTES`], to `out`.
    pub(crate) fn encode(
        &mut self,
        plain: &[u8],
        elements: Elements,
        compression: Compression,
        out: &mut Vec<u8>,
    ) -> Stored {
        debug_assert!(!plain.is_empty() && plain.len() <= FRAME_BYTES, "a frame of {} bytes", plain.len());
        let start = out.len();
        let stored = match compression {
            Compression::Force(scheme) => self.by(scheme, plain, elements, out),
            Compression::Balanced => self.balanced(plain, elements, out),
            Compression::BestRatio => self.smallest(plain, elements, out),
        };
        match stored {
            Some(stored) if out.len() - start < plain.len() => stored,
            _ => {
                out.truncate(start);
                out.extend_from_slice(plain);
                Stored::PLAIN
            }
        }
    }

    /// What decodes faster than drives read: none of the entropy coders, which save little on packed integers and decode at
    /// a gigabyte a second.
    fn balanced(&mut self, plain: &[u8], elements: Elements, out: &mut Vec<u8>) -> Option<Stored> {
        let start = out.len();
        let stored = match elements.kind {
            Kind::Integers => return self.by_integers(plain, elements, out),
            Kind::Floats => self.by(Scheme::Alp, plain, elements, out),
            Kind::Text => match self.text {
                Some(scheme) => self.by(scheme, plain, elements, out),
                None => {
                    let stored = self.smallest_of(&[Scheme::Fsst, Scheme::Lz4], None, plain, elements, out);
                    self.text = stored.map(|stored| stored.scheme);
                    stored
                }
            },
            Kind::Wide => None,
        };
        if stored.is_none() {
            out.truncate(start);
        }
        let stored = stored.or_else(|| self.by(Scheme::Lz4, plain, elements, out))?;
        ((out.len() - start) * 100 <= plain.len() * LEAST_SAVING_PERCENT).then_some(stored)
    }

    /// The smallest of all that make sense of the elements.
    fn smallest(&mut self, plain: &[u8], elements: Elements, out: &mut Vec<u8>) -> Option<Stored> {
        let start = out.len();
        let packed = match elements.kind {
            Kind::Integers => self.by_integers(plain, elements, out),
            Kind::Floats | Kind::Text | Kind::Wide => None,
        };
        let others: &[Scheme] = match elements.kind {
            Kind::Integers if elements.bytes == 1 => &[Scheme::Rans, Scheme::Zstd],
            Kind::Floats => &[Scheme::Alp, Scheme::Zstd],
            Kind::Integers | Kind::Text | Kind::Wide => &[Scheme::Zstd],
        };
        let best = packed.map(|packed| (packed, out.len() - start));
        self.smallest_of(others, best, plain, elements, out)
    }

    /// The smallest of these schemes and of what `out` ends in already, a form and its bytes.
    fn smallest_of(
        &mut self,
        schemes: &[Scheme],
        mut best: Option<(Stored, usize)>,
        plain: &[u8],
        elements: Elements,
        out: &mut Vec<u8>,
    ) -> Option<Stored> {
        let mut attempt = std::mem::take(&mut self.attempt);
        for scheme in schemes {
            let least = best.map_or(plain.len(), |(_, bytes)| bytes);
            if *scheme == Scheme::Rans && rans::estimate(plain) >= least {
                continue;
            }
            attempt.clear();
            let stored = self.by(*scheme, plain, elements, &mut attempt);
            if let Some(stored) = stored.filter(|_| attempt.len() < least) {
                out.truncate(out.len() - best.map_or(0, |(_, bytes)| bytes));
                out.extend_from_slice(&attempt);
                best = Some((stored, attempt.len()));
            }
        }
        self.attempt = attempt;
        best.map(|(stored, _)| stored)
    }

    /// By this scheme; `None`, perhaps with anything behind `out`, where it cannot hold the elements or saves nothing.
    fn by(&mut self, scheme: Scheme, plain: &[u8], elements: Elements, out: &mut Vec<u8>) -> Option<Stored> {
        match scheme {
            Scheme::Plain => return None,
            Scheme::Lz4 | Scheme::Zstd | Scheme::Snappy | Scheme::Deflate => {
                return general(plain, elements, scheme, out);
            }
            Scheme::BitPacked | Scheme::Patched | Scheme::Delta | Scheme::RunLength => {
                with_word!(elements.bytes, T => {
                    let values = aligned::<T>(plain);
                    let statistics = elements.are_integers().then(|| Statistics::of::<T>(&values))?;
                    integers::encode(scheme, &values, &statistics, out);
                }, _ => return None)
            }
            Scheme::Rans => rans::encode(plain, out)?,
            Scheme::Fsst => self.by_symbols(plain, out)?,
            Scheme::Alp => match elements.kind {
                Kind::Floats => alp::encode(elements.bytes, plain, out)?,
                Kind::Integers | Kind::Text | Kind::Wide => return None,
            },
        }
        Some(Stored { scheme, stride: 1 })
    }

    /// The best of the schemes of integers.
    fn by_integers(&mut self, plain: &[u8], elements: Elements, out: &mut Vec<u8>) -> Option<Stored> {
        with_word!(elements.bytes, T => {
            let scheme = integers::encode_best(&aligned::<T>(plain), Cascade::Outer, out);
            Some(Stored { scheme, stride: 1 })
        }, _ => None)
    }

    /// By the symbols of the text before, as long as they serve.
    fn by_symbols(&mut self, plain: &[u8], out: &mut Vec<u8>) -> Option<()> {
        let start = out.len();
        let percent_of = |out: &Vec<u8>| (out.len() - start) * 100 / plain.len();
        if let Some((table, percent)) = &self.symbols {
            let stored = table.encode(plain, out);
            if stored.is_some() && percent_of(out) <= percent + RETRAIN_PERCENT {
                return stored;
            }
            out.truncate(start);
        }
        let table = fsst::Table::of(plain);
        let stored = table.encode(plain, out);
        self.symbols = stored.map(|()| (table, percent_of(out)));
        stored
    }
}

/// A general codec over bytes or byte planes, whichever is smaller.
fn general(plain: &[u8], elements: Elements, scheme: Scheme, out: &mut Vec<u8>) -> Option<Stored> {
    let stride = elements.bytes.min(8) as u8;
    let strides = if stride == 1 || !plain.len().is_multiple_of(stride.into()) { &[1][..] } else { &[1, stride][..] };
    with_codecs(|codecs| {
        let mut size = |stride: u8| codecs.compress(scheme, stride, plain).map_or(plain.len(), <[u8]>::len);
        let (_, stride) = strides.iter().map(|stride| (size(*stride), *stride)).min()?;
        out.extend_from_slice(codecs.compress(scheme, stride, plain)?);
        Some(Stored { scheme, stride })
    })
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
        Scheme::Lz4 | Scheme::Zstd | Scheme::Snappy | Scheme::Deflate => {
            with_codecs(|codecs| codecs.decompress(form.scheme, form.stride, stored, plain))
        }
        Scheme::BitPacked | Scheme::Patched | Scheme::Delta | Scheme::RunLength => {
            let wrong = "its scheme is for integers, and its section holds none";
            with_word!(element_bytes, T => {
                let values = bytemuck::try_cast_slice_mut::<u8, T>(plain).map_err(|_| wrong)?;
                Ok(integers::decode(with, form.scheme, stored, values)?)
            }, _ => Err(wrong.into()))
        }
        Scheme::Rans => Ok(rans::decode(stored, plain)?),
        Scheme::Fsst => Ok(fsst::decode(stored, plain)?),
        Scheme::Alp => Ok(alp::decode(element_bytes, stored, plain)?),
    }
}

/// The values of a frame, which a chunk in the making may hold on any boundary.
fn aligned<T: word::Word>(plain: &[u8]) -> std::borrow::Cow<'_, [T]> {
    match bytemuck::try_cast_slice(plain) {
        Ok(values) => values.into(),
        Err(_) => plain.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect(),
    }
}
