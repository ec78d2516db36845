// Unpack: values of a column by its access form, which is a parameter of the block and the same for all its threads.
//
// Who calls it: generated kernels, where a column is first needed. `T` is the type that the table stores, `V` the one that
// is computed with. Results are valid in the calling thread at the items of `pass`; elsewhere, and where the value is
// NULL, they are anything. Scratch: none.
#pragma once
#include "compute.cuh"
#include "load.cuh"

template <class T> struct Stored {
    static constexpr bool is_float = false;
    static __device__ __forceinline__ T of_base(const Column& c) {
        return (T)(((u128)c.base_high << 64) | c.base_low);
    }
};
template <> struct Stored<f32> {
    static constexpr bool is_float = true;
    static __device__ __forceinline__ f32 of_base(const Column& c) {
        return __uint_as_float((u32)c.base_low);
    }
};
template <> struct Stored<f64> {
    static constexpr bool is_float = true;
    static __device__ __forceinline__ f64 of_base(const Column& c) {
        return __longlong_as_double((i64)c.base_low);
    }
};

template <class V, class T> __device__ __forceinline__ V widen(T value) {
    if constexpr (Stored<T>::is_float) {
        return canonical((f64)value);
    } else {
        return (V)value;
    }
}

template <class T, class V, class W>
__device__ __forceinline__ void unpack_codes(const Column& c, const Tile& tile, V out[ITEMS]) {
    W codes[ITEMS];
    load<W>(c.codes, tile, codes);
    if (c.form == DICTIONARY) {
        const T* values = (const T*)c.values;
        FOR_ITEMS out[i] = widen<V>(values[codes[i]]);
    } else if constexpr (!Stored<T>::is_float) {
        u128 base = ((u128)c.base_high << 64) | c.base_low;
        if constexpr (sizeof(T) <= 8) {
            FOR_ITEMS out[i] = widen<V>((T)((u64)base + (u64)codes[i]));
        } else {
            FOR_ITEMS out[i] = widen<V>((T)(base + codes[i]));
        }
    }
}

template <class T, class V>
__device__ __forceinline__ void unpack(const Column& c, const Tile& tile, Mask pass, V out[ITEMS]) {
    FOR_ITEMS out[i] = V();
    if (pass == 0 || c.form == ALL_NULL) return;
    if (c.form == CONSTANT) {
        V value = widen<V>(Stored<T>::of_base(c));
        FOR_ITEMS out[i] = value;
    } else if (c.form == PLAIN) {
        T values[ITEMS];
        load<T>(c.values, tile, values);
        FOR_ITEMS out[i] = widen<V>(values[i]);
    } else if (c.width == 1) {
        unpack_codes<T, V, u8>(c, tile, out);
    } else if (c.width == 2) {
        unpack_codes<T, V, u16>(c, tile, out);
    } else if (c.width == 4) {
        unpack_codes<T, V, u32>(c, tile, out);
    } else {
        unpack_codes<T, V, u64>(c, tile, out);
    }
}

// A column of booleans, which are stored as 0 and 1.
__device__ __forceinline__ Mask unpack_truth(const Column& c, const Tile& tile, Mask pass) {
    u32 values[ITEMS];
    unpack<u8, u32>(c, tile, pass, values);
    Mask truth = 0;
    FOR_ITEMS truth |= (Mask)(values[i] != 0) << i;
    return truth;
}
