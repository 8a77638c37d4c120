// Reading of stack files.
#include "tuner/model/stack.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/base/json_reader.h"
#include "tuner/model/data_files.h"

namespace tuner {
namespace {

using engine::NumberRange;
using engine::ObjectReader;

constexpr auto kFolder = "profiles/stacks";

struct Number {
  const char* name;
  double Stack::*member;
  NumberRange range;
};
constexpr Number kMemoryNumbers[] = {
    {"gradient_message_bytes", &Stack::gradient_message_bytes, {1, 8}},
    {"fp8_weight_bytes", &Stack::fp8_weight_bytes, {0, 16}},
    {"logit_bytes", &Stack::logit_bytes, {0, 64}},
    {"logit_workspace_bytes", &Stack::logit_workspace_bytes, {0, 64}},
    {"workspace_layers", &Stack::workspace_layers, {0, 100}},
    {"gathered_layers", &Stack::gathered_layers, {0, 1000}},
    {"runtime_bytes", &Stack::runtime_bytes, {0, 1e11}},
    {"fragmentation", &Stack::fragmentation, {0, 1}},
    {"memory_error", &Stack::memory_error, {0.001, 1}},
    {"bucket_bytes", &Stack::bucket_bytes, {0, 1e11}},
};

struct Flag {
  const char* name;
  bool Stack::*member;
};
constexpr Flag kLegalFlags[] = {
    {"tensor_parallel", &Stack::tensor_parallel},
    {"pipeline_parallel", &Stack::pipeline_parallel},
    {"context_parallel", &Stack::context_parallel},
    {"sequence_parallel", &Stack::sequence_parallel},
    {"interleaving", &Stack::interleaving},
    {"interleaving_needs_three_stages", &Stack::interleaving_needs_three_stages},
    {"interleaving_any_micro_batches", &Stack::interleaving_any_micro_batches},
    {"kv_head_replication", &Stack::kv_head_replication},
    {"uneven_stages", &Stack::uneven_stages},
    {"any_layers_per_stage", &Stack::any_layers_per_stage},
    {"pipeline_needs_full_batch", &Stack::pipeline_needs_full_batch},
    {"selective_recompute", &Stack::selective_recompute},
    {"partial_recompute", &Stack::partial_recompute},
};
constexpr Flag kOverlapFlags[] = {
    {"overlaps_tensor_backward", &Stack::overlaps_tensor_backward},
    {"overlaps_tensor_sharded", &Stack::overlaps_tensor_sharded},
    {"overlaps_gradient_reduction", &Stack::overlaps_gradient_reduction},
    {"overlaps_parameter_gather", &Stack::overlaps_parameter_gather},
    {"overlaps_pipeline", &Stack::overlaps_pipeline},
    {"scatters_pipeline_messages", &Stack::scatters_pipeline_messages},
    {"reduces_every_micro_batch", &Stack::reduces_every_micro_batch},
};

const std::vector<std::string> kDims = {"hidden", "query", "kv", "ffn", "score", "head", "token"};
const std::vector<std::string> kShards = {"tensor", "sequence", "none"};
const std::vector<std::string> kAttentions = {"unfused", "flash"};

// A list of texts out of `names`, as their indices.
std::vector<size_t> choices(ObjectReader& object, const std::string& key,
                            const std::vector<std::string>& names) {
  std::vector<size_t> chosen;
  const engine::Json& list = object.value(key);
  bool sound = list.is_array();
  for (const engine::Json& item : sound ? list : engine::Json::array()) {
    const auto found =
        item.is_string() ? std::ranges::find(names, item.get<std::string>()) : names.end();
    if (found == names.end())
      sound = false;
    else
      chosen.push_back(static_cast<size_t>(found - names.begin()));
  }
  if (!sound) object.problem(key, fmt::format("must be a list out of {}", fmt::join(names, ", ")));
  return chosen;
}

std::vector<std::string> conditions() {
  std::vector<std::string> names = saved_features();
  for (const std::string& name : saved_features()) names.push_back("!" + name);
  return names;
}

SavedTensor read_row(ObjectReader& object) {
  SavedTensor row;
  row.name = object.text("name");
  row.dim = static_cast<SavedDim>(object.choice("dim", kDims));
  row.shard = static_cast<SavedShard>(object.choice("shard", kShards));
  row.bytes = object.number("bytes", {0, 64}, 0.0);
  row.fp8_bytes = object.number("fp8_bytes", {0, 64}, 0.0);
  row.count = object.number("count", {0, 1000}, 1.0);
  row.attention_core = object.flag("attention_core", false);
  if (object.has("when")) {
    const std::vector<std::string> names = conditions();
    for (const size_t index : choices(object, "when", names)) row.when.push_back(names[index]);
  } else {
    object.value("when");
  }
  object.finish();
  return row;
}

std::vector<SavedTensor> read_rows(ObjectReader& file, const std::string& key) {
  if (!file.has(key)) file.problem(key, "is missing; write [] where nothing is kept");
  std::vector<SavedTensor> rows;
  for (ObjectReader& object : file.objects(key)) rows.push_back(read_row(object));
  return rows;
}

StateBytes read_state(ObjectReader object) {
  StateBytes state;
  state.parameter = object.number("parameter", {0, 64});
  state.gradient = object.number("gradient", {0, 64});
  state.optimizer = object.number("optimizer", {0, 64});
  object.finish();
  return state;
}

void read_memory(ObjectReader memory, Stack& stack) {
  stack.state_mixed = read_state(memory.object("state_mixed"));
  stack.state_fp16 = read_state(memory.object("state_fp16"));
  stack.state_f32 = read_state(memory.object("state_f32"));
  for (const Number& number : kMemoryNumbers)
    stack.*number.member = memory.number(number.name, number.range);
  memory.finish();
}

std::vector<int> read_zero(ObjectReader& legal, const std::string& key) {
  if (!legal.has(key)) legal.problem(key, "is missing");
  std::vector<int> stages;
  for (const int64_t stage : legal.integers(key, {0, 3})) stages.push_back(static_cast<int>(stage));
  return stages;
}

void read_legal(ObjectReader legal, Stack& stack) {
  for (const Flag& flag : kLegalFlags) stack.*flag.member = legal.flag(flag.name);
  stack.zero = read_zero(legal, "zero");
  stack.zero_with_pipeline = read_zero(legal, "zero_with_pipeline");
  const std::vector<std::string> precisions(engine::kPrecisionNames.begin(),
                                            engine::kPrecisionNames.end());
  for (const size_t index : choices(legal, "precisions", precisions))
    stack.precisions.push_back(static_cast<engine::Precision>(index));
  for (const size_t index : choices(legal, "attention", kAttentions))
    stack.attention.push_back(static_cast<engine::AttentionKind>(index));
  stack.vocab_multiple = legal.integer("vocab_multiple", {1, 1 << 20});
  legal.finish();

  if (stack.precisions.empty()) legal.problem("precisions", "must name at least one");
  if (stack.attention.empty()) legal.problem("attention", "must name at least one kernel");
  if (stack.zero.empty()) legal.problem("zero", "must name at least one stage, 0 to 3");
  if (stack.pipeline_parallel == stack.zero_with_pipeline.empty())
    legal.problem("zero_with_pipeline", "must name stages exactly where pipeline_parallel is true");
  if (stack.interleaving && !stack.pipeline_parallel)
    legal.problem("interleaving", "needs pipeline_parallel");
  if (stack.selective_recompute &&
      std::ranges::count(stack.attention, engine::AttentionKind::unfused) == 0)
    legal.problem("selective_recompute", "needs unfused attention; flash saves no attention core");
  if (stack.sequence_parallel && !stack.tensor_parallel)
    legal.problem("sequence_parallel", "needs tensor_parallel");
}

// Where each value is from: a text for every table, group and number of the memory.
void read_sources(ObjectReader sources) {
  std::vector<std::string> names = {"saved",        "saved_full",  "saved_embedding", "saved_head",
                                    "saved_output", "state_mixed", "state_fp16",      "state_f32",
                                    "legal",        "overlaps"};
  for (const Number& number : kMemoryNumbers) names.push_back(number.name);
  for (const std::string& name : names) sources.text(name);
  sources.finish();
}

void read_defaults(ObjectReader defaults, Stack& stack) {
  try {
    stack.default_recompute = engine::parse_recompute(defaults.text("recompute"));
  } catch (const engine::InputError& error) {
    defaults.problem("recompute", error.what());
  }
  stack.default_zero = static_cast<int>(defaults.integer("zero", {0, 3}));
  defaults.finish();
}

}  // namespace

Stack stack_from_json(const engine::Json& json, const std::string& source) {
  engine::Problems problems(source);
  ObjectReader file(json, "", problems);
  Stack stack;
  stack.origin = source;
  stack.name = file.text("name");
  stack.title = file.text("title");
  stack.notes = file.text("notes", "");
  stack.rates = file.text("rates");
  stack.saved = read_rows(file, "saved");
  stack.saved_full = read_rows(file, "saved_full");
  stack.saved_embedding = read_rows(file, "saved_embedding");
  stack.saved_head = read_rows(file, "saved_head");
  stack.saved_output = read_rows(file, "saved_output");
  read_memory(file.object("memory"), stack);
  read_legal(file.object("legal"), stack);
  ObjectReader overlaps = file.object("overlaps");
  for (const Flag& flag : kOverlapFlags) stack.*flag.member = overlaps.flag(flag.name);
  overlaps.finish();
  read_defaults(file.object("defaults"), stack);
  read_sources(file.object("sources"));
  file.finish();
  problems.throw_if_any();
  return stack;
}

Stack find_stack(const std::string& name) {
  const DataFile data = find_data_file(kFolder, name, "stack");
  return stack_from_json(engine::parse_json(data.text, data.origin), data.origin);
}

std::vector<std::string> stack_names() { return data_file_names(kFolder); }

std::vector<SavedTensor> saved_tensors(const Stack& stack, const engine::ModelSpec& model,
                                       engine::AttentionKind attention) {
  return applicable(stack.saved, model, attention);
}

}  // namespace tuner
