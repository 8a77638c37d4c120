// Table look-up, rotary embedding and cross-entropy, whole and over shards of the vocabulary.
#include "tests/support/kernel_cases.h"
#include "tests/support/oracle.h"

namespace {

using namespace testing_support;
using kernels::View;

Matrix ids_of(const std::vector<int>& ids) {
  Values values(1, static_cast<int64_t>(ids.size()));
  for (size_t i = 0; i < ids.size(); ++i) values.data[i] = ids[i];
  return {DType::i32, values};
}

class EmbeddingTest : public KernelTest {};

TEST_P(EmbeddingTest, ShardsSumToTheWholeTable) {
  for (const int64_t cols : {1, 17, 129}) {
    Matrix table = Matrix::random(type(), 10, cols, 1), ids = ids_of({3, 0, 9, 3, 5});
    Matrix sum = Matrix::filled(type(), 5, cols, 0), part(type(), 5, cols);
    Matrix positions = Matrix::random(type(), 5, cols, 2), order = ids_of({0, 1, 2, 3, 4});
    for (const int64_t first : {0, 5}) {
      k().embedding_forward(table.view().row_range(first, 5), first, ids, part, false);
      k().accumulate(part, sum);
    }
    for (int64_t r = 0; r < 5; ++r)
      for (int64_t c = 0; c < cols; ++c) ASSERT_EQ(sum(r, c), table(int64_t(ids(0, r)), c));
    k().embedding_forward(positions, 0, order, sum, true);
    Values want(5, cols);
    for (int64_t r = 0; r < 5; ++r)
      for (int64_t c = 0; c < cols; ++c)
        want(r, c) = table(int64_t(ids(0, r)), c) + positions(r, c);
    expect_close(sum, want, "with positions");
  }
}

TEST_P(EmbeddingTest, BackwardAddsEveryRowOfAnId) {
  Matrix dy = Matrix::random(type(), 5, 70, 1), ids = ids_of({3, 0, 9, 3, 5});
  Matrix grad = Matrix::filled(stat(), 5, 70, 1);
  k().embedding_backward(dy, ids, 2, grad);  // rows 2 … 6
  Values want(5, 70);
  for (double& x : want.data) x = 1;
  for (int64_t c = 0; c < 70; ++c) {
    want(1, c) += dy(0, c) + dy(3, c);
    want(3, c) += dy(4, c);
  }
  expect_close(grad.values(), want, stat(), "grad_table");
}

TEST_P(EmbeddingTest, RotaryTurnsByTheAngleOfTheDefinition) {
  for (const int64_t rotated : {8, 4}) {
    Matrix x = Matrix::random(type(), 3, 16, 1), positions = ids_of({0, 5, 11});
    Matrix table(stat(), 12, rotated);
    const Matrix before = x;
    k().rotary_table(table, 10000);
    k().rotary(x, table, positions, 2, false);
    Values want = before.values();
    for (int64_t t = 0; t < 3; ++t)
      for (int64_t head = 0; head < 2; ++head)
        for (int64_t i = 0; i < rotated / 2; ++i) {
          const double angle =
              positions(0, t) * std::pow(10000, -2.0 * double(i) / double(rotated));
          const int64_t a = head * 8 + i, b = a + rotated / 2;
          want(t, a) = before(t, a) * std::cos(angle) - before(t, b) * std::sin(angle);
          want(t, b) = before(t, b) * std::cos(angle) + before(t, a) * std::sin(angle);
        }
    expect_close(x, want, "turned");
    k().rotary(x, table, positions, 2, true);
    expect_close(x, before.values(), "turned back", 2);
  }
}

// Two shards with reductions between, as ranks of the tensor axis do it.
struct SplitLoss {
  Matrix top, sums, chosen, losses;
  SplitLoss(kernels::Kernels& k, std::vector<View> shards, Matrix& targets, DType stat)
      : top(stat, 1, targets.cols()), sums(top), chosen(top), losses(top) {
    const int64_t rows = targets.cols();
    std::vector<Matrix> tops, part_sums;
    int64_t first = 0;
    k.fill(sums, 0);
    k.fill(chosen, 0);
    for (const View& shard : shards) {
      Matrix part_chosen(stat, 1, rows);
      tops.emplace_back(stat, 1, rows);
      part_sums.emplace_back(stat, 1, rows);
      k.cross_entropy_sums(shard, targets, first, tops.back(), part_sums.back(), part_chosen);
      k.accumulate(part_chosen, chosen);
      first += shard.cols;
    }
    for (int64_t r = 0; r < rows; ++r) {
      double best = tops[0](0, r);
      for (const Matrix& t : tops) best = std::max(best, t(0, r));
      top.set(0, r, best);
    }
    for (size_t i = 0; i < shards.size(); ++i) {
      k.cross_entropy_rescale(part_sums[i], tops[i], top);
      k.accumulate(part_sums[i], sums);
    }
    k.cross_entropy_losses(top, sums, chosen, targets, losses);
  }
};

class CrossEntropyTest : public KernelTest {};

TEST_P(CrossEntropyTest, LossAndGradientAreTheOraclesForAnySharding) {
  const std::vector<int> targets = {0, 128, -1, 40, 63};
  for (const int64_t split : {129, 64, 1}) {
    Matrix logits = Matrix::random(type(), 5, 129, 1, 5), ids = ids_of(targets);
    std::vector<View> shards = {logits.view().columns(0, split)};
    if (split < 129) shards.push_back(logits.view().columns(split, 129 - split));
    SplitLoss loss(k(), shards, ids, stat());
    const auto want = oracle::cross_entropy(logits.values(), targets);
    for (int64_t r = 0; r < 5; ++r)
      EXPECT_NEAR(loss.losses(0, r), want[size_t(r)], 20 * tolerance_of(stat()).relative);

    Values gradient = oracle::softmax(logits.values(), 1, false, 1);
    for (int64_t r = 0; r < 5; ++r)
      for (int64_t c = 0; c < 129; ++c)
        gradient(r, c) =
            targets[size_t(r)] < 0 ? 0 : 0.25 * (gradient(r, c) - (c == targets[size_t(r)]));
    int64_t first = 0;
    for (const View& shard : shards) {
      k().cross_entropy_backward(shard, loss.top, loss.sums, ids, first, 0.25);
      first += shard.cols;
    }
    expect_close(logits, gradient, "gradient");
  }
}

INSTANTIATE_TEST_SUITE_P(All, EmbeddingTest, testing::ValuesIn(all_kernel_cases()), name_of_case);
KERNEL_TESTS(CrossEntropyTest);

TEST(CrossEntropyGradient, IsTheDirectionalDerivative) {
  const auto kernels = kernels::make_cpu_kernels(1);
  Matrix logits = Matrix::random(DType::f64, 4, 17, 1, 3), ids = ids_of({3, 16, -1, 0});
  Matrix gradient = logits;
  const auto loss = [&] {
    const SplitLoss split(*kernels, {logits.view()}, ids, DType::f64);
    return 0.5 * weighted_sum(split.losses, Matrix::filled(DType::f64, 1, 4, 1));
  };
  SplitLoss split(*kernels, {logits.view()}, ids, DType::f64);
  kernels->cross_entropy_backward(gradient, split.top, split.sums, ids, 0, 0.5);
  expect_gradient(loss, {&logits}, {&gradient}, "cross-entropy");
}

// A NaN among the logits must reach the loss, or nobody would notice that training went wrong.
TEST_P(CrossEntropyTest, ANanReachesTheLoss) {
  Matrix logits = Matrix::random(type(), 1, 40, 1), ids = ids_of({2});
  logits.set(0, 33, std::nan(""));
  const SplitLoss loss(k(), {logits.view()}, ids, stat());
  EXPECT_TRUE(std::isnan(loss.losses(0, 0)));
}

}  // namespace
