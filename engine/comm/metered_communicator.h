// MeteredCommunicator: passes every verb on and counts its payload.
#pragma once
#include <memory>
#include <string>

#include "engine/comm/communicator.h"
#include "engine/comm/traffic_meter.h"

namespace engine {

// One message a call. The payload is the whole buffer for all_reduce, all_gather, reduce_scatter
// and broadcast (not a rank's shard, not what an algorithm puts on the wire), and the data for
// send. receive is counted where it was sent; barriers, communicators of one rank and empty
// payloads are not counted.
class MeteredCommunicator final : public Communicator {
 public:
  MeteredCommunicator(std::unique_ptr<Communicator> inner, std::string axis,
                      std::shared_ptr<TrafficMeter> meter);

  bool overlaps() const override { return inner_->overlaps(); }
  void begin_overlap() override { inner_->begin_overlap(); }
  void end_overlap() override { inner_->end_overlap(); }

 private:
  void do_all_reduce(Payload data, Reduction reduction) override;
  void do_all_gather(ConstPayload shard, Payload whole) override;
  void do_reduce_scatter(ConstPayload whole, Payload shard, Reduction reduction) override;
  void do_broadcast(Payload data, int root) override;
  void do_send(ConstPayload data, int to) override;
  void do_receive(Payload data, int from) override;
  void do_barrier() override;
  // The groups count under the same axis.
  std::unique_ptr<Communicator> do_split(const std::vector<int>& members, int place) override;

  std::unique_ptr<Communicator> inner_;
  std::string axis_;
  std::shared_ptr<TrafficMeter> meter_;
};

}  // namespace engine
