// Unpack: values of a column by its access form, which is a parameter of the block and the same for all its threads.
//
// Who calls it: generated kernels, where a column is first needed. `T` is the type that the table stores, `V` the one that
// is computed with. Results are valid in the calling thread at the items of `pass`; elsewhere, and where the value is
// NULL, they are anything. Scratch: none.
#pragma once
#include "compute.cuh"
#include "load.cuh"

// A stored number from its bits, which are sign-extended.
template <class T> struct Stored {
    static constexpr bool is_float = false;
    static __device__ __forceinline__ T of_bits(u128 bits) {
        return (T)bits;
    }
};
template <> struct Stored<f32> {
    static constexpr bool is_float = true;
    static __device__ __forceinline__ f32 of_bits(u128 bits) {
        return __uint_as_float((u32)bits);
    }
};
template <> struct Stored<f64> {
    static constexpr bool is_float = true;
    static __device__ __forceinline__ f64 of_bits(u128 bits) {
        return __longlong_as_double((i64)bits);
    }
};

template <class V, class T> __device__ __forceinline__ V widen(T value) {
    if constexpr (Stored<T>::is_float) {
        return canonical((f64)value);
    } else {
        return (V)value;
    }
}

// What becomes of a code stands here once, whatever its width: it is most of the text that a compiler gets. Plain numbers of up
// to 8 bytes are codes of a frame that begins at 0.
template <class T, class V>
__device__ __forceinline__ void unpack(const Column& c, const Tile& tile, Mask pass, V out[ITEMS]) {
    FOR_ITEMS out[i] = V();
    if (pass == 0 || c.form == ALL_NULL) return;
    bool is_plain = c.form == PLAIN;
    if constexpr (sizeof(T) > 8) {
        if (is_plain) {
            T values[ITEMS];
            load<T>(c.values, tile, values);
            FOR_ITEMS out[i] = widen<V>(values[i]);
            return;
        }
    }
    // A constant is a frame whose codes are 0, and has none.
    u64 codes[ITEMS];
    FOR_ITEMS codes[i] = 0;
    if (c.form != CONSTANT) {
        load_codes(is_plain ? c.values : c.codes, is_plain ? (u32)sizeof(T) : c.width, tile, codes);
    }
    if (c.form == DICTIONARY) {
        FOR_ITEMS out[i] = widen<V>(((const T*)c.values)[codes[i]]);
    } else if constexpr (sizeof(T) <= 8) {
        u64 base = is_plain ? 0 : c.base_low;
        FOR_ITEMS out[i] = widen<V>(Stored<T>::of_bits(base + codes[i]));
    } else {
        u128 base = ((u128)c.base_high << 64) | c.base_low;
        FOR_ITEMS out[i] = widen<V>(Stored<T>::of_bits(base + codes[i]));
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
