// Copies, sums, dropout, head layouts, Adam and reductions.
#include "tests/support/kernel_cases.h"
#include "tests/support/oracle.h"

namespace {

using namespace testing_support;
using kernels::Dropout;
using kernels::View;

class ElementwiseTest : public KernelTest {};

TEST_P(ElementwiseTest, FillsCopiesScalesAndAccumulates) {
  for (const int64_t cols : {1, 17, 4097}) {
    Matrix x = Matrix::random(type(), 3, cols, 1), y(type(), 3, cols);
    k().fill(y, 0.75);
    EXPECT_EQ(y(2, cols - 1), 0.75);
    k().accumulate(x, y, 2);
    Values want = x.values();
    for (double& v : want.data) v = 0.75 + 2 * v;
    expect_close(y, want, "accumulate");
    k().scale(x, 0.5);
    for (const DType other : {DType::f32, DType::bf16, DType::f64}) {
      // The result is as exact as the coarser of the two types.
      const DType coarse =
          tolerance_of(other).relative > tolerance_of(type()).relative ? other : type();
      Matrix z(other, 3, cols), sum = Matrix::filled(other, 3, cols, 1);
      k().copy(x, z);
      expect_close(z.values(), x.values(), coarse, "copy");
      k().accumulate(x, sum, -1);
      Values expected = x.values();
      for (double& v : expected.data) v = 1 - v;
      expect_close(sum.values(), expected, coarse, "mixed sum");
    }
  }
  Matrix ids(DType::i32, 2, 9), more(DType::i32, 2, 9);
  k().fill(ids, -7);
  k().copy(ids, more);
  EXPECT_EQ(more(1, 8), -7);
}

TEST_P(ElementwiseTest, AddsBiasAndResidualBehindDropout) {
  for (const int64_t cols : {3, 129, 4100})
    for (const float p : {0.0f, 0.3f}) {
      Matrix x = Matrix::random(type(), 4, cols, 1), bias = Matrix::random(type(), 1, cols, 2);
      Matrix residual = Matrix::random(type(), 4, cols, 3), y(type(), 4, cols);
      const Dropout dropout{p, {5}, {10, 2, 100}, 1000};
      k().bias_dropout_add(x, bias, residual, y, dropout);
      Values want(4, cols);
      for (int64_t r = 0; r < 4; ++r)
        for (int64_t c = 0; c < cols; ++c) {
          const int64_t global_row = 10 + r / 2 * 100 + r % 2;
          const uint32_t bits = kernels::row_stream({5}, global_row).bits(uint32_t(1000 + c));
          const bool kept = bits >= static_cast<uint32_t>(double(p) * 4294967296.0);
          want(r, c) = residual(r, c) + (kept ? (x(r, c) + bias(0, c)) / (1 - double(p)) : 0);
        }
      // The factor 1 / (1 - p) is a float for every type.
      expect_close(y.values(), want, type() == DType::f64 && p > 0 ? DType::f32 : type(), "dst");
    }
}

TEST_P(ElementwiseTest, DropoutKeepsItsShareAndItsMean) {
  Matrix x = Matrix::filled(type(), 64, 1000, 1), y(type(), 64, 1000);
  k().dropout(x, y, {0.2f, kernels::make_stream(1, kernels::Purpose::mlp_dropout, 7, 3), {}, 0});
  double dropped = 0, sum = 0;
  for (int64_t r = 0; r < 64; ++r)
    for (int64_t c = 0; c < 1000; ++c) {
      dropped += y(r, c) == 0;
      sum += y(r, c);
    }
  EXPECT_NEAR(dropped / 64000, 0.2, 0.008);  // five deviations
  EXPECT_NEAR(sum / 64000, 1, 0.012);
}

TEST_P(ElementwiseTest, SplitsAndMergesHeads) {
  for (const bool token_major : {false, true}) {
    const kernels::HeadLayout layout{2, 3, 4, 5, token_major};
    Matrix x = Matrix::random(type(), 6, 20, 1), heads(type(), 24, 5), back(type(), 6, 20);
    k().split_heads(x, heads, layout);
    for (int64_t s = 0; s < 2; ++s)
      for (int64_t h = 0; h < 4; ++h)
        for (int64_t t = 0; t < 3; ++t)
          for (int64_t c = 0; c < 5; ++c)
            ASSERT_EQ(heads((s * 4 + h) * 3 + t, c),
                      x(token_major ? t * 2 + s : s * 3 + t, h * 5 + c));
    k().merge_heads(heads, back, layout);
    expect_equal(back, x, "merged");
  }
}

TEST_P(ElementwiseTest, AdamIsTheOracles) {
  for (const int64_t cols : {1, 17, 4099}) {
    const bool own_master = type() == DType::bf16;
    Matrix g = Matrix::random(stat(), 1, cols, 1), w = Matrix::random(stat(), 1, cols, 2);
    Matrix m = Matrix::random(stat(), 1, cols, 3, 0.1), v = Matrix::filled(stat(), 1, cols, 0.04);
    Matrix weights(type(), 1, cols);
    Values want_w = w.values(), want_m = m.values(), want_v = v.values();
    const kernels::AdamStep step{0.01, 0.9, 0.95, 1e-8, 3, 0.5};
    const kernels::AdamPiece all{g, w, m, v, own_master ? weights.view() : View(), 0.1};
    k().adam({&all, 1}, step);
    for (int64_t c = 0; c < cols; ++c) {
      const double gradient = g(0, c) * 0.5;
      want_m(0, c) = 0.9 * want_m(0, c) + 0.1 * gradient;
      want_v(0, c) = 0.95 * want_v(0, c) + 0.05 * gradient * gradient;
      const double mean = want_m(0, c) / (1 - std::pow(0.9, 3));
      const double square = want_v(0, c) / (1 - std::pow(0.95, 3));
      want_w(0, c) -= 0.01 * (mean / (std::sqrt(square) + 1e-8) + 0.1 * want_w(0, c));
    }
    expect_close(w, want_w, "master");
    expect_close(m, want_m, "mean");
    expect_close(v, want_v, "square");
    if (own_master) expect_close(weights, want_w, "weights");
  }
}

// More pieces than one launch takes, of lengths that differ, each with a decay of its own.
TEST_P(ElementwiseTest, AdamOfManyPiecesIsThatOfEach) {
  const bool own_master = type() == DType::bf16;
  const int64_t count = 50, longest = GetParam().is_group() ? 9 : 4200;
  const kernels::AdamStep step{0.01, 0.9, 0.95, 1e-8, 3, 0.5};
  const auto run = [&](bool at_once) {
    std::vector<Matrix> operands;
    std::vector<kernels::AdamPiece> pieces;
    for (int i = 0; i < count; ++i) {
      const int64_t cols = i % 7 == 0 ? longest : i % 5;
      for (int n = 0; n < 3; ++n)
        operands.push_back(Matrix::random(stat(), 1, cols, 3 * i + n, 0.1));
      operands.push_back(Matrix::filled(stat(), 1, cols, 0.04));
      operands.push_back(Matrix::filled(type(), 1, cols, 0));
    }
    for (size_t i = 0; i < operands.size(); i += 5)
      pieces.push_back({operands[i], operands[i + 1], operands[i + 2], operands[i + 3],
                        own_master ? operands[i + 4].view() : View(), i % 2 == 0 ? 0.1 : 0});
    if (at_once) k().adam(pieces, step);
    for (const auto& piece : pieces)
      if (!at_once) k().adam({&piece, 1}, step);
    return operands;
  };
  const auto one_by_one = run(false), together = run(true);
  for (size_t i = 0; i < together.size(); ++i) expect_equal(together[i], one_by_one[i], "piece");
}

TEST_P(ElementwiseTest, ReducesColumnsSquaresAndTotals) {
  for (const int64_t cols : {1, 17, 129, 1000}) {
    Matrix x = Matrix::random(type(), 9, cols, 1), sums = Matrix::filled(stat(), 1, cols, 3);
    k().column_sum(x, sums);
    Values want(1, cols);
    double squares = 0;
    for (int64_t c = 0; c < cols; ++c) {
      want(0, c) = 3;
      for (int64_t r = 0; r < 9; ++r) want(0, c) += x(r, c);
      squares += x(4, c) * x(4, c);
    }
    expect_close(sums, want, "column sum");
    Matrix partials = Matrix::filled(DType::f64, 1, 7, 0), total(DType::f64, 1, 1);
    const kernels::SquaresPiece piece{x.view().row_range(4, 1), 0};
    k().sums_of_squares({&piece, 1}, partials);
    k().total(partials, total);
    EXPECT_NEAR(total(0, 0), squares, 1e-12 * (1 + squares));
  }
}

// More pieces than one launch takes, to rows in an order of their own; the others stay.
TEST_P(ElementwiseTest, SumsTheSquaresOfManyPieces) {
  const int64_t count = 140, width = 37;
  Matrix x = Matrix::random(type(), count, width, 1);
  Matrix partials = Matrix::filled(DType::f64, count + 1, 3, 5), totals(DType::f64, 1, count + 1);
  std::vector<kernels::SquaresPiece> pieces;
  const auto row_of = [&](int64_t i) { return (i * 3 + 1) % count; };
  for (int64_t i = 0; i < count; ++i)
    pieces.push_back({x.view().row_range(i, 1).columns(i % 4, width - 4 - i % 5), row_of(i)});
  k().sums_of_squares(pieces, partials);
  k().total(partials, totals);
  for (int64_t i = 0; i < count; ++i) {
    double squares = 0;
    for (int64_t c = i % 4; c < i % 4 + width - 4 - i % 5; ++c) squares += x(i, c) * x(i, c);
    EXPECT_NEAR(totals(0, row_of(i)), squares, 1e-12 * (1 + squares));
  }
  EXPECT_EQ(totals(0, count), 15);
}

TEST_P(ElementwiseTest, NormalValuesDependOnGlobalIndicesOnly) {
  Matrix whole(type(), 40, 200), shard(type(), 10, 50);
  const kernels::Stream stream = kernels::make_stream(3, kernels::Purpose::initial_weights, 0, 1);
  k().fill_normal(whole, 0.5, stream, {}, 0);
  k().fill_normal(shard, 0.5, stream, {20}, 100);
  double sum = 0, squares = 0;
  for (int64_t r = 0; r < 40; ++r)
    for (int64_t c = 0; c < 200; ++c) {
      sum += whole(r, c);
      squares += whole(r, c) * whole(r, c);
    }
  EXPECT_NEAR(sum / 8000, 0, 0.03);  // five deviations
  EXPECT_NEAR(squares / 8000, 0.25, 0.02);
  for (int64_t r = 0; r < 10; ++r)
    for (int64_t c = 0; c < 50; ++c) ASSERT_EQ(shard(r, c), whole(20 + r, 100 + c));
}
KERNEL_TESTS(ElementwiseTest);

TEST(Reductions, DoNotDependOnTheNumberOfThreads) {
  Matrix x = Matrix::random(DType::f32, 700, 300, 1);
  Matrix one = Matrix::filled(DType::f32, 1, 300, 0), three = one;
  kernels::make_cpu_kernels(1)->column_sum(x, one);
  kernels::make_cpu_kernels(3)->column_sum(x, three);
  expect_equal(one, three, "column sum");
}

}  // namespace
