// Devices and memory of the stand-in.
#include <cuda_runtime_api.h>
#include <sanitizer/asan_interface.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "tests/support/cuda/stand_in.h"

struct CUmemPoolHandle_st {
  bool makes_streams_wait = true;  // cudaMemPoolReuseAllowInternalDependencies
};

namespace {

constexpr size_t kPage = 4096;
constexpr int kPoison = 0xff;  // NaN in every floating-point type

struct Block {
  size_t bytes = 0;
  bool managed = false;
  cudaMemPool_t pool = nullptr;
  cudaStream_t stream = nullptr;  // that it was allocated on
};

size_t in_pages(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

// A range of addresses that is handed out in whole pages, and can be closed as one.
class Range {
 public:
  void* take(size_t size) {
    std::vector<std::byte*>& spare = spare_[size];
    if (spare.empty()) {
      std::byte* data = first_ + used_;
      used_ += size;
      if (used_ > kBytes) std::abort();
      return data;
    }
    std::byte* data = spare.back();
    spare.pop_back();
    ASAN_UNPOISON_MEMORY_REGION(data, size);
    return data;
  }
  void give(void* data, size_t size) { spare_[size].push_back(static_cast<std::byte*>(data)); }
  void protect(int rights) { mprotect(first_, in_pages(used_), rights); }

 private:
  static constexpr size_t kBytes = size_t{1} << 36;
  static std::byte* reserve() {
    return static_cast<std::byte*>(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  }
  std::byte* first_ = reserve();
  size_t used_ = 0;
  std::map<size_t, std::vector<std::byte*>> spare_;  // by size
};

// All device memory of the process.
struct Memory {
  std::mutex mutex;
  std::map<const std::byte*, Block> blocks;
  Range device, managed;
  int64_t in_use = 0, capacity = int64_t{1} << 30;
  int gpus = 1;
  bool closed = false;
  int working = 0;  // streams that may touch it

  void protect_if_closed() {
    if (closed) device.protect(working > 0 ? PROT_READ | PROT_WRITE : PROT_NONE);
  }
};
Memory& memory() {
  static auto* all = new Memory;
  return *all;
}

// Opens closed memory for the library's own writing.
class Opened {
 public:
  explicit Opened(Memory& m) : m_(m) {
    if (m_.working++ == 0) m_.protect_if_closed();
  }
  ~Opened() {
    if (--m_.working == 0) m_.protect_if_closed();
  }

 private:
  Memory& m_;
};

void* allocate(size_t bytes, Block block) {
  Memory& m = memory();
  const std::scoped_lock lock(m.mutex);
  if (m.in_use + static_cast<int64_t>(bytes) > m.capacity) return nullptr;
  const Opened opened(m);
  const size_t size = in_pages(bytes);
  void* data = (block.managed ? m.managed : m.device).take(size);
  std::memset(data, kPoison, bytes);
  ASAN_POISON_MEMORY_REGION(static_cast<std::byte*>(data) + bytes, size - bytes);
  block.bytes = bytes;
  m.blocks[static_cast<std::byte*>(data)] = block;
  m.in_use += static_cast<int64_t>(bytes);
  return data;
}

void release(void* data) {
  Memory& m = memory();
  const std::scoped_lock lock(m.mutex);
  const auto block = m.blocks.find(static_cast<std::byte*>(data));
  if (block == m.blocks.end()) std::abort();  // freed twice, or never allocated
  const Opened opened(m);
  const size_t bytes = block->second.bytes, size = in_pages(bytes);
  m.in_use -= static_cast<int64_t>(bytes);
  ASAN_UNPOISON_MEMORY_REGION(data, size);
  std::memset(data, kPoison, bytes);
  ASAN_POISON_MEMORY_REGION(data, size);
  (block->second.managed ? m.managed : m.device).give(data, size);
  m.blocks.erase(block);
}

// The block that holds the address; null for host memory.
const Block* find(const void* data) {
  Memory& m = memory();
  auto next = m.blocks.upper_bound(static_cast<const std::byte*>(data));
  if (next == m.blocks.begin()) return nullptr;
  --next;
  return static_cast<const std::byte*>(data) < next->first + next->second.bytes ? &next->second
                                                                                : nullptr;
}
bool on_device(const void* data) {
  const std::scoped_lock lock(memory().mutex);
  return find(data) != nullptr;
}

thread_local int current_gpu = 0;
thread_local cudaError_t last_error = cudaSuccess;

cudaError_t failed(cudaError_t error) { return last_error = error; }

}  // namespace

namespace cuda_stand_in {

void set_gpus(int count) { memory().gpus = count; }
void set_memory_bytes(int64_t bytes) { memory().capacity = bytes; }
int64_t bytes_in_use() {
  const std::scoped_lock lock(memory().mutex);
  return memory().in_use;
}
void close_memory(bool closed) {
  const std::scoped_lock lock(memory().mutex);
  memory().closed = closed;
  memory().device.protect(closed ? PROT_NONE : PROT_READ | PROT_WRITE);
}
Access::Access() {
  const std::scoped_lock lock(memory().mutex);
  if (memory().working++ == 0) memory().protect_if_closed();
}
Access::~Access() {
  const std::scoped_lock lock(memory().mutex);
  if (--memory().working == 0) memory().protect_if_closed();
}

}  // namespace cuda_stand_in

using cuda_stand_in::enqueue;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = memory().gpus;
  return *count > 0 ? cudaSuccess : failed(cudaErrorNoDevice);
}
cudaError_t cudaSetDevice(int gpu) {
  if (gpu < 0 || gpu >= memory().gpus) return failed(cudaErrorInvalidDevice);
  current_gpu = gpu;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* gpu) {
  *gpu = current_gpu;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  *value = attribute == cudaDevAttrComputeCapabilityMajor ? 9
           : attribute == cudaDevAttrMultiProcessorCount  ? 4
                                                          : 0;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  std::strcpy(properties->name, "stand-in");
  properties->major = 9;
  properties->multiProcessorCount = 4;
  properties->totalGlobalMem = static_cast<size_t>(memory().capacity);
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  const std::scoped_lock lock(memory().mutex);
  *total = static_cast<size_t>(memory().capacity);
  *free = static_cast<size_t>(memory().capacity - memory().in_use);
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
  *can = 1;
  return cudaSuccess;
}

cudaError_t cudaGetLastError(void) { return std::exchange(last_error, cudaSuccess); }
const char* cudaGetErrorString(cudaError_t) { return "an error of the stand-in"; }
const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaErrorNoDevice ? "cudaErrorNoDevice" : "cudaError";
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps*) {
  *pool = new CUmemPoolHandle_st;
  return cudaSuccess;
}
cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  delete pool;
  return cudaSuccess;
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  if (attribute == cudaMemPoolReuseAllowInternalDependencies)
    pool->makes_streams_wait = *static_cast<int*>(value) != 0;
  return cudaSuccess;
}
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, size_t) { return cudaSuccess; }
cudaError_t cudaMallocFromPoolAsync(void** data, size_t bytes, cudaMemPool_t pool,
                                    cudaStream_t stream) {
  *data = allocate(bytes, {.pool = pool, .stream = stream});
  return *data != nullptr ? cudaSuccess : failed(cudaErrorMemoryAllocation);
}
cudaError_t cudaFreeAsync(void* data, cudaStream_t stream) {
  {
    const std::scoped_lock lock(memory().mutex);
    const Block* block = find(data);
    // Whoever allocates next may wait for this stream, and hang if that waits for another rank.
    if (block != nullptr && block->stream != stream && block->pool->makes_streams_wait)
      std::abort();
  }
  enqueue(stream, [data] { release(data); });
  return cudaSuccess;
}
cudaError_t cudaMallocManaged(void** data, size_t bytes, unsigned) {
  *data = allocate(bytes, {.managed = true});
  return *data != nullptr ? cudaSuccess : failed(cudaErrorMemoryAllocation);
}
cudaError_t cudaFree(void* data) {
  release(data);
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** data, size_t bytes) {
  *data = std::malloc(bytes);
  return *data != nullptr ? cudaSuccess : failed(cudaErrorMemoryAllocation);
}
cudaError_t cudaFreeHost(void* data) {
  std::free(data);
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* data) {
  attributes->type = on_device(data) ? cudaMemoryTypeDevice : cudaMemoryTypeUnregistered;
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* dst, const void* src, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  const bool to_device = on_device(dst), from_device = on_device(src);
  const bool named_right = kind == cudaMemcpyDefault ||
                           (kind == cudaMemcpyHostToDevice && to_device && !from_device) ||
                           (kind == cudaMemcpyDeviceToHost && !to_device && from_device) ||
                           (kind == cudaMemcpyDeviceToDevice && to_device && from_device);
  if (!named_right) return failed(cudaErrorInvalidValue);
  // Nothing is read before its time. To the host it is done when the call returns.
  enqueue(stream, [=] { std::memcpy(dst, src, bytes); });
  if (!to_device) cudaStreamSynchronize(stream);
  return cudaSuccess;
}

}  // extern "C"
