// Filter: a test of a scan, in the terms of one block: what the codes must be, not the values (Data Blocks, section 3.4).
//
// Who calls it: generated kernels, once for each test, before anything is unpacked. The host translated the test for
// every block. The result is valid in the calling thread. Scratch: none.
#pragma once
#include "load.cuh"
#include "order.cuh"

enum TestKind : u32 { NEVER, ALWAYS, VALID, NULLS, RANGES, MEMBERS };

// Lanes from `low` to `span` above it.
struct Range {
    u64 low;
    u64 span;
};

// A test, translated for a block. Lanes are codes, or plain integers sign-extended, or keys of plain floats.
struct alignas(16) Test {
    // RANGES: each `Range`. MEMBERS: bit `lane - first.low`.
    const void* words;
    // RANGES: the first one, too. MEMBERS: what the bits are of.
    Range first;
    u32 kind;
    // RANGES: how many.
    u32 count;
    // RANGES: lanes pass that are in none.
    u32 negated;
    u32 unused;
    u64 unused_too;
};

// The items whose lanes are in one of the ranges. Read as all others are, the first one needs no text of its own.
__device__ __forceinline__ Mask find_ranges(const Test& test, const Range* first, const u64 lanes[ITEMS], u64 flip) {
    Mask found = 0;
    const Range* range = first;
    u32 number = 0;
#pragma unroll 1
    do {
        u64 low = range->low + flip, span = range->span;
        FOR_ITEMS found |= (Mask)(lanes[i] - low <= span) << i;
        range = (const Range*)test.words + ++number;
    } while (number < test.count);
    return found;
}

// The items whose lanes have a bit that is set.
__device__ __forceinline__ Mask find_members(const Test& test, const u64 lanes[ITEMS], u64 flip, Mask pass) {
    Mask found = 0;
    FOR_ITEMS {
        u64 far = lanes[i] - test.first.low - flip;
        u32 at = (u32)far;
        bool is_in = is_set(pass, i) && far <= test.first.span;
        if (is_in) found |= (__ldg((const u32*)test.words + at / 32) >> at % 32 & 1) << i;
    }
    return found;
}

// Like unpack_bits, no part of its callers; of floats in texts alone that test some. Lanes are flipped as values are, and so are ranges: they need no sign.
template <bool ARE_FLOATS>
__device__ __noinline__ Mask filter_rows(const Test* own, const Column* column, u32 row, Mask pass) {
    const Test test = *own;
    const Column c = *column;
    if (test.kind <= ALWAYS || pass == 0) return test.kind == NEVER ? 0 : pass;
    Mask nulls = nulls_at(c, row);
    if (test.kind <= NULLS) return pass & (test.kind == NULLS ? nulls : ~nulls);
    pass &= ~nulls;
    u32 low[ITEMS], high[ITEMS];
    load_codes(c, row, low, high);
    // A dictionary's flip is for its values.
    u32 flip = c.form == DICTIONARY ? 0 : c.flip;
    u64 from = test.first.low + flip;
    // Most tests are one range of lanes of 4 bytes, which are compared as such.
    bool is_short = test.kind == RANGES && test.count == 1 && c.width <= 4 && !(ARE_FLOATS && c.form == PLAIN);
    if (is_short && from >> 32 == 0 && test.first.span <= 0xffffffffu - from) {
        Mask short_found = 0;
        FOR_ITEMS short_found |= (Mask)((low[i] ^ flip) - (u32)from <= (u32)test.first.span) << i;
        return pass & (test.negated != 0 ? ~short_found : short_found);
    }
    u64 lanes[ITEMS];
    FOR_ITEMS {
        lanes[i] = whole(low[i] ^ flip, high[i]);
        if (ARE_FLOATS && c.form == PLAIN) {
            f64 value = c.width == 4 ? (f64)__uint_as_float(low[i]) : __longlong_as_double((i64)lanes[i]);
            lanes[i] = (u64)order_key(canonical(value));
        }
    }
    bool is_ranges = test.kind == RANGES;
    Mask found = is_ranges ? find_ranges(test, &own->first, lanes, flip) : find_members(test, lanes, flip, pass);
    return pass & (test.negated != 0 ? ~found : found);
}

// The items of `pass` that pass a test of integers or strings.
__device__ __forceinline__ Mask filter(const Test& test, const Column& c, const Tile& tile, Mask pass) {
    return filter_rows<false>(&test, &c, tile.row, pass);
}

// The same for a test that names floats.
__device__ __forceinline__ Mask filter_floats(const Test& test, const Column& c, const Tile& tile, Mask pass) {
    return filter_rows<true>(&test, &c, tile.row, pass);
}
