// Export: a stored recommendation as files for a framework, with their launcher.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tuner/exchange/formats.h"

namespace tuner {

struct ExportTarget {
  std::string_view name;     // "megatron-lm"
  std::string_view version;  // what the names in the files belong to
  Draft (*train)(const TrainingConfig&, const Placement&, Losses&) = nullptr;  // or
  Draft (*serve)(const ServeConfig&, const Placement&, Losses&) = nullptr;
};
std::span<const ExportTarget> export_targets();

struct ExportRequest {
  std::string target;
  bool slurm = false;
  std::vector<std::string> provenance = {};  // lines that begin the header: program, run, command
};

struct Exported {
  std::string text;             // one document that holds everything
  std::vector<TextFile> files;  // the same as files that refer to each other
  std::vector<Loss> losses;     // what the target cannot express

  bool runs() const;
};

// The best plan of an answer of `autotune train` or `autotune infer`. Throws engine::InputError for
// an answer without a plan, and for a target that does not do what the answer is about.
Exported export_answer(const nlohmann::json& answer, const ExportRequest& request);

}  // namespace tuner
