// Attention over a cache in pages on tensor cores, in the emulation, against the generic body in
// double.
#include <algorithm>

#include "tests/support/blocks/emulated_kernels.h"
#include "tests/support/matrix.h"

namespace {

using namespace testing_support;
using kernels::PagedShape;

struct Case {
  const char* name;
  PagedShape shape;
  std::vector<int> visible;  // a token each, of a sequence of its own
  int launches;              // 2 where the splits are merged
};

// A tile has 64 keys and 16 heads, a warp 16 keys; a split has two tiles or more.
std::vector<Case> cases() {
  return {{"one_key", {1, 1, 64, 16, 0.125}, {1}, 1},
          {"around_a_warp", {2, 2, 64, 16, 0.125}, {15, 16, 17}, 1},
          {"around_a_tile", {1, 1, 128, 16, 0.09}, {63, 64, 65, 127}, 1},
          {"odd_pages", {2, 1, 64, 5, 0.125}, {123, 7}, 1},
          {"two_splits", {1, 1, 128, 64, 0.09}, {257}, 2},
          {"shared_heads", {8, 2, 64, 16, 0.125}, {300, 150}, 2},
          {"splits_without_keys", {4, 2, 128, 16, 0.09}, {400, 3}, 2},
          {"more_heads_than_a_tile", {20, 1, 64, 16, 0.125}, {70, 90}, 1},
          {"many_splits", {20, 1, 64, 32, 0.125}, {1000}, 2},
          {"a_negative_scale", {1, 1, 64, 16, -0.125}, {40}, 1}};
}

class FlashDecode : public testing::TestWithParam<Case> {
 protected:
  // Every sequence has as many pages as the longest, in no order.
  void SetUp() override {
    const PagedShape& s = GetParam().shape;
    const int64_t tokens = std::ssize(GetParam().visible);
    const int longest = *std::max_element(GetParam().visible.begin(), GetParam().visible.end());
    const int64_t pages = (longest + s.page_tokens - 1) / s.page_tokens, all = pages * tokens;
    tables_ = Matrix(DType::i32, tokens, pages);
    for (int64_t i = 0; i < all; ++i)
      tables_.set(i % tokens, i / tokens, static_cast<double>((i * 7 + 3) % all));
    for (int64_t t = 0; t < tokens; ++t) {
      sequences_.set(0, t, static_cast<double>(tokens - 1 - t));
      visible_.set(0, t, GetParam().visible[static_cast<size_t>(t)]);
    }
    cache_rows_ = all * s.page_tokens;
  }
  int64_t tokens() const { return tables_.rows(); }
  // Of query, key and value.
  Matrix attend(kernels::Kernels& k, std::vector<Matrix> operands) {
    Matrix out(operands[0].type(), tokens(), operands[0].cols());
    k.paged_attention(operands[0], operands[1], operands[2], tables_, sequences_, visible_, out,
                      GetParam().shape);
    return out;
  }

  Matrix tables_{DType::i32, 1, 1};
  Matrix sequences_{DType::i32, 1, std::ssize(GetParam().visible)};
  Matrix visible_{DType::i32, 1, std::ssize(GetParam().visible)};
  int64_t cache_rows_ = 0;
};

TEST_P(FlashDecode, IsTheDefinitionInEveryOrder) {
  const PagedShape& s = GetParam().shape;
  const std::vector<Matrix> operands = {
      Matrix::random(DType::bf16, tokens(), s.heads * s.head_dim, 1),
      Matrix::random(DType::bf16, cache_rows_, s.kv_heads * s.head_dim, 2),
      Matrix::random(DType::bf16, cache_rows_, s.kv_heads * s.head_dim, 3)};
  std::vector<Matrix> exact;
  for (const Matrix& m : operands) exact.emplace_back(DType::f64, m.values());
  const Values want = attend(*kernels::make_cpu_kernels(1), exact).values();
  for (const EmulationMode& mode : emulation_modes()) {
    EmulatedKernels kernels(mode);
    expect_close(attend(kernels, operands), want, GetParam().name);
    EXPECT_EQ(kernels.launches(), GetParam().launches);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, FlashDecode, testing::ValuesIn(cases()),
                         [](const auto& instance) { return instance.param.name; });

// The columns of a head behind each other in a wider matrix, as the product of all projections has
// them.
TEST(FlashDecodeLayout, TakesColumnsOfWiderMatrices) {
  const PagedShape s{2, 1, 64, 16, 0.125};
  const Matrix all = Matrix::random(DType::bf16, 32, 256, 1);
  Matrix tables(DType::i32, 1, 2), sequence = Matrix::filled(DType::i32, 1, 1, 0);
  tables.set(0, 0, 1);
  tables.set(0, 1, 0);
  Matrix visible = Matrix::filled(DType::i32, 1, 1, 29);
  const auto attend = [&](kernels::Kernels& k, Matrix& qkv) {
    Matrix out(qkv.type(), 1, 128);
    k.paged_attention(qkv.view().row_range(0, 1).columns(0, 128), qkv.view().columns(128, 64),
                      qkv.view().columns(192, 64), tables, sequence, visible, out, s);
    return out;
  };
  Matrix exact(DType::f64, all.values()), rounded = all;
  EmulatedKernels kernels;
  expect_close(attend(kernels, rounded), attend(*kernels::make_cpu_kernels(1), exact).values(),
               "out");
  EXPECT_EQ(kernels.launches(), 1);
}

}  // namespace
