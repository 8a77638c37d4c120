// The world of axes and its meters, on thread ranks and on phantoms.
#include "engine/comm/world.h"

#include <gtest/gtest.h>

#include "engine/comm/local_communicator.h"
#include "engine/comm/phantom_communicator.h"
#include "tests/support/communicator_conformance.h"

namespace engine {
namespace {

// The world ranks of a communicator's members, in order.
std::vector<int> members(World& world, Communicator& group) {
  std::vector<int> all(static_cast<size_t>(group.size()));
  group.all_gather(std::vector<int>{world.rank()}, all);
  return all;
}

TEST(World, GroupsFollowTheGrid) {
  for (const Grid grid : {Grid(2, 1, 2, 2), Grid(1, 2, 2, 2), Grid(2, 2, 1, 1), Grid(1, 1, 1, 4)}) {
    run_local(grid.world(), [&](Communicator& ranks) {
      World world(ranks, grid);
      const int rank = ranks.rank();
      EXPECT_EQ(members(world, world.tensor()), grid.group(rank, Axis::tensor));
      EXPECT_EQ(members(world, world.context()), grid.group(rank, Axis::context));
      EXPECT_EQ(members(world, world.data()), grid.group(rank, Axis::data));
      EXPECT_EQ(members(world, world.forward()), grid.group(rank, Axis::pipeline));
      EXPECT_EQ(members(world, world.backward()), grid.group(rank, Axis::pipeline));
      EXPECT_EQ(world.forward().rank(), world.coordinate(Axis::pipeline));
      EXPECT_EQ(world.all().size(), grid.world());
      EXPECT_EQ(world.gradient().rank(), world.coordinate(Axis::data) * grid.size(Axis::context) +
                                             world.coordinate(Axis::context));
      for (const int member : members(world, world.gradient()))
        for (const Axis axis : {Axis::tensor, Axis::pipeline})
          EXPECT_EQ(grid.coordinate(member, axis), world.coordinate(axis));
      const int stage = world.coordinate(Axis::pipeline), stages = grid.size(Axis::pipeline);
      const bool at_an_end = stages > 1 && (stage == 0 || stage == stages - 1);
      ASSERT_EQ(world.embedding() != nullptr, at_an_end);
      if (at_an_end) {
        const auto pipeline = grid.group(rank, Axis::pipeline);
        EXPECT_EQ(members(world, *world.embedding()),
                  (std::vector{pipeline.front(), pipeline.back()}));
      }
    });
  }
}

TEST(World, APhantomHasTheSameGroups) {
  const Grid grid(2, 2, 2, 2);
  run_local(grid.world(), [&](Communicator& ranks) {
    World real(ranks, grid);
    PhantomCommunicator alone(ranks.rank(), ranks.size());
    World phantom(alone, grid);
    const auto same = [](Communicator& a, Communicator& b) {
      EXPECT_EQ(a.rank(), b.rank());
      EXPECT_EQ(a.size(), b.size());
    };
    same(real.all(), phantom.all());
    same(real.tensor(), phantom.tensor());
    same(real.context(), phantom.context());
    same(real.data(), phantom.data());
    same(real.gradient(), phantom.gradient());
    same(real.forward(), phantom.forward());
    same(real.backward(), phantom.backward());
    ASSERT_EQ(real.embedding() == nullptr, phantom.embedding() == nullptr);
    if (real.embedding()) same(*real.embedding(), *phantom.embedding());
  });
}

TEST(World, AGridOfAnotherSizeIsRefused) {
  PhantomCommunicator alone(0, 4);
  EXPECT_THROW(World(alone, Grid(2, 1, 1, 1)), std::logic_error);
}

std::string text(const std::vector<Traffic>& traffic) {
  std::string all;
  for (const Traffic& t : traffic)
    all += t.axis + " " + t.verb + " " + std::to_string(t.messages) + "x " +
           std::to_string(t.payload_bytes) + "\n";
  return all;
}

TEST(World, MetersCountByVerbAndAxis) {
  PhantomCommunicator alone(0, 8);
  World world(alone, Grid(2, 1, 2, 2));
  EXPECT_EQ(text(world.meter().traffic()), "");
  std::vector<float> four(4), eight(8);
  std::vector<uint8_t> bytes(5);
  for (int i = 0; i < 3; ++i) world.tensor().all_reduce(four);
  world.tensor().all_gather(four, eight);
  world.tensor().reduce_scatter(eight, four);
  world.gradient().reduce_scatter(eight, four);
  world.data().broadcast(bytes, 1);
  world.forward().send(four, 1);
  world.backward().receive(four, 1);
  world.backward().send(eight, 1);
  world.embedding()->all_reduce(eight);
  world.all().all_reduce(std::vector<double>(1));
  // Not counted: ranks that are alone, empty payloads, barriers.
  world.context().all_reduce(four);
  world.tensor().all_reduce(std::vector<float>());
  world.all().barrier();
  EXPECT_EQ(text(world.meter().traffic()),
            "dp broadcast 1x 5\n"
            "dp reduce_scatter 1x 32\n"
            "embedding all_reduce 1x 32\n"
            "pp send 2x 48\n"
            "tp all_gather 1x 32\n"
            "tp all_reduce 3x 48\n"
            "tp reduce_scatter 1x 32\n"
            "world all_reduce 1x 8\n");
  world.meter().reset();
  EXPECT_EQ(text(world.meter().traffic()), "");
}

TEST(Metered, ChangesNothing) {
  for (const conformance::Case& test : conformance::cases()) {
    SCOPED_TRACE(test.name);
    run_local(3, [&](Communicator& c) {
      const auto meter = std::make_shared<TrafficMeter>();
      MeteredCommunicator metered(c.split(std::vector{0, 1, 2}), "tp", meter);
      test.check(metered);
    });
  }
}

TEST(Metered, GroupsCountUnderTheSameAxis) {
  const auto meter = std::make_shared<TrafficMeter>();
  MeteredCommunicator metered(std::make_unique<PhantomCommunicator>(0, 4), "tp", meter);
  metered.split(std::vector{0, 2})->all_reduce(std::vector<float>(2));
  EXPECT_EQ(text(meter->traffic()), "tp all_reduce 1x 8\n");
}

}  // namespace
}  // namespace engine
