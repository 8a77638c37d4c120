// The cases of the communicator suite. Data are multiples of 1/8, so that every sum is exact.
#include "tests/support/communicator_conformance.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "engine/base/errors.h"

namespace conformance {
namespace {

using engine::Communicator;
using engine::Element;
using engine::expect;
using engine::Payload;
using engine::Reduction;

// Empty, odd, around the sizes at which implementations change their way, and random ones; the same
// on all ranks. Many ranks are spared the longest, to be quick.
std::vector<int64_t> counts(const Communicator& c) {
  const int64_t longest = c.size() > 2 ? 40001 : 300001;
  std::vector<int64_t> all = {0, 1, 3, 7, 64, 65, 1023, 1025, 16385, longest};
  std::mt19937 random(7);
  for (int i = 0; i < 6; ++i) all.push_back(static_cast<int64_t>(random() % 9000));
  return all;
}

// An exact value that tells the rank and the index.
template <class T>
T value(int rank, int64_t index) {
  const int64_t eighths = (rank * 3 + index) % 13;
  if constexpr (std::is_integral_v<T>) return static_cast<T>(eighths);
  return static_cast<T>(eighths) / static_cast<T>(8);
}

template <class T>
std::vector<T> values(int rank, int64_t count, int64_t first = 0) {
  std::vector<T> all(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) all[static_cast<size_t>(i)] = value<T>(rank, first + i);
  return all;
}

template <class T>
T reduced(int ranks, int64_t index, Reduction reduction) {
  T result = value<T>(0, index);
  for (int rank = 1; rank < ranks; ++rank) {
    const T next = value<T>(rank, index);
    result = reduction == Reduction::sum ? static_cast<T>(result + next) : std::max(result, next);
  }
  return result;
}

template <class T>
void check_all_reduce(Communicator& c) {
  for (const auto reduction : {Reduction::sum, Reduction::max})
    for (const int64_t count : counts(c)) {
      auto data = values<T>(c.rank(), count);
      c.all_reduce(data, reduction);
      for (int64_t i = 0; i < count; ++i)
        expect(data[static_cast<size_t>(i)] == reduced<T>(c.size(), i, reduction), "reduced data");
    }
}

template <class T>
void check_reduce_scatter(Communicator& c) {
  for (const auto reduction : {Reduction::sum, Reduction::max})
    for (const int64_t count : counts(c)) {
      auto whole = values<T>(c.rank(), count * c.size());
      std::vector<T> shard(static_cast<size_t>(count));
      c.reduce_scatter(whole, shard, reduction);
      expect(whole == values<T>(c.rank(), count * c.size()), "the input unchanged");
      for (int64_t i = 0; i < count; ++i)
        expect(
            shard[static_cast<size_t>(i)] == reduced<T>(c.size(), c.rank() * count + i, reduction),
            "the own part, reduced");
      const Payload all = whole;
      c.reduce_scatter(all, all.part(c.rank() * count, count), reduction);
      expect(std::equal(shard.begin(), shard.end(), whole.begin() + c.rank() * count), "in place");
    }
}

template <class T>
void check_all_gather(Communicator& c) {
  for (const int64_t count : counts(c)) {
    std::vector<T> expected;
    for (int rank = 0; rank < c.size(); ++rank) {
      const auto part = values<T>(rank, count);
      expected.insert(expected.end(), part.begin(), part.end());
    }
    std::vector<T> whole(expected.size());
    c.all_gather(values<T>(c.rank(), count), whole);
    expect(whole == expected, "the shards in rank order");

    std::fill(whole.begin(), whole.end(), T{});
    const Payload mine = Payload(whole).part(c.rank() * count, count);
    const auto shard = values<T>(c.rank(), count);
    std::copy(shard.begin(), shard.end(), whole.begin() + c.rank() * count);
    c.all_gather(mine, whole);
    expect(whole == expected, "the shards in rank order, in place");
  }
}

void check_broadcast(Communicator& c) {
  for (int root = 0; root < c.size(); ++root)
    for (const int64_t count : counts(c)) {
      auto data = values<int32_t>(c.rank(), count);
      c.broadcast(data, root);
      expect(data == values<int32_t>(root, count), "the data of the root");
    }
}

// Which rounding bf16 sums get: 1 + 2⁻⁸ + 2⁻⁸ is 1 when every addition rounds, but 1 + 2⁻⁷ rounded
// once.
void check_bf16(Communicator& c) {
  constexpr uint16_t kOne = 0x3f80, kTiny = 0x3b80, kOnePlusTwoTiny = 0x3f81, kNan = 0x7fc0;
  for (const int64_t count : counts(c)) {
    if (c.size() < 3) break;
    const uint16_t mine = c.rank() == 0 ? kOne : c.rank() < 3 ? kTiny : uint16_t{0};
    std::vector<uint16_t> data(static_cast<size_t>(count), mine);
    c.all_reduce({data.data(), count, Element::bf16});
    for (const uint16_t sum : data) expect(sum == kOnePlusTwoTiny, "one rounding at the end");
  }
  std::vector<uint16_t> data = {c.rank() == c.size() - 1 ? kNan : kOne, kOne};
  c.all_reduce({data.data(), 2, Element::bf16}, Reduction::max);
  expect((data[0] & 0x7fffU) > 0x7f80U && data[1] == kOne, "a NaN of any rank kept");
}

// 2²⁴ + 1 + 1 + … in f32 depends on the order: added one by one, every 1 is lost.
void check_rank_order(Communicator& c) {
  const float big = 16777216.0F;
  for (const int64_t count : {1, 500, 5000, 300000}) {
    std::vector<float> data(static_cast<size_t>(count), c.rank() == 0 ? big : 1.0F);
    auto whole = data;
    c.all_reduce(data);
    for (const float sum : data) expect(sum == big, "the sum in rank order");
    std::vector<float> random(static_cast<size_t>(count * c.size()));
    float expected = 0;
    for (int rank = 0; rank < c.size(); ++rank)
      expected += 0.1F * static_cast<float>(rank * rank + 1);
    std::fill(random.begin(), random.end(), 0.1F * static_cast<float>(c.rank() * c.rank() + 1));
    c.reduce_scatter(random, whole);
    for (const float sum : whole) expect(sum == expected, "the sum in rank order");
  }
}

// Messages between two ranks keep their order, whatever their size, and are kept until asked for;
// of two ranks that have never talked, the first one.
void check_message_order(Communicator& c) {
  if (c.size() == 1) return;
  const int next = (c.rank() + 1) % c.size(), previous = (c.rank() + c.size() - 1) % c.size();
  for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{2}, {1, 70001, 0, 3, 8191}}) {
    for (const int64_t size : sizes) c.send(values<float>(c.rank(), size, size), next);
    for (const int64_t size : sizes) {
      std::vector<float> data(static_cast<size_t>(size));
      c.receive(data, previous);
      expect(data == values<float>(previous, size, size), "messages in the order of sending");
    }
  }
}

// Every rank sends to all others first, more than any transport buffers by itself, and reuses the
// memory.
void check_all_send_first(Communicator& c) {
  constexpr int64_t kCount = 1 << 18;
  for (int round = 0; round < 3; ++round) {
    for (int to = 0; to < c.size(); ++to) {
      if (to == c.rank()) continue;
      auto data = values<float>(c.rank(), kCount, round);
      c.send(data, to);
      std::fill(data.begin(), data.end(), -1.0F);
    }
    for (int from = c.size() - 1; from >= 0; --from) {
      if (from == c.rank()) continue;
      std::vector<float> data(kCount);
      c.receive(data, from);
      expect(data == values<float>(from, kCount, round), "the data at the time of sending");
    }
  }
}

// A pipeline in the order of 1F1B: forward activations go up, gradients come down, on two
// communicators.
void check_pipeline(Communicator& c) {
  std::vector<int> everyone(static_cast<size_t>(c.size()));
  std::iota(everyone.begin(), everyone.end(), 0);
  const auto forward = c.split(everyone), backward = c.split(everyone);
  const int stage = c.rank(), last = c.size() - 1, micro_batches = 2 * c.size();
  const int warm_up = std::min(last - stage, micro_batches);
  const auto forward_step = [&](int micro_batch) {
    std::vector<double> x(5000, micro_batch);
    if (stage > 0) forward->receive(x, stage - 1);
    for (double& element : x) element += 1;
    if (stage < last) return forward->send(x, stage + 1);
    for (const double element : x) expect(element == micro_batch + c.size(), "every stage passed");
  };
  const auto backward_step = [&](int micro_batch) {
    std::vector<double> x(5000, micro_batch);
    if (stage < last) backward->receive(x, stage + 1);
    for (double& element : x) element *= 2;
    if (stage > 0) return backward->send(x, stage - 1);
    for (const double e : x) expect(e == std::ldexp(micro_batch, c.size()), "every stage passed");
  };
  for (int i = 0; i < warm_up; ++i) forward_step(i);
  for (int i = warm_up; i < micro_batches; ++i) forward_step(i), backward_step(i - warm_up);
  for (int i = micro_batches - warm_up; i < micro_batches; ++i) backward_step(i);
}

// A barrier is one: no rank leaves before all have come.
void check_barrier(Communicator& c) {
  for (int round = 0; round < 50; ++round) {
    for (int late = 0; late < c.size(); ++late)
      if (late != c.rank()) c.send(std::vector<int32_t>{round}, late);
    c.barrier();
    for (int from = 0; from < c.size(); ++from) {
      if (from == c.rank()) continue;
      std::vector<int32_t> data(1);
      c.receive(data, from);
      expect(data[0] == round, "the message of this round");
    }
  }
}

void check_split(Communicator& c) {
  std::vector<int> members;  // even and odd ranks, in falling order
  for (int rank = c.size() - 1; rank >= 0; --rank)
    if (rank % 2 == c.rank() % 2) members.push_back(rank);
  for (int round = 0; round < 3; ++round) {
    const auto group = c.split(members);
    expect(group->size() == static_cast<int>(members.size()), "the size of the group");
    expect(members[static_cast<size_t>(group->rank())] == c.rank(), "the order of the members");
    std::vector<int32_t> ranks(members.size());
    group->all_gather(std::vector<int32_t>{c.rank()}, ranks);
    expect(std::equal(ranks.begin(), ranks.end(), members.begin()), "the members' data in order");
    const auto alone = group->split(std::vector{group->rank()});
    expect(alone->size() == 1, "a group of one");
    alone->all_reduce(ranks);
    expect(std::equal(ranks.begin(), ranks.end(), members.begin()),
           "alone, a sum is its only term");
  }
  // Traffic of a group and of the whole do not meet.
  const auto group = c.split(members);
  std::vector<float> a = values<float>(c.rank(), 100), b = a;
  group->all_reduce(a);
  c.all_reduce(b);
  for (int64_t i = 0; i < 100; ++i) {
    float sum = 0;
    for (const int member : members) sum += value<float>(member, i);
    expect(a[static_cast<size_t>(i)] == sum, "the sum over the group");
    expect(b[static_cast<size_t>(i)] == reduced<float>(c.size(), i, Reduction::sum), "over all");
  }
}

// Verbs and sizes drawn at random, in the same order on all ranks.
void check_random_mix(Communicator& c) {
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    const auto count = static_cast<int64_t>(random() % 3000);
    const int root = static_cast<int>(random() % static_cast<unsigned>(c.size()));
    auto data = values<float>(c.rank(), count, round);
    std::vector<float> whole(static_cast<size_t>(count * c.size()));
    switch (random() % 4) {
      case 0:
        c.all_reduce(data);
        for (int64_t i = 0; i < count; ++i)
          expect(
              data[static_cast<size_t>(i)] == reduced<float>(c.size(), round + i, Reduction::sum),
              "the sum");
        break;
      case 1:
        c.broadcast(data, root);
        expect(data == values<float>(root, count, round), "the data of the root");
        break;
      case 2:
        c.all_gather(data, whole);
        for (int rank = 0; rank < c.size(); ++rank) {
          const auto part = values<float>(rank, count, round);
          expect(std::equal(part.begin(), part.end(), whole.begin() + rank * count), "the shards");
        }
        break;
      default:
        c.barrier();
    }
  }
}

// Arguments that are wrong on every rank are refused before anything is sent.
void check_refusals(Communicator& c) {
  const auto refuses = [](const auto& call) {
    try {
      call();
    } catch (const std::logic_error&) {
      return true;
    }
    return false;
  };
  std::vector<float> data(4), whole(static_cast<size_t>(4 * c.size() + 1));
  std::vector<double> doubles(static_cast<size_t>(4 * c.size()));
  expect(refuses([&] { c.all_gather(data, whole); }), "a whole of the wrong size refused");
  expect(refuses([&] { c.all_gather(data, doubles); }), "mixed types refused");
  expect(refuses([&] { c.broadcast(data, c.size()); }), "a root that is no rank refused");
  expect(refuses([&] { c.send(data, c.rank()); }), "sending to oneself refused");
  expect(refuses([&] { c.receive(data, -1); }), "receiving from nobody refused");
  expect(refuses([&] { c.split(std::vector<int>{}); }), "a group without the caller refused");
  expect(refuses([&] { c.split(std::vector{c.rank(), c.rank()}); }), "a rank twice refused");
}

}  // namespace

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"all_reduce_f32", check_all_reduce<float>},
      {"all_reduce_f64", check_all_reduce<double>},
      {"all_reduce_i32", check_all_reduce<int32_t>},
      {"all_reduce_u8", check_all_reduce<uint8_t>},
      {"all_reduce_bf16", check_bf16, Promise::rank_order},
      {"reduce_scatter_f32", check_reduce_scatter<float>},
      {"reduce_scatter_i32", check_reduce_scatter<int32_t>},
      {"all_gather_f32", check_all_gather<float>},
      {"all_gather_u8", check_all_gather<uint8_t>},
      {"broadcast", check_broadcast},
      {"rank_order", check_rank_order, Promise::rank_order},
      {"message_order", check_message_order},
      {"all_send_first", check_all_send_first, Promise::free_sends},
      {"pipeline", check_pipeline},
      {"barrier", check_barrier, Promise::free_sends},
      {"split", check_split},
      {"random_mix", check_random_mix},
      {"refusals", check_refusals},
  };
  return all;
}

}  // namespace conformance
