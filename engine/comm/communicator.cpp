// The checks that every communicator shares, and the verbs of a rank that is alone.
#include "engine/comm/communicator.h"

#include <algorithm>

#include "engine/base/errors.h"
#include "engine/device/device.h"

namespace engine {
namespace {

void check_parts(ConstPayload shard, ConstPayload whole, int size) {
  expect(shard.element == whole.element, "shard and whole of one element type");
  expect(shard.count >= 0 && shard.count * size == whole.count,
         "whole.count == shard.count * size");
}

}  // namespace

std::string_view name_of(Element element) {
  constexpr std::string_view kNames[] = {"f32", "bf16", "f64", "i32", "u8"};
  return kNames[static_cast<size_t>(element)];
}

Communicator::Communicator(int rank, int size, std::shared_ptr<const RankMemory> memory)
    : rank_(rank), size_(size), memory_(std::move(memory)) {
  expect(rank >= 0 && rank < size, "0 <= rank < size");
}

void Communicator::follow(Device& device) const {
  if (!memory_->in_device_order()) device.synchronize();
}

void Communicator::all_reduce(Payload data, Reduction reduction) {
  expect(data.count >= 0, "data.count >= 0");
  if (size_ > 1 && data.count > 0) do_all_reduce(data, reduction);
}

void Communicator::all_gather(ConstPayload shard, Payload whole) {
  check_parts(shard, whole, size_);
  if (size_ == 1) return memory_->copy(whole.data, shard.data, shard.bytes());
  if (shard.count > 0) do_all_gather(shard, whole);
}

void Communicator::reduce_scatter(ConstPayload whole, Payload shard, Reduction reduction) {
  check_parts(shard, whole, size_);
  if (size_ == 1) return memory_->copy(shard.data, whole.data, whole.bytes());
  if (shard.count > 0) do_reduce_scatter(whole, shard, reduction);
}

void Communicator::broadcast(Payload data, int root) {
  expect(data.count >= 0, "data.count >= 0");
  expect(root >= 0 && root < size_, "a root among the ranks");
  if (size_ > 1 && data.count > 0) do_broadcast(data, root);
}

void Communicator::send(ConstPayload data, int to) {
  expect(data.count >= 0, "data.count >= 0");
  expect(to >= 0 && to < size_ && to != rank_, "another rank to send to");
  if (data.count > 0) do_send(data, to);
}

void Communicator::receive(Payload data, int from) {
  expect(data.count >= 0, "data.count >= 0");
  expect(from >= 0 && from < size_ && from != rank_, "another rank to receive from");
  if (data.count > 0) do_receive(data, from);
}

void Communicator::barrier() {
  if (size_ > 1) do_barrier();
}

std::unique_ptr<Communicator> Communicator::split(std::span<const int> members) {
  std::vector<int> sorted(members.begin(), members.end());
  std::sort(sorted.begin(), sorted.end());
  expect(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end(), "members named once");
  expect(!sorted.empty() && sorted.front() >= 0 && sorted.back() < size_,
         "members among the ranks");
  const auto mine = std::find(members.begin(), members.end(), rank_);
  expect(mine != members.end(), "the calling rank among the members");
  return do_split({members.begin(), members.end()}, static_cast<int>(mine - members.begin()));
}

}  // namespace engine
