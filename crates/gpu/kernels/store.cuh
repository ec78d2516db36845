// Store: rows of a result, side by side in columns, in any order.
//
// Who calls it: generated kernels, at the end of a tile; all threads of a block call `reserve` together. Scratch: one
// `Reservation` in shared memory for each block.
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

struct Reservation {
    u32 counts[WARPS];
    u64 first;
};

// Where the thread's first row goes; its others follow. Rows for which there is no room are taken out of `pass`.
__device__ __forceinline__ u64 reserve(Reservation& shared, const Room& room, Mask& pass, u32& faults) {
    static_assert(ITEMS < 8, "a number of items has three bits");
    u32 lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
    u32 own = (u32)__popc(pass), before = 0, total = 0;
    for (u32 bit = 0; bit < 3; bit++) {
        u32 votes = __ballot_sync(ALL_LANES, (int)(own >> bit & 1));
        before += (u32)__popc(votes & ((1u << lane) - 1)) << bit;
        total += (u32)__popc(votes) << bit;
    }
    if (lane == 0) shared.counts[warp] = total;
    __syncthreads();
    if (threadIdx.x == 0) {
        u32 rows = 0;
        for (u32 k = 0; k < WARPS; k++) rows += shared.counts[k];
        shared.first = rows == 0 ? 0 : atomicAdd(room.rows, (u64)rows);
    }
    __syncthreads();
    u64 at = shared.first + before;
    for (u32 k = 0; k + 1 < WARPS; k++) at += k < warp ? shared.counts[k] : 0;
    // The scratch is written again for the next tile.
    __syncthreads();
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
    FOR_ITEMS {
        if (is_set(pass, i)) *to = values.item[i];
        to += pass >> i & 1;
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
