// Counts messages and payload bytes, by verb and axis.
#include "engine/comm/metered_communicator.h"

namespace engine {

void TrafficMeter::count(const std::string& axis, const std::string& verb, int64_t payload_bytes) {
  Count& count = counts_[{axis, verb}];
  ++count.messages;
  count.payload_bytes += payload_bytes;
}

std::vector<Traffic> TrafficMeter::traffic() const {
  std::vector<Traffic> all;
  for (const auto& [key, count] : counts_)
    all.push_back({key.second, key.first, count.messages, count.payload_bytes});
  return all;
}

MeteredCommunicator::MeteredCommunicator(std::unique_ptr<Communicator> inner, std::string axis,
                                         std::shared_ptr<TrafficMeter> meter)
    : Communicator(inner->rank(), inner->size(), inner->shared_memory()),
      inner_(std::move(inner)),
      axis_(std::move(axis)),
      meter_(std::move(meter)) {}

void MeteredCommunicator::do_all_reduce(Payload data, Reduction reduction) {
  meter_->count(axis_, "all_reduce", data.bytes());
  inner_->all_reduce(data, reduction);
}

void MeteredCommunicator::do_all_gather(ConstPayload shard, Payload whole) {
  meter_->count(axis_, "all_gather", whole.bytes());
  inner_->all_gather(shard, whole);
}

void MeteredCommunicator::do_reduce_scatter(ConstPayload whole, Payload shard,
                                            Reduction reduction) {
  meter_->count(axis_, "reduce_scatter", whole.bytes());
  inner_->reduce_scatter(whole, shard, reduction);
}

void MeteredCommunicator::do_broadcast(Payload data, int root) {
  meter_->count(axis_, "broadcast", data.bytes());
  inner_->broadcast(data, root);
}

void MeteredCommunicator::do_send(ConstPayload data, int to) {
  meter_->count(axis_, "send", data.bytes());
  inner_->send(data, to);
}

void MeteredCommunicator::do_receive(Payload data, int from) { inner_->receive(data, from); }

void MeteredCommunicator::do_barrier() { inner_->barrier(); }

std::unique_ptr<Communicator> MeteredCommunicator::do_split(const std::vector<int>& members, int) {
  return std::make_unique<MeteredCommunicator>(inner_->split(members), axis_, meter_);
}

}  // namespace engine
