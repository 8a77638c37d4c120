// Megatron-LM: a script with the command line of pretrain_gpt.py, and such scripts as plans.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tuner/exchange/formats.h"
#include "tuner/exchange/megatron.h"
#include "tuner/exchange/megatron_flags.h"

namespace tuner {

std::vector<std::string> torchrun(const Placement& placement) {
  return {fmt::format("torchrun --nproc-per-node {} --nnodes {} --node-rank \"${{NODE_RANK:-0}}\"",
                      placement.gpus_per_node, placement.nodes),
          "--master-addr \"${MASTER_ADDR:-localhost}\" --master-port \"${MASTER_PORT:-29500}\""};
}

Draft megatron_lm_draft(const TrainingConfig& config, const Placement& placement, Losses& losses) {
  Draft draft;
  const bool fsdp = config.plan.zero >= 2;
  // Kernels must start in the order of their launch for communication to overlap; FSDP needs the
  // opposite, and Blackwell neither.
  if (fsdp)
    draft.environment = {"unset CUDA_DEVICE_MAX_CONNECTIONS  # Megatron-FSDP refuses 1"};
  else if ((config.plan.tp > 1 || config.plan.cp > 1) && placement.architecture != "blackwell")
    draft.environment = {"export CUDA_DEVICE_MAX_CONNECTIONS=1"};
  draft.command = torchrun(placement);
  draft.command.emplace_back("pretrain_gpt.py");
  for (std::string& flag : megatron_flags(megatron_settings(config, losses)))
    draft.command.push_back(std::move(flag));
  for (const char* flag : {"--mock-data", "--lr 3e-4", "--min-lr 3e-5", "--lr-decay-style cosine",
                           "--log-interval 1", "--log-throughput"})
    draft.command.emplace_back(flag);
  draft.notes = {
      "yours to replace: --mock-data and the NullTokenizer by your data and tokenizer, --lr and "
      "--min-lr; arguments of this script are added at the end"};
  return draft;
}

size_t megatron_flags_in(const std::vector<std::string>& words) {
  return static_cast<size_t>(std::count_if(words.begin(), words.end(), [](const std::string& word) {
    return find_megatron_flag(word.substr(0, word.find('='))) != nullptr;
  }));
}

void read_megatron_words(const std::vector<std::string>& words, Imported& imported) {
  imported.format = "megatron-lm";
  const Settings settings = settings_of_flags(words, imported.source, imported.ignored);
  read_megatron_settings(settings, imported);
}

}  // namespace tuner
