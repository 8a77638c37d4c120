// Options of measuring, and what they mean together.
#include "tuner/cli/measure_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <sstream>

#include "engine/base/errors.h"
#include "engine/base/units.h"
#include "tuner/cli/trial_device.h"

namespace tuner {
namespace {

constexpr int64_t kAutomatic = 8;  // plans
constexpr int64_t kMostPlans = 1000;
constexpr double kDefaultBudget = 120;  // seconds
constexpr int64_t kSlurmJobs = 4;

std::string wrong_measure(const std::string& text) {
  if (text == "none" || text == "auto") return {};
  const bool digits =
      !text.empty() && text.size() <= 4 &&
      std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
  if (digits && std::stoi(text) >= 1 && std::stoi(text) <= kMostPlans) return {};
  return "must be none, auto or a number of plans from 1 to 1000";
}

LauncherKind launcher_kind_of(const Arguments& arguments) {
  const std::string name = arguments.text("--launcher").value_or("local");
  if (name == "slurm") return LauncherKind::slurm;
  return name == "mpirun" ? LauncherKind::mpirun : LauncherKind::local;
}

SlurmOptions slurm_options_of(const Arguments& arguments) {
  SlurmOptions slurm;
  slurm.partition = arguments.text("--slurm-partition").value_or("");
  slurm.account = arguments.text("--slurm-account").value_or("");
  slurm.time_seconds = arguments.number("--slurm-time").value_or(0);
  slurm.wait_seconds = arguments.number("--slurm-wait").value_or(slurm.wait_seconds);
  std::istringstream flags(arguments.text("--slurm-flags").value_or(""));
  for (std::string flag; flags >> flag;) slurm.flags.push_back(flag);
  return slurm;
}

void refuse_idle_options(const Arguments& arguments, const MeasureRequest& request) {
  if (request.most_plans == 0)
    for (const char* name : {"--measure-budget", "--launcher", "--dry-run", "--resume"})
      if (arguments.has(name))
        throw engine::InputError(fmt::format(
            "{} is about trials, but nothing is measured; add --device cpu --measure auto", name));
  if (request.launcher != LauncherKind::slurm)
    for (const char* name : {"--slurm-partition", "--slurm-account", "--slurm-time", "--slurm-wait",
                             "--slurm-jobs", "--slurm-flags"})
      if (arguments.has(name))
        throw engine::InputError(fmt::format("{} is about batch jobs; add --launcher slurm", name));
}

// One line for people.
std::string progress_text(const MeasureProgress& p) {
  std::string text = fmt::format("measuring {} of at most {}: {}", p.done + 1, p.total, p.now);
  if (p.best_seconds > 0)
    text += fmt::format("; best so far {}", engine::format_seconds(p.best_seconds));
  if (p.failures > 0) text += fmt::format("; {} failed", p.failures);
  const std::string budget = engine::format_seconds(p.budget_seconds);
  return text + (p.spent_seconds > 0 ? fmt::format("; {} of {} spent",
                                                   engine::format_seconds(p.spent_seconds), budget)
                                     : fmt::format("; {} to spend", budget));
}

}  // namespace

std::vector<Option> measure_options() {
  return {
      device_option("Where trials run; without --gpu this machine is the cluster and is measured",
                    "none"),
      {.name = "--measure",
       .kind = ValueKind::text,
       .placeholder = "N",
       .help = "Plans to measure: none, auto or a number",
       .default_text = "auto with --device and without --gpu, else none",
       .check = wrong_measure},
      {.name = "--measure-budget",
       .kind = ValueKind::seconds,
       .placeholder = "TIME",
       .help = "Time for all trials together, as in 10m",
       .default_text = "2m",
       .low = 1,
       .high = 1e8},
      {.name = "--launcher",
       .kind = ValueKind::text,
       .help = "How trials are started: threads of one process, mpirun, or batch jobs of Slurm",
       .default_text = "local",
       .choices = {"local", "mpirun", "slurm"}},
      {.name = "--slurm-partition",
       .kind = ValueKind::text,
       .placeholder = "NAME",
       .help = "Partition of the jobs",
       .default_text = "Slurm's"},
      {.name = "--slurm-account",
       .kind = ValueKind::text,
       .placeholder = "NAME",
       .help = "Account of the jobs",
       .default_text = "Slurm's"},
      {.name = "--slurm-time",
       .kind = ValueKind::seconds,
       .placeholder = "TIME",
       .help = "Time limit of a job",
       .default_text = "the trial's deadline",
       .low = 60,
       .high = 1e7},
      {.name = "--slurm-wait",
       .kind = ValueKind::seconds,
       .placeholder = "TIME",
       .help = "How long a job may wait in the queue before it is cancelled",
       .default_text = "1h",
       .low = 1,
       .high = 1e7},
      {.name = "--slurm-jobs",
       .kind = ValueKind::integer,
       .placeholder = "N",
       .help = "Jobs side by side",
       .default_text = "4",
       .low = 1,
       .high = 256},
      {.name = "--slurm-flags",
       .kind = ValueKind::text,
       .placeholder = "FLAGS",
       .help = "More flags of sbatch: --slurm-flags='--qos=debug --exclusive'"},
      {.name = "--calibrate",
       .kind = ValueKind::negatable,
       .help = "Measure this machine first when its profile is missing or stale",
       .default_text = "yes"},
      {.name = "--dry-run",
       .help = "Print the trials, their commands and what they would cost; run nothing"},
      {.name = "--resume",
       .help = "Go on with what is stored; the same command without it does so, too"}};
}

MeasureRequest measure_request_of(const Arguments& arguments) {
  MeasureRequest request;
  request.device = trial_device_of(arguments);
  request.this_host = arguments.has("--device") && !arguments.has("--gpu");
  const std::string measure =
      arguments.text("--measure").value_or(request.this_host ? "auto" : "none");
  request.automatic = measure == "auto";
  if (measure != "none") request.most_plans = measure == "auto" ? kAutomatic : std::stoi(measure);
  request.budget_seconds = arguments.number("--measure-budget").value_or(kDefaultBudget);
  request.launcher = launcher_kind_of(arguments);
  request.slurm = slurm_options_of(arguments);
  if (request.launcher == LauncherKind::slurm)
    request.at_once = static_cast<int>(arguments.integer("--slurm-jobs").value_or(kSlurmJobs));
  request.dry_run = arguments.flag("--dry-run");
  request.calibrate = arguments.toggle("--calibrate").value_or(true);
  refuse_idle_options(arguments, request);
  return request;
}

MeasureOptions measure_options_of(const MeasureRequest& request, const StopSignals& signals,
                                  ProgressLine& line) {
  return {.most_plans = request.most_plans,
          .budget_seconds = request.budget_seconds,
          .at_once = request.at_once,
          .stop = &signals.seen(),
          .progress = [&line](const MeasureProgress& p) { line.tell(progress_text(p)); }};
}

}  // namespace tuner
