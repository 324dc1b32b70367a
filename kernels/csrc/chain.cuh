// The chain role of a write: chains are walked, entries checked, and token, position and prev_hash
// stamped.
#pragma once

#include "chain_group.cuh"
#include "crew.cuh"
#include "ring.cuh"

// Requests of at most this many entries share a warp, a lane each, where requests outnumber crews.
constexpr u64 ALONE_ENTRIES = 16;

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

// Checks and stamps the entries of a walked group whose first is flat index `base`. Returns the
// position of the last of them.
template <bool FOLDED>
__device__ __forceinline__ u64 stamp_group(const WriteLaunch& launch, const ChainGroup& group, u64 base,
                                           const Chain& chain, u64 last_position, u32 lane, ChainSpace& space,
                                           u32& round) {
    const u32 entries = group.entries;
    for (u32 first = 0; first < entries; first += WARP_LANES) {
        const u32 k = first + lane;
        const bool kept = k < entries;
        Entry entry{NO_SLOT, 0, 0, 0};
        if (kept) entry = Entry{group.slots[k], token_at(group, k), position_at(group, k), hash_at(group, k)};
        const bool stays = last_for_slot(entry.slot, kept, lane, space, round);
        if (kept) {
            if (launch.enable_write_input_assert) check_input(launch, base + group.places[k], entry);
            if (chain.asserts_position) {
                check_position(launch, entry, k ? position_at(group, k - 1) : last_position);
            }
            // Of the entries for one slot the last one stays, and the others need not be stored.
            if (stays) stamp<FOLDED>(launch.canary, entry);
        }
        // Later stores to a slot must follow these, whichever lanes make them.
        __syncwarp();
    }
    return entries ? position_at(group, entries - 1) : last_position;
}

// A crew walks one request, a group at a time: while the walking warp is in one, the keeping warp
// stamps the one before and lays out the one after. The seed is read by both before the first stamp.
// Returns the number of entries not skipped to the warp that keeps.
template <bool FOLDED>
__device__ __forceinline__ u64 walk_together(const WriteLaunch& launch, const Request& request,
                                             bool position_assert, const Crew& crew, u32 lane,
                                             ChainSpace& space, u32& round) {
    const u64 end = request.begin + request.length;
    const Chain chain = start_chain(launch, request.seed, position_assert);
    u64 running = opened(chain.running);
    u64 last_position = chain.previous_position;
    u64 stamped = 0;
    if (crew.keeps) stamped += lay_out_group(launch, request.begin, end, lane, space.groups[0]);
    crew_sync(crew);
    u32 now = 0;
    for (u64 base = request.begin; base < end; base += GROUP_ENTRIES) {
        ChainGroup& other = space.groups[now ^ 1];
        if (crew.keeps && base != request.begin) {
            last_position = stamp_group<FOLDED>(launch, other, base - GROUP_ENTRIES, chain, last_position, lane,
                                                space, round);
        }
        if (crew.keeps && end - base > GROUP_ENTRIES) {
            stamped += lay_out_group(launch, base + GROUP_ENTRIES, end, lane, other);
        }
        if (crew.walks) running = walk_group(space.groups[now], lane, running);
        crew_sync(crew);
        now ^= 1;
    }
    const u64 last_base = request.begin + (request.length - 1) / GROUP_ENTRIES * GROUP_ENTRIES;
    if (crew.keeps) {
        stamp_group<FOLDED>(launch, space.groups[now ^ 1], last_base, chain, last_position, lane, space, round);
    }
    return stamped;
}

// The chain role: worker of workers, a crew each, walks its share of the requests. Where requests
// outnumber the crews, a crew takes several at a time and walks the short ones a lane each.
template <bool FOLDED>
__device__ __forceinline__ void walk_requests(const WriteLaunch& launch, const Crew& crew, u64 worker,
                                              u64 workers, u32 lane, ChainSpace& space) {
    const u64 active = clamped_count(*launch.write_num_valid_reqs, launch.write_req_capacity);
    const bool position_assert = *launch.enable_chain_position_assert != 0;
    const bool one_each = launch.write_req_capacity <= workers;
    const u64 planned = one_each ? launch.write_req_capacity : active;
    const u64 share = one_each ? 1 : lowest((active + workers - 1) / workers, crew.warps * WARP_LANES);
    const u64 alone_entries = share <= 1 ? 1 : ALONE_ENTRIES;
    const u64 place = crew.member * WARP_LANES + lane;
    u64 stamped = 0;
    u32 round = 0;
    if (crew.keeps) {
        for (u32 bucket = lane; bucket < BUCKETS; bucket += WARP_LANES) space.buckets[bucket] = 0;
    }
    for (u64 first = worker * share; first < planned; first += workers * share) {
        // Where a crew has one request at a time, all of its lanes read it.
        const u64 r = share <= 1 ? first : place < share ? first + place : launch.write_req_capacity;
        const Request request = load_request(launch, r, active);
        const bool alone = place < share && request.length != 0 && request.length <= alone_entries;
        const u32 stamped_alone = alone ? walk_alone<FOLDED>(launch, request, position_assert) : 0;
        stamped += __reduce_add_sync(FULL_WARP, stamped_alone);
        const u32 together = __ballot_sync(FULL_WARP, request.length > alone_entries);
        if (share > 1) {
            if (lane == 0) space.together[crew.member] = together;
            crew_sync(crew);
        }
        for (u32 member = 0; member < (share > 1 ? crew.warps : 1); ++member) {
            for (u32 left = share > 1 ? space.together[member] : together & 1; left; left &= left - 1) {
                const u64 shared = first + member * WARP_LANES + __ffs(left) - 1;
                stamped += walk_together<FOLDED>(launch, share > 1 ? load_request(launch, shared, active) : request,
                                                 position_assert, crew, lane, space, round);
            }
        }
        if (share > 1) crew_sync(crew);
    }
    if (lane == 0 && stamped) atomicAdd(launch.canary.slot_run_counter, stamped);
}
