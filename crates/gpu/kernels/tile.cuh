// Tiles: which rows a thread works on, and how the columns of a task lie in device memory.
//
// Who calls it: the loop of every kernel. A tile is TILE consecutive rows of one block of the table, a thread has ITEMS
// consecutive ones of them. Results are valid in the calling thread. Scratch: none.
#pragma once
#include "device.cuh"

// How the values of a block are read: the access forms of forebay-block. Plain integers of up to 8 bytes are a frame.
enum Form : u32 { ALL_NULL, CONSTANT, FRAME, DICTIONARY, PLAIN };

// One column of one block. A value is `base + (x ^ flip)`, where x is the code, or what a dictionary has for it; without codes
// x is 0. The flip and its opposite as the base give narrow integers their sign. Addresses are multiples of 16, and so is the
// size: four loads read all of it.
struct alignas(16) Column {
    // Codes, plain floats, plain integers of up to 8 bytes.
    const void* codes;
    // A dictionary, or plain numbers of 16 bytes.
    const void* values;
    // Bit `row`, least significant first, 1 = valid; null where no row is NULL.
    const u8* validity;
    // Sign-extended; a constant float as its bits.
    u64 base_low;
    u64 base_high;
    u32 form;
    // Bytes of what lies in `codes`: 1, 2, 4 or 8; 0 for none.
    u32 width;
    // Bytes of what lies in a dictionary; 0 for none.
    u32 value_width;
    u32 flip;
    u64 unused;
};

// What a kernel works through.
struct Task {
    u64 tiles;
    // Rows of each block.
    const u32* rows;
    // By block, the columns that the kernel reads.
    const Column* columns;
    // By block, the tests that rows must pass.
    const struct Test* tests;
    // Bits of what went wrong.
    u32* faults;
};

struct Tile {
    u32 block;
    // The thread's first row in the block, a multiple of ITEMS.
    u32 row;
    // The items that are rows.
    Mask rows;
};

constexpr u32 TILES_PER_BLOCK = BLOCK_ROWS / TILE;

__device__ __forceinline__ Tile tile_at(const Task& task, u64 number) {
    Tile tile;
    tile.block = (u32)(number / TILES_PER_BLOCK);
    tile.row = (u32)(number % TILES_PER_BLOCK) * TILE + threadIdx.x * ITEMS;
    u32 rows = task.rows[tile.block];
    u32 left = tile.row < rows ? rows - tile.row : 0;
    tile.rows = left >= ITEMS ? ALL_ITEMS : (1u << left) - 1;
    return tile;
}

// Leaves a thread's faults for the host. Called once, at the end of a kernel.
__device__ __forceinline__ void report(const Task& task, u32 faults) {
    if (faults != 0) atomicOr(task.faults, faults);
}
