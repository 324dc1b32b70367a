// The requests of a write plan.
#pragma once

#include "slot.cuh"

// A request's entries and the slot that its chain continues.
struct Request {
    u64 begin;
    u64 length;
    u64 seed;
};

__device__ __forceinline__ u64 clamped_offset(const WriteLaunch& launch, u64 offset) {
    const i64 signed_offset = static_cast<i64>(offset);
    return signed_offset < 0 ? 0 : lowest(offset, launch.num_tokens_padded);
}

// Request r, empty where the plan says so or r is not active. What lies within the capacity is
// read before the active count is looked at, so that both are under way at once.
__device__ __forceinline__ Request load_request(const WriteLaunch& launch, u64 r, u64 active) {
    if (r >= launch.write_req_capacity) return Request{0, 0, NO_SLOT};
    const u64 begin = clamped_offset(launch, launch.write_offsets[r]);
    const u64 end = clamped_offset(launch, launch.write_offsets[r + 1]);
    const u64 seed = launch.write_seed_slot_indices[r];
    const bool empty = r >= active || end <= begin;
    return Request{begin, empty ? 0 : end - begin, seed};
}
