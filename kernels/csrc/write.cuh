// The folding role of a write: the real KV of every entry, stamped beside what the chain role stamps.
#pragma once

#include "chain.cuh"
#include "fold.cuh"

// Plans of at most this capacity are dealt out to the folding warps without waiting for
// write_num_valid_reqs.
constexpr u64 SMALL_PLAN = 1024;

// The sum over the lanes up to and including this one.
__device__ __forceinline__ u64 sum_up_to(u64 value, u32 lane) {
    for (u32 step = 1; step < WARP_LANES; step *= 2) {
        const u64 lower = __shfl_up_sync(FULL_WARP, value, step);
        if (lane >= step) value += lower;
    }
    return value;
}

// The first lane whose running sum is above n; sums do not fall from lane to lane.
__device__ __forceinline__ u32 lane_holding(u64 n, u64 sum) {
    u32 holder = 0;
    for (u32 step = WARP_LANES / 2; step; step /= 2) {
        if (__shfl_sync(FULL_WARP, sum, holder + step - 1) <= n) holder += step;
    }
    return holder;
}

// The folding role: requests are taken 32 at a time, a lane each, by a team of warps that shares
// their entries evenly, whatever the lengths. Entries of one slot fold alike, so that it does not
// matter which of them is stored last.
__device__ __forceinline__ void fold_requests(const WriteLaunch& launch, u32 worker, u32 workers, u32 lane,
                                              FoldSpace& space) {
    const KvCanary& canary = launch.canary;
    const u64 active = clamped_count(*launch.write_num_valid_reqs, launch.write_req_capacity);
    const u64 planned = launch.write_req_capacity <= SMALL_PLAN ? launch.write_req_capacity : active;
    const u32 groups = static_cast<u32>((planned + WARP_LANES - 1) / WARP_LANES);
    const u32 team = groups < workers && groups != 0 ? workers / groups : 1;
    const u32 teams = workers / team;
    const u32 member = worker % team;
    // There are at least as many teams as groups here: a worker left over by the teams has no group.
    for (u32 group = worker / team; group < groups; group += teams) {
        const Request request = load_request(launch, static_cast<u64>(group) * WARP_LANES + lane, active);
        const u64 sum = sum_up_to(request.length, lane);
        const u64 total = __shfl_sync(FULL_WARP, sum, WARP_LANES - 1);
        // Modulo 2^64: added to a place in the group's entries, it gives the flat index.
        const u64 shift = request.begin - (sum - request.length);
        const FoldShape shape = canary.short_folds ? FoldShape{false, 0} : fold_shape(canary, total, team);
        const u32 turn = shape.slots_per_warp();
        const u64 stride = static_cast<u64>(team) * turn;
        for (u64 base = static_cast<u64>(member) * turn; base < total; base += stride) {
            const u64 place = base + lane;
            const u64 i = place + __shfl_sync(FULL_WARP, shift, lane_holding(place, sum));
            u64 slot = lane < turn && place < total ? launch.out_cache_loc[i] : NO_SLOT;
            if (!slot_exists(canary, slot)) slot = NO_SLOT;
            const u64 hash = canary.short_folds ? fold_heads(canary, slot)
                                                : fold_rows(canary, slot, shape, lane, space);
            if (slot != NO_SLOT) slot_fields(canary, slot)[FIELD_REAL_KV_HASH] = hash;
        }
    }
}
