// The verify launch: a lane for each entry, the warp together for their real KV.
#pragma once

#include "fold.cuh"
#include "ring.cuh"

// What is folded: nothing, 16 bytes of every source, or rows of any length.
enum class Fold { NONE, HEADS, ROWS };

// An entry of the plan; the slot is NO_SLOT where there is nothing to check.
struct Wanted {
    u64 slot;
    u64 previous;
    u64 token;
    u64 position;
};

__device__ __forceinline__ Wanted load_wanted(const VerifyLaunch& launch, u64 i, bool exists) {
    Wanted wanted{NO_SLOT, 0, ~0ull, 0};
    if (!exists) return wanted;
    const u64 slot = launch.verify_slot_indices[i];
    wanted.previous = launch.verify_prev_slot_indices[i];
    wanted.position = launch.verify_expected_positions[i];
    if (launch.check_verify_expected_token) wanted.token = launch.verify_expected_tokens[i];
    if (slot != 0 && slot_exists(launch.canary, slot)) wanted.slot = slot;
    return wanted;
}

// What the slot holds, and its predecessor where the chain hash follows from one.
struct Found {
    Link link;
    u64 real_kv_hash;
    Link before;
};

__device__ __forceinline__ bool chain_hash_unknown(const KvCanary& canary, u64 previous) {
    return previous == 0 || (static_cast<i64>(previous) > 0 && !slot_exists(canary, previous));
}

__device__ __forceinline__ Found load_found(const KvCanary& canary, const Wanted& wanted) {
    const u64* fields = slot_fields(canary, wanted.slot);
    const ulonglong2 input = load_pair(canary, fields);
    const ulonglong2 hashes = load_pair(canary, fields + FIELD_PREV_HASH);
    Found found{Link{input.x, input.y, hashes.x}, hashes.y, Link{0, 0, 0}};
    if (wanted.previous != 0 && slot_exists(canary, wanted.previous)) {
        found.before = load_link(canary, wanted.previous);
    }
    return found;
}

__device__ __forceinline__ u64 expected_chain_hash(const KvCanary& canary, u64 previous, const Found& found) {
    if (chain_hash_unknown(canary, previous)) return found.link.prev_hash;
    if (static_cast<i64>(previous) < 0) return chain_head();
    return successor_hash(found.before);
}

__device__ __forceinline__ void judge(const VerifyLaunch& launch, const Wanted& wanted, const Found& found,
                                      u64 real_kv) {
    const Link& link = found.link;
    const u64 expected_hash = expected_chain_hash(launch.canary, wanted.previous, found);
    const u64 bits =
        (link.prev_hash != expected_hash ? VERIFY_CHAIN_HASH_MISMATCH : 0) |
        (wanted.token != ~0ull && link.token != wanted.token ? VERIFY_TOKEN_MISMATCH : 0) |
        (link.position != wanted.position ? VERIFY_POSITION_MISMATCH : 0) |
        (found.real_kv_hash != real_kv ? VERIFY_REAL_KV_HASH_MISMATCH : 0);
    if (bits == 0) return;
    append_violation(launch.canary, Violation{wanted.slot, link.position, link.token, wanted.token,
                                              link.prev_hash, expected_hash, bits});
}

// Entries `turn` at a time to a warp; worker of workers takes every workers-th turn. The plan of
// the next turn is read a turn ahead, and the slots before real KV is folded, so that one wait
// covers all.
template <Fold FOLD>
__device__ __forceinline__ void verify_entries(const VerifyLaunch& launch, u64 worker, u64 workers, u32 lane,
                                               FoldSpace* space) {
    const KvCanary& canary = launch.canary;
    const FoldShape shape =
        FOLD == Fold::ROWS ? fold_shape(canary, launch.verify_capacity, workers) : FoldShape{false, 0};
    const u64 turn = shape.slots_per_warp();
    const bool takes_entries = FOLD != Fold::ROWS || lane < turn;
    const u64 active = clamped_count(*launch.verify_num_valid, launch.verify_capacity);
    if (*launch.enable == 0) return;
    if (worker == 0 && lane == 0) atomicAdd(canary.slot_run_counter, active);
    const u64 stride = workers * turn;
    u64 entry = worker * turn + lane;
    Wanted ahead = load_wanted(launch, entry, takes_entries && entry < active);
    for (u64 base = worker * turn; base < active; base += stride) {
        const Wanted wanted = ahead;
        entry += stride;
        ahead = load_wanted(launch, entry, takes_entries && entry < active);
        const bool checked = wanted.slot != NO_SLOT;
        Found found{};
        if (checked) found = load_found(canary, wanted);
        u64 real_kv = 0;
        if (FOLD == Fold::HEADS) real_kv = fold_heads(canary, wanted.slot);
        if (FOLD == Fold::ROWS) real_kv = fold_rows(canary, wanted.slot, shape, lane, *space);
        if (checked) judge(launch, wanted, found, real_kv);
    }
}
