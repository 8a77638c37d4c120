// Softmax and attention, fused and unfused, against the oracle; their gradients; dropout.
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

AttentionShape make_shape(int64_t sequences, int64_t queries, int64_t keys, int64_t heads,
                          int64_t kv_heads, int64_t dim, bool causal, bool token_major, float p) {
  AttentionShape s{
      sequences, queries,     keys, heads, kv_heads, dim, 1 / std::sqrt(static_cast<double>(dim)),
      causal,    token_major, {}};
  s.dropout = {p, kernels::make_stream(1, kernels::Purpose::attention_dropout, 2, 3), {}, 0};
  return s;
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

// Attention by its definition, on values.
Values exact_attention(const Values& q, const Values& k, const Values& v, const AttentionShape& s) {
  Values out(q.rows, q.cols);
  const int64_t key_rows = k.rows / s.sequences;
  for (int64_t b = 0; b < s.sequences; ++b)
    for (int64_t h = 0; h < s.heads; ++h) {
      const auto row = [&](int64_t per_sequence) {
        return [=, &s](int64_t t) {
          return s.token_major ? t * s.sequences + b : b * per_sequence + t;
        };
      };
      const int64_t kv = h / (s.heads / s.kv_heads) * s.head_dim;
      const Values qh = oracle::part(q, s.queries, row(s.queries), h * s.head_dim, s.head_dim);
      const Values kh = oracle::part(k, s.keys, row(key_rows), kv, s.head_dim);
      const Values vh = oracle::part(v, s.keys, row(key_rows), kv, s.head_dim);
      Values weights =
          oracle::softmax(oracle::product(qh, false, kh, true), s.scale, s.causal, s.queries);
      for (int64_t i = 0; i < s.queries && s.dropout.active(); ++i) {
        const int64_t global = (b * s.heads + h) * s.queries + i;
        const auto drop = kernels::dropout_row(s.dropout, s.dropout.rows(global));
        for (int64_t j = 0; j < s.keys; ++j) weights(i, j) *= drop.factor(j);
      }
      const Values y = oracle::product(weights, false, vh, false);
      for (int64_t t = 0; t < s.queries; ++t)
        for (int64_t c = 0; c < s.head_dim; ++c) {
          // A query that sees no key has the output 0.
          const bool sees = !s.causal || t + s.keys >= s.queries;
          out(row(s.queries)(t), h * s.head_dim + c) = sees ? y(t, c) : 0;
        }
    }
  return out;
}

struct Operands {
  Matrix q, k, v, out, log_sum, dy, dq, dk, dv;
  Operands(const AttentionShape& s, DType type, DType stat, int64_t spare = 0)
      : q(Matrix::random(type, s.sequences * s.queries, s.heads * s.head_dim, 1)),
        k(Matrix::random(type, s.sequences * (s.keys + spare), s.kv_heads * s.head_dim, 2)),
        v(Matrix::random(type, s.sequences * (s.keys + spare), s.kv_heads * s.head_dim, 3)),
        out(type, q.rows(), q.cols()),
        log_sum(stat, s.sequences * s.heads, s.queries),
        dy(Matrix::random(type, q.rows(), q.cols(), 4)),
        dq(type, q.rows(), q.cols()),
        dk(type, k.rows(), k.cols()),
        dv(type, k.rows(), k.cols()) {}
};

class AttentionTest : public KernelTest {};

TEST_P(AttentionTest, ForwardIsTheOracles) {
  for (const AttentionShape& s : shapes()) {
    if (GetParam().is_group() && s.queries * s.keys > 100) continue;
    Operands o(s, type(), stat(), s.token_major ? 0 : 3);
    k().attention_forward(o.q, o.k, o.v, o.out, o.log_sum, s);
    expect_close(o.out, exact_attention(o.q.values(), o.k.values(), o.v.values(), s), "out");
  }
}

// Also with queries, keys and values as column ranges of one matrix, as a layer has them.
TEST_P(AttentionTest, BackwardIsTheOneInDouble) {
  const auto exact = kernels::make_cpu_kernels(1);
  for (const AttentionShape& s : shapes()) {
    if (GetParam().is_group() && s.queries * s.keys > 100) continue;
    Operands o(s, type(), stat()), e(s, DType::f64, DType::f64);
    e.q = Matrix(DType::f64, o.q.values());
    e.k = Matrix(DType::f64, o.k.values());
    e.v = Matrix(DType::f64, o.v.values());
    e.dy = Matrix(DType::f64, o.dy.values());
    k().attention_forward(o.q, o.k, o.v, o.out, o.log_sum, s);
    k().attention_backward(o.q, o.k, o.v, o.out, o.log_sum, o.dy, o.dq, o.dk, o.dv, s);
    exact->attention_forward(e.q, e.k, e.v, e.out, e.log_sum, s);
    exact->attention_backward(e.q, e.k, e.v, e.out, e.log_sum, e.dy, e.dq, e.dk, e.dv, s);
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
      kernels->attention_forward(o.q, o.k, o.v, o.out, o.log_sum, s);
      return weighted_sum(o.out, o.dy);
    };
    loss();
    kernels->attention_backward(o.q, o.k, o.v, o.out, o.log_sum, o.dy, o.dq, o.dk, o.dv, s);
    expect_gradient(loss, {&o.q, &o.k, &o.v}, {&o.dq, &o.dk, &o.dv}, "attention");
  }
}

TEST(AttentionTiles, DoNotDependOnTheNumberOfThreads) {
  const AttentionShape s = make_shape(2, 130, 130, 4, 2, 32, true, false, 0.1f);
  Operands one(s, DType::f32, DType::f32), three(s, DType::f32, DType::f32);
  for (auto& [o, threads] : {std::pair{&one, 1}, std::pair{&three, 3}}) {
    const auto k = kernels::make_cpu_kernels(threads);
    k->attention_forward(o->q, o->k, o->v, o->out, o->log_sum, s);
    k->attention_backward(o->q, o->k, o->v, o->out, o->log_sum, o->dy, o->dq, o->dk, o->dv, s);
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
  k->attention_forward(all.q, all.k, all.v, all.out, all.log_sum, whole);
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
