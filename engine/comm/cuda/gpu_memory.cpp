// The memory of GPUs, as communicators reach it.
#include "engine/comm/cuda/gpu_memory.h"

#include <algorithm>

#include "kernels/cuda.h"

namespace engine {
namespace {

using kernels::RankBuffers;

bool is_host_memory(const void* data) {
  cudaPointerAttributes attributes{};
  check(cudaPointerGetAttributes(&attributes, data));
  return attributes.type == cudaMemoryTypeUnregistered || attributes.type == cudaMemoryTypeHost;
}

// Starts the reduction for the element's type.
void start_reduction(const RankBuffers& buffers, int64_t count, Element element, bool maximum,
                     cudaStream_t stream) {
  switch (element) {
    case Element::f32:
      return kernels::reduce_rank_buffers<float>(buffers, count, maximum, stream);
    case Element::bf16:
      return kernels::reduce_rank_buffers<kernels::bfloat16>(buffers, count, maximum, stream);
    case Element::f64:
      return kernels::reduce_rank_buffers<double>(buffers, count, maximum, stream);
    case Element::i32:
      return kernels::reduce_rank_buffers<int32_t>(buffers, count, maximum, stream);
    case Element::u8:
      return kernels::reduce_rank_buffers<uint8_t>(buffers, count, maximum, stream);
  }
}

class SharedGpuMemory final : public RankMemory {
 public:
  bool is_host(const void* data) const override { return is_host_memory(data); }
  bool in_device_order() const override { return false; }
  void copy(void* to, const void* from, int64_t bytes) const override {
    if (bytes == 0 || to == from) return;
    check(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDefault, stream()));
    finish();
  }
  void reduce(std::span<const void* const> sources, std::span<void* const> targets, int64_t count,
              Element element, Reduction reduction) const override {
    if (std::all_of(sources.begin(), sources.end(), is_host_memory))
      return host_memory()->reduce(sources, targets, count, element, reduction);
    if (std::max(sources.size(), targets.size()) > RankBuffers::kMost)
      throw Error(ExitCode::environment,
                  "more than 64 thread ranks cannot share a GPU; use more GPUs");
    if (count == 0) return;
    RankBuffers buffers;
    std::copy(sources.begin(), sources.end(), buffers.sources);
    std::copy(targets.begin(), targets.end(), buffers.targets);
    buffers.source_count = static_cast<int>(sources.size());
    buffers.target_count = static_cast<int>(targets.size());
    start_reduction(buffers, count, element, reduction == Reduction::max, stream());
    finish();
  }
  void make_up(Payload, uint32_t) const override { fail_expectation("no phantoms among threads"); }

 private:
  // Each thread's own, so that ranks do not wait for each other's work.
  static cudaStream_t stream() { return cudaStreamPerThread; }
  static void finish() { check(cudaStreamSynchronize(stream())); }
};

class OrderedGpuMemory final : public RankMemory {
 public:
  explicit OrderedGpuMemory(CudaDevice& device) : device_(device) {}
  bool is_host(const void* data) const override { return is_host_memory(data); }
  bool in_device_order() const override { return true; }
  void copy(void* to, const void* from, int64_t bytes) const override {
    device_.copy(to, from, bytes);
  }
  void reduce(std::span<const void* const>, std::span<void* const>, int64_t, Element,
              Reduction) const override {
    fail_expectation("a rank that is alone does not reduce");
  }
  void make_up(Payload data, uint32_t key) const override {
    if (is_host(data.data)) return host_memory()->make_up(data, key);
    const auto type = type_of(data.element);
    const View values(data.data, type, 1, data.count);
    if (type == DType::i32) return device_.kernels().fill(values, key & 1U);
    const kernels::Stream stream = kernels::make_stream(key, kernels::Purpose::phantom, 0, 0);
    device_.kernels().fill_normal(values, 1, stream, {}, 0);
  }

 private:
  static DType type_of(Element element) {
    switch (element) {
      case Element::f32:
        return DType::f32;
      case Element::bf16:
        return DType::bf16;
      case Element::f64:
        return DType::f64;
      case Element::i32:
        return DType::i32;
      case Element::u8:
        break;
    }
    fail_expectation("made-up bytes stay on the host");
  }
  CudaDevice& device_;
};

}  // namespace

std::shared_ptr<const RankMemory> shared_gpu_memory() {
  return std::make_shared<SharedGpuMemory>();
}

std::shared_ptr<const RankMemory> ordered_gpu_memory(CudaDevice& device) {
  return std::make_shared<OrderedGpuMemory>(device);
}

}  // namespace engine
