// Matrix products of the CPU device against the oracle: transposes, accumulation, batches, types,
// epilogues; and the FLOPs they count.
#include <gtest/gtest.h>

#include <thread>

#include "engine/device/device.h"
#include "tests/support/matrix.h"
#include "tests/support/oracle.h"
#include "tests/support/ranks.h"

namespace {

using engine::DType;
using engine::Matmul;
using testing_support::expect_close;
using testing_support::Matrix;
using testing_support::Values;

struct Case {
  DType factors, result;
};

class MatmulTest : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (!device->multiplies(GetParam().factors))
      GTEST_SKIP() << device->description() << " does not multiply this type";
  }
  std::unique_ptr<engine::Device> device = test_ranks::make_device(2);
  DType factors() const { return GetParam().factors; }
  DType result() const { return GetParam().result; }
  // Sums in f32 over products of bf16 are as exact as of f32.
  void expect_product(const Matrix& got, const Values& want, int64_t depth) {
    const double rounding = testing_support::tolerance_of(result()).relative;
    const double sum = testing_support::tolerance_of(kernels::arithmetic_of(factors())).relative;
    expect_close(got, want, "c", (rounding + sum * std::sqrt(double(depth))) / rounding);
  }
};

TEST_P(MatmulTest, IsTheOraclesForEveryTransposeAndShape) {
  for (const auto& [m, n, k] :
       {std::array<int64_t, 3>{1, 1, 1}, {3, 17, 5}, {129, 33, 65}, {1, 64, 200}})
    for (const bool ta : {false, true})
      for (const bool tb : {false, true}) {
        Matrix a = ta ? Matrix::random(factors(), k, m, 1) : Matrix::random(factors(), m, k, 1);
        Matrix b = tb ? Matrix::random(factors(), n, k, 2) : Matrix::random(factors(), k, n, 2);
        Matrix c(result(), m, n);
        Matmul p;
        p.a = a;
        p.b = b;
        p.c = c;
        p.transpose_a = ta;
        p.transpose_b = tb;
        device->matmul(p);
        expect_product(c, oracle::product(a.values(), ta, b.values(), tb), k);
      }
}

// Large enough that the device copies b into a layout of its own; repeated, as the layout is kept.
TEST_P(MatmulTest, IsTheSameForLargeFactors) {
  Matrix a = Matrix::random(factors(), 257, 520, 1), b = Matrix::random(factors(), 520, 2049, 2);
  for (const int turn : {0, 1}) {
    Matrix c = Matrix::filled(result(), 257, 2049, turn);
    Matmul p;
    p.a = a;
    p.b = b;
    p.c = c;
    p.beta = 1;
    device->matmul(p);
    for (const auto& [i, j] : {std::pair{0, 0}, {256, 2048}, {100, 1500}}) {
      double want = turn;
      for (int64_t k = 0; k < 520; ++k) want += a(i, k) * b(k, j);
      EXPECT_NEAR(c(i, j), want, 60 * testing_support::tolerance_of(result()).relative);
    }
    for (int64_t n = 0; n < 520; ++n) b.set(n, 0, 0.25);  // the copy follows its origin
  }
}

TEST_P(MatmulTest, AddsToWhatIsThere) {
  Matrix a = Matrix::random(factors(), 9, 17, 1), b = Matrix::random(factors(), 17, 5, 2);
  Matrix c = Matrix::random(result(), 9, 5, 3);
  Values want = oracle::product(a.values(), false, b.values(), false);
  for (size_t i = 0; i < want.data.size(); ++i)
    want.data[i] = 0.5 * want.data[i] + c.values().data[i];
  Matmul p;
  p.a = a;
  p.b = b;
  p.c = c;
  p.alpha = 0.5;
  p.beta = 1;
  device->matmul(p);
  expect_product(c, want, 17);
}

TEST_P(MatmulTest, MultipliesBatchesAndRepeatsOperands) {
  Matrix a = Matrix::random(factors(), 12, 7, 1), b = Matrix::random(factors(), 7, 15, 2);
  for (const bool shared : {false, true}) {
    Matrix c(result(), 12, 5);
    Matmul p;  // three products [4, 7] · [7, 5]; the factors b lie side by side
    p.batch = 3;
    p.a = a.view().row_range(0, 4);
    p.a_step = 4 * a.view().stride;
    p.b = b.view().columns(0, 5);
    p.b_step = shared ? 0 : 5;
    p.c = c.view().row_range(0, 4);
    p.c_step = 4 * c.view().stride;
    device->matmul(p);
    for (int64_t i = 0; i < 3; ++i) {
      const auto row = [&](int64_t r) { return r; };
      const Values ai = oracle::part(
          a.values(), 4, [&](int64_t r) { return 4 * i + r; }, 0, 7);
      const Values bi = oracle::part(b.values(), 7, row, shared ? 0 : 5 * i, 5);
      const Values ci = oracle::part(
          c.values(), 4, [&](int64_t r) { return 4 * i + r; }, 0, 5);
      expect_product(Matrix(result(), ci), oracle::product(ai, false, bi, false), 7);
    }
  }
}

TEST_P(MatmulTest, FinishesWithBiasAndActivation) {
  using kernels::Activation;
  struct Named {
    Activation activation;
    double (*value)(double);
  };
  for (const auto& [activation, value] :
       {Named{Activation::gelu, oracle::gelu}, Named{Activation::gelu_tanh, oracle::gelu_tanh},
        Named{Activation::relu, oracle::relu}, Named{Activation::silu, oracle::silu}}) {
    Matrix a = Matrix::random(factors(), 9, 17, 1), b = Matrix::random(factors(), 17, 5, 2);
    Matrix bias = Matrix::random(factors(), 1, 5, 4), c(result(), 9, 5);
    Matmul p;
    p.a = a;
    p.b = b;
    p.c = c;
    p.bias = bias;
    p.activation = activation;
    device->matmul(p);
    Values want = oracle::product(a.values(), false, b.values(), false);
    for (int64_t r = 0; r < 9; ++r)
      for (int64_t j = 0; j < 5; ++j) want(r, j) = value(want(r, j) + bias(0, j));
    expect_close(c, want, "c", 4);  // oneDNN's own approximations
  }
}

// The same product with biases that are aligned less and less: what was prepared for one need not
// fit the next.
TEST_P(MatmulTest, TakesABiasFromAnywhere) {
  Matrix a = Matrix::random(factors(), 9, 17, 1), b = Matrix::random(factors(), 17, 5, 2);
  Matrix bias = Matrix::random(factors(), 1, 7, 4);
  for (const int64_t first : {0, 2, 1}) {
    Matrix c(result(), 9, 5);
    Matmul p;
    p.a = a;
    p.b = b;
    p.c = c;
    p.bias = bias.view().columns(first, 5);
    device->matmul(p);
    Values want = oracle::product(a.values(), false, b.values(), false);
    for (int64_t r = 0; r < 9; ++r)
      for (int64_t j = 0; j < 5; ++j) want(r, j) += bias(0, first + j);
    expect_product(c, want, 17);
  }
}

// 256 + 1 - 256: bf16 does not hold the sum of the first half.
TEST_P(MatmulTest, RoundsSumsOnce) {
  Matrix a = Matrix::filled(factors(), 1, 64, 0), b = Matrix::filled(factors(), 64, 8, 1);
  for (const auto& [place, value] : {std::pair{3, 256}, {20, 1}, {60, -256}})
    a.set(0, place, value);
  Matrix c(result(), 1, 8);
  Matmul p;
  p.a = a;
  p.b = b;
  p.c = c;
  device->matmul(p);
  for (int64_t j = 0; j < 8; ++j) EXPECT_EQ(c(0, j), 1);
}

// Multiples of 1/8 whose sums are exact in every order: a sharded sum equals the whole one.
TEST_P(MatmulTest, IsExactOnExactData) {
  Matrix a(factors(), 16, 32), b(factors(), 32, 16), c(result(), 16, 16), d(result(), 16, 16);
  for (int64_t i = 0; i < 16; ++i)
    for (int64_t j = 0; j < 32; ++j) {
      a.set(i, j, double((i * 7 + j * 3) % 5 - 2) / 8);
      b.set(j, i, double((i * 5 + j * 11) % 3 - 1));
    }
  Matmul p;
  p.a = a;
  p.b = b;
  p.c = c;
  device->matmul(p);
  for (const int64_t first : {0, 16}) {  // half of the depth at a time
    p.a = a.view().columns(first, 16);
    p.b = b.view().row_range(first, 16);
    p.c = d;
    p.beta = first == 0 ? 0 : 1;
    device->matmul(p);
  }
  testing_support::expect_equal(d, c, "two halves");
}

INSTANTIATE_TEST_SUITE_P(All, MatmulTest,
                         testing::Values(Case{DType::f32, DType::f32},
                                         Case{DType::bf16, DType::bf16},
                                         Case{DType::bf16, DType::f32},
                                         Case{DType::f64, DType::f64}),
                         [](const auto& the_case) {
                           return std::string(kernels::name_of(the_case.param.factors)) + "_to_" +
                                  std::string(kernels::name_of(the_case.param.result));
                         });

TEST(Matmul, CountsItsFlops) {
  const auto device = test_ranks::make_device(1);
  Matrix a = Matrix::random(DType::f32, 6, 7, 1), b = Matrix::random(DType::f32, 7, 5, 2);
  Matrix c(DType::f32, 6, 5);
  Matmul p;
  p.a = a;
  p.b = b;
  p.c = c;
  device->matmul(p);
  EXPECT_EQ(device->meter().matmul_flops(), 2 * 6 * 7 * 5);
  p.batch = 2;
  p.a = a.view().row_range(0, 3);
  p.a_step = 3 * a.view().stride;
  p.c = c.view().row_range(0, 3);
  p.c_step = 3 * c.view().stride;
  device->matmul(p);
  EXPECT_EQ(device->meter().matmul_flops(), 2 * (2 * 6 * 7 * 5));
  device->meter().restart();
  EXPECT_EQ(device->meter().matmul_flops(), 0);
}

TEST(Matmul, RefusesShapesThatDoNotAgree) {
  const auto device = test_ranks::make_device(1);
  Matrix a = Matrix::random(DType::f32, 6, 7, 1), b = Matrix::random(DType::f32, 6, 5, 2);
  Matrix c(DType::f32, 6, 5);
  Matmul p;
  p.a = a;
  p.b = b;
  p.c = c;
  EXPECT_THROW(device->matmul(p), std::logic_error);
}

// Ranks are threads with a device each; none disturbs another.
TEST(Matmul, RunsOnSeveralRankThreads) {
  Matrix a = Matrix::random(DType::f32, 64, 80, 1), b = Matrix::random(DType::f32, 80, 96, 2);
  std::vector<Matrix> results(4, Matrix(DType::f32, 64, 96));
  {
    std::vector<std::jthread> ranks;
    for (int rank = 0; rank < 4; ++rank)
      ranks.emplace_back([&, rank] {
        const auto device = test_ranks::make_device(1 + rank % 2);
        Matmul p;
        p.a = a.view();
        p.b = b.view();
        p.c = results[size_t(rank)].view();
        for (int i = 0; i < 10; ++i) device->matmul(p);
      });
  }
  for (const Matrix& c : results)
    expect_close(c, oracle::product(a.values(), false, b.values(), false), "c", 4);
}

}  // namespace
