// A GPU as a device: memory from a pool in the order of its stream, products by cuBLASLt.
#include "engine/device/cuda/cuda_device.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/device/cuda/cublas.h"
#include "kernels/cuda.h"

namespace engine {
namespace {

constexpr int kOldestCapability = 8;

bool is_usable(int gpu) {
  int major = 0;
  return cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, gpu) == cudaSuccess &&
         major >= kOldestCapability;
}

// Makes the GPU the thread's before anything is created on it.
int select_gpu(int gpu) {
  const int usable = cuda_gpus();
  if (gpu >= usable)
    throw Error(ExitCode::environment,
                usable == 0 ? "there is no usable GPU: neither driver nor GPU, or one older than "
                              "compute capability 8.0; `autotune doctor` tells which"
                            : fmt::format("GPU {} is wanted, but there are {}", gpu, usable));
  check(cudaSetDevice(gpu));
  return gpu;
}

cudaMemPool_t make_pool(int gpu) {
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.handleTypes = cudaMemHandleTypeNone;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = gpu;
  cudaMemPool_t pool = nullptr;
  check(cudaMemPoolCreate(&pool, &properties));
  // What is freed stays for the next allocation, also over a synchronisation.
  uint64_t keep = UINT64_MAX;
  check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
  // Or, short of memory, the device would wait for what another stream frees: for a message that
  // its receiver may ask for only behind one of ours.
  int allowed = 0;
  check(cudaMemPoolSetAttribute(pool, cudaMemPoolReuseAllowInternalDependencies, &allowed));
  return pool;
}

int64_t free_bytes() {
  size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total));
  return static_cast<int64_t>(free);
}

std::string describe_gpu(int gpu) {
  cudaDeviceProp properties = {};
  check(cudaGetDeviceProperties(&properties, gpu));
  return fmt::format("{} (GPU {})", properties.name, gpu);
}

// Times phases by events: the host does not wait before the end.
class CudaClock final : public DeviceClock {
 public:
  explicit CudaClock(CudaStream& stream) : stream_(stream) {}
  void mark() override {
    if (used_ == events_.size()) events_.push_back(std::make_unique<CudaEvent>(true));
    stream_.record(*events_[used_++]);
  }
  std::vector<double> read() override {
    std::vector<double> seconds;
    for (size_t i = 1; i < used_; ++i)
      seconds.push_back(events_[i]->seconds_since(*events_[i - 1]));
    used_ = 0;
    return seconds;
  }

 private:
  CudaStream& stream_;
  std::vector<std::unique_ptr<CudaEvent>> events_;
  size_t used_ = 0;
};

}  // namespace

int cuda_gpus() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    cudaGetLastError();
    return 0;
  }
  int usable = 0;
  while (usable < count && is_usable(usable)) ++usable;
  return usable;
}

CudaDevice::CudaDevice(int gpu, int sharers)
    : gpu_(select_gpu(gpu)),
      description_(describe_gpu(gpu)),
      pool_(make_pool(gpu)),
      kernels_(kernels::make_cuda_kernels(stream_.get(),
                                          [this](int64_t bytes) { return scratch(bytes); })),
      products_(std::make_unique<CublasProducts>(*this)) {
  expect(sharers > 0, "at least one rank uses a GPU");
  Device::set_capacity(free_bytes() / sharers);
}

CudaDevice::~CudaDevice() {
  cudaStreamSynchronize(stream_.get());
  products_.reset();
  scratch_.reset();
  cudaMemPoolDestroy(pool_);
}

void* CudaDevice::scratch(int64_t bytes) {
  if (scratch_.bytes() < bytes) scratch_ = Buffer(*this, bytes, MemoryUse::workspace);
  return scratch_.data();
}

void CudaDevice::set_capacity(int64_t bytes) { Device::set_capacity(std::min(capacity(), bytes)); }

void CudaDevice::copy_to_device(void* dst, const void* src, int64_t bytes) {
  if (bytes == 0) return;
  if (bytes <= HostStaging::kMostBytes) return staging_.copy(dst, src, bytes, stream_, look_);
  check(
      cudaMemcpyAsync(dst, src, static_cast<size_t>(bytes), cudaMemcpyHostToDevice, stream_.get()));
  synchronize();  // `src` need not be read before
}

void CudaDevice::copy_to_host(void* dst, const void* src, int64_t bytes) {
  // Waiting first lets a lost rank be noticed: the copy itself would wait for ever.
  if (look_) synchronize();
  if (bytes == 0) return;
  check(
      cudaMemcpyAsync(dst, src, static_cast<size_t>(bytes), cudaMemcpyDeviceToHost, stream_.get()));
  check(cudaStreamSynchronize(stream_.get()));
}

void CudaDevice::copy(void* dst, const void* src, int64_t bytes) {
  if (bytes == 0 || dst == src) return;
  check(cudaMemcpyAsync(dst, src, static_cast<size_t>(bytes), cudaMemcpyDefault, stream_.get()));
}

std::unique_ptr<DeviceClock> CudaDevice::make_clock() {
  return std::make_unique<CudaClock>(stream_);
}

void* CudaDevice::take(int64_t bytes) {
  const auto size = static_cast<size_t>(std::max<int64_t>(bytes, 1));
  void* data = nullptr;
  if (cudaMallocFromPoolAsync(&data, size, pool_, stream_.get()) == cudaSuccess) return data;
  // What is free lies in pieces, or is not free before the work so far is done.
  cudaGetLastError();
  synchronize();
  check(cudaMemPoolTrimTo(pool_, 0));
  check(cudaMallocFromPoolAsync(&data, size, pool_, stream_.get()));
  return data;
}

void CudaDevice::give_back(void* data, int64_t) noexcept { cudaFreeAsync(data, stream_.get()); }

void CudaDevice::multiply(const Matmul& product) { products_->run(product); }

}  // namespace engine
