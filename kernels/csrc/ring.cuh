// The violation ring: rows of eight 64-bit fields, and an index that grows for every row.
#pragma once

#include "slot.cuh"

constexpr u64 VIOLATION_FIELDS = 8;

constexpr u64 VERIFY_CHAIN_HASH_MISMATCH = 1;
constexpr u64 VERIFY_POSITION_MISMATCH = 2;
constexpr u64 VERIFY_REAL_KV_HASH_MISMATCH = 4;
constexpr u64 WRITE_TOKEN_MISMATCH = 8;
constexpr u64 WRITE_POSITION_MISMATCH = 16;
constexpr u64 VERIFY_TOKEN_MISMATCH = 32;

struct Violation {
    u64 slot;
    u64 position;
    u64 stored_token;
    u64 expected_token;
    u64 stored_chain_hash;
    u64 expected_aux;
    u64 fail_reason_bits;
};

// The index wraps as an int32: a negative sequence number is a large unsigned one, and both it and
// one past the ring leave the ring alone.
__device__ __forceinline__ void append_violation(const KvCanary& canary, const Violation& violation) {
    const u32 sequence = atomicAdd(canary.violation_write_index, 1u);
    if (sequence > 0x7FFFFFFFu || sequence >= canary.ring_capacity) return;
    u64* row = canary.violation_ring + sequence * VIOLATION_FIELDS;
    row[0] = canary.kernel_kind;
    row[1] = violation.slot;
    row[2] = violation.position;
    row[3] = violation.stored_token;
    row[4] = violation.expected_token;
    row[5] = violation.stored_chain_hash;
    row[6] = violation.expected_aux;
    row[7] = violation.fail_reason_bits;
}
