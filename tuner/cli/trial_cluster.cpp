// Where trials run.
#include "tuner/cli/trial_cluster.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "tuner/cli/answers.h"
#include "tuner/cli/calibrate_host.h"
#include "tuner/cli/gpu_cluster.h"

namespace tuner {

using engine::ExitCode;

namespace {

std::string errors_of(const HostCalibration& done, TrialKind kind) {
  if (kind == TrialKind::serving && done.serving)
    return fmt::format(
        "batches that the fit has not seen are {:.0f} % off in TTFT, {:.0f} % in TPOT",
        100 * done.serving->ttft, 100 * done.serving->tpot);
  return fmt::format("step times that the fit has not seen are {:.0f} % off",
                     100 * done.step_error);
}

}  // namespace

Launcher trial_launcher(const Arguments& arguments, const MeasureRequest& request) {
  Launcher launcher = Launcher::find(request.launcher, request.device);
  launcher.slurm = request.slurm;
  if (const auto ranks = arguments.integer("--gpus-per-node"))
    launcher.slurm.ranks_per_node = static_cast<int>(*ranks);
  return launcher;
}

HostCluster trial_cluster(const Arguments& arguments, const MeasureRequest& request,
                          const std::optional<Launcher>& launcher, const Host& host) {
  const auto ranks = static_cast<int>(*arguments.integer("--gpus"));
  if (request.device == TrialDevice::cuda)
    return gpu_cluster(ask_worker(find_worker(request.device)), ranks,
                       launcher ? environment_of(host, *launcher).hash : "");
  const bool slurm = request.launcher == LauncherKind::slurm;
  const std::string environment =
      launcher ? environment_of(host, {LauncherKind::local, launcher->worker, {}}).hash : "";
  return host_cluster(host, ranks, environment,
                      slurm && launcher ? launcher->slurm.ranks_per_node : 0,
                      request.launcher == LauncherKind::local);
}

bool calibrate_stale(const Arguments& arguments, const MeasureRequest& request,
                     const std::optional<Launcher>& launcher, const Host& host, TrialKind kind,
                     HostCluster& cluster) {
  if (cluster.is_current || !launcher || request.device == TrialDevice::cuda ||
      request.launcher == LauncherKind::slurm || request.dry_run || !request.calibrate)
    return false;
  print_message(cluster.remark.substr(0, cluster.remark.find(':')) +
                ": it is measured first, for about half a minute (--no-calibrate goes without)\n");
  try {
    const HostCalibration done = calibrate_host(store_path(arguments), host_profile_path(), host);
    print_message(fmt::format("calibrated: {}; profile in {}\n", errors_of(done, kind), done.path));
    cluster = trial_cluster(arguments, request, launcher, host);
    return true;
  } catch (const engine::Error& error) {
    if (error.code() != ExitCode::environment) throw;
    print_message(fmt::format("the calibration failed: {}\n", error.what()));
    return false;
  }
}

}  // namespace tuner
