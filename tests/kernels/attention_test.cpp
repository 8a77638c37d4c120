// Softmax and attention, fused and unfused, against the oracle; their gradients; dropout.
#include "tests/support/attention_cases.h"
#include "tests/support/kernel_cases.h"
#include "tests/support/oracle.h"

namespace {

using namespace testing_support;
using kernels::AttentionShape;
using kernels::Dropout;
using kernels::View;

class SoftmaxTest : public KernelTest {};

TEST_P(SoftmaxTest, ForwardIsTheOracles) {
  for (const int64_t keys : {1, 3, 17, GetParam().is_group() ? 33 : 129})
    for (const bool causal : {true, false}) {
      const int64_t queries = keys == 17 ? 5 : keys;  // also a short block of late queries
      Matrix scores = Matrix::random(type(), 2 * queries, keys, 1, 8), y(type(), 2 * queries, keys);
      k().softmax_forward(scores, y, queries, causal, 0.25);
      expect_close(y, oracle::softmax(scores.values(), 0.25, causal, queries), "dst");
      k().softmax_forward(scores, scores, queries, causal, 0.25);
      expect_equal(scores, y, "in place");
    }
}

TEST_P(SoftmaxTest, BackwardIsTheOneInDouble) {
  const auto exact = kernels::make_cpu_kernels(1);
  for (const float p : {0.0f, 0.25f}) {
    const Dropout dropout{p, {99}, {3, 5, 40}, 0};
    Matrix probs(type(),
                 oracle::softmax(Matrix::random(type(), 10, 17, 1, 4).values(), 1, true, 5));
    Matrix dy = Matrix::random(type(), 10, 17, 2), dx(type(), 10, 17);
    Matrix exact_probs(DType::f64, probs.values()), exact_dy(DType::f64, dy.values());
    Matrix want(DType::f64, 10, 17);
    k().softmax_backward(dy, probs, dx, 5, true, 0.5, dropout);
    exact->softmax_backward(exact_dy, exact_probs, want, 5, true, 0.5, dropout);
    expect_close(dx, want.values(), "grad_src");
  }
}
KERNEL_TESTS(SoftmaxTest);

TEST(SoftmaxGradient, IsTheDirectionalDerivative) {
  const auto kernels = kernels::make_cpu_kernels(1);
  const DType type = DType::f64;
  const Dropout dropout{0.25f, {99}, {}, 0};
  Matrix scores = Matrix::random(type, 10, 17, 1, 3), dy = Matrix::random(type, 10, 17, 2);
  Matrix probs(type, 10, 17), dropped(type, 10, 17), dx(type, 10, 17);
  const auto loss = [&] {
    kernels->softmax_forward(scores, probs, 5, true, 0.5);
    kernels->dropout(probs, dropped, dropout);
    return weighted_sum(dropped, dy);
  };
  loss();
  kernels->softmax_backward(dy, probs, dx, 5, true, 0.5, dropout);
  expect_gradient(loss, {&scores}, {&dx}, "softmax");
}

// Tiles are 64 wide and a group has 4 threads: sizes around both, and shapes of every kind.
std::vector<AttentionShape> shapes() {
  return {make_shape(1, 1, 1, 1, 1, 1, true, false, 0),
          make_shape(2, 9, 9, 2, 1, 3, true, false, 0),
          make_shape(2, 17, 17, 4, 2, 8, true, true, 0),
          make_shape(1, 66, 66, 2, 2, 16, true, false, 0.2f),
          make_shape(1, 70, 70, 1, 1, 17, false, false, 0),
          make_shape(1, 10, 75, 2, 1, 8, true, false, 0.1f),  // late queries
          make_shape(1, 65, 67, 4, 2, 72, true, false, 0.1f),
          make_shape(2, 1, 20, 2, 2, 8, true, false, 0),   // one step of decoding
          make_shape(1, 12, 5, 1, 1, 8, true, false, 0)};  // the first queries see nothing
}

using Operands = AttentionOperandSet;

class AttentionTest : public KernelTest {};

TEST_P(AttentionTest, ForwardIsTheOracles) {
  for (const AttentionShape& s : shapes()) {
    if (GetParam().is_group() && s.queries * s.keys > 100) continue;
    Operands o(s, type(), stat(), s.token_major ? 0 : 3);
    o.forward(k(), s);
    expect_close(o.out, exact_attention(o.q.values(), o.k.values(), o.v.values(), s), "out");
  }
}

// Also with queries, keys and values as column ranges of one matrix, as a layer has them.
TEST_P(AttentionTest, BackwardIsTheOneInDouble) {
  const auto exact = kernels::make_cpu_kernels(1);
  for (const AttentionShape& s : shapes()) {
    if (GetParam().is_group() && s.queries * s.keys > 100) continue;
    Operands o(s, type(), stat()), e = o.exact(s);
    o.forward(k(), s);
    o.backward(k(), s);
    e.forward(*exact, s);
    e.backward(*exact, s);
    // Small gradients are differences of larger numbers, in bf16 of the rounded output too.
    expect_close(o.dq, e.dq.values(), "grad_query", 4);
    expect_close(o.dk, e.dk.values(), "grad_key", 4);
    expect_close(o.dv, e.dv.values(), "grad_value", 2);
  }
}
KERNEL_TESTS(AttentionTest);

// In f64, which the tiles leave to the form that every executor runs.
TEST(AttentionGradient, IsTheDirectionalDerivative) {
  const auto kernels = kernels::make_cpu_kernels(1);
  for (const AttentionShape& s : {make_shape(2, 5, 5, 4, 2, 3, true, true, 0.2f),
                                  make_shape(1, 3, 7, 2, 1, 8, true, false, 0)}) {
    Operands o(s, DType::f64, DType::f64);
    const auto loss = [&] {
      o.forward(*kernels, s);
      return weighted_sum(o.out, o.dy);
    };
    loss();
    o.backward(*kernels, s);
    expect_gradient(loss, {&o.q, &o.k, &o.v}, {&o.dq, &o.dk, &o.dv}, "attention");
  }
}

TEST(AttentionTiles, DoNotDependOnTheNumberOfThreads) {
  const AttentionShape s = make_shape(2, 130, 130, 4, 2, 32, true, false, 0.1f);
  Operands one(s, DType::f32, DType::f32), three(s, DType::f32, DType::f32);
  for (auto& [o, threads] : {std::pair{&one, 1}, std::pair{&three, 3}}) {
    const auto k = kernels::make_cpu_kernels(threads);
    o->forward(*k, s);
    o->backward(*k, s);
  }
  expect_equal(one.out, three.out, "out");
  expect_equal(one.dq, three.dq, "grad_query");
  expect_equal(one.dk, three.dk, "grad_key");
  expect_equal(one.dv, three.dv, "grad_value");
}

// A head of a sharded rank drops what the whole model drops.
TEST(AttentionTiles, DropTheSameOnEveryShard) {
  const auto k = kernels::make_cpu_kernels(1);
  const AttentionShape whole = make_shape(2, 20, 20, 4, 4, 8, true, false, 0.3f);
  Operands all(whole, DType::f32, DType::f32);
  all.forward(*k, whole);
  AttentionShape half = whole;
  half.heads = half.kv_heads = 2;
  half.dropout.rows = {2 * 20, 2 * 20, 4 * 20};  // heads 2 and 3 of 4
  Matrix out(DType::f32, 40, 16), log_sum(DType::f32, 4, 20);
  const auto second = [](Matrix& m) { return m.view().columns(16, 16); };
  k->attention_forward(second(all.q), second(all.k), second(all.v), out, log_sum, half);
  for (int64_t r = 0; r < 40; ++r)
    for (int64_t c = 0; c < 16; ++c) ASSERT_EQ(out(r, c), all.out(r, 16 + c)) << r << ", " << c;
}

}  // namespace
