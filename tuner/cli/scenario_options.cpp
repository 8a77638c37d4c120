// Options of a scenario and of plans, and what they mean together.
#include "tuner/cli/scenario_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/base/errors.h"
#include "engine/base/units.h"
#include "tuner/model/presets.h"
#include "tuner/space/rules.h"

namespace tuner {

using engine::AttentionKind;
using engine::ParallelPlan;
using engine::Precision;

namespace {

constexpr double kMostGpus = 1'000'000;
constexpr double kLongestSequence = 100'000'000;
constexpr double kLargestBatch = 1'000'000'000;
constexpr double kDefaultTokens = 300e9;
constexpr int64_t kTokensPerStep = int64_t{1} << 22;  // where a model names no batch of its own
constexpr int64_t kDefaultSeq = 4096;

std::vector<std::string> with_auto(const auto& names) {
  std::vector<std::string> choices = {"auto"};
  for (const std::string_view name : names) choices.emplace_back(name);
  return choices;
}

std::string wrong_recompute(const std::string& text) {
  try {
    engine::parse_recompute(text);
    return {};
  } catch (const engine::InputError&) {
    return "is not understood; write none, selective, full or full:N";
  }
}

Option degree(const std::string& name, const std::string& help, ValueKind kind,
              double high = kMostGpus) {
  return {.name = name, .kind = kind, .placeholder = "N", .help = help, .low = 1, .high = high};
}

// The plan's options: as lists (`kind` integers and texts) they restrict, one by one they set.
std::vector<Option> options_of_plan(bool list) {
  const ValueKind integer = list ? ValueKind::integers : ValueKind::integer;
  const ValueKind text = list ? ValueKind::texts : ValueKind::text;
  Option zero = degree(
      "--zero", "Sharding over dp: 0 none, 1 optimizer, 2 + gradients, 3 + parameters", integer);
  zero.low = 0;
  zero.high = 3;
  return {
      degree("--tp", "Tensor-parallel ranks", integer),
      degree("--pp", "Pipeline stages", integer),
      degree("--vpp", "Model chunks on a pipeline rank (interleaving)", integer),
      degree("--dp", "Data-parallel replicas", integer),
      degree("--cp", "Context-parallel ranks", integer),
      {.name = "--sp", .kind = ValueKind::negatable, .help = "Megatron sequence parallelism"},
      degree("--mbs", "Micro-batch, sequences", integer, kLargestBatch),
      {.name = "--recompute",
       .kind = text,
       .placeholder = "MODE",
       .help = "Recomputed activations: none, selective, full, or full:N layers of a stage chunk",
       .check = wrong_recompute},
      std::move(zero),
      degree("--layers-per-stage", "Layers of every pipeline stage, as in 7,8,8,7",
             ValueKind::integers)};
}

bool newer_than_ampere(const DeviceSpec& device) {
  return device.architecture != "volta" && device.architecture != "ampere";
}

std::string default_stack(const DeviceSpec& device) {
  if (device.is_cpu()) return "autotune";
  return newer_than_ampere(device) ? "megatron-core" : "megatron-2022";
}

bool trains_in(const Scenario& scenario, Precision precision) {
  const auto& list = scenario.stack.precisions;
  return scenario.cluster.device.peak(precision) > 0 &&
         std::find(list.begin(), list.end(), precision) != list.end();
}

Precision default_precision(const Scenario& scenario) {
  if (scenario.cluster.device.is_cpu()) return Precision::f32;
  for (const Precision precision : {Precision::bf16, Precision::fp16})
    if (trains_in(scenario, precision)) return precision;
  return Precision::f32;
}

template <class Enum, class Names>
Enum enum_of(const std::string& text, const Names& names) {
  const auto found = std::find(names.begin(), names.end(), text);
  engine::expect(found != names.end(), "a choice of the option table");
  return static_cast<Enum>(found - names.begin());
}

constexpr std::array<std::string_view, 2> kAttentionNames = {"unfused", "flash"};

// The power of two nearest to 4 Mi tokens.
int64_t batch_for(int64_t seq) {
  const double sequences = static_cast<double>(kTokensPerStep) / static_cast<double>(seq);
  return std::max<int64_t>(1, int64_t{1} << std::max(0L, std::lround(std::log2(sequences))));
}

void set_workload(const Arguments& arguments, ScenarioAnswer& answer) {
  Scenario& s = answer.scenario;
  engine::Workload& work = s.workload;
  auto taken = [&](std::string text) { answer.defaults.push_back(std::move(text)); };

  if (const auto seq = arguments.integer("--seq")) {
    work.seq = *seq;
  } else {
    work.seq = s.model.default_seq > 0 ? s.model.default_seq
               : s.model.positions > 0 ? std::min(kDefaultSeq, s.model.positions)
                                       : kDefaultSeq;
    taken(fmt::format(
        "sequence {} ({})", work.seq,
        s.model.default_seq > 0 ? "the preset's" : "at most 4096, and the model's limit"));
  }
  if (const auto gbs = arguments.integer("--gbs")) {
    work.gbs = *gbs;
  } else {
    work.gbs = s.model.default_gbs > 0 ? s.model.default_gbs : batch_for(work.seq);
    taken(fmt::format("global batch {} ({})", work.gbs,
                      s.model.default_gbs > 0 ? "the preset's" : "about 4 M tokens a step"));
  }
  work.tokens = arguments.number("--tokens").value_or(kDefaultTokens);
  if (!arguments.has("--tokens")) taken("300 B tokens");

  const std::string precision = arguments.text("--precision").value_or("auto");
  work.precision = precision == "auto" ? default_precision(s)
                                       : enum_of<Precision>(precision, engine::kPrecisionNames);
  if (precision == "auto") taken(fmt::format("precision {}", name_of(work.precision)));
  const std::string attention = arguments.text("--attention").value_or("auto");
  work.attention = attention == "auto" ? s.stack.default_attention()
                                       : enum_of<AttentionKind>(attention, kAttentionNames);
  if (attention == "auto")
    taken(fmt::format("{} attention (the stack's)", name_of(work.attention)));
}

// What a plan shards when nobody says: nothing, or the least that the stack can.
int least_zero(const Stack& stack, int pp) {
  const std::vector<int>& legal = legal_zero(stack, pp);
  return legal.empty() ? 0 : *std::min_element(legal.begin(), legal.end());
}

template <class To>
std::vector<To> converted(const std::vector<int64_t>& values) {
  return {values.begin(), values.end()};
}

}  // namespace

std::vector<Option> machine_options(const std::string& gpus_help, const std::string& stack_help,
                                    const std::string& stack_default,
                                    std::vector<std::string> (*stacks)()) {
  return {{.name = "--model",
           .kind = ValueKind::text,
           .placeholder = "MODEL",
           .help = "A preset, a size such as 175b, or the path of a Hugging Face config.json",
           .required = true,
           .suggest = model_names},
          {.name = "--gpus",
           .kind = ValueKind::integer,
           .placeholder = "N",
           .help = gpus_help,
           .low = 1,
           .high = kMostGpus,
           .required = true},
          {.name = "--gpu",
           .kind = ValueKind::text,
           .placeholder = "GPU",
           .help = "A GPU, a system, or a profile of your own (FILE.json)",
           .default_text = "a100-80gb",
           .suggest = cluster_names},
          {.name = "--stack",
           .kind = ValueKind::text,
           .placeholder = "NAME",
           .help = stack_help,
           .default_text = stack_default,
           .suggest = stacks},
          {.name = "--gpus-per-node",
           .kind = ValueKind::integer,
           .placeholder = "N",
           .help = "GPUs of a node",
           .default_text = "the system's",
           .low = 1,
           .high = 1024}};
}

std::vector<Option> scenario_options() {
  std::vector<Option> options =
      machine_options("Number of GPUs; all of them are used", "The training software",
                      "megatron-2022 up to Ampere, megatron-core later", stack_names);
  const std::vector<Option> workload = {
      {.name = "--seq",
       .kind = ValueKind::integer,
       .placeholder = "S",
       .help = "Tokens of a sequence",
       .default_text = "the preset's, else at most 4096",
       .low = 1,
       .high = kLongestSequence},
      {.name = "--gbs",
       .kind = ValueKind::integer,
       .placeholder = "B",
       .help = "Global batch, sequences a step",
       .default_text = "the preset's, else about 4 M tokens",
       .low = 1,
       .high = kLargestBatch},
      {.name = "--tokens",
       .kind = ValueKind::count,
       .placeholder = "T",
       .help = "Tokens of the whole training",
       .default_text = "300B",
       .low = 1,
       .high = 1e17},
      {.name = "--precision",
       .kind = ValueKind::text,
       .help = "Format of the matrix products",
       .default_text = "auto",
       .choices = with_auto(engine::kPrecisionNames)},
      {.name = "--attention",
       .kind = ValueKind::text,
       .help = "Attention kernel",
       .default_text = "auto: the stack's",
       .choices = with_auto(kAttentionNames)},
  };
  options.insert(options.end(), workload.begin(), workload.end());
  return options;
}

std::vector<Option> restriction_options() { return options_of_plan(true); }
std::vector<Option> plan_options() { return options_of_plan(false); }

ScenarioAnswer scenario_of(const Arguments& arguments, const std::optional<ClusterSpec>& cluster) {
  return scenario_of(arguments, arguments.text("--model").value(),
                     arguments.integer("--gpus").value(), cluster);
}

ScenarioAnswer scenario_of(const Arguments& arguments, const std::string& model, int64_t gpus,
                           const std::optional<ClusterSpec>& cluster) {
  ScenarioAnswer answer;
  Scenario& s = answer.scenario;
  std::vector<std::string> problems;
  auto attempt = [&](auto read) {
    try {
      read();
    } catch (const engine::InputError& error) {
      problems.insert(problems.end(), error.problems().begin(), error.problems().end());
    }
  };
  const std::string gpu = arguments.text("--gpu").value_or("a100-80gb");
  attempt([&] { s.model = find_model(model); });
  const bool given = cluster && !arguments.has("--gpu");
  attempt([&] {
    s.cluster =
        given ? *cluster
              : find_cluster(gpu, static_cast<int>(gpus),
                             static_cast<int>(arguments.integer("--gpus-per-node").value_or(0)));
  });
  attempt([&] {
    s.stack = find_stack(arguments.text("--stack").value_or(default_stack(s.cluster.device)));
  });
  if (!problems.empty()) throw engine::InputError(problems);

  if (given)
    answer.defaults.push_back("this machine as the cluster");
  else if (!arguments.has("--gpu"))
    answer.defaults.push_back(fmt::format("GPU {}", gpu));
  if (!arguments.has("--stack")) answer.defaults.push_back(fmt::format("stack {}", s.stack.name));
  set_workload(arguments, answer);
  s.rates = RatesTable::load().resolve(s.cluster, s.stack, s.workload.precision);
  return answer;
}

void refuse_impossible(const Scenario& scenario, const Restrictions& restrictions) {
  std::vector<std::string> problems;
  const std::vector<int>& shares = restrictions.layers_per_stage;
  const int64_t placed = std::accumulate(shares.begin(), shares.end(), int64_t{0});
  if (!shares.empty() && placed != scenario.model.layers)
    problems.push_back(fmt::format("--layers-per-stage {} places {} layers, but {} has {}",
                                   fmt::join(shares, ","), placed, scenario.model.name,
                                   scenario.model.layers));
  for (const engine::Violation& violation : scenario_violations(scenario))
    problems.push_back(violation.nearest.empty()
                           ? fmt::format("{} {}", violation.code, violation.message)
                           : fmt::format("{} {}; nearest: {}", violation.code, violation.message,
                                         fmt::join(violation.nearest, ", ")));
  if (!problems.empty()) throw engine::InputError(problems);
}

Restrictions restrictions_of(const Arguments& arguments) {
  Restrictions r;
  r.tp = converted<int>(arguments.integers("--tp"));
  r.pp = converted<int>(arguments.integers("--pp"));
  r.vpp = converted<int>(arguments.integers("--vpp"));
  r.dp = converted<int>(arguments.integers("--dp"));
  r.cp = converted<int>(arguments.integers("--cp"));
  r.zero = converted<int>(arguments.integers("--zero"));
  r.mbs = arguments.integers("--mbs");
  r.sp = arguments.toggle("--sp");
  for (const std::string& text : arguments.texts("--recompute"))
    r.recompute.push_back(engine::parse_recompute(text));
  r.layers_per_stage = converted<int>(arguments.integers("--layers-per-stage"));
  return r;
}

ParallelPlan plan_of(const Arguments& arguments, const Scenario& scenario) {
  auto degree = [&](const char* name, int64_t fallback = 1) {
    return static_cast<int>(arguments.integer(name).value_or(fallback));
  };
  ParallelPlan plan;
  plan.tp = degree("--tp");
  plan.pp = degree("--pp");
  plan.vpp = degree("--vpp");
  plan.cp = degree("--cp");
  plan.zero = degree("--zero", least_zero(scenario.stack, plan.pp));
  plan.mbs = arguments.integer("--mbs").value_or(1);
  plan.gbs = scenario.workload.gbs;
  plan.sp = arguments.toggle("--sp").value_or(false);
  if (const auto text = arguments.text("--recompute"))
    plan.recompute = engine::parse_recompute(*text);
  plan.layers_per_stage = converted<int>(arguments.integers("--layers-per-stage"));
  const int64_t model_parallel = int64_t{plan.tp} * plan.pp * plan.cp;
  plan.dp = degree("--dp", std::max<int64_t>(1, scenario.cluster.gpus / model_parallel));
  const bool sp = plan.sp;
  plan = normalized(scenario, plan);
  plan.sp = sp;  // told as a violation at tp 1
  return plan;
}

}  // namespace tuner
