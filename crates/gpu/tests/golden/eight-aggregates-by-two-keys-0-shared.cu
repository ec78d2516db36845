#include "tile.cuh"
#include "compute.cuh"
#include "unpack.cuh"
#include "filter.cuh"
#include "aggregate.cuh"

struct Parameters {
    Task task;
    GroupKey keys[2];
    u64* groups;
    u64 slots;
};

KERNEL(pipeline, Parameters) {
    u32 faults = 0;
    SHARED_WORDS(table);
    clear_words(table, p.slots * 8);
    __syncthreads();
    for (u64 number = blockIdx.x; number < p.task.tiles; number += gridDim.x) {
        Tile tile = tile_at(p.task, number);
        const Column* columns = p.task.columns + (u64)tile.block * 7;
        const Test* tests = p.task.tests + (u64)tile.block * 1;
        Mask pass = tile.rows;
        pass = filter(tests[0], columns[0], tile, pass);
        // r6: i64 = const 100
        i64 r6[ITEMS];
        FOR_ITEMS r6[i] = 100ll;
        // r7: i64 = sub r6, r4 fits
        // l_discount
        i64 r4[ITEMS];
        unpack<i8>(columns[1], tile, pass, r4);
        i64 r7[ITEMS];
        FOR_ITEMS r7[i] = subtract(r6[i], r4[i]);
        // r8: i64 = mul r3, r7 fits
        // l_extendedprice
        i64 r3[ITEMS];
        unpack<i64>(columns[2], tile, pass, r3);
        i64 r8[ITEMS];
        FOR_ITEMS r8[i] = multiply(r3[i], r7[i]);
        // r9: i64 = add r6, r5 fits
        // l_tax
        i64 r5[ITEMS];
        unpack<i8>(columns[3], tile, pass, r5);
        i64 r9[ITEMS];
        FOR_ITEMS r9[i] = add(r6[i], r5[i]);
        // r10: i128 = convert r8
        i128 r10[ITEMS];
        FOR_ITEMS r10[i] = r8[i];
        // r11: i128 = convert r9
        i128 r11[ITEMS];
        FOR_ITEMS r11[i] = r9[i];
        // r12: i128 = mul r10, r11 fits
        i128 r12[ITEMS];
        FOR_ITEMS r12[i] = multiply(r10[i], r11[i]);
        // l_returnflag
        i64 r0[ITEMS];
        unpack<u32>(columns[4], tile, pass, r0);
        // l_linestatus
        i64 r1[ITEMS];
        unpack<u32>(columns[5], tile, pass, r1);
        // l_quantity
        i64 r2[ITEMS];
        unpack<i64>(columns[6], tile, pass, r2);
        u32 slots[ITEMS];
        FOR_ITEMS slots[i] = 0;
        locate(p.keys[0], r0, 0, pass, slots, faults);
        locate(p.keys[1], r1, 0, pass, slots, faults);
        FOR_ITEMS if (is_set(pass, i)) {
            u64* group = table + (u64)slots[i] * 8;
            block_add_word(group, 1);
            block_add_word(group + 1, (u64)r2[i]);
            block_add_word(group + 2, (u64)r3[i]);
            block_add_word(group + 3, (u64)r8[i]);
            block_add_widest(group + 4, r12[i]);
            block_add_word(group + 7, (u64)r4[i]);
        }
    }
    __syncthreads();
    for (u64 slot = threadIdx.x; slot < p.slots; slot += THREADS) {
        const u64* own = table + slot * 8;
        u64* group = p.groups + slot * 8;
        if (own[0] == 0) continue;
        add_word(group, own[0]);
        merge_sum(group + 1, own + 1, 1);
        merge_sum(group + 2, own + 2, 1);
        merge_sum(group + 3, own + 3, 1);
        merge_sum(group + 4, own + 4, 3);
        merge_sum(group + 7, own + 7, 1);
    }
    report(p.task, faults);
}
