#include "tile.cuh"
#include "unpack.cuh"
#include "filter.cuh"
#include "probe.cuh"

struct Parameters {
    Task task;
    Build target;
    u64* entered;
    Payload stored[1];
};

KERNEL(pipeline, Parameters) {
    u32 faults = 0;
    u32 entered = 0;
    for (u64 number = blockIdx.x; number < p.task.tiles; number += gridDim.x) {
        Tile tile = tile_at(p.task, number);
        const Column* columns = p.task.columns + (u64)tile.block * 3;
        const Test* tests = p.task.tests + (u64)tile.block * 1;
        Mask pass = tile.rows;
        pass = filter(tests[0], columns[0], tile, pass);
        // p_partkey
        i64 r0[ITEMS];
        unpack<i32>(columns[1], tile, pass, r0);
        // p_brand
        i64 r1[ITEMS];
        unpack<u32>(columns[2], tile, pass, r1);
        Mask m0 = enter(p.target, r0, pass, faults);
        entered += (u32)__popc(m0);
        scatter(p.stored[0], p.target, r0, m0, r1, faults);
    }
    add_entered(p.entered, entered);
    report(p.task, faults);
}
