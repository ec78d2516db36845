//! Compressing single frames. Every frame is split into byte planes, then compressed on its own by a standard codec
//! (ARCHITECTURE.md, Codecs: formats on disk are open).
//!
//! Invariants: decompression writes exactly the expected number of bytes or fails; scratch memory is two frames per
//! thread.

use std::cell::RefCell;

use forebay_base::limits::FRAME_BYTES;
use zstd::bulk::{Compressor, Decompressor};

use crate::planes;

/// Level of Zstandard: the fastest of the standard ones.
const ZSTD_LEVEL: i32 = 1;

/// How frames are compressed. The codes are on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Codec {
    /// Frames are stored as they are.
    None = 0,
    /// LZ4 blocks.
    Lz4 = 1,
    /// Zstandard frames.
    Zstd = 2,
}

impl Codec {
    /// All codecs, in code order.
    pub const ALL: [Self; 3] = [Self::None, Self::Lz4, Self::Zstd];

    /// The codec with this code on disk.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|codec| *codec as u8 == code)
    }
}

/// A thread's codec states and scratch memory.
pub(crate) struct FrameCodec {
    compressor: Option<Compressor<'static>>,
    decompressor: Option<Decompressor<'static>>,
    planes: Vec<u8>,
    packed: Vec<u8>,
    plain: Vec<u64>,
}

thread_local! {
    static FRAME_CODEC: RefCell<FrameCodec> = const {
        RefCell::new(FrameCodec {
            compressor: None,
            decompressor: None,
            planes: Vec::new(),
            packed: Vec::new(),
            plain: Vec::new(),
        })
    };
}

/// Runs `work` with this thread's frame codec.
pub(crate) fn with_frame_codec<R>(work: impl FnOnce(&mut FrameCodec) -> R) -> R {
    FRAME_CODEC.with_borrow_mut(work)
}

impl FrameCodec {
    /// The compressed frame, or `None` where it would not be smaller (or the codec fails: then raw is right as well).
    pub(crate) fn compress(&mut self, codec: Codec, stride: u8, frame: &[u8]) -> Option<&[u8]> {
        self.planes.resize(FRAME_BYTES, 0);
        // Room for the worst case of both codecs lets them skip bounds checks.
        self.packed.resize(zstd::zstd_safe::compress_bound(FRAME_BYTES).max(FRAME_BYTES * 2), 0);
        let source = if stride == 1 {
            frame
        } else {
            planes::split(stride, frame, &mut self.planes[..frame.len()]);
            &self.planes[..frame.len()]
        };
        let bytes = match codec {
            Codec::None => return None,
            Codec::Lz4 => lz4_flex::block::compress_into(source, &mut self.packed).ok()?,
            Codec::Zstd => {
                if self.compressor.is_none() {
                    self.compressor = Some(Compressor::new(ZSTD_LEVEL).ok()?);
                }
                let compressor = self.compressor.as_mut()?;
                // Planes differ in their statistics, and noise is then stored as it is: one Zstandard frame each is
                // smaller and inflates two to three times as fast as one for all.
                let mut end = 0;
                for plane in source.chunks(frame.len() / usize::from(stride)) {
                    end += compressor.compress_to_buffer(plane, &mut self.packed[end..]).ok()?;
                }
                end
            }
        };
        (bytes < frame.len()).then(|| &self.packed[..bytes])
    }

    /// Appends the `plain_bytes` bytes (a multiple of 8, at most a frame) of a stored frame to `out`; says what is
    /// wrong with it otherwise.
    pub(crate) fn decompress(
        &mut self,
        codec: Codec,
        stride: u8,
        stored: &[u8],
        plain_bytes: usize,
        out: &mut Vec<u64>,
    ) -> Result<(), String> {
        let is_raw = stored.len() == plain_bytes;
        if let (true, Ok(words)) = (is_raw, bytemuck::try_cast_slice::<u8, u64>(stored)) {
            out.extend_from_slice(words);
            return Ok(());
        }
        self.plain.resize(FRAME_BYTES / size_of::<u64>(), 0);
        self.planes.resize(FRAME_BYTES, 0);
        let words = &mut self.plain[..plain_bytes / size_of::<u64>()];
        let plain: &mut [u8] = bytemuck::cast_slice_mut(words);
        let target = if stride == 1 || is_raw { &mut *plain } else { &mut self.planes[..plain_bytes] };
        let bytes = match codec {
            _ if is_raw => {
                target.copy_from_slice(stored);
                plain_bytes
            }
            Codec::None => return Err("it is compressed in a chunk without codec".into()),
            Codec::Lz4 => lz4_flex::block::decompress_into(stored, target).map_err(|error| error.to_string())?,
            Codec::Zstd => {
                if self.decompressor.is_none() {
                    self.decompressor = Some(Decompressor::new().map_err(|error| error.to_string())?);
                }
                let decompressor = self.decompressor.as_mut().expect("it was made above");
                decompressor.decompress_to_buffer(stored, target).map_err(|error| error.to_string())?
            }
        };
        if bytes != plain_bytes {
            return Err(format!("it has {bytes} bytes instead of {plain_bytes}"));
        }
        if stride != 1 && !is_raw {
            planes::merge(stride, &self.planes[..plain_bytes], plain);
        }
        out.extend_from_slice(words);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_another_length_are_refused() {
        let plain: Vec<u8> = (0..4096u32).map(|i| (i / 100) as u8).collect();
        for codec in [Codec::Lz4, Codec::Zstd] {
            for stride in planes::STRIDES {
                with_frame_codec(|state| {
                    let stored = state.compress(codec, stride, &plain).expect("repetition compresses").to_vec();
                    let mut inflate = |bytes: usize| {
                        let mut out = Vec::new();
                        state.decompress(codec, stride, &stored, bytes, &mut out).map(|()| out)
                    };
                    let words = inflate(plain.len()).expect("the own frame inflates");
                    assert_eq!(bytemuck::cast_slice::<u64, u8>(&words), plain);
                    assert!(inflate(plain.len() + 64).is_err());
                    assert!(inflate(plain.len() - 64).is_err());
                });
            }
        }
    }
}
