// Sentences about serving plans.
#include "tuner/search/serve_explain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

namespace tuner {

namespace {

std::string memory_share_sentence(const ServeScenario& s) {
  const ServeStack& stack = s.stack;
  if (s.runs_whole_batch() && stack.share_of != ShareOf::all)
    return "this release holds a static batch without a pool of KV cache: no memory stays free";
  const std::string option =
      stack.share_option.empty() ? "" : fmt::format(" ({})", stack.share_option);
  const double percent = 100 * stack.memory_share;
  switch (stack.share_of) {
    case ShareOf::all:
      return fmt::format("{} takes {:.3g} % of a GPU's memory{}; --memory-share says otherwise",
                         stack.name, percent, option);
    case ShareOf::all_static:
      return fmt::format(
          "weights and KV cache of {} take {:.3g} % of a GPU's memory{}; --memory-share says "
          "otherwise",
          stack.name, percent, option);
    case ShareOf::free:
      return fmt::format(
          "the KV cache of {} takes {:.3g} % of what the weights leave of a GPU's "
          "memory{}; --memory-share says otherwise",
          stack.name, percent, option);
  }
  return "";
}

}  // namespace

std::vector<std::string> serve_assumptions(const ServeScenario& s,
                                           const std::vector<ServeFormat>& weights) {
  std::vector<std::string> list;
  const ServeWorkload& work = s.workload;
  switch (work.arrival) {
    case Arrival::isolated:
      list.emplace_back("one request alone: no waiting, no other sequence in the batch");
      break;
    case Arrival::static_batch:
      list.emplace_back(
          "a static batch: all sequences start together and end together; TTFT is the "
          "prefill of the whole batch");
      break;
    case Arrival::closed_loop:
      list.push_back(fmt::format(
          "a closed loop of {:g} clients that send {:g} requests each, the first ones all at once; "
          "simulated iteration by iteration; times are means of the requests, from sending",
          work.concurrency, work.waves));
      break;
    case Arrival::poisson:
      list.push_back(
          fmt::format("independent requests, {:g} a second (Poisson), 2,000 of them "
                      "simulated iteration by iteration; times are means after the "
                      "first 400",
                      work.requests_per_second));
      break;
    case Arrival::saturated:
      list.emplace_back("a queue that never empties");
      break;
  }
  if (work.arrival == Arrival::closed_loop || work.arrival == Arrival::poisson)
    list.push_back(fmt::format("output lengths spread by ±{:.0f} % around their mean",
                               100 * work.length_spread));
  list.emplace_back("TPOT is (latency − TTFT) / (output − 1); tokens are generated ones");
  list.push_back(fmt::format("release {} of {}", s.stack.current().name, s.stack.name));
  for (const ServeFormat format : weights) {
    const engine::Precision product = product_precision(format, s.cluster.device);
    const bool narrow = product == engine::Precision::fp8 || product == engine::Precision::nvfp4;
    if (bytes_of(format) < 2 && !narrow)
      list.push_back(fmt::format("{} is the format of the weights only: products run in {}",
                                 name_of(format), engine::name_of(product)));
  }
  list.push_back(memory_share_sentence(s));
  if (s.model.sliding_window > 0)
    list.emplace_back("sliding windows shorten attention; their KV cache is counted whole");
  list.emplace_back(
      "all prompts are equally long; prefix caching, speculative decoding and "
      "splitting prefill from decode are not modelled");
  return list;
}

std::string_view plain_name(ServePart part) {
  switch (part) {
    case ServePart::weights:
      return "reading the weights";
    case ServePart::kv:
      return "reading the KV cache";
    case ServePart::compute:
      return "arithmetic";
    case ServePart::communication:
      return "communication between GPUs";
    case ServePart::overhead:
      return "fixed times of layers, steps and sequences";
  }
  return "";
}

std::string trade_phrase(double throughput, double latency, bool measured) {
  const auto change = [](double ratio, std::string_view of) {
    if (std::abs(ratio) < 0.005) return fmt::format("the same {}", of);
    return fmt::format("{:+.0f} % {}", 100 * ratio, of);
  };
  return change(throughput, "throughput") + ", " + change(latency, "latency") +
         (measured ? ", measured" : "");
}

std::string difference(const ServePlan& plan, const ServePlan& other) {
  std::vector<std::string> parts;
  const auto number = [&](std::string_view name, int64_t a, int64_t b) {
    if (a != b) parts.push_back(fmt::format("{} {} instead of {}", name, b, a));
  };
  const auto format = [&](std::string_view name, ServeFormat a, ServeFormat b) {
    if (a != b) parts.push_back(fmt::format("{} {} instead of {}", name_of(b), name, name_of(a)));
  };
  number("tp", plan.tp, other.tp);
  number("ep", plan.ep, other.ep);
  number("pp", plan.pp, other.pp);
  number("replicas", plan.replicas, other.replicas);
  number("batch", plan.batch, other.batch);
  format("weights", plan.weights, other.weights);
  format("KV", plan.kv, other.kv);
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace tuner
