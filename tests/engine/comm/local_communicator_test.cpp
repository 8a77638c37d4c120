// Thread ranks: the communicator suite, and the end of a run in which one rank fails.
#include "engine/comm/local_communicator.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

#include "tests/support/communicator_conformance.h"

namespace engine {
namespace {

class LocalConformance : public testing::TestWithParam<std::tuple<size_t, int>> {};

TEST_P(LocalConformance, Holds) {
  const auto [index, ranks] = GetParam();
  run_local(ranks, conformance::cases()[index].check);
}

INSTANTIATE_TEST_SUITE_P(Ranks, LocalConformance,
                         testing::Combine(testing::Range(size_t{0}, conformance::cases().size()),
                                          testing::Values(1, 2, 3, 4, 8)),
                         [](const auto& instance) {
                           return conformance::cases()[std::get<0>(instance.param)].name + "_on_" +
                                  std::to_string(std::get<1>(instance.param));
                         });

struct Boom : std::runtime_error {
  Boom() : std::runtime_error("boom") {}
};

// What the ranks that do not fail are doing; none of these returns while rank 0 is missing.
struct Waiting {
  const char* name;
  void (*wait)(Communicator&);
};
void PrintTo(const Waiting& waiting, std::ostream* out) { *out << waiting.name; }
const Waiting kWaits[] = {
    {"small_all_reduce", [](Communicator& c) { c.all_reduce(std::vector<float>(4)); }},
    {"large_all_reduce", [](Communicator& c) { c.all_reduce(std::vector<float>(40000)); }},
    {"all_gather",
     [](Communicator& c) {
       std::vector<float> whole(static_cast<size_t>(10 * c.size()));
       c.all_gather(std::vector<float>(10), whole);
     }},
    {"reduce_scatter",
     [](Communicator& c) {
       std::vector<float> shard(10);
       c.reduce_scatter(std::vector<float>(static_cast<size_t>(10 * c.size())), shard);
     }},
    {"broadcast", [](Communicator& c) { c.broadcast(std::vector<float>(10), 0); }},
    {"receive", [](Communicator& c) { c.receive(std::vector<float>(10), 0); }},
    {"barrier", [](Communicator& c) { c.barrier(); }},
    {"split", [](Communicator& c) { c.split(std::vector{c.rank()}); }},
    {"receive_in_a_group",
     [](Communicator& c) { c.receive(std::vector<float>(10), c.rank() == 1 ? 2 : 1); }},
};

class LocalFailure : public testing::TestWithParam<Waiting> {};

TEST_P(LocalFailure, EndsAllRanksWithItsCause) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THROW(run_local(4,
                         [](Communicator& c) {
                           if (c.rank() == 0) {
                             std::this_thread::sleep_for(std::chrono::milliseconds(5));
                             throw Boom();
                           }
                           GetParam().wait(c);
                           FAIL() << "rank " << c.rank() << " did not wait";
                         }),
               Boom);
  // Without the wake-up the ranks would wait for ever.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
}

INSTANTIATE_TEST_SUITE_P(Waits, LocalFailure, testing::ValuesIn(kWaits),
                         [](const auto& instance) { return std::string(instance.param.name); });

TEST(LocalFailure, ReachesGroupsThatTheFailedRankIsNotIn) {
  EXPECT_THROW(run_local(4,
                         [](Communicator& c) {
                           const int low = c.rank() / 2 * 2;
                           const auto pair = c.split(std::vector{low, low + 1});
                           if (c.rank() == 0) throw Boom();
                           if (c.rank() == 3) pair->receive(std::vector<float>(1), 0);
                           if (c.rank() == 2) c.barrier();
                           if (c.rank() == 1) pair->barrier();
                         }),
               Boom);
}

std::string message_of(int ranks, const std::function<void(Communicator&)>& body) {
  try {
    run_local(ranks, body);
  } catch (const std::logic_error& error) {
    return error.what();
  }
  return "nothing thrown";
}

TEST(LocalMistakes, DifferentCollectivesAreNamed) {
  const std::string verbs = message_of(2, [](Communicator& c) {
    if (c.rank() == 0) c.all_reduce(std::vector<float>(3));
    if (c.rank() == 1) c.barrier();
  });
  EXPECT_NE(verbs.find("all_reduce of 3 f32"), std::string::npos) << verbs;
  EXPECT_NE(verbs.find("barrier"), std::string::npos) << verbs;
  const std::string sizes = message_of(2, [](Communicator& c) {
    c.all_reduce(std::vector<float>(static_cast<size_t>(3 + c.rank())));
  });
  EXPECT_NE(sizes.find("4 f32"), std::string::npos) << sizes;
}

TEST(LocalMistakes, AMessageOfAnotherSizeIsNamed) {
  for (const int sleeper : {0, 1}) {
    const std::string text = message_of(2, [sleeper](Communicator& c) {
      if (c.rank() == sleeper) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      if (c.rank() == 0) c.send(std::vector<float>(3), 1);
      if (c.rank() == 1) c.receive(std::vector<double>(2), 0);
      c.barrier();
    });
    EXPECT_NE(text.find("2 f64 and is sent 3 f32"), std::string::npos) << text;
  }
}

TEST(LocalMistakes, NoRanksAreRefused) {
  EXPECT_THROW(run_local(0, [](Communicator&) {}), std::logic_error);
}

}  // namespace
}  // namespace engine
