// Recommendations and predictions of handmade numbers.
#pragma once
#include "engine/base/units.h"
#include "tuner/search/recommendation.h"

namespace tuner::sample {

using engine::kGiB;

inline Scenario scenario() {
  Scenario s;
  s.model.name = "gpt3-175b";
  s.model.origin = "built-in models/gpt3.json (gpt3-175b)";
  s.model.layers = 96;
  s.model.hidden = 12288;
  s.model.heads = s.model.kv_heads = 96;
  s.model.head_dim = 128;
  s.model.ffn_hidden = 49152;
  s.model.vocab = 50257;
  s.model.positions = 2048;
  s.cluster.device.name = "a100-80gb";
  s.cluster.device.title = "NVIDIA A100-SXM4-80GB";
  s.cluster.device.architecture = "ampere";
  s.cluster.device.memory_bytes = 79.2 * kGiB;
  s.cluster.system = "dgx-a100";
  s.cluster.origin =
      "built-in profiles/gpus/a100-80gb.json with built-in profiles/systems/dgx-a100.json";
  s.cluster.gpus = 1024;
  s.stack.name = "megatron-2022";
  s.stack.title = "Megatron-LM, 2022";
  s.stack.origin = "built-in profiles/stacks/megatron-2022.json";
  s.stack.memory_error = 0.1;
  s.stack.vocab_multiple = 128;
  s.rates.origin = "built-in profiles/rates.json";
  s.workload = {2048, 1536, 300e9, engine::Precision::bf16, engine::AttentionKind::unfused};
  return s;
}

inline engine::ParallelPlan plan(int tp, int pp, int dp) {
  engine::ParallelPlan p;
  p.tp = tp;
  p.pp = pp;
  p.dp = dp;
  p.sp = tp > 1;
  p.zero = 1;
  p.gbs = 1536;
  p.recompute = {engine::Recompute::Mode::selective, 0};
  return p;
}

// Stage 0 is the fullest; every later one has an equal amount less of activations.
inline engine::Outcome outcome(double step_seconds, int stages) {
  engine::Outcome o;
  o.step_seconds = step_seconds;
  o.interval_seconds = {0.9 * step_seconds, 1.1 * step_seconds};
  o.breakdown_seconds = {{"gemm", 0.661 * step_seconds},
                         {"bubble", 0.2 * step_seconds},
                         {"optimizer", 0.137 * step_seconds},
                         {"launch", 0.002 * step_seconds}};
  o.tflops_per_gpu = 151.3;
  o.mfu = 0.485;
  o.tokens_per_second_per_gpu = 140.5;
  o.fits = true;
  for (int stage = 0; stage < stages; ++stage) {
    engine::StageMemory memory;
    memory.stage = stage;
    memory[engine::MemoryUse::parameter] = 10 * kGiB;
    memory[engine::MemoryUse::activation] = 40 * kGiB * (stages - stage) / stages;
    memory[engine::MemoryUse::runtime] = 2 * kGiB;
    o.memory.stages.push_back(memory);
  }
  o.memory.peak_bytes = 52 * kGiB;
  o.memory.capacity_bytes = 79.2 * kGiB;
  return o;
}

inline PlanAnswer answer(int tp, int pp, int dp, double step_seconds) {
  return {plan(tp, pp, dp), outcome(step_seconds, pp), std::nullopt};
}

inline Recommendation recommendation() {
  Recommendation r;
  r.scenario = scenario();
  r.search.counts.candidates = 200700;
  r.search.counts.legal = 43624;
  r.search.counts.rejected = {{"AT0104", 100000}, {"AT0102", 57076}};
  r.search.fits = 7486;
  r.search.seconds = 0.0156;
  r.simulated = 35;
  r.best = answer(8, 16, 8, 20);
  r.runners_up = {{answer(4, 8, 32, 20.6), 0.03, 0.38, "tp 4 instead of 8"},
                  {answer(4, 16, 16, 22), 0.10, 0.10, "tp 4 instead of 8, dp 16 instead of 8"},
                  {answer(16, 8, 8, 30), 0.50, 0.001, "tp 16 instead of 8"}};
  r.baseline = answer(8, 16, 8, 26.2);
  r.baseline->plan.recompute = {engine::Recompute::Mode::full, 0};
  r.grid = {"gpt-80gb", "built-in grids/gpt.json", 24, 18, 11, answer(8, 8, 16, 21)};
  r.reasons = {"with full recomputation: +28 % step time", "without SP: does not fit"};
  r.assumptions = {"seq 2,048 is the preset's"};
  return r;
}

inline Recommendation nothing_fits() {
  Recommendation r;
  r.scenario = scenario();
  r.scenario.cluster.gpus = 8;
  r.search.counts = {38400, 32812, {{"AT0104", 5588}}};
  r.remedies = {"the smallest plan needs 369.7 GiB", "the nearest number of GPUs that works is 48"};
  return r;
}

}  // namespace tuner::sample
