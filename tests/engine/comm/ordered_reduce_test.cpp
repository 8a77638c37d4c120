// The arithmetic of reductions: rounding and order by value, and how work is cut into slices.
#include "engine/comm/ordered_reduce.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace engine {
namespace {

template <class T>
T reduced(const std::vector<T>& terms, Element element, Reduction reduction) {
  std::vector<const void*> sources;
  for (const T& term : terms) sources.push_back(&term);
  T result{};
  void* target = &result;
  reduce_in_order(sources, {&target, 1}, 1, element, reduction);
  return result;
}

TEST(OrderedReduce, Bf16SumsRoundOnceToNearestEven) {
  constexpr uint16_t kOne = 0x3f80, kStep = 0x3c00;  // 1, and 2⁻⁷: the distance to the next above 1
  constexpr uint16_t kHalfStep = 0x3b80, kLessThanHalf = 0x3b7f, kMoreThanHalf = 0x3b81;
  const struct {
    std::vector<uint16_t> terms;
    uint16_t sum;
  } kCases[] = {
      {{kOne}, kOne},
      {{kOne, kStep}, 0x3f81},
      {{kOne, kHalfStep}, kOne},      // halfway, to the even one below
      {{0x3f81, kHalfStep}, 0x3f82},  // halfway, to the even one above
      {{kOne, kLessThanHalf}, kOne},
      {{kOne, kMoreThanHalf}, 0x3f81},
      {{kOne, kHalfStep, kHalfStep}, 0x3f81},  // rounding after each term would give 1
      {{0x8000}, 0x8000},                      // a lone −0 keeps its sign
      {{0x7f7f, 0x7f7f}, 0x7f80},              // beyond the largest: infinity
  };
  for (const auto& c : kCases)
    EXPECT_EQ(reduced(c.terms, Element::bf16, Reduction::sum), c.sum)
        << testing::PrintToString(c.terms);
  const uint16_t nan = reduced<uint16_t>({0x7f80, 0xff80}, Element::bf16, Reduction::sum);
  EXPECT_GT(nan & 0x7fff, 0x7f80) << "infinity minus infinity is NaN";
}

TEST(OrderedReduce, TermsAreAddedInOrder) {
  const float big = 16777216.0F;
  EXPECT_EQ(reduced<float>({big, 1, 1}, Element::f32, Reduction::sum), big);
  EXPECT_EQ(reduced<float>({1, 1, big}, Element::f32, Reduction::sum), big + 2);
  EXPECT_EQ(reduced<double>({big, 1, 1}, Element::f64, Reduction::sum), big + 2.0);
}

TEST(OrderedReduce, AMaximumIsNanWhereATermIs) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const auto& terms : {std::vector{nan, 1.0F, 2.0F}, {1.0F, nan, 2.0F}, {1.0F, 2.0F, nan}})
    EXPECT_TRUE(std::isnan(reduced(terms, Element::f32, Reduction::max)));
  EXPECT_EQ(reduced<int32_t>({-5, -3, -4}, Element::i32, Reduction::max), -3);
}

TEST(OrderedReduce, SlicesCoverEverythingOnce) {
  for (const int64_t count : {0, 1, 63, 64, 65, 1000, 123457})
    for (const int parts : {1, 2, 3, 8, 100}) {
      int64_t next = 0;
      for (int index = 0; index < parts; ++index) {
        const Slice slice = slice_of(count, parts, index);
        EXPECT_EQ(slice.first, next);
        EXPECT_LE(slice.count, count / parts + 64);
        next += slice.count;
      }
      EXPECT_EQ(next, count);
    }
}

}  // namespace
}  // namespace engine
