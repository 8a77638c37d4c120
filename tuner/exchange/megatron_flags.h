// Megatron-Core's settings as flags, in Megatron-LM's spelling and in that of Megatron-DeepSpeed.
#pragma once
#include <string>
#include <vector>

#include "tuner/exchange/import.h"
#include "tuner/exchange/megatron_fields.h"

namespace tuner {

// "--num-layers 96", one piece a flag.
std::vector<std::string> megatron_flags(const Settings& settings);
// Reads flags and values; settings that are no part of the table go to `ignored`. Throws
// engine::InputError with every problem, naming `source`.
Settings settings_of_flags(const std::vector<std::string>& words, const std::string& source,
                           std::vector<std::string>& ignored);

// The line of 2023, which Megatron-DeepSpeed keeps: the same settings under older names.
Settings deepspeed_spelling(Settings settings);

}  // namespace tuner
