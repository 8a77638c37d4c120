// The CUDA device's kernels on one GPU: what share of the copy bandwidth, or of the bf16 matrix
// ceiling, each reaches. Both are measured in the same run. One table, or JSON lines with --json.
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/cuda.h"

namespace {

using kernels::ConstView;
using kernels::DType;
using kernels::View;

void check(cudaError_t status) {
  if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
}

// Matrices in device memory, filled with normal values.
class Memory {
 public:
  explicit Memory(kernels::Kernels& kernels) : kernels_(kernels) {}
  ~Memory() { clear(); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  View matrix(DType type, int64_t rows, int64_t cols) {
    void* data = nullptr;
    check(cudaMalloc(&data, static_cast<size_t>(rows * cols * kernels::bytes_of(type))));
    all_.push_back(data);
    const View view(data, type, rows, cols);
    const auto stream = kernels::make_stream(1, kernels::Purpose::phantom, 0, all_.size());
    if (type == DType::i32)
      kernels_.fill(view, 1);
    else
      kernels_.fill_normal(view, 1, stream, {}, 0);
    return view;
  }
  View ids(const std::vector<int32_t>& values, int64_t rows) {
    const auto count = static_cast<int64_t>(values.size());
    const View view = matrix(DType::i32, rows, count / rows);
    check(cudaDeviceSynchronize());
    check(cudaMemcpy(view.data, values.data(), values.size() * 4, cudaMemcpyHostToDevice));
    return view;
  }
  void clear() {
    for (void* data : all_) cudaFree(data);
    all_.clear();
  }

 private:
  kernels::Kernels& kernels_;
  std::vector<void*> all_;
};

// The median time of a call in seconds, over rounds of several calls behind each other.
template <class F>
double seconds_of(cudaStream_t stream, F call) {
  constexpr int kRounds = 9, kCalls = 10;
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin));
  check(cudaEventCreate(&end));
  for (int i = 0; i < 3; ++i) call();
  std::vector<float> times;
  for (int round = 0; round < kRounds; ++round) {
    check(cudaEventRecord(begin, stream));
    for (int i = 0; i < kCalls; ++i) call();
    check(cudaEventRecord(end, stream));
    check(cudaEventSynchronize(end));
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin, end));
    times.push_back(milliseconds / kCalls);
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  std::nth_element(times.begin(), times.begin() + kRounds / 2, times.end());
  return times[kRounds / 2] * 1e-3;
}

class Report {
 public:
  Report(cudaStream_t stream, bool json) : stream_(stream), json_(json) {}

  void measure_ceilings(Memory& memory) {
    constexpr int64_t kBytes = int64_t{1} << 30, kSide = 8192;
    const View from = memory.matrix(DType::f32, 1, kBytes / 4);
    const View to = memory.matrix(DType::f32, 1, kBytes / 4);
    const double copy = seconds_of(stream_, [&] {
      check(cudaMemcpyAsync(to.data, from.data, kBytes, cudaMemcpyDeviceToDevice, stream_));
    });
    bytes_per_second_ = 2 * kBytes / copy;
    memory.clear();

    const View a = memory.matrix(DType::bf16, kSide, kSide);
    const View b = memory.matrix(DType::bf16, kSide, kSide);
    const View c = memory.matrix(DType::bf16, kSide, kSide);
    cublasHandle_t handle = nullptr;
    const auto blas = [](cublasStatus_t status) {
      if (status != CUBLAS_STATUS_SUCCESS) throw std::runtime_error("cuBLAS failed");
    };
    blas(cublasCreate(&handle));
    blas(cublasSetStream(handle, stream_));
    const float one = 1, zero = 0;
    constexpr int n = kSide;
    const double product = seconds_of(stream_, [&] {
      blas(cublasGemmEx(handle, CUBLAS_OP_T, CUBLAS_OP_N, n, n, n, &one, a.data, CUDA_R_16BF, n,
                        b.data, CUDA_R_16BF, n, &zero, c.data, CUDA_R_16BF, n, CUBLAS_COMPUTE_32F,
                        CUBLAS_GEMM_DEFAULT));
    });
    cublasDestroy(handle);
    memory.clear();
    flops_per_second_ = 2.0 * kSide * kSide * kSide / product;
    if (json_)
      fmt::print(
          "{{\"ceiling\":\"copy\",\"bytes_per_second\":{:.4g}}}\n"
          "{{\"ceiling\":\"matmul_bf16\",\"flops_per_second\":{:.4g}}}\n",
          bytes_per_second_, flops_per_second_);
    else
      fmt::print("copy {:.0f} GB/s, bf16 products {:.0f} TFLOP/s\n\n{:<44} {:>10} {:>12} {:>9}\n",
                 bytes_per_second_ * 1e-9, flops_per_second_ * 1e-12, "kernel", "us", "rate",
                 "of peak");
  }
  template <class F>
  void memory_bound(const std::string& name, double bytes, F call) {
    const double seconds = seconds_of(stream_, call);
    line(name, seconds, bytes / seconds * 1e-9, "GB/s", bytes / seconds / bytes_per_second_);
  }
  template <class F>
  void compute_bound(const std::string& name, double flops, F call) {
    const double seconds = seconds_of(stream_, call);
    line(name, seconds, flops / seconds * 1e-12, "TFLOP/s", flops / seconds / flops_per_second_);
  }

 private:
  void line(const std::string& name, double seconds, double rate, const char* unit, double share) {
    check(cudaGetLastError());
    if (json_)
      fmt::print(
          "{{\"kernel\":\"{}\",\"seconds\":{:.4g},\"rate\":{:.4g},\"unit\":\"{}\","
          "\"share_of_ceiling\":{:.3f}}}\n",
          name, seconds, rate, unit, share);
    else
      fmt::print("{:<44} {:>10.1f} {:>6.0f} {:<7} {:>6.1f} %\n", name, seconds * 1e6, rate, unit,
                 share * 100);
  }
  cudaStream_t stream_;
  bool json_;
  double bytes_per_second_ = 1, flops_per_second_ = 1;
};

// Products of the visible half (causal) or the whole square, 2 forward and 5 backward.
void measure_attention(kernels::Kernels& k, Memory& memory, Report& report, int64_t head_dim,
                       int64_t tokens, bool causal, float dropout) {
  kernels::AttentionShape s;
  s.sequences = 16384 / tokens;
  s.queries = s.keys = tokens;
  s.heads = s.kv_heads = 4096 / head_dim;
  s.head_dim = head_dim;
  s.scale = 1 / std::sqrt(static_cast<double>(head_dim));
  s.causal = causal;
  s.dropout.probability = dropout;
  const auto matrix = [&] { return memory.matrix(DType::bf16, 16384, 4096); };
  const View q = matrix(), key = matrix(), v = matrix(), out = matrix(), dy = matrix();
  const View dq = matrix(), dk = matrix(), dv = matrix();
  const View log_sum = memory.matrix(DType::f32, s.sequences * s.heads, tokens);
  const double product = 2.0 * 16384 * 4096 * static_cast<double>(tokens) / (causal ? 2 : 1);
  const std::string name =
      fmt::format("attention {{}}, heads of {}, {} tokens{}{}", head_dim, tokens,
                  causal ? ", causal" : "", dropout > 0 ? ", dropout" : "");
  report.compute_bound(fmt::format(fmt::runtime(name), "forward"), 2 * product,
                       [&] { k.attention_forward(q, key, v, out, log_sum, s); });
  report.compute_bound(fmt::format(fmt::runtime(name), "backward"), 5 * product,
                       [&] { k.attention_backward(q, key, v, out, log_sum, dy, dq, dk, dv, s); });
  memory.clear();
}

void measure_rows(kernels::Kernels& k, Memory& memory, Report& report) {
  constexpr int64_t kRows = 16384, kCols = 4096;
  constexpr double kOne = 2.0 * kRows * kCols;  // bytes of a bf16 matrix
  const auto matrix = [&] { return memory.matrix(DType::bf16, kRows, kCols); };
  const auto vector = [&](DType type, int64_t n) { return memory.matrix(type, 1, n); };
  const View x = matrix(), y = matrix(), dy = matrix(), dx = matrix(), residual = matrix();
  const View gain = vector(DType::bf16, kCols), bias = vector(DType::bf16, kCols);
  const View mean = vector(DType::f32, kRows), rstd = vector(DType::f32, kRows);
  const View sums = vector(DType::f32, kCols), more_sums = vector(DType::f32, kCols);
  using kernels::Activation;
  kernels::Dropout dropout;
  report.memory_bound("norm_forward", 2 * kOne,
                      [&] { k.norm_forward(x, gain, bias, y, mean, rstd, 1e-5); });
  report.memory_bound("norm_backward with residual", 4 * kOne,
                      [&] { k.norm_backward(dy, x, gain, mean, rstd, residual, dx); });
  report.memory_bound("norm_parameter_gradients", 2 * kOne,
                      [&] { k.norm_parameter_gradients(dy, x, mean, rstd, sums, more_sums); });
  report.memory_bound("column_sum", kOne, [&] { k.column_sum(dy, sums); });
  report.memory_bound("bias_dropout_add", 3 * kOne,
                      [&] { k.bias_dropout_add(x, bias, residual, y, dropout); });
  dropout.probability = 0.1f;
  report.memory_bound("bias_dropout_add, dropout", 3 * kOne,
                      [&] { k.bias_dropout_add(x, bias, residual, y, dropout); });
  report.memory_bound("bias_activation_forward, gelu", 2 * kOne,
                      [&] { k.bias_activation_forward(x, bias, y, Activation::gelu); });
  report.memory_bound("bias_activation_backward, gelu", 3 * kOne,
                      [&] { k.bias_activation_backward(dy, x, bias, dx, Activation::gelu); });
  report.memory_bound("gated_forward, silu", 3 * kOne,
                      [&] { k.gated_forward(x, dy, y, Activation::silu); });
  report.memory_bound("gated_backward, silu", 5 * kOne,
                      [&] { k.gated_backward(dy, x, residual, dx, y, Activation::silu); });
  const View table = memory.matrix(DType::f32, 2048, 128), places = vector(DType::i32, kRows);
  report.memory_bound("rotary", 2 * kOne, [&] { k.rotary(x, table, places, kCols / 128, false); });
  memory.clear();
}

// One new token of every sequence; the keys and values of its context pass by once.
void measure_decoding(kernels::Kernels& k, Memory& memory, Report& report, int64_t sequences,
                      int64_t context, int64_t heads) {
  const kernels::PagedShape s{heads, 8, 128, 16, 0.09};
  const int64_t pages = context / s.page_tokens, kv = s.kv_heads * s.head_dim;
  const auto cache = [&] { return memory.matrix(DType::bf16, sequences * context, kv); };
  const View key = cache(), value = cache();
  const View query = memory.matrix(DType::bf16, sequences, heads * s.head_dim);
  const View out = memory.matrix(DType::bf16, sequences, heads * s.head_dim);
  // The pages of the sequences take turns.
  std::vector<int32_t> places, rows, contexts;
  for (int64_t i = 0; i < sequences; ++i) {
    for (int64_t page = 0; page < pages; ++page)
      places.push_back(static_cast<int32_t>(page * sequences + i));
    rows.push_back(static_cast<int32_t>(i));
    contexts.push_back(static_cast<int32_t>(context));
  }
  const View tables = memory.ids(places, sequences), own = memory.ids(rows, 1);
  const View visible = memory.ids(contexts, 1);
  report.memory_bound(
      fmt::format("paged_attention, {} x {} tokens, {} heads", sequences, context, heads),
      4.0 * static_cast<double>(sequences * context * kv),
      [&] { k.paged_attention(query, key, value, tables, own, visible, out, s); });
  memory.clear();
}

void measure_ends(kernels::Kernels& k, Memory& memory, Report& report) {
  constexpr int64_t kTokens = 8192, kVocabulary = 50257, kPadded = 50304;
  constexpr double kLogits = 2.0 * kTokens * kVocabulary;
  const View logits = memory.matrix(DType::bf16, kTokens, kPadded).columns(0, kVocabulary);
  const View top = memory.matrix(DType::f32, 1, kTokens),
             sums = memory.matrix(DType::f32, 1, kTokens);
  const View chosen = memory.matrix(DType::f32, 1, kTokens);
  const View targets = memory.matrix(DType::i32, 1, kTokens);
  report.memory_bound("cross_entropy_sums", kLogits,
                      [&] { k.cross_entropy_sums(logits, targets, 0, top, sums, chosen); });
  k.fill(sums, 1e5);
  report.memory_bound("cross_entropy_backward", 2 * kLogits,
                      [&] { k.cross_entropy_backward(logits, top, sums, targets, 0, 1); });
  memory.clear();

  // The ids of a text are not alike often: here all differ, but for the last half of them.
  constexpr int64_t kHidden = 4096;
  std::vector<int32_t> words;
  for (int64_t i = 0; i < kTokens; ++i)
    words.push_back(static_cast<int32_t>(i < kTokens / 2 ? 5 * i : i * i % 1009));
  const View ids = memory.ids(words, 1), grad = memory.matrix(DType::bf16, kTokens, kHidden);
  const View table = memory.matrix(DType::f32, kPadded, kHidden);
  report.memory_bound("embedding_backward", 10.0 * kTokens * kHidden,
                      [&] { k.embedding_backward(grad, ids, 0, table); });
  memory.clear();

  constexpr int64_t kWeights = int64_t{1} << 27;
  const auto vector = [&](DType type) { return memory.matrix(type, 1, kWeights); };
  const View gradient = vector(DType::f32), master = vector(DType::f32), mean = vector(DType::f32);
  const View square = vector(DType::f32), weights = vector(DType::bf16);
  k.fill(square, 1);
  // As 64 tensors, every other of them small.
  std::vector<kernels::AdamPiece> pieces;
  std::vector<kernels::SquaresPiece> squares;
  constexpr int64_t kBoth = kWeights / 32, kSmall = 4096;
  for (int64_t i = 0; i < 64; ++i) {
    const int64_t first = i / 2 * kBoth + (i % 2) * kSmall;
    const auto part = [&](const View& all) {
      return all.columns(first, i % 2 == 0 ? kSmall : kBoth - kSmall);
    };
    pieces.push_back({part(gradient), part(master), part(mean), part(square), part(weights), 0.1});
    squares.push_back({part(gradient), i});
  }
  report.memory_bound("adam", 30.0 * kWeights, [&] { k.adam(pieces, kernels::AdamStep{}); });
  const View partials = memory.matrix(DType::f64, 64, 64);
  report.memory_bound("sums_of_squares", 4.0 * kWeights,
                      [&] { k.sums_of_squares(squares, partials); });
  memory.clear();
}

void run(bool json) {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreate(&stream));
  constexpr size_t kScratch = size_t{256} << 20;  // more than any call here asks for
  void* scratch = nullptr;
  check(cudaMalloc(&scratch, kScratch));
  const auto kernels = kernels::make_cuda_kernels(stream, [&](int64_t) { return scratch; });
  Memory memory(*kernels);
  Report report(stream, json);
  report.measure_ceilings(memory);
  measure_rows(*kernels, memory, report);
  measure_ends(*kernels, memory, report);
  for (const int64_t heads : {8, 32}) {
    measure_decoding(*kernels, memory, report, 1, 65536, heads);
    measure_decoding(*kernels, memory, report, 32, 4096, heads);
  }
  for (const int64_t head_dim : {64, 128})
    for (const int64_t tokens : {2048, 8192})
      measure_attention(*kernels, memory, report, head_dim, tokens, true, 0);
  measure_attention(*kernels, memory, report, 128, 8192, false, 0);
  measure_attention(*kernels, memory, report, 128, 2048, true, 0.1f);
  check(cudaStreamSynchronize(stream));
}

}  // namespace

int main(int argc, char** argv) {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
    fmt::print(stderr, "cuda_kernels: no GPU here; nothing is measured\n");
    return 7;
  }
  try {
    run(argc > 1 && std::strcmp(argv[1], "--json") == 0);
  } catch (const std::exception& error) {
    fmt::print(stderr, "cuda_kernels: {}\n", error.what());
    return 1;
  }
}
