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

// splitmix64 without its first and its last shift.
__device__ __forceinline__ u64 between_shifts(u64 x) {
    x = times(x, 0xBF58476D1CE4E5B9ull);
    return times(x ^ (x >> 27), 0x94D049BB133111EBull);
}

__device__ __forceinline__ u64 splitmix64(u64 x) {
    x = between_shifts(x ^ (x >> 30));
    return x ^ (x >> 31);
}

__device__ __forceinline__ u64 mix3(u64 a, u64 b, u64 c) {
    return splitmix64(splitmix64(splitmix64(a) ^ b) ^ c);
}

// Long chains are walked with the first shift of splitmix64 done ahead. It goes through xor: words
// that are mixed in have it done beforehand, and on the way from one multiplication to the next it
// is one with the last shift. A word that has it done is called opened.
__device__ __forceinline__ u64 opened(u64 word) { return word ^ (word >> 30); }
__device__ __forceinline__ u64 closed(u64 word) { return word ^ (word >> 30) ^ (word >> 60); }

// What follows between_shifts: the last shift, a word mixed in, and the first shift, with shifts by
// 30, 31 and 61 in all. The high half of x is there last, so all else is had before it, and the
// multiplier, which has nothing to do then, takes one shift. `top` are the three bits that come down
// from the high half to the low one; a byte permutation looks up what the upper two come to where
// those by 30 and 31 overlap.
__device__ __forceinline__ u64 reopened(u64 x, u64 word) {
#ifdef __CUDA_ARCH__
    u64 result;
    asm("{\n\t"
        ".reg .u32 low, high, word_low, word_high, by_30, by_31, top, folded;\n\t"
        "mov.b64 {low, high}, %1;\n\t"
        "mov.b64 {word_low, word_high}, %2;\n\t"
        "shr.u32 by_31, low, 31;\n\t"
        "mad.lo.u32 by_31, high, 2, by_31;\n\t"
        "shf.r.wrap.b32 by_30, low, high, 30;\n\t"
        "shr.u32 top, high, 29;\n\t"
        "prmt.b32 folded, 0x01010000, 0x02020303, top;\n\t"
        "lop3.b32 low, low, word_low, by_30, 0x96;\n\t"
        "lop3.b32 high, high, word_high, folded, 0x96;\n\t"
        "lop3.b32 low, low, by_31, top, 0x96;\n\t"
        "mov.b64 %0, {low, high};\n\t"
        "}"
        : "=l"(result)
        : "l"(x), "l"(word));
    return result;
#else
    return opened(x ^ (x >> 31)) ^ word;
#endif
}

// opened(splitmix64(a) ^ b), from a and b that are opened.
__device__ __forceinline__ u64 mixed_in(u64 a, u64 b) { return reopened(between_shifts(a), b); }

// opened(mix3(a, b, c)), from a, b and c that are opened.
__device__ __forceinline__ u64 mix3_opened(u64 a, u64 b, u64 c) {
    return mixed_in(mixed_in(mixed_in(a, b), c), 0);
}

// What the head of a chain stores as its prev_hash.
__device__ __forceinline__ u64 chain_head() { return splitmix64(CANARY_CHAIN_ANCHOR); }
