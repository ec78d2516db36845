// Probe: look-ups in build sides that lie dense: a bitmap of the keys there are, payload in arrays by key.
//
// Who calls it: generated kernels. Keys are one integer; no two rows of the build side have the same one, unless nothing
// but the bitmap is asked. Results are valid in the calling thread. Scratch: none.
#pragma once
#include "device.cuh"

struct Build {
    // Bit `key - low` of 4-byte words.
    u32* present;
    i64 low;
    // Number of keys that there is room for; less than 2^32.
    u64 span;
};

struct Payload {
    void* values;
    // Bits as in `present`: the payload is not NULL. Null where no payload can be.
    u32* valid;
    // An 8-byte integer is the base and an entry of 1, 2, 4 or 8 bytes without a sign; other values are entries themselves.
    i64 base;
    u64 entry_bytes;
};

// The place of a key that is within the span.
__device__ __forceinline__ u32 place_of(const Build& build, i64 key) {
    return (u32)key - (u32)build.low;
}

struct Keys {
    i64 item[ITEMS];
};
// The items of `pass` whose key is there.
__device__ __noinline__ Mask probe_keys(u32* present, i64 low, u64 span, Keys keys, Mask pass) {
    Mask found = 0;
    FOR_ITEMS {
        u64 far = (u64)keys.item[i] - (u64)low;
        u32 at = (u32)keys.item[i] - (u32)low;
        if (is_set(pass, i) && far < span) found |= (__ldg(present + at / 32) >> at % 32 & 1) << i;
    }
    return found;
}
__device__ __forceinline__ Mask probe(const Build& build, const i64 keys[ITEMS], Mask pass) {
    Keys k;
    FOR_ITEMS k.item[i] = keys[i];
    return probe_keys(build.present, build.low, build.span, k, pass);
}
// The entries of `found` items.
template <class E>
__device__ __forceinline__ Keys gather_entries(const void* values, i64 low, i64 base, const Keys& keys, Mask found) {
    Keys out;
    FOR_ITEMS {
        u32 at = (u32)keys.item[i] - (u32)low;
        out.item[i] = is_set(found, i) ? (i64)((u64)base + __ldg((const E*)values + at)) : 0;
    }
    return out;
}
__device__ __noinline__ Keys gather_integers(
    const void* values, u32 entry_bytes, i64 low, i64 base, Keys keys, Mask found) {
    if (entry_bytes == 1) return gather_entries<u8>(values, low, base, keys, found);
    if (entry_bytes == 2) return gather_entries<u16>(values, low, base, keys, found);
    if (entry_bytes == 4) return gather_entries<u32>(values, low, base, keys, found);
    return gather_entries<u64>(values, low, base, keys, found);
}
__device__ __forceinline__ void gather(
    const Payload& payload, const Build& build, const i64 keys[ITEMS], Mask found, i64 out[ITEMS]) {
    Keys k;
    FOR_ITEMS k.item[i] = keys[i];
    k = gather_integers(payload.values, (u32)payload.entry_bytes, build.low, payload.base, k, found);
    FOR_ITEMS out[i] = k.item[i];
}
// The payload of `found` items.
template <class V>
__device__ __forceinline__ void gather(
    const Payload& payload, const Build& build, const i64 keys[ITEMS], Mask found, V out[ITEMS]) {
    const V* values = (const V*)payload.values;
    FOR_ITEMS {
        u32 at = place_of(build, keys[i]);
        out[i] = is_set(found, i) ? values[at] : V();
    }
}

__device__ __forceinline__ Mask gather_truth(
    const Payload& payload, const Build& build, const i64 keys[ITEMS], Mask found) {
    Mask truth = 0;
    FOR_ITEMS {
        if (is_set(found, i)) truth |= (Mask)((const u8*)payload.values)[place_of(build, keys[i])] << i;
    }
    return truth;
}

// The `found` items whose payload is NULL.
__device__ __forceinline__ Mask gather_nulls(
    const Payload& payload, const Build& build, const i64 keys[ITEMS], Mask found) {
    Mask nulls = 0;
    FOR_ITEMS {
        u32 at = place_of(build, keys[i]);
        if (is_set(found, i)) nulls |= (~payload.valid[at / 32] >> at % 32 & 1) << i;
    }
    return nulls;
}

// Enters the keys of `pass`; the items that came first with their key, whose payload is theirs to store.
__device__ __forceinline__ Mask enter(const Build& build, const i64 keys[ITEMS], Mask pass, u32& faults) {
    Mask first = 0;
    FOR_ITEMS {
        u64 at = (u64)keys[i] - (u64)build.low;
        if (!is_set(pass, i)) continue;
        if (at >= build.span) {
            faults |= RANGE_FAULT;
        } else if ((atomicOr(&build.present[(u32)at / 32], 1u << at % 32) >> at % 32 & 1) != 0) {
            faults |= DUPLICATE_FAULT;
        } else {
            first |= 1u << i;
        }
    }
    return first;
}

// Adds to a counter what the lanes of a warp have counted. All lanes call it.
__device__ __forceinline__ void add_entered(u64* counter, u32 own) {
    u32 lane = threadIdx.x % LANES;
    u64 entered = own;
#pragma unroll 1
    for (u32 step = LANES / 2; step > 0; step /= 2) entered += __shfl_sync(ALL_LANES, entered, (lane + step) % LANES);
    if (lane == 0 && entered != 0) atomicAdd(counter, entered);
}

// Stores integers as entries; one that no entry can hold is a fault.
__device__ __forceinline__ void scatter(
    const Payload& payload, const Build& build, const i64 keys[ITEMS], Mask first, const i64 from[ITEMS], u32& faults) {
    FOR_ITEMS {
        if (!is_set(first, i)) continue;
        u32 at = place_of(build, keys[i]);
        u64 entry = (u64)from[i] - (u64)payload.base;
        if (payload.entry_bytes < 8 && entry >> payload.entry_bytes * 8 != 0) faults |= RANGE_FAULT;
        if (payload.entry_bytes == 1) ((u8*)payload.values)[at] = (u8)entry;
        else if (payload.entry_bytes == 2) ((u16*)payload.values)[at] = (u16)entry;
        else if (payload.entry_bytes == 4) ((u32*)payload.values)[at] = (u32)entry;
        else ((u64*)payload.values)[at] = entry;
    }
}

template <class V>
__device__ __forceinline__ void scatter(
    const Payload& payload, const Build& build, const i64 keys[ITEMS], Mask first, const V from[ITEMS]) {
    FOR_ITEMS if (is_set(first, i)) ((V*)payload.values)[place_of(build, keys[i])] = from[i];
}

__device__ __forceinline__ void scatter_truth(
    const Payload& payload, const Build& build, const i64 keys[ITEMS], Mask first, Mask truth) {
    FOR_ITEMS {
        if (is_set(first, i)) ((u8*)payload.values)[place_of(build, keys[i])] = (u8)is_set(truth, i);
    }
}

__device__ __forceinline__ void scatter_valid(
    const Payload& payload, const Build& build, const i64 keys[ITEMS], Mask valid) {
    FOR_ITEMS {
        u32 at = place_of(build, keys[i]);
        if (is_set(valid, i)) atomicOr(&payload.valid[at / 32], 1u << at % 32);
    }
}
