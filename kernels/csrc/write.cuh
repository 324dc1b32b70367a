// The write launch: chains are walked and slots stamped by one role, real KV is folded by another.
#pragma once

#include "fold.cuh"
#include "ring.cuh"

// Requests of at most this many entries share a warp, a lane each, where requests outnumber warps.
constexpr u64 ALONE_ENTRIES = 16;

// Plans of at most this capacity are dealt out to the folding warps without waiting for
// write_num_valid_reqs.
constexpr u64 SMALL_PLAN = 1024;

// Shared memory of one warp that walks a chain: the next tokens and positions, and one to spare so
// that the walk may read a step ahead.
struct ChainSpace {
    ulonglong2 entries[WARP_LANES + 1];
};

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

// Where a chain stands: what the next entry stores, and the position that it must follow.
struct Chain {
    u64 running;
    u64 previous_position;
    bool asserts_position;
};

__device__ __forceinline__ Chain start_chain(const WriteLaunch& launch, u64 seed, bool position_assert) {
    if (!slot_exists(launch.canary, seed)) return Chain{chain_head(), 0, false};
    const Link link = load_link(launch.canary, seed);
    return Chain{successor_hash(link), link.position, position_assert};
}

// What an entry is checked against, and what it stores.
struct Entry {
    u64 slot;
    u64 token;
    u64 position;
    u64 running;
};

__device__ __forceinline__ void check_input(const WriteLaunch& launch, u64 i, const Entry& entry) {
    const u64 token = launch.expected_input_tokens[i];
    const u64 position = launch.expected_input_positions[i];
    const u64 bits = (entry.token != token ? WRITE_TOKEN_MISMATCH : 0) |
                     (entry.position != position ? WRITE_POSITION_MISMATCH : 0);
    if (bits == 0) return;
    append_violation(launch.canary, Violation{entry.slot, entry.position, entry.token, token,
                                              entry.running, position, bits});
}

__device__ __forceinline__ void check_position(const WriteLaunch& launch, const Entry& entry, u64 previous) {
    if (entry.position == previous + 1) return;
    append_violation(launch.canary, Violation{entry.slot, entry.position, entry.token, entry.token,
                                              entry.running, previous + 1, WRITE_POSITION_MISMATCH});
}

// The real-KV hash belongs to the folding role where there is one; otherwise it is 0.
template <bool FOLDED>
__device__ __forceinline__ void stamp(const KvCanary& canary, const Entry& entry) {
    u64* fields = slot_fields(canary, entry.slot);
    store_pair(canary, fields, entry.token, entry.position);
    if (FOLDED) {
        fields[FIELD_PREV_HASH] = entry.running;
    } else {
        store_pair(canary, fields + FIELD_PREV_HASH, entry.running, 0);
    }
}

// One lane walks a whole request. Returns the number of entries not skipped.
template <bool FOLDED>
__device__ __forceinline__ u32 walk_alone(const WriteLaunch& launch, const Request& request,
                                          bool position_assert) {
    Chain chain = start_chain(launch, request.seed, position_assert);
    u32 stamped = 0;
    for (u64 i = request.begin; i < request.begin + request.length; ++i) {
        const Entry entry{launch.out_cache_loc[i], launch.input_ids[i], launch.positions[i], chain.running};
        if (!slot_exists(launch.canary, entry.slot)) continue;
        if (launch.enable_write_input_assert) check_input(launch, i, entry);
        if (chain.asserts_position) check_position(launch, entry, chain.previous_position);
        stamp<FOLDED>(launch.canary, entry);
        chain.running = mix3(chain.running, entry.token, entry.position);
        chain.previous_position = entry.position;
        ++stamped;
    }
    return stamped;
}

__device__ __forceinline__ Entry load_entry(const WriteLaunch& launch, u64 i, u64 end) {
    if (i >= end) return Entry{NO_SLOT, 0, 0, 0};
    return Entry{launch.out_cache_loc[i], launch.input_ids[i], launch.positions[i], 0};
}

// The serial part: every lane steps through the same entries, so that none waits for another, and
// keeps the hash that its own entry stores. The entry of the next step is read from shared memory
// while this one is mixed, which keeps that latency off the path from hash to hash.
__device__ __forceinline__ u64 step_chain(const ChainSpace& space, u32 entries, u32 own, u64& running) {
    u64 own_running = 0;
    ulonglong2 next = space.entries[0];
    KV_UNROLL_BY(8)
    for (u32 j = 0; j < entries; ++j) {
        const ulonglong2 entry = next;
        next = space.entries[j + 1];
        own_running = j == own ? running : own_running;
        running = mix3(running, entry.x, entry.y);
    }
    return own_running;
}

// A warp walks one request, 32 entries at a time, a lane for each. Returns the number of entries
// not skipped, the same in every lane.
template <bool FOLDED>
__device__ __forceinline__ u64 walk_together(const WriteLaunch& launch, const Request& request,
                                             bool position_assert, u32 lane, ChainSpace& space) {
    const u64 end = request.begin + request.length;
    Chain chain = start_chain(launch, request.seed, position_assert);
    u64 stamped = 0;
    Entry ahead = load_entry(launch, request.begin + lane, end);
    for (u64 base = request.begin; base < end; base += WARP_LANES) {
        Entry entry = ahead;
        ahead = load_entry(launch, base + WARP_LANES + lane, end);
        const bool kept = slot_exists(launch.canary, entry.slot);
        const u32 kept_lanes = __ballot_sync(FULL_WARP, kept);
        const u32 same_slot = __match_any_sync(FULL_WARP, entry.slot);
        const u32 entries = __popc(kept_lanes);
        const u32 own = __popc(kept_lanes & ((1u << lane) - 1));
        if (kept) space.entries[own] = make_ulonglong2(entry.token, entry.position);
        __syncwarp();
        entry.running = step_chain(space, entries, own, chain.running);
        if (kept) {
            if (launch.enable_write_input_assert) check_input(launch, base + lane, entry);
            if (chain.asserts_position) {
                check_position(launch, entry, own ? space.entries[own - 1].y : chain.previous_position);
            }
            // Of the entries for one slot the last one stays, and the others need not be stored.
            if (same_slot >> lane == 1) stamp<FOLDED>(launch.canary, entry);
        }
        if (entries) chain.previous_position = space.entries[entries - 1].y;
        stamped += entries;
        // The next entries are laid out, and stamped over these, only after every lane is done.
        __syncwarp();
    }
    return stamped;
}

// The chain role: worker of workers walks its share of the requests. Where requests outnumber the
// workers, a worker takes several at a time and walks the short ones a lane each.
template <bool FOLDED>
__device__ __forceinline__ void walk_requests(const WriteLaunch& launch, u64 worker, u64 workers, u32 lane,
                                              ChainSpace& space) {
    const u64 active = clamped_count(*launch.write_num_valid_reqs, launch.write_req_capacity);
    const bool position_assert = *launch.enable_chain_position_assert != 0;
    const bool one_each = launch.write_req_capacity <= workers;
    const u64 planned = one_each ? launch.write_req_capacity : active;
    const u64 share = one_each ? 1 : lowest((active + workers - 1) / workers, WARP_LANES);
    const u64 alone_entries = share <= 1 ? 1 : ALONE_ENTRIES;
    u64 stamped = 0;
    for (u64 first = worker * share; first < planned; first += workers * share) {
        const u64 r = lane < share ? first + lane : launch.write_req_capacity;
        const Request request = load_request(launch, r, active);
        const bool alone = request.length != 0 && request.length <= alone_entries;
        const u32 stamped_alone = alone ? walk_alone<FOLDED>(launch, request, position_assert) : 0;
        stamped += __reduce_add_sync(FULL_WARP, stamped_alone);
        u32 together = __ballot_sync(FULL_WARP, request.length > alone_entries);
        for (; together; together &= together - 1) {
            const u32 owner = __ffs(together) - 1;
            const Request shared{__shfl_sync(FULL_WARP, request.begin, owner),
                                 __shfl_sync(FULL_WARP, request.length, owner),
                                 __shfl_sync(FULL_WARP, request.seed, owner)};
            stamped += walk_together<FOLDED>(launch, shared, position_assert, lane, space);
        }
    }
    if (lane == 0 && stamped) atomicAdd(launch.canary.slot_run_counter, stamped);
}

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
    for (u32 group = worker / team; group < groups && worker < team * teams; group += teams) {
        const Request request = load_request(launch, static_cast<u64>(group) * WARP_LANES + lane, active);
        const u64 sum = sum_up_to(request.length, lane);
        const u64 total = __shfl_sync(FULL_WARP, sum, WARP_LANES - 1);
        // Modulo 2^64: added to a place in the group's entries, it gives the flat index.
        const u64 shift = request.begin - (sum - request.length);
        const FoldShape shape = fold_shape(canary, total, team);
        const u32 turn = shape.slots_per_warp();
        const u64 stride = static_cast<u64>(team) * turn;
        for (u64 base = static_cast<u64>(member) * turn; base < total; base += stride) {
            const u64 place = base + lane;
            const u64 i = place + __shfl_sync(FULL_WARP, shift, lane_holding(place, sum));
            u64 slot = lane < turn && place < total ? launch.out_cache_loc[i] : NO_SLOT;
            if (!slot_exists(canary, slot)) slot = NO_SLOT;
            const u64 hash = fold_warp(canary, slot, shape, lane, space);
            if (slot != NO_SLOT) slot_fields(canary, slot)[FIELD_REAL_KV_HASH] = hash;
        }
    }
}
