// ServeStack: what a serving software does, as data: how it batches, what memory it takes, which
// number formats it runs, and how its releases differ.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "engine/plan/model_spec.h"
#include "tuner/model/serve_plan.h"

namespace tuner {

// A span of versions that behave alike. The last one of a stack is what is predicted unless another
// is asked for.
struct ServeRelease {
  std::string name;                   // "2024"
  std::vector<std::string> versions;  // beginnings of the version texts of published runs
  // Whether attention of generated tokens reads a KV head once for all its query heads; else only
  // where their number is among `grouped_heads`.
  bool grouped_attention = true;
  std::vector<int64_t> grouped_heads;
  // A static batch is a mode of its own, which holds all sequences from the beginning.
  bool static_engine = false;
  // Requests a client sends one after another in the published runs, which do not state it.
  double waves = 10;

  bool reads_kv_once(int64_t query_heads_per_kv_head) const;
};

// A trait of a model that not every stack runs.
struct ModelTrait {
  std::string_view name;   // in the files: "experts"
  std::string_view title;  // "a mixture of experts"
  bool (*has)(const engine::ModelSpec& model);
};

// What the share of memory that a stack uses is of, and what it holds.
enum class ShareOf : uint8_t {
  all,         // of a GPU, for everything
  all_static,  // of a GPU, for everything but activations
  free,        // of what weights and libraries leave, for the KV cache
};
constexpr std::array<std::string_view, 3> kShareOfNames = {"all", "all_static", "free"};

struct ServeStack {
  std::string name;
  std::string title;
  std::string notes;
  std::string origin;
  std::vector<ServeRelease> releases;
  size_t release = 0;  // of them, the one that is predicted

  bool in_flight = true;       // sequences join and leave the running batch
  bool pipeline = true;        // pipeline parallelism is offered
  bool micro_batches = false;  // splits a static batch over the pipeline stages
  // Tokens of a part at most: a batch is split where the stages divide it, then halved as long as
  // it can be; 0 = into as many parts as there are stages.
  int64_t micro_batch_tokens = 0;
  bool divisible_vocab = false;   // the vocabulary must divide by tp
  int64_t vocab_multiple = 1;     // it is padded to this · tp
  int64_t prompt_tokens = 0;      // of one iteration at most, in-flight batching
  bool splits_prompts = false;    // fills iterations up with the beginning of a prompt
  int64_t sequences = 0;          // in flight at most
  int64_t page_tokens = 1;        // a sequence takes whole pages of the KV cache
  std::vector<ModelTrait> lacks;  // models with one of these it does not run
  std::vector<ServeFormat> weights, kv;
  // Architectures without the arithmetic of a format on which kernels widen such weights to 16 bits
  // before the products.
  std::map<ServeFormat, std::vector<std::string>> widened;
  // Published runs with fp8 or 4-bit float weights that do not state their KV cache keep it in fp8.
  bool low_precision_kv = false;

  // Memory of a GPU: context, libraries and buffers; the share that the software uses by default,
  // of what, and the name of its option.
  double base_bytes = 0;
  double peer_bytes = 0;  // buffers for each other GPU of a replica
  double memory_share = 0.9;
  ShareOf share_of = ShareOf::all;
  std::string share_option;
  double logit_bytes = 8;        // an element of the logits of a static batch
  double activation_copies = 1;  // live copies of a layer's activations
  double memory_error = 0;       // 90 % band of the memory model, relative

  const ServeRelease& current() const { return releases[release]; }
  // The scope of its constants as a whole, and of this release: "vllm", "vllm@2024".
  const std::string& scope() const { return name; }
  std::string release_scope() const { return name + "@" + current().name; }
};

// Throws InputError with every problem of the file.
ServeStack serve_stack_from_json(const nlohmann::json& json, const std::string& source);

// "NAME", or "NAME@RELEASE" for an older one. Throws InputError with "did you mean".
ServeStack find_serve_stack(const std::string& name);
std::vector<std::string> serve_stack_names();

}  // namespace tuner
