// Text and JSON of plans.
#include "engine/plan/parallel_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/base/json_reader.h"
#include "engine/plan/partition.h"

namespace engine {

std::string to_string(const Recompute& recompute) {
  switch (recompute.mode) {
    case Recompute::Mode::none:
      return "none";
    case Recompute::Mode::selective:
      return "selective";
    case Recompute::Mode::full:
      break;
  }
  return recompute.layers == 0 ? "full" : fmt::format("full:{}", recompute.layers);
}

Recompute parse_recompute(std::string_view text) {
  if (text == "none") return {};
  if (text == "selective") return {Recompute::Mode::selective, 0};
  if (text == "full") return {Recompute::Mode::full, 0};
  if (text.starts_with("full:")) {
    const std::string_view digits = text.substr(5);
    int layers = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), layers);
    if (error == std::errc{} && end == digits.data() + digits.size() && layers >= 1)
      return {Recompute::Mode::full, layers};
  }
  throw InputError(
      fmt::format("recompute '{}' is not understood; write none, selective, full, or full:N for N "
                  "≥ 1 layers of "
                  "every stage chunk",
                  text.substr(0, 64)));
}

std::string describe(const ParallelPlan& plan) {
  std::string text;
  auto axis = [&](std::string_view name, int size) {
    if (size > 1) text += fmt::format("{} {}  ", name, size);
  };
  axis("TP", plan.tp);
  axis("PP", plan.pp);
  axis("VPP", plan.vpp);
  axis("CP", plan.cp);
  axis("EP", plan.ep);
  text += fmt::format("DP {}  ", plan.dp);
  if (plan.sp) text += "SP  ";
  text +=
      fmt::format("MBS {}  recompute {}  ZeRO {}", plan.mbs, to_string(plan.recompute), plan.zero);
  return text;
}

Json plan_to_json(const ParallelPlan& plan, int64_t model_layers) {
  return {{"dp", plan.dp},     {"tp", plan.tp},
          {"pp", plan.pp},     {"vpp", plan.vpp},
          {"cp", plan.cp},     {"ep", plan.ep},
          {"sp", plan.sp},     {"mbs", plan.mbs},
          {"gbs", plan.gbs},   {"recompute", to_string(plan.recompute)},
          {"zero", plan.zero}, {"layers_per_stage", layers_per_stage(plan, model_layers)}};
}

ParallelPlan plan_from_json(const Json& json, const std::string& source) {
  constexpr int64_t kMostRanks = 1 << 24;
  Problems problems(source);
  ObjectReader reader(json, "", problems);
  ParallelPlan plan;
  auto degree = [&](const char* key) {
    return static_cast<int>(reader.integer(key, {1, kMostRanks}, 1));
  };
  plan.dp = degree("dp");
  plan.tp = degree("tp");
  plan.pp = degree("pp");
  plan.vpp = degree("vpp");
  plan.cp = degree("cp");
  plan.ep = degree("ep");
  plan.sp = reader.flag("sp", false);
  plan.zero = static_cast<int>(reader.integer("zero", {0, 3}, 0));
  plan.mbs = reader.integer("mbs", {1, int64_t{1} << 32});
  plan.gbs = reader.integer("gbs", {1, int64_t{1} << 32});
  try {
    plan.recompute = parse_recompute(reader.text("recompute", "none"));
  } catch (const InputError& error) {
    reader.problem("recompute", error.what());
  }
  for (const int64_t layers : reader.integers("layers_per_stage", {0, 1 << 20}))
    plan.layers_per_stage.push_back(static_cast<int>(layers));
  reader.finish();
  problems.throw_if_any();
  // Equal shares are written in full and read back as what they are, unless their chunks differ.
  const auto& shares = plan.layers_per_stage;
  if (!shares.empty() && std::equal(shares.begin() + 1, shares.end(), shares.begin()) &&
      static_cast<int>(shares.size()) == plan.pp && shares.front() % plan.vpp == 0)
    plan.layers_per_stage.clear();
  return plan;
}

}  // namespace engine
