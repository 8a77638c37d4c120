// autotune train on several numbers of GPUs.
#pragma once
#include <cstdint>
#include <vector>

#include "tuner/cli/command.h"

namespace tuner {

// Prints and stores the best plan on each number; returns the exit code. Throws InputError where
// something is asked that goes with one number only.
int run_sweep(const Arguments& arguments, const std::vector<int64_t>& gpus);

}  // namespace tuner
