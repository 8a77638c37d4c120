// Options of serving and what they mean together.
#include "tuner/cli/serve_options.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/errors.h"
#include "tuner/cli/scenario_options.h"
#include "tuner/model/presets.h"
#include "tuner/space/serve_rules.h"

namespace tuner {

namespace {

constexpr double kMostGpus = 1'000'000;
constexpr double kLongest = 100'000'000;
constexpr double kMostRequests = 1'000'000;
constexpr int64_t kDefaultInput = 512, kDefaultOutput = 128;

std::vector<std::string> format_names() {
  return {kServeFormatNames.begin(), kServeFormatNames.end()};
}

ServeFormat format_of(const std::string& text) {
  const auto found = std::find(kServeFormatNames.begin(), kServeFormatNames.end(), text);
  engine::expect(found != kServeFormatNames.end(), "a choice of the option table");
  return static_cast<ServeFormat>(found - kServeFormatNames.begin());
}

Option number(const std::string& name, const std::string& help, const std::string& default_text,
              double high, ValueKind kind = ValueKind::integer) {
  return {.name = name,
          .kind = kind,
          .placeholder = "N",
          .help = help,
          .default_text = default_text,
          .low = 1,
          .high = high};
}

Option budget(const std::string& name, const std::string& help) {
  return {.name = name,
          .kind = ValueKind::seconds,
          .placeholder = "T",
          .help = help,
          .low = 1e-6,
          .high = 1e6};
}

Option positive(const std::string& name, const std::string& help, ValueKind kind) {
  return {.name = name, .kind = kind, .placeholder = "X", .help = help, .low = 1e-6, .high = 1e12};
}

std::vector<Option> options_of_plan(bool list) {
  const ValueKind integer = list ? ValueKind::integers : ValueKind::integer;
  const ValueKind text = list ? ValueKind::texts : ValueKind::text;
  return {
      number("--tp", "Tensor-parallel ranks of a replica", "", kMostGpus, integer),
      number("--ep", "Groups of the tp ranks that each hold whole experts", "", kMostGpus, integer),
      number("--pp", "Pipeline stages of a replica", "", kMostGpus, integer),
      number("--replicas", "Copies of the model that share the load", "", kMostGpus, integer),
      number("--batch", "Sequences a replica runs together, at most", "", kMostRequests, integer),
      {.name = "--weights",
       .kind = text,
       .help = "Format of the weights",
       .default_text = "the checkpoint's",
       .choices = format_names()},
      {.name = "--kv",
       .kind = text,
       .help = "Format of the KV cache",
       .default_text = "the checkpoint's",
       .choices = format_names()}};
}

// The system of the user's GPU, the model and the stack, with all problems at once.
void find_inputs(const Arguments& arguments, const std::optional<ClusterSpec>& host,
                 ServeQuestion& question) {
  ServeScenario& s = question.scenario;
  std::vector<std::string> problems;
  const auto attempt = [&](auto read) {
    try {
      read();
    } catch (const engine::InputError& error) {
      problems.insert(problems.end(), error.problems().begin(), error.problems().end());
    }
  };
  const std::string gpu = arguments.text("--gpu").value_or("a100-80gb");
  const std::string stack = arguments.text("--stack").value_or(host ? "autotune" : "tensorrt-llm");
  attempt([&] { s.model = find_model(arguments.text("--model").value()); });
  if (host) s.cluster = *host;
  attempt([&] {
    if (!host)
      s.cluster = find_cluster(gpu, static_cast<int>(arguments.integer("--gpus").value()),
                               static_cast<int>(arguments.integer("--gpus-per-node").value_or(0)));
  });
  attempt([&] { s.stack = find_serve_stack(stack); });
  if (arguments.has("--concurrency") && arguments.has("--rate"))
    problems.emplace_back(
        "--concurrency is a closed loop and --rate an open one; give one of them");
  if (!problems.empty()) throw engine::InputError(problems);
  if (!arguments.has("--gpu") && !host) question.defaults.push_back("GPU " + gpu);
  if (!arguments.has("--stack")) question.defaults.push_back("stack " + stack);
}

void set_workload(const Arguments& arguments, bool batch_is_one, ServeQuestion& question) {
  ServeWorkload& work = question.scenario.workload;
  work.input = arguments.integer("--input").value_or(kDefaultInput);
  work.output = arguments.integer("--output").value_or(kDefaultOutput);
  if (!arguments.has("--input")) question.defaults.push_back(fmt::format("input {}", work.input));
  if (!arguments.has("--output"))
    question.defaults.push_back(fmt::format("output {}", work.output));
  if (const auto clients = arguments.integer("--concurrency")) {
    work.arrival = Arrival::closed_loop;
    work.concurrency = static_cast<double>(*clients);
  } else if (const auto rate = arguments.number("--rate")) {
    work.arrival = Arrival::poisson;
    work.requests_per_second = *rate;
  } else {
    work.arrival = batch_is_one ? Arrival::isolated : Arrival::static_batch;
  }
}

// A percentile is of requests that differ, and what budgets are held against. A setting is a wish
// for where it applies.
void refuse_idle_percentile(const Arguments& arguments, const ServeQuestion& question) {
  if (!arguments.typed_only().has("--percentile")) return;
  const Arrival arrival = question.scenario.workload.arrival;
  if (arrival != Arrival::closed_loop && arrival != Arrival::poisson)
    throw engine::InputError(
        "--percentile is about the requests of a load, and those of a static batch are all alike; "
        "add --concurrency or --rate");
  const ServeBudgets& budgets = question.budgets;
  if (!budgets.latency_seconds && !budgets.ttft_seconds && !budgets.tpot_seconds)
    throw engine::InputError(
        "--percentile says what budgets are held against; add --latency-budget, --ttft or --tpot");
}

void tell_formats(const Arguments& arguments, ServeQuestion& question) {
  const ServeScenario& s = question.scenario;
  ServeFormat weights = checkpoint_weights(s);
  if (arguments.has("--weights"))
    weights = format_of(arguments.text("--weights").value());
  else
    question.defaults.push_back(
        fmt::format("{} weights ({})", name_of(weights),
                    s.model.weight_format.empty() ? "the device's" : "the checkpoint's"));
  if (!arguments.has("--kv"))
    question.defaults.push_back(
        fmt::format("{} KV cache ({})", name_of(checkpoint_kv(s, weights)),
                    s.model.kv_format.empty() ? "the 16 bits of the model" : "the checkpoint's"));
}

}  // namespace

std::vector<Option> serve_scenario_options() {
  std::vector<std::string> statistics(kStatisticNames.begin(), kStatisticNames.end());
  std::vector<Option> options = machine_options(
      "Number of GPUs, at most", "The serving software, or NAME@RELEASE for an older one",
      "tensorrt-llm", serve_stack_names);
  const std::vector<Option> workload = {
      number("--input", "Tokens of a prompt", "512", kLongest),
      number("--output", "Tokens generated for it", "128", kLongest),
      number("--concurrency", "Clients that each wait for their answer (closed loop)", "",
             kMostRequests),
      positive("--rate", "Requests a second that arrive independently (Poisson)",
               ValueKind::number),
      budget("--latency-budget", "Longest time from a request to its last token"),
      budget("--ttft", "Longest time to the first token"),
      budget("--tpot", "Longest time per further token"),
      {.name = "--percentile",
       .kind = ValueKind::text,
       .help = "Of the requests of a load, which the budgets are held against",
       .default_text = "mean",
       .choices = std::move(statistics)},
      {.name = "--memory-share",
       .kind = ValueKind::number,
       .placeholder = "X",
       .help = "Share of the memory that the stack may use, in the sense of its own option",
       .default_text = "the stack's",
       .low = 0.1,
       .high = 1},
      positive("--throughput-floor",
               "Generated tokens a second of all GPUs, at least; the lowest latency above it wins",
               ValueKind::count),
      positive("--gpu-hour-price", "Price of a GPU hour, for the cost of a million tokens",
               ValueKind::number)};
  options.insert(options.end(), workload.begin(), workload.end());
  return options;
}

std::vector<Option> serve_restriction_options() { return options_of_plan(true); }
std::vector<Option> serve_plan_options() { return options_of_plan(false); }

ServeQuestion serve_question_of(const Arguments& arguments, bool batch_is_one,
                                const std::optional<ClusterSpec>& host) {
  ServeQuestion question;
  find_inputs(arguments, host, question);
  set_workload(arguments, batch_is_one, question);
  if (const auto share = arguments.number("--memory-share"))
    question.scenario.stack.memory_share = *share;
  use_rates(question.scenario, ServeRatesTable::load());
  ServeBudgets& budgets = question.budgets;
  budgets.latency_seconds = arguments.number("--latency-budget");
  budgets.ttft_seconds = arguments.number("--ttft");
  budgets.tpot_seconds = arguments.number("--tpot");
  budgets.tokens_per_second = arguments.number("--throughput-floor");
  if (const auto text = arguments.text("--percentile"))
    budgets.statistic = static_cast<Statistic>(
        std::find(kStatisticNames.begin(), kStatisticNames.end(), *text) - kStatisticNames.begin());
  question.gpu_hour_price = arguments.number("--gpu-hour-price").value_or(0);
  refuse_idle_percentile(arguments, question);
  tell_formats(arguments, question);
  return question;
}

ServeRestrictions serve_restrictions_of(const Arguments& arguments) {
  ServeRestrictions only;
  const auto degrees = [&](const char* name) {
    const auto& list = arguments.integers(name);
    return std::vector<int>(list.begin(), list.end());
  };
  only.tp = degrees("--tp");
  only.ep = degrees("--ep");
  only.pp = degrees("--pp");
  only.replicas = degrees("--replicas");
  only.batch = arguments.integers("--batch");
  std::sort(only.batch.begin(), only.batch.end());
  for (const std::string& text : arguments.texts("--weights"))
    only.weights.push_back(format_of(text));
  for (const std::string& text : arguments.texts("--kv")) only.kv.push_back(format_of(text));
  return only;
}

ServePlan serve_plan_of(const Arguments& arguments, const ServeScenario& scenario) {
  const auto degree = [&](const char* name, int64_t fallback) {
    return static_cast<int>(arguments.integer(name).value_or(fallback));
  };
  ServePlan plan;
  plan.tp = degree("--tp", 1);
  plan.ep = degree("--ep", 1);
  plan.pp = degree("--pp", 1);
  plan.replicas = degree("--replicas", std::max(1, scenario.cluster.gpus / (plan.tp * plan.pp)));
  const ServeWorkload& work = scenario.workload;
  const bool alone = work.arrival == Arrival::static_batch || work.arrival == Arrival::isolated;
  plan.batch = arguments.integer("--batch").value_or(alone ? 1 : scenario.stack.sequences);
  const auto weights = arguments.text("--weights"), kv = arguments.text("--kv");
  plan.weights = weights ? format_of(*weights) : checkpoint_weights(scenario);
  plan.kv = kv ? format_of(*kv) : checkpoint_kv(scenario, plan.weights);
  return plan;
}

}  // namespace tuner
