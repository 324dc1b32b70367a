// The kv-canary kernels: write stamps every KV slot of a forward pass, verify checks the stamps.
//
// There are five: write with real KV to fold (`_folded`: at least one source and a mode other than
// NONE) and without (`_plain`), and verify also where every source folds 16 bytes (`_heads`). The
// host picks by what it knows; all that may change between replays of a captured graph (counts,
// plans, inputs, switches) is read here. Blocks are whole warps, at most KV_MAX_BLOCK_THREADS
// threads, in a grid of any size: every role strides over its work by the number of workers that it
// has, so one grid serves any capacity. There is no barrier of a whole block.
//
// Write has two roles, which share nothing but the plan: a real-KV hash is not part of the chain,
// so one role walks chains and stamps token, position and prev_hash, and the other folds and
// stamps the real-KV hash, in other bytes of the same slots.
//
// - Chain role (the first half of a block's warps; all of them where nothing is folded). The mixing
//   of a chain is serial, and is what a launch with long requests takes, so nothing else may stand
//   in its way. Two warps make a crew that owns a request (crew.cuh). One walks: it reads tokens and
//   positions from shared memory, mixes, and leaves the hashes behind. The other keeps: it
//   lays out the next group of entries, without those that are skipped, and checks and stamps the
//   group before; of several entries for one slot only the last is stored. They meet after every
//   group, in a barrier of their own. One warp stamps a request in order, so the seed slot is read
//   before its request can overwrite it, and later groups win over earlier ones. Where requests
//   outnumber crews, short ones are walked a lane each.
// - Fold role (the other half). A team of warps takes 32 requests and shares out their entries
//   evenly, so one long request spreads over the device as well as a thousand short ones do. It is
//   done long before the chains are.
//
// Verify gives each lane an entry: it compares the slot's fields with the plan and with its
// predecessor's, and the warp folds the real KV of its 32 slots together (fold.cuh). Where there
// are few entries, both folding roles use several lanes for one slot.
//
// Counters: one thread counts the launch, and all entries of a verify launch, which are known at
// once; a write adds to slot_run_counter once for a warp.
#include "verify.cuh"
#include "write.cuh"

constexpr u32 MAX_WARPS = KV_MAX_BLOCK_THREADS / WARP_LANES;

struct Warp {
    u32 in_block;
    u32 lane;
};

__device__ __forceinline__ Warp this_warp() {
    return Warp{threadIdx.x / WARP_LANES, threadIdx.x % WARP_LANES};
}

__device__ __forceinline__ void count_launch(const KvCanary& canary) {
    if (blockIdx.x == 0 && threadIdx.x == 0) atomicAdd(canary.kernel_run_counter, 1ull);
}

// Neighbouring workers sit in different blocks, so that a few chains spread over the device.
__device__ __forceinline__ u32 worker_number(u32 warp) { return warp * gridDim.x + blockIdx.x; }

// The first `warps` warps of a block, but for an odd one, walk chains.
template <bool FOLDED>
__device__ __forceinline__ void walk(const WriteLaunch& launch, const Warp& warp, u32 warps,
                                     ChainSpace* chain_spaces) {
    const u32 crews = crews_of(warps);
    const Crew crew = crew_of(warp.in_block, warps);
    if (warp.in_block >= crews * crew.warps) return;
    walk_requests<FOLDED>(launch, crew, worker_number(crew.number), crews * gridDim.x, warp.lane,
                          chain_spaces[crew.number]);
}

template <Fold FOLD>
__device__ __forceinline__ void verify(const VerifyLaunch& launch, FoldSpace* fold_spaces) {
    const Warp warp = this_warp();
    count_launch(launch.canary);
    verify_entries<FOLD>(launch, worker_number(warp.in_block), blockDim.x / WARP_LANES * gridDim.x,
                         warp.lane, fold_spaces + warp.in_block);
}

extern "C" __global__ void __launch_bounds__(KV_MAX_BLOCK_THREADS, 2)
kv_canary_write_folded(const __grid_constant__ WriteLaunch launch) {
    __shared__ ChainSpace chain_spaces[crews_of((MAX_WARPS + 1) / 2)];
    __shared__ FoldSpace fold_spaces[(MAX_WARPS + 1) / 2];
    const Warp warp = this_warp();
    const u32 warps = blockDim.x / WARP_LANES;
    const u32 first_folder = warps / 2;
    count_launch(launch.canary);
    walk<true>(launch, warp, (warps + 1) / 2, chain_spaces);
    if (warp.in_block >= first_folder) {
        const u32 folder = warp.in_block - first_folder;
        fold_requests(launch, worker_number(folder), (warps - first_folder) * gridDim.x, warp.lane,
                      fold_spaces[folder]);
    }
}

extern "C" __global__ void __launch_bounds__(KV_MAX_BLOCK_THREADS, 2)
kv_canary_write_plain(const __grid_constant__ WriteLaunch launch) {
    __shared__ ChainSpace chain_spaces[crews_of(MAX_WARPS)];
    count_launch(launch.canary);
    walk<false>(launch, this_warp(), blockDim.x / WARP_LANES, chain_spaces);
}

extern "C" __global__ void __launch_bounds__(KV_MAX_BLOCK_THREADS, 2)
kv_canary_verify_folded(const __grid_constant__ VerifyLaunch launch) {
    __shared__ FoldSpace fold_spaces[MAX_WARPS];
    verify<Fold::ROWS>(launch, fold_spaces);
}

extern "C" __global__ void __launch_bounds__(KV_MAX_BLOCK_THREADS, 2)
kv_canary_verify_heads(const __grid_constant__ VerifyLaunch launch) {
    verify<Fold::HEADS>(launch, nullptr);
}

extern "C" __global__ void __launch_bounds__(KV_MAX_BLOCK_THREADS, 4)
kv_canary_verify_plain(const __grid_constant__ VerifyLaunch launch) {
    verify<Fold::NONE>(launch, nullptr);
}
