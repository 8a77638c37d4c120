// A stand-in for CUDA's libraries: device memory is host memory, NCCL's ranks are threads of one
// process. Linked instead of cudart, cuBLASLt and NCCL.
//
// It is strict where the real thing forgives by chance: nothing is done before somebody waits for
// it (or, with NCCL, streams do run apart), fresh memory is poison, messages are not buffered, an
// algorithm fits one shape and alignment only, and while no stream works, device memory can be
// closed to the host.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>

namespace cuda_stand_in {

// Streams work by themselves, as threads; otherwise only while somebody waits for them, which
// betrays whoever forgets to. Set before the first stream is made.
extern bool streams_are_threads;

// Work for a stream, in its order.
void enqueue(cudaStream_t stream, std::function<void()> work);

// GPUs that this machine pretends to have, and the memory of each.
void set_gpus(int count);
void set_memory_bytes(int64_t bytes);
// Bytes in use on all GPUs.
int64_t bytes_in_use();

// From now on, or no longer, the host may touch device memory only through the library: it dies
// if it does by itself. For one stream at a time.
void close_memory(bool closed);
// Around the work of streams that are no threads.
struct Access {
  Access();
  ~Access();
};

// NCCL's next operation of this rank of any communicator never happens: a lost rank.
void lose_rank(int rank);

}  // namespace cuda_stand_in
