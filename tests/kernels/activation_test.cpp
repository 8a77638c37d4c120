// Activations against the oracle, and their gradients.
#include "tests/support/kernel_cases.h"
#include "tests/support/oracle.h"

namespace {

using namespace testing_support;
using kernels::Activation;
using kernels::View;

struct Named {
  Activation activation;
  double (*value)(double);
};
constexpr Named kActivations[] = {{Activation::gelu, oracle::gelu},
                                  {Activation::gelu_tanh, oracle::gelu_tanh},
                                  {Activation::relu, oracle::relu},
                                  {Activation::silu, oracle::silu}};

class ActivationTest : public KernelTest {};

TEST_P(ActivationTest, ForwardIsTheOracles) {
  for (const int64_t cols : {1, 3, 17, 129, 5000})
    for (const auto& [activation, value] : kActivations) {
      Matrix x = Matrix::random(type(), 3, cols, 1, 6), bias = Matrix::random(type(), 1, cols, 2);
      Matrix up = Matrix::random(type(), 3, cols, 3), y(type(), 3, cols), plain(type(), 3, cols);
      Matrix gated(type(), 3, cols);
      k().bias_activation_forward(x, bias, y, activation);
      k().bias_activation_forward(x, {}, plain, activation);
      k().gated_forward(x, up, gated, activation);
      Values want(3, cols), want_plain(3, cols), want_gated(3, cols);
      for (int64_t r = 0; r < 3; ++r)
        for (int64_t c = 0; c < cols; ++c) {
          want(r, c) = value(x(r, c) + bias(0, c));
          want_plain(r, c) = value(x(r, c));
          want_gated(r, c) = value(x(r, c)) * up(r, c);
        }
      expect_close(y, want, "with bias");
      expect_close(plain, want_plain, "without bias");
      expect_close(gated, want_gated, "gated");
    }
}

TEST_P(ActivationTest, BackwardIsTheOneInDouble) {
  const auto exact = kernels::make_cpu_kernels(1);
  for (const int64_t cols : {3, 129})
    for (const auto& [activation, value] : kActivations) {
      Matrix x = Matrix::random(type(), 3, cols, 1, 4), bias = Matrix::random(type(), 1, cols, 2);
      Matrix dy = Matrix::random(type(), 3, cols, 3), up = Matrix::random(type(), 3, cols, 4);
      const auto backward = [&, f = activation](kernels::Kernels& kernels, DType t) {
        Matrix tx(t, x.values()), tb(t, bias.values()), tdy(t, dy.values()), tu(t, up.values());
        Matrix dx(t, 3, cols);
        kernels.bias_activation_backward(tdy, tx, tb, dx, f);
        Matrix dgate(t, 3, cols), dup(t, 3, cols);
        kernels.gated_backward(tdy, tx, tu, dgate, dup, f);
        return std::tuple{dx.values(), dgate.values(), dup.values()};
      };
      const auto [dx, dgate, dup] = backward(k(), type());
      const auto [want_dx, want_dgate, want_dup] = backward(*exact, DType::f64);
      expect_close(dx, want_dx, type(), "grad_src");
      expect_close(dgate, want_dgate, type(), "grad_gate");
      expect_close(dup, want_dup, type(), "grad_up");
    }
}

TEST_P(ActivationTest, MayWorkInPlaceAndOnColumnRanges) {
  Matrix both = Matrix::random(type(), 4, 34, 1);
  const Matrix before = both;
  k().gated_forward(both.view().columns(0, 17), both.view().columns(17, 17),
                    both.view().columns(0, 17), Activation::silu);
  Values want = before.values();
  for (int64_t r = 0; r < 4; ++r)
    for (int64_t c = 0; c < 17; ++c) want(r, c) = oracle::silu(before(r, c)) * before(r, 17 + c);
  expect_close(both, want, "in place");
}
KERNEL_TESTS(ActivationTest);

TEST(ActivationGradient, IsTheDirectionalDerivative) {
  const auto kernels = kernels::make_cpu_kernels(1);
  for (const auto& [activation, value] : kActivations) {
    const DType type = DType::f64;
    Matrix x = Matrix::random(type, 4, 17, 1, 3), bias = Matrix::random(type, 1, 17, 2);
    Matrix dy = Matrix::random(type, 4, 17, 3), y(type, 4, 17), dx(type, 4, 17);
    Matrix dbias = Matrix::filled(type, 1, 17, 0), up = Matrix::random(type, 4, 17, 4);
    Matrix dgate(type, 4, 17), dup(type, 4, 17);
    const auto f = activation;
    const auto loss = [&] {
      kernels->bias_activation_forward(x, bias, y, f);
      return weighted_sum(y, dy);
    };
    kernels->bias_activation_backward(dy, x, bias, dx, f);
    kernels->column_sum(dx, dbias);
    expect_gradient(loss, {&x, &bias}, {&dx, &dbias}, "activation");
    const auto gated_loss = [&] {
      kernels->gated_forward(x, up, y, f);
      return weighted_sum(y, dy);
    };
    kernels->gated_backward(dy, x, up, dgate, dup, f);
    expect_gradient(gated_loss, {&x, &up}, {&dgate, &dup}, "gated activation");
  }
}

}  // namespace
