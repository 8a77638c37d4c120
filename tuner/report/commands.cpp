// Commands to type next, quoted for a shell.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tuner/report/phrases.h"

namespace tuner {
namespace {

// What --model takes to find the same model again.
std::string model_word(const Question& question) {
  const std::string& origin = question.model_origin;
  const bool listed = origin.ends_with("(" + question.model + ")");
  if (listed || origin.empty()) return question.model;
  if (origin.starts_with("derived for") && question.model.starts_with("gpt-"))
    return question.model.substr(4);
  return origin.substr(0, origin.find(';'));  // a file, and notes on how it was read
}

// What --gpu takes: the file or system that was read, else the GPU's own name.
std::string gpu_word(const Question& question) {
  const std::string file =
      question.cluster_origin.substr(0, question.cluster_origin.find(" with "));
  if (file.find("profiles/systems/") != std::string::npos) return question.system;
  const bool listed = file.empty() || file.starts_with("built-in ") ||
                      file.find("/profiles/gpus/") != std::string::npos;
  return listed ? question.gpu : file;
}

}  // namespace

std::string shell_word(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=:,./@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string quoted = "'";
  for (const char c : word) {
    if (c == '\'')
      quoted += "'\\''";
    else
      quoted += c;
  }
  return quoted + "'";
}

CommandLine estimate_command(const Question& question, const PlanRecord& record) {
  CommandLine command{{"autotune", "estimate", "train"}, "this plan again, with all its stages"};
  const auto add = [&](std::string_view option, const std::string& value) {
    if (value.empty()) return;
    // A value that looks like an option stays a value.
    const char between = value.front() == '-' ? '=' : ' ';
    command.words.push_back(fmt::format("{}{}{}", option, between, shell_word(value)));
  };
  const auto number = [&](std::string_view option, int64_t value) {
    if (value > 0) add(option, std::to_string(value));
  };
  add("--model", model_word(question));
  number("--gpus", question.gpus);
  add("--gpu", gpu_word(question));
  number("--gpus-per-node", question.gpus_per_node);
  add("--stack", question.stack);
  number("--seq", question.seq);
  number("--gbs", question.gbs);
  add("--precision", question.precision);
  add("--attention", question.attention);
  const engine::ParallelPlan& plan = *record.plan;
  number("--dp", plan.dp);
  number("--tp", plan.tp);
  number("--pp", plan.pp);
  number("--vpp", plan.vpp);
  number("--cp", plan.cp);
  if (plan.ep > 1) number("--ep", plan.ep);
  command.words.emplace_back(plan.sp ? "--sp" : "--no-sp");
  number("--mbs", plan.mbs);
  add("--recompute", to_string(plan.recompute));
  add("--zero", std::to_string(plan.zero));
  if (!plan.layers_per_stage.empty())
    add("--layers-per-stage", fmt::format("{}", fmt::join(plan.layers_per_stage, ",")));
  return command;
}

}  // namespace tuner
