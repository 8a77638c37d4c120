// Choosing tokens: arg_max, top-k, top-p and the frequencies of draws.
#include <map>
#include <utility>

#include "tests/support/kernel_cases.h"

namespace {

using namespace testing_support;

class SamplingTest : public KernelTest {
 protected:
  // How often each id is drawn in `count` draws from one row of logits.
  std::map<int, double> frequencies(const std::vector<double>& logits, kernels::SamplingRule rule,
                                    int64_t count) {
    Values values(count, static_cast<int64_t>(logits.size()));
    for (size_t i = 0; i < values.data.size(); ++i) values.data[i] = logits[i % logits.size()];
    Matrix rows(type(), values), ids(DType::i32, 1, count);
    const auto stream = kernels::make_stream(1, kernels::Purpose::sampling, 0, 0);
    std::vector<kernels::RowDraw> draws;
    for (int64_t i = 0; i < count; ++i) draws.push_back({i, rule, stream, i});
    k().sample(rows, ids, draws);
    std::map<int, double> result;
    for (int64_t i = 0; i < count; ++i) result[int(ids(0, i))] += 1.0 / double(count);
    return result;
  }
};

TEST_P(SamplingTest, ArgMaxTakesTheFirstOfTheLargest) {
  for (const int64_t cols : {1, 17, 129}) {
    Matrix logits = Matrix::random(type(), 3, cols, 1), ids(DType::i32, 1, 3), top(stat(), 1, 3);
    for (int64_t r = 0; r < 3; ++r)
      for (const int64_t c : {cols / 2, cols - 1}) logits.set(r, c, 7);
    k().arg_max(logits, 100, ids, top);
    for (int64_t r = 0; r < 3; ++r) {
      EXPECT_EQ(ids(0, r), double(100 + cols / 2));
      EXPECT_EQ(top(0, r), 7);
    }
  }
}

TEST_P(SamplingTest, DrawsHaveTheProbabilitiesOfTheSoftmax) {
  const int64_t count = GetParam().is_group() ? 100 : 2000;
  const auto drawn = frequencies({0, 1, 2, -50}, {2, 0, 1}, count);
  const double total = 1 + std::exp(0.5) + std::exp(1);
  for (const int id : {0, 1, 2})
    EXPECT_NEAR(drawn.at(id), std::exp(0.5 * id) / total, 5 * 0.5 / std::sqrt(double(count))) << id;
  EXPECT_EQ(drawn.count(3), 0u);
}

TEST_P(SamplingTest, TopKAndTopPKeepWhatTheyPromise) {
  const std::vector<double> logits = {1, 4, -2, 3, 0, 2};
  const auto two = frequencies(logits, {1, 2, 1}, 40);
  EXPECT_EQ(two.size(), 2u);
  EXPECT_EQ(two.count(1) + two.count(3), 2u);
  // Probabilities 0.63, 0.23, 0.09, …: 0.8 needs the first two.
  const auto nucleus = frequencies(logits, {1, 0, 0.8}, 40);
  EXPECT_EQ(nucleus.size(), 2u);
  EXPECT_EQ(nucleus.count(1) + nucleus.count(3), 2u);
  const auto one = frequencies(logits, {1, 1, 1}, 10);
  EXPECT_EQ(one.size(), 1u);
  EXPECT_EQ(one.count(1), 1u);
}

// The draws of a batch, in any order and each by a rule of its own, are those of each row alone;
// rows without one keep their id.
TEST_P(SamplingTest, DrawsOfABatchAreThoseOfEachRow) {
  const int64_t count = 70, cols = 33;
  Matrix logits = Matrix::random(type(), count, cols, 1, 3);
  Matrix together = Matrix::filled(DType::i32, 1, count, -5), alone = together;
  std::vector<kernels::RowDraw> draws;
  for (int64_t i = count - 1; i >= 0; --i)
    if (i % 9 != 4)
      draws.push_back({i,
                       {0.5 + 0.1 * double(i % 5), i % 3 == 0 ? 4 : 0, i % 2 == 0 ? 0.7 : 1},
                       kernels::make_stream(1, kernels::Purpose::sampling, uint64_t(i), 0),
                       i % 4});
  k().sample(logits, together, draws);
  for (kernels::RowDraw draw : draws) {
    const int64_t row = std::exchange(draw.row, 0);
    k().sample(logits.view().row_range(row, 1), alone.view().columns(row, 1), {&draw, 1});
  }
  expect_equal(together, alone, "ids");
  EXPECT_EQ(together(0, 4), -5);
  EXPECT_NE(together(0, 0), -5);
}
KERNEL_TESTS(SamplingTest);

TEST(SamplingCheck, TemperatureZeroIsRefused) {
  const auto kernels = kernels::make_cpu_kernels(1);
  Matrix logits = Matrix::random(DType::f32, 1, 4, 1), ids(DType::i32, 1, 1);
  const kernels::RowDraw draw{0, {0, 0, 1}, {1}, 0};
  EXPECT_THROW(kernels->sample(logits, ids, {&draw, 1}), std::logic_error);
}

}  // namespace
