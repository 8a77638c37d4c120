// What one rank of a job does.
#include "engine/worker/rank_run.h"

#include <fmt/format.h>
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
#include "engine/worker/rank_memory.h"
#include "engine/worker/serving_run.h"
#include "engine/worker/tuning_run.h"

namespace engine {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

class RankRun {
 public:
  RankRun(const Job& job, Device& device, Communicator& ranks, const RankOptions& options)
      : job_(job),
        options_(options),
        phantom_(job.is_phantom()),
        reports_(phantom_ || ranks.rank() == 0),
        device_(&device),
        world_(ranks, Grid(job.plan)) {
    if (job.memory_limit_bytes > 0)
      device_->set_capacity(static_cast<int64_t>(job.memory_limit_bytes));
    batches_ = make_batches(job.data_prefix, job.workload.seq, job.model.vocab, job.seed);
    if (!job.validation_prefix.empty())
      validation_ =
          make_batches(job.validation_prefix, job.workload.seq, job.model.vocab, job.seed);
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
                                       {"step", first_step_},
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
    matmul_flops_ = device_->meter().matmul_flops();
    const bool stops = asked_to_stop();
    if (is_due(step, job_.validation_interval) && !stops) validate(trainer);
    if (is_due(step, job_.checkpoint_interval) || stops) save(trainer);
    if (stops) throw Interrupted();
  }

  // Behind the last step, and every `interval` steps.
  bool is_due(int64_t step, int64_t interval) const {
    return step + 1 == job_.steps || (interval > 0 && (step + 1) % interval == 0);
  }

  void validate(Trainer& trainer) {
    if (validation_ == nullptr || phantom_) return;
    const double loss = trainer.evaluate(*validation_, job_.validation_batches);
    if (reports_ && options_.events != nullptr)
      options_.events->write("validation", {{"step", trainer.next_step()},
                                            {"loss", std::isfinite(loss) ? Json(loss) : Json()}});
  }

  void save(Trainer& trainer) {
    if (job_.checkpoint_save.empty() || phantom_) return;
    const std::string folder = save_checkpoint(trainer, job_.checkpoint_save);
    if (reports_ && options_.events != nullptr)
      options_.events->write("checkpoint", {{"step", trainer.next_step()}, {"folder", folder}});
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

  Outcome report() {
    MemoryOutcome memory = gather_memory(world_, *device_, options_.ranks_in_process, phantom_);
    if (!reports_) return {};
    Outcome outcome;
    outcome.measured = true;
    outcome.fits = true;
    outcome.loss = loss_;
    outcome.gradient_norm = norm_;
    outcome.traffic = traffic_;
    outcome.samples_seconds = samples_;
    outcome.matmul_flops_per_rank = matmul_flops_;
    outcome.memory = std::move(memory);
    add_times(outcome);
    return outcome;
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
  Device* device_;
  World world_;
  std::unique_ptr<Batches> batches_, validation_;
  std::vector<double> samples_;
  std::vector<Traffic> traffic_;
  int64_t first_step_ = 0;
  double matmul_flops_ = 0;  // of the last step
  std::optional<double> loss_, norm_;
};

}  // namespace

Outcome run_rank(const Job& job, Device& device, Communicator& ranks, const RankOptions& options) {
  if (job.serving) return run_serving_rank(job, device, ranks, options);
  if (job.tuning) return run_tuning_rank(job, device, ranks, options);
  return RankRun(job, device, ranks, options).run();
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
