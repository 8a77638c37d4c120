// Made-up data of the ranks that a phantom run leaves out.
#include "engine/comm/phantom_communicator.h"

#include "engine/comm/made_up.h"

namespace engine {
namespace {

uint32_t key_of(uint64_t seed, int rank, uint64_t call) {
  const auto low = [](uint64_t value) { return static_cast<uint32_t>(value); };
  uint32_t key = mix(low(seed) ^ mix(low(seed >> 32)));
  key = mix(key + static_cast<uint32_t>(rank));
  return mix(key ^ mix(low(call) ^ mix(low(call >> 32))));
}

}  // namespace

void PhantomCommunicator::do_all_gather(ConstPayload shard, Payload whole) {
  for (int part = 0; part < size(); ++part) {
    void* to = whole.at(part * shard.count);
    if (to != shard.data) memory().copy(to, shard.data, shard.bytes());
  }
}

void PhantomCommunicator::do_reduce_scatter(ConstPayload whole, Payload shard, Reduction) {
  const void* from = whole.at(rank() * shard.count);
  if (from != shard.data) memory().copy(shard.data, from, shard.bytes());
}

void PhantomCommunicator::do_broadcast(Payload data, int root) {
  if (rank() != root) memory().make_up(data, key_of(seed_, rank(), made_up_++));
}

void PhantomCommunicator::do_receive(Payload data, int) {
  memory().make_up(data, key_of(seed_, rank(), made_up_++));
}

std::unique_ptr<Communicator> PhantomCommunicator::do_split(const std::vector<int>& members,
                                                            int place) {
  return std::make_unique<PhantomCommunicator>(place, static_cast<int>(members.size()), seed_,
                                               shared_memory());
}

}  // namespace engine
