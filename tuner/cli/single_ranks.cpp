// Single ranks of a plan on this machine.
#include "tuner/cli/single_ranks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/base/units.h"
#include "tuner/cli/answers.h"
#include "tuner/cli/gpu_cluster.h"
#include "tuner/cli/host_cluster.h"
#include "tuner/cli/progress.h"

namespace tuner {

using engine::ExitCode;

namespace {

// The GPU of this machine that trials run on; none where they run on its processor.
std::optional<DeviceSpec> trial_gpu(const MeasureRequest& request) {
  if (request.device != TrialDevice::cuda) return std::nullopt;
  return built_in_gpu_cluster(ask_worker(find_worker(request.device)), 1).device;
}

// A worker that does not describe itself tells what is wrong with it in its trials.
bool multiplies_bf16(const std::string& worker) {
  try {
    return ask_worker(worker).value("bf16", true);
  } catch (const engine::Error&) {
    return true;
  }
}

// What this machine has for single ranks of a plan.
SliceRoom room_here(const Host& host, const MeasureRequest& request, const Launcher& launcher,
                    engine::Precision precision, const std::optional<DeviceSpec>& gpu) {
  constexpr double kMemoryShare = 0.7;  // of what is free
  constexpr double kArithmetic = 0.7;   // of the peak, in whole layers
  constexpr double kFirstTouch = 1e9;   // bytes/s
  const bool bf16 =
      precision != engine::Precision::f32 && (gpu || multiplies_bf16(launcher.worker));
  const engine::Precision stored = bf16 ? engine::Precision::bf16 : engine::Precision::f32;
  const auto peak = [&](const DeviceSpec& device) {
    return kArithmetic * std::max(device.peak(stored), device.peak(engine::Precision::f32));
  };
  if (gpu)
    return {kMemoryShare * gpu->memory_bytes, request.budget_seconds,       peak(*gpu),
            gpu->memory_bytes_per_second,     gpu->memory_bytes_per_second, bf16};
  const DeviceSpec device = host_cluster(host, 1, "").cluster.device;
  return {kMemoryShare * available_memory_bytes(),
          request.budget_seconds,
          peak(device) * host.cores,
          kFirstTouch,
          device.memory_bytes_per_second * host.cores,
          bf16};
}

// Prints the trials. Nothing is stored.
int show_ranks(const Slice& slice, const Launcher& launcher) {
  std::string text;
  for (const SingleRank& rank : slice.ranks)
    text += fmt::format("rank {} of the {} stage of {} with {} layers: {}\n  {}\n",
                        rank.job.phantom_rank, rank.place, slice.text, slice.layers,
                        engine::format_bytes(rank.bytes),
                        fmt::join(launcher.command(1, "JOB.json"), " "));
  print_result(text + fmt::format("About {} in all.\n", engine::format_seconds(slice.seconds)));
  return 0;
}

}  // namespace

bool runs_whole_plans(const ClusterSpec& cluster, const std::string& stack,
                      const MeasureRequest& request) {
  const bool same =
      request.device == TrialDevice::cuda ? request.this_host : cluster.device.is_cpu();
  if (same && stack == "autotune") return true;
  if (same)
    throw engine::InputError(
        fmt::format("trials run under the stack autotune, not {}; leave out --gpu and --stack to "
                    "make this machine the cluster, or leave out --measure",
                    stack));
  if (!request.automatic)
    throw engine::InputError(
        fmt::format("this machine has no {} to time plans on; --measure auto runs single ranks of "
                    "the best plan to confirm its bytes, products and messages",
                    cluster.device.name));
  if (request.launcher != LauncherKind::local)
    throw engine::InputError(
        "single ranks of a plan run on this machine; leave out --launcher, or leave out --gpu");
  return false;
}

int confirm_best(const Arguments& arguments, const MeasureRequest& request,
                 const Launcher& launcher, const Host& host, const RankQuestion& question,
                 const AnswerWith& answer_with) {
  const std::optional<DeviceSpec> gpu = trial_gpu(request);
  std::optional<Slice> slice;
  std::string why_not = "no plan fits, so there is nothing to confirm";
  if (question.slice)
    slice = question.slice(room_here(host, request, launcher, question.precision, gpu), why_not);
  const std::string nothing_run = "nothing was run: " + why_not + "\n";
  if (request.dry_run && slice) return show_ranks(*slice, launcher);
  if (request.dry_run) {
    print_message(nothing_run);
    return static_cast<int>(question.slice ? ExitCode::partial : ExitCode::nothing_fits);
  }
  Store store(store_path(arguments));
  const int64_t run =
      store.add_run(unfinished_run(arguments, question.model, question.cluster, question.kind));
  const StopSignals signals;
  std::optional<Confirmation> confirmation;
  if (slice) {
    Profiler profiler(store, run, launcher, host);
    ProgressLine line;
    const ConfirmOptions options = {
        .times_count = gpu && gpu->name == question.cluster.device.name,
        .device = gpu ? fmt::format("this machine's {}", gpu->title)
                      : fmt::format("this machine ({}, {} cores)", host.cpu, host.cores),
        .stop = &signals.seen(),
        .progress = [&](const std::string& text) { line.tell(text); }};
    confirmation = confirm_slice(*slice, profiler, options);
  }
  const bool complete = confirmation && confirmation->is_complete();
  std::string title;
  Ending ending;
  const nlohmann::json answer = answer_with(std::move(confirmation), title, ending);
  if (question.slice && signals.seen() != 0)
    ending = stopped_ending(signals.seen());
  else if (question.slice && !complete)
    ending = {ExitCode::partial, slice ? "partly confirmed" : "found"};
  print_answer(answer, arguments);
  store.finish_run(run, title, ending.status, json_text(answer, -1));
  if (slice)
    tell_ending(ending, false);
  else
    print_message(nothing_run);
  return static_cast<int>(ending.code);
}

}  // namespace tuner
