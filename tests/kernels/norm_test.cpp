// Norms against the oracle, and their gradients.
#include "tests/support/kernel_cases.h"
#include "tests/support/oracle.h"

namespace {

using namespace testing_support;
using kernels::View;

constexpr double kEpsilon = 1e-5;

class NormTest : public KernelTest {};

TEST_P(NormTest, ForwardIsTheOracles) {
  for (const int64_t cols : {1, 3, 17, 129, 1024})
    for (const bool centered : {true, false}) {
      Matrix x = Matrix::random(type(), 5, cols, 1, 3), gain = Matrix::random(type(), 1, cols, 2);
      Matrix bias = Matrix::random(type(), 1, cols, 3), y(type(), 5, cols);
      Matrix mean(stat(), 1, 5), rstd(stat(), 1, 5);
      k().norm_forward(x, gain, centered ? bias.view() : View(), y, centered ? mean.view() : View(),
                       rstd, kEpsilon);
      Values want_mean, want_rstd;
      const Values offsets = bias.values();
      const Values want = oracle::norm(x.values(), gain.values(), centered ? &offsets : nullptr,
                                       centered, kEpsilon, want_mean, want_rstd);
      // A row of one column is all cancellation: x - mean is 0 up to rounding.
      if (cols > 1 || !centered) expect_close(y, want, "dst");
      expect_close(rstd.values(), want_rstd, stat(), "rstd");
      if (centered) expect_close(mean.values(), want_mean, stat(), "mean");
    }
}

// Gradients of every type against those in f64, which are checked by differences below.
TEST_P(NormTest, BackwardIsTheOneInDouble) {
  const auto exact = kernels::make_cpu_kernels(1);
  for (const int64_t cols : {3, 17, 129})
    for (const bool centered : {true, false})
      for (const bool with_residual : {true, false}) {
        Matrix x = Matrix::random(type(), 7, cols, 1, 3), gain = Matrix::random(type(), 1, cols, 2);
        Matrix dy = Matrix::random(type(), 7, cols, 3),
               residual = Matrix::random(type(), 7, cols, 4);
        const auto backward = [&](kernels::Kernels& kernels, DType t, DType s) {
          Matrix tx(t, x.values()), tg(t, gain.values()), tdy(t, dy.values()), y(t, 7, cols);
          Matrix tr(t, residual.values()), mean(s, 1, 7), rstd(s, 1, 7), dx(t, 7, cols);
          Matrix dgain = Matrix::filled(s, 1, cols, 0.5), dbias = Matrix::filled(s, 1, cols, -2);
          const View m = centered ? mean.view() : View();
          kernels.norm_forward(tx, tg, {}, y, m, rstd, kEpsilon);
          kernels.norm_backward(tdy, tx, tg, m, rstd, with_residual ? tr.view() : View(), dx);
          kernels.norm_parameter_gradients(tdy, tx, m, rstd, dgain,
                                           centered ? dbias.view() : View());
          return std::tuple{dx.values(), dgain.values(), dbias.values()};
        };
        const auto [dx, dgain, dbias] = backward(k(), type(), stat());
        const auto [want_dx, want_dgain, want_dbias] = backward(*exact, DType::f64, DType::f64);
        expect_close(dx, want_dx, type(), "grad_src");
        // From here on everything is in the statistics' type.
        expect_close(dgain, want_dgain, stat(), "grad_gain");
        if (centered) expect_close(dbias, want_dbias, stat(), "grad_bias");
      }
}
KERNEL_TESTS(NormTest);

TEST(NormGradient, IsTheDirectionalDerivative) {
  for (const auto& kernels : {kernels::make_cpu_kernels(1), make_group_kernels()})
    for (const bool centered : {true, false}) {
      const DType type = DType::f64;
      Matrix x = Matrix::random(type, 4, 17, 1, 2), gain = Matrix::random(type, 1, 17, 2);
      Matrix bias = Matrix::random(type, 1, 17, 3), dy = Matrix::random(type, 4, 17, 4);
      Matrix y(type, 4, 17), mean(type, 1, 4), rstd(type, 1, 4), dx(type, 4, 17);
      Matrix dgain = Matrix::filled(type, 1, 17, 0), dbias = Matrix::filled(type, 1, 17, 0);
      const View m = centered ? mean.view() : View();
      const auto loss = [&] {
        kernels->norm_forward(x, gain, bias, y, m, rstd, kEpsilon);
        return weighted_sum(y, dy);
      };
      loss();
      kernels->norm_backward(dy, x, gain, m, rstd, {}, dx);
      kernels->norm_parameter_gradients(dy, x, m, rstd, dgain, dbias);
      expect_gradient(loss, {&x, &gain, &bias}, {&dx, &dgain, &dbias}, "norm");
    }
}

TEST(NormCheck, NamesTheOperandThatIsWrong) {
  const auto kernels = kernels::make_cpu_kernels(1);
  Matrix x = Matrix::random(DType::f32, 2, 8, 1), gain = Matrix::random(DType::f32, 1, 7, 2);
  Matrix y(DType::f32, 2, 8), rstd(DType::f32, 1, 2);
  try {
    kernels->norm_forward(x, gain, {}, y, {}, rstd, kEpsilon);
    FAIL() << "a gain of the wrong width was accepted";
  } catch (const std::logic_error& error) {
    EXPECT_STREQ(error.what(), "kernel norm_forward: gain must be f32[1, 8], not f32[1, 7]");
  }
}

}  // namespace
