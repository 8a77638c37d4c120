// bf16, elementary functions and random numbers.
#include "kernels/scalar.h"

#include <gtest/gtest.h>

#include <set>

#include "kernels/random.h"

namespace {

using kernels::bfloat16;

TEST(BFloat16, RoundsToNearestEven) {
  const struct {
    float value;
    float rounded;
  } cases[] = {{1.0f, 1.0f},
               {1.0f + 0x1p-8f, 1.0f},               // a tie, to even: down
               {1.0f + 0x3p-8f, 1.0f + 0x1p-6f},     // a tie, to even: up
               {1.0f + 0x1.01p-8f, 1.0f + 0x1p-7f},  // just above a tie
               {-3.1415927f, -3.140625f},
               {0.0f, 0.0f},
               {3.4e38f, std::numeric_limits<float>::infinity()},
               {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::infinity()}};
  for (const auto& [value, rounded] : cases) EXPECT_EQ(float(bfloat16(value)), rounded) << value;
  EXPECT_TRUE(std::isnan(float(bfloat16(std::nanf("")))));
  for (uint32_t bits = 0; bits < 0x7f80; ++bits) {
    const float value = std::bit_cast<float>(bits << 16);
    ASSERT_EQ(bfloat16(value).bits, bits);
  }
}

TEST(Exponential, IsWithinItsErrorAndKeepsTheSpecialValues) {
  double worst = 0;
  for (float x = -87.3f; x < 88.7f; x += 0.00137f)
    worst = std::max(worst, std::abs(kernels::exponential(x) / std::exp(double(x)) - 1));
  EXPECT_LT(worst, 2e-7);
  EXPECT_EQ(kernels::exponential(0.0f), 1.0f);
  EXPECT_EQ(kernels::exponential(-88.0f), 0.0f);
  EXPECT_EQ(kernels::exponential(-std::numeric_limits<float>::infinity()), 0.0f);
  EXPECT_GT(kernels::exponential(1e30f), 3e38f);
  EXPECT_TRUE(std::isnan(kernels::exponential(std::nanf(""))));
}

TEST(ErrorFunction, IsWithinItsError) {
  double worst = 0;
  for (float x = -6; x < 6; x += 0.00037f)
    worst = std::max(worst, std::abs(double(kernels::error_function(x)) - std::erf(double(x))));
  EXPECT_LT(worst, 6e-7);
}

TEST(Random, EveryPartOfAStreamsNameMatters) {
  using kernels::Purpose;
  std::set<uint64_t> keys;
  for (const uint64_t seed : {0, 1})
    for (const Purpose purpose : {Purpose::data, Purpose::sampling})
      for (const uint64_t step : {0, 1})
        for (const uint64_t layer : {0, 1})
          keys.insert(kernels::make_stream(seed, purpose, step, layer).key);
  EXPECT_EQ(keys.size(), 16u);
}

// Bits are even, and unrelated between neighbours in columns and rows, and between streams.
TEST(Random, NeighboursAreUnrelated) {
  constexpr int kRows = 200, kCols = 500;
  const auto value = [](uint64_t stream, int row, int col) {
    return double(kernels::row_stream({stream}, row).uniform(uint32_t(col))) - 0.5;
  };
  double mean = 0, square = 0, columns = 0, rows = 0, streams = 0;
  std::vector<int> ones(32);
  for (int r = 0; r < kRows; ++r)
    for (int c = 0; c < kCols; ++c) {
      const double x = value(1, r, c);
      mean += x;
      square += x * x;
      columns += x * value(1, r, c + 1);
      rows += x * value(1, r + 1, c);
      streams += x * value(2, r, c);
      for (int bit = 0; bit < 32; ++bit)
        ones[size_t(bit)] += int(kernels::row_stream({1}, r).bits(uint32_t(c)) >> bit & 1);
    }
  constexpr double kCount = double(kRows) * kCols;
  EXPECT_NEAR(mean / kCount, 0, 5 * std::sqrt(1.0 / 12 / kCount));
  EXPECT_NEAR(square / kCount, 1.0 / 12, 5 * std::sqrt(1.0 / 180 / kCount));
  for (const double product : {columns, rows, streams})
    EXPECT_NEAR(product / kCount, 0, 5 / 12.0 / std::sqrt(kCount));
  for (const int count : ones) EXPECT_NEAR(count / kCount, 0.5, 5 * 0.5 / std::sqrt(kCount));
}

TEST(Random, RowMapsFollowBothTokenOrders) {
  const kernels::RowMap all{7};
  EXPECT_EQ(all(3), 10);
  // Samples of 8 global tokens, of which this rank holds 2 from token 4 on, from sample 1 on.
  const kernels::RowMap split{1 * 8 + 4, 2, 8};
  const int64_t want[] = {12, 13, 20, 21};
  for (int row = 0; row < 4; ++row) EXPECT_EQ(split(row), want[row]);
}

}  // namespace
