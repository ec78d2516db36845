// Filter: a test of a scan, in the terms of one block: what the codes must be, not the values (Data Blocks, section 3.4).
//
// Who calls it: generated kernels, once for each test, before anything is unpacked. The host translated the test for
// every block. The result is valid in the calling thread. Scratch: none.
#pragma once
#include "compute.cuh"
#include "load.cuh"

enum TestKind : u32 { NEVER, ALWAYS, VALID, NULLS, RANGES, MEMBERS };

// A test, translated for a block. Lanes are codes, or plain integers sign-extended, or keys of plain floats.
struct Test {
    // RANGES: pairs of a least lane and how far the range goes above it. MEMBERS: bit `lane - low`.
    const u64* words;
    u64 low;
    // MEMBERS: greatest lane less `low`.
    u64 span;
    u32 kind;
    // RANGES: number of pairs. The first one stands in `low` and `span`, too.
    u32 count;
    // RANGES: lanes pass that are in none.
    u32 negated;
    u32 unused;
};

template <class T> __device__ __forceinline__ u64 lane_of(T value) {
    return (u64)(i64)value;
}
template <> __device__ __forceinline__ u64 lane_of<f32>(f32 value) {
    return (u64)order_key(canonical((f64)value));
}
template <> __device__ __forceinline__ u64 lane_of<f64>(f64 value) {
    return (u64)order_key(canonical(value));
}

template <class W> __device__ __forceinline__ void load_as_lanes(const void* from, const Tile& tile, u64 lanes[ITEMS]) {
    W words[ITEMS];
    load<W>(from, tile, words);
    FOR_ITEMS lanes[i] = lane_of(words[i]);
}

// What the test compares: codes, or the numbers of a plain block by the code of its type; those of 16 bytes have no lanes.
__device__ __forceinline__ void load_lanes(const Column& c, const Tile& tile, u64 lanes[ITEMS]) {
    // Codes are read as the unsigned numbers of their width.
    u32 type = c.form == PLAIN ? c.type : c.width == 1 ? 6 : c.width == 2 ? 7 : c.width == 4 ? 8 : 9;
    const void* from = c.form == PLAIN ? c.values : c.codes;
    switch (type) {
        case 1: return load_as_lanes<i8>(from, tile, lanes);
        case 2: return load_as_lanes<i16>(from, tile, lanes);
        case 3: return load_as_lanes<i32>(from, tile, lanes);
        case 6: return load_as_lanes<u8>(from, tile, lanes);
        case 7: return load_as_lanes<u16>(from, tile, lanes);
        case 8: return load_as_lanes<u32>(from, tile, lanes);
        case 10: return load_as_lanes<f32>(from, tile, lanes);
        case 11: return load_as_lanes<f64>(from, tile, lanes);
        default: return load_as_lanes<u64>(from, tile, lanes);
    }
}

// The items of `pass` that pass. The comparison stands here once, whatever the lanes are: it is most of the code.
__device__ __forceinline__ Mask filter(const Test& test, const Column& c, const Tile& tile, Mask pass) {
    if (test.kind == ALWAYS || pass == 0) return pass;
    if (test.kind == NEVER) return 0;
    Mask nulls = load_nulls(c, tile);
    if (test.kind == NULLS) return pass & nulls;
    pass &= ~nulls;
    if (test.kind == VALID) return pass;
    u64 lanes[ITEMS];
    load_lanes(c, tile, lanes);
    Mask found = 0;
    FOR_ITEMS found |= (Mask)(lanes[i] - test.low <= test.span) << i;
    if (test.kind == MEMBERS) {
        FOR_ITEMS {
            u64 at = lanes[i] - test.low;
            if (is_set(found & pass, i) && (test.words[at / 64] >> at % 64 & 1) == 0) found &= ~(1u << i);
        }
        return pass & found;
    }
#pragma unroll 1
    for (u32 k = 1; k < test.count; k++) {
        u64 low = test.words[2 * k], span = test.words[2 * k + 1];
        FOR_ITEMS found |= (Mask)(lanes[i] - low <= span) << i;
    }
    return pass & (test.negated != 0 ? ~found : found);
}
