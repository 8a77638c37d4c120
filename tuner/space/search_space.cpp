// Generators of legal plans.
#include "tuner/space/search_space.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <set>

#include "engine/plan/schedule.h"
#include "tuner/space/rules.h"

namespace tuner {

using engine::ParallelPlan;
using engine::Recompute;

namespace {

template <class T>
bool allows(const std::vector<T>& allowed, const T& value) {
  return allowed.empty() || std::find(allowed.begin(), allowed.end(), value) != allowed.end();
}

// Stages of `middle` layers but for the ends.
LayerLayout with_ends(int vpp, int pp, int middle, int first, int last) {
  LayerLayout layout{vpp, std::vector<int>(static_cast<size_t>(pp), middle), 0};
  layout.layers_per_stage.front() = first;
  layout.layers_per_stage.back() = last;
  const int longest = std::max({middle, first, last});
  layout.chunk_layers = (longest + vpp - 1) / vpp;
  return layout;
}

// First and last stage make up for what pp does not divide: lighter where each keeps a layer, else
// heavier. The last one is the lighter of the two, since it holds the head.
void add_uneven(std::vector<LayerLayout>& layouts, int layers, int pp) {
  const int middle = (layers + pp - 1) / pp;
  const int missing = middle * pp - layers;
  if (missing <= 2 * (middle - 1)) {
    std::set<int> lighter_first;
    for (const int first : {missing / 2, 0, missing})
      lighter_first.insert(std::clamp(first, missing - std::min(missing, middle - 1), middle - 1));
    for (const int first : lighter_first)
      layouts.push_back(with_ends(1, pp, middle, middle - first, middle - (missing - first)));
    return;
  }
  const int less = layers / pp, extra = layers - less * pp;
  layouts.push_back(with_ends(1, pp, less, less + (extra + 1) / 2, less + extra / 2));
}

// Chunks of equal length where the embedding, the head, or both take the place of a layer.
void add_uneven_interleaved(std::vector<LayerLayout>& layouts, int layers, int pp, int vpp) {
  for (const int ends : {1, 2}) {
    if ((layers + ends) % (pp * vpp) != 0) continue;
    const int share = (layers + ends) / pp;
    if (ends == 2) {
      layouts.push_back(with_ends(vpp, pp, share, share - 1, share - 1));
    } else {
      layouts.push_back(with_ends(vpp, pp, share, share - 1, share));
      layouts.push_back(with_ends(vpp, pp, share, share, share - 1));
    }
  }
}

}  // namespace

std::vector<int64_t> divisors(int64_t number) {
  std::vector<int64_t> low, high;
  for (int64_t d = 1; d * d <= number; ++d)
    if (number % d == 0) {
      low.push_back(d);
      if (d != number / d) high.push_back(number / d);
    }
  low.insert(low.end(), high.rbegin(), high.rend());
  return low;
}

std::vector<LayerLayout> layer_layouts(const Stack& stack, int64_t model_layers, int pp) {
  const int layers = static_cast<int>(model_layers);
  std::vector<LayerLayout> layouts;
  if (layers < pp || (pp > 1 && !stack.pipeline_parallel)) return layouts;
  if (layers % pp == 0)
    layouts.push_back({1, {}, layers / pp});
  else if (stack.uneven_stages && pp > 1)
    add_uneven(layouts, layers, pp);
  for (int vpp = 2; can_interleave(stack, pp) && vpp <= (layers + pp - 1) / pp; ++vpp) {
    if (layers % (pp * vpp) == 0)
      layouts.push_back({vpp, {}, layers / (pp * vpp)});
    else if (stack.uneven_stages)
      add_uneven_interleaved(layouts, layers, pp, vpp);
  }
  return layouts;
}

SearchSpace::SearchSpace(const Scenario& scenario, Restrictions restrictions)
    : scenario_(&scenario), restrictions_(std::move(restrictions)) {
  for (const int64_t size : divisors(scenario.workload.gbs))
    if (allows(restrictions_.mbs, size)) micro_batch_sizes_.push_back(size);
  for (const int64_t degree : divisors(scenario.cluster.gpus))
    degrees_.push_back(static_cast<int>(degree));
}

std::vector<LayerLayout> SearchSpace::allowed_layouts(int pp) const {
  const int layers = static_cast<int>(scenario_->model.layers);
  std::vector<LayerLayout> allowed;
  if (const auto& given = restrictions_.layers_per_stage; !given.empty()) {
    if (std::ssize(given) != pp || (pp > 1 && !scenario_->stack.pipeline_parallel)) return allowed;
    const int longest = *std::max_element(given.begin(), given.end());
    for (int vpp = 1; vpp <= (can_interleave(scenario_->stack, pp) ? longest : 1); ++vpp) {
      ParallelPlan plan;
      plan.pp = pp;
      plan.vpp = vpp;
      plan.layers_per_stage = given;
      plan = normalized(*scenario_, plan);
      if (allows(restrictions_.vpp, vpp) && layers_are_legal(*scenario_, plan))
        allowed.push_back({vpp, plan.layers_per_stage, (longest + vpp - 1) / vpp});
    }
    return allowed;
  }
  for (LayerLayout& layout : layer_layouts(scenario_->stack, layers, pp))
    if (allows(restrictions_.vpp, layout.vpp)) allowed.push_back(std::move(layout));
  return allowed;
}

// The code of the first rule that rejects a tensor and context degree; empty = none.
std::string_view SearchSpace::rejected_by(int tp, int cp) const {
  ParallelPlan plan;
  plan.tp = tp;
  plan.cp = cp;
  return first_axis_violation(*scenario_, plan);
}

std::vector<Recompute> SearchSpace::recompute_choices(int chunk_layers) const {
  const Stack& stack = scenario_->stack;
  std::vector<Recompute> choices{{Recompute::Mode::none, 0}};
  if (stack.selective_recompute && scenario_->workload.attention == engine::AttentionKind::unfused)
    choices.push_back({Recompute::Mode::selective, 0});
  choices.push_back({Recompute::Mode::full, 0});
  for (int layers = 1; stack.partial_recompute && layers < chunk_layers; ++layers)
    choices.push_back({Recompute::Mode::full, layers});
  const bool core_is_fused = scenario_->workload.attention == engine::AttentionKind::flash;
  auto same = [&](const Recompute& asked, const Recompute& choice) {
    if (asked.mode == Recompute::Mode::selective && core_is_fused) return choice == Recompute{};
    if (asked.layers == chunk_layers) return choice == Recompute{Recompute::Mode::full, 0};
    return asked == choice;
  };
  const auto& allowed = restrictions_.recompute;
  std::erase_if(choices, [&](const Recompute& choice) {
    return !allowed.empty() && std::none_of(allowed.begin(), allowed.end(),
                                            [&](const auto& asked) { return same(asked, choice); });
  });
  return choices;
}

std::vector<int> SearchSpace::zero_choices(int pp, int ranks) const {
  std::vector<int> choices = legal_zero(scenario_->stack, pp);
  if (ranks == 1) choices.push_back(0);
  std::erase_if(choices, [&](int zero) { return !allows(restrictions_.zero, zero); });
  if (ranks == 1 && !choices.empty()) choices = {0};  // nothing to shard over
  return choices;
}

std::vector<bool> SearchSpace::sp_choices(int tp) const {
  std::vector<bool> choices{false};
  if (tp > 1 && scenario_->stack.sequence_parallel) choices.push_back(true);
  std::erase_if(choices, [&](bool sp) { return tp > 1 && restrictions_.sp.value_or(sp) != sp; });
  return choices;
}

// Choices of recomputation and sharding below one grid, for counting what a rule removes.
int64_t SearchSpace::plans_of(int pp, int ranks, const std::vector<LayerLayout>& layouts) const {
  int64_t plans = 0;
  for (const LayerLayout& layout : layouts)
    plans += static_cast<int64_t>(recompute_choices(layout.chunk_layers).size());
  return plans * static_cast<int64_t>(zero_choices(pp, ranks).size());
}

std::vector<int> SearchSpace::usable_gpu_counts() const {
  const Interconnect& links = scenario_->cluster.interconnect;
  const int64_t most = links.nic_bytes_per_second > 0 ? 1'000'000 : links.domain_gpus;
  auto fits = [&](const std::vector<int>& allowed, int64_t degree) {
    return degree <= most && allows(allowed, static_cast<int>(degree));
  };
  std::set<int64_t> axes, stages, replicas;  // tp · cp, pp, dp
  const std::vector<int64_t> contexts = scenario_->stack.context_parallel
                                            ? divisors(scenario_->workload.seq)
                                            : std::vector<int64_t>{1};
  for (const int64_t tp : divisors(scenario_->model.heads))
    for (const int64_t cp : contexts)
      if (tp * cp <= most && fits(restrictions_.tp, tp) && fits(restrictions_.cp, cp) &&
          rejected_by(static_cast<int>(tp), static_cast<int>(cp)).empty())
        axes.insert(tp * cp);
  for (int pp = 1; pp <= scenario_->model.layers; ++pp)
    if (fits(restrictions_.pp, pp) && !allowed_layouts(pp).empty()) stages.insert(pp);
  for (const int64_t mbs : micro_batch_sizes_)
    for (const int64_t dp : divisors(scenario_->workload.gbs / mbs))
      if (fits(restrictions_.dp, dp)) replicas.insert(dp);

  std::set<int> counts;
  for (const int64_t axis : axes)
    for (const int64_t pp : stages)
      for (const int64_t dp : replicas)
        if (axis * pp * dp <= most) counts.insert(static_cast<int>(axis * pp * dp));
  return {counts.begin(), counts.end()};
}

std::vector<SearchSpace::Group> SearchSpace::groups(SpaceCounts& counts) const {
  const int gpus = scenario_->cluster.gpus;
  const int layers = static_cast<int>(scenario_->model.layers);
  std::vector<Group> groups;
  for (const int tp : degrees_) {
    for (const int cp : degrees_) {
      if ((gpus / tp) % cp != 0 || !allows(restrictions_.tp, tp) || !allows(restrictions_.cp, cp))
        continue;
      if (cp > 1 && !scenario_->stack.context_parallel) continue;
      const std::string_view axis_code = rejected_by(tp, cp);
      Group group{tp, cp, {}};
      const auto sizes = static_cast<int64_t>(micro_batch_sizes_.size() * sp_choices(tp).size());
      for (const int pp : degrees_) {
        const int rest = gpus / (tp * cp);
        if (rest % pp != 0 || !allows(restrictions_.pp, pp)) continue;
        const int dp = rest / pp;
        const auto& shares = restrictions_.layers_per_stage;
        if (!allows(restrictions_.dp, dp) || (!shares.empty() && std::ssize(shares) != pp))
          continue;
        std::vector<LayerLayout> layouts = allowed_layouts(pp);
        if (!axis_code.empty() || layouts.empty()) {
          const std::vector<LayerLayout> one{{1, {}, std::max(1, layers / pp)}};
          const std::string_view layers_code = shares.empty() ? "AT0112" : "AT0114";
          counts.rejected[std::string(axis_code.empty() ? layers_code : axis_code)] +=
              sizes * plans_of(pp, dp * cp, layouts.empty() ? one : layouts);
          continue;
        }
        group.grids.push_back({pp, dp, std::move(layouts)});
      }
      if (!group.grids.empty()) groups.push_back(std::move(group));
    }
  }
  return groups;
}

void SearchSpace::visit_grid(ParallelPlan& plan, const GridChoice& grid, const Visitor& visit,
                             SpaceCounts& counts) const {
  const int ranks = grid.dp * plan.cp;
  plan.pp = grid.pp;
  plan.dp = grid.dp;
  if (plan.gbs % (plan.mbs * plan.dp) != 0) {
    counts.rejected["AT0104"] += plans_of(grid.pp, ranks, grid.layouts);
    return;
  }
  const std::vector<int> zeros = zero_choices(grid.pp, ranks);
  for (const LayerLayout& layout : grid.layouts) {
    const std::vector<Recompute> recomputes = recompute_choices(layout.chunk_layers);
    plan.vpp = layout.vpp;
    plan.layers_per_stage = layout.layers_per_stage;
    const auto plans = static_cast<int64_t>(recomputes.size() * zeros.size());
    if (const auto code = micro_batch_violation(*scenario_, plan); !code.empty()) {
      counts.rejected[std::string(code)] += plans;
      continue;
    }
    counts.legal += plans;
    for (const Recompute& recompute : recomputes) {
      plan.recompute = recompute;
      for (const int zero : zeros) {
        plan.zero = zero;
        visit(plan);
      }
    }
  }
}

SpaceCounts SearchSpace::for_each(const Visitor& enter, const Visitor& visit) const {
  SpaceCounts counts;
  for (const Group& group : groups(counts)) {
    for (const int64_t mbs : micro_batch_sizes_)
      for (const bool sp : sp_choices(group.tp)) {
        ParallelPlan plan;
        plan.tp = group.tp;
        plan.cp = group.cp;
        plan.sp = sp;
        plan.mbs = mbs;
        plan.gbs = scenario_->workload.gbs;
        if (const auto code = sp_violation(*scenario_, plan); !code.empty()) {
          for (const GridChoice& grid : group.grids)
            counts.rejected[std::string(code)] +=
                plans_of(grid.pp, grid.dp * plan.cp, grid.layouts);
          continue;
        }
        enter(plan);
        for (const GridChoice& grid : group.grids) visit_grid(plan, grid, visit, counts);
      }
  }
  std::erase_if(counts.rejected, [](const auto& rule) { return rule.second == 0; });
  counts.candidates = counts.legal;
  for (const auto& [code, count] : counts.rejected) counts.candidates += count;
  return counts;
}

}  // namespace tuner
