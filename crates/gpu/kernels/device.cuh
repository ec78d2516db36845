// The language of all kernels: integer types by width, and the few words that the two compilers say differently.
//
// Who uses it: every header here. The text is compiled by NVRTC, and by the host's C++ compiler for the emulated device.
#pragma once

#ifdef FOREBAY_EMULATED
#include "emulator.h"
#else
// Three blocks must fit a multiprocessor: where it makes room for more, the compiler puts registers into memory.
#define KERNEL(name, Parameters) \
    extern "C" __global__ void __launch_bounds__(THREADS, 3) name(const __grid_constant__ Parameters p)
#define SHARED(Type, name) __shared__ Type name
#define SHARED_WORDS(name) extern __shared__ unsigned long long name[]
#endif

typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long long i64;
typedef __int128 i128;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef unsigned __int128 u128;
typedef float f32;
typedef double f64;

// Threads of a block, and rows that a thread takes of each tile.
constexpr u32 THREADS = 128;
constexpr u32 ITEMS = 4;
constexpr u32 TILE = THREADS * ITEMS;
// Threads of a warp.
constexpr u32 LANES = 32;
constexpr u32 ALL_LANES = 0xffffffffu;
// Rows of a block of a table.
constexpr u32 BLOCK_ROWS = 65536;

// One bit for each of a thread's items, the first one lowest: selections, truths and NULLs.
typedef u32 Mask;
constexpr Mask ALL_ITEMS = (1u << ITEMS) - 1;

#define FOR_ITEMS _Pragma("unroll") for (u32 i = 0; i < ITEMS; i++)

// What can go wrong, as bits of a word: the codes of Rust's `Fault`, and what the host must mend.
constexpr u32 OVERFLOW_FAULT = 1;
constexpr u32 DIVISION_FAULT = 2;
// A key lies outside of the range that its state was laid out for.
constexpr u32 RANGE_FAULT = 4;
// Two rows of a build side have one key.
constexpr u32 DUPLICATE_FAULT = 8;
// The result has more rows than there is room for; the counter says how many.
constexpr u32 FULL_FAULT = 16;

__device__ __forceinline__ bool is_set(Mask mask, u32 item) {
    return (mask >> item & 1) != 0;
}
