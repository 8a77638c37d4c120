// Ranks as MPI processes: the only file that includes mpi.h.
#include "engine/comm/mpi/run_mpi.h"

#include <fmt/format.h>
#include <malloc.h>
#include <mpi.h>

#include <climits>
#include <cstdlib>
#include <iostream>
#include <list>
#include <thread>

#include "engine/base/errors.h"
#include "engine/comm/ordered_reduce.h"

namespace engine {
namespace {

using Clock = std::chrono::steady_clock;

// Up to this many bytes from all ranks together, a reduction gathers all data on every rank.
constexpr int64_t kSmallBytes = 64 << 10;
// Longer reductions go piece by piece, so that scratch memory stays small and in the cache.
constexpr int64_t kPieceBytes = 1 << 20;

void check(int status, const Place& where = Place::current()) {
  if (status == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(status, text, &length);
  throw Error(ExitCode::environment,
              fmt::format("MPI failed at {}:{}: {}", where.file, where.line, text));
}

MPI_Datatype type_of(Element element) {
  switch (element) {
    case Element::f32:
      return MPI_FLOAT;
    case Element::f64:
      return MPI_DOUBLE;
    case Element::bf16:
      return MPI_UINT16_T;
    case Element::i32:
      return MPI_INT32_T;
    case Element::u8:
      return MPI_BYTE;
  }
  return MPI_DATATYPE_NULL;
}

int to_int(int64_t count) {
  expect(count <= INT_MAX, "at most 2^31 - 1 elements in one MPI message");
  return static_cast<int>(count);
}

// What all communicators of this process share: how it waits, its messages under way, and scratch.
class Process {
 public:
  explicit Process(Clock::duration timeout) : timeout_(timeout) {}

  // Yields at first and then sleeps, an eighth of the time waited so far: ranks that share a core
  // leave it to those that have work.
  void wait(MPI_Request& request, const char* verb, MPI_Status* status = MPI_STATUS_IGNORE) {
    constexpr int kYields = 100;
    constexpr Clock::duration kLongestSleep = std::chrono::milliseconds(1);
    int done = 0;
    check(MPI_Test(&request, &done, status));
    if (done) return;
    const auto start = Clock::now();
    for (int turn = 0; !done; ++turn) {
      const auto waited = Clock::now() - start;
      if (timeout_.count() > 0 && waited > timeout_) throw_timeout(verb);
      if (turn < kYields)
        std::this_thread::yield();
      else
        std::this_thread::sleep_for(std::min(waited / 8, kLongestSleep));
      check(MPI_Test(&request, &done, status));
    }
  }

  void send(ConstPayload data, int to, MPI_Comm comm) {
    outgoing_.remove_if([](Outgoing& message) {
      int done = 0;
      check(MPI_Test(&message.request, &done, MPI_STATUS_IGNORE));
      return done != 0;
    });
    Outgoing& message = outgoing_.emplace_back();
    message.bytes.assign(data.at(0), data.at(data.count));
    check(MPI_Isend(message.bytes.data(), to_int(data.count), type_of(data.element), to, 0, comm,
                    &message.request));
  }

  void deliver_all() {
    for (Outgoing& message : outgoing_) wait(message.request, "send");
    outgoing_.clear();
  }

  std::byte* scratch(int64_t bytes) {
    if (static_cast<int64_t>(scratch_.size()) < bytes) scratch_.resize(static_cast<size_t>(bytes));
    return scratch_.data();
  }

 private:
  [[noreturn]] void throw_timeout(const char* verb) const {
    throw Error(ExitCode::environment,
                fmt::format("{} waited longer than {} s for another rank; look for the rank that "
                            "hangs, or allow more time",
                            verb, std::chrono::duration<double>(timeout_).count()));
  }

  struct Outgoing {
    std::vector<std::byte> bytes;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  Clock::duration timeout_;
  std::list<Outgoing> outgoing_;
  std::vector<std::byte> scratch_;
};

int rank_of(MPI_Comm comm) {
  int rank = 0;
  check(MPI_Comm_rank(comm, &rank));
  return rank;
}

int size_of(MPI_Comm comm) {
  int size = 0;
  check(MPI_Comm_size(comm, &size));
  return size;
}

class MpiCommunicator final : public Communicator {
 public:
  // Owns comm, unless it is MPI_COMM_WORLD.
  MpiCommunicator(MPI_Comm comm, std::shared_ptr<Process> process)
      : Communicator(rank_of(comm), size_of(comm)), comm_(comm), process_(std::move(process)) {}
  ~MpiCommunicator() override {
    // A failing rank must reach MPI_Abort without talking to others.
    if (comm_ != MPI_COMM_WORLD && std::uncaught_exceptions() == 0) MPI_Comm_free(&comm_);
  }

 private:
  void do_all_reduce(Payload data, Reduction reduction) override {
    if (data.bytes() * size() <= kSmallBytes) return reduce_gathered(data, reduction);
    const int64_t piece = kPieceBytes / bytes_of(data.element);
    for (int64_t first = 0; first < data.count; first += piece)
      reduce_piece(data.part(first, std::min(piece, data.count - first)), reduction);
  }

  // Every rank gathers everything and adds it up.
  void reduce_gathered(Payload data, Reduction reduction) {
    const Payload gathered(process_->scratch(data.bytes() * size()), data.count * size(),
                           data.element);
    gather(data, gathered, "all_reduce");
    reduce_parts(gathered, data, reduction);
  }

  // Every rank gathers and adds up one slice, and then shares it.
  void reduce_piece(Payload data, Reduction reduction) {
    std::vector<int> counts, places;
    for (int other = 0; other < size(); ++other) {
      const Slice slice = slice_of(data.count, size(), other);
      counts.push_back(to_int(slice.count));
      places.push_back(to_int(slice.first));
    }
    const auto me = static_cast<size_t>(rank());
    const Payload mine = data.part(places[me], counts[me]);
    exchange(data, counts, places, mine, reduction, "all_reduce");
    const MPI_Datatype type = type_of(data.element);
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Iallgatherv(MPI_IN_PLACE, 0, type, data.data, counts.data(), places.data(), type,
                          comm_, &request));
    process_->wait(request, "all_reduce");
  }

  void do_all_gather(ConstPayload shard, Payload whole) override {
    gather(shard, whole, "all_gather");
  }

  void do_reduce_scatter(ConstPayload whole, Payload shard, Reduction reduction) override {
    const int64_t piece = kPieceBytes / bytes_of(shard.element);
    for (int64_t first = 0; first < shard.count; first += piece) {
      const Payload part = shard.part(first, std::min(piece, shard.count - first));
      const std::vector<int> counts(static_cast<size_t>(size()), to_int(part.count));
      std::vector<int> places;
      for (int other = 0; other < size(); ++other)
        places.push_back(to_int(other * shard.count + first));
      exchange(whole, counts, places, part, reduction, "reduce_scatter");
    }
  }

  void do_broadcast(Payload data, int root) override {
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Ibcast(data.data, to_int(data.count), type_of(data.element), root, comm_, &request));
    process_->wait(request, "broadcast");
  }

  void do_send(ConstPayload data, int to) override { process_->send(data, to, comm_); }

  void do_receive(Payload data, int from) override {
    const MPI_Datatype type = type_of(data.element);
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Status status;
    check(MPI_Irecv(data.data, to_int(data.count), type, from, 0, comm_, &request));
    process_->wait(request, "receive", &status);
    int received = 0;
    check(MPI_Get_count(&status, type, &received));
    expect(received == data.count, fmt::format("a message of {} {}, was sent {}", data.count,
                                               name_of(data.element), received));
  }

  void do_barrier() override {
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Ibarrier(comm_, &request));
    process_->wait(request, "barrier");
  }

  std::unique_ptr<Communicator> do_split(const std::vector<int>& members, int place) override {
    barrier();  // MPI_Comm_split itself knows no timeout
    MPI_Comm group = MPI_COMM_NULL;
    check(MPI_Comm_split(comm_, members.front(), place, &group));
    auto child = std::make_unique<MpiCommunicator>(group, process_);
    expect(child->size() == static_cast<int>(members.size()) && child->rank() == place,
           "the same members on all ranks of a group");
    return child;
  }

  void gather(ConstPayload shard, Payload whole, const char* verb) {
    const MPI_Datatype type = type_of(shard.element);
    const bool in_place = shard.data == whole.at(rank() * shard.count);
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Iallgather(in_place ? MPI_IN_PLACE : shard.data, to_int(shard.count), type,
                         whole.data, to_int(shard.count), type, comm_, &request));
    process_->wait(request, verb);
  }

  // Sends every rank its part of `whole`, and reduces the parts that arrive into `mine`.
  void exchange(ConstPayload whole, const std::vector<int>& counts, const std::vector<int>& places,
                Payload mine, Reduction reduction, const char* verb) {
    const std::vector<int> arriving(counts.size(), to_int(mine.count));
    std::vector<int> arrivals;
    for (int other = 0; other < size(); ++other) arrivals.push_back(to_int(other * mine.count));
    const Payload parts(process_->scratch(mine.bytes() * size()), mine.count * size(),
                        mine.element);
    const MPI_Datatype type = type_of(mine.element);
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Ialltoallv(whole.data, counts.data(), places.data(), type, parts.data,
                         arriving.data(), arrivals.data(), type, comm_, &request));
    process_->wait(request, verb);
    reduce_parts(parts, mine, reduction);
  }

  void reduce_parts(Payload parts, Payload into, Reduction reduction) const {
    std::vector<const void*> sources;
    for (int other = 0; other < size(); ++other) sources.push_back(parts.at(other * into.count));
    reduce_in_order(sources, {&into.data, 1}, into.count, into.element, reduction);
  }

  MPI_Comm comm_;
  std::shared_ptr<Process> process_;
};

// Before MPI starts; what the user has set stays.
void prepare_process() {
  // Ranks that share a core must not spin; Open MPI knows by itself only on some launchers.
  setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
  // Freed message buffers stay with the process: giving pages back and touching fresh ones costs
  // more than sending them.
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, INT_MAX);
}

[[noreturn]] void abort_job(const MpiOptions& options, int rank, const char* cause, ExitCode code) {
  (options.errors ? *options.errors : std::cerr)
      << fmt::format("rank {}: {}\n", rank, cause) << std::flush;
  MPI_Abort(MPI_COMM_WORLD, static_cast<int>(code));
  std::abort();
}

}  // namespace

void run_mpi(const MpiOptions& options, const std::function<void(Communicator&)>& body) {
  prepare_process();
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  int rank = 0;
  try {
    rank = rank_of(MPI_COMM_WORLD);
    const auto process = std::make_shared<Process>(options.timeout);
    {
      MpiCommunicator world(MPI_COMM_WORLD, process);
      body(world);
    }
    process->deliver_all();
  } catch (const Error& error) {
    abort_job(options, rank, error.what(), error.code());
  } catch (const std::exception& error) {
    abort_job(options, rank, error.what(), ExitCode::internal);
  } catch (...) {
    abort_job(options, rank, "an exception of unknown type", ExitCode::internal);
  }
  MPI_Finalize();
}

}  // namespace engine
