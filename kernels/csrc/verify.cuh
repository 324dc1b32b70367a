// The verify launch: a lane for each entry, the warp together for their real KV.
#pragma once

#include "fold.cuh"
#include "ring.cuh"

// What an entry's slot held, and what it should have held.
struct Found {
    u64 slot;
    Link link;
    u64 expected_hash;
    bool real_kv_differs;
};

// The chain hash that follows from the predecessor: the slot's own where it cannot be told.
__device__ __forceinline__ u64 expected_chain_hash(const KvCanary& canary, u64 previous, u64 stored) {
    if (static_cast<i64>(previous) < 0) return chain_head();
    if (previous == 0 || !slot_exists(canary, previous)) return stored;
    return successor_hash(load_link(canary, previous));
}

__device__ __forceinline__ void judge(const VerifyLaunch& launch, u64 i, const Found& found) {
    const Link& link = found.link;
    const u64 position = launch.verify_expected_positions[i];
    const u64 token = launch.check_verify_expected_token ? launch.verify_expected_tokens[i] : ~0ull;
    const u64 bits = (link.prev_hash != found.expected_hash ? VERIFY_CHAIN_HASH_MISMATCH : 0) |
                     (token != ~0ull && link.token != token ? VERIFY_TOKEN_MISMATCH : 0) |
                     (link.position != position ? VERIFY_POSITION_MISMATCH : 0) |
                     (found.real_kv_differs ? VERIFY_REAL_KV_HASH_MISMATCH : 0);
    if (bits == 0) return;
    append_violation(launch.canary, Violation{found.slot, link.position, link.token, token,
                                              link.prev_hash, found.expected_hash, bits});
}

// Entries `turn` at a time to a warp; worker of workers takes every workers-th turn. The slots of
// the next turn are read while this one is folded.
template <bool FOLDED>
__device__ __forceinline__ void verify_entries(const VerifyLaunch& launch, u64 worker, u64 workers, u32 lane,
                                               FoldSpace* space) {
    const KvCanary& canary = launch.canary;
    const FoldShape shape =
        FOLDED ? fold_shape(canary, launch.verify_capacity, workers) : FoldShape{false, 0};
    const u64 turn = shape.slots_per_warp();
    const u64 active = clamped_count(*launch.verify_num_valid, launch.verify_capacity);
    if (*launch.enable == 0) return;
    u64 counted = 0;
    u64 ahead = NO_SLOT;
    u64 i = worker * turn + lane;
    if (lane < turn && i < active) ahead = launch.verify_slot_indices[i];
    for (u64 base = worker * turn; base < active; base += workers * turn) {
        const u64 wanted = ahead;
        const u64 slot = wanted != 0 && slot_exists(canary, wanted) ? wanted : NO_SLOT;
        const u64 entry = base + lane;
        i = entry + workers * turn;
        ahead = lane < turn && i < active ? launch.verify_slot_indices[i] : NO_SLOT;
        counted += lowest(turn, active - base);
        Found found{slot, {0, 0, 0}, 0, false};
        u64 stored_real_kv = 0;
        if (slot != NO_SLOT) {
            const u64* fields = slot_fields(canary, slot);
            const ulonglong2 input = load_pair(canary, fields);
            const ulonglong2 hashes = load_pair(canary, fields + FIELD_PREV_HASH);
            const u64 previous = launch.verify_prev_slot_indices[entry];
            found.link = Link{input.x, input.y, hashes.x};
            found.expected_hash = expected_chain_hash(canary, previous, hashes.x);
            stored_real_kv = hashes.y;
        }
        const u64 real_kv = FOLDED ? fold_warp(canary, slot, shape, lane, *space) : 0;
        found.real_kv_differs = stored_real_kv != real_kv;
        if (slot != NO_SLOT) judge(launch, entry, found);
    }
    if (lane == 0 && counted) atomicAdd(canary.slot_run_counter, counted);
}
