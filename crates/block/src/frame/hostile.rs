//! Every scheme against bytes that nobody stored: decoding gives an error or fills its output, never panics, writes nowhere
//! else and ends soon.
//!
//! `FOREBAY_MUTATIONS=100000` makes so many for every scheme and kind of elements. A failure prints what makes it again.
//! Must not know: how any scheme works.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::bits::PortableUnpack;
use super::distributions::{FRAME, Random, of_elements};
use super::mutations::{count, mutated};
use super::*;

/// All kinds of elements that sections have.
const ELEMENTS: [Elements; 8] = [
    Elements { bytes: 1, kind: Kind::Integers },
    Elements { bytes: 2, kind: Kind::Integers },
    Elements { bytes: 4, kind: Kind::Integers },
    Elements { bytes: 8, kind: Kind::Integers },
    Elements { bytes: 4, kind: Kind::Floats },
    Elements { bytes: 8, kind: Kind::Floats },
    Elements { bytes: 1, kind: Kind::Text },
    Elements { bytes: 16, kind: Kind::Wide },
];

/// Bytes of short frames: a few values, and some vectors.
const SHORT: [usize; 2] = [48, 5008];

/// Full frames take longer: they are mutated once where short ones are so often.
const SHORT_FOR_FULL: u64 = 20;

/// Nothing takes as long, however busy the machine is.
const LIMIT: Duration = Duration::from_secs(10);

/// Bytes before and behind a frame that must stay as they are.
const GUARD_BYTES: usize = 64;

/// A frame as somebody stored it.
struct Frame {
    name: &'static str,
    plain: Vec<u8>,
    form: Stored,
    stored: Vec<u8>,
}

/// Frames of these elements and lengths that `scheme` makes smaller, or for plain ones any.
fn frames(scheme: Scheme, elements: Elements, lengths: &[usize]) -> Vec<Frame> {
    let mut frames = Vec::new();
    for (name, plain) in of_elements(elements) {
        for length in lengths {
            let plain = plain[..*length].to_vec();
            let mut stored = Vec::new();
            let form = Encoder::default().encode(&plain, elements, Compression::Force(scheme), &mut stored);
            if form.scheme == scheme {
                frames.push(Frame { name, plain, form, stored });
            }
        }
    }
    frames
}

/// The output of `plain_bytes` bytes that lie between guards and had `before` in every byte.
fn decode_guarded(
    form: Stored,
    element_bytes: usize,
    stored: &[u8],
    plain_bytes: usize,
    before: u8,
) -> Result<Vec<u8>, String> {
    let mut words = vec![u64::from_ne_bytes([before; 8]); (plain_bytes + 2 * GUARD_BYTES).div_ceil(8)];
    let memory: &mut [u8] = bytemuck::cast_slice_mut(&mut words);
    let started = Instant::now();
    let decoded =
        decode(&PortableUnpack, stored, form, element_bytes, &mut memory[GUARD_BYTES..GUARD_BYTES + plain_bytes]);
    assert!(started.elapsed() < LIMIT, "decoding took {:?}", started.elapsed());
    let (front, rest) = memory.split_at(GUARD_BYTES);
    let (plain, behind) = rest.split_at(plain_bytes);
    assert!(front.iter().chain(behind).all(|byte| *byte == before), "bytes beside the frame are written");
    decoded.map(|()| plain.to_vec())
}

/// Decodes hostile bytes; whether they were accepted.
fn look_at(form: Stored, element_bytes: usize, stored: &[u8], plain_bytes: usize) -> bool {
    let Ok(plain) = decode_guarded(form, element_bytes, stored, plain_bytes, 0x5a) else { return false };
    // What is left as it was would differ.
    let again = decode_guarded(form, element_bytes, stored, plain_bytes, 0xa5);
    assert!(again.as_ref() == Ok(&plain), "not all of the output is written");
    true
}

/// Mutates the frames of `elements` by `scheme` in turn, so often; how many were accepted and refused.
fn mutate(scheme: Scheme, elements: Elements, lengths: &[usize], rounds: u64) -> (u64, u64) {
    let frames = frames(scheme, elements, lengths);
    let (mut accepted, mut refused) = (0, 0);
    if frames.is_empty() {
        return (accepted, refused);
    }
    for frame in &frames {
        let back = decode_guarded(frame.form, elements.bytes, &frame.stored, frame.plain.len(), 0);
        assert!(back.as_ref() == Ok(&frame.plain), "{scheme:?}, {elements:?}, {}: others come back", frame.name);
    }
    for round in 0..rounds {
        let mut random = Random(round << 16 | (scheme as u64) << 8 | elements.bytes as u64);
        let frame = &frames[round as usize % frames.len()];
        let other = &frames[random.below(frames.len() as u64) as usize].stored;
        let bytes = mutated(&frame.stored, other, &mut |limit| random.below(limit));
        let (mut form, mut element_bytes, mut plain_bytes) = (frame.form, elements.bytes, frame.plain.len());
        // What a directory says may be wrong as well.
        match random.below(16) {
            0 => plain_bytes = 1 + random.below(FRAME as u64) as usize,
            1 => plain_bytes = (plain_bytes + [8, 16, 1024][random.below(3) as usize]).min(FRAME),
            2 => form.stride = planes::STRIDES[random.below(4) as usize],
            3 => form.scheme = Scheme::ALL[random.below(Scheme::ALL.len() as u64) as usize],
            4 => element_bytes = 1 << random.below(5),
            _ => {}
        }
        let looked = std::panic::catch_unwind(|| look_at(form, element_bytes, &bytes, plain_bytes));
        let Ok(is_accepted) = looked else {
            panic!(
                "{form:?}, elements of {element_bytes} bytes, {plain_bytes} bytes of {} in {elements:?}, round {round}",
                frame.name
            );
        };
        if is_accepted { accepted += 1 } else { refused += 1 }
    }
    (accepted, refused)
}

#[test]
fn mutated_frames_are_refused_or_fill_their_output() {
    for scheme in Scheme::ALL {
        let started = Instant::now();
        let short = ELEMENTS.map(|elements| mutate(scheme, elements, &SHORT, count()));
        let full = ELEMENTS.map(|elements| mutate(scheme, elements, &[FRAME], count() / SHORT_FOR_FULL));
        let (accepted, refused) = short.iter().chain(&full).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        println!("{:12} {accepted:8} accepted {refused:8} refused {:8.2?}", scheme.name(), started.elapsed());
        assert!(accepted > 0 && refused > 0, "{scheme:?}: {accepted} were accepted, {refused} were not");
    }
}

/// The parts of runs are frames of other schemes: all of those are among what is mutated.
#[test]
fn runs_have_parts_of_all_schemes() {
    let schemes = |at: usize| {
        let stored = ELEMENTS.into_iter().flat_map(|elements| frames(Scheme::RunLength, elements, &SHORT));
        stored.filter_map(|frame| Scheme::from_code(frame.stored[at])).collect::<BTreeSet<_>>()
    };
    let all = BTreeSet::from([Scheme::Plain, Scheme::BitPacked, Scheme::Patched, Scheme::Delta]);
    assert_eq!(schemes(4), all, "values");
    assert!(schemes(5).contains(&Scheme::BitPacked), "lengths");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(5000) })]

    #[test]
    fn any_bytes_are_refused_or_fill_their_output(
        scheme in prop::sample::select(&Scheme::ALL[..]),
        stride in prop::sample::select(&planes::STRIDES[..]),
        element_bytes in prop::sample::select(&[1_usize, 2, 4, 8, 16][..]),
        stored: Vec<u8>,
        plain_bytes in 1..600_usize,
    ) {
        look_at(Stored { scheme, stride }, element_bytes, &stored, plain_bytes);
    }
}
