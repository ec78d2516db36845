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

// Where the thread's first row goes; its others follow.
__device__ __forceinline__ u64 reserve(Reservation& shared, const Room& room, Mask pass, u32& faults) {
    u32 lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
    u32 own = (u32)__popc(pass), up_to = own;
    for (u32 step = 1; step < LANES; step *= 2) {
        u32 other = __shfl_sync(ALL_LANES, up_to, lane >= step ? lane - step : lane);
        if (lane >= step) up_to += other;
    }
    if (lane == LANES - 1) shared.counts[warp] = up_to;
    __syncthreads();
    if (threadIdx.x == 0) {
        u64 total = 0;
        for (u32 k = 0; k < WARPS; k++) total += shared.counts[k];
        shared.first = total == 0 ? 0 : atomicAdd(room.rows, total);
    }
    __syncthreads();
    u64 at = shared.first + up_to - own;
    for (u32 k = 0; k < warp; k++) at += shared.counts[k];
    // The scratch is written again for the next tile.
    __syncthreads();
    if (own != 0 && at + own > room.capacity) faults |= FULL_FAULT;
    return at;
}

template <class V>
__device__ __forceinline__ void store(
    const Output& output, const Room& room, u64 at, Mask pass, const V values[ITEMS], Mask nulls) {
    FOR_ITEMS {
        u64 row = at + (u32)__popc(pass & ((1u << i) - 1));
        if (!is_set(pass, i) || row >= room.capacity) continue;
        ((V*)output.values)[row] = values[i];
        if (output.nulls != nullptr) output.nulls[row] = (u8)is_set(nulls, i);
    }
}

__device__ __forceinline__ void store_truth(
    const Output& output, const Room& room, u64 at, Mask pass, Mask truth, Mask nulls) {
    u8 values[ITEMS];
    FOR_ITEMS values[i] = (u8)is_set(truth, i);
    store<u8>(output, room, at, pass, values, nulls);
}
