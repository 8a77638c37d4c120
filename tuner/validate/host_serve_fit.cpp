// Fits the rates of serving on this machine.
#include "tuner/validate/host_serve_fit.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/base/json_reader.h"
#include "tuner/validate/constants_fit.h"
#include "tuner/validate/host_fit.h"

namespace tuner {
namespace {

using engine::Json;

constexpr double kLeastSigma = 0.03;
const FitOptions kFit = {.soft = 0.1, .most_iterations = 25};

// How far a constant may be from what is known of CPUs, by its logarithm. Small models live in
// caches, and how long a sleeping rank takes to wake differs most between machines.
struct Freedom {
  std::string_view name;
  double sigma;
};
constexpr Freedom kFitted[] = {{"gemm_efficiency", 1},       {"gemm_bandwidth_share", 1},
                               {"kv_bandwidth_share", 1},    {"prefill_efficiency", 1},
                               {"elementwise_passes", 1},    {"layer_seconds", 1.5},
                               {"prefill_layer_seconds", 1}, {"step_seconds", 1.5},
                               {"sequence_seconds", 1.5},    {"reduce_extra_seconds", 2}};

bool is_fitted(const std::string& name) {
  return std::any_of(std::begin(kFitted), std::end(kFitted),
                     [&](const Freedom& one) { return one.name == name; });
}

// One scope with the constants of the engine on a CPU, each as free as it may be.
ServeRatesTable prior_table(const ClusterSpec& cluster) {
  const ServeRatesTable table = ServeRatesTable::load();
  const std::vector<double> values = table.resolved(
      table.applicable(cluster, find_serve_stack("autotune"), ServeFormat::f32, false));
  const std::vector<std::string>& names = ServeRatesTable::constant_names();
  Json constants = Json::object();
  for (size_t i = 0; i < names.size(); ++i)
    constants[names[i]] = {{"sigma", 0}, {"values", {{"default", values[i]}}}};
  for (const Freedom& one : kFitted) constants[std::string(one.name)]["sigma"] = one.sigma;
  return ServeRatesTable::from_json(
      {{"schema", "autotune.serve_rates/1"}, {"constants", std::move(constants)}}, table.origin());
}

class Fit {
 public:
  Fit(const ClusterSpec& cluster, const std::vector<HostServeRow>& rows)
      : table_(prior_table(cluster)) {
    for (const HostServeRow& row : rows) {
      const ServeScenario scenario = host_serve_scenario(cluster, row);
      FitRun& run = runs_.emplace_back();
      run.applicable =
          table_.applicable(cluster, scenario.stack, row.plan.weights, !scenario.model.is_dense());
      run.weights = {1, 1};
      run.log_errors = [&row, scenario](std::span<const double> constants) {
        const ServePrediction p = predict(scenario, row, constants);
        return std::vector<double>{std::log(p.ttft_seconds / row.ttft_seconds),
                                   std::log(p.tpot_seconds / row.tpot_seconds)};
      };
      scenarios_.push_back(scenario);
    }
    for (const FitRun& run : runs_) all_.push_back(&run);
  }

  // In the order of the names.
  std::vector<double> constants() { return constants(all_); }

  std::vector<double> constants_without(size_t row) {
    std::vector<const FitRun*> others = all_;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(row));
    return constants(others);
  }

  ServePrediction predict(size_t index, const HostServeRow& row,
                          std::span<const double> constants) const {
    return predict(scenarios_[index], row, constants);
  }

 private:
  static ServePrediction predict(ServeScenario scenario, const HostServeRow& row,
                                 std::span<const double> constants) {
    scenario.rates[static_cast<size_t>(row.plan.weights)] = ServeRatesTable::rates_of(constants);
    return predict_serving(scenario, row.plan);
  }

  std::vector<double> constants(const std::vector<const FitRun*>& runs) {
    table_.reset_to_priors();
    fit_constants(table_, runs, kFit);
    return table_.resolved(runs.front()->applicable);
  }

  ServeRatesTable table_;
  std::vector<ServeScenario> scenarios_;
  std::vector<FitRun> runs_;
  std::vector<const FitRun*> all_;
};

HostServeRow row_of(const engine::ModelSpec& model, int64_t input, int64_t output, ServePlan plan) {
  plan.weights = plan.kv = ServeFormat::f32;
  return {model, plan, input, output};
}

}  // namespace

ServeScenario host_serve_scenario(const ClusterSpec& cluster, const HostServeRow& row) {
  ServeScenario scenario;
  scenario.model = row.model;
  scenario.cluster = cluster;
  scenario.cluster.gpus = row.plan.gpus();
  scenario.stack = find_serve_stack("autotune");
  scenario.workload.input = row.input;
  scenario.workload.output = row.output;
  use_rates(scenario, ServeRatesTable::load());
  return scenario;
}

std::vector<HostServeRow> host_serve_rows(const engine::ModelSpec& small) {
  const engine::ModelSpec wide = wider_model(small);
  const int64_t far = small.positions;
  return {row_of(small, far / 8, far / 4, {.batch = 1}),
          row_of(small, far / 2, far / 8, {.batch = 1}),
          row_of(small, far / 8, far / 4, {.batch = 4}),
          row_of(small, far / 8, far / 4, {.batch = 16}),
          row_of(small, far / 2, far / 8, {.batch = 8}),
          row_of(wide, far / 8, far / 4, {.batch = 1}),
          row_of(wide, far / 8, far / 4, {.batch = 8}),
          row_of(wide, far / 2, far / 8, {.batch = 4}),
          row_of(small, far / 8, far / 4, {.tp = 2, .batch = 1}),
          row_of(small, far / 8, far / 4, {.tp = 2, .batch = 8}),
          row_of(small, far / 2, far / 8, {.tp = 2, .batch = 4}),
          row_of(wide, far / 8, far / 4, {.tp = 2, .batch = 4}),
          row_of(small, far / 8, far / 4, {.pp = 2, .batch = 1}),
          row_of(small, far / 8, far / 4, {.pp = 2, .batch = 8}),
          row_of(wide, far / 2, far / 8, {.pp = 2, .batch = 4}),
          row_of(small, far / 8, far / 4, {.replicas = 2, .batch = 1}),
          row_of(small, far / 8, far / 4, {.replicas = 2, .batch = 8}),
          row_of(wide, far / 8, far / 4, {.replicas = 2, .batch = 4}),
          row_of(small, far / 2, far / 8, {.replicas = 2, .batch = 16})};
}

HostServeFit fit_host_serving(const ClusterSpec& cluster, const std::vector<HostServeRow>& rows) {
  Fit fit(cluster, rows);
  HostServeFit result;
  const std::vector<double> constants = fit.constants();
  const std::vector<std::string>& names = ServeRatesTable::constant_names();
  for (size_t i = 0; i < names.size(); ++i)
    if (is_fitted(names[i])) result.rates[names[i]] = constants[i];
  std::map<std::string, double> squares;
  for (size_t i = 0; i < rows.size(); ++i) {
    const HostServeRow& row = rows[i];
    result.predicted.push_back(fit.predict(i, row, constants));
    const ServePrediction unseen = fit.predict(i, row, fit.constants_without(i));
    result.left_out.push_back(unseen);
    const double latency =
        row.ttft_seconds + static_cast<double>(row.output - 1) * row.tpot_seconds;
    squares["ttft_sigma"] += std::pow(std::log(unseen.ttft_seconds / row.ttft_seconds), 2);
    squares["tpot_sigma"] += std::pow(std::log(unseen.tpot_seconds / row.tpot_seconds), 2);
    squares["latency_sigma"] += std::pow(std::log(unseen.latency_seconds / latency), 2);
  }
  for (const auto& [name, sum] : squares)
    result.rates[name] = std::max(kLeastSigma, std::sqrt(sum / static_cast<double>(rows.size())));
  return result;
}

}  // namespace tuner
