// autotune run evaluate: how well a checkpoint predicts a text or answers examples.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/base/json_reader.h"
#include "engine/base/units.h"
#include "tuner/cli/commands.h"
#include "tuner/cli/serving_job.h"
#include "tuner/cli/trial_device.h"

namespace tuner {

using engine::Evaluation;
using engine::Json;

namespace {

Evaluation evaluation_of(const Arguments& arguments, const std::string& path) {
  const auto kind = arguments.text("--kind");
  if (kind == "choice") return Evaluation::choice;
  if (kind == "last-word") return Evaluation::last_word;
  if (kind == "perplexity") return Evaluation::perplexity;
  if (path.ends_with(".jsonl"))
    throw engine::InputError(
        path + ": say what is asked of these examples: --kind choice or --kind last-word");
  return Evaluation::perplexity;
}

std::string text_of(Evaluation kind, const engine::ServingOutcome& result) {
  const std::string perplexity = fmt::format("perplexity {:.4g} over {} tokens", result.perplexity,
                                             engine::format_grouped(result.scored_tokens));
  if (kind == Evaluation::perplexity) return perplexity + "\n";
  return fmt::format("accuracy {:.1f} % of {} examples; {} of the {}\n", 100 * result.accuracy,
                     engine::format_grouped(result.examples), perplexity,
                     kind == Evaluation::choice ? "right choices" : "last words");
}

int run_evaluate(const Arguments& arguments) {
  engine::Job job = checkpoint_job(arguments);
  engine::ServingSpec& serving = *job.serving;
  serving.requests_path = arguments.text("--data").value();
  serving.evaluation = evaluation_of(arguments, serving.requests_path);
  serving.stride = arguments.integer("--stride").value_or(0);
  if (serving.stride > 0 && serving.evaluation != Evaluation::perplexity)
    throw engine::InputError("--stride cuts a text into windows; leave it out for examples");
  const ScratchFolder folder;
  const StopSignals signals;
  const engine::Outcome outcome =
      run_job(job, trial_device_of(arguments), folder.path(), signals, {});
  engine::expect(outcome.serving.has_value(), "the figures of an evaluation");
  if (arguments.flag("--json")) {
    Json answer = {{"schema", "autotune.run_evaluate/1"},
                   {"kind", engine::kEvaluationNames[static_cast<size_t>(serving.evaluation)]},
                   {"perplexity", outcome.serving->perplexity},
                   {"scored_tokens", outcome.serving->scored_tokens},
                   {"examples", outcome.serving->examples},
                   {"accuracy", nullptr},
                   {"plan", engine::plan_to_json(job.plan, job.model.layers)}};
    if (serving.evaluation != Evaluation::perplexity)
      answer["accuracy"] = outcome.serving->accuracy;
    print_result(json_text(answer) + "\n");
  } else {
    print_result(text_of(serving.evaluation, *outcome.serving));
  }
  return 0;
}

}  // namespace

Command run_evaluate_command() {
  Command command{
      .words = "run evaluate",
      .summary = "Measure how well a checkpoint predicts a text or answers examples",
      .description =
          "perplexity: of a text file, in windows as long as the model takes. choice: JSON lines "
          "{\"context\", \"choices\": [...], \"answer\": index}; the likeliest choice counts. "
          "last-word: JSON lines {\"text\"}, right when every token of the last word is the "
          "likeliest (Paperno et al. 2016). The figures are the same under every plan.",
      .examples = {{"run evaluate --checkpoint runs/book --data held-out.txt", "Perplexity"},
                   {"run evaluate --checkpoint runs/book --data words.jsonl --kind last-word "
                    "--tp 2 --json",
                    "Last words, on two ranks"}},
      .options = {{.name = "--data",
                   .kind = ValueKind::text,
                   .placeholder = "FILE",
                   .help = "A text file, or examples as JSON lines (*.jsonl)",
                   .required = true},
                  {.name = "--kind",
                   .kind = ValueKind::text,
                   .help = "What is asked",
                   .default_text = "perplexity of a text",
                   .choices = {"perplexity", "choice", "last-word"}},
                  {.name = "--stride",
                   .kind = ValueKind::integer,
                   .placeholder = "N",
                   .help = "New tokens of each window; fewer give each more context",
                   .default_text = "a whole window",
                   .low = 1,
                   .high = 1e9}},
      .run = run_evaluate};
  for (Option& option : checkpoint_options()) command.options.push_back(std::move(option));
  command.options.push_back(json_option());
  return command;
}

}  // namespace tuner
