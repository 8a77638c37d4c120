// What the NCCL communicators of one rank share.
#include "engine/comm/nccl/nccl_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

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

NcclRanks::~NcclRanks() {
  device_.set_look(nullptr);
  if (!open_.empty()) abort_all();  // not all were made
}

std::unique_ptr<NcclChannel> NcclRanks::opened(ncclComm_t comm) {
  open_.push_back(comm);  // at once, so that it is ended with the others if the rest do not come
  finish(comm);
  return std::make_unique<NcclChannel>(comm);
}

std::unique_ptr<NcclChannel> NcclRanks::connect(int size, const ncclUniqueId& id, int rank) {
  ncclComm_t comm = nullptr;
  ncclConfig_t config = configuration();
  check(ncclCommInitRankConfig(&comm, size, id, rank, &config));
  return opened(comm);
}

std::unique_ptr<NcclChannel> NcclRanks::split(NcclChannel& parent, bool alone, int colour,
                                              int key) {
  ncclComm_t comm = nullptr;
  ncclConfig_t config = configuration();
  check(ncclCommSplit(parent.comm(), alone ? NCCL_SPLIT_NOCOLOR : colour, key, &comm, &config));
  finish(parent.comm());
  return comm == nullptr ? nullptr : opened(comm);
}

void NcclRanks::close(std::unique_ptr<NcclChannel> channel) {
  if (channel == nullptr) return;
  const ncclComm_t comm = channel->comm();
  const auto place = std::find(open_.begin(), open_.end(), comm);
  if (place == open_.end()) return;  // aborted
  if (std::uncaught_exceptions() > 0 || !is_flushed(*channel)) return abort_all();
  open_.erase(place);
  ncclCommDestroy(comm);
}

// Whether all operations came to their end in time. Does not throw, as it ends communicators.
bool NcclRanks::is_flushed(NcclChannel& channel) const {
  const auto start = Clock::now();
  const auto succeeds = [&](ncclResult_t status) {
    while (status == ncclInProgress && Clock::now() - start < options_.timeout) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      if (ncclCommGetAsyncError(channel.comm(), &status) != ncclSuccess) return false;
    }
    return status == ncclSuccess;
  };
  return succeeds(ncclInProgress) && succeeds(ncclCommFinalize(channel.comm()));
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

void NcclRanks::settle(NcclChannel& channel) {
  finish(channel.comm());
  channel.free_message();
}

// A thread of NCCL starts every operation, so it is soon done.
void NcclRanks::finish(ncclComm_t comm) {
  const auto is_done = [&] {
    ncclResult_t status = ncclSuccess;
    check(ncclCommGetAsyncError(comm, &status));
    check(status);
    return status != ncclInProgress;
  };
  wait_until(is_done, [this](std::chrono::nanoseconds waited) { look(waited); });
}

// In one group: an operation that waits for one of another communicator could not end before that.
void NcclRanks::abort_all() {
  ncclGroupStart();
  for (const ncclComm_t comm : std::exchange(open_, {})) ncclCommAbort(comm);
  ncclGroupEnd();
}

void NcclRanks::abort(const std::string& why) {
  abort_all();
  throw Error(ExitCode::environment, why);
}

}  // namespace engine
