// Compute: what operations of the pipeline IR mean on single values that are not NULL (pipeline/src/semantics.rs).
//
// Who calls it: generated kernels, item by item. What can fail adds its fault to `fault` and gives anything then; the
// caller looks at `fault` only where the item counts. Without `fault` integers wrap: bounds prove that they do not.
// Scratch: none.
#pragma once
#include "order.cuh"

template <class T> struct Unsigned;
template <> struct Unsigned<i64> {
    typedef u64 type;
};
template <> struct Unsigned<i128> {
    typedef u128 type;
};

template <class T> __device__ __forceinline__ T least() {
    return (T)((typename Unsigned<T>::type)1 << (sizeof(T) * 8 - 1));
}

template <class T> __device__ __forceinline__ T add(T a, T b) {
    return (T)((typename Unsigned<T>::type)a + (typename Unsigned<T>::type)b);
}
template <class T> __device__ __forceinline__ T subtract(T a, T b) {
    return (T)((typename Unsigned<T>::type)a - (typename Unsigned<T>::type)b);
}
template <class T> __device__ __forceinline__ T multiply(T a, T b) {
    return (T)((typename Unsigned<T>::type)a * (typename Unsigned<T>::type)b);
}
template <class T> __device__ __forceinline__ T negate(T a) {
    return (T)(0 - (typename Unsigned<T>::type)a);
}

template <class T> __device__ __forceinline__ T add(T a, T b, u32& fault) {
    T sum = add(a, b);
    if ((a < 0) == (b < 0) && (sum < 0) != (a < 0)) fault |= OVERFLOW_FAULT;
    return sum;
}
template <class T> __device__ __forceinline__ T subtract(T a, T b, u32& fault) {
    T difference = subtract(a, b);
    if ((a < 0) != (b < 0) && (difference < 0) != (a < 0)) fault |= OVERFLOW_FAULT;
    return difference;
}
__device__ __forceinline__ i64 multiply(i64 a, i64 b, u32& fault) {
    i128 product = (i128)a * b;
    if (product != (i64)product) fault |= OVERFLOW_FAULT;
    return (i64)product;
}
__device__ __forceinline__ i128 multiply(i128 a, i128 b, u32& fault) {
    u128 x = a < 0 ? 0 - (u128)a : (u128)a;
    u128 y = b < 0 ? 0 - (u128)b : (u128)b;
    u64 x_high = (u64)(x >> 64), y_high = (u64)(y >> 64);
    // At most one of the products is not 0, else the whole does not fit.
    u128 cross = (u128)x_high * (u64)y + (u128)y_high * (u64)x;
    u128 low = (u128)(u64)x * (u64)y;
    u128 product = low + (cross << 64);
    bool negative = (a < 0) != (b < 0);
    u128 limit = ((u128)1 << 127) - (negative ? 0 : 1);
    bool overflows = (x_high != 0 && y_high != 0) || cross >> 64 != 0 || product < low || product > limit;
    if (overflows) fault |= OVERFLOW_FAULT;
    return (i128)(negative ? 0 - product : product);
}
template <class T> __device__ __forceinline__ T negate(T a, u32& fault) {
    if (a == least<T>()) fault |= OVERFLOW_FAULT;
    return negate(a);
}

// Whether a quotient is there; no division is done otherwise.
template <class T> __device__ __forceinline__ bool divides(T a, T b, u32& fault) {
    if (b == 0) fault |= DIVISION_FAULT;
    if (b == -1 && a == least<T>()) fault |= OVERFLOW_FAULT;
    return b != 0 && !(b == -1 && a == least<T>());
}
template <class T> __device__ __forceinline__ T divide(T a, T b, u32& fault) {
    return divides(a, b, fault) ? a / b : 0;
}
template <class T> __device__ __forceinline__ T remainder_of(T a, T b, u32& fault) {
    if (b == 0) fault |= DIVISION_FAULT;
    // The least value divided by -1 leaves nothing over, though the quotient does not fit.
    return b == 0 || b == -1 ? 0 : a % b;
}
template <class T> __device__ __forceinline__ T divide_rounded(T a, T b, u32& fault) {
    typedef typename Unsigned<T>::type U;
    if (!divides(a, b, fault)) return 0;
    T quotient = a / b;
    T left = a - quotient * b;
    U rest = left < 0 ? 0 - (U)left : (U)left;
    U divisor = b < 0 ? 0 - (U)b : (U)b;
    T away = (a < 0) == (b < 0) ? 1 : -1;
    return rest >= divisor - rest ? quotient + away : quotient;
}

__device__ __forceinline__ f64 add(f64 a, f64 b) {
    return canonical(a + b);
}
__device__ __forceinline__ f64 subtract(f64 a, f64 b) {
    return canonical(a - b);
}
__device__ __forceinline__ f64 multiply(f64 a, f64 b) {
    return canonical(a * b);
}
__device__ __forceinline__ f64 divide(f64 a, f64 b) {
    return canonical(a / b);
}
__device__ __forceinline__ f64 negate(f64 a) {
    return canonical(-a);
}

__device__ __forceinline__ i64 narrow(i128 value, u32& fault) {
    if (value != (i64)value) fault |= OVERFLOW_FAULT;
    return (i64)value;
}
// The nearest float, the even one of two.
__device__ __forceinline__ f64 to_float(i64 value) {
    return (f64)value;
}
__device__ __forceinline__ f64 to_float(i128 value) {
    u128 magnitude = value < 0 ? 0 - (u128)value : (u128)value;
    u64 high = (u64)(magnitude >> 64);
    f64 result;
    if (high == 0) {
        result = (f64)(u64)magnitude;
    } else {
        u32 shift = 64 - (u32)__clzll((i64)high);
        // What is cut off counts only as being there: it lies below the bit that decides.
        u64 cut_off = (magnitude & (((u128)1 << shift) - 1)) != 0 ? 1 : 0;
        result = (f64)((u64)(magnitude >> shift) | cut_off) * __longlong_as_double((i64)(1023 + shift) << 52);
    }
    return value < 0 ? -result : result;
}

enum DatePart { YEAR, MONTH, DAY };

// A part of the date that lies `days` after 1970-01-01; years begin in March here, so that leap days are last.
__device__ __forceinline__ i64 date_part(DatePart part, i64 days) {
    constexpr i64 ERA_DAYS = 146097;
    i64 era = days / ERA_DAYS, day = days % ERA_DAYS;
    if (day < 0) {
        day += ERA_DAYS;
        era -= 1;
    }
    day += 719468 - 4 * ERA_DAYS;
    era += 4 + day / ERA_DAYS;
    day %= ERA_DAYS;
    i64 year = (day - day / 1460 + day / 36524 - day / (ERA_DAYS - 1)) / 365;
    i64 day_of_year = day - (365 * year + year / 4 - year / 100);
    i64 from_march = (5 * day_of_year + 2) / 153;
    i64 month = from_march < 10 ? from_march + 3 : from_march - 9;
    if (part == YEAR) return era * 400 + year + (month <= 2 ? 1 : 0);
    if (part == MONTH) return month;
    return day_of_year - (153 * from_march + 2) / 5 + 1;
}
