// Store: rows of a result, side by side in columns, in any order.
//
// Who calls it: generated kernels, at the end of a tile; all lanes of a warp call `reserve` together. Scratch: none.
#pragma once
#include "device.cuh"

struct Output {
    void* values;
    // One byte for each row, 1 = NULL; null where no value can be.
    u8* nulls;
};

struct Room {
    // Rows that were given out, also beyond the capacity.
    u64* rows;
    u64 capacity;
};

// Where the thread's first row goes; its others follow. Each warp takes room of its own: what is stored so crosses the link,
// which is slower than that. Rows for which there is no room are taken out of `pass`.
__device__ __forceinline__ u64 reserve(const Room& room, Mask& pass, u32& faults) {
    static_assert(ITEMS < 8, "a number of items has three bits");
    u32 lane = threadIdx.x % LANES, own = (u32)__popc(pass), before = 0, total = 0;
    for (u32 bit = 0; bit < 3; bit++) {
        u32 votes = __ballot_sync(ALL_LANES, (int)(own >> bit & 1));
        before += (u32)__popc(votes & ((1u << lane) - 1)) << bit;
        total += (u32)__popc(votes) << bit;
    }
    u64 first = 0;
    if (lane == 0 && total != 0) first = atomicAdd(room.rows, (u64)total);
    u64 at = __shfl_sync(ALL_LANES, first, 0) + before;
    if (own != 0 && at + own > room.capacity) {
        faults |= FULL_FAULT;
        pass = 0;
    }
    return at;
}

template <class V> struct Values {
    V item[ITEMS];
};

// An item lies behind those of `pass` before it. No part of its callers, like unpack_bits.
template <class V> __device__ __noinline__ void store_values(V* to, Mask pass, Values<V> values) {
    u32 at = 0;
    FOR_ITEMS {
        if (is_set(pass, i)) to[at] = values.item[i];
        at += pass >> i & 1;
    }
}

template <class V>
__device__ __forceinline__ void store(const Output& output, u64 at, Mask pass, const V values[ITEMS]) {
    Values<V> own;
    FOR_ITEMS own.item[i] = values[i];
    store_values((V*)output.values + at, pass, own);
}

// Truths, and which values of a column are NULL, a byte each.
__device__ __forceinline__ void store_bits(u8* to, Mask pass, Mask bits) {
    Values<u8> own;
    FOR_ITEMS own.item[i] = (u8)is_set(bits, i);
    store_values(to, pass, own);
}

__device__ __forceinline__ void store_truth(const Output& output, u64 at, Mask pass, Mask truth) {
    store_bits((u8*)output.values + at, pass, truth);
}

__device__ __forceinline__ void store_nulls(const Output& output, u64 at, Mask pass, Mask nulls) {
    store_bits(output.nulls + at, pass, nulls);
}
