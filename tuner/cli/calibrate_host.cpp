// autotune calibrate without --from: measures this machine and writes its profile.
#include "tuner/cli/calibrate_host.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/base/json_reader.h"
#include "engine/base/units.h"
#include "tuner/cli/answers.h"
#include "tuner/cli/gpu_cluster.h"
#include "tuner/cli/host_cluster.h"
#include "tuner/cli/output.h"
#include "tuner/cli/progress.h"
#include "tuner/cli/stop_signals.h"
#include "tuner/cli/trial_device.h"
#include "tuner/model/data_files.h"
#include "tuner/model/presets.h"
#include "tuner/profile/profiler.h"
#include "tuner/profile/statistics.h"
#include "tuner/search/serve_measure.h"
#include "tuner/validate/host_fit.h"
#include "tuner/validate/host_serve_fit.h"

namespace tuner {

using engine::ExitCode;
using engine::Json;

namespace {

constexpr int64_t kTurns = 3, kSamplesATurn = 2;

engine::Job job_of(const HostRow& row) {
  engine::Job job;
  job.model = row.model;
  job.plan = row.plan;
  job.workload = row.workload;
  job.warmup_steps = 1;
  return job;
}

// Trials in turns, so that a busy moment meets none of them alone.
class Turns {
 public:
  explicit Turns(Profiler& profiler) : profiler_(profiler) { limits_.stop = &signals_.seen(); }

  // `take(i, measurement)` after every trial of `jobs[i]`, which is called by `names[i]`. Throws
  // Error when a trial fails or a signal asks to stop.
  template <class Take>
  void run(const std::vector<engine::Job>& jobs, const std::vector<std::string>& names, Take take) {
    for (int64_t turn = 1; turn <= kTurns; ++turn)
      for (size_t i = 0; i < jobs.size(); ++i) {
        line_.tell(fmt::format("turn {} of {}, measuring {} of {}: {}", turn, kTurns, i + 1,
                               jobs.size(), names[i]));
        const Measurement found = profiler_.measure(jobs[i], turn * kSamplesATurn, limits_);
        if (signals_.seen() != 0)
          throw engine::Error(
              signals_.seen() == SIGINT ? ExitCode::interrupted : ExitCode::terminated,
              "interrupted; what was measured is stored: the same command goes on from there");
        if (found.outcome.status != engine::OutcomeStatus::ok)
          throw engine::Error(ExitCode::environment,
                              fmt::format("the trial of {} ended as {}: {}", names[i],
                                          name_of(found.outcome.status), found.outcome.reason));
        take(i, found);
      }
  }

 private:
  Profiler& profiler_;
  const StopSignals signals_;
  ProgressLine line_;
  TrialLimits limits_;
};

// The fastest step of every row: what other programs take of the machine only adds to it. Returns
// what a process holds beside the memory of its ranks.
double measure_rows(std::vector<HostRow>& rows, Profiler& profiler) {
  std::vector<engine::Job> jobs;
  std::vector<std::string> names;
  for (const HostRow& row : rows) {
    jobs.push_back(job_of(row));
    names.push_back(engine::describe(row.plan));
  }
  std::vector<double> runtimes;
  Turns(profiler).run(jobs, names, [&](size_t i, const Measurement& found) {
    rows[i].measured = *std::min_element(found.samples.begin(), found.samples.end());
    const engine::MemoryOutcome& memory = found.outcome.memory;
    if (memory.resident_bytes > 0)
      runtimes.push_back(rows[i].plan.world() * (memory.resident_bytes - memory.peak_bytes));
  });
  return runtimes.empty() ? -1 : std::max(0.0, median_of(std::move(runtimes)));
}

// The fastest turn of every static batch.
void measure_serving_rows(std::vector<HostServeRow>& rows, const ClusterSpec& cluster,
                          Profiler& profiler) {
  std::vector<engine::Job> jobs;
  std::vector<std::string> names;
  for (const HostServeRow& row : rows) {
    jobs.push_back(serving_job_of(host_serve_scenario(cluster, row), row.plan));
    names.push_back("serving, " + describe(row.plan));
  }
  const auto least = [](double& known, double seconds) {
    known = known > 0 ? std::min(known, seconds) : seconds;
  };
  Turns(profiler).run(jobs, names, [&](size_t i, const Measurement& found) {
    const engine::ServingOutcome& serving = found.outcome.serving.value();
    least(rows[i].ttft_seconds, serving.ttft_seconds.p50);
    least(rows[i].tpot_seconds, serving.tpot_seconds.p50);
  });
}

Json measured(double value) {
  return {{"value", value}, {"kind", "measured"}, {"source", "autotune calibrate"}};
}

Json measured_table(const BusBandwidth& table) {
  Json json = Json::object();
  for (const auto& [ranks, rate] : table.by_ranks) json[std::to_string(ranks)] = measured(rate);
  return json;
}

// What of the profile the measurements did not tell.
struct ProfileFacts {
  std::string name, title;
  double memory_bytes = 0;
  int multiprocessors = 0;
};

// The GPU file of this machine.
Json profile_json(const HostFit& fit, const ProfileFacts& facts, const std::string& environment) {
  const DeviceSpec& device = fit.cluster.device;
  const Interconnect& links = fit.cluster.interconnect;
  Json peaks = Json::object();
  for (size_t i = 0; i < engine::kPrecisionNames.size(); ++i)
    if (device.peak_flops[i] > 0)
      peaks[std::string(engine::kPrecisionNames[i])] = measured(device.peak_flops[i]);
  return {{"name", facts.name},
          {"title", facts.title},
          {"architecture", device.architecture},
          {"fingerprint", environment},
          {"memory_bytes", measured(facts.memory_bytes)},
          {"memory_bytes_per_second", measured(device.memory_bytes_per_second)},
          {"runtime_bytes", measured(std::max(0.0, device.runtime_bytes))},
          {"multiprocessors", measured(facts.multiprocessors)},
          {"peak_flops", std::move(peaks)},
          {"rates", device.rates},
          {"serve_rates", device.serve_rates},
          {"interconnect",
           {{"link", links.link},
            {"network", links.network},
            {"gpus_per_node", links.gpus_per_node},
            {"domain_gpus", links.domain_gpus},
            {"all_reduce_bytes_per_second", measured_table(links.all_reduce)},
            {"shard_bytes_per_second", measured_table(links.shard)},
            {"p2p_bytes_per_second", measured(links.p2p_bytes_per_second)},
            {"nic_bytes_per_second", measured(0)}}}};
}

void write_profile(const std::string& path, const Json& profile) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  const std::string part = path + ".part";
  const std::string text = profile.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  engine::FileWriter file(part);
  file.append(text.data(), text.size());
  file.close();
  engine::rename_file(part, path);
}

double step_error(const std::vector<HostRow>& rows, const HostFit& fit) {
  double sum = 0;
  for (size_t i = 0; i < rows.size(); ++i) sum += std::abs(fit.left_out[i] / rows[i].measured - 1);
  return sum / static_cast<double>(rows.size());
}

std::string account(const std::vector<HostRow>& rows, const HostFit& fit, double step_error) {
  std::vector<std::vector<std::string>> lines;
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto error = [&](double predicted) { return predicted / rows[i].measured - 1; };
    lines.push_back({engine::format_seconds(rows[i].measured),
                     fmt::format("{:+.1f} %", 100 * error(fit.predicted[i])),
                     fmt::format("{:+.1f} %", 100 * error(fit.left_out[i])),
                     fmt::format("{} × {}, seq {}: {}", rows[i].model.layers, rows[i].model.hidden,
                                 rows[i].workload.seq, engine::describe(rows[i].plan))});
  }
  return format_table({"MEASURED", "FIT", "LEFT OUT", "TRAINING"}, lines, output_width()) +
         fmt::format("mean error of trainings left out of the fit: {:.1f} %\n", 100 * step_error);
}

ServingErrors errors_of(const std::vector<HostServeRow>& rows, const HostServeFit& fit) {
  ServingErrors errors;
  const auto count = static_cast<double>(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    errors.ttft += std::abs(fit.left_out[i].ttft_seconds / rows[i].ttft_seconds - 1) / count;
    errors.tpot += std::abs(fit.left_out[i].tpot_seconds / rows[i].tpot_seconds - 1) / count;
  }
  return errors;
}

std::string account(const std::vector<HostServeRow>& rows, const HostServeFit& fit,
                    const ServingErrors& errors) {
  std::vector<std::vector<std::string>> lines;
  for (size_t i = 0; i < rows.size(); ++i) {
    const HostServeRow& row = rows[i];
    const auto error = [](double predicted, double measured) {
      return fmt::format("{:+.1f} %", 100 * (predicted / measured - 1));
    };
    lines.push_back({engine::format_seconds(row.ttft_seconds),
                     error(fit.predicted[i].ttft_seconds, row.ttft_seconds),
                     error(fit.left_out[i].ttft_seconds, row.ttft_seconds),
                     engine::format_seconds(row.tpot_seconds),
                     error(fit.predicted[i].tpot_seconds, row.tpot_seconds),
                     error(fit.left_out[i].tpot_seconds, row.tpot_seconds),
                     fmt::format("{} × {}, {} in: {}", row.model.layers, row.model.hidden,
                                 row.input, describe(row.plan))});
  }
  return format_table({"TTFT", "FIT", "LEFT OUT", "TPOT", "FIT", "LEFT OUT", "SERVING"}, lines,
                      output_width()) +
         fmt::format("mean error of batches left out of the fit: TTFT {:.1f} %, TPOT {:.1f} %\n",
                     100 * errors.ttft, 100 * errors.tpot);
}

// Measures the rows, fits the rates on top of `start` and writes the profile.
HostCalibration calibrate(const std::string& database, const std::string& path, const Host& host,
                          const Launcher& launcher, ClusterSpec start, std::vector<HostRow> rows,
                          const ProfileFacts& facts) {
  Store store(database);
  Profiler profiler(store, 0, launcher, host);
  const double runtime_bytes = measure_rows(rows, profiler);
  // What a process holds beside its meter is a CPU's runtime; of a GPU's memory it tells nothing.
  if (runtime_bytes >= 0 && start.device.is_cpu()) start.device.runtime_bytes = runtime_bytes;
  HostFit fit = fit_host(start, find_stack("autotune"), rows);
  HostCalibration done;
  done.step_error = step_error(rows, fit);
  done.account = account(rows, fit, done.step_error);
  if (start.device.is_cpu()) {
    std::vector<HostServeRow> batches = host_serve_rows(rows.front().model);
    measure_serving_rows(batches, fit.cluster, profiler);
    const HostServeFit serving = fit_host_serving(fit.cluster, batches);
    fit.cluster.device.serve_rates = serving.rates;
    done.serving = errors_of(batches, serving);
    done.account += "\n" + account(batches, serving, *done.serving);
  }
  write_profile(path, profile_json(fit, facts, profiler.environment()));
  done.path = path;
  return done;
}

std::string profile_path(const std::string& name) {
  return fmt::format("{}/profiles/gpus/{}.json", user_data_folder(), name);
}

HostCalibration calibrate_gpus(const std::string& database, const std::string& path,
                               const Host& host) {
  const Launcher launcher = Launcher::find(LauncherKind::local, TrialDevice::cuda);
  const Json facts = ask_worker(launcher.worker);
  const int gpus = usable_gpus(facts);
  const ClusterSpec start = built_in_gpu_cluster(facts, std::max(1, gpus));
  return calibrate(database, path, host, launcher, start, gpu_rows(find_model("gpt3-1.3b"), gpus),
                   {kGpuProfile, fmt::format("{} of this machine", start.device.title),
                    start.device.memory_bytes, start.device.multiprocessors});
}

}  // namespace

HostCalibration calibrate_host(const std::string& database, const std::string& path,
                               const Host& host) {
  ClusterSpec start = find_cluster("cpu", 1);
  start.device.multiprocessors = host.cores;
  return calibrate(database, path, host, Launcher::find(LauncherKind::local), start,
                   host_rows(find_model("gpt3-tiny")),
                   {kHostProfile, fmt::format("One core of this machine ({})", host.cpu),
                    host.memory_bytes / host.cores, host.cores});
}

std::string host_profile_path() { return profile_path(kHostProfile); }

int calibrate_host(const Arguments& arguments) {
  const bool gpus = trial_device_of(arguments) == TrialDevice::cuda;
  const std::string path =
      arguments.text("--output").value_or(profile_path(gpus ? kGpuProfile : kHostProfile));
  const HostCalibration done = gpus ? calibrate_gpus(store_path(arguments), path, this_host())
                                    : calibrate_host(store_path(arguments), path, this_host());
  print_result(done.account + fmt::format("Written to {}\n", done.path));
  return static_cast<int>(ExitCode::found);
}

}  // namespace tuner
