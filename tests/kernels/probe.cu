// Small kernels that try the words of CUDA one at a time.
#include "canary_abi.h"
#include "slot.cuh"

struct ProbeLaunch {
    u64* out;
    u64 which;
};

extern "C" __global__ void probe(const __grid_constant__ ProbeLaunch launch) {
    __shared__ u64 shared[128];
    const u32 t = threadIdx.x;
    const u32 lane = t % WARP_LANES;
    u64* out = launch.out + blockIdx.x * blockDim.x;
    const u64 big = (1ull << 40) + t;
    switch (launch.which) {
        case 0: out[t] = __shfl_sync(FULL_WARP, big, 31 - lane); break;
        case 1: out[t] = __shfl_up_sync(FULL_WARP, big, 3); break;
        case 2: out[t] = __shfl_down_sync(FULL_WARP, big, 3); break;
        case 3: out[t] = __shfl_xor_sync(FULL_WARP, big, 5); break;
        case 4: out[t] = __ballot_sync(FULL_WARP, lane % 3 == 0); break;
        case 5: out[t] = __match_any_sync(FULL_WARP, big % 5); break;
        case 6: out[t] = __reduce_add_sync(FULL_WARP, lane); break;
        case 7: out[t] = __any_sync(FULL_WARP, lane == 9) * 2 + __all_sync(FULL_WARP, lane != 9); break;
        case 8:  // half a warp on its own
            if (lane < 16) out[t] = __ballot_sync(0xFFFFu, lane & 1);
            break;
        case 9:  // the order in which threads reach a counter
            out[t] = atomicAdd(launch.out + 1000, 1ull);
            break;
        case 10:  // a block reversed through shared memory
            shared[t] = t;
            __syncthreads();
            out[t] = shared[blockDim.x - 1 - t];
            break;
        case 11:  // the same without the barrier
            shared[t] = t;
            out[t] = shared[blockDim.x - 1 - t];
            break;
        case 12:  // one lane never comes
            if (lane != 4) __syncwarp();
            else __syncthreads();
            break;
        case 13:  // lanes that have ended are not waited for
            if (lane == 4) return;
            out[t] = __ballot_sync(FULL_WARP, 1);
            break;
        case 14:  // a lane that takes no part has no value
            if (lane < 16) out[t] = __shfl_sync(0xFFFFu, big, 20);
            break;
        case 15:  // half of the warp at another place
            if (lane < 16) out[t] = __ballot_sync(FULL_WARP, 1);
            else out[t] = __ballot_sync(FULL_WARP, 1);
            break;
        case 17:  // two warps of four meet, and one reads what the other left
            if (t / WARP_LANES == 1) shared[lane] = t;
            if (t / WARP_LANES < 2) named_barrier(3, 2 * WARP_LANES);
            out[t] = t < WARP_LANES ? shared[lane] : 0;
            break;
        case 18:  // one warp of two comes
            if (t < WARP_LANES) named_barrier(3, 2 * WARP_LANES);
            break;
        case 16: out[t] = blockIdx.x * 1000 + gridDim.x * 100 + blockDim.x; break;
        default: out[t] = __popc(0xF0F0u) * 1000 + __ffs(8u) * 100 + __popcll(7ull << 40) * 10 + __ffsll(2ull);
    }
}
