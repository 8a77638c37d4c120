// The verbs of `autotune run` hand their work to the engine, which is a program of its own.
#pragma once
#include <string>
#include <vector>

namespace tuner {

// Becomes autotune-worker with these arguments: what it prints and its exit code are this
// program's. Throws Error (environment) when it is missing.
[[noreturn]] void become_worker(const std::vector<std::string>& words);

}  // namespace tuner
