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

// What the test compares: codes, or the numbers of a plain block; those of 16 bytes have no lanes. Numbers are loaded as codes
// are, by their width, and become signed or the keys of floats by their type (PhysicalType of forebay-base).
__device__ __forceinline__ void load_lanes(const Column& c, const Tile& tile, u64 lanes[ITEMS]) {
    bool is_plain = c.form == PLAIN;
    bool is_float = is_plain && c.type >= 10;
    u32 width = !is_plain ? c.width : is_float ? c.type == 10 ? 4 : 8 : 1u << (c.type - 1) % 5;
    load_codes(is_plain ? c.values : c.codes, width, tile, lanes);
    if (is_float) {
        FOR_ITEMS {
            f64 value = width == 4 ? (f64)__uint_as_float((u32)lanes[i]) : __longlong_as_double((i64)lanes[i]);
            lanes[i] = (u64)order_key(canonical(value));
        }
    } else if (is_plain && c.type < 4) {
        u32 above = 64 - 8 * width;
        FOR_ITEMS lanes[i] = (u64)((i64)(lanes[i] << above) >> above);
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
