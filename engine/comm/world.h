// World: the communicators of one rank, one for each axis of the process grid.
#pragma once
#include <memory>
#include <vector>

#include "engine/comm/metered_communicator.h"
#include "engine/plan/grid.h"

namespace engine {

// Every rank constructs it at the same time from a communicator of grid.world() ranks, which it
// splits.
class World {
 public:
  World(Communicator& ranks, const Grid& grid);

  const Grid& grid() const { return grid_; }
  int rank() const { return all_->rank(); }
  int coordinate(Axis axis) const { return grid_.coordinate(rank(), axis); }

  // Each is metered under the name in brackets; a rank's place in its group is its coordinate.
  Communicator& all() { return *all_; }          // ["world"]
  Communicator& tensor() { return *tensor_; }    // ["tp"]
  Communicator& context() { return *context_; }  // ["cp"]
  Communicator& data() { return *data_; }        // ["dp"]
  // dp × cp, where gradients are summed and ZeRO shards; place dp_coordinate · cp + cp_coordinate
  Communicator& gradient() { return *gradient_; }  // ["dp"]
  // The pipeline, one for each direction: with interleaving, the last stage sends activations to
  // the first stage, which must not be taken for gradients. ["pp"]
  Communicator& forward() { return *forward_; }
  Communicator& backward() { return *backward_; }
  // The first and the last stage, which share a tied embedding ["embedding"]; null on other stages
  // and without a pipeline.
  Communicator* embedding() { return embedding_.get(); }

  TrafficMeter& meter() { return *meter_; }

 private:
  Grid grid_;
  std::shared_ptr<TrafficMeter> meter_ = std::make_shared<TrafficMeter>();
  std::unique_ptr<Communicator> all_, tensor_, context_, data_, gradient_, forward_, backward_,
      embedding_;
};

}  // namespace engine
