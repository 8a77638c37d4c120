// Megatron-Bridge: one command with the overrides of its plain GPT recipe.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tuner/exchange/formats.h"
#include "tuner/exchange/megatron.h"

namespace tuner {
namespace {

const char* mixed_precision(engine::Precision precision) {
  using engine::Precision;
  switch (precision) {
    case Precision::f32:
      return "null";
    case Precision::fp16:
      return "fp16_mixed";
    case Precision::bf16:
      return "bf16_mixed";
    case Precision::fp8:
      return "bf16_with_fp8_current_scaling_mixed";
    case Precision::mxfp8:
      return "bf16_with_mxfp8_mixed";
    case Precision::nvfp4:
      return "bf16_with_nvfp4_mixed";
  }
  return "bf16_mixed";
}

// One override; texts with other characters than Hydra's plain ones are quoted for Hydra first.
std::string override_text(const char* path, const Settings& value) {
  const bool plain =
      !value.is_string() || value.get<std::string>().find_first_of("|*") == std::string::npos;
  if (value.is_string())
    return bash_word(std::string(path) + "=" +
                     (plain ? value.get<std::string>() : double_quoted(value.get<std::string>())));
  return bash_word(std::string(path) + "=" + value.dump());
}

}  // namespace

Draft megatron_bridge_draft(const TrainingConfig& config, const Placement& placement,
                            Losses& losses) {
  Draft draft;
  draft.command = torchrun(placement);
  draft.command.emplace_back("scripts/training/run_recipe.py");
  draft.command.emplace_back("--recipe vanilla_gpt_pretrain_1gpu_h100_bf16_config");
  draft.command.emplace_back("--mode pretrain");
  Settings settings = megatron_settings(config, losses);
  if (settings.contains("swiglu")) {
    settings["activation_func"] = "silu";
    settings["gated_linear_unit"] = true;
  }
  for (const auto& [name, value] : settings.items()) {
    const MegatronField* field = find_megatron_field(name);
    if (*field->bridge != '\0') draft.command.push_back(override_text(field->bridge, value));
  }
  if (settings.contains("bias_gelu_fusion"))
    draft.command.emplace_back("model.bias_activation_fusion=false");
  draft.command.push_back(
      fmt::format("mixed_precision={}", mixed_precision(config.workload.precision)));
  draft.notes = {
      "run it in a checkout of Megatron-Bridge; the recipe trains on mock data with the null "
      "tokenizer: yours to replace, as are the learning rate and the checkpoints"};
  return draft;
}

}  // namespace tuner
