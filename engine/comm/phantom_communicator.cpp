// Made-up data of the ranks that a phantom run leaves out.
#include "engine/comm/phantom_communicator.h"

#include <bit>
#include <cstring>

namespace engine {
namespace {

// A counter-based generator in 32 bits, which vectorises: key and counter are mixed by two rounds
// of multiply and shift (constants: Wellons' 2018 search for low bias).
uint32_t mix(uint32_t x) {
  x ^= x >> 16;
  x *= 0x7feb352dU;
  x ^= x >> 15;
  x *= 0x846ca68bU;
  x ^= x >> 16;
  return x;
}

// Uniform with mean 0 and variance 1: in [-√3, √3).
float unit_scale(uint32_t bits) {
  constexpr float kStep = 1.7320508F / 2147483648.0F;
  return static_cast<float>(static_cast<int32_t>(bits)) * kStep;
}

template <class T, class Make>
void fill(Payload data, uint32_t key, Make make) {
  auto* bytes = static_cast<std::byte*>(data.data);
  for (int64_t i = 0; i < data.count; ++i) {
    const T value = make(mix(static_cast<uint32_t>(i) ^ key));
    std::memcpy(bytes + i * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
  }
}

void make_up(Payload data, uint32_t key) {
  switch (data.element) {
    case Element::f32:
      return fill<float>(data, key, unit_scale);
    case Element::f64:
      return fill<double>(data, key, unit_scale);
    case Element::bf16:
      return fill<uint16_t>(data, key, [](uint32_t bits) {
        return static_cast<uint16_t>(std::bit_cast<uint32_t>(unit_scale(bits)) >> 16);
      });
    case Element::i32:
      return fill<int32_t>(data, key,
                           [](uint32_t bits) { return static_cast<int32_t>(bits & 1U); });
    case Element::u8:
      return fill<uint8_t>(data, key,
                           [](uint32_t bits) { return static_cast<uint8_t>(bits & 1U); });
  }
}

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
    if (to != shard.data) std::memcpy(to, shard.data, static_cast<size_t>(shard.bytes()));
  }
}

void PhantomCommunicator::do_reduce_scatter(ConstPayload whole, Payload shard, Reduction) {
  const void* from = whole.at(rank() * shard.count);
  if (from != shard.data) std::memcpy(shard.data, from, static_cast<size_t>(shard.bytes()));
}

void PhantomCommunicator::do_broadcast(Payload data, int root) {
  if (rank() != root) make_up(data, key_of(seed_, rank(), made_up_++));
}

void PhantomCommunicator::do_receive(Payload data, int) {
  make_up(data, key_of(seed_, rank(), made_up_++));
}

std::unique_ptr<Communicator> PhantomCommunicator::do_split(const std::vector<int>& members,
                                                            int place) {
  return std::make_unique<PhantomCommunicator>(place, static_cast<int>(members.size()), seed_);
}

}  // namespace engine
