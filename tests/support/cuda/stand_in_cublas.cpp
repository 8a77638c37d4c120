// cuBLASLt of the stand-in: products by plain loops, columns first, as its documentation says.
#include <cublasLt.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "kernels/scalar.h"
#include "tests/support/cuda/stand_in.h"

struct cublasLtContext {};

namespace {

struct Description {
  cublasComputeType_t compute;
  cublasOperation_t a = CUBLAS_OP_N, b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
};
struct Layout {
  cudaDataType type;
  uint64_t rows, cols;
  int64_t leading;
  int32_t batch = 1;
  int64_t step = 0;
};
struct Preference {
  uint64_t scratch = 0;
  uint32_t a = 256, b = 256, c = 256, d = 256;
  uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
};

Description& of(cublasLtMatmulDesc_t d) { return *reinterpret_cast<Description*>(d); }
Layout& of(cublasLtMatrixLayout_t l) { return *reinterpret_cast<Layout*>(l); }
Preference& of(cublasLtMatmulPreference_t p) { return *reinterpret_cast<Preference*>(p); }

template <class Value>
cublasStatus_t set(Value& value, const void* from, size_t bytes) {
  if (bytes != sizeof value) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&value, from, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

double load(const void* data, cudaDataType type, int64_t i) {
  if (type == CUDA_R_64F) return static_cast<const double*>(data)[i];
  if (type == CUDA_R_32F) return static_cast<const float*>(data)[i];
  return static_cast<const kernels::bfloat16*>(data)[i];
}
void store(void* data, cudaDataType type, int64_t i, double value) {
  if (type == CUDA_R_64F)
    static_cast<double*>(data)[i] = value;
  else if (type == CUDA_R_32F)
    static_cast<float*>(data)[i] = static_cast<float>(value);
  else
    static_cast<kernels::bfloat16*>(data)[i] = kernels::bfloat16(static_cast<float>(value));
}

// What an algorithm was chosen for: it may be used for nothing else.
uint64_t shape_hash(const Description& d, const Layout& a, const Layout& b, const Layout& c) {
  uint64_t hash = static_cast<uint64_t>(d.a) * 4 + static_cast<uint64_t>(d.b) * 2 +
                  static_cast<uint64_t>(d.epilogue) * 16;
  for (const Layout* l : {&a, &b, &c})
    for (const uint64_t part :
         {l->rows, l->cols, static_cast<uint64_t>(l->leading), static_cast<uint64_t>(l->batch),
          static_cast<uint64_t>(l->step), static_cast<uint64_t>(l->type)})
      hash = (hash ^ part) * 0x100000001b3ULL + (hash >> 29);
  return hash;
}

struct Product {
  Description description;
  Layout a, b, c;
  const void *a_data, *b_data;
  void* c_data;
  double alpha, beta;
  bool rounds_parts;  // of the sums, to the type of the result

  // A factor as columns of op(x), in double or, for what is summed in f32, in float.
  template <class A>
  std::vector<A> read(const Layout& l, const void* data, bool transpose, int64_t first) const {
    const auto rows = static_cast<int64_t>(l.rows), cols = static_cast<int64_t>(l.cols);
    std::vector<A> all(static_cast<size_t>(rows * cols));
    for (int64_t j = 0; j < cols; ++j)
      for (int64_t i = 0; i < rows; ++i)
        all[static_cast<size_t>(transpose ? i * cols + j : j * rows + i)] =
            static_cast<A>(load(data, l.type, first + j * l.leading + i));
    return all;
  }
  template <class A>
  void run() const {
    const bool ta = description.a == CUBLAS_OP_T, tb = description.b == CUBLAS_OP_T;
    const auto m = static_cast<int64_t>(c.rows), n = static_cast<int64_t>(c.cols);
    const auto k = static_cast<int64_t>(ta ? a.rows : a.cols);
    std::vector<A> sums(static_cast<size_t>(m));
    for (int32_t batch = 0; batch < c.batch; ++batch) {
      const std::vector<A> left = read<A>(a, a_data, ta, batch * a.step);
      const std::vector<A> right = read<A>(b, b_data, tb, batch * b.step);
      for (int64_t j = 0; j < n; ++j) {
        std::fill(sums.begin(), sums.end(), A(0));
        for (int64_t depth = 0; depth < k; ++depth) {
          if (rounds_parts && depth == k / 2)
            for (A& sum : sums) sum = static_cast<A>(rounded(static_cast<double>(sum)));
          const A factor = right[static_cast<size_t>(j * k + depth)];
          const A* column = left.data() + depth * m;
          for (int64_t i = 0; i < m; ++i) sums[static_cast<size_t>(i)] += column[i] * factor;
        }
        for (int64_t i = 0; i < m; ++i)
          finish(batch * c.step + j * c.leading + i, i, static_cast<double>(sums[size_t(i)]));
      }
    }
  }
  double rounded(double sum) const {
    double memory = 0;
    store(&memory, c.type, 0, sum);
    return load(&memory, c.type, 0);
  }
  void finish(int64_t place, int64_t row, double sum) const {
    double value = alpha * sum;
    if (beta != 0) value += beta * load(c_data, c.type, place);
    if (description.bias != nullptr) value += load(description.bias, c.type, row);
    switch (description.epilogue) {
      case CUBLASLT_EPILOGUE_GELU:
      case CUBLASLT_EPILOGUE_GELU_BIAS:
        value *=
            0.5 * (1 + std::tanh(0.7978845608028654 * (value + 0.044715 * value * value * value)));
        break;
      case CUBLASLT_EPILOGUE_RELU:
      case CUBLASLT_EPILOGUE_RELU_BIAS:
        value = value > 0 || value != value ? value : 0;
        break;
      default:
        break;
    }
    store(c_data, c.type, place, value);
  }
};

bool is_aligned(const void* data, uint64_t bytes) {
  return reinterpret_cast<uintptr_t>(data) % bytes == 0;
}
bool has_bias(const Description& d) {
  return d.epilogue == CUBLASLT_EPILOGUE_BIAS || d.epilogue == CUBLASLT_EPILOGUE_GELU_BIAS ||
         d.epilogue == CUBLASLT_EPILOGUE_RELU_BIAS;
}

}  // namespace

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = new cublasLtContext;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* d, cublasComputeType_t compute,
                                        cudaDataType_t) {
  *d = reinterpret_cast<cublasLtMatmulDesc_t>(new Description{compute});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d) {
  delete &of(d);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return set(of(d).a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return set(of(d).b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return set(of(d).epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return set(of(d).bias, value, bytes);
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          uint64_t rows, uint64_t cols, int64_t leading) {
  if (leading < static_cast<int64_t>(rows)) return CUBLAS_STATUS_INVALID_VALUE;
  *layout = reinterpret_cast<cublasLtMatrixLayout_t>(new Layout{type, rows, cols, leading});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete &of(layout);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* value, size_t bytes) {
  if (attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT) return set(of(layout).batch, value, bytes);
  if (attribute == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET)
    return set(of(layout).step, value, bytes);
  return CUBLAS_STATUS_NOT_SUPPORTED;
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = reinterpret_cast<cublasLtMatmulPreference_t>(new Preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete &of(preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, size_t bytes) {
  Preference& p = of(preference);
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return set(p.scratch, value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return set(p.reductions, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
      return set(p.a, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
      return set(p.b, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
      return set(p.c, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return set(p.d, value, bytes);
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t d,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t preference, int,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* found) {
  const Description& description = of(d);
  const Layout &left = of(a), &right = of(b), &result = of(c);
  const uint64_t m = description.a == CUBLAS_OP_T ? left.cols : left.rows;
  const uint64_t k = description.a == CUBLAS_OP_T ? left.rows : left.cols;
  const uint64_t n = description.b == CUBLAS_OP_T ? right.rows : right.cols;
  const uint64_t depth = description.b == CUBLAS_OP_T ? right.cols : right.rows;
  *found = 0;
  if (m != result.rows || n != result.cols || k != depth) return CUBLAS_STATUS_INVALID_VALUE;
  const bool wide = left.type == CUDA_R_64F;
  const bool poorly_aligned = of(preference).d < 16;
  if ((wide || poorly_aligned) && description.epilogue != CUBLASLT_EPILOGUE_DEFAULT)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  *found = 1;
  uint64_t* algorithm = results[0].algo.data;
  algorithm[0] = shape_hash(description, left, right, result);
  algorithm[1] = of(preference).a;
  algorithm[2] = of(preference).b;
  algorithm[3] = of(preference).c;
  algorithm[4] = algorithm[0] % 3 == 0 ? 512 : 0;  // scratch, for some
  results[0].workspaceSize = algorithm[4];
  algorithm[6] = of(preference).reductions & ~uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE};
  // "depend on its value to determine expected pointer alignment"
  algorithm[5] = has_bias(description) && is_aligned(description.bias, 16) ? 16 : 2;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t d, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* result, cublasLtMatrixLayout_t,
                              const cublasLtMatmulAlgo_t* algorithm, void* scratch,
                              size_t scratch_bytes, cudaStream_t stream) {
  const uint64_t* algo = algorithm->data;
  const Description& description = of(d);
  if (algo[0] != shape_hash(description, of(a_layout), of(b_layout), of(c_layout)) ||
      !is_aligned(a, algo[1]) || !is_aligned(b, algo[2]) || !is_aligned(result, algo[3]) ||
      scratch_bytes < algo[4] || (algo[4] > 0 && scratch == nullptr) || c != result)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (has_bias(description) && !is_aligned(description.bias, algo[5]))
    return CUBLAS_STATUS_INVALID_VALUE;
  const bool wide = of(a_layout).type == CUDA_R_64F;
  const auto scalar = [&](const void* data) {
    return wide ? *static_cast<const double*>(data) : double{*static_cast<const float*>(data)};
  };
  Product product{description, of(a_layout), of(b_layout),  of(c_layout), a,
                  b,           result,       scalar(alpha), scalar(beta), algo[6] != 0};
  if (!has_bias(description)) product.description.bias = nullptr;
  cuda_stand_in::enqueue(stream, [=] {
    if (scratch != nullptr) std::memset(scratch, 0xff, scratch_bytes);
    if (wide)
      product.run<double>();
    else
      product.run<float>();
  });
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
