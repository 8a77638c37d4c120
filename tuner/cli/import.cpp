// autotune import: the plan that a framework's configuration file describes.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "engine/base/units.h"
#include "tuner/cli/commands.h"
#include "tuner/cli/words.h"
#include "tuner/exchange/import.h"
#include "tuner/exchange/text.h"

namespace tuner {
namespace {

using nlohmann::json;

json positive(int64_t value) { return value > 0 ? json(value) : json(nullptr); }

json plan_json(const Imported& file) {
  engine::ParallelPlan plan = file.plan;
  if (plan.layers_per_stage.empty() && file.model && file.model->layers % plan.pp == 0)
    plan.layers_per_stage.assign(static_cast<size_t>(plan.pp),
                                 static_cast<int>(file.model->layers / plan.pp));
  const std::vector<int> shares = plan.layers_per_stage;
  if (plan.layers_per_stage.empty()) plan.layers_per_stage = {0};
  json members = engine::plan_to_json(plan, 0);
  members["layers_per_stage"] = shares;
  members["dp"] = positive(plan.dp);
  members["gbs"] =
      file.has_batch || (plan.dp > 0 && file.accumulation > 0) ? json(plan.gbs) : json(nullptr);
  return members;
}

json import_json(const Imported& file) {
  json model = nullptr;
  if (file.model) {
    to_json(model, *file.model);
    model["parameters"] = engine::parameter_count(*file.model);
  }
  return {{"schema", "autotune.import/1"},
          {"file", file.source},
          {"format", file.format},
          {"model", std::move(model)},
          {"gpus", positive(file.gpus)},
          {"gpus_per_node", positive(file.gpus_per_node)},
          {"plan", plan_json(file)},
          {"workload",
           {{"seq", positive(file.seq)},
            {"precision", file.precision ? json(name_of(*file.precision)) : json(nullptr)},
            {"attention", file.attention ? json(name_of(*file.attention)) : json(nullptr)}}},
          {"remarks", file.remarks},
          {"ignored", file.ignored}};
}

std::string import_text(const Imported& file) {
  std::string text =
      fmt::format("autotune import  {}  ({})\n\n", one_line(file.source), file.format);
  const auto line = [&](const char* label, const std::string& what) {
    text += fmt::format("{:<10}{}\n", label, what);
  };
  const engine::ParallelPlan& plan = file.plan;
  line("Model", file.model ? fmt::format("{} ({} parameters)", one_line(file.model->name),
                                         engine::format_count(static_cast<double>(
                                             engine::parameter_count(*file.model))))
                           : "the file does not say it; give it with --model");
  std::string described = engine::describe(plan);
  if (plan.dp == 0) described.replace(described.find("DP 0"), 4, "DP by the number of GPUs");
  line("Plan", described);
  if (!plan.layers_per_stage.empty())
    line("", fmt::format("layers per stage {}", fmt::join(plan.layers_per_stage, ",")));
  line("Batch", json(plan_json(file)["gbs"]).is_null() ? "the file does not say it"
                                                       : fmt::format("{} sequences", plan.gbs));
  line("Workload", fmt::format("seq {}, {}, {} attention",
                               file.seq > 0 ? engine::format_grouped(file.seq) : "not said",
                               file.precision ? name_of(*file.precision) : "precision not said",
                               file.attention ? name_of(*file.attention) : "the stack's"));
  line("GPUs", file.gpus > 0 ? engine::format_grouped(file.gpus)
                             : "the file does not say it; give it with --gpus");
  for (const std::string& remark : file.remarks) line("Remark", one_line(remark));
  if (!file.ignored.empty())
    text += wrapped_text(fmt::format("left out, as they are no part of a plan: {}",
                                     one_line(fmt::format("{}", fmt::join(file.ignored, " ")))),
                         0, 100);
  std::string rest = " --from " + quoted_for_shell(file.source);
  if (!file.model) rest += " --model MODEL";
  if (file.gpus == 0) rest += " --gpus N";
  text += "\n";
  line("Next", "autotune check train" + rest + "    what is wrong with it");
  line("", "autotune estimate train" + rest + "    what it will do");
  return text;
}

int run_import(const Arguments& arguments) {
  const Imported file = import_file(arguments.text("FILE").value());
  if (arguments.flag("--json"))
    print_result(json_text(import_json(file)) + "\n");
  else
    print_result(import_text(file));
  return 0;
}

}  // namespace

Command import_command() {
  return {
      .words = "import",
      .summary = "Read a framework's configuration file as a plan",
      .description =
          "Understands argument lists and scripts of Megatron-LM and Megatron-DeepSpeed (with the "
          "JSON file that they name), DeepSpeed JSON alone, NeMo 1.x YAML, and torchtitan TOML; "
          "the "
          "content decides. Scripts are read, never run. `check train --from FILE`, `estimate "
          "train "
          "--from FILE` and `train --compare-with FILE` work on such files directly.",
      .examples = {{"import train.sh", "A script of Megatron-LM or Megatron-DeepSpeed"},
                   {"import llama3_70b.toml --json", "A torchtitan file, as JSON"}},
      .options = {json_option()},
      .positionals = {{.name = "FILE",
                       .kind = ValueKind::text,
                       .help = "Script, argument list, JSON, YAML or TOML",
                       .required = true}},
      .run = run_import};
}

}  // namespace tuner
