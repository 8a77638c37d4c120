// Files of virtual tokens.
#include "engine/infer/soft_prompt.h"

#include <fmt/format.h>

#include <cstring>

#include "engine/base/errors.h"
#include "engine/checkpoint/safetensors.h"

namespace engine {
namespace {

constexpr char kTensor[] = "virtual_tokens";
constexpr char kFormat[] = "autotune.prompt/1";

}  // namespace

void write_soft_prompt(const SoftPrompt& prompt, const std::string& path) {
  std::vector<TensorEntry> tensors(1);
  tensors[0].name = kTensor;
  tensors[0].type = StorageType::f32;
  tensors[0].shape = {prompt.tokens(), prompt.hidden};
  place_tensors(tensors);
  const std::string header = safetensors_header(
      tensors, {{"format", kFormat}, {"task", prompt.task}, {"method", prompt.method}});
  const std::string draft = path + ".writing";
  FileWriter file(draft);
  file.append(header.data(), header.size());
  file.append(prompt.rows.data(), prompt.rows.size() * sizeof(float));
  file.close();
  rename_file(draft, path);
}

SoftPrompt read_soft_prompt(const std::string& path) {
  const SafetensorsFile file(path);
  const auto& metadata = file.metadata();
  const auto& tensors = file.tensors();
  if (metadata.count("format") == 0 || metadata.at("format") != kFormat || tensors.size() != 1 ||
      tensors[0].name != kTensor || tensors[0].type != StorageType::f32 ||
      tensors[0].shape.size() != 2)
    throw InputError(fmt::format(
        "{}: is no file of virtual tokens; `autotune run tune` writes such files", path));
  SoftPrompt prompt;
  if (metadata.count("task") > 0) prompt.task = metadata.at("task");
  if (metadata.count("method") > 0) prompt.method = metadata.at("method");
  prompt.hidden = tensors[0].shape[1];
  prompt.rows.resize(static_cast<size_t>(tensors[0].elements()));
  std::memcpy(prompt.rows.data(), file.data(tensors[0]), prompt.rows.size() * sizeof(float));
  return prompt;
}

PromptTable::PromptTable(const std::vector<std::string>& paths, int64_t hidden) {
  for (const std::string& path : paths) {
    const SoftPrompt prompt = read_soft_prompt(path);
    if (prompt.hidden != hidden)
      throw InputError(fmt::format(
          "{}: its virtual tokens are {} wide and the model is {}; it was tuned for another model",
          path, prompt.hidden, hidden));
    for (const Entry& entry : entries_)
      if (entry.task == prompt.task)
        throw InputError(fmt::format("{}: the task '{}' comes twice; tune it under another name",
                                     path, prompt.task));
    entries_.push_back({prompt.task, static_cast<int32_t>(rows_.size() / size_t(hidden)),
                        static_cast<int32_t>(prompt.tokens())});
    rows_.insert(rows_.end(), prompt.rows.begin(), prompt.rows.end());
  }
}

std::vector<int32_t> PromptTable::tokens_of(const std::string& task) const {
  if (task.empty() && entries_.size() != 1) return {};
  std::vector<std::string> names;
  for (const Entry& entry : entries_) {
    names.push_back(entry.task);
    if (!task.empty() && entry.task != task) continue;
    std::vector<int32_t> tokens;
    for (int32_t row = entry.first; row < entry.first + entry.count; ++row)
      tokens.push_back(-1 - row);
    return tokens;
  }
  throw InputError(
      unknown_name("task", task, names, "name one of the prompt files' tasks, or none"));
}

}  // namespace engine
