// Load: a thread's items from memory into registers.
//
// Who calls it: unpack.cuh and filter.cuh. Results are valid in the calling thread, at the items of `tile.rows`; other
// items are 0. Scratch: none.
#pragma once
#include "tile.cuh"

// The items of a thread, read with few instructions of up to 16 bytes.
template <class W> struct alignas(sizeof(W) * ITEMS < 16 ? sizeof(W) * ITEMS : 16) Pack {
    W item[ITEMS];
};

template <class W> __device__ __forceinline__ void load(const void* from, const Tile& tile, W out[ITEMS]) {
    const W* first = (const W*)from + tile.row;
    if (tile.rows == ALL_ITEMS) {
        Pack<W> pack = *(const Pack<W>*)first;
        FOR_ITEMS out[i] = pack.item[i];
    } else {
        FOR_ITEMS out[i] = is_set(tile.rows, i) ? first[i] : W();
    }
}

// Unsigned numbers of `width` bytes: 1, 2, 4 or 8, the same for all threads.
__device__ __forceinline__ u64 code_at(const void* from, u32 width, u64 row) {
    switch (width) {
        case 1: return ((const u8*)from)[row];
        case 2: return ((const u16*)from)[row];
        case 4: return ((const u32*)from)[row];
        default: return ((const u64*)from)[row];
    }
}

template <class W> __device__ __forceinline__ void load_pack(const void* from, const Tile& tile, u64 out[ITEMS]) {
    Pack<W> pack = *(const Pack<W>*)((const W*)from + tile.row);
    FOR_ITEMS out[i] = pack.item[i];
}

// The items as unsigned numbers of `width` bytes. Threads with less than ITEMS rows, of which a block has one, take them one by
// one: they pass through the registers, so that the text is there once.
__device__ __forceinline__ void load_codes(const void* from, u32 width, const Tile& tile, u64 out[ITEMS]) {
    if (tile.rows == ALL_ITEMS) {
        switch (width) {
            case 1: return load_pack<u8>(from, tile, out);
            case 2: return load_pack<u16>(from, tile, out);
            case 4: return load_pack<u32>(from, tile, out);
            default: return load_pack<u64>(from, tile, out);
        }
    }
    FOR_ITEMS out[i] = 0;
#pragma unroll 1
    for (u32 item = 0; item < ITEMS; item++) {
        u64 code = is_set(tile.rows, item) ? code_at(from, width, tile.row + item) : 0;
        for (u32 i = 0; i + 1 < ITEMS; i++) out[i] = out[i + 1];
        out[ITEMS - 1] = code;
    }
}

// The items that are NULL.
__device__ __forceinline__ Mask load_nulls(const Column& column, const Tile& tile) {
    if (column.form == ALL_NULL) return ALL_ITEMS;
    if (column.validity == nullptr || tile.rows == 0) return 0;
    static_assert(8 % ITEMS == 0, "the items of a thread lie in one byte");
    return ~(Mask)(column.validity[tile.row / 8] >> tile.row % 8) & ALL_ITEMS;
}
