// A group of a request's entries in shared memory: laid out, walked, and told apart by slot.
#pragma once

#include "request.cuh"

// Entries that a crew hands over at a time.
constexpr u32 GROUP_ENTRIES = 128;
constexpr u32 GROUP_LOADS = GROUP_ENTRIES / WARP_LANES;

// Entries for every hash that a walk leaves behind; the others are mixed again.
constexpr u32 HASH_STEP = 4;

// Buckets that a warp tells slots apart by, in digits of so many bits.
constexpr u32 BUCKET_BITS = 9;
constexpr u32 BUCKETS = 1u << BUCKET_BITS;

// The entries of a group that are not skipped, in order, and one to spare so that the walk may read
// a step ahead: tokens and positions, slots, places in the group, and some of the hashes they store.
struct ChainGroup {
    ulonglong2 inputs[GROUP_ENTRIES + 1];
    u64 slots[GROUP_ENTRIES];
    u64 hashes[GROUP_ENTRIES / HASH_STEP];
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
// leaves behind every fourth hash. The entry of the next step is read from shared memory while this
// one is mixed, which keeps that latency off the path from hash to hash.
__device__ __forceinline__ u64 walk_group(ChainGroup& group, u32 lane, u64 running) {
    const u32 entries = group.entries;
    ulonglong2 next = group.inputs[0];
    u32 j = 0;
    for (; j + HASH_STEP <= entries; j += HASH_STEP) {
        if (lane == 0) group.hashes[j / HASH_STEP] = running;
        KV_UNROLL
        for (u32 k = 1; k <= HASH_STEP; ++k) {
            const ulonglong2 input = next;
            next = group.inputs[j + k];
            running = mix3(running, input.x, input.y);
        }
    }
    if (lane == 0 && j < entries) group.hashes[j / HASH_STEP] = running;
    for (; j < entries; ++j) running = mix3(running, group.inputs[j].x, group.inputs[j].y);
    return running;
}

// What the k-th entry of a walked group stores.
__device__ __forceinline__ u64 hash_at(const ChainGroup& group, u32 k) {
    u64 running = group.hashes[k / HASH_STEP];
    for (u32 j = k / HASH_STEP * HASH_STEP; j < k; ++j) {
        running = mix3(running, group.inputs[j].x, group.inputs[j].y);
    }
    return running;
}

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
            group.inputs[place] = inputs[k];
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
