// Load: a thread's items from memory into registers.
//
// Who calls it: unpack.cuh and filter.cuh. Results are valid in the calling thread. Scratch: none.
//
// A thread whose rows are not all there reads ITEMS of them, too: what is read so begins at a multiple of its own size, and
// sections of blocks are padded (docs/format.md, SECTION_ALIGN). Items that are no rows are anything.
#pragma once
#include "tile.cuh"

// The codes of the items: of up to 4 bytes in `low`, with 0 above. The width is the same for all threads; without codes all are 0.
__device__ __forceinline__ void load_codes(const Column& c, u32 row, u32 low[ITEMS], u32 high[ITEMS]) {
    static_assert(ITEMS == 4, "the items of a thread are 4, 8, 16 or 32 bytes");
    FOR_ITEMS low[i] = high[i] = 0;
    if (c.width == 0) return;
    const void* from = (const u8*)c.codes + (u64)row * c.width;
    if (c.width >= 4) {
        uint4 words = __ldg((const uint4*)from);
        low[0] = words.x, low[1] = words.y, low[2] = words.z, low[3] = words.w;
        if (c.width == 8) {
            uint4 second = __ldg((const uint4*)from + 1);
            low[1] = words.z, low[2] = second.x, low[3] = second.z;
            high[0] = words.y, high[1] = words.w, high[2] = second.y, high[3] = second.w;
        }
        return;
    }
    uint2 pairs;
    if (c.width == 2) {
        pairs = __ldg((const uint2*)from);
    } else {
        u32 word = __ldg((const u32*)from);
        pairs.x = (word & 0xff) | (word & 0xff00) << 8, pairs.y = (word >> 16 & 0xff) | (word >> 24) << 16;
    }
    low[0] = pairs.x & 0xffff, low[1] = pairs.x >> 16, low[2] = pairs.y & 0xffff, low[3] = pairs.y >> 16;
}

__device__ __forceinline__ u64 whole(u32 low, u32 high) {
    return (u64)high << 32 | low;
}

// The items that are NULL, of a thread that has rows.
__device__ __forceinline__ Mask nulls_at(const Column& c, u32 row) {
    if (c.form == ALL_NULL) return ALL_ITEMS;
    if (c.validity == nullptr) return 0;
    static_assert(8 % ITEMS == 0, "the items of a thread lie in one byte");
    return ~(Mask)(__ldg(c.validity + row / 8) >> row % 8) & ALL_ITEMS;
}

__device__ __forceinline__ Mask load_nulls(const Column& c, const Tile& tile) {
    return tile.rows == 0 ? 0 : nulls_at(c, tile.row);
}
