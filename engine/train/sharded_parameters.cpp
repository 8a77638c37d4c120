// Weights and gradients of a rank, and how replicas share them.
#include "engine/train/sharded_parameters.h"

#include <algorithm>
#include <numeric>

#include "engine/base/errors.h"

namespace engine {
namespace {

void* element(const Tensor& tensor, int64_t index) {
  return static_cast<std::byte*>(tensor.data()) + index * kernels::bytes_of(tensor.type());
}

View vector_of(const Tensor& tensor, int64_t first, int64_t count) {
  return {element(tensor, first), tensor.type(), 1, count};
}

std::unique_ptr<Communicator> split_kv_groups(LayerContext& context) {
  const RankHeads heads = rank_heads(context.model(), context.tp(), context.tp_rank());
  if (heads.kv_ranks == 1) return nullptr;
  std::vector<int> members(static_cast<size_t>(heads.kv_ranks));
  std::iota(members.begin(), members.end(),
            static_cast<int>(context.tp_rank() / heads.kv_ranks * heads.kv_ranks));
  return context.world().tensor().split(members);
}

}  // namespace

ShardedParameters::ShardedParameters(LayerContext& context, ParameterSet& set, int zero,
                                     const Parameter* tied)
    : context_(context),
      set_(set),
      zero_(zero),
      tied_(tied),
      replicas_(context.world().gradient()),
      kv_group_(split_kv_groups(context)) {
  int64_t weights = 0, gradients = 0;
  for (int64_t unit = 0; unit < static_cast<int64_t>(set.units().size()); ++unit) {
    UnitMemory& memory = units_.emplace_back();
    memory.weights = weights;
    memory.gradients = gradients;
    weights += kept_elements(unit, keeps_weights());
    gradients += kept_elements(unit, keeps_gradients());
  }
  Device& device = context.device();
  weights_ = Tensor(device, {1, weights}, context.type(), MemoryUse::parameter);
  gradients_ = Tensor(device, {1, gradients}, context.arithmetic(), MemoryUse::gradient);
  for (int64_t unit = 0; unit < static_cast<int64_t>(units_.size()); ++unit) {
    const UnitMemory& memory = units_[static_cast<size_t>(unit)];
    point(unit, keeps_weights() ? element(weights_, memory.weights) : nullptr,
          keeps_gradients() ? element(gradients_, memory.gradients) : nullptr);
  }
}

int64_t ShardedParameters::shard_elements(int64_t unit) const {
  return (set_.units()[static_cast<size_t>(unit)].elements + replicas_.size() - 1) /
         replicas_.size();
}

int64_t ShardedParameters::kept_elements(int64_t unit, bool whole) const {
  if (zero_ == 0) return set_.units()[static_cast<size_t>(unit)].elements;
  return shard_elements(unit) * (whole ? replicas_.size() : 1);
}

ShardedParameters::Range ShardedParameters::shard(int64_t unit) const {
  const int64_t all = set_.units()[static_cast<size_t>(unit)].elements;
  const int64_t first = std::min(all, replicas_.rank() * shard_elements(unit));
  return {first, std::min(shard_elements(unit), all - first)};
}

ShardedParameters::Range ShardedParameters::updated(int64_t unit) const {
  if (zero_ == 0) return {0, set_.units()[static_cast<size_t>(unit)].elements};
  return shard(unit);
}

View ShardedParameters::weights(int64_t unit, const Range& range) const {
  const int64_t begin = keeps_weights() ? 0 : replicas_.rank() * shard_elements(unit);
  return vector_of(weights_, units_[static_cast<size_t>(unit)].weights + range.first - begin,
                   range.count);
}

View ShardedParameters::gradients(int64_t unit, const Range& range) const {
  const int64_t begin = keeps_gradients() ? 0 : replicas_.rank() * shard_elements(unit);
  return vector_of(gradients_, units_[static_cast<size_t>(unit)].gradients + range.first - begin,
                   range.count);
}

void ShardedParameters::point(int64_t unit, void* weights, void* gradients) {
  const auto view = [](void* data, DType type, const Parameter& p) {
    if (data == nullptr) return View();
    auto* first = static_cast<std::byte*>(data) + p.offset * kernels::bytes_of(type);
    return View(first, type, p.rows, p.columns);
  };
  for (Parameter* p : set_.units()[static_cast<size_t>(unit)].parameters) {
    p->weight = view(weights, context_.type(), *p);
    p->gradient = view(gradients, context_.arithmetic(), *p);
  }
}

void ShardedParameters::gather_weights(int64_t unit) {
  UnitMemory& memory = units_[static_cast<size_t>(unit)];
  const int64_t count = shard_elements(unit);
  memory.whole_weights = Tensor(context_.device(), {1, count * replicas_.size()}, context_.type(),
                                MemoryUse::communication);
  replicas_.follow(context_.device());
  replicas_.all_gather(payload_of(vector_of(weights_, memory.weights, count)),
                       payload_of(memory.whole_weights));
}

void ShardedParameters::begin_forward(int64_t unit) {
  if (keeps_weights()) return;
  gather_weights(unit);
  point(unit, units_[static_cast<size_t>(unit)].whole_weights.data(), nullptr);
}

void ShardedParameters::end_forward(int64_t unit) {
  if (keeps_weights()) return;
  units_[static_cast<size_t>(unit)].whole_weights.reset();
  point(unit, nullptr, nullptr);
}

void ShardedParameters::begin_backward(int64_t unit) {
  if (keeps_gradients()) return;
  UnitMemory& memory = units_[static_cast<size_t>(unit)];
  if (!keeps_weights()) gather_weights(unit);
  memory.whole_gradients = Tensor(context_.device(), {1, shard_elements(unit) * replicas_.size()},
                                  context_.arithmetic(), MemoryUse::communication);
  context_.kernels().fill(memory.whole_gradients, 0);
  point(unit, keeps_weights() ? element(weights_, memory.weights) : memory.whole_weights.data(),
        memory.whole_gradients.data());
}

void ShardedParameters::end_backward(int64_t unit) {
  if (keeps_gradients()) {
    const bool is_complete = last_micro_batch_ && (tied_ == nullptr || tied_->unit != unit);
    if (!is_complete || !replicas_.overlaps()) return;
    sum_partial_gradients(unit);
    replicas_.follow(context_.device());
    replicas_.begin_overlap();
    return reduce(unit);
  }
  UnitMemory& memory = units_[static_cast<size_t>(unit)];
  sum_partial_gradients(unit);
  const int64_t count = shard_elements(unit);
  const View whole = memory.whole_gradients;
  const View own = whole.columns(replicas_.rank() * count, count);
  replicas_.follow(context_.device());
  replicas_.reduce_scatter(payload_of(whole), payload_of(own));
  context_.kernels().accumulate(own, vector_of(gradients_, memory.gradients, count));
  memory.whole_gradients.reset();
  memory.whole_weights.reset();
  point(unit, keeps_weights() ? element(weights_, memory.weights) : nullptr, nullptr);
}

void ShardedParameters::clear_gradients() {
  context_.kernels().fill(gradients_, 0);
  for (UnitMemory& memory : units_) memory.is_reduced = false;
}

void ShardedParameters::sum_partial_gradients(int64_t unit) {
  const auto group_of = [&](const Parameter& p) -> Communicator* {
    if (p.sharing == Sharing::kv_group) return kv_group_.get();
    if (p.sharing == Sharing::replicated && context_.options().sequence_parallel)
      return &context_.world().tensor();
    return nullptr;
  };
  // Neighbours that the same ranks sum go in one message.
  const auto& parameters = set_.units()[static_cast<size_t>(unit)].parameters;
  for (size_t i = 0; i < parameters.size();) {
    Communicator* group = group_of(*parameters[i]);
    View run = parameters[i]->gradient;
    run = View(run.data, run.type, 1, 0);
    for (; i < parameters.size() && group_of(*parameters[i]) == group; ++i)
      run.cols += parameters[i]->elements();
    if (group == nullptr) continue;
    group->follow(context_.device());
    group->all_reduce(payload_of(run));
  }
}

void ShardedParameters::reduce(int64_t unit) {
  units_[static_cast<size_t>(unit)].is_reduced = true;
  const int64_t first = units_[static_cast<size_t>(unit)].gradients;
  const View whole = vector_of(gradients_, first, kept_elements(unit, true));
  if (zero_ == 0) return replicas_.all_reduce(payload_of(whole));
  const int64_t count = shard_elements(unit);
  replicas_.reduce_scatter(payload_of(whole),
                           payload_of(whole.columns(replicas_.rank() * count, count)));
}

void ShardedParameters::reduce_gradients() {
  if (!keeps_gradients()) return;
  std::vector<int64_t> rest;
  for (int64_t unit = 0; unit < static_cast<int64_t>(units_.size()); ++unit)
    if (!units_[static_cast<size_t>(unit)].is_reduced) rest.push_back(unit);
  for (const int64_t unit : rest) sum_partial_gradients(unit);
  Communicator* ends = context_.world().embedding();
  if (tied_ != nullptr && ends != nullptr) {
    ends->follow(context_.device());
    ends->all_reduce(payload_of(tied_->gradient));
  }
  replicas_.follow(context_.device());
  for (const int64_t unit : rest) reduce(unit);
  replicas_.end_overlap();
}

void ShardedParameters::share_weights() {
  if (zero_ == 0 || !keeps_weights()) return;
  replicas_.follow(context_.device());
  for (int64_t unit = 0; unit < static_cast<int64_t>(units_.size()); ++unit) {
    const int64_t count = shard_elements(unit);
    const View whole =
        vector_of(weights_, units_[static_cast<size_t>(unit)].weights, count * replicas_.size());
    replicas_.all_gather(payload_of(whole.columns(replicas_.rank() * count, count)),
                         payload_of(whole));
  }
}

void ShardedParameters::visit_weights(bool write,
                                      const std::function<void(ParameterUnit&)>& visit) {
  for (int64_t unit = 0; unit < static_cast<int64_t>(units_.size()); ++unit) {
    UnitMemory& memory = units_[static_cast<size_t>(unit)];
    begin_forward(unit);
    visit(set_.units()[static_cast<size_t>(unit)]);
    if (write && !keeps_weights()) {
      const int64_t count = shard_elements(unit);
      context_.kernels().copy(memory.whole_weights.view().columns(replicas_.rank() * count, count),
                              vector_of(weights_, memory.weights, count));
    }
    end_forward(unit);
  }
}

}  // namespace engine
