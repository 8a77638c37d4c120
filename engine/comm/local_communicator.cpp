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

// What a rank brings to a collective. All but the memory must be equal on all ranks.
struct Call {
  const char* verb = "";
  void* data = nullptr;
  int64_t count = 0;
  Element element = Element::f32;
  int detail = 0;  // the reduction or the root

  bool agrees(const Call& other) const {
    return std::strcmp(verb, other.verb) == 0 && count == other.count && element == other.element &&
           detail == other.detail;
  }
  std::string text() const {
    return fmt::format("{} of {} {} ({})", verb, count, name_of(element), detail);
  }
};

// What the ranks of one communicator share.
class Hub {
 public:
  Hub(LocalRun& run, std::vector<int> run_ranks)
      : run_(run),
        run_ranks_(std::move(run_ranks)),
        seats_(run_ranks_.size()),
        mailboxes_(run_ranks_.size() * run_ranks_.size()) {}

  int size() const { return static_cast<int>(seats_.size()); }
  int run_rank(int rank) const { return run_ranks_[static_cast<size_t>(rank)]; }
  LocalRun& run() const { return run_; }
  const Call& call(int rank) const { return seats_[static_cast<size_t>(rank)].call; }
  std::shared_ptr<Hub>& child(int rank) { return seats_[static_cast<size_t>(rank)].child; }
  LocalMailbox& mailbox(int from, int to) {
    return mailboxes_[static_cast<size_t>(from * size() + to)];
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

  // Shows the call to all ranks and returns once theirs are here. Every rank checks, and may use
  // the others' memory until it calls wait_for_all.
  void meet(int rank, const Call& call) {
    seats_[static_cast<size_t>(rank)].call = call;
    wait_for_all(rank);
    for (int other = 0; other < size(); ++other)
      expect(call.agrees(this->call(other)),
             fmt::format("the same collective on all ranks; rank {} calls {}, rank {} calls {}",
                         rank, call.text(), other, this->call(other).text()));
  }

 private:
  struct alignas(64) Seat {
    Call call;
    std::shared_ptr<Hub> child;  // of the group that this rank leads, during a split
  };
  LocalRun& run_;
  std::vector<int> run_ranks_;
  std::vector<Seat> seats_;
  std::vector<LocalMailbox> mailboxes_;
  std::atomic<int> arrived_{0};
  std::atomic<int64_t> generation_{0};
};

class LocalCommunicator final : public Communicator {
 public:
  LocalCommunicator(std::shared_ptr<Hub> hub, int rank)
      : Communicator(rank, hub->size()), hub_(std::move(hub)) {}

 private:
  // Every rank reduces one slice, and writes it to all.
  void do_all_reduce(Payload data, Reduction reduction) override {
    hub_->meet(rank(), call("all_reduce", data, static_cast<int>(reduction)));
    const Slice slice = slice_of(data.count, size(), rank());
    const auto all = everyones(data.element, slice.first);
    reduce_in_order({all.data(), all.size()}, all, slice.count, data.element, reduction);
    hub_->wait_for_all(rank());
  }

  void do_all_gather(ConstPayload shard, Payload whole) override {
    hub_->meet(rank(), call("all_gather", shard, 0));
    for (int turn = 0; turn < size(); ++turn) {
      const int other = (rank() + turn) % size();  // so that ranks do not all read the same shard
      const void* from = hub_->call(other).data;
      void* to = whole.at(other * shard.count);
      if (from != to) std::memcpy(to, from, static_cast<size_t>(shard.bytes()));
    }
    hub_->wait_for_all(rank());
  }

  void do_reduce_scatter(ConstPayload whole, Payload shard, Reduction reduction) override {
    hub_->meet(rank(), call("reduce_scatter", whole, static_cast<int>(reduction)));
    const auto all = everyones(whole.element, rank() * shard.count);
    reduce_in_order({all.data(), all.size()}, {&shard.data, 1}, shard.count, whole.element,
                    reduction);
    hub_->wait_for_all(rank());
  }

  void do_broadcast(Payload data, int root) override {
    hub_->meet(rank(), call("broadcast", data, root));
    if (rank() != root)
      std::memcpy(data.data, hub_->call(root).data, static_cast<size_t>(data.bytes()));
    hub_->wait_for_all(rank());
  }

  void do_send(ConstPayload data, int to) override {
    hub_->mailbox(rank(), to).send(data);
    hub_->run().wake(hub_->run_rank(to));
  }

  void do_receive(Payload data, int from) override {
    hub_->mailbox(from, rank()).receive(data, hub_->run(), hub_->run_rank(rank()));
  }

  void do_barrier() override { hub_->meet(rank(), {.verb = "barrier"}); }

  std::unique_ptr<Communicator> do_split(const std::vector<int>& members, int place) override {
    const int leader = members.front();
    if (rank() == leader) {
      std::vector<int> run_ranks;
      for (const int member : members) run_ranks.push_back(hub_->run_rank(member));
      hub_->child(leader) = std::make_shared<Hub>(hub_->run(), std::move(run_ranks));
    }
    hub_->meet(rank(), {.verb = "split"});
    auto child = hub_->child(leader);
    expect(child && child->size() == static_cast<int>(members.size()) &&
               child->run_rank(place) == hub_->run_rank(rank()),
           "the same members on all ranks of a group");
    hub_->wait_for_all(rank());
    hub_->child(rank()).reset();
    return std::make_unique<LocalCommunicator>(std::move(child), place);
  }

  static Call call(const char* verb, ConstPayload data, int detail) {
    return {verb, const_cast<void*>(data.data), data.count, data.element, detail};
  }

  // The address of element `first` in every rank's memory.
  std::vector<void*> everyones(Element element, int64_t first) const {
    std::vector<void*> all;
    for (int other = 0; other < size(); ++other)
      all.push_back(static_cast<std::byte*>(hub_->call(other).data) + first * bytes_of(element));
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

void run_local(int size, const std::function<void(Communicator&)>& body) {
  expect(size > 0, "at least one rank");
  LocalRun run(size);
  std::vector<int> ranks(static_cast<size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  const auto hub = std::make_shared<Hub>(run, ranks);
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
