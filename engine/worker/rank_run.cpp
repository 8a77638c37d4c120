// What one rank of a job does.
#include "engine/worker/rank_run.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/base/json_reader.h"
#include "engine/train/trainer.h"
#include "engine/train/training_checkpoint.h"

namespace engine {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// What every rank tells the one that reports.
struct RankCounts {
  double stage = 0, peak_bytes = 0, resident_bytes = 0, flops = 0;
  double bytes[kMemoryUses] = {};
  static constexpr int64_t kValues = 4 + kMemoryUses;
};

// The most that this process held so far.
double resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return 1024.0 * static_cast<double>(usage.ru_maxrss);
}

class RankRun {
 public:
  RankRun(const Job& job, Communicator& ranks, const RankOptions& options)
      : job_(job),
        options_(options),
        phantom_(job.phantom_rank >= 0),
        reports_(phantom_ || ranks.rank() == 0),
        device_(make_cpu_device(options.math_threads)),
        world_(ranks, Grid(job.plan)) {
    if (job.memory_limit_bytes > 0)
      device_->set_capacity(static_cast<int64_t>(job.memory_limit_bytes));
    batches_ = make_batches(job.data_prefix, job.workload.seq, job.model.vocab, job.seed);
  }

  Outcome run() {
    Trainer trainer(*device_, world_, job_, *batches_);
    if (!job_.checkpoint_load.empty() && !phantom_) load_checkpoint(trainer, job_.checkpoint_load);
    first_step_ = trainer.next_step();
    if (reports_ && options_.events != nullptr)
      options_.events->write("start", {{"model", job_.model.name},
                                       {"plan", describe(job_.plan)},
                                       {"ranks", job_.plan.world()},
                                       {"phantom_rank", job_.phantom_rank},
                                       {"device", device_->description()},
                                       {"steps", job_.steps}});
    while (trainer.next_step() < job_.steps) train_step(trainer);
    return report();
  }

 private:
  void train_step(Trainer& trainer) {
    const int64_t step = trainer.next_step();
    if (step > first_step_) device_->meter().restart_flops();
    world_.meter().reset();
    const auto start = Clock::now();
    const StepResult result = trainer.step();
    const double seconds = seconds_since(start);
    traffic_ = world_.meter().traffic();
    if (step >= first_step_ + job_.warmup_steps) samples_.push_back(seconds);
    if (!phantom_) {
      loss_ = result.loss;
      norm_ = result.gradient_norm;
    }
    tell_step(step, seconds, result.rate);
    if (!phantom_ && !std::isfinite(result.loss))
      throw BadNumbers(fmt::format(
          "the loss of step {} is {}; lower the learning rate or train in f32", step, result.loss));
    const bool stops = asked_to_stop();
    if (step + 1 == job_.steps || stops ||
        (job_.checkpoint_interval > 0 && (step + 1) % job_.checkpoint_interval == 0))
      save(trainer);
    if (stops) throw Interrupted();
  }

  void save(Trainer& trainer) {
    if (job_.checkpoint_save.empty() || phantom_) return;
    save_checkpoint(trainer, job_.checkpoint_save);
    if (reports_ && options_.events != nullptr)
      options_.events->write("checkpoint",
                             {{"step", trainer.next_step()}, {"folder", job_.checkpoint_save}});
  }

  void tell_step(int64_t step, double seconds, double rate) {
    if (!reports_ || options_.events == nullptr) return;
    Json fields = {{"step", step}, {"seconds", seconds}, {"rate", rate}};
    fields["loss"] = loss_ && std::isfinite(*loss_) ? Json(*loss_) : Json(nullptr);
    fields["gradient_norm"] = norm_ && std::isfinite(*norm_) ? Json(*norm_) : Json(nullptr);
    fields["tokens_per_second"] = static_cast<double>(job_.plan.gbs * job_.workload.seq) / seconds;
    options_.events->write("step", fields);
  }

  // The same on all ranks, so that they stop behind one step.
  bool asked_to_stop() {
    uint8_t stop = options_.stop != nullptr && *options_.stop ? 1 : 0;
    if (!phantom_) world_.all().broadcast({&stop, 1, Element::u8}, 0);
    return stop != 0;
  }

  std::vector<RankCounts> gather_counts() {
    RankCounts counts;
    const Meter& meter = device_->meter();
    counts.stage = world_.coordinate(Axis::pipeline);
    counts.peak_bytes = static_cast<double>(meter.peak());
    counts.resident_bytes = resident_bytes() / options_.ranks_in_process;
    counts.flops = meter.matmul_flops();
    for (int use = 0; use < kMemoryUses; ++use)
      counts.bytes[use] = static_cast<double>(meter.peak(static_cast<MemoryUse>(use)));
    if (phantom_) return {counts};
    std::vector<RankCounts> all(static_cast<size_t>(job_.plan.world()));
    static_assert(sizeof(RankCounts) == RankCounts::kValues * sizeof(double));
    world_.all().all_gather({&counts, RankCounts::kValues, Element::f64},
                            {all.data(), RankCounts::kValues * job_.plan.world(), Element::f64});
    return all;
  }

  Outcome report() {
    const std::vector<RankCounts> ranks = gather_counts();
    if (!reports_) return {};
    Outcome outcome;
    outcome.measured = true;
    outcome.fits = true;
    outcome.loss = loss_;
    outcome.gradient_norm = norm_;
    outcome.traffic = traffic_;
    outcome.samples_seconds = samples_;
    outcome.matmul_flops_per_rank = device_->meter().matmul_flops();
    outcome.memory = memory_of(ranks);
    add_times(outcome);
    return outcome;
  }

  // The most of each use on any rank of a stage; the peak is that of all uses together.
  MemoryOutcome memory_of(const std::vector<RankCounts>& ranks) const {
    MemoryOutcome memory;
    memory.capacity_bytes = job_.memory_limit_bytes;
    std::map<int, StageMemory> stages;
    for (const RankCounts& rank : ranks) {
      const int stage = static_cast<int>(rank.stage);
      StageMemory& row = stages[stage];
      row.stage = stage;
      for (int use = 0; use < kMemoryUses; ++use)
        row.bytes[use] = std::max(row.bytes[use], rank.bytes[use]);
      memory.peak_bytes = std::max(memory.peak_bytes, rank.peak_bytes);
      memory.resident_bytes = std::max(memory.resident_bytes, rank.resident_bytes);
    }
    for (const auto& [stage, row] : stages) memory.stages.push_back(row);
    return memory;
  }

  // The median of the steps behind the warm-up, and between which 90 % of them lie.
  void add_times(Outcome& outcome) const {
    if (samples_.empty()) return;
    std::vector<double> sorted = samples_;
    std::sort(sorted.begin(), sorted.end());
    const auto quantile = [&](double q) {
      const double place = q * static_cast<double>(sorted.size() - 1);
      const auto low = static_cast<size_t>(place);
      const size_t high = std::min(low + 1, sorted.size() - 1);
      return sorted[low] + (place - static_cast<double>(low)) * (sorted[high] - sorted[low]);
    };
    outcome.step_seconds = quantile(0.5);
    outcome.interval_seconds = {quantile(0.05), quantile(0.95)};
    const double rank_seconds = outcome.step_seconds * job_.plan.world();
    const double tokens = static_cast<double>(job_.plan.gbs * job_.workload.seq);
    const int64_t vocab = padded_vocab(job_.model.vocab, kVocabMultiple, job_.plan.tp);
    outcome.tokens_per_second_per_gpu = tokens / rank_seconds;
    outcome.tflops_per_gpu = 3 * tokens *
                             forward_flops_per_token(job_.model, job_.workload.seq, vocab) /
                             rank_seconds / 1e12;
  }

  const Job& job_;
  const RankOptions& options_;
  bool phantom_, reports_;
  std::unique_ptr<Device> device_;
  World world_;
  std::unique_ptr<Batches> batches_;
  std::vector<double> samples_;
  std::vector<Traffic> traffic_;
  int64_t first_step_ = 0;
  std::optional<double> loss_, norm_;
};

}  // namespace

Outcome run_rank(const Job& job, Communicator& ranks, const RankOptions& options) {
  return RankRun(job, ranks, options).run();
}

void write_outcome(const Outcome& outcome, const std::string& path) {
  if (path.empty()) return;
  // Several ranks may fail, and report, at once.
  const std::string draft = fmt::format("{}.{}.writing", path, getpid());
  const std::string text = outcome_to_json(outcome).dump(2) + "\n";
  FileWriter file(draft);
  file.append(text.data(), text.size());
  file.close();
  rename_file(draft, path);
}

}  // namespace engine
