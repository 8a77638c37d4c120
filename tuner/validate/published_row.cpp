// Published runs as scenarios and plans.
#include "tuner/validate/published_row.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>

#include "engine/base/errors.h"
#include "engine/base/units.h"
#include "engine/plan/schedule.h"
#include "tuner/model/data_files.h"
#include "tuner/space/rules.h"
#include "tuner/space/search_space.h"
#include "tuner/validate/published_cluster.h"

namespace tuner {

using engine::ParallelPlan;
using engine::Precision;

namespace {

// Why a row cannot be predicted.
struct Skip {
  std::string reason;
};

class RowReader {
 public:
  RowReader(const CsvTable& csv, size_t row, const RatesTable& rates)
      : csv_(csv), row_(row), rates_(rates) {}

  PublishedRow read() {
    out_.id = csv_.cell(row_, "id");
    out_.source = csv_.cell(row_, "source");
    out_.gpu = csv_.cell(row_, "gpu_key");
    out_.stack = csv_.cell(row_, "stack_key");
    read_model();
    read_machine();
    read_workload();
    read_plan();
    for (const engine::Violation& violation : scenario_violations(out_.scenario))
      throw Skip{fmt::format("{} {}", violation.code, violation.message)};
    out_.scenario.rates = rates_.resolve(out_.scenario.cluster, out_.scenario.stack,
                                         out_.scenario.workload.precision);
    return std::move(out_);
  }

 private:
  bool empty(const std::string& name) const { return csv_.cell(row_, name).empty(); }
  const std::string& text(const std::string& name) const { return csv_.cell(row_, name); }

  // A whole number, or the one in front of a remark ("50257 padded to …"), which counts as assumed.
  std::optional<int64_t> integer(const std::string& name) {
    const std::string& cell = text(name);
    if (cell.empty()) return std::nullopt;
    double value = 0;
    const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
    const bool whole =
        error == std::errc{} && value >= 0 && value <= 1e9 && value == std::floor(value);
    const bool remark = end != cell.data() + cell.size();
    if (!whole || (remark && *end != ' '))
      throw Skip{fmt::format("{} '{}' is no whole number", name, cell.substr(0, 40))};
    if (remark) out_.assumed.push_back(name);
    return static_cast<int64_t>(value);
  }
  int64_t needed(const std::string& name) {
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
    if (integer("moe_experts").value_or(0) > 0) throw Skip{"mixture of experts"};
    engine::ModelSpec& model = out_.scenario.model;
    model.name = text("model");
    model.origin = csv_.source();
    model.layers = needed("layers");
    model.hidden = needed("hidden");
    model.heads = needed("heads");
    model.kv_heads = assumed("kv_heads", model.heads);
    model.head_dim = std::max<int64_t>(1, model.hidden / model.heads);
    model.ffn_hidden = assumed("ffn_hidden", 4 * model.hidden);
    model.gated_mlp = integer("gated_mlp").value_or(0) == 1;
    model.vocab = assumed("vocab", model.gated_mlp ? 128256 : 51200);
    if (model.gated_mlp) {
      model.norm = engine::NormKind::rms_norm;
      model.activation = engine::ActivationKind::silu;
      model.position = engine::PositionKind::rotary;
      model.tied_embeddings = model.dropout = false;
      model.qkv_bias = model.attention_out_bias = model.mlp_bias = false;
    } else {
      model.positions = needed("seq_len");
    }
    out_.shape =
        fmt::format("{}x{}x{}x{}", model.layers, model.hidden, model.heads, model.ffn_hidden);
  }

  void read_machine() {
    const int gpus = static_cast<int>(needed_gpus());
    try {
      out_.scenario.cluster = published_cluster(out_.gpu, gpus, text("interconnect"));
    } catch (const engine::InputError&) {
      throw Skip{fmt::format("no profile of the GPU '{}'", out_.gpu.substr(0, 40))};
    }
    read_stack();
    const std::string& date = text("date");
    if (date.size() >= 7 && std::isdigit(static_cast<unsigned char>(date[0])))
      out_.scenario.software_year =
          std::atof(date.substr(0, 4).c_str()) + (std::atof(date.substr(5, 2).c_str()) - 0.5) / 12;
  }

  // A stack that is not ours works like the one whose features are nearest, but its constants are
  // unknown: those of no stack in particular.
  void read_stack() {
    const std::vector<std::string> names = stack_names();
    if (std::find(names.begin(), names.end(), out_.stack) != names.end()) {
      out_.scenario.stack = find_stack(out_.stack);
      return;
    }
    out_.assumed.push_back("stack_key");
    const bool whole_layers = integer("tp").value_or(1) == 1 && integer("pp").value_or(1) == 1;
    if (integer("zero").value_or(0) >= 2 && whole_layers)
      out_.scenario.stack = find_stack("pytorch-fsdp");
    else if (text("attention_key") == "unfused")
      out_.scenario.stack = find_stack(integer("zero").value_or(0) >= 1 ? "megatron-deepspeed-2022"
                                                                        : "megatron-2022");
    else
      out_.scenario.stack = find_stack("megatron-core");
    out_.scenario.stack.rates.clear();
  }

  // Memory tables leave the number of GPUs out where the degrees give it.
  int64_t needed_gpus() {
    if (const auto gpus = integer("num_gpus"); gpus && *gpus >= 1) return *gpus;
    if (empty("tp") || empty("pp")) throw Skip{"num_gpus is not stated"};
    out_.assumed.push_back("num_gpus");
    return needed("tp") * needed("pp") * integer("cp").value_or(1) *
           std::max<int64_t>(1, integer("dp").value_or(1));
  }

  void read_workload() {
    engine::Workload& work = out_.scenario.workload;
    work.seq = needed("seq_len");
    const std::string& precision = text("precision");
    const auto found =
        std::find(engine::kPrecisionNames.begin(), engine::kPrecisionNames.end(), precision);
    if (found != engine::kPrecisionNames.end()) {
      work.precision = static_cast<Precision>(found - engine::kPrecisionNames.begin());
    } else {
      if (!precision.empty()) throw Skip{fmt::format("precision '{}'", precision.substr(0, 40))};
      out_.assumed.push_back("precision");
      work.precision = Precision::bf16;
    }
    const std::string& attention = text("attention_key");
    if (attention == "flash" || attention == "unfused") {
      work.attention =
          attention == "flash" ? engine::AttentionKind::flash : engine::AttentionKind::unfused;
    } else {
      out_.assumed.push_back("attention_key");
      work.attention = out_.scenario.stack.default_attention();
    }
  }

  void read_plan() {
    const Scenario& s = out_.scenario;
    ParallelPlan plan;
    plan.tp = static_cast<int>(needed("tp"));
    plan.pp = static_cast<int>(needed("pp"));
    plan.cp = static_cast<int>(assumed("cp", 1));
    const int64_t model_parallel = int64_t{plan.tp} * plan.pp * plan.cp;
    if (s.cluster.gpus % model_parallel != 0)
      throw Skip{fmt::format("{} GPUs are no multiple of tp · pp · cp = {}", s.cluster.gpus,
                             model_parallel)};
    if (empty("num_gpus") && empty("dp")) throw Skip{"neither num_gpus nor dp is stated"};
    plan.dp = static_cast<int>(assumed("dp", s.cluster.gpus / model_parallel));
    if (plan.dp * model_parallel != s.cluster.gpus)
      throw Skip{fmt::format("dp {} · tp · pp · cp is {}, not {} GPUs", plan.dp,
                             plan.dp * model_parallel, s.cluster.gpus)};
    if (empty("seq_parallel")) out_.assumed.push_back("seq_parallel");
    plan.sp = integer("seq_parallel").value_or(plan.tp > 1 && s.stack.sequence_parallel) == 1;
    read_recompute(plan);
    if (empty("zero")) out_.assumed.push_back("zero");
    plan.zero = static_cast<int>(integer("zero").value_or(s.stack.default_zero));
    if (plan.zero > 3) throw Skip{fmt::format("ZeRO stage {}", plan.zero)};
    // A global batch that is not stated: one micro-batch a stage, enough for memory.
    out_.scenario.workload.gbs = 0;
    if (const auto gbs = integer("gbs"); gbs && *gbs >= 1)
      plan.gbs = *gbs;
    else
      plan.gbs = 0;
    open_choices(plan);
  }

  void read_recompute(ParallelPlan& plan) {
    const std::string& key = text("recompute_key");
    if (key == "other") throw Skip{"recomputation of single operators or offload"};
    if (key.empty()) {
      out_.assumed.push_back("recompute_key");
      plan.recompute = out_.scenario.stack.default_recompute;
    } else {
      try {
        plan.recompute = engine::parse_recompute(key);
      } catch (const engine::InputError&) {
        throw Skip{fmt::format("recomputation '{}'", key.substr(0, 40))};
      }
    }
  }

  // Every micro-batch and interleaving that the row leaves open.
  void open_choices(ParallelPlan plan) {
    std::vector<int64_t> sizes = {1, 2, 4, 8};
    if (const auto mbs = integer("mbs"); mbs && *mbs >= 1)
      sizes = {*mbs};
    else
      out_.assumed.push_back("mbs");
    auto vpp = integer("vpp");
    if (const auto layers = integer("vpp_layers_per_chunk"); !vpp && layers && *layers >= 1)
      vpp = out_.scenario.model.layers / (plan.pp * *layers);
    const bool open = !(vpp && *vpp >= 1) && plan.pp > 1;
    if (open) out_.assumed.push_back("vpp");
    for (const int64_t mbs : sizes) {
      plan.mbs = mbs;
      const bool batch_known = plan.gbs > 0;
      ParallelPlan sized = plan;
      if (!batch_known) sized.gbs = mbs * plan.dp * plan.pp;
      if (sized.gbs % (mbs * sized.dp) != 0) continue;
      add_interleaving(sized,
                       open ? deepest_interleaving(sized) : static_cast<int>(vpp.value_or(1)));
      if (!batch_known && out_.assumed.empty()) out_.assumed.push_back("gbs");
    }
    if (out_.plans.empty())
      throw Skip{"the global batch is no multiple of mbs · dp, or the layers do not divide"};
    out_.scenario.workload.gbs = out_.plans.front().gbs;
  }

  // What people choose who do not say so: the deepest interleaving up to six chunks.
  int deepest_interleaving(const ParallelPlan& plan) const {
    constexpr int kDeepest = 6;
    const Scenario& s = out_.scenario;
    for (int vpp = kDeepest; vpp > 1; --vpp) {
      ParallelPlan other = plan;
      other.vpp = vpp;
      const bool layers = s.model.layers % (int64_t{plan.pp} * vpp) == 0 ||
                          (s.model.layers % plan.pp != 0 && !lighter_ends(plan.pp, vpp).empty());
      if (s.stack.interleaving && layers && micro_batch_violation(s, other).empty()) return vpp;
    }
    return 1;
  }

  void add_interleaving(ParallelPlan plan, int vpp) {
    const Scenario& s = out_.scenario;
    plan.vpp = vpp;
    if (s.model.layers % (int64_t{plan.pp} * vpp) != 0) {
      plan.layers_per_stage = vpp == 1 ? balanced_layers(plan.pp) : lighter_ends(plan.pp, vpp);
      if (plan.layers_per_stage.empty()) return;
    }
    if (vpp > 1 && engine::interleave_group({plan.pp, vpp, plan.micro_batches()}) == 0) return;
    out_.plans.push_back(normalized(s, plan));
  }

  // The row does not say which stages hold fewer layers: the ends do, which hold more beside them.
  std::vector<int> balanced_layers(int pp) const {
    const int layers = static_cast<int>(out_.scenario.model.layers);
    if (layers < pp) return {};
    std::vector<int> shares(static_cast<size_t>(pp), (layers + pp - 1) / pp);
    int missing = shares.front() * pp - layers;
    for (size_t i = 0; missing > 0; ++i, --missing)
      --shares[i % 2 == 0 ? shares.size() - 1 - i / 2 : i / 2];
    return shares;
  }
  std::vector<int> lighter_ends(int pp, int vpp) const {
    Stack flexible = out_.scenario.stack;
    flexible.uneven_stages = flexible.interleaving = flexible.pipeline_parallel = true;
    flexible.interleaving_needs_three_stages = false;
    for (LayerLayout& layout : layer_layouts(flexible, out_.scenario.model.layers, pp))
      if (layout.vpp == vpp) return std::move(layout.layers_per_stage);
    return {};
  }

  const CsvTable& csv_;
  size_t row_;
  const RatesTable& rates_;
  PublishedRow out_;
};

// Rows that are known to contradict themselves, with the reason.
std::map<std::string, std::string> contradicting_rows() {
  std::map<std::string, std::string> rows;
  for (const EmbeddedFile& file : embedded_files()) {
    if (file.name != "tests/data/contradicting_rows.csv") continue;
    const CsvTable csv = CsvTable::parse(file.text, std::string(file.name));
    for (size_t row = 0; row < csv.rows(); ++row)
      rows[csv.cell(row, "id")] = csv.cell(row, "reason");
  }
  return rows;
}

std::optional<double> positive(const CsvTable& csv, size_t row, const std::string& name) {
  const auto value = csv.number(row, name);
  return value && *value > 0 ? value : std::nullopt;
}

void add_metrics(const CsvTable& csv, size_t row, const PublishedRow& read, PublishedRows& out) {
  bool any = false;
  if (const auto seconds = positive(csv, row, "step_time_s")) {
    out.rows.push_back(read);
    out.rows.back().measured = *seconds;
    any = true;
  }
  if (const auto gib = positive(csv, row, "max_allocated_gib")) {
    out.rows.push_back(read);
    PublishedRow& memory = out.rows.back();
    memory.metric = Metric::peak_bytes;
    memory.measured = *gib * engine::kGiB;
    memory.last_stage = csv.cell(row, "notes").find("last PP stage") != std::string::npos;
    any = true;
  }
  // What the driver reports, context and libraries included.
  if (const auto printed = positive(csv, row, "other_mem_value");
      printed && csv.cell(row, "other_mem_kind").starts_with("nvidia-smi")) {
    out.rows.push_back(read);
    out.rows.back().metric = Metric::peak_bytes;
    out.rows.back().measured = *printed * 1e9;
    out.rows.back().allocator_bytes = false;
    any = true;
  }
  const bool ran_out = csv.number(row, "oom").value_or(0) > 0;
  if (ran_out || (any && out.rows.back().metric == Metric::peak_bytes)) {
    out.rows.push_back(read);
    out.rows.back().metric = Metric::fits;
    out.rows.back().measured = ran_out ? 0 : 1;
    any = true;
  }
  if (!any) out.skipped.push_back({read.id, "no step time and no peak memory"});
}

}  // namespace

std::string_view name_of(Metric metric) {
  constexpr std::string_view kNames[] = {"step_seconds", "peak_bytes", "fits"};
  return kNames[static_cast<size_t>(metric)];
}

PublishedRows read_published(const CsvTable& csv, const RatesTable& table) {
  std::vector<std::string> missing;
  for (const char* name :
       {"id", "gpu_key", "stack_key", "layers", "hidden", "heads", "seq_len", "tp", "pp"})
    if (!csv.has_column(name))
      missing.push_back(fmt::format("{}: column {} is missing", csv.source(), name));
  if (!missing.empty()) throw engine::InputError(missing);
  const std::map<std::string, std::string> contradicting = contradicting_rows();
  PublishedRows out;
  for (size_t row = 0; row < csv.rows(); ++row) {
    const std::string& id = csv.cell(row, "id");
    if (const auto found = contradicting.find(id); found != contradicting.end()) {
      out.skipped.push_back({id, "contradicts itself: " + found->second});
      continue;
    }
    if (const std::string& task = csv.cell(row, "task"); !task.empty() && task != "pretrain") {
      out.skipped.push_back({id, fmt::format("task {}", task.substr(0, 40))});
      continue;
    }
    try {
      add_metrics(csv, row, RowReader(csv, row, table).read(), out);
    } catch (const Skip& skip) {
      out.skipped.push_back({id, skip.reason});
    }
  }
  return out;
}

}  // namespace tuner
