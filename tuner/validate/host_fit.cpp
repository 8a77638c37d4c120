// Fits the rates of this machine.
#include "tuner/validate/host_fit.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "tuner/model/cost_model.h"
#include "tuner/model/rates.h"
#include "tuner/validate/least_squares.h"

namespace tuner {

using engine::ParallelPlan;

namespace {

constexpr int kParameters = 11;
using Logs = std::array<double, kParameters>;  // of factors on the start
// How long a sleeping rank takes to wake differs most between machines.
constexpr Logs kPriorSigma = {1, 1, 1, 1, 1, 1, 2, 1, 2, 2, 1};
constexpr double kNoise = 0.05;
constexpr double kLeastSigma = 0.03;
constexpr int kIterations = 25;

// What the parameters scale; of the machine itself, or the constant of the cost model that is
// named.
enum Parameter : uint8_t { kArithmetic, kMemory, kReductions, kGathers };
const std::string kScaledRates[kParameters] = {{},
                                               {},
                                               {},
                                               {},
                                               "flash_efficiency",
                                               "launch_seconds",
                                               "tensor_start_seconds",
                                               "tensor_start_sharded_factor",
                                               "shard_start_seconds",
                                               "pipeline_message_seconds",
                                               "micro_batch_seconds"};

ClusterSpec scaled(const ClusterSpec& start, const Rates& rates, const Logs& logs) {
  ClusterSpec cluster = start;
  for (double& peak : cluster.device.peak_flops) peak *= std::exp(logs[kArithmetic]);
  cluster.device.memory_bytes_per_second *= std::exp(logs[kMemory]);
  Interconnect& links = cluster.interconnect;
  for (auto& [ranks, rate] : links.all_reduce.by_ranks) rate *= std::exp(logs[kReductions]);
  for (auto& [ranks, rate] : links.shard.by_ranks) rate *= std::exp(logs[kGathers]);
  links.p2p_bytes_per_second *= std::exp(logs[kGathers]);
  const std::pair<const char*, double> known[] = {
      {"flash_efficiency", rates.flash_efficiency},
      {"launch_seconds", rates.launch_seconds},
      {"tensor_start_seconds", rates.tensor_start_seconds},
      {"tensor_start_sharded_factor", rates.tensor_start_sharded_factor},
      {"shard_start_seconds", rates.shard_start_seconds},
      {"pipeline_message_seconds", rates.pipeline_message_seconds},
      {"micro_batch_seconds", rates.micro_batch_seconds}};
  for (size_t i = 0; i < kParameters; ++i)
    for (const auto& [constant, value] : known)
      // A start of zero would never move.
      if (kScaledRates[i] == constant)
        cluster.device.rates[constant] = std::max(value, 1e-6) * std::exp(logs[i]);
  return cluster;
}

double predict(const ClusterSpec& cluster, const Stack& stack, const HostRow& row) {
  const Scenario scenario = host_scenario(cluster, stack, row);
  const CostModel model(scenario);
  return model.simulated_step(model.micro_batch_cost(row.plan), row.plan).total();
}

class Fit {
 public:
  Fit(const ClusterSpec& start, const Stack& stack, std::vector<const HostRow*> rows)
      : start_(start), stack_(stack), rows_(std::move(rows)) {
    start_.device.rates.clear();
    rates_ = table().resolve(start_, stack_, rows_.front()->workload.precision);
  }

  ClusterSpec run() {
    Logs logs{};
    double damping = 1e-3, error = objective(logs);
    for (int i = 0; i < kIterations; ++i) {
      const Logs step = this->step(logs, damping);
      Logs tried = logs;
      for (size_t p = 0; p < kParameters; ++p) tried[p] += std::clamp(step[p], -1.0, 1.0);
      const double better = objective(tried);
      if (better < error) {
        logs = tried;
        error = better;
        damping = std::max(1e-6, damping / 4);
      } else {
        damping *= 8;
      }
    }
    return scaled(start_, rates_, logs);
  }

  static const RatesTable& table() {
    static const RatesTable kTable = RatesTable::load();
    return kTable;
  }

 private:
  std::vector<double> errors(const Logs& logs) const {
    const ClusterSpec cluster = scaled(start_, rates_, logs);
    std::vector<double> result;
    for (const HostRow* row : rows_)
      result.push_back(std::log(predict(cluster, stack_, *row) / row->measured));
    return result;
  }

  // Beyond three times the noise an error counts by its size, no longer by its square.
  static double weight(double error) {
    const double soft = 3 * kNoise;
    return 1 / (kNoise * kNoise * std::sqrt(1 + error * error / (soft * soft)));
  }

  double objective(const Logs& logs) const {
    const double soft = 3 * kNoise;
    double sum = 0;
    for (const double error : errors(logs))
      sum +=
          2 * soft * soft * (std::sqrt(1 + error * error / (soft * soft)) - 1) / (kNoise * kNoise);
    for (size_t p = 0; p < kParameters; ++p)
      sum += logs[p] * logs[p] / (kPriorSigma[p] * kPriorSigma[p]);
    return sum;
  }

  Logs step(const Logs& logs, double damping) const {
    constexpr double kDelta = 1e-4;
    const std::vector<double> here = errors(logs);
    std::array<std::vector<double>, kParameters> there;
    for (size_t p = 0; p < kParameters; ++p) {
      Logs moved = logs;
      moved[p] += kDelta;
      there[p] = errors(moved);
    }
    NormalEquations equations(kParameters);
    for (size_t i = 0; i < here.size(); ++i) {
      std::vector<std::pair<size_t, double>> slopes;
      for (size_t p = 0; p < kParameters; ++p)
        slopes.emplace_back(p, (there[p][i] - here[i]) / kDelta);
      equations.add(slopes, here[i], weight(here[i]));
    }
    for (size_t p = 0; p < kParameters; ++p)
      equations.add({{p, 1.0}}, logs[p], 1 / (kPriorSigma[p] * kPriorSigma[p]));
    const std::vector<double> solution = equations.solve(damping);
    Logs result;
    std::copy(solution.begin(), solution.end(), result.begin());
    return result;
  }

  ClusterSpec start_;
  const Stack& stack_;
  std::vector<const HostRow*> rows_;
  Rates rates_;
};

HostRow row_of(const engine::ModelSpec& model, int64_t seq, ParallelPlan plan) {
  HostRow row;
  row.model = model;
  row.plan = plan;
  row.workload.seq = seq;
  row.workload.gbs = plan.gbs;
  row.workload.precision = engine::Precision::f32;
  row.workload.attention = engine::AttentionKind::flash;
  return row;
}

}  // namespace

Scenario host_scenario(const ClusterSpec& cluster, const Stack& stack, const HostRow& row) {
  Scenario scenario;
  scenario.model = row.model;
  scenario.cluster = cluster;
  scenario.cluster.gpus = row.plan.world();
  scenario.stack = stack;
  scenario.workload = row.workload;
  scenario.rates = Fit::table().resolve(scenario.cluster, stack, row.workload.precision);
  return scenario;
}

engine::ModelSpec wider_model(const engine::ModelSpec& small) {
  engine::ModelSpec wide = small;
  wide.hidden = 2 * small.hidden;
  wide.head_dim = 2 * small.head_dim;
  wide.ffn_hidden = 2 * small.ffn_hidden;
  wide.layers = small.layers / 2;
  return wide;
}

std::vector<HostRow> host_rows(const engine::ModelSpec& small) {
  const engine::ModelSpec wide = wider_model(small);
  const engine::Recompute full{engine::Recompute::Mode::full, 0};
  const int64_t seq = small.positions;
  return {row_of(small, seq, {.dp = 2, .mbs = 4, .gbs = 8}),
          row_of(small, seq, {.dp = 2, .mbs = 1, .gbs = 16}),
          row_of(small, seq / 4, {.dp = 2, .mbs = 1, .gbs = 32}),
          row_of(small, seq, {.dp = 2, .mbs = 4, .gbs = 8, .recompute = full}),
          row_of(small, seq, {.dp = 2, .zero = 3, .mbs = 1, .gbs = 8}),
          row_of(small, seq / 2, {.dp = 2, .zero = 3, .mbs = 1, .gbs = 8, .recompute = full}),
          row_of(small, seq / 2, {.dp = 2, .zero = 2, .mbs = 1, .gbs = 8}),
          row_of(small, seq, {.tp = 2, .mbs = 4, .gbs = 8}),
          row_of(small, seq / 2, {.tp = 2, .mbs = 1, .gbs = 8}),
          row_of(small, seq / 2, {.tp = 2, .mbs = 1, .gbs = 8, .recompute = full}),
          row_of(small, seq, {.tp = 2, .sp = true, .mbs = 4, .gbs = 8}),
          row_of(small, seq / 2, {.tp = 2, .sp = true, .mbs = 1, .gbs = 8}),
          row_of(small, seq / 2, {.tp = 2, .sp = true, .mbs = 1, .gbs = 8, .recompute = full}),
          row_of(small, seq, {.pp = 2, .mbs = 1, .gbs = 8}),
          row_of(small, seq / 4, {.pp = 2, .vpp = 2, .mbs = 1, .gbs = 16}),
          row_of(wide, seq, {.dp = 2, .mbs = 4, .gbs = 8}),
          row_of(wide, seq, {.tp = 2, .mbs = 4, .gbs = 4}),
          row_of(wide, seq / 2, {.tp = 2, .sp = true, .mbs = 2, .gbs = 8}),
          row_of(wide, seq / 2, {.dp = 2, .zero = 3, .mbs = 2, .gbs = 8}),
          row_of(small, seq, {.tp = 4, .mbs = 4, .gbs = 8}),
          row_of(small, seq / 2, {.tp = 4, .mbs = 1, .gbs = 4}),
          row_of(small, seq / 2, {.tp = 4, .sp = true, .mbs = 2, .gbs = 8}),
          row_of(small, seq, {.dp = 4, .zero = 1, .mbs = 2, .gbs = 8}),
          row_of(small, seq, {.dp = 2, .tp = 2, .sp = true, .mbs = 2, .gbs = 8}),
          row_of(small, seq / 2, {.tp = 2, .pp = 2, .mbs = 1, .gbs = 8}),
          row_of(small, seq / 2, {.dp = 2, .pp = 2, .mbs = 1, .gbs = 8}),
          row_of(small, seq, {.pp = 4, .mbs = 1, .gbs = 8}),
          row_of(wide, seq, {.dp = 4, .zero = 3, .mbs = 1, .gbs = 8}),
          row_of(small, seq / 2, {.dp = 4, .zero = 3, .mbs = 1, .gbs = 8, .recompute = full})};
}

std::vector<HostRow> gpu_rows(const engine::ModelSpec& wide, int gpus) {
  const auto model_of = [&](int64_t hidden, int64_t layers) {
    engine::ModelSpec model = wide;
    model.hidden = hidden;
    model.heads = model.kv_heads = hidden / 128;
    model.head_dim = 128;
    model.ffn_hidden = 4 * hidden;
    model.layers = layers;
    return model;
  };
  const engine::ModelSpec narrow = model_of(1024, 8), middle = model_of(2048, 8),
                          large = model_of(4096, 4);
  const engine::Recompute full{engine::Recompute::Mode::full, 0};
  std::vector<HostRow> rows = {row_of(narrow, 1024, {.mbs = 8, .gbs = 16}),
                               row_of(narrow, 256, {.mbs = 1, .gbs = 16}),
                               row_of(middle, 2048, {.mbs = 2, .gbs = 4}),
                               row_of(middle, 2048, {.mbs = 4, .gbs = 4}),
                               row_of(middle, 512, {.mbs = 4, .gbs = 16}),
                               row_of(middle, 2048, {.mbs = 2, .gbs = 4, .recompute = full}),
                               row_of(large, 2048, {.mbs = 1, .gbs = 2}),
                               row_of(large, 2048, {.mbs = 2, .gbs = 4})};
  if (gpus >= 2) {
    rows.push_back(row_of(middle, 2048, {.dp = 2, .mbs = 2, .gbs = 4}));
    rows.push_back(row_of(middle, 2048, {.dp = 2, .zero = 3, .mbs = 2, .gbs = 4}));
    rows.push_back(row_of(large, 2048, {.tp = 2, .mbs = 2, .gbs = 4}));
    rows.push_back(row_of(large, 2048, {.tp = 2, .sp = true, .mbs = 2, .gbs = 4}));
    rows.push_back(row_of(middle, 2048, {.pp = 2, .mbs = 1, .gbs = 8}));
  }
  for (HostRow& row : rows) row.workload.precision = engine::Precision::bf16;
  return rows;
}

HostFit fit_host(const ClusterSpec& start, const Stack& stack, const std::vector<HostRow>& rows) {
  std::vector<const HostRow*> all;
  for (const HostRow& row : rows) all.push_back(&row);
  HostFit fit;
  fit.cluster = Fit(start, stack, all).run();
  double squares = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    fit.predicted.push_back(predict(fit.cluster, stack, rows[i]));
    std::vector<const HostRow*> others = all;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    fit.left_out.push_back(predict(Fit(start, stack, others).run(), stack, rows[i]));
    squares += std::pow(std::log(fit.left_out[i] / rows[i].measured), 2);
  }
  fit.sigma = std::max(kLeastSigma, std::sqrt(squares / static_cast<double>(rows.size())));
  fit.cluster.device.rates["residual_sigma"] = fit.sigma;
  return fit;
}

}  // namespace tuner
