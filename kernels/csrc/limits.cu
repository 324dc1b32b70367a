// What no launch can be faster than, for the benchmark: doing nothing, and mixing one chain.
#include "hash.cuh"

extern "C" __global__ void kv_canary_nothing() {}

// One thread mixes a chain of this many tokens, all of it in registers. Compilers see that every
// thread would do the same and use the uniform datapath, where a multiplication is ready sooner;
// what is read from memory does not get there.
extern "C" __global__ void kv_canary_mix_chain(u64 tokens, u64* hash) {
    u64 running = chain_head();
    for (u64 i = 0; i < tokens; ++i) running = mix3(running, i, ~i);
    *hash = running;
}
