// NCCL of the stand-in: ranks are threads, and every operation waits for its peers. As in the real
// one a communicator connects at its first collective operation and at the first message of a pair:
// such a call is under way until its peers have made theirs, and none may be made meanwhile. Who
// aborts a communicator waits for what it has started, in a group for all together.
#include <nccl.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "kernels/scalar.h"
#include "tests/support/cuda/stand_in.h"

namespace {

// Operations wait for those of other ranks.
const bool kThreads = cuda_stand_in::streams_are_threads = true;

std::atomic<int> lost_rank{-1};

size_t bytes_of(ncclDataType_t type) {
  switch (type) {
    case ncclFloat64:
      return 8;
    case ncclBfloat16:
      return 2;
    case ncclUint8:
      return 1;
    default:
      return 4;
  }
}

// What one rank brings to an operation that all ranks of a communicator do together.
struct Call {
  const char* verb = nullptr;
  const void* input = nullptr;
  void* output = nullptr;
  size_t count = 0;
  ncclDataType_t type = ncclFloat32;
  int detail = 0;  // reduction, root, colour
  int key = 0;     // of a split
};

struct Aborted {};

// Who must have called before a connection stands: the ranks of a message, or all.
using Meeting = std::pair<int, int>;  // from, to
constexpr Meeting kBeginning{-1, 0}, kCollective{-1, 1};

// The ranks of one communicator.
struct Ring {
  explicit Ring(int size_)
      : size(size_), calls(static_cast<size_t>(size_)), aborted(static_cast<size_t>(size_)) {}
  int size;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Call> calls;
  int arrived = 0;
  int64_t round = 0;
  std::vector<char> aborted;  // by rank; the operations of others wait on, as the real ones
  std::map<size_t, std::shared_ptr<Ring>> children;     // of a split, by the first rank
  std::map<std::pair<int, int>, const Call*> messages;  // (from, to) under way
  std::map<Meeting, std::set<int>> callers;

  void come(const Meeting& meeting, int rank) {
    const std::scoped_lock lock(mutex);
    callers[meeting].insert(rank);
  }
  bool is_complete(const Meeting& meeting) {
    const std::scoped_lock lock(mutex);
    return callers[meeting].size() == (meeting.first < 0 ? static_cast<size_t>(size) : 2);
  }

  // Returns once every rank is here.
  void meet(std::unique_lock<std::mutex>& lock, size_t rank) {
    const int64_t mine = round;
    if (++arrived == size) {
      arrived = 0;
      ++round;
      changed.notify_all();
    }
    changed.wait(lock, [&] { return round != mine || aborted[rank]; });
    if (aborted[rank]) throw Aborted();
  }
  // Shows the call, waits for the others', lets `work` read them, and waits until all have.
  template <class Work>
  void together(int rank, const Call& call, const Work& work) {
    std::unique_lock lock(mutex);
    calls[static_cast<size_t>(rank)] = call;
    meet(lock, static_cast<size_t>(rank));
    for (const Call& other : calls)
      if (std::strcmp(other.verb, call.verb) != 0 || other.count != call.count ||
          other.type != call.type)
        std::abort();  // the real thing would hang or give wrong sums
    const auto write = work(calls);
    meet(lock, static_cast<size_t>(rank));
    write();
    meet(lock, static_cast<size_t>(rank));
  }
  void send(int from, int to, const Call& call) {
    std::unique_lock lock(mutex);
    const char& ended = aborted[static_cast<size_t>(from)];
    changed.wait(lock, [&] { return ended || messages.count({from, to}) == 0; });
    messages[{from, to}] = &call;
    changed.notify_all();
    // Not buffered: gone once it was received.
    changed.wait(lock, [&] {
      const auto it = messages.find({from, to});
      return ended || it == messages.end() || it->second != &call;
    });
    if (ended) throw Aborted();
  }
  void receive(int from, int to, const Call& call) {
    std::unique_lock lock(mutex);
    const char& ended = aborted[static_cast<size_t>(to)];
    changed.wait(lock, [&] { return ended || messages.count({from, to}) != 0; });
    if (ended) throw Aborted();
    const Call& sent = *messages[{from, to}];
    if (sent.count != call.count || sent.type != call.type) std::abort();
    std::memcpy(call.output, sent.input, call.count * bytes_of(call.type));
    messages.erase({from, to});
    changed.notify_all();
  }
};

std::mutex rings_mutex;
std::map<uint64_t, std::shared_ptr<Ring>> rings;  // by id
std::atomic<uint64_t> next_id{1};

double load(const void* data, ncclDataType_t type, size_t i) {
  switch (type) {
    case ncclFloat64:
      return static_cast<const double*>(data)[i];
    case ncclBfloat16:
      return static_cast<const kernels::bfloat16*>(data)[i];
    case ncclInt32:
      return static_cast<const int32_t*>(data)[i];
    case ncclUint8:
      return static_cast<const uint8_t*>(data)[i];
    default:
      return static_cast<const float*>(data)[i];
  }
}
void store(void* data, ncclDataType_t type, size_t i, double value) {
  switch (type) {
    case ncclFloat64:
      static_cast<double*>(data)[i] = value;
      return;
    case ncclBfloat16:
      static_cast<kernels::bfloat16*>(data)[i] = kernels::bfloat16(static_cast<float>(value));
      return;
    case ncclInt32:
      static_cast<int32_t*>(data)[i] = static_cast<int32_t>(value);
      return;
    case ncclUint8:
      static_cast<uint8_t*>(data)[i] = static_cast<uint8_t>(value);
      return;
    default:
      static_cast<float*>(data)[i] = static_cast<float>(value);
  }
}

// Not in the order of the ranks, as a ring's sums begin anywhere: from the last to the first, and
// rounded to the type at every step.
std::vector<std::byte> reduced(const std::vector<Call>& calls, size_t first, size_t count) {
  const ncclDataType_t type = calls[0].type;
  std::vector<std::byte> result(count * bytes_of(type));
  for (size_t i = 0; i < count; ++i) {
    store(result.data(), type, i, load(calls.back().input, type, first + i));
    for (size_t rank = calls.size() - 1; rank-- > 0;) {
      const double total = load(result.data(), type, i);
      const double next = load(calls[rank].input, type, first + i);
      const double sum = calls[0].detail == ncclSum     ? total + next
                         : next > total || next != next ? next
                                                        : total;
      store(result.data(), type, i, sum);
    }
  }
  return result;
}

}  // namespace

struct ncclComm {
  std::shared_ptr<Ring> ring;
  int rank = 0;
  Meeting meeting = kBeginning;  // of the last call
  std::shared_ptr<std::atomic<int>> started = std::make_shared<std::atomic<int>>(0);

  ncclComm(std::shared_ptr<Ring> ring_, int rank_) : ring(std::move(ring_)), rank(rank_) {
    ring->come(meeting, rank);
  }
  bool is_ready() const { return ring->is_complete(meeting); }
};

namespace {

thread_local int group_depth = 0;
thread_local std::vector<std::shared_ptr<std::atomic<int>>> aborted_in_group;

// On the stream's thread; a lost rank never comes.
template <class Work>
ncclResult_t enqueue(ncclComm_t comm, cudaStream_t stream, const Meeting& meeting, Work work) {
  if (comm->rank == lost_rank) return ncclSuccess;
  if (!comm->is_ready()) std::abort();  // the call before is under way
  comm->meeting = meeting;
  comm->ring->come(meeting, comm->rank);
  ++*comm->started;
  cuda_stand_in::enqueue(stream, [ring = comm->ring, started = comm->started, work] {
    try {
      work(*ring);
    } catch (const Aborted&) {}
    --*started;
    started->notify_all();
  });
  return comm->is_ready() ? ncclSuccess : ncclInProgress;
}

void wait_for_aborted() {
  for (const auto& started : std::exchange(aborted_in_group, {}))
    for (int left = *started; left != 0; left = *started) started->wait(left);
}

}  // namespace

namespace cuda_stand_in {
void lose_rank(int rank) { lost_rank = rank; }
}  // namespace cuda_stand_in

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t) { return "an error of the stand-in"; }
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const uint64_t number = next_id++;
  std::memset(id->internal, 0, sizeof id->internal);
  std::memcpy(id->internal, &number, sizeof number);
  return ncclSuccess;
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t*) {
  uint64_t number = 0;
  std::memcpy(&number, id.internal, sizeof number);
  const std::scoped_lock lock(rings_mutex);
  auto& ring = rings[number];
  if (!ring) ring = std::make_shared<Ring>(size);
  *comm = new ncclComm{ring, rank};
  return ncclInProgress;
}
ncclResult_t ncclCommSplit(ncclComm_t comm, int colour, int key, ncclComm_t* child, ncclConfig_t*) {
  const auto rank = static_cast<size_t>(comm->rank);
  std::shared_ptr<Ring> ring;
  int place = 0;
  try {
    comm->ring->together(comm->rank, {.verb = "split", .detail = colour, .key = key},
                         [&](const std::vector<Call>& calls) {
                           size_t leader = rank;
                           int size = 0;
                           for (size_t other = 0; other < calls.size(); ++other) {
                             if (calls[other].detail != colour) continue;
                             leader = std::min(leader, other);
                             place += calls[other].key < key ? 1 : 0;
                             ++size;
                           }
                           auto& made = comm->ring->children[leader];
                           if (colour >= 0 && !made) made = std::make_shared<Ring>(size);
                           ring = made;
                           return [&] { comm->ring->children.clear(); };
                         });
  } catch (const Aborted&) {
    return ncclRemoteError;
  }
  *child = colour >= 0 ? new ncclComm{ring, place} : nullptr;
  return ncclInProgress;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* status) {
  *status = comm == nullptr ? ncclInvalidArgument : comm->is_ready() ? ncclSuccess : ncclInProgress;
  return ncclSuccess;
}
ncclResult_t ncclGroupStart() {
  ++group_depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (--group_depth == 0) wait_for_aborted();
  return ncclSuccess;
}
ncclResult_t ncclCommFinalize(ncclComm_t) { return ncclSuccess; }
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  delete comm;
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  {
    const std::scoped_lock lock(comm->ring->mutex);
    comm->ring->aborted[static_cast<size_t>(comm->rank)] = 1;
  }
  comm->ring->changed.notify_all();
  aborted_in_group.push_back(comm->started);
  delete comm;
  if (group_depth == 0) wait_for_aborted();
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* input, void* output, size_t count, ncclDataType_t type,
                           ncclRedOp_t reduction, ncclComm_t comm, cudaStream_t stream) {
  return enqueue(comm, stream, kCollective, [=, rank = comm->rank](Ring& ring) {
    const Call call{"all_reduce", input, output, count, type, static_cast<int>(reduction)};
    ring.together(rank, call, [&](const std::vector<Call>& calls) {
      return [=, sum = reduced(calls, 0, count)] { std::memcpy(output, sum.data(), sum.size()); };
    });
  });
}
ncclResult_t ncclReduceScatter(const void* input, void* output, size_t count, ncclDataType_t type,
                               ncclRedOp_t reduction, ncclComm_t comm, cudaStream_t stream) {
  return enqueue(comm, stream, kCollective, [=, rank = comm->rank](Ring& ring) {
    const Call call{"reduce_scatter", input, output, count, type, static_cast<int>(reduction)};
    ring.together(rank, call, [&](const std::vector<Call>& calls) {
      return [=, sum = reduced(calls, static_cast<size_t>(rank) * count, count)] {
        std::memcpy(output, sum.data(), sum.size());
      };
    });
  });
}
ncclResult_t ncclAllGather(const void* input, void* output, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return enqueue(comm, stream, kCollective, [=, rank = comm->rank](Ring& ring) {
    const size_t bytes = count * bytes_of(type);
    ring.together(rank, {"all_gather", input, output, count, type},
                  [&](const std::vector<Call>& calls) {
                    std::vector<std::byte> whole(bytes * calls.size());
                    for (size_t other = 0; other < calls.size(); ++other)
                      std::memcpy(whole.data() + other * bytes, calls[other].input, bytes);
                    return [=] { std::memcpy(output, whole.data(), whole.size()); };
                  });
  });
}
ncclResult_t ncclBroadcast(const void* input, void* output, size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return enqueue(comm, stream, kCollective, [=, rank = comm->rank](Ring& ring) {
    const size_t bytes = count * bytes_of(type);
    ring.together(
        rank, {"broadcast", input, output, count, type, root}, [&](const std::vector<Call>& calls) {
          const auto* from = static_cast<const std::byte*>(calls[static_cast<size_t>(root)].input);
          return [=, data = std::vector<std::byte>(from, from + bytes)] {
            std::memcpy(output, data.data(), bytes);
          };
        });
  });
}
ncclResult_t ncclSend(const void* data, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return enqueue(comm, stream, {comm->rank, peer}, [=, rank = comm->rank](Ring& ring) {
    ring.send(rank, peer, {"send", data, nullptr, count, type});
  });
}
ncclResult_t ncclRecv(void* data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return enqueue(comm, stream, {peer, comm->rank}, [=, rank = comm->rank](Ring& ring) {
    ring.receive(peer, rank, {"receive", nullptr, data, count, type});
  });
}

}  // extern "C"
