// SoftPrompt: the virtual tokens that prompt tuning found for a task, in a small file.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace engine {

struct SoftPrompt {
  std::string task;
  std::string method;  // "prompt" or "ptuning"
  int64_t hidden = 0;
  std::vector<float> rows;  // [tokens, hidden]

  int64_t tokens() const { return hidden > 0 ? static_cast<int64_t>(rows.size()) / hidden : 0; }
};

// A safetensors file with one tensor "virtual_tokens"; task and method stand in its metadata.
// Writing throws Error (storage), reading InputError.
void write_soft_prompt(const SoftPrompt& prompt, const std::string& path);
SoftPrompt read_soft_prompt(const std::string& path);

// The virtual tokens of several tasks in one table.
class PromptTable {
 public:
  PromptTable() = default;
  // Throws InputError for prompts of another hidden size, and for tasks that come twice.
  PromptTable(const std::vector<std::string>& paths, int64_t hidden);

  const std::vector<float>& rows() const { return rows_; }
  // What stands in front of a request's prompt (StepBatch::tokens). The empty name is the only
  // task, where there is one. Throws InputError for an unknown task.
  std::vector<int32_t> tokens_of(const std::string& task) const;

 private:
  struct Entry {
    std::string task;
    int32_t first = 0, count = 0;
  };
  std::vector<float> rows_;
  std::vector<Entry> entries_;
};

}  // namespace engine
