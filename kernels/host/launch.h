// Launches of a kernel on the host: a grid's blocks one after another, in the order of a seed.
#pragma once

#include "cuda_words.h"

extern "C" {
extern char __start_kv_shared_memory[] __attribute__((visibility("hidden")));
extern char __stop_kv_shared_memory[] __attribute__((visibility("hidden")));
}

namespace kv_host {

constexpr int SPOILED_BYTE = 0xA7;

// Makes sure that the section exists where a build has no shared memory at all.
__attribute__((section("kv_shared_memory"), used)) static char shared_memory_floor[16] = {1};

inline void start_random(uint64_t seed) {
    block.seed = seed;
    block.random = (seed + 1) * 0x9E3779B97F4A7C15u;
    if (block.random == 0) block.random = 1;
}

// The k-th of `blocks` in an order that steps by a stride prime to their number.
inline unsigned block_at(unsigned k, unsigned blocks, unsigned first, unsigned stride) {
    return static_cast<unsigned>((first + uint64_t{k} * stride) % blocks);
}

inline unsigned common_divisor(unsigned a, unsigned b) { return b ? common_divisor(b, a % b) : a; }

// Runs body for every thread of the grid, on the process's stacks. Returns 0, or 1 with a line in
// `error`.
inline int run_grid(void (*body)(), char* stacks, unsigned blocks, unsigned threads, uint64_t seed,
                    char* error, size_t error_bytes) {
    if (threads == 0 || threads % LANES != 0 || threads > MAX_WARPS_PER_BLOCK * LANES || blocks == 0) {
        snprintf(error, error_bytes, "a grid of %u blocks of %u threads cannot be run", blocks, threads);
        return 1;
    }
    start_random(seed);
    block.body = body;
    block.stacks = stacks;
    block.threads = threads;
    block.error = error;
    block.error_bytes = error_bytes;
    grid_dim = Index{blocks, 1, 1};
    block_dim = Index{threads, 1, 1};
    unsigned first = 0, stride = 1;
    if (seed != 0) {
        first = random_below(blocks);
        stride = 1 + random_below(blocks);
        while (common_divisor(stride, blocks) != 1) ++stride;
    }
    for (unsigned k = 0; k < blocks; ++k) {
        block_index = Index{block_at(k, blocks, first, stride), 0, 0};
        memset(__start_kv_shared_memory, SPOILED_BYTE,
               static_cast<size_t>(__stop_kv_shared_memory - __start_kv_shared_memory));
        if (!run_block()) return 1;
    }
    return 0;
}

template <class Launch>
struct Kernel {
    static inline void (*function)(const Launch);
    static inline const Launch* launch;
    static void body() { function(*launch); }
};

template <class Launch>
int launch_kernel(void (*kernel)(const Launch), const void* words, char* stacks, unsigned blocks,
                  unsigned threads, uint64_t seed, char* error, size_t error_bytes) {
    Launch launch;
    memcpy(&launch, words, sizeof launch);
    Kernel<Launch>::function = kernel;
    Kernel<Launch>::launch = &launch;
    return run_grid(Kernel<Launch>::body, stacks, blocks, threads, seed, error, error_bytes);
}

}  // namespace kv_host

// Stacks for the threads of the widest block; one set serves every build of a process.
extern "C" __attribute__((visibility("default"))) char* map_block_stacks() {
    return kv_host::map_stacks(kv_host::MAX_WARPS_PER_BLOCK * kv_host::LANES);
}

#ifdef KV_COVERAGE
extern "C" void __gcov_dump();
extern "C" void __gcov_reset();

// Adds what was counted since the last time to the file that the environment names.
extern "C" __attribute__((visibility("default"))) void leave_counts() {
    __gcov_dump();
    __gcov_reset();
}
#endif

// A C function that launches a kernel on packed words.
#define KV_EXPORT_LAUNCH(kernel)                                                                          \
    extern "C" __attribute__((visibility("default"))) int launch_##kernel(                                \
        const void* words, char* stacks, unsigned blocks, unsigned threads, uint64_t seed, char* error,   \
        size_t error_bytes) {                                                                             \
        return kv_host::launch_kernel(kernel, words, stacks, blocks, threads, seed, error, error_bytes);  \
    }
