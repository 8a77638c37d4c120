// Parts of the reader of Hugging Face configs: members with several names, refusals, experts.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>

#include "engine/base/json_reader.h"
#include "engine/plan/hf_families.h"
#include "engine/plan/model_spec.h"

namespace engine {

// The names of one member, the preferred first.
using HfKeys = std::initializer_list<const char*>;

// The first of the names that the file has.
inline std::optional<std::string> first_of(const ObjectReader& in, HfKeys keys) {
  for (const char* key : keys)
    if (in.has(key)) return key;
  return std::nullopt;
}

// A problem when the file has none of the names and there is no fallback.
inline int64_t integer_of(ObjectReader& in, HfKeys keys, IntegerRange range,
                          std::optional<int64_t> fallback = std::nullopt) {
  return in.integer(first_of(in, keys).value_or(*keys.begin()), range, fallback);
}

// A text of the file as messages may show it: short, printable, ASCII.
std::string printable(const std::string& text);

// Throws InputError when the file is that of an adapter or of a pipeline.
void refuse_other_files(ObjectReader& in);

// Throws InputError when the file describes no decoder-only transformer.
void refuse_other_architectures(ObjectReader& in, const HfFamily& family);

// The experts of the model; a ModelSpec's default when it has none.
ExpertSpec read_hf_experts(ObjectReader& in, const HfFamily& family, int64_t layers);

// The formats in which the checkpoint stores weights and KV cache; left empty where the file does
// not say.
void read_hf_formats(ObjectReader& in, ModelSpec& model);

// Whether the file speaks of experts, so that a dense MLP may be absent.
bool speaks_of_experts(const ObjectReader& in);

}  // namespace engine
