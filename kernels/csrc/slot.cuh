// A canary slot: four 64-bit fields at the start of a row of canary_buf.
#pragma once

#include "hash.cuh"

#ifdef __CUDACC__
#define KV_UNROLL _Pragma("unroll")
#define KV_UNROLL_BY(n) KV_PRAGMA(unroll n)
#define KV_PRAGMA(words) _Pragma(#words)
#else
#define KV_UNROLL
#define KV_UNROLL_BY(n)
#endif

#ifdef __CUDACC__
// Waits until that many threads of the block, whole warps, have come to the barrier of that number.
__device__ __forceinline__ void named_barrier(u32 number, u32 threads) {
    asm volatile("barrier.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}
#endif

constexpr u32 FULL_WARP = 0xFFFFFFFFu;
constexpr u32 WARP_LANES = 32;
constexpr u64 NO_SLOT = ~0ull;

// Token and position are fields 0 and 1, and always go together.
constexpr u32 FIELD_PREV_HASH = 2;
constexpr u32 FIELD_REAL_KV_HASH = 3;

// The fields that a chain is made of.
struct Link {
    u64 token;
    u64 position;
    u64 prev_hash;
};

__device__ __forceinline__ u64 lowest(u64 a, u64 b) { return a < b ? a : b; }

// A count as the device finds it, clamped to [0, capacity].
__device__ __forceinline__ u64 clamped_count(i32 count, u64 capacity) {
    return count < 0 ? 0 : lowest(static_cast<u64>(count), capacity);
}

// Negative slots are huge as unsigned numbers, so one comparison judges both ends.
__device__ __forceinline__ bool slot_exists(const KvCanary& canary, u64 slot) {
    return slot < canary.num_slots;
}

__device__ __forceinline__ u64* slot_fields(const KvCanary& canary, u64 slot) {
    return reinterpret_cast<u64*>(canary.canary_buf + slot * canary.slot_stride_bytes);
}

// Two neighbouring fields, in one load where the slots are aligned for it.
__device__ __forceinline__ ulonglong2 load_pair(const KvCanary& canary, const u64* fields) {
    if (canary.wide_slots) return *reinterpret_cast<const ulonglong2*>(fields);
    return make_ulonglong2(fields[0], fields[1]);
}

__device__ __forceinline__ Link load_link(const KvCanary& canary, u64 slot) {
    const u64* fields = slot_fields(canary, slot);
    const ulonglong2 pair = load_pair(canary, fields);
    return Link{pair.x, pair.y, fields[FIELD_PREV_HASH]};
}

__device__ __forceinline__ u64 successor_hash(const Link& link) {
    return mix3(link.prev_hash, link.token, link.position);
}

// The same for a store.
__device__ __forceinline__ void store_pair(const KvCanary& canary, u64* fields, u64 first, u64 second) {
    if (canary.wide_slots) {
        *reinterpret_cast<ulonglong2*>(fields) = make_ulonglong2(first, second);
    } else {
        fields[0] = first;
        fields[1] = second;
    }
}
