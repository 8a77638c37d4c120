// The hand-tuned kernels that wait for memory, in the emulation, against the same op in double.
#include <functional>

#include "tests/support/blocks/emulated_kernels.h"
#include "tests/support/matrix.h"

namespace {

using namespace testing_support;
using kernels::Activation;
using kernels::ConstView;
using kernels::Dropout;
using kernels::Kernels;
using kernels::View;

using Operands = std::vector<Matrix>;
using Op = std::function<void(Kernels&, Operands&)>;

Matrix bf16(int64_t rows, int64_t cols, int salt, double size = 1) {
  return Matrix::random(DType::bf16, rows, cols, salt, size);
}
Matrix f32(int64_t rows, int64_t cols, int salt) {
  return Matrix::random(DType::f32, rows, cols, salt);
}
Matrix ids(std::vector<int> values) {
  Matrix m(DType::i32, 1, static_cast<int64_t>(values.size()));
  for (size_t i = 0; i < values.size(); ++i) m.set(0, static_cast<int64_t>(i), values[i]);
  return m;
}

// All operands after the op are what the generic body makes of them in double, in every order of
// lanes, and `launches` hand-tuned kernels did it.
void expect_op(const char* what, const Operands& operands, int launches, const Op& op,
               double factor = 1) {
  Operands exact;
  for (const Matrix& m : operands)
    exact.emplace_back(m.type() == DType::i32 ? m.type() : DType::f64, m.values());
  op(*kernels::make_cpu_kernels(1), exact);
  for (const EmulationMode& mode : emulation_modes()) {
    Operands got = operands;
    EmulatedKernels kernels(mode);
    op(kernels, got);
    EXPECT_EQ(kernels.launches(), launches) << what;
    for (size_t i = 0; i < got.size(); ++i)
      expect_close(got[i], exact[i].values(), (what + (" " + std::to_string(i))).c_str(), factor);
  }
}

struct Size {
  int64_t rows, cols;
};
const std::vector<Size> kSizes = {{1, 8}, {3, 264}, {2, 2056}, {301, 16}, {5, 1024}};

TEST(TunedElementwise, BiasDropoutAdd) {
  for (const auto& [rows, cols] : kSizes)
    for (const float p : {0.0f, 0.3f})
      for (const bool whole : {true, false}) {
        const Dropout dropout{p, {99}, {3, 2, 40}, 7};
        expect_op("bias_dropout_add",
                  {bf16(rows, cols, 1), bf16(1, cols, 2), bf16(rows, cols, 3), bf16(rows, cols, 4)},
                  1, [&](Kernels& k, Operands& o) {
                    k.bias_dropout_add(o[0], whole ? ConstView(o[1]) : ConstView(),
                                       whole ? ConstView(o[2]) : ConstView(), o[3], dropout);
                  });
      }
}

TEST(TunedElementwise, Activations) {
  for (const Activation f :
       {Activation::gelu, Activation::gelu_tanh, Activation::relu, Activation::silu})
    for (const auto& [rows, cols] : {Size{3, 264}, Size{2, 8}}) {
      const Operands three = {bf16(rows, cols, 1, 3), bf16(1, cols, 2), bf16(rows, cols, 3)};
      expect_op("bias_activation_forward", three, 1,
                [&](Kernels& k, Operands& o) { k.bias_activation_forward(o[0], o[1], o[2], f); });
      expect_op("in place, without a bias", three, 1,
                [&](Kernels& k, Operands& o) { k.bias_activation_forward(o[0], {}, o[0], f); });
      const Operands five = {bf16(rows, cols, 1), bf16(rows, cols, 2, 3), bf16(rows, cols, 3),
                             bf16(rows, cols, 4), bf16(1, cols, 5)};
      expect_op("bias_activation_backward", five, 1, [&](Kernels& k, Operands& o) {
        k.bias_activation_backward(o[0], o[1], o[4], o[2], f);
      });
      expect_op("gated_forward", five, 1,
                [&](Kernels& k, Operands& o) { k.gated_forward(o[1], o[2], o[3], f); });
      expect_op("gated_backward in place", five, 1, [&](Kernels& k, Operands& o) {
        k.gated_backward(o[0], o[1], o[2], o[1], o[2], f);
      });
    }
}

TEST(TunedElementwise, Rotary) {
  for (const auto& [head_dim, rotated] : {Size{64, 64}, Size{40, 32}, Size{16, 16}})
    for (const bool backward : {false, true}) {
      const Operands operands = {bf16(3, 5 * head_dim, 1), f32(9, rotated, 2), ids({8, 0, 3})};
      expect_op("rotary", operands, 1, [&, head_dim = head_dim](Kernels& k, Operands& o) {
        // Of five heads the middle three are turned, as queries and keys are in their product.
        const View heads = o[0].view().columns(head_dim, 3 * head_dim);
        k.rotary(heads, o[1], o[2], 3, backward);
      });
    }
}

// Ids of other shards, once, often, next to each other and far apart; the sum is that of the rows
// in their order, bit by bit.
TEST(TunedRows, EmbeddingBackward) {
  constexpr int64_t kRows = 700, kFirst = 3, kCount = 60;
  std::vector<int> chosen;
  for (int row = 0; row < kRows; ++row) chosen.push_back(row % 3 == 0 ? 7 : row * row % 89);
  for (const int64_t cols : {8, 2056}) {
    const Matrix dy = bf16(kRows, cols, 1), table = f32(kCount, cols, 2);
    Matrix rows = ids(chosen), generic = table;
    Matrix from = dy;
    kernels::make_cpu_kernels(1)->embedding_backward(from, rows, kFirst, generic);
    for (const EmulationMode& mode : emulation_modes()) {
      Matrix sums = table;
      EmulatedKernels kernels(mode);
      kernels.embedding_backward(from, rows, kFirst, sums);
      EXPECT_EQ(kernels.launches(), 1);
      expect_equal(sums, generic, "grad_table");
    }
  }
}

// Pieces that are aligned and pieces that are not, whole and with a rest, in one launch.
TEST(TunedOptimizer, Adam) {
  const kernels::AdamStep step{1e-3, 0.9, 0.999, 1e-8, 3, 0.5};
  const int64_t cols = 9000;
  const Operands o = {f32(1, cols, 1), f32(1, cols, 2), f32(1, cols, 3),
                      Matrix::filled(DType::f32, 1, cols, 0.25), bf16(1, cols, 5)};
  for (const bool with_weights : {true, false})
    expect_op("adam", o, with_weights ? 1 : 0, [&](Kernels& k, Operands& m) {
      std::vector<kernels::AdamPiece> pieces;
      for (const auto& [first, count] :
           {Size{0, 4}, Size{4, 4100}, Size{4105, 4500}, Size{8608, 3}}) {
        const auto part = [first = first, count = count](Matrix& all) {
          return all.view().columns(first, count);
        };
        // Without them the type is that of the master weights, and no hand-tuned kernel fits.
        const View weights = with_weights ? part(m[4]) : View();
        pieces.push_back(
            {part(m[0]), part(m[1]), part(m[2]), part(m[3]), weights, first == 4 ? 0.1 : 0});
      }
      k.adam(pieces, step);
    });
}

TEST(TunedOptimizer, SumsOfSquares) {
  const Matrix x = f32(1, 9000, 1), partials = Matrix::filled(DType::f64, 5, 2, 7);
  expect_op("sums of squares", {x, partials}, 1, [&](Kernels& k, Operands& o) {
    std::vector<kernels::SquaresPiece> pieces;
    int64_t row = 4;
    for (const auto& [first, count] : {Size{0, 8000}, Size{3, 4097}, Size{1, 1}, Size{8001, 21}})
      pieces.push_back({o[0].view().columns(first, count), row--});
    k.sums_of_squares(pieces, o[1]);
  });
}

TEST(TunedRows, Norms) {
  for (const auto& [rows, cols] : {Size{3, 8}, Size{2, 1032}, Size{1, 4096}, Size{2, 4104}})
    for (const bool centered : {true, false}) {
      // src, gain, bias, dst, mean, rstd, grad_dst, residual, grad_src
      const Operands operands = {bf16(rows, cols, 1, 2), bf16(1, cols, 2),    bf16(1, cols, 3),
                                 bf16(rows, cols, 4),    f32(1, rows, 5),     f32(1, rows, 6),
                                 bf16(rows, cols, 7),    bf16(rows, cols, 8), bf16(rows, cols, 9)};
      expect_op("norm", operands, 3, [&, centered = centered](Kernels& k, Operands& o) {
        const View mean = centered ? View(o[4]) : View();
        const ConstView bias = centered ? ConstView(o[2]) : ConstView();
        k.norm_forward(o[0], o[1], bias, o[3], mean, o[5], 1e-5);
        k.norm_backward(o[6], o[0], o[1], mean, o[5], o[7], o[8]);
        k.norm_backward(o[6], o[0], o[1], mean, o[5], {}, o[6]);
      });
    }
}

TEST(TunedRows, CrossEntropyOverAShard) {
  for (const int64_t vocabulary : {8, 51, 4101, 9000}) {
    const int64_t padded = (vocabulary + 7) / 8 * 8, first = 100;
    const auto last = static_cast<int>(first + vocabulary - 1);
    const int64_t rows = 5;
    // Targets: ignored, the first column, the last, of another shard, in the middle.
    const Operands operands = {bf16(rows, padded, 1, 6), f32(1, rows, 2), f32(1, rows, 3),
                               f32(1, rows, 4), ids({-1, 100, last, 99, 103})};
    expect_op(
        "cross_entropy", operands, 2,
        [&](Kernels& k, Operands& o) {
          const View logits = o[0].view().columns(0, vocabulary);
          k.cross_entropy_sums(logits, o[4], first, o[1], o[2], o[3]);
          k.cross_entropy_backward(logits, o[1], o[2], o[4], first, 0.25);
        },
        2);  // sums of thousands of terms in f32
  }
}

TEST(TunedColumns, Sums) {
  for (const auto& [rows, cols] : {Size{1, 8}, Size{70, 136}, Size{200, 264}, Size{777, 128}}) {
    expect_op(
        "column_sum", {bf16(rows, cols, 1), f32(1, cols, 2)}, 2,
        [&](Kernels& k, Operands& o) { k.column_sum(o[0], o[1]); }, 4);
    for (const bool centered : {true, false}) {
      const Operands operands = {bf16(rows, cols, 1), bf16(rows, cols, 2), f32(1, rows, 3),
                                 f32(1, rows, 4),     f32(1, cols, 5),     f32(1, cols, 6)};
      expect_op(
          "norm_parameter_gradients", operands, 2,
          [&, centered = centered](Kernels& k, Operands& o) {
            k.norm_parameter_gradients(o[0], o[1], centered ? ConstView(o[2]) : ConstView(), o[3],
                                       o[4], centered ? View(o[5]) : View());
          },
          4);
    }
  }
}

// Columns that fill no piece and rows that begin between pieces go to the generic bodies.
TEST(TunedKernels, LeaveWhatDoesNotFit) {
  expect_op("odd columns", {bf16(3, 13, 1), bf16(1, 13, 2), bf16(3, 13, 3)}, 0,
            [](Kernels& k, Operands& o) {
              k.bias_activation_forward(o[0], o[1], o[2], Activation::gelu);
            });
  expect_op("odd start", {bf16(3, 24, 1), bf16(3, 16, 2)}, 0, [](Kernels& k, Operands& o) {
    k.bias_activation_forward(o[0].view().columns(4, 16), {}, o[1], Activation::gelu);
  });
  expect_op("no rows", {bf16(1, 16, 1)}, 0, [](Kernels& k, Operands& o) {
    k.dropout(o[0].view().row_range(0, 0), o[0].view().row_range(0, 0), Dropout{});
  });
}

}  // namespace
