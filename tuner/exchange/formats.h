// The formats: what each target is told, in its own words, before it becomes files.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tuner/exchange/import.h"
#include "tuner/exchange/text.h"
#include "tuner/exchange/training_config.h"
#include "tuner/model/serve_plan.h"

namespace tuner {

struct TextFile {
  std::string name;
  std::string text;
};

// The processes that a launcher starts.
struct Placement {
  int nodes = 1;
  int gpus_per_node = 1;
  std::string architecture;  // of the device: "hopper"
};

// A serving plan with what a server has to know of its question.
struct ServeConfig {
  engine::ModelSpec model;
  ServePlan plan;
  int64_t longest = 0;        // tokens of a sequence: prompt and output
  double memory_share = 0.9;  // of a GPU, in the sense of the target's option
};

// What is written for a target.
struct Draft {
  std::vector<TextFile> documents;       // that the command reads
  std::vector<std::string> environment;  // shell lines before the command
  std::vector<std::string> command;      // pieces of one shell command, a line each
  // People want the (only) document itself; the command stands in its comments.
  bool document_is_answer = false;
  std::vector<std::string> notes;  // what the user has to add, a sentence each
};

// `torchrun` for every node of the placement, as pieces of a command.
std::vector<std::string> torchrun(const Placement& placement);

Draft megatron_lm_draft(const TrainingConfig& config, const Placement& placement, Losses& losses);
Draft megatron_bridge_draft(const TrainingConfig& config, const Placement& placement,
                            Losses& losses);
Draft deepspeed_draft(const TrainingConfig& config, const Placement& placement, Losses& losses);
Draft nemo1_draft(const TrainingConfig& config, const Placement& placement, Losses& losses);
Draft nemo2_draft(const TrainingConfig& config, const Placement& placement, Losses& losses);
Draft torchtitan_draft(const TrainingConfig& config, const Placement& placement, Losses& losses);
Draft torchtitan_toml_draft(const TrainingConfig& config, const Placement& placement,
                            Losses& losses);
Draft accelerate_draft(const TrainingConfig& config, const Placement& placement, Losses& losses);
Draft nanotron_draft(const TrainingConfig& config, const Placement& placement, Losses& losses);
Draft job_draft(const TrainingConfig& config, const Placement& placement, Losses& losses);

Draft vllm_draft(const ServeConfig& config, const Placement& placement, Losses& losses);
Draft sglang_draft(const ServeConfig& config, const Placement& placement, Losses& losses);
Draft tensorrt_llm_draft(const ServeConfig& config, const Placement& placement, Losses& losses);

// The ways back. Each fills what its format says; see import.h.
void read_megatron_words(const std::vector<std::string>& words, Imported& imported);
// `words` may be empty: a JSON file alone.
void read_deepspeed(const nlohmann::json& json, const std::vector<std::string>& words,
                    Imported& imported);
void read_nemo1(const nlohmann::json& yaml, Imported& imported);
void read_torchtitan(const nlohmann::json& toml, Imported& imported);

// How many of the words are flags of Megatron-LM that say something of a plan or a model.
size_t megatron_flags_in(const std::vector<std::string>& words);

}  // namespace tuner
