// What a kernel text needs of CUDA C++, for the host compiler: the emulated device's side of device.cuh.
//
// Who uses it: device.cuh where FOREBAY_EMULATED is defined. The functions stand in runtime.cpp, in a library of its own
// that is compiled without instrumentation; kernel texts are compiled with the calls that -fsanitize=thread puts before
// every load and store, and runtime.cpp answers those calls (the thread sanitizer's own library is not linked).
#pragma once

#define __device__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ static __attribute__((noinline))

struct EmulatedIndex {
    unsigned x;
};

struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct alignas(16) ulonglong2 {
    unsigned long long x, y;
};

// Memory that no thread writes while the kernel runs.
template <class T> static inline T __ldg(const T* at) {
    return *at;
}

extern "C" {
EmulatedIndex emulated_thread();
EmulatedIndex emulated_block();
EmulatedIndex emulated_grid();
void* emulated_shared();
void emulated_barrier();
unsigned long long emulated_shuffle(unsigned mask, unsigned long long value, unsigned from);
unsigned emulated_ballot(unsigned mask, int predicate);
unsigned long long emulated_add_8(void* at, unsigned long long value);
unsigned emulated_add_4(void* at, unsigned value);
unsigned emulated_or_4(void* at, unsigned value);
unsigned long long emulated_max_8(void* at, unsigned long long value);
double emulated_add_double(void* at, double value);
}

#define threadIdx (emulated_thread())
#define blockIdx (emulated_block())
#define gridDim (emulated_grid())

static inline void __syncthreads() {
    emulated_barrier();
}
static inline unsigned __shfl_sync(unsigned mask, unsigned value, unsigned from) {
    return (unsigned)emulated_shuffle(mask, value, from);
}
static inline unsigned long long __shfl_sync(unsigned mask, unsigned long long value, unsigned from) {
    return emulated_shuffle(mask, value, from);
}
static inline unsigned __ballot_sync(unsigned mask, int predicate) {
    return emulated_ballot(mask, predicate);
}
static inline int __popc(unsigned value) {
    return __builtin_popcount(value);
}
static inline int __clzll(long long value) {
    return value == 0 ? 64 : __builtin_clzll((unsigned long long)value);
}
static inline long long __double_as_longlong(double value) {
    long long bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    return bits;
}
static inline double __longlong_as_double(long long bits) {
    double value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}
static inline float __uint_as_float(unsigned bits) {
    float value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}
static inline unsigned long long atomicAdd(unsigned long long* at, unsigned long long value) {
    return emulated_add_8(at, value);
}
static inline unsigned atomicAdd(unsigned* at, unsigned value) {
    return emulated_add_4(at, value);
}
static inline double atomicAdd(double* at, double value) {
    return emulated_add_double(at, value);
}
static inline unsigned atomicOr(unsigned* at, unsigned value) {
    return emulated_or_4(at, value);
}
static inline unsigned long long atomicMax(unsigned long long* at, unsigned long long value) {
    return emulated_max_8(at, value);
}

// The kernel is called through a pointer to its parameters.
#define KERNEL(name, Parameters)                                            \
    static void name##_body(const Parameters& p);                           \
    extern "C" void name(const void* p) {                                   \
        name##_body(*(const Parameters*)p);                                 \
    }                                                                       \
    static void name##_body(const Parameters& p)

// One shared object per kernel, at the beginning of the block's shared memory.
#define SHARED(Type, name) Type& name = *(Type*)emulated_shared()
// What the launch asked for, in kernels without such an object.
#define SHARED_WORDS(name) u64* name = (u64*)emulated_shared()
