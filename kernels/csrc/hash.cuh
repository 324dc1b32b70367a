// The contract's hashing: all arithmetic on unsigned 64-bit words, wrapping.
#pragma once

#include "canary_abi.h"

constexpr u64 CANARY_CHAIN_ANCHOR = 0xC0FFEE1234567890ull;

// word * factor. A GPU multiplies 32 bits at a time, and what follows waits longest for the high
// half of the first product. So both cross products are had before it, and one addition of three
// terms follows; left to themselves, compilers chain the products. They do not see that the sums
// that start from 1 and -1 start from nothing, and so do not merge them.
__device__ __forceinline__ u64 times(u64 word, u64 factor) {
#ifdef __CUDA_ARCH__
    u64 product;
    asm("{\n\t"
        ".reg .u64 first;\n\t"
        ".reg .u32 word_low, word_high, factor_low, factor_high, low, high, a, b;\n\t"
        "mov.b64 {word_low, word_high}, %1;\n\t"
        "mov.b64 {factor_low, factor_high}, %2;\n\t"
        "mul.wide.u32 first, word_low, factor_low;\n\t"
        "mad.lo.u32 a, word_low, factor_high, 1;\n\t"
        "mad.lo.u32 b, word_high, factor_low, -1;\n\t"
        "mov.b64 {low, high}, first;\n\t"
        "add.u32 a, a, b;\n\t"
        "add.u32 high, a, high;\n\t"
        "mov.b64 %0, {low, high};\n\t"
        "}"
        : "=l"(product)
        : "l"(word), "l"(factor));
    return product;
#else
    return word * factor;
#endif
}

__device__ __forceinline__ u64 splitmix64(u64 x) {
    x = times(x ^ (x >> 30), 0xBF58476D1CE4E5B9ull);
    x = times(x ^ (x >> 27), 0x94D049BB133111EBull);
    return x ^ (x >> 31);
}

__device__ __forceinline__ u64 mix3(u64 a, u64 b, u64 c) {
    return splitmix64(splitmix64(splitmix64(a) ^ b) ^ c);
}

// What the head of a chain stores as its prev_hash.
__device__ __forceinline__ u64 chain_head() { return splitmix64(CANARY_CHAIN_ANCHOR); }
