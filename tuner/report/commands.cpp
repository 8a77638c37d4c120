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

namespace {

// Builds a command option by option; what is not known is left out.
class CommandBuilder {
 public:
  CommandBuilder(std::vector<std::string> words, std::string purpose)
      : command_{std::move(words), std::move(purpose)} {}
  void add(std::string_view option, const std::string& value) {
    if (value.empty()) return;
    // A value that looks like an option stays a value.
    const char between = value.front() == '-' ? '=' : ' ';
    command_.words.push_back(fmt::format("{}{}{}", option, between, shell_word(value)));
  }
  void number(std::string_view option, int64_t value) {
    if (value > 0) add(option, std::to_string(value));
  }
  void flag(std::string_view option) { command_.words.emplace_back(option); }
  void question(const Question& question) {
    add("--model", model_word(question));
    number("--gpus", question.gpus);
    add("--gpu", gpu_word(question));
    number("--gpus-per-node", question.gpus_per_node);
    add("--stack", question.stack);
    number("--seq", question.seq);
    number("--gbs", question.gbs);
    add("--precision", question.precision);
    add("--attention", question.attention);
  }
  CommandLine built() && { return std::move(command_); }

 private:
  CommandLine command_;
};

}  // namespace

CommandLine estimate_command(const Question& question, const PlanRecord& record) {
  CommandBuilder command({"autotune", "estimate", "train"}, "this plan again, with all its stages");
  command.question(question);
  const engine::ParallelPlan& plan = *record.plan;
  command.number("--dp", plan.dp);
  command.number("--tp", plan.tp);
  command.number("--pp", plan.pp);
  command.number("--vpp", plan.vpp);
  command.number("--cp", plan.cp);
  if (plan.ep > 1) command.number("--ep", plan.ep);
  command.flag(plan.sp ? "--sp" : "--no-sp");
  command.number("--mbs", plan.mbs);
  command.add("--recompute", to_string(plan.recompute));
  command.add("--zero", std::to_string(plan.zero));
  if (!plan.layers_per_stage.empty())
    command.add("--layers-per-stage", fmt::format("{}", fmt::join(plan.layers_per_stage, ",")));
  return std::move(command).built();
}

CommandLine train_again_command(const Question& question) {
  CommandBuilder command({"autotune", "train"}, "why this plan, and which come close");
  command.question(question);
  if (question.tokens > 0) command.add("--tokens", fmt::format("{:.0f}", question.tokens));
  return std::move(command).built();
}

}  // namespace tuner
