// InstructionSet: what the CPU's loops are compiled for, one of which runs.
#pragma once
#include <cstdint>

namespace kernels {

// x86-64 levels as in the System V ABI; `baseline` on every other processor.
enum class InstructionSet : uint8_t { baseline, x86_64_v3, x86_64_v4 };

// The highest that this processor runs.
InstructionSet best_instruction_set();

}  // namespace kernels
