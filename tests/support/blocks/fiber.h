// Fiber: a function with a stack of its own, which runs until it pauses.
#pragma once
#include <cstddef>
#include <memory>

namespace testing_support {

class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(Fiber&&) noexcept;
  Fiber& operator=(Fiber&&) = delete;

  // The next resume() begins run(argument). It must not throw. One that had begun and not returned
  // is forgotten: what its stack owned is not destroyed.
  void start(void (*run)(void*), void* argument);
  // Runs it on until it pauses or returns. False once it has returned.
  bool resume();
  // Called from inside: back to resume().
  void pause();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace testing_support
