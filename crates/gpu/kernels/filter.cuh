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

// Whether a lane is among those of a test that are named, whatever they are.
__device__ __forceinline__ bool is_named(const Test& test, u64 lane, u64 flip) {
    u64 at = lane - test.low - flip;
    bool is_in = at <= test.span;
    if (test.kind == MEMBERS) return is_in && (test.words[at / 64] >> at % 64 & 1) != 0;
#pragma unroll 1
    for (u32 k = 1; k < test.count && !is_in; k++) is_in = lane - test.words[2 * k] - flip <= test.words[2 * k + 1];
    return is_in;
}

// Lanes of 8 bytes, floats, and tests of several ranges: the items pass through the registers, so that the text is there once.
__device__ __forceinline__ Mask find_lanes(
    const Test& test, const Column& c, u32 low[ITEMS], u32 high[ITEMS], Mask pass) {
    Mask found = 0;
#pragma unroll 1
    for (u32 item = 0; item < ITEMS; item++) {
        u64 lane = whole(low[0] ^ c.flip, high[0]);
        for (u32 i = 0; i + 1 < ITEMS; i++) low[i] = low[i + 1], high[i] = high[i + 1];
        if (!is_set(pass, item)) continue;
        if (c.form == PLAIN) {
            f64 value = c.width == 4 ? (f64)__uint_as_float((u32)lane) : __longlong_as_double((i64)lane);
            lane = (u64)order_key(canonical(value));
        }
        found |= (Mask)is_named(test, lane, c.flip) << item;
    }
    return found;
}

// Lanes of up to 4 bytes in one range, or with a bit each.
__device__ __forceinline__ Mask find_narrow(const Test& test, const u32 lanes[ITEMS], u32 low, Mask pass) {
    u32 span = (u32)test.span;
    Mask found = 0;
    if (test.kind == RANGES) {
        FOR_ITEMS found |= (Mask)(lanes[i] - low <= span) << i;
        return found;
    }
    FOR_ITEMS {
        u32 at = lanes[i] - low;
        if (is_set(pass, i) && at <= span) found |= (__ldg((const u32*)test.words + at / 32) >> at % 32 & 1) << i;
    }
    return found;
}

// Like unpack_bits, no part of its callers. Lanes are flipped as values are, and so are ranges: they need no sign.
__device__ __noinline__ Mask filter_rows(const Test* own, const Column* column, u32 row, Mask pass) {
    const Test test = *own;
    Column c = *column;
    if (test.kind == ALWAYS || pass == 0) return pass;
    if (test.kind == NEVER) return 0;
    Mask nulls = nulls_at(c, row);
    if (test.kind == NULLS) return pass & nulls;
    pass &= ~nulls;
    if (test.kind == VALID) return pass;
    u32 low[ITEMS], high[ITEMS];
    load_codes(c, row, low, high);
    // A dictionary's flip is for its values.
    if (c.form == DICTIONARY) c.flip = 0;
    u64 first = test.low + c.flip;
    bool is_narrow = c.width <= 4 && c.form != PLAIN && test.count <= 1 && (first | (first + test.span)) >> 32 == 0;
    if (!is_narrow) {
        Mask found = find_lanes(test, c, low, high, pass);
        return pass & (test.negated != 0 ? ~found : found);
    }
    FOR_ITEMS low[i] ^= c.flip;
    Mask found = find_narrow(test, low, (u32)first, pass);
    return pass & (test.negated != 0 ? ~found : found);
}

// The items of `pass` that pass.
__device__ __forceinline__ Mask filter(const Test& test, const Column& c, const Tile& tile, Mask pass) {
    return filter_rows(&test, &c, tile.row, pass);
}
