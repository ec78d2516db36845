#include "tile.cuh"
#include "unpack.cuh"
#include "probe.cuh"

struct Parameters {
    Task task;
    Build target;
    u64* entered;
};

KERNEL(pipeline, Parameters) {
    u32 faults = 0;
    u32 entered = 0;
    for (u64 number = blockIdx.x; number < p.task.tiles; number += gridDim.x) {
        Tile tile = tile_at(p.task, number);
        const Column* columns = p.task.columns + (u64)tile.block * 1;
        Mask pass = tile.rows;
        // o_custkey
        i64 r0[ITEMS];
        unpack<i64>(columns[0], tile, pass, r0);
        Mask m0 = enter(p.target, r0, pass, faults);
        entered += (u32)__popc(m0);
    }
    add_entered(p.entered, entered);
    report(p.task, faults);
}
