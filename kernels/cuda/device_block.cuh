// ThreadBlock of a GPU, and the launch of a kernel's blocks.
#pragma once
#include <cuda_runtime.h>

#include "kernels/cuda/block.h"
#include "kernels/cuda/launch_blocks.cuh"

namespace kernels::cuda {

// The grid has one axis: kernels split its index themselves.
class DeviceBlock {
 public:
  __device__ __forceinline__ int64_t index() const { return blockIdx.x; }
  __device__ __forceinline__ int thread() const { return static_cast<int>(threadIdx.x); }
  __device__ __forceinline__ std::byte* shared() const {
    extern __shared__ __align__(128) std::byte memory[];
    return memory;
  }
  __device__ __forceinline__ void sync() const { __syncthreads(); }
  __device__ __forceinline__ void sync_warp() const { __syncwarp(); }
  __device__ __forceinline__ float shuffle_xor(float x, int mask) const {
    return __shfl_xor_sync(0xffffffffu, x, mask);
  }
  __device__ __forceinline__ float power_of_two(float x) const {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
  }

  template <int kBytes>
  __device__ __forceinline__ void copy_async(uint32_t offset, const void* global,
                                             bool present) const {
    const int bytes = present ? kBytes : 0;  // the rest is filled with zeros
    if constexpr (kBytes == 16)
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address(offset)),
                   "l"(global), "r"(bytes)
                   : "memory");
    else
      asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(address(offset)),
                   "l"(global), "r"(bytes)
                   : "memory");
  }
  __device__ __forceinline__ void commit_copies() const {
    asm volatile("cp.async.commit_group;" ::: "memory");
  }
  template <int kPending>
  __device__ __forceinline__ void wait_copies() const {
    asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
  }

  __device__ __forceinline__ Fragment load_matrices(uint32_t offset) const {
    Fragment f;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(f.r[0]), "=r"(f.r[1]), "=r"(f.r[2]), "=r"(f.r[3])
                 : "r"(address(offset))
                 : "memory");
    return f;
  }
  __device__ __forceinline__ Fragment load_matrices_transposed(uint32_t offset) const {
    Fragment f;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(f.r[0]), "=r"(f.r[1]), "=r"(f.r[2]), "=r"(f.r[3])
                 : "r"(address(offset))
                 : "memory");
    return f;
  }
  __device__ __forceinline__ void multiply_add(float (&sum)[4], const Fragment& left, uint32_t b0,
                                               uint32_t b1) const {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(left.r[0]), "r"(left.r[1]), "r"(left.r[2]), "r"(left.r[3]), "r"(b0), "r"(b1));
  }

 private:
  __device__ __forceinline__ uint32_t address(uint32_t offset) const {
    return static_cast<uint32_t>(__cvta_generic_to_shared(shared())) + offset;
  }
};
static_assert(ThreadBlock<DeviceBlock>);

template <class Kernel>
__global__ void __launch_bounds__(Kernel::kThreads, Kernel::kBlocks)
    run_block(const Kernel kernel) {
  kernel(DeviceBlock{});
}

template <class Kernel>
void launch_blocks(cudaStream_t stream, int64_t count, const Kernel& kernel) {
  // More must be asked for, on every device. Always the same: other threads launch the kernel, too.
  constexpr int64_t kFreeBytes = 48 << 10;
  const int64_t shared = kernel.shared_bytes();
  if (shared > kFreeBytes &&
      cudaFuncSetAttribute(run_block<Kernel>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           kMostSharedBytes) != cudaSuccess)
    return;
  run_block<<<static_cast<unsigned>(count), Kernel::kThreads, static_cast<size_t>(shared),
              stream>>>(kernel);
}

}  // namespace kernels::cuda
