// Groups that are there, out of slots most of which may be empty: their slots' numbers and words, one after the other, in no
// order. Runs after the kernel that counted them; `count` begins as 0, and there is room for all slots.
#include "device.cuh"

struct Parameters {
    const u64* words;
    u64 slots;
    u64 slot_words;
    u64* count;
    u64* kept;
};

KERNEL(pipeline, Parameters) {
    u64 stride = (u64)gridDim.x * THREADS;
    for (u64 slot = (u64)blockIdx.x * THREADS + threadIdx.x; slot < p.slots; slot += stride) {
        const u64* from = p.words + slot * p.slot_words;
        if (from[0] == 0) continue;
        u64* to = p.kept + atomicAdd(p.count, (u64)1) * (p.slot_words + 1);
        to[0] = slot;
        for (u64 word = 0; word < p.slot_words; word++) to[1 + word] = from[word];
    }
}
