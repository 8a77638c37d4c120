// TensorSlice: a rectangle of a stored tensor, and its elements between a file and memory.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "engine/checkpoint/safetensors.h"
#include "kernels/view.h"

namespace engine {

// What a rank holds of a matrix [out, in] (a vector is one row), wherever and however a checkpoint
// stores that. Rows behind the stored ones pad a vocabulary: they read as zero and are not written.
struct TensorSlice {
  std::string name;
  std::vector<int64_t> shape;  // of the whole tensor, as stored
  bool transposed = false;     // stored as [in, out]
  int64_t first_row = 0;       // of the slice, counted in [out, in]
  int64_t first_column = 0;
  int64_t rows = 1;
  int64_t columns = 0;

  int64_t elements() const { return rows * columns; }
};

// Elements [first, first + count) of a slice in row-major order.
struct ElementRange {
  int64_t first = 0;
  int64_t count = 0;
};

// Fills `out`, which has as many elements as the range and is f32, bf16 or f64; converts from f64,
// f32, f16 and bf16. `stored` holds the whole tensor. Only the slice's bytes are touched.
void read_slice(const TensorSlice& slice, ElementRange range, const std::byte* stored,
                StorageType type, kernels::View out);

// Called with bytes to store at a byte offset within the tensor.
using StoreBytes = std::function<void(int64_t offset, std::span<const std::byte> bytes)>;

// The reverse: hands out the range's elements as f64, f32 or bf16, in runs that lie together.
void write_slice(const TensorSlice& slice, ElementRange range, kernels::ConstView data,
                 StorageType type, const StoreBytes& store);

}  // namespace engine
