// Matrix products by cuBLASLt, each shape prepared once.
//
// cuBLASLt stores columns, we store rows: it is asked for cᵀ = op(b)ᵀ · op(a)ᵀ, so that its first
// factor is b, and a bias along n runs down its columns as it wants.
#include "engine/device/cuda/cublas.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <unordered_map>

#include "engine/device/cuda/cuda_device.h"

namespace engine {
namespace {

using kernels::Activation;

constexpr int64_t kMostScratchBytes = int64_t{32} << 20;  // what cuBLASLt's fastest kernels ask for

cudaDataType_t cuda_type(DType type) {
  if (type == DType::f64) return CUDA_R_64F;
  return type == DType::bf16 ? CUDA_R_16BF : CUDA_R_32F;
}

cublasComputeType_t compute_type(DType type) {
  return type == DType::f64 ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F;
}

// What the product itself finishes; the rest is left to kernels.
struct Epilogue {
  cublasLtEpilogue_t kind = CUBLASLT_EPILOGUE_DEFAULT;
  bool adds_bias = false, activates = false;

  bool is_none() const { return kind == CUBLASLT_EPILOGUE_DEFAULT; }
};
Epilogue wanted_epilogue(const Matmul& p) {
  // cuBLASLt adds only a bias of the result's type, and nothing to products of f64.
  if (p.a.type == DType::f64 || (!p.bias.empty() && p.bias.type != p.c.type)) return {};
  const bool bias = !p.bias.empty();
  if (p.activation == Activation::gelu_tanh)
    return {bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU, bias, true};
  if (p.activation == Activation::relu)
    return {bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU, bias, true};
  return {bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT, bias, false};
}

// The alignment that an algorithm may rely on: the largest power of two, up to 256 bytes.
uint32_t alignment_of(const void* data, int64_t step, DType type) {
  const auto address = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(data)) |
                       static_cast<uint64_t>(step * kernels::bytes_of(type));
  return address == 0 ? 256u : 1u << std::min(8, std::countr_zero(address));
}

// What a prepared product depends on; the addresses come with each call.
using Key = std::array<int64_t, 12>;
struct KeyHash {
  size_t operator()(const Key& key) const {
    uint64_t hash = 0;
    for (const int64_t part : key) hash = kernels::mix64(hash ^ static_cast<uint64_t>(part));
    return hash;
  }
};
Key key_of(const Matmul& p) {
  const auto alignments = [&] {
    return int64_t{alignment_of(p.a.data, p.a_step, p.a.type)} |
           int64_t{alignment_of(p.b.data, p.b_step, p.b.type)} << 16 |
           int64_t{alignment_of(p.c.data, p.c_step, p.c.type)} << 32 |
           int64_t{alignment_of(p.bias.data, 0, p.bias.type)} << 48;
  };
  const int64_t kind = (p.transpose_a ? 1 : 0) + (p.transpose_b ? 2 : 0) + (p.beta != 0 ? 4 : 0) +
                       8 * static_cast<int>(p.a.type) + 64 * static_cast<int>(p.c.type) +
                       512 * static_cast<int>(wanted_epilogue(p).kind);
  return {p.m(),      p.n(),    p.k(),    p.batch,  p.a.stride, p.b.stride,
          p.c.stride, p.a_step, p.b_step, p.c_step, kind,       alignments()};
}

class Layout {
 public:
  Layout(const ConstView& view, int64_t batch, int64_t step) {
    check(cublasLtMatrixLayoutCreate(&layout_, cuda_type(view.type),
                                     static_cast<uint64_t>(view.cols),
                                     static_cast<uint64_t>(view.rows), view.stride));
    const auto count = static_cast<int32_t>(batch);
    check(cublasLtMatrixLayoutSetAttribute(layout_, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                           sizeof count));
    check(cublasLtMatrixLayoutSetAttribute(layout_, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                           &step, sizeof step));
  }
  ~Layout() { cublasLtMatrixLayoutDestroy(layout_); }
  Layout(const Layout&) = delete;
  Layout& operator=(const Layout&) = delete;
  cublasLtMatrixLayout_t get() const { return layout_; }

 private:
  cublasLtMatrixLayout_t layout_ = nullptr;
};

class Description {
 public:
  Description(const Matmul& p, const Epilogue& epilogue) {
    check(cublasLtMatmulDescCreate(&description_, compute_type(p.a.type),
                                   p.a.type == DType::f64 ? CUDA_R_64F : CUDA_R_32F));
    const auto operation = [](bool transpose) { return transpose ? CUBLAS_OP_T : CUBLAS_OP_N; };
    set(CUBLASLT_MATMUL_DESC_TRANSA, operation(p.transpose_b));
    set(CUBLASLT_MATMUL_DESC_TRANSB, operation(p.transpose_a));
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue.kind);
  }
  ~Description() { cublasLtMatmulDescDestroy(description_); }
  Description(const Description&) = delete;
  Description& operator=(const Description&) = delete;
  void set_bias(const void* bias) { set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias); }
  cublasLtMatmulDesc_t get() const { return description_; }

 private:
  template <class Value>
  void set(cublasLtMatmulDescAttributes_t attribute, const Value& value) {
    check(cublasLtMatmulDescSetAttribute(description_, attribute, &value, sizeof value));
  }
  cublasLtMatmulDesc_t description_ = nullptr;
};

// One shape: its description, and the algorithm that cuBLASLt holds for the fastest.
struct Prepared {
  Epilogue epilogue;
  Description description;
  Layout a, b, c;
  cublasLtMatmulAlgo_t algorithm{};
  int64_t scratch_bytes = 0;
  bool found = false;

  Prepared(const Matmul& p, const Epilogue& wanted, cublasLtHandle_t handle)
      : epilogue(wanted),
        description(p, wanted),
        a(p.a, p.batch, p.a_step),
        b(p.b, p.batch, p.b_step),
        c(p.c, p.batch, p.c_step) {
    // Its alignment decides which algorithms there are.
    if (epilogue.adds_bias) description.set_bias(p.bias.data);
    choose(p, handle);
  }

 private:
  void choose(const Matmul& p, cublasLtHandle_t handle) {
    cublasLtMatmulPreference_t preference = nullptr;
    check(cublasLtMatmulPreferenceCreate(&preference));
    const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
      check(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value));
    };
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(kMostScratchBytes));
    // Or parts of a sum may be rounded to the result's type before they are added.
    set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
    const uint32_t result = alignment_of(p.c.data, p.c_step, p.c.type);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(p.b.data, p.b_step, p.b.type));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(p.a.data, p.a_step, p.a.type));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, result);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, result);
    cublasLtMatmulHeuristicResult_t best{};
    int count = 0;
    const cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(handle, description.get(), b.get(), a.get(), c.get(),
                                       c.get(), preference, 1, &best, &count);
    cublasLtMatmulPreferenceDestroy(preference);
    if (status != CUBLAS_STATUS_NOT_SUPPORTED) check(status);
    found = status == CUBLAS_STATUS_SUCCESS && count > 0;
    algorithm = best.algo;
    scratch_bytes = static_cast<int64_t>(best.workspaceSize);
  }
};

}  // namespace

class CublasProducts::Implementation {
 public:
  explicit Implementation(CudaDevice& device) : device_(device) { check(cublasLtCreate(&handle_)); }
  ~Implementation() { cublasLtDestroy(handle_); }

  void run(const Matmul& p) {
    Prepared& prepared = find(p);
    multiply(p, prepared);
    const Epilogue& epilogue = prepared.epilogue;
    if ((p.bias.empty() || epilogue.adds_bias) && (!p.activation || epilogue.activates)) return;
    finish(p, epilogue.adds_bias ? ConstView() : p.bias);
  }

 private:
  void multiply(const Matmul& p, Prepared& prepared) {
    if (prepared.epilogue.adds_bias) prepared.description.set_bias(p.bias.data);
    const Buffer scratch = prepared.scratch_bytes == 0
                               ? Buffer()
                               : Buffer(device_, prepared.scratch_bytes, MemoryUse::workspace);
    const auto alpha = static_cast<float>(p.alpha), beta = static_cast<float>(p.beta);
    const bool wide = p.a.type == DType::f64;
    check(cublasLtMatmul(
        handle_, prepared.description.get(), wide ? static_cast<const void*>(&p.alpha) : &alpha,
        p.b.data, prepared.b.get(), p.a.data, prepared.a.get(),
        wide ? static_cast<const void*>(&p.beta) : &beta, p.c.data, prepared.c.get(), p.c.data,
        prepared.c.get(), &prepared.algorithm, scratch.data(),
        static_cast<size_t>(prepared.scratch_bytes), device_.stream().get()));
  }

  Prepared& find(const Matmul& p) {
    const Key key = key_of(p);
    const auto known = prepared_.find(key);
    if (known != prepared_.end()) return *known->second;
    const Epilogue wanted = wanted_epilogue(p);
    auto prepared = std::make_unique<Prepared>(p, wanted, handle_);
    // Some types and alignments have products, but none with an epilogue.
    if (!prepared->found && !wanted.is_none())
      prepared = std::make_unique<Prepared>(p, Epilogue(), handle_);
    expect(prepared->found,
           fmt::format("cuBLASLt has a product of {} × {} × {}", p.m(), p.n(), p.k()));
    return *prepared_.emplace(key, std::move(prepared)).first->second;
  }

  // What the product could not finish: bias and activation by kernels.
  void finish(const Matmul& p, ConstView bias) {
    kernels::Kernels& kernels = device_.kernels();
    Buffer widened;
    if (!bias.empty() && bias.type != p.c.type) {
      widened = Buffer(device_, bias.cols * kernels::bytes_of(p.c.type), MemoryUse::workspace);
      const View wide(widened.data(), p.c.type, 1, bias.cols);
      kernels.copy(bias, wide);
      bias = wide;
    }
    View c = p.c;
    for (int64_t i = 0; i < p.batch; ++i) {
      if (p.activation)
        kernels.bias_activation_forward(c, bias, c, *p.activation);
      else
        kernels.bias_dropout_add(c, bias, {}, c, {});
      c.data = static_cast<std::byte*>(c.data) + p.c_step * kernels::bytes_of(c.type);
    }
  }

  CudaDevice& device_;
  cublasLtHandle_t handle_ = nullptr;
  std::unordered_map<Key, std::unique_ptr<Prepared>, KeyHash> prepared_;
};

CublasProducts::CublasProducts(CudaDevice& device)
    : implementation_(std::make_unique<Implementation>(device)) {}
CublasProducts::~CublasProducts() = default;
void CublasProducts::run(const Matmul& product) { implementation_->run(product); }

}  // namespace engine
