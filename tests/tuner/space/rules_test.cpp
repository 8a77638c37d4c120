// Rules: each has a case with its code, its message, and a way out that works.
#include "tuner/space/rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <charconv>
#include <set>

#include "engine/base/errors.h"
#include "tests/support/scenarios.h"
#include "tests/tuner/space/rule_cases.h"
#include "tuner/space/codes.h"
#include "tuner/space/search_space.h"

namespace tuner {
namespace {

using engine::ParallelPlan;
using engine::Precision;
using engine::Recompute;
using engine::Violation;
using test_support::codes_of;
using test_support::Request;
using test_support::scenario_for;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A plan under its scenario and the framework's options: what a suggestion may change.
struct Setting {
  Scenario scenario;
  ParallelPlan plan;
  FrameworkOptions options;
};

std::vector<int> numbers_in(const std::string& text) {
  std::vector<int> numbers;
  for (const char* at = text.data(); at < text.data() + text.size();) {
    int value = 0;
    const auto [end, error] = std::from_chars(at, text.data() + text.size(), value);
    if (error == std::errc{}) numbers.push_back(value);
    at = error == std::errc{} ? end : at + 1;
  }
  return numbers;
}

// Does what a suggestion says, as its reader would.
void follow(const std::string& suggestion, Setting& s) {
  const auto starts = [&](const char* word) { return suggestion.starts_with(word); };
  const std::vector<int> numbers = numbers_in(suggestion);
  ParallelPlan& plan = s.plan;
  if (starts("drop --distribute")) return void(s.options.distribute_saved_activations = false);
  if (starts("drop --offload")) return void(s.options.offload_activations = false);
  if (starts("sp off")) return void(plan.sp = false);
  if (starts("sp on")) return void(plan.sp = true);
  if (starts("recompute"))
    return void(plan.recompute = engine::parse_recompute(suggestion.substr(10)));
  if (starts("layers per stage")) return void(plan.layers_per_stage = numbers);
  for (size_t i = 0; i < engine::kPrecisionNames.size(); ++i)
    if (suggestion == engine::kPrecisionNames[i])
      return void(s.scenario.workload.precision = static_cast<Precision>(i));
  if (starts("flash")) return void(s.scenario.workload.attention = engine::AttentionKind::flash);
  if (starts("unfused"))
    return void(s.scenario.workload.attention = engine::AttentionKind::unfused);
  ASSERT_EQ(numbers.size(), 1U) << "a suggestion that nobody can follow: " << suggestion;
  const int value = numbers[0];
  if (suggestion.ends_with("GPUs"))
    s.scenario.cluster.gpus = value;
  else if (suggestion.ends_with("layers on every stage"))
    plan.layers_per_stage.clear();
  else if (starts("seq "))
    s.scenario.workload.seq = value;
  else if (starts("tp "))
    plan.tp = value;
  else if (starts("pp "))
    plan.pp = value, plan.layers_per_stage.clear();
  else if (starts("vpp "))
    plan.vpp = value;
  else if (starts("dp "))
    plan.dp = value;
  else if (starts("cp "))
    plan.cp = value;
  else if (starts("ep "))
    plan.ep = value;
  else if (starts("mbs "))
    plan.mbs = value;
  else if (starts("gbs "))
    plan.gbs = value;
  else if (starts("zero "))
    plan.zero = value;
  else
    FAIL() << "a suggestion that nobody can follow: " << suggestion;
}

std::vector<Violation> problems_of(const Setting& s) {
  std::vector<Violation> all = scenario_violations(s.scenario);
  for (Violation& one : violations(s.scenario, s.plan, s.options)) all.push_back(std::move(one));
  return all;
}

Setting setting_of(const RuleCase& one) {
  Request request = one.request;
  if (request.model == "width") request.model = "gpt3-1.3b";
  Setting s{scenario_for(request), one.plan, one.options};
  if (one.request.model == "width") s.scenario.model.ffn_hidden = 4100;
  return s;
}

TEST(Rules, EachHasItsCodeItsMessageAndAWayOut) {
  for (const RuleCase& one : kCases) {
    const Setting setting = setting_of(one);
    const std::vector<Violation> found = problems_of(setting);
    const auto violation = std::ranges::find(found, one.code, &Violation::code);
    ASSERT_NE(violation, found.end()) << one.code << " " << describe(one.plan);
    EXPECT_THAT(violation->message, HasSubstr(one.message)) << one.code;
    EXPECT_THAT(violation->nearest, testing::Not(IsEmpty())) << one.code << " " << one.message;
    for (const std::string& suggestion : violation->nearest) {
      Setting mended = setting;
      follow(suggestion, mended);
      EXPECT_THAT(codes_of(problems_of(mended)), testing::Not(Contains(one.code)))
          << suggestion << " for " << violation->message;
    }
  }
}

TEST(Rules, ExpertsOfAMixture) {
  Setting s{
      scenario_for({.model = "mixtral-8x7b", .gpu = kH100, .gpus = 32, .stack = kCore}), {}, {}};
  s.plan = {.dp = 4, .tp = 8, .ep = 3, .gbs = 1536};
  EXPECT_THAT(codes_of(problems_of(s)), ElementsAre("AT0301", "AT0132", "AT0134", "AT0133"));
  s.plan.ep = 4;
  s.plan.sp = true;
  EXPECT_THAT(codes_of(problems_of(s)), ElementsAre("AT0301"));
}

TEST(Rules, WhatTrainingDoesNotCover) {
  const auto reasons = [](const char* name) { return not_trained(find_model(name)); };
  EXPECT_THAT(reasons("llama-3.1-8b"), ElementsAre());
  EXPECT_THAT(reasons("mixtral-8x7b"), ElementsAre("mixture of experts"));
  EXPECT_THAT(reasons("deepseek-v3"),
              ElementsAre("multi-head latent attention", "mixture of experts"));
  EXPECT_THAT(reasons("opt-350m"),
              ElementsAre("embeddings narrower than the hidden size", "norms behind each branch"));
}

TEST(Rules, EveryCodeIsDocumentedOnceAndInOrder) {
  std::set<std::string> documented;
  std::string before;
  for (const RuleDocument& rule : rule_documents()) {
    EXPECT_LT(before, std::string(rule.code));
    before = rule.code;
    documented.insert(before);
    EXPECT_FALSE(rule.title.empty() || rule.why.empty() || rule.fix.empty()) << rule.code;
  }
  std::set<std::string> tested = {"AT0133", "AT0134", "AT0151", "AT0152",
                                  "AT0153", "AT0201", "AT0301"};
  for (const RuleCase& one : kCases) tested.insert(one.code);
  EXPECT_EQ(tested, documented);
}

TEST(Rules, AllViolationsAtOnce) {
  const Scenario s = scenario_for({.gpus = 64, .gbs = 10});
  const ParallelPlan plan{.dp = 3,
                          .tp = 7,
                          .pp = 5,
                          .vpp = 2,
                          .cp = 2,
                          .ep = 2,
                          .sp = true,
                          .zero = 3,
                          .mbs = 3,
                          .gbs = 10};
  EXPECT_THAT(codes_of(violations(s, plan, {.distribute_saved_activations = true})),
              ElementsAre("AT0101", "AT0102", "AT0103", "AT0107", "AT0122", "AT0106", "AT0104",
                          "AT0112", "AT0127", "AT0132", "AT0140"));
  // A stack without tensor parallelism has no SP either: both are told.
  const Scenario fsdp = scenario_for({.gpus = 8, .stack = "pytorch-fsdp", .gbs = 8});
  EXPECT_THAT(codes_of(violations(fsdp, {.tp = 8, .sp = true, .gbs = 8})),
              ElementsAre("AT0120", "AT0123"));
  // Too few stages to interleave, and micro-batches in no groups.
  const Scenario old = scenario_for({.gpus = 16, .gbs = 3});
  EXPECT_THAT(codes_of(violations(old, {.tp = 8, .pp = 2, .vpp = 2, .gbs = 3})),
              ElementsAre("AT0109", "AT0110"));
}

// No number of a plan is too large for a clear answer.
TEST(Rules, AbsurdDegrees) {
  const Scenario s = scenario_for({.gpus = 1'000'000, .stack = kCore, .gbs = 1'000'000'000});
  constexpr int kMost = 1'000'000;
  const ParallelPlan plan{.dp = kMost,
                          .tp = kMost,
                          .pp = kMost,
                          .vpp = kMost,
                          .cp = kMost,
                          .sp = true,
                          .zero = 3,
                          .mbs = 1'000'000'000,
                          .gbs = 1'000'000'000,
                          .recompute = {Recompute::Mode::full, 2'000'000'000}};
  const std::vector<Violation> found = violations(s, normalized(s, plan));
  EXPECT_THAT(codes_of(found), testing::IsSupersetOf({"AT0101", "AT0102", "AT0112"}));
  for (const Violation& violation : found)
    EXPECT_THAT(violation.message, testing::Not(testing::ContainsRegex("-[0-9]")))
        << violation.message;
}

// [16] The vocabulary is padded, so that every tp divides it.
TEST(Rules, VocabulariesArePadded) {
  Scenario s = scenario_for({});
  for (const auto& [multiple, tp, padded] : {std::tuple{128, 1, 50304},
                                             {128, 8, 51200},
                                             {128, 16, 51200},
                                             {1, 1, 50257},
                                             {1, 8, 50264}}) {
    s.stack.vocab_multiple = multiple;
    EXPECT_EQ(s.vocab(tp), padded) << multiple << " " << tp;
  }
}

}  // namespace
}  // namespace tuner
