// What the NCCL communicators of one rank share: the device, the deadline, and who is watched.
#pragma once
#include <nccl.h>

#include <list>
#include <memory>

#include "engine/comm/nccl/run_nccl.h"

namespace engine {

void check(ncclResult_t status, const Place& where = Place::current());

// One communicator of NCCL and the stream that its operations are on.
class NcclChannel {
 public:
  explicit NcclChannel(ncclComm_t comm) : comm_(comm) {}
  ncclComm_t comm() const { return comm_; }
  CudaStream& stream() { return stream_; }
  CudaEvent& begun() { return begun_; }
  CudaEvent& done() { return done_; }

 private:
  ncclComm_t comm_;
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
  // Checks what NCCL returned, and waits while it works on the call in the background.
  void finish(ncclComm_t comm, ncclResult_t status);

 private:
  void abort_all();
  [[noreturn]] void abort(const std::string& why);
  std::unique_ptr<NcclChannel> opened(ncclComm_t comm);
  bool is_flushed(ncclComm_t comm) const;

  CudaDevice& device_;
  NcclOptions options_;
  std::list<ncclComm_t> open_;
};

std::unique_ptr<Communicator> make_nccl_communicator(std::shared_ptr<NcclRanks> ranks, int rank,
                                                     int size, const ncclUniqueId& id);

}  // namespace engine
