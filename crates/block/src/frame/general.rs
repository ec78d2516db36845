//! General codecs over the bytes or byte planes of a frame: LZ4 and Zstandard (ARCHITECTURE.md, Stored form: formats on disk
//! are open).
//!
//! Invariants: decompression writes exactly the expected number of bytes or fails; scratch memory is two frames per
//! thread.

use std::cell::RefCell;

use forebay_base::limits::FRAME_BYTES;
use zstd::bulk::{Compressor, Decompressor};

use super::{Scheme, planes};

/// Level of Zstandard: the fastest of the standard ones.
const ZSTD_LEVEL: i32 = 1;

/// A thread's codec states and scratch memory.
pub(crate) struct Codecs {
    compressor: Option<Compressor<'static>>,
    decompressor: Option<Decompressor<'static>>,
    planes: Vec<u8>,
    packed: Vec<u8>,
}

thread_local! {
    static CODECS: RefCell<Codecs> = const {
        RefCell::new(Codecs { compressor: None, decompressor: None, planes: Vec::new(), packed: Vec::new() })
    };
}

/// Runs `work` with this thread's codecs.
pub(crate) fn with_codecs<R>(work: impl FnOnce(&mut Codecs) -> R) -> R {
    CODECS.with_borrow_mut(work)
}

impl Codecs {
    /// The compressed frame, or `None` where it would not be smaller (or the codec fails: then raw is right as well).
    pub(crate) fn compress(&mut self, scheme: Scheme, stride: u8, frame: &[u8]) -> Option<&[u8]> {
        self.planes.resize(FRAME_BYTES, 0);
        // Room for the worst case of both codecs lets them skip bounds checks.
        self.packed.resize(zstd::zstd_safe::compress_bound(FRAME_BYTES).max(FRAME_BYTES * 2), 0);
        let source = if stride == 1 {
            frame
        } else {
            planes::split(stride, frame, &mut self.planes[..frame.len()]);
            &self.planes[..frame.len()]
        };
        let bytes = match scheme {
            Scheme::Lz4 => lz4_flex::block::compress_into(source, &mut self.packed).ok()?,
            Scheme::Zstd => {
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
            Scheme::Plain
            | Scheme::BitPacked
            | Scheme::Patched
            | Scheme::Delta
            | Scheme::RunLength
            | Scheme::Rans
            | Scheme::Fsst
            | Scheme::Alp => return None,
        };
        (bytes < frame.len()).then(|| &self.packed[..bytes])
    }

    /// Fills `plain` (at most a frame) from what [`Codecs::compress`] gave; says what is wrong with it otherwise.
    pub(crate) fn decompress(
        &mut self,
        scheme: Scheme,
        stride: u8,
        stored: &[u8],
        plain: &mut [u8],
    ) -> Result<(), String> {
        if !plain.len().is_multiple_of(stride.max(1).into()) {
            return Err("its byte planes have different lengths".into());
        }
        self.planes.resize(FRAME_BYTES, 0);
        let target = if stride == 1 { &mut *plain } else { &mut self.planes[..plain.len()] };
        let bytes = match scheme {
            Scheme::Lz4 => lz4_flex::block::decompress_into(stored, target).map_err(|error| error.to_string())?,
            Scheme::Zstd => {
                if self.decompressor.is_none() {
                    self.decompressor = Some(Decompressor::new().map_err(|error| error.to_string())?);
                }
                let decompressor = self.decompressor.as_mut().expect("it was made above");
                decompressor.decompress_to_buffer(stored, target).map_err(|error| error.to_string())?
            }
            Scheme::Plain
            | Scheme::BitPacked
            | Scheme::Patched
            | Scheme::Delta
            | Scheme::RunLength
            | Scheme::Rans
            | Scheme::Fsst
            | Scheme::Alp => {
                return Err("its scheme is not a codec".into());
            }
        };
        if bytes != plain.len() {
            return Err(format!("it has {bytes} bytes instead of {}", plain.len()));
        }
        if stride != 1 {
            planes::merge(stride, &self.planes[..plain.len()], plain);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_another_length_are_refused() {
        let plain: Vec<u8> = (0..4096u32).map(|i| (i / 100) as u8).collect();
        for scheme in [Scheme::Lz4, Scheme::Zstd] {
            for stride in planes::STRIDES {
                with_codecs(|codecs| {
                    let stored = codecs.compress(scheme, stride, &plain).expect("repetition compresses").to_vec();
                    let mut inflate = |bytes: usize| {
                        let mut out = vec![0; bytes];
                        codecs.decompress(scheme, stride, &stored, &mut out).map(|()| out)
                    };
                    assert_eq!(inflate(plain.len()).expect("the own frame inflates"), plain);
                    assert!(inflate(plain.len() + 64).is_err());
                    assert!(inflate(plain.len() - 64).is_err());
                });
            }
        }
    }
}
