// SearchSpace: every legal plan for a number of GPUs, by generators that yield only what divides.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/plan/parallel_plan.h"
#include "tuner/model/scenario.h"

namespace tuner {

// What the user allows; an empty list allows everything. A setting without effect (see normalized)
// is as good as the one asked for: SP at tp 1, ZeRO 1 on a single rank.
struct Restrictions {
  std::vector<int> dp = {}, tp = {}, pp = {}, vpp = {}, cp = {}, zero = {};
  std::vector<int64_t> mbs = {};
  std::vector<engine::Recompute> recompute = {};
  std::optional<bool> sp = {};
  std::vector<int> layers_per_stage = {};

  bool operator==(const Restrictions&) const = default;
};

struct SpaceCounts {
  int64_t candidates = 0;  // legal + rejected
  int64_t legal = 0;
  std::map<std::string, int64_t> rejected;  // by code of the first rule that removed a plan
};

// One way to spread layers over a pipeline.
struct LayerLayout {
  int vpp = 1;
  std::vector<int> layers_per_stage;  // empty = the same everywhere
  int chunk_layers = 0;               // of the longest chunk
};

// The layouts of `layers` over pp stages that the stack can run: even ones; for a (pp, vpp) without
// an even one, those with a lighter first or last stage, or both.
std::vector<LayerLayout> layer_layouts(const Stack& stack, int64_t layers, int pp);

class SearchSpace {
 public:
  SearchSpace(const Scenario& scenario, Restrictions restrictions);

  using Visitor = std::function<void(const engine::ParallelPlan&)>;
  // Calls `enter` once for each (tp, cp, mbs, sp), with a plan that has only these set, then
  // `visit` for each legal plan of that group. Returns how many plans there are and which rule
  // removed which. Plans outside the restrictions are not counted.
  SpaceCounts for_each(const Visitor& enter, const Visitor& visit) const;

  // Numbers of GPUs, ascending, that the degrees of some plan multiply to, whatever the scenario's
  // own number is; at most a million, and without a network what is linked.
  std::vector<int> usable_gpu_counts() const;

 private:
  struct GridChoice {
    int pp = 1, dp = 1;
    std::vector<LayerLayout> layouts;
  };
  struct Group {
    int tp = 1, cp = 1;
    std::vector<GridChoice> grids;
  };
  std::vector<Group> groups(SpaceCounts& counts) const;
  std::vector<LayerLayout> allowed_layouts(int pp) const;
  std::string_view rejected_by(int tp, int cp) const;
  void visit_grid(engine::ParallelPlan& plan, const GridChoice& grid, const Visitor& visit,
                  SpaceCounts& counts) const;
  std::vector<engine::Recompute> recompute_choices(int chunk_layers) const;
  std::vector<int> zero_choices(int pp, int ranks) const;
  std::vector<bool> sp_choices(int tp) const;
  int64_t plans_of(int pp, int ranks, const std::vector<LayerLayout>& layouts) const;

  const Scenario* scenario_;
  Restrictions restrictions_;
  std::vector<int64_t> micro_batch_sizes_;
  std::vector<int> degrees_;  // divisors of the number of GPUs
};

// All divisors, ascending.
std::vector<int64_t> divisors(int64_t number);

}  // namespace tuner
