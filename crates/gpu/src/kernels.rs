//! The headers that kernel texts include, carried in the program.

/// Each header with the name by which it is included.
pub const HEADERS: &[(&str, &str)] = &[
    ("device.cuh", include_str!("../kernels/device.cuh")),
    ("tile.cuh", include_str!("../kernels/tile.cuh")),
    ("order.cuh", include_str!("../kernels/order.cuh")),
    ("load.cuh", include_str!("../kernels/load.cuh")),
    ("compute.cuh", include_str!("../kernels/compute.cuh")),
    ("unpack.cuh", include_str!("../kernels/unpack.cuh")),
    ("filter.cuh", include_str!("../kernels/filter.cuh")),
    ("probe.cuh", include_str!("../kernels/probe.cuh")),
    ("aggregate.cuh", include_str!("../kernels/aggregate.cuh")),
    ("store.cuh", include_str!("../kernels/store.cuh")),
];

/// The headers that a text includes, directly or by others: a compiler need not read the rest.
pub fn headers_of(text: &str) -> Vec<(&'static str, &'static str)> {
    let mut included = vec![false; HEADERS.len()];
    let mut texts = vec![text];
    while let Some(text) = texts.pop() {
        for (at, (name, body)) in HEADERS.iter().enumerate() {
            if !included[at] && text.contains(&format!("#include \"{name}\"")) {
                included[at] = true;
                texts.push(body);
            }
        }
    }
    HEADERS.iter().zip(included).filter(|(_, included)| *included).map(|(header, _)| *header).collect()
}

/// Brings groups together that lie in few of their slots, each with the number of its slot, so that those alone cross the
/// link ([`crate::parameters::Parameters::compact`]).
pub const COMPACT: &str = include_str!("../kernels/compact.cu");

/// Threads of a block, as `device.cuh` has it.
pub const THREADS: u32 = 128;
/// Rows of a thread in each tile.
pub const ITEMS: u32 = 4;
/// Rows of a tile.
pub const TILE: u32 = THREADS * ITEMS;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_the_headers_of_its_headers() {
        let names = |text: &str| headers_of(text).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        assert!(names("int x;").is_empty());
        assert_eq!(names("#include \"tile.cuh\"\n"), ["device.cuh", "tile.cuh"]);
        let all: String = HEADERS.iter().map(|(name, _)| format!("#include \"{name}\"\n")).collect();
        assert_eq!(names(&all).len(), HEADERS.len());
    }

    #[test]
    fn numbers_are_those_of_the_header() {
        let text = HEADERS[0].1;
        for (name, value) in [("THREADS", THREADS), ("ITEMS", ITEMS), ("BLOCK_ROWS", 65_536)] {
            assert!(text.contains(&format!("constexpr u32 {name} = {value};")), "{name}");
        }
        assert_eq!(forebay_base::limits::BLOCK_ROWS, 65_536);
    }
}
