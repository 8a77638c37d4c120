// Published serving runs: reading, errors within bounds on the project's own table, and the fit.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "engine/base/errors.h"
#include "tuner/validate/constants_fit.h"
#include "tuner/validate/serve_fit.h"
#include "tuner/validate/serve_validation.h"
#include "tuner/validate/statistics.h"

namespace tuner {
namespace {

constexpr auto kHeader =
    "id,source,gpu_key,stack_key,framework_version,n_gpus,tp,pp,model,params_b,layers,hidden,heads,"
    "kv_heads,head_dim,ffn,vocab,experts,weight_precision,kv_precision,batch,input_len,output_len,"
    "latency_ms,ttft_ms,tpot_ms,tokens_per_s_kind,tokens_per_s_per_gpu,batching,quality\n";
constexpr auto kShape = "LLaMA2 70B,70,80,8192,64,8,128,28672,32000,";

ServeRows read(const std::string& rows) {
  return read_serving_runs(CsvTable::parse(kHeader + rows, "test"), ServeRatesTable::load());
}

TEST(ServeRow, ReadsAStaticRun) {
  const ServeRows rows = read(std::string("a,s,h100-80gb,tensorrt-llm,TensorRT-LLM v0.8.0,4,4,1,") +
                              kShape + ",fp8,,64,128,2048,,,,output_only,500,static,A\n");
  ASSERT_EQ(rows.rows.size(), 1u);
  const ServeRow& row = rows.rows.front();
  EXPECT_EQ(row.scenario.stack.current().name, "0.8");
  EXPECT_TRUE(row.scenario.model.gated_mlp) << "told by the number of parameters";
  EXPECT_EQ(row.plan.kv, ServeFormat::fp8) << "the stack's for fp8 checkpoints";
  EXPECT_EQ(row.assumed, std::vector<std::string>{"kv_precision"});
  EXPECT_EQ(row.measured.front().first, ServeMetric::latency_seconds);
  EXPECT_DOUBLE_EQ(row.measured.front().second, 64 * 2048 / (500.0 * 4));
}

TEST(ServeRow, SkipsWhatIsNotCoveredWithItsReason) {
  const std::string row = ",fp16,fp16,1,128,8,100,,,,,static,A\n";
  const ServeRows rows =
      read(std::string("moe,s,h100-80gb,vllm,vllm,8,8,1,M,46,32,4096,32,8,128,14336,32000,8") +
           row + "gpu,s,abacus,vllm,vllm,8,8,1," + kShape + row +
           "tp,s,h100-80gb,vllm,vllm,4,8,1," + kShape + row);
  EXPECT_TRUE(rows.rows.empty());
  ASSERT_EQ(rows.skipped.size(), 3u);
  EXPECT_EQ(rows.skipped[0].reason, "topk is not stated");
  EXPECT_EQ(rows.skipped[1].reason, "no profile of the GPU 'abacus'");
  EXPECT_EQ(rows.skipped[2].reason, "4 GPUs, but tp · pp = 8");
}

TEST(ServeRow, AKnownMixtureHasItsShapeFromTheModelList) {
  const ServeRows rows = read_serving_runs(
      CsvTable::parse("id,source,gpu_key,stack_key,framework_version,n_gpus,tp,ep,model,layers,"
                      "hidden,heads,kv_heads,ffn,experts,topk,weight_precision,batch,input_len,"
                      "output_len,ttft_ms,tpot_ms,batching,quality\n"
                      "a,s,b200-180gb,vllm,vllm 0.17.0,4,4,4,Kimi-K2.5,61,7168,64,64,2048,384,8,"
                      "fp4,8,1024,1024,80,9,inflight,B\n"
                      "b,s,b200-180gb,sglang,sglang 0.5,4,4,1,Qwen3.5-397B-A17B,60,4096,32,2,1024,"
                      "512,10,fp8,8,1024,1024,80,9,inflight,B\n"
                      "c,s,h200-141gb,vllm,vllm 0.18.0,1,1,1,gpt-oss-120b,36,2880,64,8,2880,128,4,"
                      "fp4,8,1024,1024,80,9,inflight,B\n",
                      "test"),
      ServeRatesTable::load());
  ASSERT_EQ(rows.rows.size(), 2u);
  EXPECT_TRUE(rows.rows[0].scenario.model.has_latent_attention());
  EXPECT_EQ(rows.rows[0].plan.ep, 4);
  EXPECT_EQ(rows.rows[0].plan.weights, ServeFormat::fp4);
  EXPECT_EQ(rows.rows[1].plan.weights, ServeFormat::mxfp4) << "the checkpoint's kind of fp4";
  ASSERT_EQ(rows.skipped.size(), 1u);
  EXPECT_EQ(rows.skipped[0].reason, "linear attention in most layers");
}

TEST(ServeRow, TheNumberOfParametersTellsKvHeadsThatAreNotStated) {
  const ServeRows rows = read(
      "a,s,h100-80gb,vllm,vllm,1,1,1,DeciLM-7B,7.04,32,4096,32,,128,14336,32000,,fp16,fp16,1,"
      "128,8,100,,,,,static,A\n"
      "b,s,h100-80gb,vllm,vllm,1,1,1,LLaMA 7B,6.7,32,4096,32,,128,11008,32000,,fp16,fp16,1,"
      "128,8,100,,,,,static,A\n");
  ASSERT_EQ(rows.rows.size(), 2u);
  EXPECT_EQ(rows.rows[0].scenario.model.kv_heads, 2);
  EXPECT_EQ(rows.rows[1].scenario.model.kv_heads, 32);
}

TEST(ServeRow, ATableOfAnotherKindIsRefused) {
  EXPECT_THROW(
      read_serving_runs(CsvTable::parse("id,step_time_s\na,1\n", "test"), ServeRatesTable::load()),
      engine::InputError);
}

ServeRows own_table() {
  std::ifstream file(AUTOTUNE_SOURCE_DIR "/tests/data/published_infer.csv");
  std::stringstream text;
  text << file.rdbuf();
  return read_serving_runs(CsvTable::parse(text.str(), "published_infer.csv"),
                           ServeRatesTable::load());
}

TEST(ServeValidation, OwnTableWithinItsBounds) {
  const ServeValidation v = validate_serving(own_table());
  EXPECT_TRUE(v.read.skipped.empty());
  const auto kinds = summarize_by_kind(v.predicted);
  const std::map<std::string, double> bounds = {{"latency_seconds, static", 0.12},
                                                {"latency_seconds, closed_loop", 0.12},
                                                {"ttft_seconds, static", 0.12},
                                                {"tpot_seconds, closed_loop", 0.12},
                                                {"tokens_per_second_per_gpu, saturated", 0.14}};
  for (const auto& [kind, bound] : bounds) EXPECT_LT(kinds.at(kind).mape, bound) << kind;
  EXPECT_LT(kinds.at("ttft_seconds, closed_loop").median, 0.35);
  EXPECT_LT(kinds.at("tpot_seconds, closed_loop, experts").median, 0.15);
  const FitSummary fits = summarize_fits(v.predicted);
  EXPECT_EQ(fits.worked_called_impossible, 0);
  EXPECT_EQ(fits.out_of_memory_caught, fits.out_of_memory);
  EXPECT_LT(rank_serving(v.predicted).median_regret, 0.05);
}

// A fit of runs that a known constant made finds that constant.
TEST(ConstantsFit, FindsWhatMadeTheRuns) {
  static constexpr ConstantName kNames[] = {{"start"}, {"rate"}};
  ConstantTable table(nlohmann::json::parse(R"({"schema": "s", "constants": {
      "start": {"unit": "s", "sigma": 1, "values": {"default": 1}},
      "rate": {"unit": "s", "sigma": 1, "values": {"default": 1}, "factors": {"fast": 1}}}})"),
                      "test", "s", kNames);
  std::vector<FitRun> runs;
  for (const bool fast : {false, true})
    for (const double size : {1.0, 3.0, 10.0, 30.0}) {
      const double measured = 2 + size * (fast ? 0.25 : 0.5);
      std::vector<std::string> scopes = {"default"};
      if (fast) scopes.insert(scopes.begin(), "fast");
      runs.push_back({table.applicable(scopes), {1}, [=](std::span<const double> c) {
                        return std::vector{std::log((c[0] + size * c[1]) / measured)};
                      }});
    }
  std::vector<const FitRun*> chosen;
  for (const FitRun& run : runs) chosen.push_back(&run);
  fit_constants(table, chosen, {});
  const auto value = [&](std::vector<std::string> scopes, size_t at) {
    return table.resolved(table.applicable(scopes))[at];
  };
  EXPECT_NEAR(value({"default"}, 0), 2, 0.1);
  EXPECT_NEAR(value({"default"}, 1), 0.5, 0.03);
  EXPECT_NEAR(value({"fast", "default"}, 1), 0.25, 0.02);
}

TEST(Statistics, QuantilesAndRanks) {
  EXPECT_DOUBLE_EQ(median({3, 1, 2}), 2);
  EXPECT_DOUBLE_EQ(median({4, 1, 2, 3}), 2.5);
  EXPECT_DOUBLE_EQ(quantile({0, 10}, 0.9), 9);
  EXPECT_DOUBLE_EQ(spearman({1, 2, 3}, {10, 20, 30}), 1);
  EXPECT_DOUBLE_EQ(spearman({1, 2, 3}, {3, 2, 1}), -1);
}

}  // namespace
}  // namespace tuner
