// Sentences about plans.
#include "tuner/search/explain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "engine/base/units.h"
#include "tuner/model/memory_model.h"

namespace tuner {

using engine::format_bytes;
using engine::format_seconds;
using engine::ParallelPlan;
using engine::Recompute;

namespace {

double part_seconds(const engine::Outcome& outcome, StepPart part) {
  for (const auto& [name, seconds] : outcome.breakdown_seconds)
    if (name == name_of(part)) return seconds;
  return 0;
}

// The part of the step in which `slow` loses most against `fast`.
std::pair<StepPart, double> largest_loss(const engine::Outcome& fast, const engine::Outcome& slow) {
  std::pair<StepPart, double> largest{StepPart::gemm, 0};
  for (int i = 0; i < kStepParts; ++i) {
    const auto part = static_cast<StepPart>(i);
    const double loss = part_seconds(slow, part) - part_seconds(fast, part);
    if (loss > largest.second) largest = {part, loss};
  }
  return largest;
}

// "no SP: +6.1 % (1.2 s more elementwise)", or why it does not fit.
std::string compare(const Recommendation& r, std::string_view label, const ParallelPlan& plan) {
  const PlanAnswer other = predict_plan(r.scenario, plan);
  if (!other.predicted.violations.empty()) return {};
  const engine::Outcome best = predict_plan(r.scenario, r.best->plan).predicted;
  if (!other.predicted.fits)
    return fmt::format("{}: does not fit ({} at the fullest stage, of {})", label,
                       format_bytes(other.predicted.memory.peak_bytes),
                       format_bytes(other.predicted.memory.capacity_bytes));
  const double slower = other.predicted.step_seconds / best.step_seconds - 1;
  if (slower < 0.0005) return {};
  const auto [part, loss] = largest_loss(best, other.predicted);
  return fmt::format("{}: +{:.1f} % step time (most of it {}, +{})", label, 100 * slower,
                     plain_name(part), format_seconds(loss));
}

// The best plan of a search with one more restriction, as a reason.
std::string compare_best(const Recommendation& r, std::string_view label,
                         const Restrictions& restrictions) {
  const SearchResult found = search_plans(r.scenario, restrictions);
  if (!found.finalists.empty()) return compare(r, label, found.finalists.front().plan);
  return found.smallest ? compare(r, label, found.smallest->plan) : std::string{};
}

// Whether the states of the model alone, spread over all GPUs without a rest, could fit.
bool states_may_fit(const Scenario& scenario, int gpus) {
  const StateBytes& state = scenario.stack.state(scenario.workload.precision);
  const double bytes = static_cast<double>(engine::parameter_count(scenario.model)) *
                       (state.parameter + state.gradient + state.optimizer) / gpus;
  return MemoryModel(scenario).fits(bytes + scenario.runtime_bytes());
}

// The number of GPUs nearest to the scenario's for which a plan fits, with the fastest one.
std::optional<std::pair<int, ParallelPlan>> nearest_gpus(const Scenario& scenario,
                                                         const Restrictions& restrictions) {
  constexpr int64_t kMostPlans = 20'000'000;  // a few seconds
  const int gpus = scenario.cluster.gpus;
  std::vector<int> counts = SearchSpace(scenario, restrictions).usable_gpu_counts();
  std::stable_sort(counts.begin(), counts.end(),
                   [&](int a, int b) { return std::abs(a - gpus) < std::abs(b - gpus); });
  Scenario other = scenario;
  int64_t plans = 0;
  for (const int count : counts) {
    if (count == gpus || !states_may_fit(scenario, count)) continue;
    other.cluster.gpus = count;
    const SearchResult found = search_plans(other, restrictions);
    if (found.fits > 0) return std::pair{count, found.finalists.front().plan};
    if ((plans += found.counts.candidates) > kMostPlans) break;
  }
  return std::nullopt;
}

}  // namespace

std::string_view plain_name(StepPart part) {
  switch (part) {
    case StepPart::gemm:
      return "matrix products";
    case StepPart::attention:
      return "attention";
    case StepPart::elementwise:
      return "memory-bound kernels";
    case StepPart::launch:
      return "waiting for the host";
    case StepPart::tensor_communication:
      return "tensor-parallel communication";
    case StepPart::context_communication:
      return "context-parallel communication";
    case StepPart::recompute:
      return "recomputation";
    case StepPart::embedding_and_head:
      return "the embedding and head stages";
    case StepPart::pipeline_communication:
      return "messages between pipeline stages";
    case StepPart::micro_batch_overhead:
      return "fixed time of micro-batches";
    case StepPart::bubble:
      return "the pipeline bubble";
    case StepPart::data_communication:
      return "gradient reduction";
    case StepPart::optimizer:
      return "the optimizer";
    case StepPart::step_overhead:
      return "fixed time of a step";
    case StepPart::stragglers:
      return "waiting for stragglers";
  }
  return "";
}

std::string difference(const ParallelPlan& plan, const ParallelPlan& other) {
  std::vector<std::string> parts;
  auto number = [&](std::string_view name, int64_t a, int64_t b) {
    if (a != b) parts.push_back(fmt::format("{} {} instead of {}", name, b, a));
  };
  number("tp", plan.tp, other.tp);
  number("pp", plan.pp, other.pp);
  number("vpp", plan.vpp, other.vpp);
  number("cp", plan.cp, other.cp);
  number("dp", plan.dp, other.dp);
  if (plan.sp != other.sp) parts.push_back(other.sp ? "sp on" : "sp off");
  number("mbs", plan.mbs, other.mbs);
  if (plan.recompute != other.recompute)
    parts.push_back(fmt::format("recompute {} instead of {}", to_string(other.recompute),
                                to_string(plan.recompute)));
  number("zero", plan.zero, other.zero);
  if (plan.layers_per_stage != other.layers_per_stage)
    parts.push_back(
        other.layers_per_stage.empty()
            ? std::string("the same number of layers on every stage")
            : fmt::format("layers per stage {}", fmt::join(other.layers_per_stage, " ")));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::vector<std::string> reasons(const Recommendation& r) {
  const ParallelPlan& best = r.best->plan;
  std::vector<std::string> sentences;
  auto add = [&](std::string sentence) {
    if (!sentence.empty()) sentences.push_back(std::move(sentence));
  };
  auto with = [&](auto change) {
    ParallelPlan plan = best;
    change(plan);
    return plan;
  };
  if (best.recompute.mode != Recompute::Mode::full)
    add(compare(r, "with full recomputation", with([](ParallelPlan& p) {
                  p.recompute = {Recompute::Mode::full, 0};
                })));
  if (best.recompute.mode != Recompute::Mode::none)
    add(compare(r, "without recomputation", with([](ParallelPlan& p) { p.recompute = {}; })));
  if (best.sp) add(compare(r, "without SP", with([](ParallelPlan& p) { p.sp = false; })));
  if (best.vpp > 1)
    add(compare(r, "without interleaving", with([](ParallelPlan& p) { p.vpp = 1; })));

  for (const int tp : {best.tp / 2, best.tp * 2}) {
    Restrictions only = r.restrictions;
    only.tp = {tp};
    const auto& allowed = r.restrictions.tp;
    if (tp >= 1 &&
        (allowed.empty() || std::find(allowed.begin(), allowed.end(), tp) != allowed.end()))
      add(compare_best(r, fmt::format("best with tp {}", tp), only));
  }
  return sentences;
}

std::vector<std::string> remedies(const Scenario& scenario, const Restrictions& restrictions,
                                  const SearchResult& search) {
  std::vector<std::string> sentences;
  if (search.smallest)
    sentences.push_back(fmt::format(
        "the smallest plan needs {} (with the margin {}) of the {} that a GPU has: {}",
        format_bytes(search.smallest->peak_bytes),
        format_bytes(search.smallest->peak_bytes * (1 + scenario.stack.memory_error)),
        format_bytes(scenario.cluster.device.memory_bytes), describe(search.smallest->plan)));
  if (restrictions != Restrictions{}) {
    const SearchResult free = search_plans(scenario, {});
    if (!free.finalists.empty())
      sentences.push_back(
          fmt::format("without the restrictions on the plan this fits: {} ({} a step)",
                      describe(free.finalists.front().plan),
                      format_seconds(free.finalists.front().step_seconds)));
  }
  if (const auto near = nearest_gpus(scenario, restrictions))
    sentences.push_back(fmt::format("the nearest number of GPUs that works is {}: {}",
                                    engine::format_grouped(near->first), describe(near->second)));
  return sentences;
}

}  // namespace tuner
