// Memory model: closed cases by hand, and the quick bound against the full account.
#include "tuner/model/memory_model.h"

#include <gtest/gtest.h>

#include "engine/plan/schedule.h"
#include "tests/support/scenarios.h"
#include "tuner/space/search_space.h"

namespace tuner {
namespace {

using engine::MemoryOutcome;
using engine::MemoryUse;
using engine::ParallelPlan;
using engine::Recompute;
using engine::StageMemory;
using test_support::gpt;
using test_support::Request;
using test_support::scenario_for;

constexpr Recompute kNone{Recompute::Mode::none, 0};
constexpr Recompute kSelective{Recompute::Mode::selective, 0};
constexpr Recompute kFull{Recompute::Mode::full, 0};

double state_bytes(const StageMemory& memory) {
  return memory[MemoryUse::parameter] + memory[MemoryUse::gradient] + memory[MemoryUse::optimizer];
}

// A GPT whose sizes are easy to follow: s 2048, h 1024, a 16, V 51,200, on megatron-2022.
Scenario small_gpt(int64_t layers) {
  Scenario s = scenario_for({});
  s.model = gpt(layers, 1024, 16);
  s.model.positions = 2048;
  return s;
}
constexpr double kTokens = 2048, kHidden = 1024, kHeads = 16, kVocab = 51200;
// Korthikanti et al. 2022, equation 1: bytes of one layer on one rank, and without the core.
constexpr double kLayer = kTokens * kHidden * (34 + 5 * kHeads * kTokens / kHidden);
constexpr double kLayerWithoutCore = 34 * kTokens * kHidden;
constexpr double kEmbeddingMask = kTokens * kHidden;
constexpr double kHead = 4 * kTokens * kHidden + 4 * kTokens * kVocab;
constexpr double kLayerParameters = 12 * kHidden * kHidden + 13 * kHidden;
constexpr double kEmbeddingParameters = (kVocab + 2048) * kHidden;

TEST(MemoryModel, MegatronKeeps18BytesAParameter) {
  const Scenario s = small_gpt(8);
  const double parameters = 8 * kLayerParameters + kEmbeddingParameters + 2 * kHidden;
  for (const int dp : {1, 2, 8}) {
    const ParallelPlan plan{.dp = dp, .gbs = 64};
    EXPECT_DOUBLE_EQ(state_bytes(MemoryModel(s).evaluate(plan).stages[0]), 18 * parameters);
    const ParallelPlan sharded{.dp = dp, .zero = 1, .gbs = 64};
    EXPECT_DOUBLE_EQ(state_bytes(MemoryModel(s).evaluate(sharded).stages[0]),
                     (6 + 12.0 / dp) * parameters);
  }
}

TEST(MemoryModel, ZeroShardsOneStateAfterTheOther) {
  Scenario s = small_gpt(8);
  s.stack = find_stack("megatron-core");
  const double parameters = 8 * kLayerParameters + kEmbeddingParameters + 2 * kHidden;
  const double bytes_a_parameter[] = {18, 6 + 12 / 8.0, 2 + 16 / 8.0, 18 / 8.0};
  for (int zero = 0; zero <= 3; ++zero) {
    const ParallelPlan plan{.dp = 4, .cp = 2, .zero = zero, .gbs = 64};
    const StageMemory memory = MemoryModel(s).evaluate(plan).stages[0];
    EXPECT_DOUBLE_EQ(state_bytes(memory), bytes_a_parameter[zero] * parameters) << zero;
    // ZeRO 3 gathers whole layers in 16 bits.
    EXPECT_DOUBLE_EQ(memory[MemoryUse::communication],
                     zero < 3 ? 0 : s.stack.gathered_layers * 2 * kLayerParameters);
  }
}

TEST(MemoryModel, StatesOfOtherPrecisions) {
  Scenario s = small_gpt(8);
  s.workload.precision = engine::Precision::f32;
  const double parameters = 8 * kLayerParameters + kEmbeddingParameters + 2 * kHidden;
  const StageMemory memory = MemoryModel(s).evaluate({.gbs = 8}).stages[0];
  EXPECT_DOUBLE_EQ(memory[MemoryUse::parameter], 4 * parameters);
  EXPECT_DOUBLE_EQ(memory[MemoryUse::gradient], 4 * parameters);
  EXPECT_DOUBLE_EQ(memory[MemoryUse::optimizer], 8 * parameters);
}

// Megatron-LM, docs/source/api-guide/dist_optimizer.md: 20 bytes with fp16 gradients, 4 + 16/d
// distributed. DeepSpeed's bf16 optimizer keeps FP32 gradients beside the 16-bit ones, unsharded.
TEST(MemoryModel, GradientsOfFp16HaveTheirFp32CopyInTheOptimizer) {
  Scenario s = small_gpt(8);
  const double parameters = 8 * kLayerParameters + kEmbeddingParameters + 2 * kHidden;
  const auto bytes = [&](const char* stack, engine::Precision precision, int zero) {
    s.stack = find_stack(stack);
    s.workload.precision = precision;
    const ParallelPlan plan{.dp = 8, .zero = zero, .gbs = 64};
    return state_bytes(MemoryModel(s).evaluate(plan).stages[0]) / parameters;
  };
  for (const char* stack : {"megatron-core", "megatron-deepspeed-2022"}) {
    EXPECT_DOUBLE_EQ(bytes(stack, engine::Precision::fp16, 0), 20) << stack;
    EXPECT_DOUBLE_EQ(bytes(stack, engine::Precision::fp16, 1), 4 + 16.0 / 8) << stack;
  }
  EXPECT_DOUBLE_EQ(bytes("megatron-core", engine::Precision::bf16, 1), 6 + 12.0 / 8);
  EXPECT_DOUBLE_EQ(bytes("megatron-deepspeed-2022", engine::Precision::bf16, 1), 8 + 12.0 / 8);
}

// A bucket holds no more than there is to send: 2 bytes of gradient and 2 of weight a parameter.
TEST(MemoryModel, BucketsAreNoLargerThanTheParameters) {
  Scenario s = small_gpt(8);
  s.stack = find_stack("megatron-deepspeed-2022");
  const auto buckets = [&](int64_t layers, int dp) {
    s.model.layers = layers;
    return MemoryModel(s)
        .evaluate({.dp = dp, .zero = 1, .gbs = 64})
        .stages[0][MemoryUse::communication];
  };
  EXPECT_DOUBLE_EQ(buckets(8, 1), 0);
  EXPECT_DOUBLE_EQ(buckets(8, 2), 4 * (8 * kLayerParameters + kEmbeddingParameters + 2 * kHidden));
  EXPECT_DOUBLE_EQ(buckets(96, 2), s.stack.bucket_bytes);
}

// The tied matrix stands on the first and the last stage, the position table only on the first.
TEST(MemoryModel, EmbeddingsStandOnTheEnds) {
  Scenario s = small_gpt(8);
  const ParallelPlan plan{.pp = 4, .gbs = 64};
  const double table = kVocab * kHidden;
  const auto parameters = [&](const Scenario& scenario, int stage) {
    return MemoryModel(scenario).evaluate(plan).stages[static_cast<size_t>(stage)]
                                                      [MemoryUse::parameter] /
           2;
  };
  for (const bool tied : {true, false}) {
    s.model.tied_embeddings = tied;
    EXPECT_DOUBLE_EQ(parameters(s, 0), 2 * kLayerParameters + kEmbeddingParameters);
    EXPECT_DOUBLE_EQ(parameters(s, 1), 2 * kLayerParameters);
    EXPECT_DOUBLE_EQ(parameters(s, 3), 2 * kLayerParameters + table + 2 * kHidden);
  }
  // On a single stage a tied matrix is there once, untied ones are two.
  const auto alone = [&](bool tied) {
    s.model.tied_embeddings = tied;
    return MemoryModel(s).evaluate({.gbs = 8}).stages[0][MemoryUse::parameter] / 2;
  };
  EXPECT_DOUBLE_EQ(alone(false) - alone(true), table);
}

// 1F1B: stage i holds min(m, p − i) micro-batches.
TEST(MemoryModel, EarlierStagesHoldMoreMicroBatches) {
  const Scenario s = small_gpt(8);
  for (const int64_t m : {1, 2, 3, 4, 5, 100}) {
    const ParallelPlan plan{.pp = 4, .gbs = m};
    const MemoryOutcome outcome = MemoryModel(s).evaluate(plan);
    for (int stage = 0; stage < 4; ++stage) {
      const double held = static_cast<double>(std::min<int64_t>(m, 4 - stage));
      double expected = held * 2 * kLayer;
      if (stage == 0) expected += held * kEmbeddingMask;
      if (stage == 3) expected += kHead;
      EXPECT_DOUBLE_EQ(outcome.stages[static_cast<size_t>(stage)][MemoryUse::activation], expected)
          << "m " << m << " stage " << stage;
    }
  }
}

// A DeepSpeed pipeline keeps what a stage has sent on: s·b·h in 16 bits a micro-batch in flight.
TEST(MemoryModel, OutputsStayWhereTheStackKeepsThem) {
  Scenario s = small_gpt(8);
  const ParallelPlan plan{.pp = 4, .gbs = 16, .recompute = kFull};
  const MemoryOutcome released = MemoryModel(s).evaluate(plan);
  s.stack.saved_output = find_stack("megatron-deepspeed-2022").saved_output;
  const MemoryOutcome kept = MemoryModel(s).evaluate(plan);
  for (int stage = 0; stage < 4; ++stage) {
    const auto at = static_cast<size_t>(stage);
    EXPECT_DOUBLE_EQ(
        kept.stages[at][MemoryUse::activation] - released.stages[at][MemoryUse::activation],
        stage == 3 ? 0 : (4 - stage) * 2 * kTokens * kHidden)
        << stage;
  }
}

// The most micro-batches whose first chunk is alive on the first stage, by running the schedule.
double first_chunks_alive(const engine::PipelineShape& shape) {
  int64_t alive = 0, most = 0;
  for (const engine::PipelineStep& step : engine::make_schedule(shape, 0)) {
    if (step.chunk != 0) continue;
    alive += step.kind == engine::PipelineStep::Kind::forward ? 1 : -1;
    most = std::max(most, alive);
  }
  return static_cast<double>(most);
}

// The first stage of an interleaved pipeline holds min(m·v, v·p + p − 1) chunks.
TEST(MemoryModel, InterleavedStagesHoldMoreChunks) {
  const Scenario s = small_gpt(24);
  for (const int vpp : {2, 3, 6})
    for (const int64_t m : {4, 8, 40}) {
      const ParallelPlan plan{.pp = 4, .vpp = vpp, .gbs = m};
      const double chunks =
          static_cast<double>(std::min<int64_t>(m * vpp, int64_t{vpp} * 4 + 4 - 1));
      const double masks = first_chunks_alive({4, vpp, m}) * kEmbeddingMask;
      EXPECT_DOUBLE_EQ(MemoryModel(s).evaluate(plan).stages[0][MemoryUse::activation],
                       chunks * (6.0 / vpp) * kLayer + masks)
          << "vpp " << vpp << " m " << m;
    }
}

// With groups of other sizes than the pipeline's, too.
TEST(MemoryModel, EmbeddingMasksFollowTheSchedule) {
  Scenario s = small_gpt(144);
  s.stack = find_stack("megatron-core");
  for (const int pp : {2, 3, 4})
    for (const int vpp : {2, 3, 4})
      for (int64_t m = pp; m <= 7 * pp; ++m) {
        const ParallelPlan plan{.pp = pp, .vpp = vpp, .gbs = m};
        const MemoryModel memory(s);
        const RankMemory rank = memory.rank_memory(plan);
        const double chunks =
            static_cast<double>(engine::most_in_flight({pp, vpp, m}, 0)) * 144 / (pp * vpp);
        EXPECT_DOUBLE_EQ(
            memory.evaluate(plan).stages[0][MemoryUse::activation],
            chunks * rank.saved_none + first_chunks_alive({pp, vpp, m}) * rank.embedding_saved)
            << "pp " << pp << " vpp " << vpp << " m " << m;
      }
}

// Korthikanti et al. 2022, equation 5 and the factor of interleaving: the first stage of 175B saves
// L · s·b·h·(34/t)·(1 + (p − 1)/(p·v)) with sequence parallelism and selective recomputation.
TEST(MemoryModel, FirstStageOf175BAsPublished) {
  const Scenario s = scenario_for({.model = "megatron-175b", .gpus = 64, .gbs = 64});
  struct Row {
    bool sp;
    Recompute recompute;
    double layer;  // bytes a layer over s·b·h
  };
  const double a = 96, seq = 2048, h = 12288, t = 8;
  const Row rows[] = {{false, kNone, 10 + 24 / t + 5 * a * seq / (h * t)},
                      {true, kNone, (34 + 5 * a * seq / h) / t},
                      {false, kSelective, 10 + 24 / t},
                      {true, kSelective, 34 / t},
                      {false, kFull, 2},
                      {true, kFull, 2 / t}};
  for (const int vpp : {1, 3})
    for (const Row& row : rows) {
      const ParallelPlan plan{
          .tp = 8, .pp = 8, .vpp = vpp, .sp = row.sp, .gbs = 64, .recompute = row.recompute};
      const double layers = vpp == 1 ? 96 : 96 * (1 + 7.0 / (8 * vpp));
      const double masks = first_chunks_alive({8, vpp, 64}) * seq * h / (row.sp ? t : 1);
      EXPECT_NEAR(MemoryModel(s).evaluate(plan).stages[0][MemoryUse::activation],
                  layers * seq * h * row.layer + masks, 1e-9 * layers * seq * h * row.layer)
          << to_string(row.recompute) << (row.sp ? " sp" : "") << " vpp " << vpp;
    }
}

// Korthikanti et al. 2022, section 4.3: the last stage keeps 4·s·b·h/t·(1 + V/h) for the head.
TEST(MemoryModel, LogitsStandOnTheLastStage) {
  const Scenario s = small_gpt(8);
  const ParallelPlan plan{.tp = 4, .pp = 2, .sp = true, .gbs = 8, .recompute = kSelective};
  const StageMemory last = MemoryModel(s).evaluate(plan).stages[1];
  EXPECT_DOUBLE_EQ(last[MemoryUse::activation],
                   4 * kLayerWithoutCore / 4 + 4 * kTokens * kHidden / 4 * (1 + kVocab / kHidden));
}

TEST(MemoryModel, UnevenStagesHoldWhatTheyAreGiven) {
  Scenario s = small_gpt(9);
  s.stack = find_stack("nanotron");
  s.stack.saved = find_stack("megatron-2022").saved;
  s.workload.attention = engine::AttentionKind::unfused;
  const ParallelPlan plan{.pp = 4, .gbs = 16, .layers_per_stage = {1, 3, 3, 2}};
  const MemoryOutcome outcome = MemoryModel(s).evaluate(plan);
  EXPECT_DOUBLE_EQ(outcome.stages[1][MemoryUse::activation], 3 * 3 * kLayer);
  EXPECT_DOUBLE_EQ(outcome.stages[2][MemoryUse::activation], 2 * 3 * kLayer);
  EXPECT_DOUBLE_EQ(outcome.stages[1][MemoryUse::parameter], 2 * 3 * kLayerParameters);
  double most = 0;
  for (const StageMemory& stage : outcome.stages) most = std::max(most, stage.total());
  EXPECT_DOUBLE_EQ(outcome.peak_bytes, most);
}

// full:N keeps N layer inputs a chunk and everything of the other layers.
TEST(MemoryModel, PartialRecomputationLiesBetween) {
  const Scenario s = small_gpt(24);
  for (const int vpp : {1, 2}) {
    ParallelPlan plan{.pp = 4, .vpp = vpp, .gbs = 16};
    const int layers = 6 / vpp;
    const auto activation = [&](Recompute recompute) {
      plan.recompute = recompute;
      return MemoryModel(s).evaluate(plan).stages[0][MemoryUse::activation];
    };
    double before = activation(kNone);
    for (int n = 1; n <= layers; ++n) {
      const double bytes = activation({Recompute::Mode::full, n});
      EXPECT_LT(bytes, before) << n;
      const double chunks = vpp == 1 ? 4 : 2 * 4 + 4 - 1;
      const double masks = first_chunks_alive({4, vpp, 16}) * kEmbeddingMask;
      EXPECT_DOUBLE_EQ(bytes, chunks * (n * 2 * kTokens * kHidden + (layers - n) * kLayer) + masks);
      before = bytes;
    }
    EXPECT_DOUBLE_EQ(before, activation(kFull));
  }
}

TEST(MemoryModel, GrowsWithTheMicroBatch) {
  const Scenario s = scenario_for({.gpus = 64, .gbs = 64});
  const MemoryModel memory(s);
  for (const int pp : {1, 4, 8})
    for (const Recompute recompute : {kNone, kSelective, kFull}) {
      double before = 0;
      for (const int64_t mbs : {1, 2, 4, 8}) {
        const double peak = memory
                                .evaluate({.dp = 8 / pp,
                                           .tp = 8,
                                           .pp = pp,
                                           .sp = true,
                                           .mbs = mbs,
                                           .gbs = 64,
                                           .recompute = recompute})
                                .peak_bytes;
        EXPECT_GT(peak, before) << "pp " << pp << " mbs " << mbs;
        before = peak;
      }
    }
}

TEST(MemoryModel, FitsOnlyWithItsMargin) {
  const Scenario s = scenario_for({});
  const MemoryModel memory(s);
  const double most = s.cluster.device.memory_bytes / (1 + s.stack.memory_error);
  EXPECT_TRUE(memory.fits(most * 0.9999));
  EXPECT_FALSE(memory.fits(most * 1.0001));
  EXPECT_DOUBLE_EQ(memory.margin_bytes(100), 100 * s.stack.memory_error);
}

// The quick peak of the search is the peak of the full account; where an interleaved stage has
// chunks of different length it may only be higher. ZeRO never needs more.
class PeakOfEveryPlan : public testing::TestWithParam<Request> {};

TEST_P(PeakOfEveryPlan, EqualsTheFullAccount) {
  const Scenario s = scenario_for(GetParam());
  const MemoryModel memory(s);
  const SearchSpace space(s, {});
  RankMemory rank;
  const auto ignore = [](const ParallelPlan&) {};
  const int64_t stride = space.for_each(ignore, ignore).legal / 2000 | 1;
  int64_t seen = 0, checked = 0;
  space.for_each([&](const ParallelPlan& group) { rank = memory.rank_memory(group); },
                 [&](const ParallelPlan& plan) {
                   if (++seen % stride != 0) return;
                   ++checked;
                   const MemoryOutcome outcome = memory.evaluate(plan);
                   const double peak = memory.peak_bytes(rank, plan);
                   bool chunks_differ = false;
                   for (const int layers : plan.layers_per_stage)
                     chunks_differ |= layers % plan.vpp != 0;
                   if (chunks_differ)
                     ASSERT_GE(peak, outcome.peak_bytes) << describe(plan);
                   else
                     ASSERT_DOUBLE_EQ(peak, outcome.peak_bytes) << describe(plan);
                   for (const StageMemory& stage : outcome.stages)
                     for (const double bytes : stage.bytes) ASSERT_GE(bytes, 0) << describe(plan);
                   // ZeRO 3 also holds gathered layers.
                   if (plan.zero == 0 || plan.zero == 3) return;
                   ParallelPlan less = plan;
                   --less.zero;
                   ASSERT_GE(memory.evaluate(less).peak_bytes, outcome.peak_bytes)
                       << describe(plan);
                 });
  EXPECT_GE(checked, 20);
}

INSTANTIATE_TEST_SUITE_P(
    , PeakOfEveryPlan,
    testing::Values(
        Request{.gpus = 96, .gbs = 96}, Request{.gpus = 64, .stack = "megatron-2021", .gbs = 64},
        Request{.model = "llama-3.1-405b",
                .gpu = "h100-80gb",
                .gpus = 96,
                .stack = "megatron-core",
                .gbs = 48,
                .seq = 8192},
        Request{.model = "llama-3.1-70b",
                .gpu = "b200-180gb",
                .gpus = 48,
                .stack = "autotune",
                .gbs = 24},
        Request{.model = "llama-3.1-8b",
                .gpu = "h100-80gb",
                .gpus = 48,
                .stack = "nanotron",
                .gbs = 96,
                .seq = 4096},
        Request{.model = "qwen2.5-7b",
                .gpu = "h200-141gb",
                .gpus = 16,
                .stack = "pytorch-fsdp2",
                .gbs = 32},
        Request{.model = "llama-2-7b", .gpus = 64, .stack = "pytorch-fsdp", .gbs = 1024},
        Request{.model = "opt-30b", .gpus = 64, .stack = "deepspeed-zero3", .gbs = 1024},
        Request{.model = "bloom-176b", .gpus = 96, .stack = "megatron-deepspeed-2022", .gbs = 96}),
    [](const auto& suite) {
      std::string name = suite.param.stack;
      std::ranges::replace(name, '-', '_');
      return name + (suite.index == 0 ? "_even" : "");
    });

}  // namespace
}  // namespace tuner
