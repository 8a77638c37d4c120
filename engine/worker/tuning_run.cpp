// What one rank of a tuning job does.
#include "engine/worker/tuning_run.h"

#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/base/json_reader.h"
#include "engine/tune/prompt_tuner.h"
#include "engine/worker/rank_memory.h"

namespace engine {
namespace {

using Clock = std::chrono::steady_clock;

class TuningRun {
 public:
  TuningRun(const Job& job, Device& device, Communicator& ranks, const RankOptions& options)
      : job_(job), options_(options), device_(&device), world_(ranks, Grid(job.plan)) {
    if (job.is_phantom())
      throw InputError("a phantom rank has no text to tune on; leave out phantom_rank");
    if (job.memory_limit_bytes > 0)
      device_->set_capacity(static_cast<int64_t>(job.memory_limit_bytes));
  }

  Outcome run() {
    const auto tokenizer = make_tokenizer(job_.tuning->tokenizer);
    auto examples = read_tuning_examples(job_, *tokenizer);
    tell("start", {{"model", job_.model.name},
                   {"plan", describe(job_.plan)},
                   {"examples", examples.size()},
                   {"steps", job_.steps}});
    PromptTuner tuner(*device_, world_, job_, std::move(examples));
    bool stops = false;
    for (int64_t step = 0; step < job_.steps && !stops; ++step) {
      train_step(tuner, step);
      stops = asked_to_stop();
    }
    if (world_.rank() == 0)
      for (size_t task = 0; task < job_.tuning->tasks.size(); ++task)
        write_soft_prompt(tuner.prompt(task), job_.tuning->tasks[task].prompt_path);
    if (stops) throw Interrupted();
    return report();
  }

 private:
  void tell(const std::string& name, const Json& fields) {
    if (world_.rank() == 0 && options_.events != nullptr) options_.events->write(name, fields);
  }

  void train_step(PromptTuner& tuner, int64_t step) {
    const auto start = Clock::now();
    const TuningStep result = tuner.step();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (step >= job_.warmup_steps) samples_.push_back(seconds);
    loss_ = result.loss;
    norm_ = result.gradient_norm;
    tell("step", {{"step", step},
                  {"seconds", seconds},
                  {"loss", std::isfinite(loss_) ? Json(loss_) : Json()},
                  {"gradient_norm", std::isfinite(norm_) ? Json(norm_) : Json()},
                  {"rate", result.rate}});
    if (!std::isfinite(loss_))
      throw BadNumbers("the loss is no number any more; lower the learning rate");
  }

  bool asked_to_stop() {
    uint8_t stop = options_.stop != nullptr && *options_.stop ? 1 : 0;
    world_.all().broadcast({&stop, 1, Element::u8}, 0);
    return stop != 0;
  }

  Outcome report() {
    Outcome outcome;
    outcome.measured = true;
    outcome.fits = true;
    outcome.memory = gather_memory(world_, *device_, options_.ranks_in_process, false);
    outcome.samples_seconds = samples_;
    outcome.step_seconds = spread_of(samples_).p50;
    outcome.interval_seconds = {outcome.step_seconds, outcome.step_seconds};
    outcome.loss = loss_;
    outcome.gradient_norm = norm_;
    outcome.tokens_per_second_per_gpu =
        outcome.step_seconds > 0 ? static_cast<double>(job_.plan.gbs * job_.workload.seq) /
                                       outcome.step_seconds / job_.plan.world()
                                 : 0;
    return world_.rank() == 0 ? outcome : Outcome();
  }

  const Job& job_;
  const RankOptions& options_;
  Device* device_;
  World world_;
  std::vector<double> samples_;
  double loss_ = 0, norm_ = 0;
};

}  // namespace

Outcome run_tuning_rank(const Job& job, Device& device, Communicator& ranks,
                        const RankOptions& options) {
  return TuningRun(job, device, ranks, options).run();
}

}  // namespace engine
