//! How the program itself comes from a cold disk: its frequent functions in one read, of the others only what is touched.
//!
//! The linker puts the functions that queries run side by side (build.rs, `functions.order`). When a page is touched that is
//! not in memory, the kernel reads around it as much as the drive's read-ahead says. With the usual 128 KiB that is
//! right. Where it is megabytes, as on many virtual machines, every rare function costs megabytes: there the frequent part is
//! asked for as a whole, and pages of the rest are read one by one.
//!
//! Invariants: advice only; the program runs the same whatever the system makes of it.

use std::ffi::{c_int, c_void};
use std::fs;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;

/// Read-ahead from which the kernel is told better.
const LARGE_READ_AHEAD_KIB: u64 = 1024;

/// Of the rest of the code the kernel reads at most so much at a touch: a few functions that call each other.
const PIECE_BYTES: usize = 128 << 10;

/// More than this is no list of frequent functions: the linker did not put them in order.
const MOST_FREQUENT_BYTES: usize = 64 << 20;

/// Where the functions of `functions.order` begin and end: its first line and its last one. What they give only keeps them from
/// being taken for one function.
#[unsafe(no_mangle)]
extern "C" fn forebay_frequent_begin() -> c_int {
    1
}

#[unsafe(no_mangle)]
extern "C" fn forebay_frequent_end() -> c_int {
    2
}

/// Called by the loader, in front of other initialisers: they run rare functions, too.
#[used]
#[unsafe(link_section = ".init_array.00010")]
static AT_START: extern "C" fn() = advise;

/// Advises the kernel about the program's pages, if the drive's read-ahead is large. Takes less than a millisecond.
extern "C" fn advise() {
    let frequent = forebay_frequent_begin as *const () as usize..forebay_frequent_end as *const () as usize;
    let is_ordered = frequent.start < frequent.end && frequent.len() < MOST_FREQUENT_BYTES;
    let Some(read_ahead) = read_ahead_kib().filter(|size| *size >= LARGE_READ_AHEAD_KIB && is_ordered) else { return };
    let Some(segments) = segments() else { return };
    for segment in &segments.read_only {
        let rest = if segment.contains(&frequent.end) { frequent.end..segment.end } else { segment.clone() };
        advise_range(&rest, libc::MADV_RANDOM);
    }
    // Some kernels read ahead of code whatever is said of it, but never past the end of pages that are advised alike. So every
    // other piece gets a second advice, which changes nothing: code that nobody wrote to is in no memory dump anyway.
    if let Some(code) = segments.read_only.iter().find(|segment| segment.contains(&frequent.end)) {
        for start in (frequent.end..code.end).step_by(2 * PIECE_BYTES) {
            advise_range(&(start..code.end.min(start + PIECE_BYTES)), libc::MADV_DONTDUMP);
        }
    }
    for wanted in [Some(frequent), segments.constants].into_iter().flatten() {
        // More at a time is not read.
        let piece = read_ahead as usize * 1024;
        for start in wanted.clone().step_by(piece) {
            advise_range(&(start..wanted.end.min(start + piece)), libc::MADV_WILLNEED);
        }
    }
}

/// The read-ahead of the drive that the program lies on, if that is known.
fn read_ahead_kib() -> Option<u64> {
    let device = fs::metadata("/proc/self/exe").ok()?.dev();
    let folder = format!("/sys/dev/block/{}:{}", libc::major(device), libc::minor(device));
    // A partition has no queue of its own.
    let read = |folder: &str| fs::read_to_string(format!("{folder}/queue/read_ahead_kb")).ok();
    read(&folder).or_else(|| read(&format!("{folder}/.."))).and_then(|size| size.trim().parse().ok())
}

/// Addresses of the program's segments.
#[derive(Debug, Default)]
struct Segments {
    /// Those that are never written.
    read_only: Vec<Range<usize>>,
    /// Constants: the first segment, but for tables for unwinding.
    constants: Option<Range<usize>>,
}

/// The program's segments; `None` where the system does not tell.
fn segments() -> Option<Segments> {
    extern "C" fn note(info: *mut libc::dl_phdr_info, _size: libc::size_t, data: *mut c_void) -> c_int {
        // SAFETY: `dl_iterate_phdr` gives an object's headers for as long as this runs, and `data` as `segments` passed it.
        let (info, found) = unsafe { (&*info, &mut *data.cast::<Option<Segments>>()) };
        // SAFETY: there are so many headers at that address.
        let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
        let (mut segments, mut unwinding) = (Segments::default(), None);
        let base = info.dlpi_addr as usize;
        for header in headers {
            let start = base + header.p_vaddr as usize;
            if header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_W == 0 {
                segments.read_only.push(start..start + header.p_memsz as usize);
            }
            if header.p_type == libc::PT_GNU_EH_FRAME {
                unwinding = Some(start);
            }
        }
        segments.constants = segments.read_only.first().map(|first| match unwinding {
            Some(start) if first.contains(&start) => first.start..start,
            _ => first.clone(),
        });
        *found = Some(segments);
        // The first object is the program; that is enough.
        1
    }
    let mut found: Option<Segments> = None;
    // SAFETY: `note` has the type that is asked for and does not unwind; `found` outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut found).cast()) };
    found
}

/// Gives advice on the pages of `range`. A system that refuses it loses nothing.
fn advise_range(range: &Range<usize>, advice: c_int) {
    // SAFETY: asks nothing.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.max(1) as usize;
    let start = range.start / page * page;
    // SAFETY: neither advice changes what the pages hold.
    unsafe { libc::madvise(start as *mut c_void, range.end - start, advice) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_lies_in_its_segments() {
        let segments = segments().expect("Linux tells");
        let function = advise as *const () as usize;
        assert!(segments.read_only.iter().any(|segment| segment.contains(&function)), "{segments:?}");
        let constants = segments.constants.expect("constants come first");
        assert!(constants.contains(&("a constant".as_ptr() as usize)), "{constants:?}");
        advise();
    }
}
