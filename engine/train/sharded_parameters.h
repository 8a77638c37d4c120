// ShardedParameters: the memory of a rank's weights and gradients, and how the replicas of the data
// and context axes share them (ZeRO, Rajbhandari et al. 2020).
#pragma once
#include <functional>
#include <vector>

#include "engine/nn/chunk.h"

namespace engine {

// Every unit is cut into equal runs of elements, one a rank of World::gradient(): the rank's shard.
//   zero 0   all ranks keep everything and sum gradients
//   zero 1   gradients are summed only where their shard is; updated weights are gathered
//   zero 2   also: only the shard of the gradients is kept; they are summed after each layer's
//            backward pass
//   zero 3   also: only the shard of the weights is kept; a layer's are gathered when it runs
class ShardedParameters final : public ParameterAccess {
 public:
  // `tied` is the table of a tied model on a stage at its ends.
  ShardedParameters(LayerContext& context, ParameterSet& set, int zero,
                    const Parameter* tied = nullptr);

  ParameterSet& set() { return set_; }
  // Elements [first, first + count) of unit `unit`. With zero 0 what is summed up for the norm
  // here.
  struct Range {
    int64_t first = 0, count = 0;
  };
  Range shard(int64_t unit) const;
  // What this rank updates of a unit: its shard, or with zero 0 everything.
  Range updated(int64_t unit) const;
  // Of the elements in a range this rank keeps: T and A[1, count].
  View weights(int64_t unit, const Range& range) const;
  View gradients(int64_t unit, const Range& range) const;

  void begin_forward(int64_t unit) override;
  void end_forward(int64_t unit) override;
  void begin_backward(int64_t unit) override;
  void end_backward(int64_t unit) override;

  void clear_gradients();
  // Whether backward passes from now on are those of a chunk's last micro-batch. Where gradients
  // are kept whole, a unit's are then complete behind its own, and replicas whose messages overlap
  // reduce them while the passes of the units before it compute; but for the tied table, which the
  // other end adds to.
  void set_last_micro_batch(bool last) { last_micro_batch_ = last; }
  // Behind all passes: sums what is still to be summed over the tensor axis, over the two copies of
  // the tied table, and over the replicas.
  void reduce_gradients();
  // Behind the update: gives the other ranks this rank's shard, where they keep it.
  void share_weights();

  // Calls visit(unit) for each unit while its parameters' weights are there as a whole. With
  // `write` they are kept as they are then.
  void visit_weights(bool write, const std::function<void(ParameterUnit&)>& visit);

 private:
  struct UnitMemory {
    int64_t weights = 0, gradients = 0;     // first element in weights_ and gradients_
    Tensor whole_weights, whole_gradients;  // while a layer runs
    bool is_reduced = false;                // in this step
  };
  bool keeps_weights() const { return zero_ < 3; }
  bool keeps_gradients() const { return zero_ < 2; }
  int64_t shard_elements(int64_t unit) const;
  int64_t kept_elements(int64_t unit, bool whole) const;
  void gather_weights(int64_t unit);
  void point(int64_t unit, void* weights, void* gradients);
  void sum_partial_gradients(int64_t unit);
  void reduce(int64_t unit);

  LayerContext& context_;
  ParameterSet& set_;
  int zero_;
  const Parameter* tied_;
  bool last_micro_batch_ = false;
  Communicator& replicas_;
  std::unique_ptr<Communicator> kv_group_;  // ranks that hold the same KV heads
  Tensor weights_, gradients_;
  std::vector<UnitMemory> units_;
};

}  // namespace engine
