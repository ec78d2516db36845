// Aggregate: groups whose keys lie close, as slots of 8-byte words. All words begin as 0, whatever they count.
//
// Who calls it: generated kernels. A slot is some words: the number of its rows, then those of each aggregate. Integer
// sums are exact in any order: 16 bytes as two words, the second of which takes the first one's carries. `words` lies in
// device memory, or in a block's shared memory and is flushed at the end. Scratch: none.
#pragma once
#include "order.cuh"

// One part of a group's key: numbers from `low`, NULL behind them.
struct GroupKey {
    i64 low;
    u64 count;
    u64 stride;
};

// Adds a part of the key to the items' slots, of which there are few enough for 4 bytes; items out of range are taken out of
// `pass`.
__device__ __forceinline__ void locate(
    const GroupKey& key, const i64 values[ITEMS], Mask nulls, Mask& pass, u32 slots[ITEMS], u32& faults) {
    Mask is_in = nulls;
    FOR_ITEMS {
        u64 at = (u64)values[i] - (u64)key.low;
        is_in |= (Mask)(at < key.count) << i;
        slots[i] += (is_set(nulls, i) ? (u32)key.count : (u32)at) * (u32)key.stride;
    }
    if ((pass & ~is_in) != 0) faults |= RANGE_FAULT;
    pass &= is_in;
}

__device__ __forceinline__ void add_word(u64* at, u64 value) {
    atomicAdd(at, value);
}

// A 16-byte sum in two words.
__device__ __forceinline__ void add_wide(u64* at, i128 value) {
    u64 low = (u64)value;
    u64 before = atomicAdd(at, low);
    u64 high = (u64)((u128)value >> 64) + (before + low < before ? 1 : 0);
    if (high != 0) atomicAdd(at + 1, high);
}

// A sum of 16-byte numbers in three words, which no number of rows overflows.
__device__ __forceinline__ void add_widest(u64* at, i128 value) {
    u64 low = (u64)value;
    u64 before = atomicAdd(at, low);
    u128 high = (u128)(u64)((u128)value >> 64) + (before + low < before ? 1 : 0);
    before = atomicAdd(at + 1, (u64)high);
    u64 top = (u64)(((u128)before + (u64)high) >> 64) + (u64)(high >> 64) - (value < 0 ? 1 : 0);
    if (top != 0) atomicAdd(at + 2, top);
}

// The same in shared memory, which adds 4 bytes at a time. Gives what is carried out of the word.
__device__ __forceinline__ u32 block_add_word(u64* at, u64 value) {
    u32* halves = (u32*)at;
    u32 low = (u32)value;
    u32 before = atomicAdd(halves, low);
    u64 high = (value >> 32) + (before + low < before ? 1 : 0);
    u32 carry = (u32)(high >> 32);
    if ((u32)high != 0) {
        before = atomicAdd(halves + 1, (u32)high);
        carry += before + (u32)high < before ? 1 : 0;
    }
    return carry;
}
__device__ __forceinline__ void block_add_wide(u64* at, i128 value) {
    u64 high = (u64)((u128)value >> 64) + block_add_word(at, (u64)value);
    if (high != 0) block_add_word(at + 1, high);
}
__device__ __forceinline__ void block_add_widest(u64* at, i128 value) {
    u128 high = (u128)(u64)((u128)value >> 64) + block_add_word(at, (u64)value);
    u64 top = (u64)block_add_word(at + 1, (u64)high) + (u64)(high >> 64) - (value < 0 ? 1 : 0);
    if (top != 0) block_add_word(at + 2, top);
}

__device__ __forceinline__ void add_float(u64* at, f64 value) {
    atomicAdd((f64*)at, value);
}

// Ranks are above 0 and order as the values do, or in the opposite way for the least one.
__device__ __forceinline__ u64 rank_of(i64 key) {
    return (u64)key ^ (1ull << 63);
}
__device__ __forceinline__ u64 greater(u64 a, u64 b) {
    return a > b ? a : b;
}
__device__ __forceinline__ void add_greatest(u64* at, i64 key) {
    atomicMax(at, rank_of(key));
}
__device__ __forceinline__ void add_least(u64* at, i64 key) {
    atomicMax(at, ~rank_of(key));
}

// What the lanes of a warp hold together; valid in lane 0. All lanes call it, once in a kernel: the loops need not be unrolled.
__device__ __forceinline__ u64 warp_sum(u64 value) {
    u32 lane = threadIdx.x % LANES;
#pragma unroll 1
    for (u32 step = LANES / 2; step > 0; step /= 2) value += __shfl_sync(ALL_LANES, value, (lane + step) % LANES);
    return value;
}
__device__ __forceinline__ i128 warp_sum(i128 value) {
    u32 lane = threadIdx.x % LANES;
    u128 sum = (u128)value;
#pragma unroll 1
    for (u32 step = LANES / 2; step > 0; step /= 2) {
        u64 low = __shfl_sync(ALL_LANES, (u64)sum, (lane + step) % LANES);
        u64 high = __shfl_sync(ALL_LANES, (u64)(sum >> 64), (lane + step) % LANES);
        sum += ((u128)high << 64) | low;
    }
    return (i128)sum;
}
__device__ __forceinline__ f64 warp_sum(f64 value) {
    u32 lane = threadIdx.x % LANES;
#pragma unroll 1
    for (u32 step = LANES / 2; step > 0; step /= 2) {
        u64 other = __shfl_sync(ALL_LANES, (u64)__double_as_longlong(value), (lane + step) % LANES);
        value += __longlong_as_double((i64)other);
    }
    return value;
}
__device__ __forceinline__ u64 warp_greatest(u64 value) {
    u32 lane = threadIdx.x % LANES;
#pragma unroll 1
    for (u32 step = LANES / 2; step > 0; step /= 2) {
        u64 other = __shfl_sync(ALL_LANES, value, (lane + step) % LANES);
        value = greater(value, other);
    }
    return value;
}

// Adds a sum of some words, the lowest first, to another one of as many.
__device__ __forceinline__ void merge_sum(u64* to, const u64* from, u32 words) {
    u64 carry = 0;
    for (u32 k = 0; k < words; k++) {
        u128 part = (u128)from[k] + carry;
        u64 before = (u64)part == 0 ? 0 : atomicAdd(to + k, (u64)part);
        carry = (u64)(((u128)before + (u64)part) >> 64) + (u64)(part >> 64);
    }
}

// Sets a block's words to 0. All threads call it, and wait before they use them.
__device__ __forceinline__ void clear_words(u64* words, u64 count) {
    for (u64 k = threadIdx.x; k < count; k += THREADS) words[k] = 0;
}
