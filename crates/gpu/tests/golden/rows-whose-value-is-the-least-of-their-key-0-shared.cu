#include "tile.cuh"
#include "unpack.cuh"
#include "aggregate.cuh"

struct Parameters {
    Task task;
    GroupKey keys[1];
    u64* groups;
    u64 slots;
};

KERNEL(pipeline, Parameters) {
    u32 faults = 0;
    SHARED_WORDS(table);
    clear_words(table, p.slots * 2);
    __syncthreads();
    for (u64 number = blockIdx.x; number < p.task.tiles; number += gridDim.x) {
        Tile tile = tile_at(p.task, number);
        const Column* columns = p.task.columns + (u64)tile.block * 2;
        Mask pass = tile.rows;
        // part
        Mask n0 = load_nulls(columns[0], tile);
        i64 r0[ITEMS];
        unpack<i32>(columns[0], tile, pass, r0);
        // cost
        i64 r1[ITEMS];
        unpack<i64>(columns[1], tile, pass, r1);
        u32 slots[ITEMS];
        FOR_ITEMS slots[i] = 0;
        locate(p.keys[0], r0, n0, pass, slots, faults);
        FOR_ITEMS if (is_set(pass, i)) {
            u64* group = table + (u64)slots[i] * 2;
            block_add_word(group, 1);
            add_least(group + 1, order_key(r1[i]));
        }
    }
    __syncthreads();
    for (u64 slot = threadIdx.x; slot < p.slots; slot += THREADS) {
        const u64* own = table + slot * 2;
        u64* group = p.groups + slot * 2;
        if (own[0] == 0) continue;
        add_word(group, own[0]);
        atomicMax(group + 1, own[1]);
    }
    report(p.task, faults);
}
