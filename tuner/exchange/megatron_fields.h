// The settings of Megatron-Core, one row each: their names as flags, as overrides and in YAML.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "tuner/exchange/text.h"

namespace tuner {

// Settings by Megatron-Core's own names ("tensor_model_parallel_size"); a name that is absent has
// its default there.
using Settings = OrderedJson;

struct MegatronField {
  enum class Kind : uint8_t {
    integer,
    number,
    text,
    texts,  // several words
    on,     // a flag without a value that says true
    off,    // a flag without a value that says false
  };
  const char* name;
  Kind kind;
  const char* flag;    // Megatron-LM; empty: none
  const char* bridge;  // Megatron-Bridge's ConfigContainer; empty: none
  const char* nemo;    // NeMo 1.x YAML; empty: none or spelled in another way
};

std::span<const MegatronField> megatron_fields();
// Null when there is none.
const MegatronField* find_megatron_field(std::string_view name);
// By flag, also those of the 2023 line and of Megatron-DeepSpeed. Null when there is none.
const MegatronField* find_megatron_flag(std::string_view flag);

}  // namespace tuner
