// Two warps of a block that walk chains together: one walks, the other keeps its entries. Where a
// block has no warp to spare, one does both.
#pragma once

#include "slot.cuh"

struct Crew {
    u32 warps;
    u32 member;
    u32 number;  // in its block
    bool walks;
    bool keeps;
};

constexpr __host__ __device__ u32 crews_of(u32 warps) { return warps < 2 ? 1 : warps / 2; }

__device__ __forceinline__ Crew crew_of(u32 warp, u32 warps) {
    if (warps < 2) return Crew{1, 0, 0, true, true};
    return Crew{2, warp % 2, warp / 2, warp % 2 == 0, warp % 2 == 1};
}

// Meets the rest of the crew; what its warps wrote to shared memory before is seen after.
__device__ __forceinline__ void crew_sync(const Crew& crew) {
    __syncwarp();
    if (crew.warps > 1) named_barrier(1 + crew.number, 2 * WARP_LANES);
}
