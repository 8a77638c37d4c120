// PhantomCommunicator: one rank of a world of any size, alone; the others are made up.
#pragma once
#include <cstdint>

#include "engine/comm/communicator.h"

namespace engine {

// Every verb returns at once with finite data of the usual size, so that one rank of a plan
// computes and allocates as in the real run: all_reduce is the identity, all_gather repeats the own
// shard, reduce_scatter takes the own part, broadcast is the identity on the root. receive, and
// broadcast elsewhere, yield values of mean 0 and variance 1 (integers: 0 or 1) that depend on
// `seed`, the rank and the number of such calls before only. send drops.
class PhantomCommunicator final : public Communicator {
 public:
  PhantomCommunicator(int rank, int size, uint64_t seed = 0,
                      std::shared_ptr<const RankMemory> memory = host_memory())
      : Communicator(rank, size, std::move(memory)), seed_(seed) {}

 private:
  void do_all_reduce(Payload, Reduction) override {}
  void do_all_gather(ConstPayload shard, Payload whole) override;
  void do_reduce_scatter(ConstPayload whole, Payload shard, Reduction) override;
  void do_broadcast(Payload data, int root) override;
  void do_send(ConstPayload, int) override {}
  void do_receive(Payload data, int from) override;
  void do_barrier() override {}
  std::unique_ptr<Communicator> do_split(const std::vector<int>& members, int place) override;

  uint64_t seed_;
  uint64_t made_up_ = 0;  // payloads so far
};

}  // namespace engine
