#include "tile.cuh"
#include "unpack.cuh"
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
        const Column* columns = p.task.columns + (u64)tile.block * 2;
        Mask pass = tile.rows;
        // d_datekey
        i64 r0[ITEMS];
        unpack<i32>(columns[0], tile, pass, r0);
        // d_year
        i64 r1[ITEMS];
        unpack<i16>(columns[1], tile, pass, r1);
        Mask m0 = enter(p.target, r0, pass, faults);
        entered += (u32)__popc(m0);
        scatter(p.stored[0], p.target, r0, m0, r1, faults);
    }
    add_entered(p.entered, entered);
    report(p.task, faults);
}
