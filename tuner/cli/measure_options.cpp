// Options of measuring, and what they mean together.
#include "tuner/cli/measure_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "engine/base/errors.h"

namespace tuner {
namespace {

constexpr int64_t kAutomatic = 8;  // plans
constexpr int64_t kMostPlans = 1000;
constexpr double kDefaultBudget = 120;  // seconds

std::string wrong_measure(const std::string& text) {
  if (text == "none" || text == "auto") return {};
  const bool digits =
      !text.empty() && text.size() <= 4 &&
      std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
  if (digits && std::stoi(text) >= 1 && std::stoi(text) <= kMostPlans) return {};
  return "must be none, auto or a number of plans from 1 to 1000";
}

}  // namespace

std::vector<Option> measure_options() {
  return {{.name = "--device",
           .kind = ValueKind::text,
           .help = "Where trials run; without --gpu this machine is the cluster and is measured",
           .default_text = "none",
           .choices = {"cpu", "cuda"}},
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
           .help = "How trials are started: as threads of one process, or by mpirun",
           .default_text = "local",
           .choices = {"local", "mpirun"}},
          {.name = "--dry-run",
           .help = "Print the trials, their commands and what they would cost; run nothing"},
          {.name = "--resume",
           .help = "Go on with what is stored; the same command without it does so, too"}};
}

MeasureRequest measure_request_of(const Arguments& arguments) {
  MeasureRequest request;
  const auto device = arguments.text("--device");
  if (device == "cuda") request.device = TrialDevice::cuda;
  request.this_host = device.has_value() && !arguments.has("--gpu");
  const std::string measure =
      arguments.text("--measure").value_or(request.this_host ? "auto" : "none");
  if (measure != "none") request.most_plans = measure == "auto" ? kAutomatic : std::stoi(measure);
  request.budget_seconds = arguments.number("--measure-budget").value_or(kDefaultBudget);
  if (arguments.text("--launcher").value_or("local") == "mpirun")
    request.launcher = LauncherKind::mpirun;
  request.dry_run = arguments.flag("--dry-run");
  if (request.most_plans > 0 && !device)
    throw engine::InputError("--measure needs a --device to run the trials on: --device cpu");
  if (request.most_plans == 0)
    for (const char* name : {"--measure-budget", "--launcher", "--dry-run", "--resume"})
      if (arguments.has(name))
        throw engine::InputError(fmt::format(
            "{} is about trials, but nothing is measured; add --device cpu --measure auto", name));
  return request;
}

}  // namespace tuner
