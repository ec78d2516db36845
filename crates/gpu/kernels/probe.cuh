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
