// The same text with and without a KV cache, under every plan, alone and in company.
#include "engine/infer/generator.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/nn/model_problems.h"
#include "tests/support/generation_run.h"
#include "tests/support/ranks.h"
#include "tests/support/reference_model.h"
#include "tests/support/tiny_models.h"
#include "tests/support/training_run.h"
#include "tuner/model/presets.h"
#include "tuner/model/serve_model.h"
#include "tuner/model/serve_work.h"

namespace engine {
namespace {

using Texts = std::map<int64_t, std::vector<int32_t>>;

ModelSpec long_gpt() {
  ModelSpec model = tiny::gpt();
  model.positions = 64;
  return model;
}
std::vector<ModelSpec> models() { return {long_gpt(), tiny::llama()}; }

// Every token by a pass over the whole text so far: no key or value is read from a cache.
Texts without_cache(const GeneratorOptions& options, const std::vector<Request>& requests) {
  Texts texts;
  for (Request request : requests) {
    std::vector<int32_t>& text = texts[request.id];
    while (static_cast<int64_t>(text.size()) < request.most_tokens) {
      Request next = request;
      next.prompt.insert(next.prompt.end(), text.begin(), text.end());
      next.most_tokens = 1;
      text.push_back(generate(options, {next}).tokens.at(request.id).at(0));
    }
  }
  return texts;
}

std::vector<Request> greedy(std::vector<Request> requests) {
  for (Request& request : requests) request.sampling = {};
  return requests;
}

std::vector<std::string> listed(const std::vector<Traffic>& traffic) {
  std::vector<std::string> list;
  for (const Traffic& one : traffic)
    list.push_back(fmt::format("{} {}: {} messages, {} bytes", one.axis, one.verb, one.messages,
                               one.payload_bytes));
  return list;
}

TEST(Generator, TheCacheChangesNothing) {
  for (const ModelSpec& model : models()) {
    const GeneratorOptions options = test_generation(model);
    const auto requests = greedy(test_requests(model, 5, 12, 10));
    EXPECT_EQ(generate(options, requests).tokens, without_cache(options, requests)) << model.name;
  }
}

TEST(Generator, GreedyTextIsThatOfTheReferenceInDouble) {
  for (const ModelSpec& model : models()) {
    ParallelPlan serial;
    serial.gbs = 8;
    const reference::Weights weights = train(test_job(model, serial), 0).weights;
    ModelSpec plain = model;
    plain.dropout = false;
    const auto requests = greedy(test_requests(model, 3, 9, 4));
    const auto run = generate(test_generation(model), requests);
    for (const Request& request : requests) {
      std::vector<int32_t> text = request.prompt;
      for (const int32_t token : run.tokens.at(request.id)) {
        // The likeliest continuation is the one that lowers the loss of the whole text most.
        std::vector<int32_t> targets(text.begin() + 1, text.end());
        targets.push_back(0);
        int32_t best = 0;
        double least = 1e30;
        for (int32_t id = 0; id < static_cast<int32_t>(model.vocab); ++id) {
          targets.back() = id;
          const double loss = reference::loss(plain, weights, text, targets);
          if (loss < least) {
            least = loss;
            best = id;
          }
        }
        ASSERT_EQ(token, best) << model.name;
        text.push_back(token);
      }
    }
  }
}

TEST(Generator, EveryPlanGivesTheSerialText) {
  for (const ModelSpec& model : models()) {
    GeneratorOptions options = test_generation(model);
    const auto requests = test_requests(model, 7, 14, 10);
    const Texts serial = generate(options, requests).tokens;
    ASSERT_EQ(serial.size(), requests.size());
    for (const int tp : {1, 2, 4})
      for (const int pp : {1, 2, 4})
        for (const int dp : {1, 2}) {
          options.plan.tp = tp;
          options.plan.pp = pp;
          options.plan.dp = dp;
          if (options.plan.world() > 8) continue;
          EXPECT_EQ(generate(options, requests).tokens, serial)
              << model.name << " " << describe(options.plan);
        }
  }
}

TEST(Generator, CompanyChangesNothing) {
  for (const ModelSpec& model : models()) {
    GeneratorOptions options = test_generation(model);
    const auto requests = test_requests(model, 9, 14, 10);
    Texts alone;
    for (const Request& request : requests) alone.merge(generate(options, {request}).tokens);
    for (const bool continuous : {true, false})
      for (const int64_t batch : {2, 5})
        for (const int pp : {1, 2}) {
          options.continuous = continuous;
          options.batch = batch;
          options.plan.pp = pp;
          EXPECT_EQ(generate(options, requests).tokens, alone) << continuous << batch << pp;
        }
  }
}

TEST(Generator, ASmallCacheOnlyMakesRequestsWait) {
  const ModelSpec model = tiny::llama();
  GeneratorOptions options = test_generation(model);
  options.batch = 9;
  const auto requests = test_requests(model, 9, 14, 10);
  const GenerationRun wide = generate(options, requests);
  options.kv_tokens = 28;  // the longest request and little else
  const GenerationRun narrow = generate(options, requests);
  EXPECT_EQ(narrow.tokens, wide.tokens);
  EXPECT_GT(narrow.steps, wide.steps);
}

TEST(Generator, Bf16GivesTheSameTextUnderReplicasAndPipelines) {
  if (!test_ranks::make_device()->multiplies(DType::bf16))
    GTEST_SKIP() << "this processor does not multiply bf16";
  GeneratorOptions options = test_generation(tiny::llama());
  options.precision = Precision::bf16;
  const auto requests = test_requests(options.model, 4, 10, 8);
  const Texts serial = generate(options, requests).tokens;
  options.plan.pp = options.plan.dp = 2;
  EXPECT_EQ(generate(options, requests).tokens, serial);
}

// Tensor parallelism adds the parts of a product in another order, which bf16 rounds differently:
// the text is the serial one up to where two tokens are as likely to within that rounding.
TEST(Generator, Bf16GivesTheSerialTextUnderTensorParallelismUpToTies) {
  if (!test_ranks::make_device()->multiplies(DType::bf16))
    GTEST_SKIP() << "this processor does not multiply bf16";
  constexpr float kRounding = 0.03F;  // of logits, some units in the last place of bf16
  GeneratorOptions options = test_generation(tiny::llama());
  options.precision = Precision::bf16;
  const auto requests = greedy(test_requests(options.model, 6, 10, 8));
  const Texts serial = generate(options, requests).tokens;
  GeneratorOptions divided = options;
  divided.plan.tp = 2;
  const Texts texts = generate(divided, requests).tokens;
  int64_t alike = 0, all = 0;
  for (const Request& request : requests) {
    const std::vector<int32_t>&a = serial.at(request.id), &b = texts.at(request.id);
    ASSERT_EQ(a.size(), b.size());
    const auto [end, other] = std::mismatch(a.begin(), a.end(), b.begin());
    alike += end - a.begin();
    all += static_cast<int64_t>(a.size());
    if (end == a.end()) continue;
    std::vector<float> losses;
    for (const int32_t token : {*end, *other}) {
      Request scored = request;
      scored.prompt.insert(scored.prompt.end(), a.begin(), end);
      scored.targets.assign(scored.prompt.size(), -1);
      scored.targets.back() = token;
      scored.most_tokens = 0;
      losses.push_back(generate(options, {scored}).scores.at(request.id).at(0).loss);
    }
    EXPECT_NEAR(losses[0], losses[1], kRounding) << request.id;
  }
  EXPECT_GT(2 * alike, all) << "ties are rare";
}

TEST(Generator, EndsAtTheEndToken) {
  GeneratorOptions options = test_generation(tiny::llama());
  std::vector<Request> requests = greedy(test_requests(options.model, 2, 6, 12));
  const auto free = generate(options, requests).tokens.at(0);
  requests[0].end_token = free[1];
  const GenerationRun run = generate(options, requests);
  EXPECT_EQ(run.finishes.at(0), Finish::end_token);
  EXPECT_EQ(run.tokens.at(0).back(), free[1]);
  EXPECT_LE(run.tokens.at(0).size(), 2u);
  EXPECT_EQ(run.finishes.at(1), Finish::length);
}

TEST(Generator, ACancelledRequestLeavesTheOthersAlone) {
  for (const int pp : {1, 2}) {
    GeneratorOptions options = test_generation(tiny::llama());
    options.plan.pp = pp;
    options.kv_tokens = 48;
    const auto requests = test_requests(options.model, 5, 6, 10);
    const GenerationRun whole = generate(options, requests);
    int64_t cancelled_after = 0;
    const GenerationRun run =
        generate(options, requests, [&](Generator& generator, const std::vector<Progress>& all) {
          for (const Progress& progress : all)
            if (progress.request == 0 && ++cancelled_after == 3) generator.scheduler().cancel(0);
          if (generator.scheduler().is_idle()) {
            EXPECT_EQ(generator.scheduler().free_pages(), 12);
          }
        });
    EXPECT_LT(run.tokens.at(0).size(), whole.tokens.at(0).size());
    for (size_t i = 0; i < run.tokens.at(0).size(); ++i)
      EXPECT_EQ(run.tokens.at(0)[i], whole.tokens.at(0)[i]);
    for (int64_t id = 1; id < 5; ++id) EXPECT_EQ(run.tokens.at(id), whole.tokens.at(id));
  }
}

// No plan is predicted of a model that this engine refuses.
TEST(Generator, ItsStackLacksWhatTheEngineRefuses) {
  const tuner::ServeStack stack = tuner::find_serve_stack("autotune");
  for (const std::string& name : tuner::model_names()) {
    const ModelSpec model = tuner::find_model(name);
    if (!model.not_modelled.empty()) continue;
    const bool lacks =
        std::any_of(stack.lacks.begin(), stack.lacks.end(),
                    [&](const tuner::ModelTrait& trait) { return trait.has(model); });
    EXPECT_EQ(lacks, !model_problems(model).empty()) << name;
  }
}

// Of a static batch: every rank's weights and cache, and what the first tensor rank of every stage
// multiplies and sends.
TEST(Generator, DoesWhatTheServingModelSays) {
  for (const ModelSpec& model : models())
    for (const int tp : {1, 2, 4})
      for (const int pp : {1, 2, 3}) {
        if (tp * pp > 8) continue;  // GPUs of a node, on which the ranks may run
        GeneratorOptions options = test_generation(model);
        options.plan.tp = tp;
        options.plan.pp = pp;
        options.plan.layers_per_stage = tuner::stage_layers(model.layers, pp);
        options.continuous = false;
        options.prompt_tokens = 1000;
        options.batch = 5;
        tuner::ServeScenario scenario;
        scenario.model = model;
        scenario.cluster = tuner::find_cluster("cpu", tp * pp);
        scenario.stack = tuner::find_serve_stack("autotune");
        scenario.stack.page_tokens = options.page_tokens;
        scenario.workload.input = 16;
        scenario.workload.output = options.longest - 17;  // pages are not full
        const tuner::ServePlan plan{.tp = tp,
                                    .pp = pp,
                                    .batch = options.batch,
                                    .weights = tuner::ServeFormat::f32,
                                    .kv = tuner::ServeFormat::f32};
        std::vector<Request> requests(static_cast<size_t>(options.batch));
        for (size_t i = 0; i < requests.size(); ++i) {
          requests[i].id = static_cast<int64_t>(i);
          requests[i].prompt.assign(static_cast<size_t>(scenario.workload.input), 3);
          requests[i].most_tokens = scenario.workload.output;
        }
        const GenerationRun run = generate(options, requests);
        const tuner::ServeModel predicted(scenario, plan);
        double most_weights = 0, most_cache = 0;
        for (size_t rank = 0; rank < run.meters.size(); ++rank) {
          const int stage = static_cast<int>(rank) / tp;
          const std::string name = fmt::format("{} {} rank {}", model.name, describe(plan), rank);
          const auto bytes = [&](MemoryUse use) {
            return static_cast<double>(run.meters[rank].peak(use));
          };
          EXPECT_EQ(bytes(MemoryUse::parameter), predicted.weight_bytes(stage)) << name;
          EXPECT_EQ(bytes(MemoryUse::kv_cache), predicted.kv_bytes(stage, 5)) << name;
          most_weights = std::max(most_weights, bytes(MemoryUse::parameter));
          most_cache = std::max(most_cache, bytes(MemoryUse::kv_cache));
          if (pp == 1) {
            const double activations = predicted.memory(5).activation_bytes;
            EXPECT_NEAR(bytes(MemoryUse::activation), activations, 0.12 * activations) << name;
          }
          if (rank % static_cast<size_t>(tp) != 0) continue;
          const tuner::StepWork work = serve_work(scenario, plan, stage);
          EXPECT_EQ(run.meters[rank].matmul_flops(), work.matmul_flops) << name;
          EXPECT_EQ(listed(run.traffic[rank]), listed(work.traffic)) << name;
        }
        EXPECT_EQ(most_cache, predicted.memory(5).kv_bytes);
        // Where stages are uneven, other stacks have the larger end on the fullest one.
        EXPECT_LE(most_weights, predicted.memory(5).weight_bytes);
        if (model.layers % pp == 0) {
          EXPECT_EQ(most_weights, predicted.memory(5).weight_bytes);
        }
      }
}

TEST(Generator, CountsTheBytesOfItsCache) {
  GeneratorOptions options = test_generation(tiny::llama());
  options.plan.tp = 4;  // more ranks than KV heads: each holds one whole head
  const auto requests = test_requests(options.model, 4, 10, 8);
  for (const Meter& meter : generate(options, requests).meters)
    EXPECT_EQ(meter.peak(MemoryUse::kv_cache),
              2 * options.model.layers * options.batch * options.longest * 1 * 8 * 4);
}

TEST(Generator, RefusesWhatItCannotRun) {
  GeneratorOptions options = test_generation(tiny::llama());
  auto requests = test_requests(options.model, 1, 6, 4);
  const auto refused = [&] {
    try {
      generate(options, requests);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("not refused");
  };
  requests[0].most_tokens = 100;
  EXPECT_NE(refused().find("longer than the model's limit"), std::string::npos) << refused();
  requests[0].most_tokens = 10;
  options.kv_tokens = 8;
  EXPECT_NE(refused().find("KV cache"), std::string::npos) << refused();
  options.kv_tokens = 0;
  requests[0].prompt.clear();
  EXPECT_NE(refused().find("prompt is empty"), std::string::npos) << refused();
  options.model = tiny::gpt();
  EXPECT_NE(refused().find("longer than the model's 16 positions"), std::string::npos) << refused();
  options = test_generation(tiny::llama());
  options.plan.tp = 3;
  EXPECT_NE(refused().find("multiple of tp 3"), std::string::npos) << refused();
}

TEST(StepBatch, ArrivesAsItWasSent) {
  StepBatch batch;
  batch.segments = {{int64_t{1} << 40, 2, 0, 0, true, {}, {3, 1}},
                    {7, 1, 9, 4, false, {0.7, 40, 0.9, ~uint64_t{0}}, {2}}};
  batch.tokens = {5, -3, 8};
  batch.targets = {-1, 4, -1};
  EXPECT_EQ(unpack(pack(batch)), batch);
  EXPECT_EQ(batch.rows(), (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(pack(StepBatch()).size(), 3u);
}

}  // namespace
}  // namespace engine
