// Ranks with a GPU each, which talk through NCCL.
#pragma once
#include <chrono>
#include <functional>
#include <string>

#include "engine/comm/communicator.h"
#include "engine/device/cuda/cuda_device.h"

namespace engine {

struct NcclOptions {
  // How long a rank waits for others before it throws Error (environment).
  std::chrono::nanoseconds timeout = std::chrono::minutes(10);
  // Called while it waits; throws where it is known in another way that a rank is lost.
  std::function<void()> look = nullptr;
};

// Runs body as one of the ranks that `others` connects (threads or processes), which all call this;
// NCCL gets to know them through it. Reductions combine in NCCL's order: equal on all ranks, but
// not bit by bit those of other kinds of rank, and sums of bf16 may be rounded more than once.
// Verbs are enqueued in the order of the device's work and return at once; payloads in host memory
// are passed through the device, and waited for. Each communicator has streams of its own, so that
// traffic of different axes and computing overlap. Messages to higher ranks wait for each other,
// and so do those to lower ranks, but not for anything else: enough for pipelines, whose ranks send
// to their neighbours, and not for ranks that send to several before they receive. The first verb
// of a communicator connects all its ranks, the first message its two, for which the host waits:
// when both send first, at the second message. A rank that waits notices lost ranks and the
// timeout, aborts its communicators and throws.
void run_nccl(CudaDevice& device, Communicator& others, const NcclOptions& options,
              const std::function<void(Communicator&)>& body);

// The same for processes that share a file system and nothing else. `path` must not exist before
// the run; it is removed at the start of the run proper.
void run_nccl(CudaDevice& device, int rank, int size, const std::string& path,
              const NcclOptions& options, const std::function<void(Communicator&)>& body);

std::string nccl_version();  // as in "2.28.9"

}  // namespace engine
