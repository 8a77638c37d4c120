// Fibers: stacks with a guard page, and the switch between them.
#include "tests/support/blocks/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <new>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace testing_support {
namespace {

// Generous, as sanitizers widen frames; only what is touched costs memory.
constexpr size_t kStackBytes = size_t{512} << 10;

}  // namespace

#if defined(__x86_64__)

// The System V ABI keeps six registers over a call; where they are put decides which stack runs on.
// (swapcontext would ask the kernel for the signal mask, which takes ten times as long.)
extern "C" void autotune_switch_stack(void** save, void* load);
asm(R"(
.text
.globl autotune_switch_stack
.hidden autotune_switch_stack
.type autotune_switch_stack, @function
autotune_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size autotune_switch_stack, .-autotune_switch_stack
)");

struct Context {
  void* stack_pointer = nullptr;

  void begin(std::byte* stack, size_t bytes, void (*entry)()) {
    auto* top = reinterpret_cast<void**>(stack + bytes);
    *--top = nullptr;  // where a caller's address would be; entry() then finds the stack aligned
    *--top = reinterpret_cast<void*>(entry);
    for (int saved = 0; saved < 6; ++saved) *--top = nullptr;
    stack_pointer = top;
  }
  static void swap(Context& from, Context& to) {
    autotune_switch_stack(&from.stack_pointer, to.stack_pointer);
  }
};

#else

struct Context {
  ucontext_t context;

  void begin(std::byte* stack, size_t bytes, void (*entry)()) {
    getcontext(&context);
    context.uc_stack.ss_sp = stack;
    context.uc_stack.ss_size = bytes;
    context.uc_link = nullptr;
    makecontext(&context, entry, 0);
  }
  static void swap(Context& from, Context& to) { swapcontext(&from.context, &to.context); }
};

#endif

struct Fiber::State {
  std::byte* memory = nullptr;  // the lowest page is the guard
  Context inside, outside;
  void (*run)(void*) = nullptr;
  void* argument = nullptr;
  bool returned = true;

  static thread_local State* starting;
  static void entry() {
    State& self = *starting;
    self.run(self.argument);
    self.returned = true;
    Context::swap(self.inside, self.outside);
  }
};
thread_local Fiber::State* Fiber::State::starting = nullptr;

Fiber::Fiber() : state_(std::make_unique<State>()) {
  void* memory = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  mprotect(memory, static_cast<size_t>(sysconf(_SC_PAGESIZE)), PROT_NONE);
  state_->memory = static_cast<std::byte*>(memory);
}

Fiber::~Fiber() {
  if (state_) munmap(state_->memory, kStackBytes);
}

Fiber::Fiber(Fiber&&) noexcept = default;

void Fiber::start(void (*run)(void*), void* argument) {
#if defined(__SANITIZE_ADDRESS__)
  // A run that was left in the middle never cleared what its frames had marked.
  const auto guard = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  __asan_unpoison_memory_region(state_->memory + guard, kStackBytes - guard);
#endif
  state_->run = run;
  state_->argument = argument;
  state_->returned = false;
  state_->inside.begin(state_->memory, kStackBytes, &State::entry);
}

bool Fiber::resume() {
  State::starting = state_.get();
  Context::swap(state_->outside, state_->inside);
  return !state_->returned;
}

void Fiber::pause() { Context::swap(state_->inside, state_->outside); }

}  // namespace testing_support
