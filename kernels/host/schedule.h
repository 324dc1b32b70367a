// Runs the threads of one block as fibers, and makes barriers and warp operations out of switches.
//
// A thread runs until it needs others: at a warp operation it waits for the lanes that its mask
// names, at __syncthreads for the whole block, at a named barrier for as many threads as it says.
// What the threads of a warp do between two such points is one round; the order within a round, and
// which warp has the next one, follow the schedule seed. A warp operation takes place once every lane of its mask that has not ended waits
// in the same one, at the same place with the same mask. Where nothing can go on any more, the
// launch fails and says who waits where.
#pragma once

#include "warp.h"

namespace kv_host {

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
    if (fiber.state == State::AT_NAMED_BARRIER) return "a named barrier";
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
        const bool in_warp_operation = fiber.state == State::IN_WARP_OPERATION;
        const unsigned mask = in_warp_operation ? fiber.mask : 0xFFFFFFFFu;
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

// Lets the threads through a named barrier where as many as it waits for stand there: at once, since
// a GPU does not wait for others that may come. Returns false where there is none to let through.
inline bool open_named_barrier() {
    for (unsigned t = 0; t < block.threads; ++t) {
        const Fiber& first = block.fibers[t];
        if (first.state != State::AT_NAMED_BARRIER) continue;
        const unsigned number = first.mask, wanted = first.source_lane;
        unsigned waiting = 0;
        for (unsigned u = 0; u < block.threads; ++u) {
            const Fiber& fiber = block.fibers[u];
            waiting += fiber.state == State::AT_NAMED_BARRIER && fiber.mask == number;
        }
        if (waiting < wanted) continue;
        for (unsigned u = 0; u < block.threads; ++u) {
            Fiber& fiber = block.fibers[u];
            if (fiber.state == State::AT_NAMED_BARRIER && fiber.mask == number) fiber.state = State::READY;
        }
        return true;
    }
    return false;
}

inline bool run_block() {
    for (unsigned t = 0; t < block.threads; ++t) {
        Fiber& fiber = block.fibers[t];
        fiber.state = State::READY;
        fiber.thread = Index{t, 0, 0};
        prepare_context(fiber.context, stack_top(block.stacks, t), fiber_main);
    }
    bool all_ended = false;
    block.came_to_named_barrier = false;
    for (;;) {
        unsigned ready = 0;
        if (Fiber* warp = pick_warp(ready)) {
            run_round(warp, ready);
            while (block.came_to_named_barrier) block.came_to_named_barrier = open_named_barrier();
        } else if (!open_barrier(all_ended)) {
            if (!all_ended) describe_deadlock();
            return all_ended;
        }
    }
}

}  // namespace kv_host
