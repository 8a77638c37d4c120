// Published serving runs as scenarios and plans.
#include "tuner/validate/serve_row.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <optional>
#include <tuple>

#include "engine/base/errors.h"
#include "tuner/model/presets.h"

namespace tuner {

namespace {

// Why a row cannot be predicted.
struct Skip {
  std::string reason;
};

constexpr const char* kNeeded[] = {"gpu_key", "tp",        "layers",     "hidden",
                                   "heads",   "input_len", "output_len", "batching"};

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// Families whose attention and MLP read one input and reduce once.
bool is_parallel_family(const std::string& model) {
  const std::string name = lower(model);
  return name.starts_with("falcon") || name.starts_with("gpt-j") || name.starts_with("gpt-neox") ||
         name.starts_with("palm");
}

// All stacks, read once.
const std::vector<ServeStack>& all_stacks() {
  static const std::vector<ServeStack> stacks = [] {
    std::vector<ServeStack> list;
    for (const std::string& name : serve_stack_names()) list.push_back(find_serve_stack(name));
    return list;
  }();
  return stacks;
}

// The release whose versions the text begins with; of `name`d stacks only, unless it is empty.
std::optional<ServeStack> stack_of_version(const std::string& name, const std::string& version) {
  std::optional<ServeStack> best;
  size_t longest = 0;
  for (const ServeStack& stack : all_stacks()) {
    if (!name.empty() && stack.name != name) continue;
    for (size_t i = 0; i < stack.releases.size(); ++i)
      for (const std::string& begin : stack.releases[i].versions)
        if (version.starts_with(begin) && begin.size() > longest) {
          longest = begin.size();
          best = stack;
          best->release = i;
        }
  }
  return best;
}

// Models whose attention the columns cannot tell, nor predictions cover.
constexpr std::pair<std::string_view, const char*> kUncovered[] = {
    {"qwen3.5", "linear attention in most layers"},
    {"qwen3-next", "linear attention in most layers"},
    {"glm-5", "sparse attention with an indexer"},
    {"deepseek-v3.2", "sparse attention with an indexer"}};

// The known model whose name the row's begins with: "Kimi-K2.5" has the shape of kimi-k2.
std::optional<engine::ModelSpec> preset_of(std::string name) {
  std::replace(name.begin(), name.end(), ' ', '-');
  std::string best;
  for (const std::string& known : model_names())
    if (name.starts_with(known) && known.size() > best.size()) best = known;
  if (best.empty()) return std::nullopt;
  return find_model(best);
}

class RowReader {
 public:
  RowReader(const CsvTable& csv, size_t row, const ServeRatesTable& rates)
      : csv_(csv), row_(row), rates_(rates) {}

  ServeRow read() {
    out_.id = text("id");
    out_.source = text("source");
    out_.gpu = text("gpu_key");
    out_.stack = text("stack_key");
    out_.model = text("model");
    if (text("quality") == "D") throw Skip{"the row contradicts itself"};
    read_model();
    read_machine();
    read_workload();
    read_formats();
    read_measured();
    use_rates(out_.scenario, rates_);
    return std::move(out_);
  }

 private:
  const std::string& text(const std::string& name) const { return csv_.cell(row_, name); }
  std::optional<int64_t> integer(const std::string& name) const {
    const auto value = csv_.number(row_, name);
    if (!value) return std::nullopt;
    if (*value < 0 || *value > 1e9 || *value != std::floor(*value))
      throw engine::InputError(fmt::format("{}: row {}: {} must be a whole number, not {}",
                                           csv_.source(), out_.id, name, *value));
    return static_cast<int64_t>(*value);
  }
  int64_t needed(const std::string& name) const {
    const auto value = integer(name);
    if (!value || *value < 1) throw Skip{fmt::format("{} is not stated", name)};
    return *value;
  }
  int64_t assumed(const std::string& name, int64_t fallback) {
    const auto value = integer(name);
    if (value && *value >= 1) return *value;
    out_.assumed.push_back(name);
    return fallback;
  }

  void read_model() {
    if (integer("attn_dp").value_or(1) > 1) throw Skip{"attention data parallelism"};
    for (const auto& [family, reason] : kUncovered)
      if (lower(out_.model).starts_with(family)) throw Skip{reason};
    if (integer("experts").value_or(0) > 1)
      read_mixture();
    else
      read_dense();
    if (const auto problems = engine::shape_problems(out_.scenario.model); !problems.empty())
      throw Skip{problems.front()};
  }

  // The columns do not tell latent attention, windows or shared experts: a model that is known has
  // them from there.
  void read_mixture() {
    engine::ModelSpec& model = out_.scenario.model;
    const auto known = preset_of(lower(out_.model));
    const int64_t layers = needed("layers"), hidden = needed("hidden");
    const int64_t experts = needed("experts"), per_token = needed("topk");
    if (known && known->layers == layers && known->hidden == hidden &&
        known->moe.experts == experts && known->moe.per_token == per_token) {
      model = *known;
      model.positions = std::max(model.positions, needed("input_len") + needed("output_len"));
      return;
    }
    if (!integer("head_dim")) throw Skip{"head_dim is not stated"};
    read_shape();
    model.gated_mlp = true;
    model.moe.experts = experts;
    model.moe.per_token = per_token;
    model.moe.ffn_hidden = model.ffn_hidden;
  }

  void read_shape() {
    engine::ModelSpec& model = out_.scenario.model;
    model.name = out_.model;
    model.origin = csv_.source();
    model.layers = needed("layers");
    model.hidden = needed("hidden");
    model.heads = needed("heads");
    model.kv_heads = assumed("kv_heads", model.heads);
    model.head_dim = assumed("head_dim", model.hidden / model.heads);
    model.ffn_hidden = assumed("ffn", 4 * model.hidden);
    model.vocab = assumed("vocab", 51200);
    model.positions = needed("input_len") + needed("output_len");
    model.position = engine::PositionKind::rotary;
    model.tied_embeddings = false;
    model.qkv_bias = model.attention_out_bias = model.mlp_bias = false;
    model.parallel_block = is_parallel_family(model.name);
  }

  void read_dense() {
    read_shape();
    engine::ModelSpec& model = out_.scenario.model;
    // The number of parameters tells whether the MLP has two matrices or three, and how many KV
    // heads there are where that is not stated and one for each query head makes too many.
    const auto parameters = csv_.number(row_, "params_b");
    if (!parameters) throw Skip{"params_b is not stated"};
    const double stated = *parameters * 1e9;
    const auto misses = [&](bool gated, int64_t kv_heads) {
      model.gated_mlp = gated;
      model.kv_heads = kv_heads;
      return std::abs(static_cast<double>(engine::parameter_count(model)) / stated - 1);
    };
    constexpr double kRounding = 0.02;
    int64_t kv_heads = model.kv_heads;
    bool gated = misses(true, kv_heads) < misses(false, kv_heads);
    double least = misses(gated, kv_heads);
    if (!integer("kv_heads") && least > kRounding)
      for (int64_t fewer = model.heads / 2; fewer >= 1; fewer /= 2)
        for (const bool three : {false, true})
          if (const double miss = misses(three, fewer); miss < least && model.heads % fewer == 0)
            std::tie(least, kv_heads, gated) = std::tuple(miss, fewer, three);
    model.gated_mlp = gated;
    model.kv_heads = kv_heads;
  }

  void read_machine() {
    out_.plan.tp = static_cast<int>(needed("tp"));
    out_.plan.pp = static_cast<int>(assumed("pp", 1));
    const int gpus = out_.plan.tp * out_.plan.pp;
    if (const auto stated = integer("n_gpus"); stated && *stated != gpus)
      throw Skip{fmt::format("{} GPUs, but tp · pp = {}", *stated, gpus)};
    try {
      out_.scenario.cluster = find_cluster(out_.gpu, gpus);
    } catch (const engine::InputError&) {
      throw Skip{fmt::format("no profile of the GPU '{}'", out_.gpu.substr(0, 40))};
    }
    const engine::ModelSpec& model = out_.scenario.model;
    if (model.heads % out_.plan.tp != 0 || out_.plan.pp > model.layers)
      throw Skip{"tp does not divide the heads, or there are more stages than layers"};
    if (out_.is_mixture())
      out_.plan.ep = static_cast<int>(std::max<int64_t>(1, integer("ep").value_or(1)));
    if (out_.plan.tp % out_.plan.ep != 0) throw Skip{"ep does not divide tp"};
    const std::string& version = text("framework_version");
    auto stack = stack_of_version(out_.stack, version);
    if (!stack) {
      out_.assumed.push_back("framework_version");
      const auto names = serve_stack_names();
      const bool known = std::find(names.begin(), names.end(), out_.stack) != names.end();
      const auto near = engine::did_you_mean(out_.stack, names);
      if (!known) out_.assumed.push_back("stack_key");
      stack = find_serve_stack(known ? out_.stack : near.empty() ? "vllm" : near.front());
    }
    out_.scenario.stack = *stack;
  }

  void read_workload() {
    ServeWorkload& work = out_.scenario.workload;
    work.input = needed("input_len");
    work.output = needed("output_len");
    const bool is_static = text("batching") == "static";
    if (!is_static && text("batching") != "inflight")
      throw Skip{fmt::format("batching '{}'", text("batching").substr(0, 40))};
    const auto batch = integer("batch");
    out_.plan.batch = out_.scenario.stack.sequences;
    if (is_static) {
      work.arrival = Arrival::static_batch;
      out_.plan.batch = needed("batch");
    } else if (!batch || *batch < 1) {
      work.arrival = Arrival::saturated;
    } else {
      work.arrival = Arrival::closed_loop;
      work.concurrency = static_cast<double>(*batch);
      work.waves = static_cast<double>(integer("waves").value_or(0));
      if (work.waves < 1) {
        work.waves = out_.scenario.stack.current().waves;
        out_.assumed.push_back("waves");
      }
    }
  }

  ServeFormat format(const std::string& name, ServeFormat fallback) {
    const std::string& stated = text(name);
    if (stated.empty()) {
      out_.assumed.push_back(name);
      return fallback;
    }
    const auto found = std::find(kServeFormatNames.begin(), kServeFormatNames.end(), stated);
    if (found == kServeFormatNames.end())
      throw Skip{fmt::format("{} '{}'", name, stated.substr(0, 40))};
    return static_cast<ServeFormat>(found - kServeFormatNames.begin());
  }

  void read_formats() {
    ServeFormat& weights = out_.plan.weights;
    weights = format("weight_precision", ServeFormat::fp16);
    // Tables say fp4 of both kinds; the known checkpoint tells which one.
    if (weights == ServeFormat::fp4 &&
        out_.scenario.model.weight_format == name_of(ServeFormat::mxfp4))
      weights = ServeFormat::mxfp4;
    const bool low = weights == ServeFormat::fp8 || is_float4(weights);
    out_.plan.kv =
        format("kv_precision",
               low && out_.scenario.stack.low_precision_kv ? ServeFormat::fp8 : ServeFormat::fp16);
  }

  void add(ServeMetric metric, std::optional<double> value) {
    if (value && *value > 0) out_.measured.emplace_back(metric, *value);
  }

  void read_measured() {
    const std::string& quality = text("quality");
    if (quality == "OOM" || quality == "FAIL") {
      if (quality == "FAIL") throw Skip{"failed for a reason that is not stated"};
      out_.measured.emplace_back(ServeMetric::fits, 0);
      return;
    }
    const auto seconds = [&](const char* column) {
      auto value = csv_.number(row_, column);
      if (value) *value /= 1000;
      return value;
    };
    auto latency = seconds("latency_ms");
    const auto ttft = seconds("ttft_ms"), tpot = seconds("tpot_ms");
    const ServeWorkload& work = out_.scenario.workload;
    if (!latency && ttft && tpot) latency = *ttft + static_cast<double>(work.output - 1) * *tpot;
    out_.counts_input = text("tokens_per_s_kind") == "input+output";
    // A static batch starts and ends together: its throughput is its latency.
    const auto tokens = csv_.number(row_, "tokens_per_s_per_gpu");
    if (!latency && tokens && *tokens > 0 && work.arrival == Arrival::static_batch)
      latency = static_cast<double>(out_.plan.batch) *
                static_cast<double>(work.output + (out_.counts_input ? work.input : 0)) /
                (*tokens * out_.plan.gpus());
    add(ServeMetric::latency_seconds, latency);
    add(ServeMetric::ttft_seconds, ttft);
    add(ServeMetric::tpot_seconds, tpot);
    add(ServeMetric::tokens_per_second_per_gpu, tokens);
    if (out_.measured.empty()) throw Skip{"nothing was measured"};
    out_.measured.emplace_back(ServeMetric::fits, 1);
  }

  const CsvTable& csv_;
  size_t row_;
  const ServeRatesTable& rates_;
  ServeRow out_;
};

}  // namespace

bool holds_serving_runs(const CsvTable& csv) {
  return csv.has_column("output_len") && csv.has_column("batching");
}

ServeRows read_serving_runs(const CsvTable& csv, const ServeRatesTable& table) {
  std::vector<std::string> missing;
  for (const char* name : kNeeded)
    if (!csv.has_column(name)) missing.emplace_back(name);
  if (!missing.empty())
    throw engine::InputError(
        fmt::format("{}: the columns {} are missing; a table of serving runs needs them",
                    csv.source(), fmt::join(missing, ", ")));
  ServeRows rows;
  for (size_t row = 0; row < csv.rows(); ++row) try {
      rows.rows.push_back(RowReader(csv, row, table).read());
    } catch (const Skip& skip) {
      rows.skipped.push_back({csv.cell(row, "id"), skip.reason});
    }
  return rows;
}

double value_of(ServeMetric metric, const ServeRow& row, const ServePrediction& p) {
  switch (metric) {
    case ServeMetric::latency_seconds:
      return p.latency_seconds;
    case ServeMetric::ttft_seconds:
      return p.ttft_seconds;
    case ServeMetric::tpot_seconds:
      return p.tpot_seconds;
    case ServeMetric::tokens_per_second_per_gpu: {
      const auto output = static_cast<double>(row.scenario.workload.output);
      const auto input = static_cast<double>(row.scenario.workload.input);
      return p.tokens_per_second_per_gpu * (row.counts_input ? (input + output) / output : 1);
    }
    case ServeMetric::fits:
      return p.fits ? 1 : 0;
  }
  return 0;
}

}  // namespace tuner
