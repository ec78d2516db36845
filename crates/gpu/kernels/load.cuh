// Load: a thread's items from memory into registers, as wide as they lie there.
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

// The items that are NULL.
__device__ __forceinline__ Mask load_nulls(const Column& column, const Tile& tile) {
    if (column.form == ALL_NULL) return ALL_ITEMS;
    if (column.validity == nullptr || tile.rows == 0) return 0;
    static_assert(8 % ITEMS == 0, "the items of a thread lie in one byte");
    return ~(Mask)(column.validity[tile.row / 8] >> tile.row % 8) & ALL_ITEMS;
}
