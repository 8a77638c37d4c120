// What the NCCL communicators of one rank share.
#include "engine/comm/nccl/nccl_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

namespace engine {
namespace {

using Clock = std::chrono::steady_clock;

ncclConfig_t configuration() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;  // so that a lost rank does not block this one
  return config;
}

}  // namespace

void check(ncclResult_t status, const Place& where) {
  if (status == ncclSuccess || status == ncclInProgress) return;
  throw Error(ExitCode::environment, fmt::format("NCCL failed at {}:{}: {}", where.file, where.line,
                                                 ncclGetErrorString(status)));
}

NcclRanks::NcclRanks(CudaDevice& device, const NcclOptions& options)
    : device_(device), options_(options) {
  device.set_look([this](std::chrono::nanoseconds waited) { look(waited); });
}

NcclRanks::~NcclRanks() { device_.set_look(nullptr); }

std::unique_ptr<NcclChannel> NcclRanks::opened(ncclComm_t comm) {
  open_.push_back(comm);
  return std::make_unique<NcclChannel>(comm);
}

std::unique_ptr<NcclChannel> NcclRanks::connect(int size, const ncclUniqueId& id, int rank) {
  ncclComm_t comm = nullptr;
  ncclConfig_t config = configuration();
  check(ncclCommInitRankConfig(&comm, size, id, rank, &config));
  finish(comm, ncclInProgress);
  return opened(comm);
}

std::unique_ptr<NcclChannel> NcclRanks::split(NcclChannel& parent, bool alone, int colour,
                                              int key) {
  ncclComm_t comm = nullptr;
  ncclConfig_t config = configuration();
  finish(parent.comm(),
         ncclCommSplit(parent.comm(), alone ? NCCL_SPLIT_NOCOLOR : colour, key, &comm, &config));
  if (comm == nullptr) return nullptr;
  finish(comm, ncclInProgress);
  return opened(comm);
}

void NcclRanks::close(std::unique_ptr<NcclChannel> channel) {
  if (channel == nullptr) return;
  const ncclComm_t comm = channel->comm();
  const auto place = std::find(open_.begin(), open_.end(), comm);
  if (place == open_.end()) return;  // aborted
  open_.erase(place);
  if (std::uncaught_exceptions() == 0 && is_flushed(comm))
    ncclCommDestroy(comm);
  else
    ncclCommAbort(comm);
}

// Whether all operations came to their end in time. Does not throw, as it ends communicators.
bool NcclRanks::is_flushed(ncclComm_t comm) const {
  const auto start = Clock::now();
  ncclResult_t status = ncclCommFinalize(comm);
  while (status == ncclInProgress && Clock::now() - start < options_.timeout) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    if (ncclCommGetAsyncError(comm, &status) != ncclSuccess) return false;
  }
  return status == ncclSuccess;
}

void NcclRanks::look(std::chrono::nanoseconds waited) {
  if (options_.look) {
    try {
      options_.look();
    } catch (...) {
      abort_all();
      throw;
    }
  }
  for (const ncclComm_t comm : open_) {
    ncclResult_t status = ncclSuccess;
    const ncclResult_t asked = ncclCommGetAsyncError(comm, &status);
    if (asked != ncclSuccess) status = asked;
    if (status != ncclSuccess && status != ncclInProgress)
      abort(fmt::format("another rank is lost ({}); look for the rank that ended first",
                        ncclGetErrorString(status)));
  }
  if (waited > options_.timeout)
    abort(
        fmt::format("waited longer than {} s for another rank; look for the rank that hangs, or "
                    "allow more time",
                    std::chrono::duration<double>(options_.timeout).count()));
}

void NcclRanks::finish(ncclComm_t comm, ncclResult_t status) {
  check(status);
  const auto start = Clock::now();
  while (status == ncclInProgress && comm != nullptr) {
    check(ncclCommGetAsyncError(comm, &status));
    check(status);
    if (status != ncclInProgress) break;
    look(Clock::now() - start);
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

void NcclRanks::abort_all() {
  for (const ncclComm_t comm : open_) ncclCommAbort(comm);
  open_.clear();
}

void NcclRanks::abort(const std::string& why) {
  abort_all();
  throw Error(ExitCode::environment, why);
}

}  // namespace engine
