// Ranks as threads: collectives read and write the memory of all ranks between two barriers.
#include "engine/comm/local_communicator.h"

#include <fmt/format.h>

#include <cstring>
#include <numeric>
#include <thread>

#include "engine/base/errors.h"
#include "engine/comm/local_mailbox.h"
#include "engine/comm/local_run.h"
#include "engine/comm/ordered_reduce.h"

namespace engine {
namespace {

// Payloads in host memory up to this size are copied when a rank arrives, so that it may leave
// without waiting for the others to read: waking threads costs more than copying.
constexpr int64_t kSmallBytes = 4096;

// What a rank brings to a collective. All but the memory must be equal on all ranks.
struct Call {
  const char* verb = "";
  const void* data = nullptr;
  int64_t count = 0;
  Element element = Element::f32;
  int detail = 0;     // the reduction or the root
  bool small = true;  // and in host memory

  explicit Call(const char* verb_) : verb(verb_) {}
  Call(const char* verb_, ConstPayload payload, const RankMemory& memory, int detail_ = 0)
      : verb(verb_),
        data(payload.data),
        count(payload.count),
        element(payload.element),
        detail(detail_),
        small(payload.bytes() <= kSmallBytes && memory.is_host(payload.data)) {}
  bool agrees(const Call& other) const {
    return std::strcmp(verb, other.verb) == 0 && count == other.count && element == other.element &&
           detail == other.detail && small == other.small;
  }
  std::string text() const {
    return fmt::format("{} of {} {} ({})", verb, count, name_of(element), detail);
  }
};

[[noreturn]] void throw_mismatch(int rank, const Call& call, int other, const Call& theirs) {
  throw std::logic_error(fmt::format("the ranks call different collectives: rank {} {}, rank {} {}",
                                     rank, call.text(), other, theirs.text()));
}

// What the ranks of one communicator share.
class Hub {
 public:
  Hub(LocalRun& run, std::vector<int> run_ranks, std::shared_ptr<const RankMemory> memory)
      : run_(run),
        memory_(std::move(memory)),
        run_ranks_(std::move(run_ranks)),
        seats_(run_ranks_.size() * 2),
        mailboxes_(run_ranks_.size() * run_ranks_.size()) {}

  int size() const { return static_cast<int>(run_ranks_.size()); }
  int run_rank(int rank) const { return run_ranks_[static_cast<size_t>(rank)]; }
  LocalRun& run() const { return run_; }
  const std::shared_ptr<const RankMemory>& memory() const { return memory_; }
  LocalMailbox& mailbox(int from, int to) {
    return mailboxes_[static_cast<size_t>(from * size() + to)];
  }

  // What every rank brought to one collective.
  struct Seat {
    Call call{""};
    std::vector<std::byte> copy;  // of a small payload
    std::shared_ptr<Hub> child;   // of the group that this rank leads, in a split
  };
  class Table {
   public:
    Table(Hub& hub, int64_t meeting) : first_(&hub.seats_[(meeting & 1) * hub.run_ranks_.size()]) {}
    Seat& operator[](int rank) const { return first_[rank]; }
    const void* data(int rank) const { return first_[rank].call.data; }

   private:
    Seat* first_;
  };

  // Shows the call to all ranks and returns once theirs are here. The memory of a small call stays
  // readable until this rank's next meeting, other memory until it calls wait_for_all.
  Table meet(int rank, const Call& call, std::shared_ptr<Hub> child = nullptr) {
    // Seats alternate: whoever is already at the next meeting leaves the seats of this one alone.
    const Table table(*this, generation_.load());
    Seat& seat = table[rank];
    seat.call = call;
    seat.child = std::move(child);
    if (call.small && call.count > 0) {
      const auto* from = static_cast<const std::byte*>(call.data);
      seat.copy.assign(from, from + call.count * bytes_of(call.element));
      seat.call.data = seat.copy.data();
    }
    wait_for_all(rank);
    for (int other = 0; other < size(); ++other)
      if (!call.agrees(table[other].call)) throw_mismatch(rank, call, other, table[other].call);
    return table;
  }

  void wait_for_all(int rank) {
    const int64_t generation = generation_.load();
    if (arrived_.fetch_add(1) + 1 < size())
      return run_.sleep_until(run_rank(rank), [&] { return generation_.load() != generation; });
    arrived_ = 0;
    ++generation_;
    for (int other = 0; other < size(); ++other)
      if (other != rank) run_.wake(run_rank(other));
  }

 private:
  LocalRun& run_;
  std::shared_ptr<const RankMemory> memory_;
  std::vector<int> run_ranks_;
  std::vector<Seat> seats_;  // two tables
  std::vector<LocalMailbox> mailboxes_;
  std::atomic<int> arrived_{0};
  std::atomic<int64_t> generation_{0};
};

class LocalCommunicator final : public Communicator {
 public:
  LocalCommunicator(std::shared_ptr<Hub> hub, int rank)
      : Communicator(rank, hub->size(), hub->memory()), hub_(std::move(hub)) {}

  void check_ranks() const override { hub_->run().check(); }

 private:
  void do_all_reduce(Payload data, Reduction reduction) override {
    const Call call("all_reduce", data, memory(), static_cast<int>(reduction));
    const auto table = hub_->meet(rank(), call);
    if (call.small)
      return memory().reduce(everyones<const void>(table, data, 0), {&data.data, 1}, data.count,
                             data.element, reduction);
    // Every rank reduces one slice, and writes it to all.
    const Slice slice = slice_of(data.count, size(), rank());
    const auto all = everyones<void>(table, data, slice.first);
    memory().reduce({all.data(), all.size()}, all, slice.count, data.element, reduction);
    hub_->wait_for_all(rank());
  }

  void do_all_gather(ConstPayload shard, Payload whole) override {
    const Call call("all_gather", shard, memory());
    const auto table = hub_->meet(rank(), call);
    for (int turn = 0; turn < size(); ++turn) {
      const int other = (rank() + turn) % size();  // so that ranks do not all read the same shard
      const void* from = table.data(other);
      void* to = whole.at(other * shard.count);
      if (from != to) memory().copy(to, from, shard.bytes());
    }
    if (!call.small) hub_->wait_for_all(rank());
  }

  void do_reduce_scatter(ConstPayload whole, Payload shard, Reduction reduction) override {
    const Call call("reduce_scatter", whole, memory(), static_cast<int>(reduction));
    const auto table = hub_->meet(rank(), call);
    memory().reduce(everyones<const void>(table, whole, rank() * shard.count), {&shard.data, 1},
                    shard.count, whole.element, reduction);
    if (!call.small) hub_->wait_for_all(rank());
  }

  void do_broadcast(Payload data, int root) override {
    const Call call("broadcast", data, memory(), root);
    const auto table = hub_->meet(rank(), call);
    if (rank() != root) memory().copy(data.data, table.data(root), data.bytes());
    if (!call.small) hub_->wait_for_all(rank());
  }

  void do_send(ConstPayload data, int to) override {
    hub_->mailbox(rank(), to).send(data, memory());
    hub_->run().wake(hub_->run_rank(to));
  }

  void do_receive(Payload data, int from) override {
    hub_->mailbox(from, rank()).receive(data, memory(), hub_->run(), hub_->run_rank(rank()));
  }

  void do_barrier() override { hub_->meet(rank(), Call("barrier")); }

  std::unique_ptr<Communicator> do_split(const std::vector<int>& members, int place) override {
    const int leader = members.front();
    std::shared_ptr<Hub> mine;
    if (rank() == leader) {
      std::vector<int> run_ranks;
      for (const int member : members) run_ranks.push_back(hub_->run_rank(member));
      mine = std::make_shared<Hub>(hub_->run(), std::move(run_ranks), hub_->memory());
    }
    const auto table = hub_->meet(rank(), Call("split"), std::move(mine));
    auto child = table[leader].child;
    expect(child && child->size() == static_cast<int>(members.size()) &&
               child->run_rank(place) == hub_->run_rank(rank()),
           "the same members on all ranks of a group");
    return std::make_unique<LocalCommunicator>(std::move(child), place);
  }

  // The address of element `first` in the memory of every rank.
  template <class Memory>
  std::vector<Memory*> everyones(const Hub::Table& table, ConstPayload data, int64_t first) const {
    using Bytes = std::conditional_t<std::is_const_v<Memory>, const std::byte, std::byte>;
    std::vector<Memory*> all;
    for (int other = 0; other < size(); ++other)
      all.push_back(static_cast<Bytes*>(const_cast<Memory*>(table.data(other))) +
                    first * bytes_of(data.element));
    return all;
  }

  std::shared_ptr<Hub> hub_;
};

void run_rank(LocalRun& run, const std::shared_ptr<Hub>& hub, int rank,
              const std::function<void(Communicator&)>& body) {
  try {
    LocalCommunicator communicator(hub, rank);
    body(communicator);
  } catch (...) {
    run.fail(std::current_exception());
  }
}

}  // namespace

void run_local(int size, const std::function<void(Communicator&)>& body,
               const std::shared_ptr<const RankMemory>& memory) {
  expect(size > 0, "at least one rank");
  LocalRun run(size);
  std::vector<int> ranks(static_cast<size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  const auto hub = std::make_shared<Hub>(run, ranks, memory);
  {
    std::vector<std::jthread> threads;
    try {
      for (const int rank : ranks)
        threads.emplace_back([&run, &hub, &body, rank] { run_rank(run, hub, rank, body); });
    } catch (...) {
      run.fail(std::current_exception());
    }
  }
  if (run.cause()) std::rethrow_exception(run.cause());
}

}  // namespace engine
