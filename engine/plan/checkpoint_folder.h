// Where a checkpoint lies: in a folder itself, or in those of its steps.
#pragma once
#include <string>

namespace engine {

// Of the folders that a training writes, followed by the number of steps done.
constexpr char kStepPrefix[] = "step-";

// `folder` itself when it is a checkpoint, else its step-N folder with the largest N. Throws
// InputError when there is none.
std::string find_checkpoint(const std::string& folder);

}  // namespace engine
