// Export then import is the identity, over random legal plans of every format that can be read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/tuner/exchange/exchange_cases.h"
#include "tests/tuner/exchange/megatron_rules.h"
#include "tuner/exchange/import.h"
#include "tuner/space/rules.h"

namespace {

using engine::ParallelPlan;
using exchange_test::exported;
using exchange_test::random_plans;
using test_support::Request;
using test_support::scenario_for;
using tuner::Imported;

struct Format {
  std::string target;
  std::string file;
  // Drawn plans, and of these at least so many that the format expresses without a loss.
  size_t plans = 40;
  size_t least_exact = 40;
  bool slurm = false;
};

struct Case {
  Request request;
  Format format;
};

std::string named(const testing::TestParamInfo<Case>& info) {
  std::string name =
      info.param.format.target + "_" + info.param.request.model + "_" + std::to_string(info.index);
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return name;
}

nlohmann::json shape(engine::ModelSpec model) {
  model.name = model.origin = "";
  nlohmann::json json;
  to_json(json, model);
  return json;
}

class RoundTrip : public testing::TestWithParam<Case> {};

TEST_P(RoundTrip, ExportThenImportIsTheIdentity) {
  const auto& [request, format] = GetParam();
  const tuner::Scenario s = scenario_for(request);
  const auto plans = random_plans(s, format.plans);
  ASSERT_EQ(plans.size(), format.plans);
  size_t exact = 0;
  for (const ParallelPlan& plan : plans) {
    const tuner::Exported out = exported(s, plan, format.target, format.slurm);
    if (!out.losses.empty()) continue;
    ++exact;
    Imported in = tuner::import_text(out.text, format.file);
    const auto context = engine::describe(plan) + "\n" + out.text;
    ASSERT_EQ(in.gpus, request.gpus) << context;
    EXPECT_EQ(tuner::normalized(s, in.plan), plan)
        << engine::describe(in.plan) << "\ninstead of " << context;
    EXPECT_EQ(in.seq, s.workload.seq);
    EXPECT_EQ(in.precision, s.workload.precision) << context;
    EXPECT_EQ(in.attention, s.workload.attention) << context;
    EXPECT_TRUE(in.remarks.empty()) << in.remarks.front() << context;
    ASSERT_TRUE(in.model) << context;
    EXPECT_EQ(shape(*in.model), shape(s.model)) << context;
  }
  EXPECT_GE(exact, format.least_exact);
}

const Request k175b{.gpus = 1024, .stack = "megatron-core"};
const Request k175bOld{};
const Request k405b{.model = "llama-3.1-405b",
                    .gpu = "h100-80gb",
                    .gpus = 504,
                    .stack = "megatron-core",
                    .gbs = 252,
                    .seq = 8192};
const Request k70b{.model = "llama-3.1-70b",
                   .gpu = "h100-80gb",
                   .gpus = 64,
                   .stack = "megatron-core",
                   .gbs = 512,
                   .seq = 8192,
                   .precision = engine::Precision::fp8};
const Request k70bFsdp{.model = "llama-3.1-70b",
                       .gpu = "h100-80gb",
                       .gpus = 64,
                       .stack = "pytorch-fsdp2",
                       .gbs = 512,
                       .seq = 8192};
const Request k405bFsdp{.model = "llama-3.1-405b",
                        .gpu = "h100-80gb",
                        .gpus = 504,
                        .stack = "pytorch-fsdp2",
                        .gbs = 252,
                        .seq = 8192};
const Request kDeepSpeed{.gpus = 96, .stack = "megatron-deepspeed-2022", .gbs = 1536};
const Request kZero3{
    .model = "llama-2-7b", .gpus = 16, .stack = "deepspeed-zero3", .gbs = 64, .seq = 4096};
const Request kQwen{.model = "qwen2.5-7b",
                    .gpu = "h100-80gb",
                    .gpus = 28,
                    .stack = "megatron-core",
                    .gbs = 112,
                    .seq = 4096};

INSTANTIATE_TEST_SUITE_P(
    Formats, RoundTrip,
    testing::Values(Case{k175b, {"megatron-lm", "train.sh"}},
                    Case{k175b, {"megatron-lm", "train.sbatch", 20, 20, true}},
                    Case{k175bOld, {"megatron-lm", "train.sh"}},
                    Case{k405b, {"megatron-lm", "train.sh"}},
                    Case{k70b, {"megatron-lm", "train.sh"}},
                    Case{kQwen, {"megatron-lm", "train.sh"}},
                    Case{k175b, {"nemo1", "nemo1.yaml", 60, 10}},
                    Case{k175bOld, {"nemo1", "nemo1.yaml", 40, 20}},
                    Case{k70b, {"nemo1", "nemo1.yaml", 60, 10}},
                    Case{kDeepSpeed, {"deepspeed", "train.sh", 40, 20}},
                    Case{kDeepSpeed, {"deepspeed", "train.sbatch", 20, 10, true}},
                    Case{kZero3, {"deepspeed", "train.sh", 40, 30}},
                    Case{k70bFsdp, {"torchtitan-toml", "titan.toml", 60, 20}},
                    Case{k405bFsdp, {"torchtitan-toml", "titan.toml", 60, 10}}),
    named);

// The line that Megatron-LM gets, by a checker of its own.
class MegatronRules : public testing::TestWithParam<Request> {};

TEST_P(MegatronRules, EveryExportedLineKeepsThem) {
  const tuner::Scenario s = scenario_for(GetParam());
  for (const ParallelPlan& plan : random_plans(s, 150)) {
    const tuner::Exported out = exported(s, plan, "megatron-lm");
    EXPECT_THAT(megatron_rules::broken_rules(out.text), testing::IsEmpty())
        << engine::describe(plan) << "\n"
        << out.text;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, MegatronRules,
                         testing::Values(k175b, k175bOld, k405b, k70b, kQwen));

// The checker finds what it is there to find.
TEST(MegatronRulesChecker, FindsBrokenLines) {
  const std::string sound =
      "torchrun --nproc-per-node 8 --nnodes 2 \\\n pretrain_gpt.py --num-layers 12 --hidden-size "
      "64 "
      "--num-attention-heads 8 --seq-length 128 --max-position-embeddings 128 --vocab-size 100 "
      "--micro-batch-size 1 --global-batch-size 16 ";
  const std::string end = " \\\n  \"$@\"\n";
  const std::pair<std::string, int> cases[] = {
      {"--pipeline-model-parallel-size 3", 1},
      {"--tensor-model-parallel-size 16", 2},
      {"--group-query-attention --num-query-groups 3 --tensor-model-parallel-size 2", 3},
      {"--micro-batch-size 3", 4},
      {"--context-parallel-size 16 --seq-length 120", 5},
      {"--pipeline-model-parallel-size 8", 6},
      {"--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 4", 7},
      {"--num-virtual-stages-per-pipeline-rank 2", 7},
      {"--recompute-granularity full", 9},
      {"--recompute-granularity selective --recompute-method block", 9},
      {"--distribute-saved-activations", 10},
      {"--sequence-parallel", 11},
      {"--tp-comm-overlap", 12},
      {"--num-experts 8 --tensor-model-parallel-size 2", 13},
      {"--num-experts 6 --expert-model-parallel-size 4", 14},
      {"--cpu-offloading --recompute-granularity selective", 15},
      {"--make-vocab-size-divisible-by 1", 16},
      {"--max-position-embeddings 64", 17},
      {"--overlap-param-gather", 18}};
  EXPECT_THAT(megatron_rules::broken_rules(sound + end), testing::IsEmpty());
  for (const auto& [flags, rule] : cases) {
    // A later flag replaces an earlier one.
    std::string line = sound;
    std::istringstream words(flags);
    for (std::string word; words >> word;)
      if (word.rfind("--", 0) == 0)
        line = std::regex_replace(line, std::regex(word + " [0-9]+ "), "");
    EXPECT_TRUE(megatron_rules::broken_rules(line + flags + end).count(rule) == 1) << flags;
  }
}

}  // namespace
