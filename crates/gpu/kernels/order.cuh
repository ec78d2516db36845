// Order: the one form of floats, and integers that order as values do (base/src/value.rs).
//
// Who calls it: unpack.cuh, filter.cuh, compute.cuh and generated kernels, item by item. Scratch: none.
#pragma once
#include "device.cuh"

// One NaN, one zero.
__device__ __forceinline__ f64 canonical(f64 value) {
    return value != value ? __longlong_as_double(0x7ff8000000000000ll) : value + 0.0;
}

// An integer that orders as the value does; NaN is above all floats.
__device__ __forceinline__ i64 order_key(i64 value) {
    return value;
}
__device__ __forceinline__ i128 order_key(i128 value) {
    return value;
}
__device__ __forceinline__ i64 order_key(f64 value) {
    i64 bits = __double_as_longlong(value);
    return value != value ? 0x7fffffffffffffffll : bits ^ (i64)((u64)(bits >> 63) >> 1);
}
