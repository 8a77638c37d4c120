// Attention over a cache in pages against its definition, and the writing of such a cache.
#include "tests/support/kernel_cases.h"
#include "tests/support/oracle.h"

namespace {

using namespace testing_support;
using kernels::PagedShape;

struct Token {
  int sequence, visible;
};

// Two sequences whose pages lie in no order: a decoded token of each, and a late one of a prompt.
const std::vector<std::vector<int>> kTables = {{4, 0, 2}, {3, 1, 5}};
const std::vector<Token> kTokens = {{0, 9}, {1, 1}, {1, 12}, {0, 4}};

Values exact(const Values& q, const Values& k, const Values& v, const PagedShape& s) {
  Values out(q.rows, q.cols);
  for (int64_t t = 0; t < q.rows; ++t) {
    const Token token = kTokens[size_t(t)];
    const auto row = [&](int64_t place) {
      return int64_t{kTables[size_t(token.sequence)][size_t(place / s.page_tokens)]} *
                 s.page_tokens +
             place % s.page_tokens;
    };
    for (int64_t h = 0; h < s.heads; ++h) {
      const int64_t column = h / (s.heads / s.kv_heads) * s.head_dim;
      const auto own = [&](int64_t) { return t; };
      const Values query = oracle::part(q, 1, own, h * s.head_dim, s.head_dim);
      const Values keys = oracle::part(k, token.visible, row, column, s.head_dim);
      const Values values = oracle::part(v, token.visible, row, column, s.head_dim);
      const Values y = oracle::product(
          oracle::softmax(oracle::product(query, false, keys, true), s.scale, false, 1), false,
          values, false);
      for (int64_t c = 0; c < s.head_dim; ++c) out(t, h * s.head_dim + c) = y(0, c);
    }
  }
  return out;
}

class PagedAttentionTest : public KernelTest {};

TEST_P(PagedAttentionTest, IsItsDefinition) {
  for (const PagedShape& s : {PagedShape{1, 1, 1, 4, 1}, PagedShape{4, 2, 8, 4, 0.3},
                              PagedShape{2, 2, 17, 5, 0.2}, PagedShape{4, 1, 72, 16, 0.1}}) {
    const int64_t tokens = int64_t(kTokens.size());
    Matrix q = Matrix::random(type(), tokens, s.heads * s.head_dim, 1);
    Matrix key = Matrix::random(type(), 6 * s.page_tokens, s.kv_heads * s.head_dim, 2);
    Matrix value = Matrix::random(type(), 6 * s.page_tokens, s.kv_heads * s.head_dim, 3);
    Matrix tables(DType::i32, 2, 3), sequences(DType::i32, 1, tokens);
    Matrix visible(DType::i32, 1, tokens), out(type(), tokens, q.cols());
    for (int64_t i = 0; i < 2; ++i)
      for (int64_t j = 0; j < 3; ++j) tables.set(i, j, kTables[size_t(i)][size_t(j)]);
    for (int64_t t = 0; t < tokens; ++t) {
      sequences.set(0, t, kTokens[size_t(t)].sequence);
      visible.set(0, t, kTokens[size_t(t)].visible);
    }
    k().paged_attention(q, key, value, tables, sequences, visible, out, s);
    expect_close(out, exact(q.values(), key.values(), value.values(), s), "out");
  }
}

TEST_P(PagedAttentionTest, RowsAreScatteredToTheirPlaces) {
  Matrix src = Matrix::random(type(), 3, 17, 1), rows(DType::i32, 1, 3);
  Matrix dst = Matrix::filled(type(), 5, 17, 0);
  Values want(5, 17);
  const int places[] = {4, 0, 3};
  for (int64_t i = 0; i < 3; ++i) {
    rows.set(0, i, places[i]);
    for (int64_t c = 0; c < 17; ++c) want(places[i], c) = src(i, c);
  }
  k().scatter_rows(src, rows, dst);
  expect_equal(dst, Matrix(type(), want), "dst");
}
KERNEL_TESTS(PagedAttentionTest);

TEST(PagedAttentionCheck, ShapesAreHeld) {
  const auto kernels = kernels::make_cpu_kernels(1);
  Matrix q = Matrix::random(DType::f32, 1, 4, 1), cache = Matrix::random(DType::f32, 8, 4, 2);
  Matrix one = Matrix::filled(DType::i32, 1, 1, 0), out(DType::f32, 1, 4);
  for (const PagedShape& s : {PagedShape{2, 0, 2, 4, 1}, PagedShape{1, 1, 4, 65, 1},
                              PagedShape{2, 1, 2, 4, 1}, PagedShape{1, 1, 2, 4, 1}})
    EXPECT_THROW(kernels->paged_attention(q, cache, cache, one, one, one, out, s),
                 std::logic_error);
  out.set(0, 0, 0);
  for (int64_t c = 0; c < 4; ++c) out.set(0, c, 0);
}

}  // namespace
