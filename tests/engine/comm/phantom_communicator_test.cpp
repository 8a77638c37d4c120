// Phantom ranks: what the conformance suite cannot ask of them, since the others are made up.
#include "engine/comm/phantom_communicator.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

namespace engine {
namespace {

TEST(Phantom, ClaimsAPlaceInAWorldOfAnySize) {
  PhantomCommunicator c(4097, 10000);
  EXPECT_EQ(c.rank(), 4097);
  EXPECT_EQ(c.size(), 10000);
  c.barrier();
  c.send(std::vector<float>(3), 0);
  const auto group = c.split(std::vector{3, 4097, 9000});
  EXPECT_EQ(group->rank(), 1);
  EXPECT_EQ(group->size(), 3);
  EXPECT_THROW(PhantomCommunicator(3, 3), std::logic_error);
}

TEST(Phantom, CollectivesGiveOwnDataBack) {
  PhantomCommunicator c(1, 3);
  const std::vector<float> mine = {0.5F, -2};
  auto data = mine;
  c.all_reduce(data);
  c.all_reduce(data, Reduction::max);
  c.broadcast(data, 1);
  EXPECT_EQ(data, mine);
  std::vector<float> whole(6);
  c.all_gather(mine, whole);
  EXPECT_EQ(whole, (std::vector<float>{0.5F, -2, 0.5F, -2, 0.5F, -2}));
  const std::vector<float> parts = {1, 2, 3, 4, 5, 6};
  std::vector<float> shard(2);
  c.reduce_scatter(parts, shard);
  EXPECT_EQ(shard, (std::vector<float>{3, 4}));
  whole = parts;
  c.all_gather({&whole[2], 2, Element::f32}, whole);
  EXPECT_EQ(whole, (std::vector<float>{3, 4, 3, 4, 3, 4}));
}

template <class T, class Number>
void expect_unit_scale(PhantomCommunicator& c, Element element, Number number) {
  constexpr int64_t kCount = 100000;
  std::vector<T> data(kCount);
  c.receive({data.data(), kCount, element}, 0);
  double sum = 0, squares = 0, neighbours = 0, previous = 0;
  for (const T& raw : data) {
    const double x = number(raw);
    ASSERT_TRUE(std::isfinite(x));
    sum += x;
    squares += x * x;
    neighbours += x * previous;
    previous = x;
  }
  // Five standard deviations of a sample of this size.
  EXPECT_NEAR(sum / kCount, 0, 0.016);
  EXPECT_NEAR(squares / kCount, 1, 0.016);
  EXPECT_NEAR(neighbours / kCount, 0, 0.016);
}

TEST(Phantom, ReceivesUnitScaleValues) {
  PhantomCommunicator c(1, 2);
  expect_unit_scale<float>(c, Element::f32, [](float x) { return x; });
  expect_unit_scale<double>(c, Element::f64, [](double x) { return x; });
  expect_unit_scale<uint16_t>(c, Element::bf16, [](uint16_t bits) {
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  });
  std::vector<int32_t> tokens(1000, -1);
  c.broadcast(tokens, 0);
  for (const int32_t token : tokens) EXPECT_TRUE(token == 0 || token == 1);
}

TEST(Phantom, DataDependOnSeedRankAndCallOnly) {
  const auto received = [](int rank, uint64_t seed, int calls_before) {
    PhantomCommunicator c(rank, 4, seed);
    std::vector<float> data(100);
    for (int i = 0; i <= calls_before; ++i) c.receive(data, 0);
    return data;
  };
  EXPECT_EQ(received(1, 5, 2), received(1, 5, 2));
  EXPECT_NE(received(1, 5, 2), received(1, 5, 1));
  EXPECT_NE(received(1, 5, 2), received(2, 5, 2));
  EXPECT_NE(received(1, 5, 2), received(1, 6, 2));
}

}  // namespace
}  // namespace engine
