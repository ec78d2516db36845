#include "tile.cuh"
#include "unpack.cuh"
#include "probe.cuh"
#include "aggregate.cuh"

struct Parameters {
    Task task;
    Build builds[3];
    Payload payloads[2];
    GroupKey keys[2];
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
        const Column* columns = p.task.columns + (u64)tile.block * 4;
        Mask pass = tile.rows;
        // probe inner j1 (r0) -> (0 r4)
        // lo_partkey
        i64 r0[ITEMS];
        unpack<i32>(columns[0], tile, pass, r0);
        Mask m0 = probe(p.builds[0], r0, pass);
        i64 r4[ITEMS];
        gather(p.payloads[0], p.builds[0], r0, m0, r4);
        pass &= m0;
        // probe semi j2 (r1) -> ()
        // lo_suppkey
        i64 r1[ITEMS];
        unpack<i32>(columns[1], tile, pass, r1);
        Mask m1 = probe(p.builds[1], r1, pass);
        pass &= m1;
        // probe inner j0 (r2) -> (0 r5)
        // lo_orderdate
        i64 r2[ITEMS];
        unpack<i32>(columns[2], tile, pass, r2);
        Mask m2 = probe(p.builds[2], r2, pass);
        i64 r5[ITEMS];
        gather(p.payloads[1], p.builds[2], r2, m2, r5);
        pass &= m2;
        // lo_revenue
        i64 r3[ITEMS];
        unpack<i32>(columns[3], tile, pass, r3);
        u32 slots[ITEMS];
        FOR_ITEMS slots[i] = 0;
        locate(p.keys[0], r5, 0, pass, slots, faults);
        locate(p.keys[1], r4, 0, pass, slots, faults);
        FOR_ITEMS if (is_set(pass, i)) {
            u64* group = table + (u64)slots[i] * 2;
            block_add_word(group, 1);
            block_add_word(group + 1, (u64)r3[i]);
        }
    }
    __syncthreads();
    for (u64 slot = threadIdx.x; slot < p.slots; slot += THREADS) {
        const u64* own = table + slot * 2;
        u64* group = p.groups + slot * 2;
        if (own[0] == 0) continue;
        add_word(group, own[0]);
        merge_sum(group + 1, own + 1, 1);
    }
    report(p.task, faults);
}
