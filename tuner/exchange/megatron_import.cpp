// Megatron-Core's settings as a plan, a model and a workload.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "tuner/exchange/megatron.h"

namespace tuner {
namespace {

using engine::ModelSpec;
using engine::ParallelPlan;
using engine::Recompute;

constexpr int64_t kMost = int64_t{1} << 40;
constexpr int64_t kMostRanks = 1 << 20;

class SettingsReader {
 public:
  SettingsReader(const Settings& settings, Imported& imported)
      : s_(settings), out_(imported), problems_() {}

  void run() {
    plan();
    model();
    layers();
    recomputation();
    sharding();
    precision();
    if (!problems_.empty()) throw engine::InputError(problems_);
  }

 private:
  bool has(const char* name) const { return s_.contains(name) && !s_[name].is_null(); }
  bool on(const char* name) const {
    return has(name) && s_[name].is_boolean() && s_[name].get<bool>();
  }
  bool off(const char* name) const {
    return has(name) && s_[name].is_boolean() && !s_[name].get<bool>();
  }
  std::string text(const char* name) const {
    return has(name) && s_[name].is_string() ? s_[name].get<std::string>() : "";
  }
  int64_t integer(const char* name, int64_t fallback, int64_t low = 1, int64_t high = kMost) {
    if (!has(name)) return fallback;
    const Settings& value = s_[name];
    if (value.is_number_integer() && value.get<int64_t>() >= low && value.get<int64_t>() <= high)
      return value.get<int64_t>();
    problem(fmt::format("{} is {}, but must be an integer from {} to {}", name,
                        one_line(value.dump(-1, ' ', false, Settings::error_handler_t::replace)),
                        low, high));
    return fallback;
  }
  int degree(const char* name) { return static_cast<int>(integer(name, 1, 1, kMostRanks)); }
  double number(const char* name, double fallback) {
    if (!has(name)) return fallback;
    if (s_[name].is_number()) return s_[name].get<double>();
    problem(fmt::format("{} must be a number", name));
    return fallback;
  }
  void problem(const std::string& what) { problems_.push_back(out_.source + ": " + what); }

  void plan() {
    ParallelPlan& plan = out_.plan;
    plan.tp = degree("tensor_model_parallel_size");
    plan.pp = degree("pipeline_model_parallel_size");
    plan.cp = degree("context_parallel_size");
    plan.ep = degree("expert_model_parallel_size");
    if (const int ulysses = degree("ds_sequence_parallel_size"); ulysses > 1) {
      plan.cp *= ulysses;
      out_.remarks.push_back(
          "sequences are split by all-to-all (Ulysses); they are predicted as context parallelism");
    }
    plan.sp = on("sequence_parallel");
    plan.mbs = integer("micro_batch_size", 1);
    if (!has("micro_batch_size"))
      out_.remarks.push_back("the file has no micro-batch size: 1 is taken");
    out_.has_batch = has("global_batch_size");
    plan.gbs = integer("global_batch_size", 1);
    out_.seq = integer("seq_length", 0);
    out_.options.distribute_saved_activations = on("distribute_saved_activations");
    out_.options.tensor_overlap = on("tp_comm_overlap");
    out_.options.offload_activations = on("cpu_offloading");
  }

  void activation(ModelSpec& model) {
    using engine::ActivationKind;
    model.activation = off("bias_gelu_fusion") ? ActivationKind::gelu : ActivationKind::gelu_tanh;
    if (on("swiglu") || text("activation_func") == "swiglu") {
      model.activation = ActivationKind::silu;
      model.gated_mlp = true;
    }
    if (on("squared_relu")) {
      model.activation = ActivationKind::relu;
      out_.remarks.push_back("squared ReLU is predicted as ReLU");
    }
  }

  void positions(ModelSpec& model) {
    model.positions = integer("max_position_embeddings", out_.seq);
    const std::string type = text("position_embedding_type");
    model.position = type == "rope" || type == "yarn" ? engine::PositionKind::rotary
                     : type == "none"                 ? engine::PositionKind::none
                                                      : engine::PositionKind::learned;
    model.rotary_base = number("rotary_base", 10000);
    model.rotary_fraction = number("rotary_percent", 1);
    if (model.position == engine::PositionKind::rotary) return;
    model.rotary_base = 10000;
    model.rotary_fraction = 1;
  }

  void model() {
    if (!has("num_layers") || !has("hidden_size") || !has("num_attention_heads")) return;
    ModelSpec model;
    model.name = "the model of " + out_.source;
    model.origin = out_.source;
    model.layers = integer("num_layers", 1);
    model.hidden = integer("hidden_size", 1);
    model.heads = integer("num_attention_heads", 1);
    model.kv_heads = integer("num_query_groups", model.heads);
    model.head_dim = integer("kv_channels", std::max<int64_t>(1, model.hidden / model.heads));
    positions(model);
    std::string norm = text("normalization");
    std::transform(norm.begin(), norm.end(), norm.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    model.norm = norm == "rmsnorm" ? engine::NormKind::rms_norm : engine::NormKind::layer_norm;
    model.norm_epsilon = number("layernorm_epsilon", 1e-5);
    activation(model);
    model.ffn_hidden = integer("ffn_hidden_size", default_ffn(model));
    model.tied_embeddings = !off("share_embeddings_and_output_weights");
    const bool biases = !off("add_bias_linear");
    model.attention_out_bias = model.mlp_bias = biases;
    model.qkv_bias = biases || on("add_qkv_bias");
    model.qk_norm = on("qk_layernorm");
    model.dropout = number("attention_dropout", 0.1) > 0 || number("hidden_dropout", 0.1) > 0;
    model.vocab = integer("vocab_size", default_vocab());
    experts(model);
    for (const std::string& what : engine::shape_problems(model)) problem(what);
    out_.model = std::move(model);
  }

  static int64_t default_ffn(const ModelSpec& model) {
    return model.gated_mlp ? 4 * model.hidden * 2 / 3 / 64 * 64 : 4 * model.hidden;
  }

  int64_t default_vocab() {
    if (has("vocab_size")) return 0;
    const std::string tokenizer = text("tokenizer_type");
    const int64_t vocab = tokenizer.starts_with("Llama2") ? 32000 : 50257;
    out_.remarks.push_back(
        fmt::format("the file does not say the size of the vocabulary: {} is taken", vocab));
    return vocab;
  }

  void experts(ModelSpec& model) {
    if (on("multi_latent_attention"))
      model.not_modelled.push_back("latent attention whose ranks are not read");
    model.moe.experts = integer("num_moe_experts", 0, 0);
    if (model.moe.experts < 2) model.moe.experts = 0;
    if (model.moe.experts == 0) return;
    model.moe.per_token = integer("moe_router_topk", 2);
    model.moe.ffn_hidden = integer("moe_ffn_hidden_size", model.ffn_hidden);
  }

  void layers() {
    ParallelPlan& plan = out_.plan;
    const int64_t layers = out_.model ? out_.model->layers : 0;
    const auto needs_layers = [&](const char* name) {
      if (has(name) && layers == 0)
        problem(fmt::format("{} needs the number of layers, which the file does not say", name));
      return has(name) && layers > 0;
    };
    plan.vpp = degree("virtual_pipeline_model_parallel_size");
    if (needs_layers("num_layers_per_virtual_pipeline_stage")) layers_per_chunk(layers);
    if (needs_layers("pipeline_model_parallel_layout")) {
      try {
        read_pipeline_layout(text("pipeline_model_parallel_layout"), layers, plan, out_.source);
      } catch (const engine::InputError& error) {
        problems_.insert(problems_.end(), error.problems().begin(), error.problems().end());
      }
      return;
    }
    uneven_ends(layers);
  }

  // The flag counts layers of a chunk; plans count chunks.
  void layers_per_chunk(int64_t layers) {
    ParallelPlan& plan = out_.plan;
    const int64_t all = layers + embedding_counts() + loss_counts();
    const int64_t chunk = integer("num_layers_per_virtual_pipeline_stage", 1);
    if (all % plan.pp != 0 || all / plan.pp % chunk != 0)
      return problem(fmt::format(
          "num_layers_per_virtual_pipeline_stage {} does not divide the layers of a stage, {} / {}",
          chunk, all, plan.pp));
    plan.vpp = static_cast<int>(all / plan.pp / chunk);
  }

  int64_t embedding_counts() const { return on("account_for_embedding_in_pipeline_split") ? 1 : 0; }
  int64_t loss_counts() const { return on("account_for_loss_in_pipeline_split") ? 1 : 0; }

  // First and last stages with layers of their own number.
  void uneven_ends(int64_t layers) {
    ParallelPlan& plan = out_.plan;
    const int64_t first = integer("num_layers_in_first_pipeline_stage", 0);
    const int64_t last = integer("num_layers_in_last_pipeline_stage", 0);
    const int64_t counted = embedding_counts() + loss_counts();
    if (first + last + counted == 0 || layers == 0 || plan.pp < 2) return;
    const int inner = plan.pp - (first > 0 ? 1 : 0) - (last > 0 ? 1 : 0);
    const int64_t rest = layers + counted - first - last;
    if (rest < 0 || (inner == 0 ? rest != 0 : rest % inner != 0))
      return problem(fmt::format(
          "the {} layers that the first and the last stage leave do not divide by the {} stages "
          "between them",
          rest, inner));
    const auto share = static_cast<int>(inner == 0 ? 0 : rest / inner);
    plan.layers_per_stage.assign(static_cast<size_t>(plan.pp), share);
    if (first > 0) plan.layers_per_stage.front() = static_cast<int>(first);
    if (last > 0) plan.layers_per_stage.back() = static_cast<int>(last);
    plan.layers_per_stage.front() -= static_cast<int>(embedding_counts());
    plan.layers_per_stage.back() -= static_cast<int>(loss_counts());
  }

  void recomputation() {
    const std::string granularity = text("recompute_granularity");
    const std::string method = text("recompute_method");
    Recompute& recompute = out_.plan.recompute;
    if (granularity.empty()) return;
    if (granularity == "selective") return selective();
    if (granularity != "full")
      return problem(
          fmt::format("recompute_granularity '{}' is not understood; it is selective or "
                      "full",
                      one_line(granularity)));
    recompute.mode = Recompute::Mode::full;
    const int64_t layers = integer("recompute_num_layers", 0, 0, 1 << 20);
    if (method == "block") {
      if (layers == 0) problem("recompute_method block needs recompute_num_layers of at least 1");
      recompute.layers = static_cast<int>(layers);
    } else if (method != "uniform") {
      problem("full recomputation needs recompute_method uniform or block");
    } else if (layers > 1) {
      out_.remarks.push_back(fmt::format(
          "units of {} layers are recomputed as one; predicted is a unit for every layer", layers));
    }
  }

  void selective() {
    out_.plan.recompute.mode = Recompute::Mode::selective;
    if (has("recompute_method") || integer("recompute_num_layers", 0, 0) > 0)
      problem(
          "selective recomputation takes neither recompute_method nor recompute_num_layers; leave "
          "them out");
    if (!has("recompute_modules")) return;
    const Settings core = Settings::array({"core_attn"});
    if (s_["recompute_modules"] == core) return;
    out_.remarks.push_back(
        "selective recomputation of other modules than core_attn is predicted as that of "
        "core_attn");
  }

  void sharding() {
    int& zero = out_.plan.zero;
    if (on("use_distributed_optimizer")) zero = 1;
    if (on("use_megatron_fsdp")) {
      const std::string strategy = text("data_parallel_sharding_strategy");
      const std::vector<std::string> names = {"no_shard", "optim", "optim_grads",
                                              "optim_grads_params"};
      const auto found = std::find(names.begin(), names.end(), strategy);
      if (found == names.end() && !strategy.empty())
        problem(engine::unknown_name("data_parallel_sharding_strategy", one_line(strategy), names,
                                     "it is one of no_shard, optim, optim_grads and "
                                     "optim_grads_params"));
      zero = strategy.empty() ? 3 : static_cast<int>(found - names.begin());
    }
    if (has("zero_stage")) zero = static_cast<int>(integer("zero_stage", 0, 0, 3));
  }

  void precision() {
    using engine::Precision;
    out_.precision = on("bf16") ? Precision::bf16 : on("fp16") ? Precision::fp16 : Precision::f32;
    if (on("bf16") && on("fp16")) problem("bf16 and fp16 exclude each other");
    if (!text("fp8").empty())
      out_.precision = text("fp8_recipe") == "mxfp8" ? Precision::mxfp8 : Precision::fp8;
    if (!text("fp4").empty()) out_.precision = Precision::nvfp4;
    const std::string backend = text("attention_backend");
    if (backend == "flash" || backend == "fused") out_.attention = engine::AttentionKind::flash;
    if (backend == "unfused" || backend == "local") out_.attention = engine::AttentionKind::unfused;
  }

  const Settings& s_;
  Imported& out_;
  std::vector<std::string> problems_;
};

}  // namespace

void read_megatron_settings(const Settings& settings, Imported& imported) {
  SettingsReader(settings, imported).run();
}

}  // namespace tuner
