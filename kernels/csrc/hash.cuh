// The contract's hashing: all arithmetic on unsigned 64-bit words, wrapping.
#pragma once

#include "canary_abi.h"

constexpr u64 CANARY_CHAIN_ANCHOR = 0xC0FFEE1234567890ull;

__device__ __forceinline__ u64 splitmix64(u64 x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    return x ^ (x >> 31);
}

__device__ __forceinline__ u64 mix3(u64 a, u64 b, u64 c) {
    return splitmix64(splitmix64(splitmix64(a) ^ b) ^ c);
}

// What the head of a chain stores as its prev_hash.
__device__ __forceinline__ u64 chain_head() { return splitmix64(CANARY_CHAIN_ANCHOR); }
