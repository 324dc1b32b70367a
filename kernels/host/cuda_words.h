// The words of CUDA C++ that the kernels use, for a host compiler. Included before the source.
#pragma once

#include "schedule.h"

// A build with counters keeps every function whole, so that its lines and branches are counted once,
// and drops the kernels that it does not launch: `extern "C" __global__` opens an empty block there.
#ifdef KV_COVERAGE
#define __global__ {} static inline
#define __forceinline__ inline
#else
#define __global__
#define __forceinline__ inline __attribute__((always_inline))
#endif
#define __device__
#define __host__
#define __grid_constant__
#define __launch_bounds__(...)

// Shared memory lies in a section of its own, so that it can be spoiled before every block: what a
// block of a GPU finds there is nothing to rely on.
#define __shared__ static __attribute__((section("kv_shared_memory"), aligned(16)))

#define threadIdx (kv_host::current->thread)
#define blockIdx (kv_host::block_index)
#define blockDim (kv_host::block_dim)
#define gridDim (kv_host::grid_dim)
#define warpSize 32

struct alignas(16) ulonglong2 {
    unsigned long long x, y;
};

struct alignas(16) uint4 {
    unsigned int x, y, z, w;
};

inline ulonglong2 make_ulonglong2(unsigned long long x, unsigned long long y) { return ulonglong2{x, y}; }

inline uint4 make_uint4(unsigned int x, unsigned int y, unsigned int z, unsigned int w) {
    return uint4{x, y, z, w};
}

template <class T>
inline T __ldg(const T* at) {
    return *at;
}

template <class T>
inline T __ldcs(const T* at) {
    return *at;
}

#define KV_PLACE \
    const char *file = __builtin_FILE(), int line = __builtin_LINE()
#define KV_HERE \
    kv_host::Place { file, line }

inline void __syncthreads(KV_PLACE) { kv_host::block_barrier(KV_HERE); }

inline void named_barrier(unsigned number, unsigned threads, KV_PLACE) {
    kv_host::named_barrier(number, threads, KV_HERE);
}

inline void __syncwarp(unsigned mask = 0xFFFFFFFFu, KV_PLACE) {
    kv_host::warp_operation(kv_host::Operation::SYNC, mask, 0, 0, KV_HERE);
}

inline unsigned __ballot_sync(unsigned mask, int predicate, KV_PLACE) {
    return static_cast<unsigned>(
        kv_host::warp_operation(kv_host::Operation::BALLOT, mask, predicate != 0, 0, KV_HERE));
}

inline int __any_sync(unsigned mask, int predicate, KV_PLACE) {
    return __ballot_sync(mask, predicate, file, line) != 0;
}

inline int __all_sync(unsigned mask, int predicate, KV_PLACE) {
    return __ballot_sync(mask, !predicate, file, line) == 0;
}

inline unsigned __reduce_add_sync(unsigned mask, unsigned value, KV_PLACE) {
    return static_cast<unsigned>(
        kv_host::warp_operation(kv_host::Operation::REDUCE_ADD, mask, value, 0, KV_HERE));
}

template <class T>
inline unsigned __match_any_sync(unsigned mask, T value, KV_PLACE) {
    return static_cast<unsigned>(kv_host::warp_operation(kv_host::Operation::MATCH_ANY, mask,
                                                         static_cast<uint64_t>(value), 0, KV_HERE));
}

template <class T>
inline T __shfl_sync(unsigned mask, T value, int lane, KV_PLACE) {
    return static_cast<T>(kv_host::warp_operation(kv_host::Operation::SHUFFLE, mask,
                                                  static_cast<uint64_t>(value),
                                                  static_cast<unsigned>(lane) % kv_host::LANES, KV_HERE));
}

// Lanes without a partner keep their own value.
template <class T>
inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, KV_PLACE) {
    const unsigned lane = threadIdx.x % kv_host::LANES;
    return __shfl_sync(mask, value, static_cast<int>(delta > lane ? lane : lane - delta), file, line);
}

template <class T>
inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, KV_PLACE) {
    const unsigned lane = threadIdx.x % kv_host::LANES;
    const bool inside = delta < kv_host::LANES - lane;
    return __shfl_sync(mask, value, static_cast<int>(inside ? lane + delta : lane), file, line);
}

template <class T>
inline T __shfl_xor_sync(unsigned mask, T value, int bits, KV_PLACE) {
    return __shfl_sync(mask, value, static_cast<int>(threadIdx.x % kv_host::LANES) ^ bits, file, line);
}

// Threads switch at warp operations and barriers only, so plain reads and writes are atomic.
template <class T>
inline T atomicAdd(T* at, T value) {
    const T before = *at;
    *at = before + value;
    return before;
}

inline int atomicAdd(int* at, int value) {
    return static_cast<int>(atomicAdd(reinterpret_cast<unsigned*>(at), static_cast<unsigned>(value)));
}

template <class T>
inline T atomicMax(T* at, T value) {
    const T before = *at;
    if (value > before) *at = value;
    return before;
}

inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
inline int __popcll(unsigned long long bits) { return __builtin_popcountll(bits); }
inline int __ffs(unsigned bits) { return __builtin_ffs(static_cast<int>(bits)); }
inline int __ffsll(unsigned long long bits) { return __builtin_ffsll(static_cast<long long>(bits)); }
inline int __clz(unsigned bits) { return bits ? __builtin_clz(bits) : 32; }

template <class T>
inline T min(T a, T b) {
    return b < a ? b : a;
}

template <class T>
inline T max(T a, T b) {
    return a < b ? b : a;
}
