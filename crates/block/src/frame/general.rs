//! General codecs over the bytes or byte planes of a frame: LZ4, Zstandard, Snappy and Deflate (ARCHITECTURE.md, Stored form:
//! formats on disk are open).
//!
//! Invariants: decompression writes exactly the expected number of bytes or fails; scratch memory is some frames per
//! thread, whatever the bytes say.

use std::cell::RefCell;

use flate2::{Compress, Decompress, FlushCompress, FlushDecompress, Status};
use forebay_base::limits::FRAME_BYTES;
use zstd::bulk::{Compressor, Decompressor};

use super::{Scheme, planes};

/// Level of Zstandard: the fastest of the standard ones.
const ZSTD_LEVEL: i32 = 1;
/// Level of Deflate: what its programs take where nobody asks for another.
const DEFLATE_LEVEL: u32 = 6;

/// A thread's codec states and scratch memory.
pub(crate) struct Codecs {
    compressor: Option<Compressor<'static>>,
    decompressor: Option<Decompressor<'static>>,
    snappy: Option<snap::raw::Encoder>,
    deflate: Option<Compress>,
    inflate: Option<Decompress>,
    planes: Vec<u8>,
    packed: Vec<u8>,
}

thread_local! {
    static CODECS: RefCell<Codecs> = const {
        RefCell::new(Codecs {
            compressor: None,
            decompressor: None,
            snappy: None,
            deflate: None,
            inflate: None,
            planes: Vec::new(),
            packed: Vec::new(),
        })
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
        // Room for the worst case of all codecs lets them skip bounds checks.
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
            Scheme::Snappy => {
                let encoder = self.snappy.get_or_insert_with(snap::raw::Encoder::new);
                encoder.compress(source, &mut self.packed).ok()?
            }
            Scheme::Deflate => deflate(&mut self.deflate, source, &mut self.packed)?,
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
            Scheme::Snappy => {
                snap::raw::Decoder::new().decompress(stored, target).map_err(|error| error.to_string())?
            }
            Scheme::Deflate => inflate(&mut self.inflate, stored, target)?,
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

/// One stream of all of `source`: its bytes in `packed`; `None` where it does not fit.
fn deflate(state: &mut Option<Compress>, source: &[u8], packed: &mut [u8]) -> Option<usize> {
    let state = state.get_or_insert_with(|| Compress::new(flate2::Compression::new(DEFLATE_LEVEL), false));
    state.reset();
    let status = state.compress(source, packed, FlushCompress::Finish).ok()?;
    (status == Status::StreamEnd).then_some(state.total_out() as usize)
}

/// Undoes [`deflate`] and gives how many bytes there were; the stream must end with `stored`.
fn inflate(state: &mut Option<Decompress>, stored: &[u8], target: &mut [u8]) -> Result<usize, String> {
    let state = state.get_or_insert_with(|| Decompress::new(false));
    state.reset(false);
    let status = state.decompress(stored, target, FlushDecompress::Finish).map_err(|error| error.to_string())?;
    if status != Status::StreamEnd || state.total_in() != stored.len() as u64 {
        return Err("its stream does not end where the frame does".into());
    }
    Ok(state.total_out() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODECS_OF_FRAMES: [Scheme; 4] = [Scheme::Lz4, Scheme::Zstd, Scheme::Snappy, Scheme::Deflate];

    /// Bytes that other programs stored come back, so that others read what is stored here.
    #[test]
    fn golden_bytes() {
        let plain = b"row 0 of a table; row 1 of a table; row 2 of a table; row 3 of a table; ";
        let deflated = [
            0x2b, 0xca, 0x2f, 0x57, 0x30, 0x50, 0xc8, 0x4f, 0x53, 0x48, 0x54, 0x28, 0x49, 0x4c, 0xca, 0x49, 0xb5, 0x56,
            0x28, 0x02, 0x8a, 0x18, 0x62, 0x88, 0x18, 0x61, 0x88, 0x18, 0xa3, 0x88, 0x00, 0x00,
        ];
        // The length; a literal of 23 bytes, copies from 18 bytes before with literals of one byte between them.
        let mut snappy = vec![72, (23 - 1) << 2];
        snappy.extend_from_slice(b"row 0 of a table; row 1");
        let copy = |bytes: u8| [(bytes - 1) << 2 | 2, 18, 0];
        let literal = |byte: u8| [0, byte];
        snappy.extend([&copy(17)[..], &literal(b'2'), &copy(17), &literal(b'3'), &copy(13)].concat());
        for (scheme, stored) in [(Scheme::Deflate, &deflated[..]), (Scheme::Snappy, &snappy)] {
            let mut back = vec![0; plain.len()];
            with_codecs(|codecs| codecs.decompress(scheme, 1, stored, &mut back)).expect("it is a frame");
            assert_eq!(back, plain, "{scheme:?}");
        }
    }

    #[test]
    fn what_is_behind_a_frame_is_refused() {
        let plain: Vec<u8> = (0..4096u32).map(|i| (i / 100) as u8).collect();
        for scheme in CODECS_OF_FRAMES {
            with_codecs(|codecs| {
                let mut stored = codecs.compress(scheme, 1, &plain).expect("repetition compresses").to_vec();
                stored.push(0);
                let mut back = vec![0; plain.len()];
                assert!(codecs.decompress(scheme, 1, &stored, &mut back).is_err(), "{scheme:?}");
            });
        }
    }

    #[test]
    fn frames_of_another_length_are_refused() {
        let plain: Vec<u8> = (0..4096u32).map(|i| (i / 100) as u8).collect();
        for scheme in CODECS_OF_FRAMES {
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
