// Chooses the next tokens from logits that the tensor axis divides.
#include "engine/infer/sampler.h"

#include <algorithm>

#include "engine/base/errors.h"

namespace engine {
namespace {

// [rows, vocabulary / tp] of every rank → [rows, padded vocabulary].
Tensor whole_logits(LayerContext& context, const Tensor& shard) {
  Communicator& ranks = context.world().tensor();
  const int64_t rows = shard.dim(0), columns = shard.dim(1);
  const Tensor gathered(context.device(), {ranks.size() * rows, columns}, shard.type(),
                        MemoryUse::communication);
  ranks.follow(context.device());
  ranks.all_gather(payload_of(shard), payload_of(gathered));
  Tensor whole(context.device(), {rows, ranks.size() * columns}, shard.type(),
               MemoryUse::workspace);
  for (int rank = 0; rank < ranks.size(); ++rank)
    context.kernels().copy(gathered.view().row_range(rank * rows, rows),
                           whole.view().columns(rank * columns, columns));
  return whole;
}

template <class T>
std::vector<T> to_host(LayerContext& context, const Tensor& tensor) {
  std::vector<T> host(static_cast<size_t>(tensor.elements()));
  context.device().copy_to_host(host.data(), tensor.data(), tensor.bytes());
  return host;
}

std::vector<float> target_losses(LayerContext& context, View logits,
                                 std::span<const RowRule> rules) {
  kernels::Kernels& kernels = context.kernels();
  std::vector<int32_t> wanted;
  for (const RowRule& rule : rules) wanted.push_back(rule.target);
  const Tensor targets(context.device(), {1, logits.rows}, DType::i32, MemoryUse::workspace);
  context.device().copy_to_device(targets.data(), wanted.data(), targets.bytes());
  const auto make = [&] { return context.statistics(logits.rows, MemoryUse::workspace); };
  const Tensor top = make(), sums = make(), chosen = make();
  kernels.cross_entropy_sums(logits, targets, 0, top, sums, chosen);
  kernels.cross_entropy_losses(top, sums, chosen, targets, chosen);
  return to_host<float>(context, chosen);
}

}  // namespace

std::vector<RowRule> row_rules(const StepBatch& batch) {
  std::vector<RowRule> rules;
  size_t first = 0;
  for (const Segment& segment : batch.segments) {
    const RowRule rule{segment.sampling, segment.request, segment.draw, -1};
    if (!segment.is_scored) rules.push_back(rule);
    for (size_t i = first; segment.is_scored && i < first + static_cast<size_t>(segment.tokens);
         ++i)
      if (batch.targets[i] >= 0) {
        rules.push_back(rule);
        rules.back().sampling = {};
        rules.back().target = batch.targets[i];
      }
    first += static_cast<size_t>(segment.tokens);
  }
  return rules;
}

std::vector<Choice> choose_tokens(LayerContext& context, const Tensor& shard,
                                  std::span<const RowRule> rules) {
  expect(shard.dim(0) == static_cast<int64_t>(rules.size()), "one rule a row");
  kernels::Kernels& kernels = context.kernels();
  Tensor whole;
  if (context.tp() > 1) whole = whole_logits(context, shard);
  const View logits = (whole.empty() ? shard : whole).view().columns(0, context.model().vocab);
  const Tensor ids(context.device(), {1, logits.rows}, DType::i32, MemoryUse::workspace);
  kernels.arg_max(logits, 0, ids, {});
  std::vector<kernels::RowDraw> draws;
  for (size_t i = 0; i < rules.size(); ++i) {
    const SamplingSpec& spec = rules[i].sampling;
    if (spec.temperature == 0) continue;
    draws.push_back({static_cast<int64_t>(i),
                     {spec.temperature, spec.top_k, spec.top_p},
                     kernels::make_stream(spec.seed, kernels::Purpose::sampling,
                                          static_cast<uint64_t>(rules[i].request), 0),
                     rules[i].draw});
  }
  kernels.sample(logits, ids, draws);
  std::vector<Choice> choices(rules.size());
  const auto tokens = to_host<int32_t>(context, ids);
  for (size_t i = 0; i < choices.size(); ++i) choices[i].token = tokens[i];
  if (std::any_of(rules.begin(), rules.end(), [](const RowRule& r) { return r.target >= 0; })) {
    const auto losses = target_losses(context, logits, rules);
    for (size_t i = 0; i < choices.size(); ++i) choices[i].loss = losses[i];
  }
  return choices;
}

}  // namespace engine
