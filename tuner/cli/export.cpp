// autotune export: the recommendation of a run as files for a framework.
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/base/json_reader.h"
#include "tuner/cli/answers.h"
#include "tuner/cli/commands.h"
#include "tuner/cli/help.h"
#include "tuner/exchange/export.h"
#include "tuner/exchange/text.h"

namespace tuner {
namespace {

namespace fs = std::filesystem;

RunRecord exported_run(const Arguments& arguments) {
  const Store store(store_path(arguments), Access::read);
  std::optional<RunRecord> run;
  if (const auto id = arguments.integer("ID"))
    run = store.run(*id);
  else
    run = store.last_run();
  if (!run)
    throw engine::InputError(
        "there is no run to export yet; `autotune train --model 175b --gpus 1024` makes one");
  if (run->answer.empty())
    throw engine::InputError(
        fmt::format("run {} was not finished and has no answer; run its command again: {}", run->id,
                    one_line(run->command_line)));
  return std::move(*run);
}

void write_files(const std::string& folder, const std::vector<TextFile>& files) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    throw engine::Error(engine::ExitCode::storage,
                        fmt::format("the folder '{}' cannot be made: {}", folder, error.message()));
  for (const TextFile& file : files) {
    const fs::path path = fs::path(folder) / file.name;
    engine::FileWriter writer(path.string());
    writer.append(file.text.data(), file.text.size());
    writer.close();
    const bool script = file.name.ends_with(".sh") || file.name.ends_with(".sbatch");
    if (script)
      fs::permissions(path, fs::perms::owner_exec | fs::perms::group_exec | fs::perms::others_exec,
                      fs::perm_options::add, error);
    print_message(fmt::format("wrote {}\n", one_line(path.string())));
  }
}

int run_export(const Arguments& arguments) {
  const RunRecord run = exported_run(arguments);
  const nlohmann::json answer =
      engine::parse_json(run.answer, "the stored answer of run " + std::to_string(run.id));
  const Exported exported =
      export_answer(answer, {.target = arguments.text("--to").value(),
                             .slurm = arguments.flag("--slurm"),
                             .provenance = {fmt::format("autotune {}, run {} of {}",
                                                        version_number(), run.id, run.created_at),
                                            run.command_line}});
  for (const Loss& loss : exported.losses)
    print_message(fmt::format("{}: {}\n", loss.runs ? "not expressible" : "does not run",
                              one_line(loss.text)));
  if (const auto folder = arguments.text("--output"))
    write_files(*folder, exported.files);
  else
    print_result(exported.text);
  const bool refused = !exported.runs() || (arguments.flag("--strict") && !exported.losses.empty());
  return static_cast<int>(refused ? engine::ExitCode::nothing_fits : engine::ExitCode::found);
}

}  // namespace

Command export_command() {
  std::vector<std::string> targets;
  for (const ExportTarget& target : export_targets()) targets.emplace_back(target.name);
  return {
      .words = "export",
      .summary = "Write the recommendation of a run as files for a framework",
      .description =
          "Without an ID the last run. The result is one document on standard output, or files in "
          "a folder with --output. What the target cannot express stands in a comment and on "
          "standard error; the exit code is 0 as long as the result runs, else 3.",
      .examples = {{"export --to megatron-lm > train.sh", "The last run, for Megatron-LM"},
                   {"export 17 --to deepspeed --output run17", "Run 17: script and ds_config.json"},
                   {"export --to torchtitan --slurm | sbatch", "Straight into Slurm"},
                   {"export --to vllm > serve.sh", "A run of `autotune infer`"}},
      .options = {{.name = "--to",
                   .kind = ValueKind::text,
                   .placeholder = "TARGET",
                   .help = "The framework that is to run it",
                   .choices = targets,
                   .required = true},
                  {.name = "--slurm", .help = "Wrap the launcher in a Slurm batch script"},
                  {.name = "--output",
                   .kind = ValueKind::text,
                   .placeholder = "DIR",
                   .help = "Write files into this folder, which is made"},
                  {.name = "--strict",
                   .help = "Exit with 3 when the target cannot express everything"},
                  database_option()},
      .positionals =
          {{.name = "ID", .kind = ValueKind::integer, .help = "Number of a run", .low = 1}},
      .run = run_export};
}

}  // namespace tuner
