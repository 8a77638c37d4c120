// Rules of serving plans: what the nearest values are worth, and which formats device and stack
// run.
#include "tuner/space/serve_rules.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "tuner/model/presets.h"

namespace tuner {
namespace {

using engine::Violation;
using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;

ServeScenario scenario_of(const std::string& model, const std::string& gpu, int gpus,
                          const std::string& stack) {
  ServeScenario s;
  s.model = find_model(model);
  s.cluster = find_cluster(gpu, gpus);
  s.stack = find_serve_stack(stack);
  return s;
}

std::set<std::string> codes_of(const std::vector<Violation>& violations) {
  std::set<std::string> codes;
  for (const Violation& violation : violations) codes.insert(violation.code);
  return codes;
}

// "tp 4 and ep 2"
ServePlan follow(const std::string& suggestion, ServePlan plan) {
  std::istringstream words(suggestion);
  std::string name, separator;
  int value = 0;
  do {
    words >> name >> value;
    if (name == "tp") plan.tp = value;
    if (name == "ep") plan.ep = value;
    if (name == "pp") plan.pp = value;
    if (name == "replicas") plan.replicas = value;
  } while (words >> separator);
  return plan;
}

TEST(ServeRules, TheNearestValuesAreLegal) {
  int followed = 0;
  for (const char* model : {"llama-3.1-70b", "mixtral-8x7b", "gpt-oss-120b", "qwen3-235b-a22b"})
    for (const char* stack : {"vllm", "deepspeed-mii"})
      for (const int gpus : {6, 8, 24}) {
        ServeScenario s = scenario_of(model, "b200-180gb", gpus, stack);
        s.stack.lacks.clear();
        for (const int tp : {1, 2, 3, 5, 6, 8, 12, 64, 96})
          for (const int ep : {1, 2, 3, 8})
            for (const int pp : {1, 2, 5, 100})
              for (const int replicas : {1, 2, 9}) {
                const ServePlan plan{.tp = tp, .ep = ep, .pp = pp, .replicas = replicas};
                const std::vector<Violation> before = serve_violations(s, plan);
                for (const Violation& broken : before) {
                  EXPECT_THAT(broken.nearest, Not(IsEmpty())) << describe(plan) << broken.message;
                  for (const std::string& suggestion : broken.nearest) {
                    ++followed;
                    const auto after = codes_of(serve_violations(s, follow(suggestion, plan)));
                    const std::string place =
                        fmt::format("{} on {} under {}, {}: {} {}", model, gpus, stack,
                                    describe(plan), broken.message, suggestion);
                    ASSERT_THAT(after, Not(Contains(broken.code))) << place;
                    for (const std::string& code : after)
                      ASSERT_THAT(codes_of(before), Contains(code)) << place;
                  }
                }
              }
      }
  EXPECT_GT(followed, 1000);
}

TEST(ServeRules, ANearestTpBringsItsEp) {
  const ServeScenario s = scenario_of("mixtral-8x7b", "a100-80gb", 6, "tensorrt-llm");
  const auto found = serve_violations(s, {.tp = 6, .ep = 3});
  EXPECT_EQ(codes_of(found), (std::set<std::string>{"AT0102", "AT0103", "AT0153"}));
  for (const Violation& one : found) EXPECT_THAT(one.nearest, ElementsAre("tp 4 and ep 2"));
}

TEST(ServeRules, AbsurdDegrees) {
  const ServeScenario s = scenario_of("llama-3.1-8b", "a100-80gb", 8, "vllm");
  constexpr int kMany = 1'000'000;
  EXPECT_THAT(codes_of(serve_violations(s, {.tp = kMany, .pp = kMany, .replicas = kMany})),
              Contains("AT0101"));
}

struct FormatRow {
  const char* gpu;
  const char* stack;
  ServeFormat weights;
  const char* code;  // "" = legal
};

TEST(ServeRules, WeightsNeedArithmeticOrKernelsThatWidenThem) {
  using Format = ServeFormat;
  const FormatRow rows[] = {
      {"h100-80gb", "tensorrt-llm", Format::fp8, ""},
      {"a100-80gb", "tensorrt-llm", Format::fp8, "AT0129"},
      {"a100-80gb", "vllm", Format::fp8, ""},
      {"a100-80gb", "sglang", Format::fp8, ""},
      {"v100-32gb", "vllm", Format::fp8, "AT0129"},
      {"v100-32gb", "vllm", Format::bf16, "AT0129"},
      {"v100-32gb", "vllm", Format::fp16, ""},
      {"v100-32gb", "tensorrt-llm", Format::int8, ""},
      {"a100-80gb", "tensorrt-llm", Format::int4, ""},
      {"b200-180gb", "tensorrt-llm", Format::fp4, ""},
      {"h100-80gb", "tensorrt-llm", Format::fp4, "AT0129"},
      {"h100-80gb", "tensorrt-llm", Format::mxfp4, ""},
      {"a100-80gb", "tensorrt-llm", Format::mxfp4, "AT0129"},
      {"a100-80gb", "vllm", Format::mxfp4, ""},
      {"h100-80gb", "vllm", Format::fp4, ""},
      {"h100-80gb", "fastertransformer", Format::fp8, "AT0130"},
  };
  for (const FormatRow& row : rows) {
    const ServeScenario s = scenario_of("llama-3.1-8b", row.gpu, 1, row.stack);
    const auto found = serve_format_violations(s, {row.weights}, {});
    const std::string place = fmt::format("{} {} {}", row.gpu, row.stack, name_of(row.weights));
    ASSERT_EQ(found.empty(), row.code[0] == '\0') << place;
    if (found.empty()) continue;
    EXPECT_EQ(found.front().code, row.code) << place;
    // What is named instead is legal.
    std::vector<std::string> legal;
    for (const ServeFormat format : legal_weights(s)) {
      legal.emplace_back(name_of(format));
      EXPECT_TRUE(serve_format_violations(s, {format}, {}).empty()) << place;
    }
    EXPECT_EQ(found.front().nearest, legal) << place;
  }
}

TEST(ServeRules, TheKvCacheKeepsTheBitsOfTheModel) {
  const ServeScenario s = scenario_of("llama-3.1-8b", "h100-80gb", 1, "tensorrt-llm");
  for (const ServeFormat weights : {ServeFormat::bf16, ServeFormat::fp8, ServeFormat::int4})
    EXPECT_EQ(checkpoint_kv(s, weights), ServeFormat::bf16) << name_of(weights);
  ServeScenario narrow = s;
  narrow.model.kv_format = "fp8";
  EXPECT_EQ(checkpoint_kv(narrow, ServeFormat::bf16), ServeFormat::fp8);
  const ServeScenario old = scenario_of("llama-3.1-8b", "v100-32gb", 1, "vllm");
  EXPECT_EQ(checkpoint_kv(old, checkpoint_weights(old)), ServeFormat::fp16);
  EXPECT_EQ(codes_of(serve_format_violations(old, {}, {ServeFormat::bf16})),
            std::set<std::string>{"AT0129"});
}

}  // namespace
}  // namespace tuner
