// autotune models: the models that are known by name, and the shape of one.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "engine/base/units.h"
#include "engine/plan/model_spec.h"
#include "tuner/cli/commands.h"
#include "tuner/model/presets.h"
#include "tuner/space/rules.h"

namespace tuner {
namespace {

// Which predictions cover a model, in words.
std::string coverage(const engine::ModelSpec& model) {
  const std::vector<std::string> reasons = not_trained(model);
  if (reasons.empty()) return "yes";
  return fmt::format("{}: {}", model.not_modelled.empty() ? "serving only" : "no",
                     fmt::join(reasons, ", "));
}

nlohmann::ordered_json model_json(const engine::ModelSpec& model) {
  return {{"name", model.name},
          {"origin", model.origin},
          {"parameters", engine::parameter_count(model)},
          {"active_parameters", engine::active_parameter_count(model)},
          {"predicted", not_trained(model).empty()},
          {"served", model.not_modelled.empty()},
          {"not_modelled", not_trained(model)},
          {"spec", nlohmann::json(model)}};
}

std::string list_models(bool json) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  std::vector<std::vector<std::string>> rows;
  for (const std::string& name : model_names()) {
    const engine::ModelSpec model = find_model(name);
    if (json) {
      list.push_back(model_json(model));
    } else {
      rows.push_back(
          {name, engine::format_count(static_cast<double>(engine::parameter_count(model))),
           std::to_string(model.layers), std::to_string(model.hidden), std::to_string(model.heads),
           std::to_string(model.kv_heads), std::to_string(model.vocab),
           std::to_string(model.positions), coverage(model)});
    }
  }
  if (json)
    return json_text(nlohmann::ordered_json{{"schema", "autotune.models/1"}, {"models", list}}) +
           "\n";
  return format_table(
      {"NAME", "PARAMETERS", "LAYERS", "HIDDEN", "HEADS", "KV", "VOCAB", "POSITIONS", "PREDICTED"},
      rows, output_width());
}

std::string show_model(const std::string& text, bool json) {
  const engine::ModelSpec model = find_model(text);
  if (json) {
    nlohmann::ordered_json answer = {{"schema", "autotune.model/1"}};
    answer.update(model_json(model));
    return json_text(answer) + "\n";
  }
  const auto parameters = engine::parameter_count(model);
  const auto active = engine::active_parameter_count(model);
  std::string shown = fmt::format("{} ({})\n", model.name, model.origin);
  const auto line = [&shown](std::string_view name, const std::string& value) {
    shown += fmt::format("  {:<13} {}\n", name, value);
  };
  line("parameters", engine::format_grouped(parameters));
  if (active != parameters) line("active", engine::format_grouped(active) + " a token");
  line("layers", std::to_string(model.layers));
  line("hidden", fmt::format("{}, MLP {}{}", model.hidden, model.ffn_hidden,
                             model.gated_mlp ? " (gated)" : ""));
  line("heads", fmt::format("{} of {}, {} for keys and values", model.heads, model.head_dim,
                            model.kv_heads));
  line("vocabulary", fmt::format("{}{}", engine::format_grouped(model.vocab),
                                 model.tied_embeddings ? ", head tied to the embedding" : ""));
  line("positions", engine::format_grouped(model.positions));
  if (model.default_seq > 0) line("default seq", std::to_string(model.default_seq));
  if (model.default_gbs > 0) line("default gbs", std::to_string(model.default_gbs));
  line("predicted", coverage(model));
  return shown;
}

int run_models(const Arguments& arguments) {
  const auto name = arguments.text("NAME");
  const bool json = arguments.flag("--json");
  print_result(name ? show_model(*name, json) : list_models(json));
  return 0;
}

}  // namespace

Command models_command() {
  return {.words = "models",
          .summary = "List the known models, or show one",
          .description =
              "NAME is a model of the list, a parameter count such as 175b (GPT-3's family) "
              "or the path of a Hugging Face config.json.",
          .examples = {{"models", "All models"},
                       {"models llama-3.1-70b", "The shape of one"},
                       {"models 42b", "The shape that is derived for a size"},
                       {"models ./config.json --json", "Your own, as JSON"}},
          .options = {json_option()},
          .positionals = {{.name = "NAME",
                           .kind = ValueKind::text,
                           .help = "A model, a parameter count or a config.json",
                           .suggest = model_names}},
          .run = run_models};
}

}  // namespace tuner
