// A Communicator moves payloads between the ranks of one axis of the process grid.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "engine/comm/rank_memory.h"

namespace engine {

class Device;

// All ranks of a communicator call the same collective verbs in the same order with equal counts
// and types; one thread a rank. Reductions combine in rank order (bf16 in f32, rounded once), so
// results are equal bit by bit on every rank, in every run and with every kind of rank. A
// communicator of one rank copies; empty payloads are not sent. Wrong arguments throw
// std::logic_error.
//
// Payloads lie in host memory or on the rank's device. Before a verb reads what a device computed,
// or writes memory that it may still use, the device is made to follow(); what the device is asked
// to do behind a verb sees its result.
class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  const std::shared_ptr<const RankMemory>& shared_memory() const { return memory_; }

  // Verbs called from now on see what `device` was asked to do so far: it is waited for, unless
  // this communicator keeps the order on the device itself.
  void follow(Device& device) const;

  // Whether payloads can travel while the device computes, without taking cores or memory from it.
  virtual bool overlaps() const { return false; }
  // The device does not wait for collective verbs from here to end_overlap(), where there is
  // overlap: what it is asked in between sees no results, and nobody touches or gives back the
  // payloads, which lie on the device.
  virtual void begin_overlap() {}
  virtual void end_overlap() {}

  // Throws where it is already known that another rank has failed.
  virtual void check_ranks() const {}

  // data[i] = reduction over the ranks of data[i].
  void all_reduce(Payload data, Reduction reduction = Reduction::sum);
  // whole [size · shard.count] = the shards in rank order; shard may be its own part of whole.
  void all_gather(ConstPayload shard, Payload whole);
  // shard [whole.count / size] = part number rank of the reduction over the ranks of whole; shard
  // may be its own part of whole.
  void reduce_scatter(ConstPayload whole, Payload shard, Reduction reduction = Reduction::sum);
  // data = the data of rank `root`.
  void broadcast(Payload data, int root);
  // To another rank. Returns once the data is copied, received or not, so that ranks which all send
  // first do not wait for each other. Messages between two ranks arrive in the order of sending.
  void send(ConstPayload data, int to);
  // The next message from another rank, of exactly this count and type.
  void receive(Payload data, int from);
  // Returns once every rank has called it.
  void barrier();
  // Divides the ranks into groups. Every rank calls it with the ranks of its own group, in the
  // order they shall have in the new communicator.
  std::unique_ptr<Communicator> split(std::span<const int> members);

 protected:
  Communicator(int rank, int size, std::shared_ptr<const RankMemory> memory = host_memory());
  const RankMemory& memory() const { return *memory_; }

 private:
  // As the public verbs; arguments are checked, size() > 1 and payloads are not empty (but split).
  virtual void do_all_reduce(Payload data, Reduction reduction) = 0;
  virtual void do_all_gather(ConstPayload shard, Payload whole) = 0;
  virtual void do_reduce_scatter(ConstPayload whole, Payload shard, Reduction reduction) = 0;
  virtual void do_broadcast(Payload data, int root) = 0;
  virtual void do_send(ConstPayload data, int to) = 0;
  virtual void do_receive(Payload data, int from) = 0;
  virtual void do_barrier() = 0;
  // `rank` is this rank's place in `members`.
  virtual std::unique_ptr<Communicator> do_split(const std::vector<int>& members, int rank) = 0;

  int rank_;
  int size_;
  std::shared_ptr<const RankMemory> memory_;
};

}  // namespace engine
