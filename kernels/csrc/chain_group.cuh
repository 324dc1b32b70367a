// A group of a request's entries in shared memory: laid out, walked, and told apart by slot.
#pragma once

#include "request.cuh"

// Entries that a crew hands over at a time.
constexpr u32 GROUP_ENTRIES = 128;
constexpr u32 GROUP_LOADS = GROUP_ENTRIES / WARP_LANES;

// Entries for which a walk goes once through its loop.
constexpr u32 WALK_STEP = 16;

// Buckets that a warp tells slots apart by, in digits of so many bits.
constexpr u32 BUCKET_BITS = 9;
constexpr u32 BUCKETS = 1u << BUCKET_BITS;

// The entries of a group that are not skipped, in order, and one to spare so that the walk may read
// a step ahead: tokens and positions, slots, places in the group, and the hashes they store. Tokens,
// positions and hashes are opened.
struct ChainGroup {
    ulonglong2 inputs[GROUP_ENTRIES + 1];
    u64 slots[GROUP_ENTRIES];
    u64 hashes[GROUP_ENTRIES];
    u32 places[GROUP_ENTRIES];
    u32 entries;
};

// Shared memory of a crew: the group that is walked and the one before or after it; who has claimed
// a bucket last (round number, then lane); and which requests of a turn are walked together.
struct ChainSpace {
    ChainGroup groups[2];
    u32 buckets[BUCKETS];
    u32 together[2];
};

// The serial part: every lane steps through the same entries, so that none waits for another; lane 0
// leaves the hashes behind. The entry of the next step is read from shared memory while this one is
// mixed, which keeps that latency off the path from hash to hash. Takes and returns an opened hash.
__device__ __forceinline__ u64 walk_group(ChainGroup& group, u32 lane, u64 running) {
    const u32 entries = group.entries;
    ulonglong2 next = group.inputs[0];
    u32 j = 0;
    for (; j + WALK_STEP <= entries; j += WALK_STEP) {
        KV_UNROLL
        for (u32 k = 0; k < WALK_STEP; ++k) {
            if (lane == 0) group.hashes[j + k] = running;
            const ulonglong2 input = next;
            next = group.inputs[j + k + 1];
            running = mix3_opened(running, input.x, input.y);
        }
    }
    KV_UNROLL_BY(1)
    for (; j < entries; ++j) {
        if (lane == 0) group.hashes[j] = running;
        running = mix3_opened(running, group.inputs[j].x, group.inputs[j].y);
    }
    return running;
}

__device__ __forceinline__ u64 token_at(const ChainGroup& group, u32 k) { return closed(group.inputs[k].x); }
__device__ __forceinline__ u64 position_at(const ChainGroup& group, u32 k) { return closed(group.inputs[k].y); }

// What the k-th entry of a walked group stores.
__device__ __forceinline__ u64 hash_at(const ChainGroup& group, u32 k) { return closed(group.hashes[k]); }

// Lays out the entries from flat index `base` on, up to `end`, after all lanes are done with what
// was there. Returns how many are not skipped.
__device__ __forceinline__ u32 lay_out_group(const WriteLaunch& launch, u64 base, u64 end, u32 lane,
                                             ChainGroup& group) {
    u64 slots[GROUP_LOADS];
    ulonglong2 inputs[GROUP_LOADS];
    KV_UNROLL
    for (u32 k = 0; k < GROUP_LOADS; ++k) {
        const u64 i = base + k * WARP_LANES + lane;
        slots[k] = NO_SLOT;
        inputs[k] = make_ulonglong2(0, 0);
        if (i < end) {
            slots[k] = launch.out_cache_loc[i];
            inputs[k] = make_ulonglong2(launch.input_ids[i], launch.positions[i]);
        }
    }
    __syncwarp();
    u32 entries = 0;
    KV_UNROLL
    for (u32 k = 0; k < GROUP_LOADS; ++k) {
        if (base + k * WARP_LANES >= end) break;
        const bool kept = slot_exists(launch.canary, slots[k]);
        const u32 kept_lanes = __ballot_sync(FULL_WARP, kept);
        const u32 place = entries + __popc(kept_lanes & ((1u << lane) - 1));
        if (kept) {
            group.inputs[place] = make_ulonglong2(opened(inputs[k].x), opened(inputs[k].y));
            group.slots[place] = slots[k];
            group.places[place] = k * WARP_LANES + lane;
        }
        entries += __popc(kept_lanes);
    }
    if (lane == 0) group.entries = entries;
    return entries;
}

// Whether no later lane has this lane's slot, for lanes that have one. Lanes claim the buckets of
// their slots, the last lane of a bucket gets it, and those that lost to another slot try again by
// the next digit. `round` counts up, so that buckets need no clearing.
__device__ __forceinline__ bool last_for_slot(u64 slot, bool kept, u32 lane, ChainSpace& space, u32& round) {
    u64 digits = slot;
    bool last = kept, open = kept;
    do {
        u32* bucket = space.buckets + digits % BUCKETS;
        ++round;
        if (open) atomicMax(bucket, round * WARP_LANES + lane);
        __syncwarp();
        const u32 winner = open ? *bucket % WARP_LANES : lane;
        const bool lost = winner != lane;
        if (!__any_sync(FULL_WARP, lost)) return last;
        const bool same = __shfl_sync(FULL_WARP, slot, winner) == slot;
        if (lost && same) last = false;
        open = lost && !same;
        digits >>= BUCKET_BITS;
    } while (__any_sync(FULL_WARP, open));
    return last;
}
