// The rates of serving on a machine are found again from batches that it would have taken.
#include "tuner/validate/host_serve_fit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tuner/model/presets.h"

namespace tuner {
namespace {

TEST(HostServeFit, FindsTheRatesOfAMadeUpMachine) {
  const ClusterSpec general = find_cluster("cpu", 1);
  ClusterSpec machine = general;
  machine.device.serve_rates = {{"gemm_efficiency", 0.3},      {"gemm_bandwidth_share", 1.6},
                                {"elementwise_passes", 40},    {"layer_seconds", 6e-5},
                                {"step_seconds", 2e-4},        {"sequence_seconds", 1e-5},
                                {"reduce_extra_seconds", 9e-5}};
  std::vector<HostServeRow> rows = host_serve_rows(find_model("gpt3-tiny"));
  double before = 0;
  for (HostServeRow& row : rows) {
    const ServePrediction truth = predict_serving(host_serve_scenario(machine, row), row.plan);
    row.ttft_seconds = truth.ttft_seconds;
    row.tpot_seconds = truth.tpot_seconds;
    const ServePrediction rough = predict_serving(host_serve_scenario(general, row), row.plan);
    before += std::abs(std::log(rough.tpot_seconds / row.tpot_seconds));
  }
  EXPECT_GT(before / static_cast<double>(rows.size()), 0.3) << "it differs from the general one";
  const HostServeFit fit = fit_host_serving(general, rows);
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_NEAR(fit.predicted[i].ttft_seconds / rows[i].ttft_seconds, 1, 0.1) << i;
    EXPECT_NEAR(fit.predicted[i].tpot_seconds / rows[i].tpot_seconds, 1, 0.1) << i;
    EXPECT_NEAR(fit.left_out[i].tpot_seconds / rows[i].tpot_seconds, 1, 0.25) << i;
  }
  EXPECT_LT(fit.rates.at("latency_sigma"), 0.15);

  // A machine with these rates predicts as the fit does, and says so in its profile.
  ClusterSpec calibrated = general;
  calibrated.device.serve_rates = fit.rates;
  calibrated = cluster_from_json(cluster_to_json(calibrated), "a profile");
  EXPECT_EQ(calibrated.device.serve_rates, fit.rates);
  const ServeScenario scenario = host_serve_scenario(calibrated, rows[3]);
  EXPECT_EQ(predict_serving(scenario, rows[3].plan).tpot_seconds, fit.predicted[3].tpot_seconds);
  EXPECT_EQ(scenario.rates_of(ServeFormat::f32).latency_sigma, fit.rates.at("latency_sigma"));
}

}  // namespace
}  // namespace tuner
