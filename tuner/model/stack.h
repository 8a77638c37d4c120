// Stack: what a training software does, as data: which tensors a layer saves, which plans are
// legal, which transfers overlap, what state it keeps. Nothing about a stack stands in code.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "engine/plan/model_spec.h"
#include "engine/plan/parallel_plan.h"
#include "engine/plan/precision.h"
#include "engine/plan/workload.h"
#include "tuner/model/saved_tensor.h"

namespace tuner {

// Bytes a parameter of the model states that stay for the whole run, by precision of training.
struct StateBytes {
  double parameter = 2;
  double gradient = 4;
  double optimizer = 12;  // master weights and Adam's moments
};

struct Stack {
  std::string name;
  std::string title;
  std::string origin;

  std::vector<SavedTensor> saved;            // of one layer without recomputation
  std::vector<SavedTensor> saved_full;       // of one layer that is wholly recomputed: its input
  std::vector<SavedTensor> saved_embedding;  // on the stage with the embedding
  std::vector<SavedTensor> saved_head;       // on the stage with the head, apart from the logits
  std::vector<SavedTensor> saved_output;     // of a chunk whose output went to another stage
  StateBytes state_mixed;                    // bf16 and below
  StateBytes state_fp16;
  StateBytes state_f32;
  double gradient_message_bytes = 4;  // of a gradient in the reduction, mixed precision; f32: 4
  double fp8_weight_bytes = 0;        // extra copies of the weights in fp8 formats, a parameter
  double logit_bytes = 4;             // saved a logit on the last stage; 0 = the storage bytes
  double logit_workspace_bytes = 4;   // transient a logit
  double workspace_layers = 1;  // transient activation gradients, in widest tensors of a layer
  double gathered_layers = 2;   // ZeRO 3: layers whose whole parameters are there at once
  double runtime_bytes = 0;     // context, libraries, NCCL
  double fragmentation = 0;     // share of the dynamic memory lost by the allocator
  double memory_error = 0.1;    // 90 % band of the memory model, relative
  double bucket_bytes = 0;      // most of the data axis' buffers for gradients and weights

  // What is legal.
  bool tensor_parallel = true;
  bool pipeline_parallel = true;
  bool context_parallel = false;
  bool sequence_parallel = false;
  bool interleaving = false;
  bool interleaving_needs_three_stages = false;  // older releases: pp > 2
  bool interleaving_any_micro_batches = false;   // newer releases: micro-batches need not divide
  bool kv_head_replication = false;              // tp may exceed kv_heads
  bool uneven_stages = false;                    // first and last stage may differ
  bool any_layers_per_stage = false;             // every stage may differ
  bool pipeline_needs_full_batch = false;        // at least as many micro-batches as stages
  bool selective_recompute = false;
  bool partial_recompute = false;       // full:N
  std::vector<int> zero;                // legal without a pipeline
  std::vector<int> zero_with_pipeline;  // legal with pp > 1
  std::vector<engine::Precision> precisions;
  std::vector<engine::AttentionKind> attention;  // the first is the default
  int64_t vocab_multiple = 128;                  // the vocabulary is padded to this · tp

  // What overlaps, as switches; by how much stands in the rates.
  bool overlaps_tensor_backward = false;  // backward all-reduce behind the weight gradient
  bool overlaps_tensor_sharded = false;   // SP gathers and scatters behind the products
  bool overlaps_gradient_reduction = false;
  bool overlaps_parameter_gather = false;
  bool overlaps_pipeline = false;
  bool scatters_pipeline_messages = false;  // a message is split over tp and gathered again
  bool reduces_every_micro_batch = false;   // ZeRO 2 and 3 reduce gradients in each micro-batch

  // Free-form features the rates are keyed by.
  std::string rates;  // name of the stack in the rates file
  std::string notes;

  // What its users run unless they say otherwise; fills gaps of published rows.
  engine::Recompute default_recompute;
  int default_zero = 0;

  double gradient_message(engine::Precision precision) const {
    return precision == engine::Precision::f32 ? 4 : gradient_message_bytes;
  }
  const StateBytes& state(engine::Precision precision) const {
    if (precision == engine::Precision::f32) return state_f32;
    return precision == engine::Precision::fp16 ? state_fp16 : state_mixed;
  }
  engine::AttentionKind default_attention() const { return attention.front(); }
};

// Throws InputError with "did you mean".
Stack find_stack(const std::string& name);
std::vector<std::string> stack_names();
// Throws InputError with every problem, naming `source`. profiles/README.md has the schema.
Stack stack_from_json(const nlohmann::json& json, const std::string& source);

// The rows of `stack.saved` that apply to this model and attention kernel.
std::vector<SavedTensor> saved_tensors(const Stack& stack, const engine::ModelSpec& model,
                                       engine::AttentionKind attention);

}  // namespace tuner
