//! The headers that kernel texts include, carried in the program.

/// Each header with the name by which it is included.
pub const HEADERS: &[(&str, &str)] = &[
    ("device.cuh", include_str!("../kernels/device.cuh")),
    ("tile.cuh", include_str!("../kernels/tile.cuh")),
    ("load.cuh", include_str!("../kernels/load.cuh")),
    ("compute.cuh", include_str!("../kernels/compute.cuh")),
    ("unpack.cuh", include_str!("../kernels/unpack.cuh")),
    ("filter.cuh", include_str!("../kernels/filter.cuh")),
    ("probe.cuh", include_str!("../kernels/probe.cuh")),
    ("aggregate.cuh", include_str!("../kernels/aggregate.cuh")),
    ("store.cuh", include_str!("../kernels/store.cuh")),
];

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
    fn numbers_are_those_of_the_header() {
        let text = HEADERS[0].1;
        for (name, value) in [("THREADS", THREADS), ("ITEMS", ITEMS), ("BLOCK_ROWS", 65_536)] {
            assert!(text.contains(&format!("constexpr u32 {name} = {value};")), "{name}");
        }
        assert_eq!(forebay_base::limits::BLOCK_ROWS, 65_536);
    }
}
