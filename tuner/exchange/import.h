// Import: configuration files of training frameworks as plans.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/plan/model_spec.h"
#include "engine/plan/parallel_plan.h"
#include "engine/plan/workload.h"
#include "tuner/space/rules.h"

namespace tuner {

// What a file says; what it does not say is empty or 0.
struct Imported {
  std::string format;  // "megatron-lm"
  std::string source;  // the file
  std::optional<engine::ModelSpec> model;
  // dp follows from the number of GPUs and is 0 where the file does not say it; zero is then what
  // the file asks for on any number of ranks.
  engine::ParallelPlan plan;
  int gpus = 0;
  int gpus_per_node = 0;
  int64_t seq = 0;
  bool has_batch = false;  // plan.gbs is the file's; else it has mbs and accumulation only
  int64_t accumulation = 0;
  std::optional<engine::Precision> precision;
  std::optional<engine::AttentionKind> attention;
  std::string stack;  // that the format runs on; empty: the device's
  FrameworkOptions options;
  std::vector<std::string> remarks;  // what a plan says in another way than the file
  std::vector<std::string> ignored;  // settings that are no part of a plan

  // Sets dp and, where the file has none, the global batch, for a number of GPUs.
  void use_gpus(int count);
};

// Reads a Megatron-LM argument list or script, a DeepSpeed JSON file or a script that names one, a
// NeMo 1.x YAML file, or a torchtitan TOML file; the content decides. Throws engine::InputError.
Imported import_file(const std::string& path);
// The same of a text. `path` names it in messages, and files that it mentions lie beside it.
Imported import_text(const std::string& text, const std::string& path);

}  // namespace tuner
