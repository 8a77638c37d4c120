// TuningSpec: what virtual tokens are tuned, and on which examples.
#pragma once
#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace engine {

// Where the virtual tokens come from: a table that is tuned itself (Lester et al. 2021), or an
// encoder that is tuned and dropped afterwards (p-tuning, Liu et al. 2021).
enum class PromptSource : uint8_t { table, lstm, mlp };
constexpr std::array<std::string_view, 3> kPromptSourceNames = {"table", "lstm", "mlp"};

// A task's examples as JSON lines {"text", "answer"}, and the file its virtual tokens go to.
struct TuningTask {
  std::string name;
  std::string examples_path;
  std::string prompt_path;
};

// Beside a job's model, plan, precision, optimizer, steps and seed; plan.gbs examples a step, of
// all tasks in turn; workload.seq the longest sequence, virtual tokens included.
struct TuningSpec {
  PromptSource source = PromptSource::table;
  int64_t virtual_tokens = 20;  // of a task
  std::string tokenizer = "bytes";
  std::vector<TuningTask> tasks;
};

nlohmann::json tuning_to_json(const TuningSpec& spec);
// Throws InputError with every problem, naming `source`.
TuningSpec tuning_from_json(const nlohmann::json& json, const std::string& source);

}  // namespace engine
