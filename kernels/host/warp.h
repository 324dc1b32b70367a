// What a warp operation gives each lane, once all the lanes of its mask wait in it.
#pragma once

#include "block.h"

namespace kv_host {

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
        if (fiber.operation == Operation::MATCH_ANY) {
            result |= uint64_t{warp[other].value == fiber.value} << other;
        }
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

}  // namespace kv_host
