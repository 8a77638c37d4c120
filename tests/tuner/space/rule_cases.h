// A plan that breaks each rule.
#pragma once
#include <string>
#include <vector>

#include "engine/plan/parallel_plan.h"
#include "tests/support/scenarios.h"
#include "tuner/space/rules.h"

namespace tuner {

using engine::Precision;
using engine::Recompute;

inline constexpr Recompute kSelective{Recompute::Mode::selective, 0};
inline constexpr Recompute kFull{Recompute::Mode::full, 0};

struct RuleCase {
  std::string code;
  std::string message;  // a part of it
  test_support::Request request;
  engine::ParallelPlan plan;
  FrameworkOptions options = {};
};

inline const std::string kLlama70 = "llama-3.1-70b", kLlama405 = "llama-3.1-405b";
inline const std::string kCore = "megatron-core", kH100 = "h100-80gb";

// Numbers in brackets are those of the rules of Megatron's argument checks.
inline const std::vector<RuleCase> kCases = {
    // [1] world = tp · pp · cp · dp
    {"AT0101",
     "tp 8 · pp 4 · cp 1 · dp 2 = 64 ranks, but the cluster has 128 GPUs",
     {.gpus = 128, .gbs = 64},
     {.dp = 2, .tp = 8, .pp = 4, .gbs = 64}},
    {"AT0101",
     "24 ranks, but the cluster has 64 GPUs",
     {.gpus = 64, .gbs = 64},
     {.dp = 1, .tp = 8, .pp = 3, .gbs = 64}},
    // [2] heads % tp
    {"AT0102",
     "28 attention heads cannot be divided by tp 8",
     {.model = "qwen2-7b", .gpu = kH100, .gpus = 8, .stack = kCore, .gbs = 8},
     {.tp = 8, .gbs = 8}},
    // [3] KV heads, older and newer releases
    {"AT0103",
     "8 KV heads cannot be divided by tp 16, and this stack does not replicate them",
     {.model = kLlama70, .gpus = 16, .gbs = 8},
     {.tp = 16, .gbs = 8}},
    {"AT0103",
     "2 KV heads cannot be divided by tp 7, nor replicated evenly",
     {.model = "qwen2.5-0.5b", .gpu = kH100, .gpus = 7, .stack = kCore, .gbs = 8},
     {.tp = 7, .gbs = 8}},
    // [4] gbs % (mbs · dp)
    {"AT0104",
     "global batch 100 is no multiple of mbs 3 · dp 2 = 6",
     {.gpus = 16, .gbs = 100},
     {.dp = 2, .tp = 8, .mbs = 3, .gbs = 100}},
    {"AT0104",
     "global batch 7 is no multiple of mbs 1 · dp 2 = 2",
     {.gpus = 16, .gbs = 7},
     {.dp = 2, .tp = 8, .gbs = 7}},
    // [5] the sequence over cp and tp
    {"AT0105",
     "sequence 2050 is no multiple of 2 · cp = 4",
     {.model = kLlama70, .gpu = kH100, .gpus = 16, .stack = kCore, .gbs = 8, .seq = 2050},
     {.tp = 8, .cp = 2, .gbs = 8}},
    {"AT0106",
     "sequence 2044 is no multiple of 8",
     {.gpus = 8, .gbs = 8, .seq = 2044},
     {.tp = 8, .sp = true, .gbs = 8}},
    {"AT0106",
     "sequence 2056 is no multiple of 32, which sp at tp 8 and cp 4 needs",
     {.model = kLlama70, .gpu = kH100, .gpus = 32, .stack = kCore, .gbs = 8, .seq = 2056},
     {.tp = 8, .cp = 4, .sp = true, .gbs = 8}},
    // [6] and [7] layers over pp and vpp, also where no uneven list helps
    {"AT0112",
     "layers 96 not divisible by pp = 5",
     {.gpus = 40, .gbs = 40},
     {.tp = 8, .pp = 5, .gbs = 40}},
    {"AT0112",
     "layers 126 not divisible by pp·vpp = 16",
     {.model = kLlama405, .gpu = kH100, .gpus = 64, .stack = kCore, .gbs = 64},
     {.tp = 8, .pp = 8, .vpp = 2, .gbs = 64}},
    {"AT0112",
     "layers 126 not divisible by pp = 8",
     {.model = kLlama405, .gpu = kH100, .gpus = 64, .stack = kCore, .gbs = 64},
     {.tp = 8, .pp = 8, .gbs = 64}},
    {"AT0114",
     "do not place the 126 layers",
     {.model = kLlama405, .gpu = kH100, .gpus = 64, .stack = kCore, .gbs = 64},
     {.tp = 8, .pp = 8, .gbs = 64, .layers_per_stage = {16, 16, 16, 16, 16, 16, 16, 16}}},
    {"AT0114",
     "as megatron-2022 can",
     {.gpus = 40, .gbs = 40},
     {.tp = 8, .pp = 5, .gbs = 40, .layers_per_stage = {18, 20, 20, 20, 18}}},
    {"AT0114",
     "do not place the 96 layers of the model on 4 stages",
     {.gpus = 32, .gbs = 40},
     {.tp = 8, .pp = 4, .gbs = 40, .layers_per_stage = {24, 24, 24, 24, 0}}},
    // [7] interleaving needs stages
    {"AT0109",
     "interleaving needs pp ≥ 3 in megatron-2022, not pp 2",
     {.gpus = 16, .gbs = 64},
     {.tp = 8, .pp = 2, .vpp = 2, .gbs = 64}},
    {"AT0109",
     "interleaving needs pp ≥ 2 in megatron-core, not pp 1",
     {.gpus = 8, .stack = kCore, .gbs = 64},
     {.tp = 8, .vpp = 2, .gbs = 64}},
    // [8] groups of micro-batches, older and newer releases
    {"AT0110",
     "in groups of pp 4, but there are 6 of them",
     {.gpus = 32, .gbs = 6},
     {.tp = 8, .pp = 4, .vpp = 2, .gbs = 6}},
    {"AT0110",
     "in groups of pp 4, but there are 3 of them",
     {.gpus = 32, .stack = kCore, .gbs = 3},
     {.tp = 8, .pp = 4, .vpp = 2, .gbs = 3}},
    {"AT0111",
     "3 micro-batches do not fill 4 pipeline stages",
     {.model = kLlama70, .gpu = kH100, .gpus = 32, .stack = "pytorch-fsdp2", .gbs = 3},
     {.tp = 8, .pp = 4, .zero = 0, .gbs = 3}},
    // [9] recomputation
    {"AT0113",
     "full:13 recomputes more layers than the 12 of a stage chunk",
     {.gpus = 32, .gbs = 64},
     {.tp = 8, .pp = 4, .vpp = 2, .gbs = 64, .recompute = {Recompute::Mode::full, 13}}},
    // [10] to [12], [15] options of frameworks
    {"AT0140",
     "needs tp > 1",
     {.gpus = 8, .gbs = 8},
     {.tp = 8, .sp = true, .gbs = 8, .recompute = kFull},
     {.distribute_saved_activations = true}},
    {"AT0140",
     "full recomputation",
     {.gpus = 8, .gbs = 8},
     {.tp = 8, .gbs = 8},
     {.distribute_saved_activations = true}},
    {"AT0116",
     "sequence parallelism needs tp > 1",
     {.gpus = 8, .gbs = 8},
     {.dp = 8, .sp = true, .gbs = 8}},
    {"AT0141",
     "tp-comm-overlap needs sequence parallelism",
     {.gpus = 8, .gbs = 8},
     {.tp = 8, .gbs = 8},
     {.tensor_overlap = true}},
    {"AT0142",
     "excludes a pipeline and recomputation",
     {.gpus = 16, .gbs = 8},
     {.tp = 8, .pp = 2, .gbs = 8},
     {.offload_activations = true}},
    {"AT0142",
     "excludes a pipeline and recomputation",
     {.gpus = 8, .gbs = 8},
     {.tp = 8, .gbs = 8, .recompute = kSelective},
     {.offload_activations = true}},
    // [14] experts on a dense model
    {"AT0132",
     "ep 2 on a dense model",
     {.gpus = 16, .gbs = 8},
     {.dp = 2, .tp = 8, .ep = 2, .gbs = 8}},
    // [17] positions
    {"AT0115",
     "sequence 4096 is longer than the 2048 positions",
     {.gpus = 8, .gbs = 8, .seq = 4096},
     {.tp = 8, .gbs = 8}},
    // Widths
    {"AT0107",
     "MLP width 4100 cannot be divided by tp 8",
     {.model = "width", .gpus = 8, .gbs = 8},
     {.tp = 8, .gbs = 8}},
    // What a stack lacks
    {"AT0120",
     "tensor parallelism",
     {.gpus = 8, .stack = "pytorch-fsdp", .gbs = 8},
     {.tp = 8, .zero = 0, .gbs = 8}},
    {"AT0121",
     "pipeline parallelism",
     {.gpus = 8, .stack = "deepspeed-zero3", .gbs = 8},
     {.pp = 8, .gbs = 8}},
    {"AT0122", "context parallelism", {.gpus = 16, .gbs = 8}, {.tp = 8, .cp = 2, .gbs = 8}},
    {"AT0123",
     "sequence parallelism",
     {.gpus = 8, .stack = "megatron-2021", .gbs = 8},
     {.tp = 8, .sp = true, .gbs = 8}},
    {"AT0124",
     "interleaving",
     {.model = kLlama70, .gpu = kH100, .gpus = 16, .stack = "nanotron", .gbs = 8},
     {.tp = 8, .pp = 2, .vpp = 2, .gbs = 8}},
    {"AT0125",
     "selective recomputation",
     {.gpus = 8, .stack = "megatron-2021", .gbs = 8},
     {.tp = 8, .gbs = 8, .recompute = kSelective}},
    {"AT0126",
     "only some layers",
     {.model = kLlama70, .gpu = kH100, .gpus = 8, .stack = "nanotron", .gbs = 8},
     {.tp = 8, .gbs = 8, .recompute = {Recompute::Mode::full, 3}}},
    {"AT0127",
     "ZeRO 3 is not part of the stack megatron-2022",
     {.gpus = 8, .gbs = 8},
     {.dp = 8, .zero = 3, .gbs = 8}},
    {"AT0127",
     "ZeRO 0 is not part of the stack pytorch-fsdp",
     {.gpus = 8, .stack = "pytorch-fsdp", .gbs = 8},
     {.dp = 8, .gbs = 8}},
    {"AT0128",
     "ZeRO 2 cannot be combined with a pipeline (pp 4)",
     {.gpus = 64, .stack = kCore, .gbs = 8},
     {.dp = 2, .tp = 8, .pp = 4, .zero = 2, .gbs = 8}},
    {"AT0129",
     "has no fp8 arithmetic",
     {.gpus = 8, .stack = kCore, .gbs = 8, .precision = Precision::fp8},
     {.tp = 8, .gbs = 8}},
    {"AT0130",
     "the stack megatron-2022 does not train in fp8",
     {.gpu = kH100, .gpus = 8, .gbs = 8, .precision = Precision::fp8},
     {.tp = 8, .gbs = 8}},
    {"AT0131",
     "the stack megatron-2021 has no flash attention",
     {.gpus = 8, .stack = "megatron-2021", .gbs = 8, .attention = engine::AttentionKind::flash},
     {.tp = 8, .gbs = 8}},
};

}  // namespace tuner
