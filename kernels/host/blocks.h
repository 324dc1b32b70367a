// Which basic blocks have run, where the compiler calls __sanitizer_cov_trace_pc at the start of each.
#pragma once

#include <stddef.h>
#include <stdint.h>

extern "C" {
extern char __ehdr_start[] __attribute__((visibility("hidden")));

// A byte for each address of the library's code, from its start; set where a block has run.
constexpr size_t CODE_BYTES = 1 << 20;
__attribute__((visibility("default"))) unsigned char kv_reached[CODE_BYTES];

__attribute__((visibility("hidden"), no_sanitize_coverage)) void __sanitizer_cov_trace_pc() {
    const size_t place = static_cast<char*>(__builtin_return_address(0)) - __ehdr_start;
    if (place < CODE_BYTES) kv_reached[place] = 1;
}
}
