// What the NCCL communicators of one rank share: the device, the deadline, and who is watched.
#pragma once
#include <nccl.h>

#include <list>
#include <memory>
#include <utility>

#include "engine/comm/nccl/run_nccl.h"

namespace engine {

void check(ncclResult_t status, const Place& where = Place::current());

// One communicator of NCCL and the stream that its operations are on.
class NcclChannel {
 public:
  explicit NcclChannel(ncclComm_t comm) : comm_(comm) {}
  ~NcclChannel() { free_message(); }
  NcclChannel(const NcclChannel&) = delete;
  NcclChannel& operator=(const NcclChannel&) = delete;
  ncclComm_t comm() const { return comm_; }
  CudaStream& stream() { return stream_; }
  CudaEvent& begun() { return begun_; }
  CudaEvent& done() { return done_; }
  // Memory of the device's pool that the last operation sends. It is freed in the stream's order,
  // and so not before the operation is there.
  void keep_message(void* message) { message_ = message; }
  void free_message() {
    if (message_ != nullptr) cudaFreeAsync(std::exchange(message_, nullptr), stream_.get());
  }

 private:
  ncclComm_t comm_;
  void* message_ = nullptr;
  CudaStream stream_{true};  // or its blocks would wait until a large product has no more
  CudaEvent begun_, done_;
};

class NcclRanks {
 public:
  NcclRanks(CudaDevice& device, const NcclOptions& options);
  ~NcclRanks();
  NcclRanks(const NcclRanks&) = delete;
  NcclRanks& operator=(const NcclRanks&) = delete;

  CudaDevice& device() { return device_; }

  std::unique_ptr<NcclChannel> connect(int size, const ncclUniqueId& id, int rank);
  // The group of ranks that give the same colour, in the order of their keys. Every rank of the
  // channel calls it; a rank that is to be alone gets null.
  std::unique_ptr<NcclChannel> split(NcclChannel& parent, bool alone, int colour, int key);
  // Ends it behind its last operation; when the rank fails, at once.
  void close(std::unique_ptr<NcclChannel> channel);

  // Throws Error (environment), everything aborted, when another rank is lost or `waited` exceeds
  // the timeout.
  void look(std::chrono::nanoseconds waited);
  // Returns once the channel's last operation is on its stream, and another can follow. For the
  // first message of two ranks that takes until both have called.
  void settle(NcclChannel& channel);

 private:
  void abort_all();
  [[noreturn]] void abort(const std::string& why);
  std::unique_ptr<NcclChannel> opened(ncclComm_t comm);
  // Waits while NCCL works on the last call in the background.
  void finish(ncclComm_t comm);
  bool is_flushed(NcclChannel& channel) const;

  CudaDevice& device_;
  NcclOptions options_;
  std::list<ncclComm_t> open_;
};

std::unique_ptr<Communicator> make_nccl_communicator(std::shared_ptr<NcclRanks> ranks, int rank,
                                                     int size, const ncclUniqueId& id);

}  // namespace engine
