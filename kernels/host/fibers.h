// Stacks of their own for the threads of a block, and a switch between them that costs a few
// nanoseconds: no signal mask is saved, so no system call is made.
//
// Define KV_FIBERS_UCONTEXT to take ucontext instead, as machines other than x86-64 and AArch64 do.
#pragma once

#include <stdint.h>
#include <sys/mman.h>

#if !defined(__x86_64__) && !defined(__aarch64__) && !defined(KV_FIBERS_UCONTEXT)
#define KV_FIBERS_UCONTEXT
#endif

#ifdef KV_FIBERS_UCONTEXT
#include <ucontext.h>
#endif

namespace kv_host {

constexpr uintptr_t GUARD_BYTES = 65536;
constexpr uintptr_t STACK_BYTES = 196608;
constexpr uintptr_t STACK_STEP = GUARD_BYTES + STACK_BYTES;

#ifdef KV_FIBERS_UCONTEXT

struct Context {
    ucontext_t saved;
};

inline void switch_context(Context& from, Context& to) { swapcontext(&from.saved, &to.saved); }

inline void prepare_context(Context& context, char* stack_top, void (*entry)()) {
    getcontext(&context.saved);
    context.saved.uc_stack.ss_sp = stack_top - STACK_BYTES;
    context.saved.uc_stack.ss_size = STACK_BYTES;
    context.saved.uc_link = nullptr;
    makecontext(&context.saved, entry, 0);
}

#else

struct Context {
    void* stack_pointer;
};

extern "C" __attribute__((visibility("hidden"))) void kv_switch_stack(void** from, void* to);

#if defined(__x86_64__)

constexpr int SAVED_WORDS = 7;
constexpr int ENTRY_WORD = 6;

asm(".text\n"
    ".p2align 4\n"
    ".hidden kv_switch_stack\n"
    ".type kv_switch_stack, @function\n"
    "kv_switch_stack:\n"
    "    pushq %rbp\n"
    "    pushq %rbx\n"
    "    pushq %r12\n"
    "    pushq %r13\n"
    "    pushq %r14\n"
    "    pushq %r15\n"
    "    movq %rsp, (%rdi)\n"
    "    movq %rsi, %rsp\n"
    "    popq %r15\n"
    "    popq %r14\n"
    "    popq %r13\n"
    "    popq %r12\n"
    "    popq %rbx\n"
    "    popq %rbp\n"
    "    popq %rcx\n"
    "    jmpq *%rcx\n"
    ".size kv_switch_stack, .-kv_switch_stack\n");

#else

constexpr int SAVED_WORDS = 20;
constexpr int ENTRY_WORD = 11;

asm(".text\n"
    ".p2align 4\n"
    ".hidden kv_switch_stack\n"
    ".type kv_switch_stack, %function\n"
    "kv_switch_stack:\n"
    "    sub sp, sp, #160\n"
    "    stp x19, x20, [sp, #0]\n"
    "    stp x21, x22, [sp, #16]\n"
    "    stp x23, x24, [sp, #32]\n"
    "    stp x25, x26, [sp, #48]\n"
    "    stp x27, x28, [sp, #64]\n"
    "    stp x29, x30, [sp, #80]\n"
    "    stp d8, d9, [sp, #96]\n"
    "    stp d10, d11, [sp, #112]\n"
    "    stp d12, d13, [sp, #128]\n"
    "    stp d14, d15, [sp, #144]\n"
    "    mov x9, sp\n"
    "    str x9, [x0]\n"
    "    mov sp, x1\n"
    "    ldp x19, x20, [sp, #0]\n"
    "    ldp x21, x22, [sp, #16]\n"
    "    ldp x23, x24, [sp, #32]\n"
    "    ldp x25, x26, [sp, #48]\n"
    "    ldp x27, x28, [sp, #64]\n"
    "    ldp x29, x30, [sp, #80]\n"
    "    ldp d8, d9, [sp, #96]\n"
    "    ldp d10, d11, [sp, #112]\n"
    "    ldp d12, d13, [sp, #128]\n"
    "    ldp d14, d15, [sp, #144]\n"
    "    add sp, sp, #160\n"
    "    br x30\n"
    ".size kv_switch_stack, .-kv_switch_stack\n");

#endif

inline void switch_context(Context& from, Context& to) {
    kv_switch_stack(&from.stack_pointer, to.stack_pointer);
}

// A stack that looks as if `entry` had been about to run when it was switched away from. On entry
// the x86-64 stack pointer stands 8 below a multiple of 16, as after a call.
inline void prepare_context(Context& context, char* stack_top, void (*entry)()) {
#if defined(__x86_64__)
    void** saved = reinterpret_cast<void**>(stack_top - 8) - SAVED_WORDS;
#else
    void** saved = reinterpret_cast<void**>(stack_top) - SAVED_WORDS;
#endif
    for (int word = 0; word < SAVED_WORDS; ++word) saved[word] = nullptr;
    saved[ENTRY_WORD] = reinterpret_cast<void*>(entry);
    context.stack_pointer = saved;
}

#endif

// A number of stacks, each above a guard of its own; null where memory or mappings ran out.
inline char* map_stacks(unsigned stacks) {
    void* memory = mmap(nullptr, stacks * STACK_STEP, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
    char* base = static_cast<char*>(memory);
    for (unsigned stack = 0; stack < stacks; ++stack) {
        if (mprotect(base + stack * STACK_STEP, GUARD_BYTES, PROT_NONE) != 0) {
            munmap(memory, stacks * STACK_STEP);
            return nullptr;
        }
    }
    return base;
}

// Tops are staggered: stacks at one offset within a page would fight for the same cache sets.
inline char* stack_top(char* stacks, unsigned index) {
    return stacks + (index + 1) * STACK_STEP - index % 16 * 256;
}

}  // namespace kv_host
