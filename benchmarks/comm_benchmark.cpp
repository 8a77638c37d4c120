// Speed of the verbs between thread ranks by message size, beside memcpy in the same run.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <vector>

#include "engine/comm/local_communicator.h"

namespace {

using engine::Communicator;
using Clock = std::chrono::steady_clock;
// One repetition of a verb on one rank; the buffers hold `count` floats.
using Verb = std::function<void(Communicator&, std::vector<float>& a, std::vector<float>& b)>;

// Seconds a call, over enough calls on warm buffers that starting the threads does not count.
double time_verb(int ranks, size_t count, const Verb& verb) {
  const int calls =
      static_cast<int>(std::clamp<size_t>((size_t{64} << 20) / (count * 4 + 1), 10, 2000));
  double seconds = 0;
  engine::run_local(ranks, [&](Communicator& communicator) {
    std::vector<float> a(count, 0.0F), b(count, 0.0F);
    for (int i = 0; i < 3; ++i) verb(communicator, a, b);
    communicator.barrier();
    const auto start = Clock::now();
    for (int i = 0; i < calls; ++i) verb(communicator, a, b);
    communicator.barrier();
    if (communicator.rank() == 0)
      seconds = std::chrono::duration<double>(Clock::now() - start).count() / calls;
  });
  return seconds;
}

void run(benchmark::State& state, const Verb& verb) {
  const auto bytes = state.range(0);
  for (auto _ : state)
    state.SetIterationTime(
        time_verb(static_cast<int>(state.range(1)), static_cast<size_t>(bytes) / 4, verb));
  state.SetBytesProcessed(state.iterations() * bytes);
}

void all_reduce(benchmark::State& state) {
  run(state, [](Communicator& c, auto& a, auto&) { c.all_reduce(a); });
}

void all_gather(benchmark::State& state) {
  run(state, [](Communicator& c, auto& a, auto& b) {
    const auto shard = static_cast<int64_t>(a.size()) / c.size();
    c.all_gather({a.data(), shard, engine::Element::f32},
                 {b.data(), shard * c.size(), engine::Element::f32});
  });
}

void reduce_scatter(benchmark::State& state) {
  run(state, [](Communicator& c, auto& a, auto& b) {
    const auto shard = static_cast<int64_t>(a.size()) / c.size();
    c.reduce_scatter({a.data(), shard * c.size(), engine::Element::f32},
                     {b.data(), shard, engine::Element::f32});
  });
}

// Around the ring: every rank sends first.
void send(benchmark::State& state) {
  run(state, [](Communicator& c, auto& a, auto& b) {
    c.send(a, (c.rank() + 1) % c.size());
    c.receive(b, (c.rank() + c.size() - 1) % c.size());
  });
}

void memcpy_alone(benchmark::State& state) {
  const auto bytes = static_cast<size_t>(state.range(0));
  std::vector<char> from(bytes, 1), to(bytes, 0);
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), bytes);
    benchmark::DoNotOptimize(to.data());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(bytes));
}

const std::vector<int64_t> kBytes = {64, 4 << 10, 64 << 10, 1 << 20, 4 << 20, 32 << 20};

BENCHMARK(memcpy_alone)->ArgsProduct({kBytes});
BENCHMARK(all_reduce)->ArgsProduct({kBytes, {2, 4}})->UseManualTime()->Iterations(7);
BENCHMARK(all_gather)->ArgsProduct({kBytes, {2, 4}})->UseManualTime()->Iterations(7);
BENCHMARK(reduce_scatter)->ArgsProduct({kBytes, {2, 4}})->UseManualTime()->Iterations(7);
BENCHMARK(send)->ArgsProduct({kBytes, {2, 4}})->UseManualTime()->Iterations(7);

}  // namespace

BENCHMARK_MAIN();
