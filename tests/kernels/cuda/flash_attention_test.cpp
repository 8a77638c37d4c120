// Attention on tensor cores in the emulation, against the definition in double and the generic
// body.
#include "tests/support/attention_cases.h"
#include "tests/support/blocks/emulated_kernels.h"

namespace {

using namespace testing_support;
using kernels::AttentionShape;
using Operands = AttentionOperandSet;

struct Case {
  const char* name;
  AttentionShape shape;
};

// Tiles are 16 to 128 tokens wide: sizes around them, and shapes of every kind.
std::vector<Case> cases() {
  return {{"one_token", make_shape(1, 1, 1, 1, 1, 64, true, false, 0)},
          {"one_warp", make_shape(1, 32, 32, 1, 1, 64, true, false, 0)},
          {"two_stages", make_shape(1, 128, 128, 1, 1, 64, false, false, 0)},
          {"ragged", make_shape(2, 77, 77, 2, 2, 64, true, false, 0)},
          {"ragged_wide", make_shape(1, 75, 75, 2, 1, 128, true, false, 0)},
          {"full_wide", make_shape(1, 64, 97, 1, 1, 128, false, false, 0)},
          {"shared_heads", make_shape(2, 40, 40, 4, 2, 64, true, true, 0)},
          {"dropout", make_shape(1, 70, 70, 2, 1, 64, true, true, 0.2f)},
          {"dropout_wide", make_shape(1, 40, 40, 2, 2, 128, true, false, 0.1f)},
          {"dropout_full", make_shape(1, 33, 65, 2, 2, 64, false, false, 0.5f)},
          {"late_queries", make_shape(1, 10, 150, 2, 1, 64, true, false, 0)},
          {"one_step_of_decoding", make_shape(2, 1, 50, 2, 2, 128, true, false, 0)},
          // The first queries see nothing: whole tiles of them.
          {"blind_queries", make_shape(1, 170, 20, 1, 1, 64, true, false, 0)},
          {"blind_queries_wide", make_shape(1, 90, 9, 1, 1, 128, true, false, 0.1f)}};
}

class FlashAttention : public testing::TestWithParam<Case> {
 protected:
  const AttentionShape& shape() const { return GetParam().shape; }
  // Spare keys behind those used; token_major has none.
  Operands operands() const {
    return {shape(), DType::bf16, DType::f32, shape().token_major ? 0 : 3};
  }
  // Rows of keys that the backward pass must set: not the spare ones.
  Values used(const Matrix& keys) const {
    const int64_t per_sequence = keys.rows() / shape().sequences;
    Values part(shape().sequences * shape().keys, keys.cols());
    for (int64_t r = 0; r < part.rows; ++r)
      for (int64_t c = 0; c < part.cols; ++c)
        part(r, c) = shape().token_major
                         ? keys(r, c)
                         : keys(r / shape().keys * per_sequence + r % shape().keys, c);
    return part;
  }
};

TEST_P(FlashAttention, IsTheDefinitionInEveryOrder) {
  const auto exact_kernels = kernels::make_cpu_kernels(1);
  Operands want = operands().exact(shape());
  want.forward(*exact_kernels, shape());
  want.backward(*exact_kernels, shape());
  std::unique_ptr<Operands> first;
  for (const EmulationMode& mode : emulation_modes()) {
    auto got = std::make_unique<Operands>(operands());
    EmulatedKernels kernels(mode);
    got->forward(kernels, shape());
    got->backward(kernels, shape());
    EXPECT_EQ(kernels.launches(), 5) << "a generic body ran";
    expect_close(got->out,
                 exact_attention(got->q.values(), got->k.values(), got->v.values(), shape()),
                 "out");
    expect_close(got->log_sum.values(), want.log_sum.values(), DType::f32, "log_sum");
    // Small gradients are differences of larger numbers of which some are rounded to bf16.
    expect_close(got->dq, want.dq.values(), "grad_query", 4);
    expect_close(used(got->dk), used(want.dk), DType::bf16, "grad_key", 4);
    expect_close(used(got->dv), used(want.dv), DType::bf16, "grad_value", 2);
    // The order of lanes, warps and copies changes no bit.
    if (first == nullptr) {
      first = std::move(got);
    } else {
      expect_equal(got->out, first->out, "out");
      expect_equal(got->dq, first->dq, "grad_query");
      expect_close(used(got->dk), used(first->dk), DType::i32, "grad_key");
      expect_close(used(got->dv), used(first->dv), DType::i32, "grad_value");
    }
  }
}

// Operands as a layer has them: queries, keys and values as column ranges of one matrix.
TEST(FlashAttentionOperands, MayBeColumnsOfOneMatrix) {
  const AttentionShape s = make_shape(2, 20, 20, 2, 1, 64, true, true, 0);
  EmulatedKernels kernels;
  Operands apart(s, DType::bf16, DType::f32);
  Matrix joint(DType::bf16, 40, 4 * 64), gradients(DType::bf16, 40, 4 * 64);
  for (int64_t r = 0; r < 40; ++r)
    for (int64_t c = 0; c < 128; ++c) {
      joint.set(r, c, apart.q(r, c));
      if (c < 64) joint.set(r, 128 + c, apart.k(r, c));
      if (c < 64) joint.set(r, 192 + c, apart.v(r, c));
    }
  apart.forward(kernels, s);
  apart.backward(kernels, s);
  const auto part = [](Matrix& m, int64_t first, int64_t count) {
    return m.view().columns(first, count);
  };
  Matrix out(DType::bf16, 40, 128), log_sum(DType::f32, 4, 20);
  const auto q = part(joint, 0, 128), k = part(joint, 128, 64), v = part(joint, 192, 64);
  kernels.attention_forward(q, k, v, out, log_sum, s);
  expect_equal(out, apart.out, "out");
  kernels.attention_backward(q, k, v, out, log_sum, apart.dy, part(gradients, 0, 128),
                             part(gradients, 128, 64), part(gradients, 192, 64), s);
  for (int64_t r = 0; r < 40; ++r)
    for (int64_t c = 0; c < 128; ++c) {
      ASSERT_EQ(gradients(r, c), apart.dq(r, c));
      if (c >= 64) continue;
      ASSERT_EQ(gradients(r, 128 + c), apart.dk(r, c));
      ASSERT_EQ(gradients(r, 192 + c), apart.dv(r, c));
    }
  EXPECT_EQ(kernels.launches(), 10);
}

// What does not fit goes to the generic body, with the same results as ever.
TEST(FlashAttentionOperands, ThatDoNotFitGoToTheGenericBody) {
  EmulatedKernels kernels;
  const auto reference = kernels::make_cpu_kernels(1);
  const AttentionShape narrow = make_shape(1, 9, 9, 2, 1, 32, true, false, 0);
  Operands got(narrow, DType::bf16, DType::f32), want(narrow, DType::bf16, DType::f32);
  got.forward(kernels, narrow);
  want.forward(*reference, narrow);
  expect_close(got.out, want.out.values(), "out");

  const AttentionShape s = make_shape(1, 9, 9, 1, 1, 64, true, false, 0);
  Operands odd(s, DType::bf16, DType::f32);
  Matrix shifted = Matrix::random(DType::bf16, 9, 72, 1);
  kernels.attention_forward(shifted.view().columns(3, 64), odd.k, odd.v, odd.out, odd.log_sum, s);
  Operands single(s, DType::f32, DType::f32);
  single.forward(kernels, s);
  EXPECT_EQ(kernels.launches(), 0);
}

INSTANTIATE_TEST_SUITE_P(Shapes, FlashAttention, testing::ValuesIn(cases()),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
