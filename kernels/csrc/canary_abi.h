// What the host hands to a kernel, by value. Every member is 64 bits wide, so that the layout is
// the same for every compiler and the host can pack it as a row of words.
#pragma once

typedef unsigned char u8;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;

#ifndef KV_MAX_SOURCES
#define KV_MAX_SOURCES 4
#endif

// A real-KV source: slot s lies in row s / page_size, from column
// (s % page_size) * num_bytes_per_token on.
struct KvSource {
    const u8* base;
    u64 row_step;
    u64 page_size;
    i64 page_shift;  // log2(page_size), or -1 where page_size is no power of two
    u64 num_bytes_per_token;
    u64 fold_bytes;  // leading bytes of a token that are folded: a positive multiple of 16
};

// The canary state, and how real KV is hashed: what both kinds of launch share.
struct KvCanary {
    u8* canary_buf;
    u64 slot_stride_bytes;
    u64 num_slots;
    u64 wide_slots;  // 1 where every slot is aligned to 16 bytes
    u64* violation_ring;
    u64 ring_capacity;
    u32* violation_write_index;
    u64* slot_run_counter;
    u64* kernel_run_counter;
    u64 kernel_kind;
    u64 num_sources;   // 0 in mode NONE
    u64 source_shift;  // log2 of num_sources, rounded up
    u64 short_folds;   // 1 where every source folds 16 bytes
    KvSource sources[KV_MAX_SOURCES];
};

struct WriteLaunch {
    KvCanary canary;
    const i32* enable_chain_position_assert;
    const u64* write_offsets;
    const u64* write_seed_slot_indices;
    const i32* write_num_valid_reqs;
    u64 write_req_capacity;
    const u64* input_ids;
    const u64* positions;
    const u64* out_cache_loc;
    u64 num_tokens_padded;
    u64 enable_write_input_assert;
    const u64* expected_input_tokens;
    const u64* expected_input_positions;
};

struct VerifyLaunch {
    KvCanary canary;
    const u64* verify_slot_indices;
    const u64* verify_expected_tokens;
    const u64* verify_expected_positions;
    const u64* verify_prev_slot_indices;
    const i32* verify_num_valid;
    const i32* enable;
    u64 verify_capacity;
    u64 check_verify_expected_token;
};

static_assert(KV_MAX_SOURCES >= 1 && KV_MAX_SOURCES <= 32, "a warp has a lane for each source");
static_assert(sizeof(WriteLaunch) == KV_WRITE_LAUNCH_BYTES, "the host packs another WriteLaunch");
static_assert(sizeof(VerifyLaunch) == KV_VERIFY_LAUNCH_BYTES, "the host packs another VerifyLaunch");
