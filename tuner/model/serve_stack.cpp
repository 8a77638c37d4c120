// Reading serving stacks.
#include "tuner/model/serve_stack.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "engine/base/errors.h"
#include "engine/base/json_reader.h"
#include "tuner/model/data_files.h"

namespace tuner {

using engine::Json;
using engine::ModelSpec;
using engine::ObjectReader;

namespace {

constexpr auto kFolder = "profiles/serve_stacks";

std::vector<std::string> texts(ObjectReader& object, const std::string& key) {
  const Json& list = object.value(key);
  std::vector<std::string> result;
  bool good = list.is_array();
  for (const Json& item : good ? list : Json::array()) {
    good = good && item.is_string();
    if (good) result.push_back(item.get<std::string>());
  }
  if (!good) object.problem(key, "must be a list of texts");
  return result;
}

std::optional<ServeFormat> format_of(ObjectReader& object, const std::string& key,
                                     const std::string& text) {
  const auto found = std::find(kServeFormatNames.begin(), kServeFormatNames.end(), text);
  if (found != kServeFormatNames.end())
    return static_cast<ServeFormat>(found - kServeFormatNames.begin());
  object.problem(key, engine::unknown_name(
                          "format", text, {kServeFormatNames.begin(), kServeFormatNames.end()},
                          fmt::format("formats are {}", fmt::join(kServeFormatNames, ", "))));
  return std::nullopt;
}

std::vector<ServeFormat> formats(ObjectReader& object, const std::string& key) {
  std::vector<ServeFormat> list;
  for (const std::string& text : texts(object, key))
    if (const auto format = format_of(object, key, text)) list.push_back(*format);
  if (list.empty()) object.problem(key, "must name at least one format");
  return list;
}

// {"fp8": ["turing", "ampere"], …}
void read_widened(ObjectReader object, ServeStack& stack) {
  for (const std::string& name : object.keys())
    if (const auto format = format_of(object, name, name))
      stack.widened[*format] = texts(object, name);
}

constexpr ModelTrait kTraits[] = {
    {"experts", "a mixture of experts", [](const ModelSpec& m) { return !m.is_dense(); }},
    {"latent_attention", "latent attention",
     [](const ModelSpec& m) { return m.has_latent_attention(); }},
    {"sliding_window", "a sliding window", [](const ModelSpec& m) { return m.sliding_window > 0; }},
    {"attention_sinks", "attention sinks", [](const ModelSpec& m) { return m.attention_sinks; }},
    {"alibi", "ALiBi positions",
     [](const ModelSpec& m) { return m.position == engine::PositionKind::alibi; }},
    {"qk_norm", "norms on queries and keys", [](const ModelSpec& m) { return m.qk_norm; }},
    {"parallel_block", "attention and MLP in parallel",
     [](const ModelSpec& m) { return m.parallel_block; }},
    {"embedding_norm", "a norm behind the embedding",
     [](const ModelSpec& m) { return m.embedding_norm; }},
    {"sandwich_norms", "other than two norms a layer",
     [](const ModelSpec& m) { return m.norms_per_layer != 2; }},
    {"head_bias", "a bias on the head", [](const ModelSpec& m) { return m.head_bias; }},
};

std::vector<ModelTrait> traits(ObjectReader& object, const std::string& key) {
  std::vector<ModelTrait> list;
  for (const std::string& text : texts(object, key)) {
    const auto found = std::find_if(std::begin(kTraits), std::end(kTraits),
                                    [&](const ModelTrait& trait) { return trait.name == text; });
    if (found != std::end(kTraits)) {
      list.push_back(*found);
      continue;
    }
    std::vector<std::string> names;
    for (const ModelTrait& trait : kTraits) names.emplace_back(trait.name);
    object.problem(key, engine::unknown_name("trait", text, names,
                                             fmt::format("traits are {}", fmt::join(names, ", "))));
  }
  return list;
}

void read_memory(ObjectReader memory, ServeStack& stack) {
  stack.base_bytes = memory.number("base_bytes", {0, 1e12});
  stack.peer_bytes = memory.number("peer_bytes", {0, 1e11});
  stack.memory_share = memory.number("share", {0.1, 1});
  stack.share_of =
      static_cast<ShareOf>(memory.choice("share_of", {kShareOfNames.begin(), kShareOfNames.end()}));
  stack.share_option = memory.text("share_option", "");
  stack.logit_bytes = memory.number("logit_bytes", {0, 64});
  stack.activation_copies = memory.number("activation_copies", {0, 64});
  stack.memory_error = memory.number("error", {0, 1});
  memory.finish();
}

}  // namespace

bool ServeRelease::reads_kv_once(int64_t query_heads_per_kv_head) const {
  return grouped_attention || query_heads_per_kv_head == 1 ||
         std::find(grouped_heads.begin(), grouped_heads.end(), query_heads_per_kv_head) !=
             grouped_heads.end();
}

ServeStack serve_stack_from_json(const Json& json, const std::string& source) {
  engine::Problems problems(source);
  ObjectReader file(json, "", problems);
  ServeStack stack;
  stack.origin = source;
  stack.name = file.text("name");
  stack.title = file.text("title");
  stack.notes = file.text("notes", "");
  file.value("sources");
  for (ObjectReader& object : file.objects("releases")) {
    ServeRelease release;
    release.name = object.text("name");
    release.versions = texts(object, "versions");
    release.grouped_attention = object.flag("grouped_attention", true);
    release.grouped_heads = object.integers("grouped_heads", {1, 1024});
    release.static_engine = object.flag("static_engine", false);
    release.waves = object.number("waves", {1, 1e6}, 10);
    object.finish();
    stack.releases.push_back(std::move(release));
  }
  if (stack.releases.empty()) file.problem("releases", "must name at least one");
  stack.release = stack.releases.empty() ? 0 : stack.releases.size() - 1;
  stack.in_flight = file.flag("in_flight");
  stack.pipeline = file.flag("pipeline");
  stack.micro_batches = file.flag("micro_batches");
  stack.micro_batch_tokens = file.integer("micro_batch_tokens", {0, int64_t{1} << 40}, 0);
  stack.divisible_vocab = file.flag("divisible_vocab");
  stack.vocab_multiple = file.integer("vocab_multiple", {1, 1 << 20}, 1);
  stack.prompt_tokens = file.integer("prompt_tokens", {1, int64_t{1} << 40});
  stack.splits_prompts = file.flag("splits_prompts", false);
  stack.sequences = file.integer("sequences", {1, int64_t{1} << 40});
  stack.page_tokens = file.integer("page_tokens", {1, 1024}, 1);
  stack.lacks = traits(file, "lacks");
  stack.weights = formats(file, "weights");
  stack.kv = formats(file, "kv");
  if (file.has("widened")) read_widened(file.object("widened"), stack);
  stack.low_precision_kv = file.flag("low_precision_kv");
  read_memory(file.object("memory"), stack);
  file.finish();
  problems.throw_if_any();
  return stack;
}

ServeStack find_serve_stack(const std::string& name) {
  const size_t at = name.find('@');
  const DataFile data = find_data_file(kFolder, name.substr(0, at), "serving stack");
  ServeStack stack = serve_stack_from_json(engine::parse_json(data.text, data.origin), data.origin);
  if (at == std::string::npos) return stack;
  std::vector<std::string> names;
  for (const ServeRelease& release : stack.releases) names.push_back(release.name);
  const auto found = std::find(names.begin(), names.end(), name.substr(at + 1));
  if (found == names.end())
    throw engine::InputError(engine::unknown_name(
        "release of " + stack.name, name.substr(at + 1), names,
        fmt::format("the newest that is known is {}@{}", stack.name, names.back())));
  stack.release = static_cast<size_t>(found - names.begin());
  return stack;
}

std::vector<std::string> serve_stack_names() { return data_file_names(kFolder); }

}  // namespace tuner
