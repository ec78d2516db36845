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

__device__ __forceinline__ bool passes(const Test& test, u64 lane) {
    if (test.kind == MEMBERS) {
        u64 at = lane - test.low;
        return at <= test.span && (test.words[at / 64] >> at % 64 & 1) != 0;
    }
    bool found = lane - test.low <= test.span;
    for (u32 k = 1; k < test.count; k++) found |= lane - test.words[2 * k] <= test.words[2 * k + 1];
    return found != (test.negated != 0);
}

template <class T> __device__ __forceinline__ u64 lane_of(T value) {
    return (u64)(i64)value;
}
template <> __device__ __forceinline__ u64 lane_of<f32>(f32 value) {
    return (u64)order_key(canonical((f64)value));
}
template <> __device__ __forceinline__ u64 lane_of<f64>(f64 value) {
    return (u64)order_key(canonical(value));
}

template <class W>
__device__ __forceinline__ Mask filter_words(const Test& test, const void* from, const Tile& tile, Mask pass) {
    W words[ITEMS];
    load<W>(from, tile, words);
    Mask found = 0;
    FOR_ITEMS if (is_set(pass, i)) found |= (Mask)passes(test, lane_of(words[i])) << i;
    return found;
}

// Lanes of a plain block, by the code of its type. Numbers of 16 bytes have none.
__device__ __forceinline__ Mask filter_plain(const Test& test, const Column& c, const Tile& tile, Mask pass) {
    switch (c.type) {
        case 1: return filter_words<i8>(test, c.values, tile, pass);
        case 2: return filter_words<i16>(test, c.values, tile, pass);
        case 3: return filter_words<i32>(test, c.values, tile, pass);
        case 6: return filter_words<u8>(test, c.values, tile, pass);
        case 7: return filter_words<u16>(test, c.values, tile, pass);
        case 8: return filter_words<u32>(test, c.values, tile, pass);
        case 10: return filter_words<f32>(test, c.values, tile, pass);
        case 11: return filter_words<f64>(test, c.values, tile, pass);
        default: return filter_words<u64>(test, c.values, tile, pass);
    }
}

// The items of `pass` that pass.
__device__ __forceinline__ Mask filter(const Test& test, const Column& c, const Tile& tile, Mask pass) {
    if (test.kind == ALWAYS || pass == 0) return pass;
    if (test.kind == NEVER) return 0;
    Mask nulls = load_nulls(c, tile);
    if (test.kind == NULLS) return pass & nulls;
    pass &= ~nulls;
    if (test.kind == VALID) return pass;
    if (c.form == PLAIN) return filter_plain(test, c, tile, pass);
    if (c.width == 1) return filter_words<u8>(test, c.codes, tile, pass);
    if (c.width == 2) return filter_words<u16>(test, c.codes, tile, pass);
    if (c.width == 4) return filter_words<u32>(test, c.codes, tile, pass);
    return filter_words<u64>(test, c.codes, tile, pass);
}
