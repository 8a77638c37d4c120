// Every rule that a plan breaks, with its message and the nearest legal values.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/plan/partition.h"
#include "tuner/space/rules.h"
#include "tuner/space/search_space.h"

namespace tuner {

using engine::ParallelPlan;
using engine::Recompute;
using engine::Violation;

namespace {

bool contains(const std::vector<int>& list, int value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

// The three values nearest to `value` by ratio, as "NAME VALUE".
std::vector<std::string> nearest(std::string_view name, int64_t value, std::vector<int64_t> legal) {
  auto distance = [value](int64_t other) {
    return std::abs(std::log(static_cast<double>(std::max<int64_t>(other, 1)) /
                             static_cast<double>(std::max<int64_t>(value, 1))));
  };
  std::stable_sort(legal.begin(), legal.end(),
                   [&](int64_t a, int64_t b) { return distance(a) < distance(b); });
  std::vector<std::string> text;
  for (const int64_t candidate : legal)
    if (candidate != value && text.size() < 3)
      text.push_back(fmt::format("{} {}", name, candidate));
  return text;
}

// Multiples of `factor` on both sides of `value`.
std::vector<int64_t> multiples_around(int64_t value, int64_t factor) {
  const int64_t below = value / factor * factor;
  std::vector<int64_t> around;
  if (below > 0) around.push_back(below);
  around.push_back(below + factor);
  return around;
}

// Of the GPUs there are, too.
std::vector<int64_t> legal_tp(const Scenario& scenario) {
  std::vector<int64_t> legal;
  for (const int64_t tp : divisors(scenario.model.heads)) {
    ParallelPlan plan;
    plan.tp = static_cast<int>(tp);
    if (scenario.cluster.gpus % tp == 0 && first_axis_violation(scenario, plan).empty())
      legal.push_back(tp);
  }
  return legal;
}

class Checker {
 public:
  Checker(const Scenario& scenario, const ParallelPlan& plan) : s_(scenario), p_(plan) {}

  std::vector<Violation> run(const FrameworkOptions& options) {
    world();
    tensor();
    context();
    batch();
    layers();
    interleaving();
    recomputation();
    sharding();
    experts();
    framework(options);
    return std::move(found_);
  }

 private:
  void add(std::string_view code, std::string message, std::vector<std::string> near = {}) {
    found_.push_back({std::string(code), std::move(message), std::move(near)});
  }
  void unsupported(std::string_view code, std::string_view what, std::string near) {
    add(code, fmt::format("{} is not part of the stack {}", what, s_.stack.name),
        {std::move(near)});
  }

  void world() {
    const int64_t model_parallel = int64_t{p_.tp} * p_.pp * p_.cp;
    // A double: four degrees of a million are no integer of 64 bits.
    const double ranks = static_cast<double>(model_parallel) * p_.dp;
    if (ranks == s_.cluster.gpus) return;
    std::vector<std::string> near;
    if (s_.cluster.gpus % model_parallel == 0)
      near.push_back(fmt::format("dp {}", s_.cluster.gpus / model_parallel));
    near.push_back(fmt::format("{:.0f} GPUs", ranks));
    add("AT0101",
        fmt::format("tp {} · pp {} · cp {} · dp {} = {:.0f} ranks, but the cluster has {} GPUs",
                    p_.tp, p_.pp, p_.cp, p_.dp, ranks, s_.cluster.gpus),
        near);
  }

  void tensor() {
    if (p_.tp > 1 && !s_.stack.tensor_parallel)
      unsupported("AT0120", "tensor parallelism", "tp 1");
    else
      tensor_shares();
    if (p_.sp && !s_.stack.sequence_parallel)
      unsupported("AT0123", "sequence parallelism", "sp off");
    if (p_.sp && p_.tp == 1)
      add("AT0116", "sequence parallelism needs tp > 1; frameworks switch it off silently",
          {"sp off"});
  }

  void tensor_shares() {
    const engine::ModelSpec& model = s_.model;
    if (model.heads % p_.tp != 0)
      add("AT0102",
          fmt::format("{} attention heads cannot be divided by tp {}", model.heads, p_.tp),
          nearest("tp", p_.tp, legal_tp(s_)));
    if (!kv_heads_shared(s_, p_.tp))
      add("AT0103",
          fmt::format("{} KV heads cannot be divided by tp {}{}", model.kv_heads, p_.tp,
                      s_.stack.kv_head_replication ? ", nor replicated evenly"
                                                   : ", and this stack does not replicate them"),
          nearest("tp", p_.tp, legal_tp(s_)));
    if (model.ffn_hidden % p_.tp != 0)
      add("AT0107", fmt::format("MLP width {} cannot be divided by tp {}", model.ffn_hidden, p_.tp),
          nearest("tp", p_.tp, legal_tp(s_)));
  }

  void context() {
    if (p_.cp > 1 && !s_.stack.context_parallel)
      unsupported("AT0122", "context parallelism", "cp 1");
    const int64_t seq = s_.workload.seq;
    if (p_.cp > 1 && seq % (2 * p_.cp) != 0)
      add("AT0105",
          fmt::format(
              "sequence {} is no multiple of 2 · cp = {}: every context rank takes two blocks", seq,
              2 * p_.cp),
          nearest("seq", seq, multiples_around(seq, 2 * p_.cp)));
    const int64_t factor = sequence_factor(p_);
    if (p_.sp && p_.tp > 1 && seq % factor != 0)
      add("AT0106",
          fmt::format("sequence {} is no multiple of {}, which sp at tp {} and cp {} needs", seq,
                      factor, p_.tp, p_.cp),
          nearest("seq", seq, multiples_around(seq, factor)));
  }

  void batch() {
    const int64_t share = p_.mbs * p_.dp;
    if (p_.gbs % share == 0) return;
    std::vector<int64_t> sizes;
    if (p_.gbs % p_.dp == 0) sizes = divisors(p_.gbs / p_.dp);
    std::vector<std::string> near = nearest("mbs", p_.mbs, sizes);
    for (std::string& text : nearest("gbs", p_.gbs, multiples_around(p_.gbs, share)))
      near.push_back(std::move(text));
    add("AT0104",
        fmt::format("global batch {} is no multiple of mbs {} · dp {} = {}", p_.gbs, p_.mbs, p_.dp,
                    share),
        near);
  }

  // Ways to place the layers on the plan's stages and chunks.
  std::vector<std::string> layouts() const {
    std::vector<std::string> texts;
    for (const LayerLayout& layout : layer_layouts(s_.stack, s_.model.layers, p_.pp))
      if (layout.vpp == p_.vpp && texts.size() < 3)
        texts.push_back(
            layout.layers_per_stage.empty()
                ? fmt::format("{} layers on every stage", s_.model.layers / p_.pp)
                : fmt::format("layers per stage {}", fmt::join(layout.layers_per_stage, ",")));
    return texts;
  }

  // Stages whose number divides the layers.
  std::vector<std::string> stages() const {
    std::vector<int64_t> legal;
    for (int64_t pp = 1; pp <= s_.model.layers; ++pp)
      if (s_.model.layers % (pp * p_.vpp) == 0 && (p_.vpp == 1 || pp > 1)) legal.push_back(pp);
    return nearest("pp", p_.pp, std::move(legal));
  }

  void layers() {
    if (p_.pp > 1 && !s_.stack.pipeline_parallel)
      return unsupported("AT0121", "pipeline parallelism", "pp 1");
    if (layers_are_legal(s_, p_)) return;
    const int64_t layers = s_.model.layers;
    if (!p_.layers_per_stage.empty()) {
      const int64_t sum =
          std::accumulate(p_.layers_per_stage.begin(), p_.layers_per_stage.end(), int64_t{0});
      std::vector<std::string> near = layouts();
      if (near.empty()) near = stages();
      return add(
          "AT0114",
          fmt::format("layers per stage {} ({} in all, {} stages) do not place the {} layers "
                      "of the model on {} stages of {} chunks as {} can",
                      fmt::join(p_.layers_per_stage, ","), sum, p_.layers_per_stage.size(), layers,
                      p_.pp, p_.vpp, s_.stack.name),
          near);
    }
    std::vector<std::string> near = stages();
    if (p_.vpp > 1 && layers % p_.pp == 0)
      for (std::string& text : nearest("vpp", p_.vpp, divisors(layers / p_.pp)))
        near.push_back(std::move(text));
    for (std::string& uneven : layouts()) near.push_back(std::move(uneven));
    add("AT0112",
        fmt::format("layers {} not divisible by pp{} = {}", layers, p_.vpp > 1 ? "·vpp" : "",
                    int64_t{p_.pp} * p_.vpp),
        near);
  }

  void interleaving() {
    const int64_t m = p_.gbs / std::max<int64_t>(1, p_.mbs * p_.dp);
    if (p_.vpp > 1) {
      if (!s_.stack.interleaving) return unsupported("AT0124", "interleaving (vpp > 1)", "vpp 1");
      const int least = s_.stack.interleaving_needs_three_stages ? 3 : 2;
      if (p_.pp < least)
        add("AT0109",
            fmt::format("interleaving needs pp ≥ {} in {}, not pp {}", least, s_.stack.name, p_.pp),
            {"vpp 1"});
    }
    if (m == 0 || p_.gbs % (p_.mbs * p_.dp) != 0) return;  // told as AT0104
    if (micro_batch_violation(s_, p_).empty()) return;
    std::vector<std::string> near = {"vpp 1"};
    if (p_.vpp == 1) near = {fmt::format("pp {}", m)};
    const int64_t share = p_.mbs * p_.dp;
    for (const int64_t count : multiples_around(m, p_.pp))
      near.push_back(fmt::format("gbs {}", count * share));
    if (p_.vpp > 1)
      add("AT0110",
          fmt::format(
              "interleaving runs micro-batches in groups of pp {}, but there are {} of them", p_.pp,
              m),
          near);
    else
      add("AT0111",
          fmt::format("{} micro-batches do not fill {} pipeline stages, which {} needs", m, p_.pp,
                      s_.stack.name),
          near);
  }

  void recomputation() {
    const Recompute& r = p_.recompute;
    if (r.mode == Recompute::Mode::selective && !s_.stack.selective_recompute)
      unsupported("AT0125", "selective recomputation", "recompute none");
    if (r.layers == 0) return;
    if (!s_.stack.partial_recompute)
      return unsupported("AT0126", "recomputation of only some layers", "recompute full");
    const int longest = longest_chunk(s_, p_);
    if (longest > 0 && r.layers > longest)
      add("AT0113",
          fmt::format("full:{} recomputes more layers than the {} of a stage chunk", r.layers,
                      longest),
          {"recompute full", fmt::format("recompute full:{}", std::max(1, longest - 1))});
  }

  void sharding() {
    if (p_.zero == 0 && p_.dp == 1 && p_.cp == 1) return;  // nothing to shard over
    const std::vector<int>& legal = legal_zero(s_.stack, p_.pp);
    if (contains(legal, p_.zero)) return;
    std::vector<std::string> near;
    for (const int zero : legal) near.push_back(fmt::format("zero {}", zero));
    if (p_.pp > 1 && contains(s_.stack.zero, p_.zero))
      return add("AT0128",
                 fmt::format("ZeRO {} cannot be combined with a pipeline (pp {}) in {}", p_.zero,
                             p_.pp, s_.stack.name),
                 near);
    add("AT0127", fmt::format("ZeRO {} is not part of the stack {}", p_.zero, s_.stack.name), near);
  }

  void experts() {
    const int64_t experts = s_.model.moe.experts;
    if (p_.ep > 1 && experts == 0)
      add("AT0132", fmt::format("ep {} on a dense model: it has no experts", p_.ep), {"ep 1"});
    if (experts > 0 && experts % p_.ep != 0)
      add("AT0132", fmt::format("{} experts cannot be divided by ep {}", experts, p_.ep),
          nearest("ep", p_.ep, divisors(experts)));
    if (experts > 0 && int64_t{p_.dp} * p_.cp % p_.ep != 0)
      add("AT0134",
          fmt::format("ep {} does not divide the {} ranks of dp · cp", p_.ep,
                      int64_t{p_.dp} * p_.cp),
          nearest("ep", p_.ep, divisors(std::gcd<int64_t>(experts, int64_t{p_.dp} * p_.cp))));
    if (experts > 0 && p_.tp > 1 && !p_.sp)
      add("AT0133", "a mixture of experts with tp > 1 needs sequence parallelism", {"sp on"});
  }

  void framework(const FrameworkOptions& options) {
    const bool full = p_.recompute.mode == Recompute::Mode::full;
    if (options.distribute_saved_activations && (p_.tp == 1 || !full || p_.sp))
      add("AT0140",
          "distribute-saved-activations needs tp > 1, full recomputation and no sequence "
          "parallelism",
          {"drop --distribute-saved-activations"});
    if (options.tensor_overlap && !p_.sp)
      add("AT0141", "tp-comm-overlap needs sequence parallelism", {"sp on"});
    if (options.offload_activations && (p_.pp > 1 || p_.recompute.mode != Recompute::Mode::none))
      add("AT0142", "offloading of activations excludes a pipeline and recomputation",
          {"drop --offload-activations"});
  }

  const Scenario& s_;
  const ParallelPlan& p_;
  std::vector<Violation> found_;
};

}  // namespace

std::vector<Violation> violations(const Scenario& scenario, const ParallelPlan& plan,
                                  const FrameworkOptions& options) {
  return Checker(scenario, plan).run(options);
}

}  // namespace tuner
