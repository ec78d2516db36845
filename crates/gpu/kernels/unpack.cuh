// Unpack: values of a column by its access form, which is a parameter of the block and the same for all its threads.
//
// Who calls it: generated kernels, where a column is first needed. `T` is the type that the table stores, `V` the one that
// is computed with. Results are valid in the calling thread at the items of `pass`; elsewhere, and where the value is
// NULL, they are anything. Scratch: none.
//
// Whatever the type, numbers of up to 8 bytes go through one function that is no part of its callers: a text with ten columns
// has it once, and so a compiler has little to do. Arguments and results stay in registers.
#pragma once
#include "load.cuh"
#include "order.cuh"

// The bits of the items: integers as 8 bytes with their sign, floats as they are stored.
struct Bits {
    u64 item[ITEMS];
};

// What a dictionary has for the codes of `pass`: values of 8 bytes, or the word that a narrower one lies in, less what is beside
// it.
__device__ __forceinline__ void look_up(const Column& c, Mask pass, u32 low[ITEMS], u32 high[ITEMS]) {
    if (c.value_width == 8) {
        FOR_ITEMS if (is_set(pass, i)) {
            u64 value = __ldg((const u64*)c.values + low[i]);
            low[i] = (u32)value, high[i] = (u32)(value >> 32);
        }
        return;
    }
    u32 kept = c.value_width == 4 ? ~0u : (1u << 8 * c.value_width) - 1;
    FOR_ITEMS {
        high[i] = 0;
        u32 at = low[i] * c.value_width;
        if (is_set(pass, i)) low[i] = __ldg((const u32*)c.values + at / 4);
        low[i] = low[i] >> at % 4 * 8 & kept;
    }
}

__device__ __noinline__ Bits unpack_bits(const Column* column, u32 row, Mask pass) {
    const Column c = *column;
    Bits bits;
    FOR_ITEMS bits.item[i] = 0;
    // Asked in this order all threads read memory together at first, and the compiler need not prepare it again for each read.
    if (c.form == ALL_NULL || pass == 0) return bits;
    u32 low[ITEMS], high[ITEMS];
    load_codes(c, row, low, high);
    if (c.form == DICTIONARY) look_up(c, pass, low, high);
    FOR_ITEMS bits.item[i] = whole(low[i] ^ c.flip, high[i]) + c.base_low;
    return bits;
}

struct WideNumbers {
    i128 item[ITEMS];
};

// Numbers of 16 bytes. Plain ones are found by their row, as if by a code.
template <class T> __device__ __noinline__ WideNumbers unpack_wide(const Column* column, u32 row, Mask pass) {
    const Column c = *column;
    WideNumbers out;
    FOR_ITEMS out.item[i] = 0;
    if (pass == 0) return out;
    u32 low[ITEMS], high[ITEMS];
    load_codes(c, row, low, high);
    u128 base = ((u128)c.base_high << 64) | c.base_low;
    FOR_ITEMS {
        out.item[i] = (i128)(base + whole(low[i], high[i]));
        if (c.form >= DICTIONARY && is_set(pass, i)) {
            const ulonglong2* at = (const ulonglong2*)c.values + (c.form == PLAIN ? row + i : low[i]);
            ulonglong2 words = __ldg(at);
            out.item[i] = (i128)(((u128)words.y << 64) | words.x);
        }
    }
    return out;
}

template <class T, class V> __device__ __forceinline__ V of_bits(u64 bits) {
    return (V)(i64)bits;
}
template <> __device__ __forceinline__ i128 of_bits<u64, i128>(u64 bits) {
    return (i128)bits;
}
template <> __device__ __forceinline__ f64 of_bits<f32, f64>(u64 bits) {
    return canonical((f64)__uint_as_float((u32)bits));
}
template <> __device__ __forceinline__ f64 of_bits<f64, f64>(u64 bits) {
    return canonical(__longlong_as_double((i64)bits));
}

template <class T, class V>
__device__ __forceinline__ void unpack(const Column& c, const Tile& tile, Mask pass, V out[ITEMS]) {
    if constexpr (sizeof(T) > 8) {
        WideNumbers numbers = unpack_wide<T>(&c, tile.row, pass);
        FOR_ITEMS out[i] = (V)numbers.item[i];
    } else {
        Bits bits = unpack_bits(&c, tile.row, pass);
        FOR_ITEMS out[i] = of_bits<T, V>(bits.item[i]);
    }
}

// A column of booleans, which are stored as 0 and 1.
__device__ __forceinline__ Mask unpack_truth(const Column& c, const Tile& tile, Mask pass) {
    Bits bits = unpack_bits(&c, tile.row, pass);
    Mask truth = 0;
    FOR_ITEMS truth |= (Mask)((u8)bits.item[i] != 0) << i;
    return truth;
}
