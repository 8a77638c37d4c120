// Trains a job on thread ranks and tells everything a test compares.
#include "tests/support/training_run.h"

#include <mutex>

#include "engine/train/trainer.h"
#include "tests/support/ranks.h"

namespace engine {
namespace {

// The values of a parameter, wherever they lie.
std::vector<float> values_of(Device& device, const View& view) {
  Tensor wide(device, {view.rows, view.cols}, DType::f32, MemoryUse::workspace);
  device.kernels().copy(view, wide);
  std::vector<float> values(static_cast<size_t>(wide.elements()));
  device.copy_to_host(values.data(), wide.data(), wide.bytes());
  return values;
}

void collect(const Parameter& p, const std::vector<float>& values,
             std::map<std::string, std::vector<float>>& weights) {
  int64_t rows = 1, columns = p.checkpoint_shape.back();
  if (p.checkpoint_shape.size() == 2) {
    rows = p.checkpoint_shape[p.transposed ? 1 : 0];
    columns = p.checkpoint_shape[p.transposed ? 0 : 1];
  }
  std::vector<float>& whole = weights[p.name];
  whole.resize(static_cast<size_t>(rows * columns));
  for (int64_t r = 0; r < p.rows - padding_rows(p); ++r)
    for (int64_t c = 0; c < p.columns; ++c)
      whole[static_cast<size_t>((p.first_row + r) * columns + p.first_column + c)] =
          values[static_cast<size_t>(r * p.columns + c)];
}

}  // namespace

TrainingRun train(const Job& job, int64_t steps) {
  TrainingRun run;
  run.ranks.resize(static_cast<size_t>(job.plan.world()));
  std::mutex mutex;
  test_ranks::run(job.plan.world(), [&](Device& device, Communicator& ranks) {
    World world(ranks, Grid(job.plan));
    SyntheticBatches batches(job.model.vocab, job.seed);
    Trainer trainer(device, world, job, batches);
    for (int64_t step = 0; step < steps; ++step) {
      device.meter().restart();
      world.meter().reset();
      const StepResult result = trainer.step();
      if (ranks.rank() > 0) continue;
      run.losses.push_back(result.loss);
      run.norms.push_back(result.gradient_norm);
    }
    RankRecord& record = run.ranks[static_cast<size_t>(ranks.rank())];
    record = {world.coordinate(Axis::pipeline), device.meter(), world.meter().traffic()};
    trainer.storage().visit_weights(false, [&](ParameterUnit& unit) {
      if (world.coordinate(Axis::data) > 0) return;
      for (const Parameter* p : unit.parameters) {
        if (!p->owned) continue;
        // Waiting for the device may mean waiting for other ranks: not under the lock.
        const std::vector<float> values = values_of(device, p->weight);
        const std::scoped_lock lock(mutex);
        collect(*p, values, run.weights);
      }
    });
  });
  return run;
}

Job test_job(const ModelSpec& model, const ParallelPlan& plan) {
  Job job;
  job.model = model;
  job.plan = plan;
  job.workload.seq = 16;
  job.workload.gbs = plan.gbs;
  job.workload.precision = Precision::f32;
  job.workload.attention = AttentionKind::flash;
  job.optimizer.learning_rate = 1e-2;
  job.optimizer.minimum_rate = 1e-3;
  job.optimizer.epsilon = 1e-4;
  job.optimizer.clip_norm = 0.5;
  job.steps = 3;
  return job;
}

std::vector<ParallelPlan> plan_lattice() {
  const Recompute modes[] = {
      {}, {Recompute::Mode::selective, 0}, {Recompute::Mode::full, 0}, {Recompute::Mode::full, 1}};
  std::vector<ParallelPlan> plans;
  for (const int tp : {1, 2, 4})
    for (const int pp : {1, 2, 4})
      for (const int dp : {1, 2})
        for (const int vpp : {1, 2})
          for (const bool sp : {false, true})
            for (const int zero : {0, 1, 2, 3})
              for (const Recompute& recompute : modes) {
                ParallelPlan plan;
                plan.tp = tp;
                plan.pp = pp;
                plan.dp = dp;
                plan.vpp = vpp;
                plan.sp = sp;
                plan.zero = zero;
                plan.recompute = recompute;
                plan.gbs = 8;
                const bool legal = plan.world() <= 8 && (vpp == 1 || pp > 1) && vpp * pp <= 4 &&
                                   (!sp || tp > 1) && (zero < 2 || pp == 1);
                // A sum of the axes' places takes each value with each value of every other axis.
                const int place =
                    (sp ? 1 : 0) + zero + static_cast<int>(recompute.mode) + recompute.layers;
                if (legal && (place % 2 == 0 || plan.world() <= 2)) plans.push_back(plan);
              }
  const auto share = static_cast<size_t>(test_ranks::lattice_share());
  std::vector<ParallelPlan> shared;
  for (size_t i = share / 2; i < plans.size(); i += share) shared.push_back(plans[i]);
  return shared;
}

}  // namespace engine
