// The block being run: its threads as fibers, and what each of them waits for.
#pragma once

#include <stdio.h>
#include <string.h>

#include "fibers.h"

namespace kv_host {

constexpr unsigned LANES = 32;
constexpr unsigned MAX_WARPS_PER_BLOCK = 32;

enum class State : unsigned char { READY, IN_WARP_OPERATION, AT_BARRIER, AT_NAMED_BARRIER, ENDED };
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
    char* stacks;
    void (*body)();
    uint64_t seed;
    uint64_t random;
    Context scheduler;
    Fiber* round[LANES];
    unsigned round_length;
    unsigned round_next;
    bool came_to_named_barrier;
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

// Waits for `threads` threads of the block in the barrier of that number.
inline void named_barrier(unsigned number, unsigned threads, Place place) {
    Fiber& fiber = *current;
    fiber.state = State::AT_NAMED_BARRIER;
    fiber.mask = number;
    fiber.source_lane = threads;
    fiber.place = place;
    block.came_to_named_barrier = true;
    leave(fiber);
}

inline void fiber_main() {
    block.body();
    current->state = State::ENDED;
    leave(*current);
}

}  // namespace kv_host
