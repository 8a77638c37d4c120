// Matrix products by oneDNN (2.x and 3.x), each shape prepared once.
#include "engine/device/products.h"

#include <omp.h>

#include <array>
#include <bit>
#include <cstddef>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <string_view>
#include <unordered_map>

namespace engine {
namespace {

using dnnl::memory;

memory::data_type onednn_type(DType type) {
  return type == DType::bf16 ? memory::data_type::bf16 : memory::data_type::f32;
}

dnnl::algorithm onednn_activation(kernels::Activation activation) {
  switch (activation) {
    case kernels::Activation::gelu:
      return dnnl::algorithm::eltwise_gelu_erf;
    case kernels::Activation::gelu_tanh:
      return dnnl::algorithm::eltwise_gelu_tanh;
    case kernels::Activation::relu:
      return dnnl::algorithm::eltwise_relu;
    case kernels::Activation::silu:
      return dnnl::algorithm::eltwise_swish;
  }
  fail_expectation("an activation is one of four");
}

// What a prepared product depends on; the addresses come with each call.
using Key = std::array<int64_t, 14>;
struct KeyHash {
  size_t operator()(const Key& key) const {
    uint64_t hash = 0;
    for (const int64_t part : key) hash = kernels::mix64(hash ^ static_cast<uint64_t>(part));
    return hash;
  }
};
Key key_of(const Matmul& p) {
  const auto bits = [](double x) { return std::bit_cast<int64_t>(x); };
  return {p.m(),
          p.n(),
          p.k(),
          p.batch,
          p.a.stride,
          p.b.stride,
          p.c.stride,
          p.a_step,
          p.b_step,
          p.c_step,
          (p.transpose_a ? 1 : 0) + (p.transpose_b ? 2 : 0) + (p.bias.empty() ? 0 : 4) +
              8 * static_cast<int>(p.a.type) + 64 * static_cast<int>(p.c.type),
          bits(p.alpha),
          bits(p.beta),
          p.activation ? static_cast<int64_t>(*p.activation) : -1};
}

memory::desc describe(DType type, int64_t batch, int64_t rows, int64_t cols, int64_t step,
                      int64_t row_stride, int64_t col_stride) {
  if (batch == 1) return {{rows, cols}, onednn_type(type), {row_stride, col_stride}};
  return {{batch, rows, cols}, onednn_type(type), {step, row_stride, col_stride}};
}
memory::desc describe(const ConstView& view, bool transpose, const Matmul& p, int64_t step) {
  // A repeated operand is one matrix that the batch shares.
  const int64_t batch = p.batch;
  const int64_t own = step == 0 && batch > 1 ? 1 : batch;
  const int64_t rows = transpose ? view.cols : view.rows, cols = transpose ? view.rows : view.cols;
  const int64_t row_stride = transpose ? 1 : view.stride, col_stride = transpose ? view.stride : 1;
  if (own == 1 && batch > 1)
    return {{1, rows, cols}, onednn_type(view.type), {rows * cols, row_stride, col_stride}};
  return describe(view.type, batch, rows, cols, step, row_stride, col_stride);
}

dnnl::primitive_attr attributes(const Matmul& p) {
  dnnl::post_ops steps;
  const auto append = [&](dnnl::algorithm algorithm, double alpha) {
#if DNNL_VERSION_MAJOR >= 3
    steps.append_eltwise(algorithm, static_cast<float>(alpha), 0.0f);
#else
    steps.append_eltwise(1.0f, algorithm, static_cast<float>(alpha), 0.0f);
#endif
  };
  if (p.alpha != 1) append(dnnl::algorithm::eltwise_linear, p.alpha);
  if (p.beta != 0) steps.append_sum(static_cast<float>(p.beta));
  if (p.activation) {
    const bool swish = *p.activation == kernels::Activation::silu;
    append(onednn_activation(*p.activation), swish ? 1 : 0);
  }
  dnnl::primitive_attr attributes;
  attributes.set_post_ops(steps);
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

// Whether a large factor b is first copied into oneDNN's own layout. Read in place, its rows of
// some KiB share few lines of the cache: [768, 2048] · [2048, 3072] in f32 then runs at a quarter
// of the speed, the copy costs a tenth. With bf16 oneDNN copies by itself.
bool packs(const Matmul& p) {
  constexpr int64_t kLarge = int64_t{4} << 20;
  return p.b.type == DType::f32 && p.batch == 1 && !p.transpose_b && p.m() >= 256 &&
         p.k() * p.n() * kernels::bytes_of(DType::f32) >= kLarge;
}

dnnl::matmul::primitive_desc prepare(const Matmul& p, const dnnl::engine& engine) {
  const memory::desc a = describe(p.a, p.transpose_a, p, p.a_step);
  const memory::desc b =
      packs(p) ? memory::desc({p.k(), p.n()}, onednn_type(p.b.type), memory::format_tag::any)
               : describe(p.b, p.transpose_b, p, p.b_step);
  const memory::desc c = describe(p.c, false, p, p.c_step);
  const bool batched = p.batch > 1;
  const memory::desc bias =
      p.bias.empty()
          ? memory::desc()
          : memory::desc(batched ? memory::dims{1, 1, p.n()} : memory::dims{1, p.n()},
                         onednn_type(p.bias.type),
                         batched ? memory::dims{p.n(), p.n(), 1} : memory::dims{p.n(), 1});
#if DNNL_VERSION_MAJOR >= 3
  return p.bias.empty() ? dnnl::matmul::primitive_desc(engine, a, b, c, attributes(p), true)
                        : dnnl::matmul::primitive_desc(engine, a, b, bias, c, attributes(p), true);
#else
  const auto desc =
      p.bias.empty() ? dnnl::matmul::desc(a, b, c) : dnnl::matmul::desc(a, b, bias, c);
  return {desc, attributes(p), engine, true};
#endif
}

// A prepared product with memory objects whose addresses each call sets.
struct Prepared {
  dnnl::matmul primitive;
  memory a, b, c, bias, scratch;
  std::optional<dnnl::reorder> pack;  // from `unpacked` to b, which then lies behind the scratch
  memory unpacked;
  int64_t pack_offset = 0;
  int64_t scratch_bytes = 0;
  std::unordered_map<int, memory> arguments;

  Prepared(const Matmul& p, const dnnl::matmul::primitive_desc& pd, const dnnl::engine& engine)
      : primitive(pd),
        a(pd.src_desc(), engine, nullptr),
        b(pd.weights_desc(), engine, nullptr),
        c(pd.dst_desc(), engine, nullptr),
        scratch(pd.scratchpad_desc(), engine, nullptr),
        scratch_bytes(static_cast<int64_t>(pd.scratchpad_desc().get_size())) {
    arguments = {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}};
    arguments.emplace(DNNL_ARG_SCRATCHPAD, scratch);
    if (!p.bias.empty()) {
      bias = memory(pd.bias_desc(), engine, nullptr);
      arguments.emplace(DNNL_ARG_BIAS, bias);
    }
    if (!packs(p)) return;
    unpacked = memory(describe(p.b, p.transpose_b, p, p.b_step), engine, nullptr);
    pack.emplace(unpacked, b);
    pack_offset = (scratch_bytes + 63) / 64 * 64;
    scratch_bytes = pack_offset + static_cast<int64_t>(pd.weights_desc().get_size());
  }
};

// oneDNN asks for addresses it may write to, also of operands it only reads.
void set(memory& target, const void* data) { target.set_data_handle(const_cast<void*>(data)); }

}  // namespace

class CpuProducts::Implementation {
 public:
  explicit Implementation(int threads)
      : threads_(threads), engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    multiplies_bf16_ = probe_bf16();
  }

  bool multiplies_bf16() const { return multiplies_bf16_; }

  Prepared& find(const Matmul& p) {
    const Key key = key_of(p);
    const auto known = prepared_.find(key);
    if (known != prepared_.end()) return known->second;
    share_threads(p);
    const auto pd = prepare(p, engine_);
    expect(static_cast<bool>(pd), "oneDNN has a product of this shape");
    return prepared_.try_emplace(key, p, pd, engine_).first->second;
  }

  void run(const Matmul& p, void* scratch) {
    Prepared& prepared = find(p);
    share_threads(p);
    set(prepared.a, p.a.data);
    set(prepared.c, p.c.data);
    if (!p.bias.empty()) set(prepared.bias, p.bias.data);
    if (scratch != nullptr) set(prepared.scratch, scratch);
    if (prepared.pack) {
      set(prepared.unpacked, p.b.data);
      set(prepared.b, static_cast<std::byte*>(scratch) + prepared.pack_offset);
      prepared.pack->execute(stream_, prepared.unpacked, prepared.b);
    } else {
      set(prepared.b, p.b.data);
    }
    prepared.primitive.execute(stream_, prepared.arguments);
    stream_.wait();
  }

 private:
  // oneDNN takes as many threads as OpenMP would give the calling thread.
  void share_threads(const Matmul& p) const {
    const int threads = is_worth_sharing(p) ? threads_ : 1;
    if (omp_get_max_threads() != threads) omp_set_num_threads(threads);
  }
  // Of less work a second thread wakes later (50 µs) than one alone is done: at some 40 GFLOP/s and
  // 10 GB/s.
  static bool is_worth_sharing(const Matmul& p) {
    constexpr int64_t kMultiplications = int64_t{1} << 21, kElements = int64_t{1} << 18;
    return p.batch * p.m() * p.n() * p.k() >= kMultiplications ||
           p.batch * (p.m() * p.k() + p.k() * p.n() + p.m() * p.n()) >= kElements;
  }
  bool probe_bf16() const {
    Matmul p;
    p.a = p.b = ConstView(nullptr, DType::bf16, 256, 256);
    p.c = View(nullptr, DType::bf16, 256, 256);
    const auto pd = prepare(p, engine_);
    if (!pd) return false;
    // Both fall-backs convert to f32 and are slower than f32 itself.
    const std::string_view name = pd.impl_info_str();
    return !name.starts_with("ref") && !name.starts_with("gemm:");
  }

  int threads_;
  dnnl::engine engine_;
  dnnl::stream stream_;
  bool multiplies_bf16_ = false;
  std::unordered_map<Key, Prepared, KeyHash> prepared_;
};

CpuProducts::CpuProducts(int threads)
    : implementation_(std::make_unique<Implementation>(threads)) {}
CpuProducts::~CpuProducts() = default;
bool CpuProducts::multiplies(DType type) const {
  return type == DType::f32 || (type == DType::bf16 && implementation_->multiplies_bf16());
}
int64_t CpuProducts::scratch_bytes(const Matmul& p) {
  return implementation_->find(p).scratch_bytes;
}
void CpuProducts::run(const Matmul& p, void* scratch) { implementation_->run(p, scratch); }

}  // namespace engine
