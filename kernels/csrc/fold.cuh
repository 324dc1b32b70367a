// The real-KV hash of up to 32 slots at a time, one warp working together.
//
// Each way of folding returns to lane k the hash of the slot that lane k named (NO_SLOT: no bytes
// are read, and the result means nothing). There are three, chosen by the launch (fold_heads or
// fold_rows) and by how much work there is:
//
// - heads: every source folds 16 bytes (mode PARTIAL). A lane loads one vector of each source.
// - spread: few slots. A lane folds one source of one slot, so the sources of a slot go at once;
//   the warp then serves only 32 >> source_shift slots, those of its first lanes.
// - staged: many slots. Rows pass through shared memory in tiles of 32 rows by 128 bytes, so that
//   global loads are coalesced; the next tile is on its way in registers while a lane folds its
//   row of this one. Chunk c of row r lies at column c ^ (r % 8), free of bank conflicts both ways.
#pragma once

#include "slot.cuh"

constexpr u32 CHUNK_BYTES = 16;
constexpr u32 TILE_CHUNKS = 8;
constexpr u64 TILE_BYTES = TILE_CHUNKS * CHUNK_BYTES;
constexpr u32 ROWS_PER_LOAD = WARP_LANES / TILE_CHUNKS;
constexpr u32 TILE_LOADS = WARP_LANES / ROWS_PER_LOAD;

// Shared memory of one warp that folds.
struct FoldSpace {
    ulonglong2 tile[WARP_LANES][TILE_CHUNKS];
    const u8* rows[WARP_LANES];
};

// How a warp shares out the slots that it folds.
struct FoldShape {
    bool spread;
    u32 lane_shift;  // log2 of the lanes that a slot takes
    __device__ __forceinline__ u32 slots_per_warp() const { return WARP_LANES >> lane_shift; }
};

// The shape for this many slots over this many warps: spread where each then has one turn at most.
__device__ __forceinline__ FoldShape fold_shape(const KvCanary& canary, u64 slots, u64 warps) {
    const bool spread = (slots << canary.source_shift) <= warps * WARP_LANES;
    return FoldShape{spread, spread ? static_cast<u32>(canary.source_shift) : 0u};
}

__device__ __forceinline__ const u8* token_bytes(const KvSource& source, u64 slot) {
    u64 page, token;
    if (source.page_shift >= 0) {
        page = slot >> source.page_shift;
        token = slot & (source.page_size - 1);
    } else {
        page = slot / source.page_size;
        token = slot % source.page_size;
    }
    return source.base + page * source.row_step + token * source.num_bytes_per_token;
}

// Real KV is read once: it is the first to go from the cache, before slots that are half stamped.
__device__ __forceinline__ ulonglong2 load_chunk(const u8* at) {
    return __ldcs(reinterpret_cast<const ulonglong2*>(at));
}

__device__ __forceinline__ u64 fold_chunk(u64 folded, const ulonglong2& chunk) {
    return splitmix64(splitmix64(folded ^ chunk.x) ^ chunk.y);
}

__device__ __forceinline__ u64 fold_heads(const KvCanary& canary, u64 slot) {
    ulonglong2 heads[KV_MAX_SOURCES];
    KV_UNROLL
    for (u32 s = 0; s < KV_MAX_SOURCES; ++s) {
        heads[s] = make_ulonglong2(0, 0);
        if (s < canary.num_sources && slot != NO_SLOT) {
            heads[s] = load_chunk(token_bytes(canary.sources[s], slot));
        }
    }
    u64 combined = 0;
    KV_UNROLL
    for (u32 s = 0; s < KV_MAX_SOURCES; ++s) {
        if (s < canary.num_sources) combined = splitmix64(combined ^ fold_chunk(0, heads[s]));
    }
    return combined;
}

// One lane folds a token. A tile's worth of loads is under way before the first is needed.
__device__ __forceinline__ u64 fold_token(const u8* bytes, u64 fold_bytes) {
    u64 folded = 0;
    for (u64 done = 0; done < fold_bytes; done += TILE_BYTES) {
        ulonglong2 chunks[TILE_CHUNKS] = {};
        KV_UNROLL
        for (u32 c = 0; c < TILE_CHUNKS; ++c) {
            if (done + c * CHUNK_BYTES < fold_bytes) chunks[c] = load_chunk(bytes + done + c * CHUNK_BYTES);
        }
        KV_UNROLL
        for (u32 c = 0; c < TILE_CHUNKS; ++c) {
            if (done + c * CHUNK_BYTES < fold_bytes) folded = fold_chunk(folded, chunks[c]);
        }
    }
    return folded;
}

__device__ __forceinline__ u64 fold_spread(const KvCanary& canary, u64 slot, u32 lane_shift, u32 lane) {
    const u32 source = lane & ((1u << lane_shift) - 1);
    const u64 served = __shfl_sync(FULL_WARP, slot, lane >> lane_shift);
    u64 folded = 0;
    if (served != NO_SLOT && source < canary.num_sources) {
        const u64 fold_bytes = canary.sources[source].fold_bytes;
        folded = fold_token(token_bytes(canary.sources[source], served), fold_bytes);
    }
    u64 combined = 0;
    for (u32 s = 0; s < canary.num_sources; ++s) {
        combined = splitmix64(combined ^ __shfl_sync(FULL_WARP, folded, lane - source + s));
    }
    return __shfl_sync(FULL_WARP, combined, (lane << lane_shift) % WARP_LANES);
}

// A walk over the tiles of all sources, source by source.
struct TileWalk {
    u32 source;
    u64 offset;
};

__device__ __forceinline__ void publish_row(const KvCanary& canary, u32 source, u64 slot, u32 lane,
                                            FoldSpace& space) {
    space.rows[lane] = slot == NO_SLOT ? nullptr : token_bytes(canary.sources[source], slot);
}

// Lane l takes chunk l % 8 of rows l / 8, l / 8 + 4, ...; what lies past the folded bytes stays out.
__device__ __forceinline__ void load_tile(const KvCanary& canary, const TileWalk& at, u32 lane,
                                          const FoldSpace& space, ulonglong2 (&loads)[TILE_LOADS]) {
    const u64 offset = at.offset + lane % TILE_CHUNKS * CHUNK_BYTES;
    const bool folded = offset < canary.sources[at.source].fold_bytes;
    KV_UNROLL
    for (u32 k = 0; k < TILE_LOADS; ++k) {
        const u8* row = space.rows[lane / TILE_CHUNKS + k * ROWS_PER_LOAD];
        if (folded && row != nullptr) loads[k] = load_chunk(row + offset);
    }
}

__device__ __forceinline__ void store_tile(const ulonglong2 (&loads)[TILE_LOADS], u32 lane,
                                           FoldSpace& space) {
    KV_UNROLL
    for (u32 k = 0; k < TILE_LOADS; ++k) {
        const u32 row = lane / TILE_CHUNKS + k * ROWS_PER_LOAD;
        space.tile[row][(lane ^ row) % TILE_CHUNKS] = loads[k];
    }
}

__device__ __forceinline__ u64 fold_tile_row(u64 folded, u64 bytes, u32 lane, const FoldSpace& space) {
    if (bytes >= TILE_BYTES) {
        KV_UNROLL
        for (u32 c = 0; c < TILE_CHUNKS; ++c) {
            folded = fold_chunk(folded, space.tile[lane][(c ^ lane) % TILE_CHUNKS]);
        }
        return folded;
    }
    for (u32 c = 0; c < bytes / CHUNK_BYTES; ++c) {
        folded = fold_chunk(folded, space.tile[lane][(c ^ lane) % TILE_CHUNKS]);
    }
    return folded;
}

__device__ __forceinline__ u64 fold_staged(const KvCanary& canary, u64 slot, u32 lane, FoldSpace& space) {
    ulonglong2 loads[TILE_LOADS] = {};
    TileWalk at{0, 0};
    u64 combined = 0, folded = 0;
    publish_row(canary, 0, slot, lane, space);
    __syncwarp();
    load_tile(canary, at, lane, space, loads);
    while (at.source < canary.num_sources) {
        const u64 left = canary.sources[at.source].fold_bytes - at.offset;
        const bool last_of_source = left <= TILE_BYTES;
        const TileWalk next{at.source + last_of_source, last_of_source ? 0 : at.offset + TILE_BYTES};
        // Rows are rewritten only after every lane has issued the loads that it named them for.
        __syncwarp();
        store_tile(loads, lane, space);
        if (last_of_source && next.source < canary.num_sources) {
            publish_row(canary, next.source, slot, lane, space);
        }
        __syncwarp();
        if (next.source < canary.num_sources) load_tile(canary, next, lane, space, loads);
        folded = fold_tile_row(folded, left, lane, space);
        if (last_of_source) {
            combined = splitmix64(combined ^ folded);
            folded = 0;
        }
        at = next;
    }
    __syncwarp();
    return combined;
}

__device__ __forceinline__ u64 fold_rows(const KvCanary& canary, u64 slot, FoldShape shape, u32 lane,
                                         FoldSpace& space) {
    if (shape.spread) return fold_spread(canary, slot, shape.lane_shift, lane);
    return fold_staged(canary, slot, lane, space);
}
