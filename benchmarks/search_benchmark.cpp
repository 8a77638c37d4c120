// Speed of the search: legal plans a second on one core, over the whole legal space.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <string>

#include "tests/support/scenarios.h"
#include "tuner/search/search.h"

namespace {

using test_support::Request;

// Both models for every legal plan, ranking included. The label says what each rule removed, once.
void search(benchmark::State& state, const Request& request) {
  const tuner::Scenario scenario = test_support::scenario_for(request);
  tuner::SearchResult result;
  for (auto _ : state) {
    result = tuner::search_plans(scenario, {});
    benchmark::DoNotOptimize(result);
  }
  state.counters["candidates"] = static_cast<double>(result.counts.candidates);
  state.counters["legal"] = static_cast<double>(result.counts.legal);
  state.counters["fits"] = static_cast<double>(result.fits);
  state.counters["plans_per_second"] = benchmark::Counter(
      static_cast<double>(result.counts.legal), benchmark::Counter::kIsIterationInvariantRate);
  std::string removed;
  for (const auto& [code, count] : result.counts.rejected)
    removed += fmt::format("{} {}  ", code, count);
  state.SetLabel(removed);
}

// The generators alone.
void enumerate(benchmark::State& state, const Request& request) {
  const tuner::Scenario scenario = test_support::scenario_for(request);
  const tuner::SearchSpace space(scenario, {});
  int64_t plans = 0;
  for (auto _ : state) {
    space.for_each([](const engine::ParallelPlan&) {},
                   [&](const engine::ParallelPlan& plan) { plans += plan.tp > 0 ? 1 : 0; });
    benchmark::DoNotOptimize(plans);
  }
  state.counters["plans_per_second"] =
      benchmark::Counter(static_cast<double>(plans), benchmark::Counter::kIsRate);
}

const Request k175b2022{};
const Request k175bCore{.stack = "megatron-core"};
const Request k1t2022{.model = "gpt3-1t", .gpus = 131'072, .gbs = 16'384};
const Request k1tCore{.model = "gpt3-1t",
                      .gpu = "h100-80gb",
                      .gpus = 131'072,
                      .stack = "megatron-core",
                      .gbs = 16'384};

BENCHMARK_CAPTURE(search, 175b_1024_megatron_2022, k175b2022)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(search, 175b_1024_megatron_core, k175bCore)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(search, 1t_131072_megatron_2022, k1t2022)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(search, 1t_131072_megatron_core, k1tCore)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(enumerate, 175b_1024_megatron_2022, k175b2022)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(enumerate, 175b_1024_megatron_core, k175bCore)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
