// Runs the threads of one block as fibers, and makes barriers and warp operations out of switches.
//
// A thread runs until it needs others: at a warp operation it waits for the lanes that its mask
// names, at __syncthreads for the whole block. What the threads of a warp do between two such
// points is one round; the order within a round, and which warp has the next one, follow the
// schedule seed. A warp operation takes place once every lane of its mask that has not ended waits
// in the same one, at the same place with the same mask. Where nothing can go on any more, the
// launch fails and says who waits where.
#pragma once

#include <stdio.h>
#include <string.h>

#include "fibers.h"

namespace kv_host {

constexpr unsigned LANES = 32;
constexpr unsigned MAX_WARPS_PER_BLOCK = 32;

enum class State : unsigned char { READY, IN_WARP_OPERATION, AT_BARRIER, ENDED };
enum class Operation : unsigned char { SYNC, SHUFFLE, BALLOT, MATCH_ANY, REDUCE_ADD };

struct Index {
    unsigned x, y, z;
};

// Where in the source a thread waits.
struct Place {
    const char* file;
    int line;
};

struct Fiber {
    Context context;
    Index thread;
    State state;
    Operation operation;
    unsigned mask;
    unsigned source_lane;
    Place place;
    uint64_t value;
    uint64_t result;
};

struct Block {
    Fiber fibers[MAX_WARPS_PER_BLOCK * LANES];
    unsigned threads;
    void (*body)();
    uint64_t seed;
    uint64_t random;
    Context scheduler;
    Fiber* round[LANES];
    unsigned round_length;
    unsigned round_next;
    char* error;
    size_t error_bytes;
};

static Block block;
static Fiber* current;
static Index block_index, block_dim, grid_dim;

inline unsigned random_below(unsigned bound) {
    uint64_t& x = block.random;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return static_cast<unsigned>((x >> 32) * bound >> 32);
}

// Goes on with the next thread of the round, or with the scheduler after the last.
inline void leave(Fiber& fiber) {
    if (block.round_next < block.round_length) {
        current = block.round[block.round_next++];
        switch_context(fiber.context, current->context);
    } else {
        switch_context(fiber.context, block.scheduler);
    }
}

inline uint64_t warp_operation(Operation operation, unsigned mask, uint64_t value, unsigned source_lane,
                               Place place) {
    Fiber& fiber = *current;
    fiber.state = State::IN_WARP_OPERATION;
    fiber.operation = operation;
    fiber.mask = mask;
    fiber.value = value;
    fiber.source_lane = source_lane;
    fiber.place = place;
    leave(fiber);
    return fiber.result;
}

inline void block_barrier(Place place) {
    Fiber& fiber = *current;
    fiber.state = State::AT_BARRIER;
    fiber.place = place;
    leave(fiber);
}

inline void fiber_main() {
    block.body();
    current->state = State::ENDED;
    leave(*current);
}

inline unsigned lanes_in(const Fiber* warp, State state) {
    unsigned lanes = 0;
    for (unsigned lane = 0; lane < LANES; ++lane) {
        if (warp[lane].state == state) lanes |= 1u << lane;
    }
    return lanes;
}

// A shuffle from a lane that takes no part gives a value that nothing should depend on.
constexpr uint64_t UNDEFINED_VALUE = 0xBAD5EED0BAD5EED0u;

inline uint64_t result_of(const Fiber* warp, unsigned lane, unsigned group) {
    const Fiber& fiber = warp[lane];
    uint64_t result = 0;
    if (fiber.operation == Operation::SHUFFLE) {
        const bool taking_part = fiber.source_lane < LANES && (group >> fiber.source_lane & 1);
        return taking_part ? warp[fiber.source_lane].value : UNDEFINED_VALUE;
    }
    if (fiber.operation == Operation::SYNC) return 0;
    for (unsigned left = group; left; left &= left - 1) {
        const unsigned other = static_cast<unsigned>(__builtin_ctz(left));
        if (fiber.operation == Operation::BALLOT) result |= uint64_t{warp[other].value != 0} << other;
        if (fiber.operation == Operation::MATCH_ANY) result |= uint64_t{warp[other].value == fiber.value} << other;
        if (fiber.operation == Operation::REDUCE_ADD) result += warp[other].value;
    }
    return result;
}

inline bool same_operation(const Fiber& a, const Fiber& b) {
    return a.operation == b.operation && a.mask == b.mask && a.place.line == b.place.line &&
           a.place.file == b.place.file;
}

// Ballots and sums are alike for the whole group; the others are the lane's own.
inline void complete(Fiber* warp, unsigned group) {
    const Operation operation = warp[__builtin_ctz(group)].operation;
    const bool alike = operation == Operation::BALLOT || operation == Operation::REDUCE_ADD;
    const uint64_t common = alike ? result_of(warp, static_cast<unsigned>(__builtin_ctz(group)), group) : 0;
    for (unsigned left = group; left; left &= left - 1) {
        const unsigned lane = static_cast<unsigned>(__builtin_ctz(left));
        warp[lane].result = alike ? common : result_of(warp, lane, group);
        warp[lane].state = State::READY;
    }
}

inline void complete_operations(Fiber* warp) {
    const unsigned ended = lanes_in(warp, State::ENDED);
    unsigned waiting = lanes_in(warp, State::IN_WARP_OPERATION);
    while (waiting) {
        const unsigned first = static_cast<unsigned>(__builtin_ctz(waiting));
        const unsigned needed = warp[first].mask & ~ended;
        unsigned group = 0;
        for (unsigned left = waiting; left; left &= left - 1) {
            const unsigned lane = static_cast<unsigned>(__builtin_ctz(left));
            if (same_operation(warp[first], warp[lane])) group |= 1u << lane;
        }
        if (group == needed) complete(warp, group);
        waiting &= ~group;
    }
}

inline void run_round(Fiber* warp, unsigned ready) {
    block.round_length = 0;
    for (unsigned left = ready; left; left &= left - 1) {
        block.round[block.round_length++] = &warp[__builtin_ctz(left)];
    }
    if (block.seed != 0) {
        for (unsigned last = block.round_length; last > 1; --last) {
            const unsigned other = random_below(last);
            Fiber* moved = block.round[last - 1];
            block.round[last - 1] = block.round[other];
            block.round[other] = moved;
        }
    }
    block.round_next = 1;
    current = block.round[0];
    switch_context(block.scheduler, current->context);
    complete_operations(warp);
}

inline const char* words_for(const Fiber& fiber) {
    if (fiber.state == State::AT_BARRIER) return "__syncthreads";
    switch (fiber.operation) {
        case Operation::SYNC: return "__syncwarp";
        case Operation::SHUFFLE: return "a shuffle";
        case Operation::BALLOT: return "a vote";
        case Operation::MATCH_ANY: return "__match_any_sync";
        default: return "__reduce_add_sync";
    }
}

// One clause for each different wait, up to four.
inline void describe_deadlock() {
    size_t used = static_cast<size_t>(
        snprintf(block.error, block.error_bytes, "block %u cannot go on:", block_index.x));
    unsigned clauses = 0;
    for (unsigned t = 0; t < block.threads && clauses < 4; ++t) {
        const Fiber& fiber = block.fibers[t];
        if (fiber.state == State::ENDED) continue;
        bool told = false;
        for (unsigned earlier = 0; earlier < t && !told; ++earlier) {
            const Fiber& other = block.fibers[earlier];
            told = other.state == fiber.state && other.place.line == fiber.place.line &&
                   other.place.file == fiber.place.file && other.mask == fiber.mask;
        }
        if (told || used >= block.error_bytes) continue;
        const unsigned mask = fiber.state == State::AT_BARRIER ? 0xFFFFFFFFu : fiber.mask;
        used += static_cast<size_t>(snprintf(block.error + used, block.error_bytes - used,
                                             "%s thread %u waits in %s at %s:%d for lanes %08x",
                                             clauses ? ";" : "", t, words_for(fiber), fiber.place.file,
                                             fiber.place.line, mask));
        ++clauses;
    }
}

// Natural order keeps to the first warp that can go on; a seed picks any of those.
inline Fiber* pick_warp(unsigned& ready) {
    const unsigned warps = block.threads / LANES;
    const unsigned first = block.seed != 0 ? random_below(warps) : 0;
    for (unsigned k = 0; k < warps; ++k) {
        Fiber* warp = &block.fibers[(first + k) % warps * LANES];
        ready = lanes_in(warp, State::READY);
        if (ready) return warp;
    }
    return nullptr;
}

// Lets the block through __syncthreads where every thread that has not ended stands there.
// Returns false where there is none to let through.
inline bool open_barrier(bool& all_ended) {
    unsigned at_barrier = 0, ended = 0;
    for (unsigned t = 0; t < block.threads; ++t) {
        at_barrier += block.fibers[t].state == State::AT_BARRIER;
        ended += block.fibers[t].state == State::ENDED;
    }
    all_ended = ended == block.threads;
    if (all_ended || at_barrier + ended != block.threads) return false;
    for (unsigned t = 0; t < block.threads; ++t) {
        if (block.fibers[t].state == State::AT_BARRIER) block.fibers[t].state = State::READY;
    }
    return true;
}

inline bool run_block() {
    for (unsigned t = 0; t < block.threads; ++t) {
        Fiber& fiber = block.fibers[t];
        char* top = stack_top(t, MAX_WARPS_PER_BLOCK * LANES);
        if (top == nullptr) {
            snprintf(block.error, block.error_bytes, "no memory for the stacks of a block");
            return false;
        }
        fiber.state = State::READY;
        fiber.thread = Index{t, 0, 0};
        prepare_context(fiber.context, top, fiber_main);
    }
    bool all_ended = false;
    for (;;) {
        unsigned ready = 0;
        if (Fiber* warp = pick_warp(ready)) {
            run_round(warp, ready);
        } else if (!open_barrier(all_ended)) {
            if (!all_ended) describe_deadlock();
            return all_ended;
        }
    }
}

}  // namespace kv_host
