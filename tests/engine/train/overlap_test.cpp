// What goes on while messages are under way: which products lie between the start and the end of
// each, and that reductions start behind the pass that completes a gradient, not behind the last.
#include <gtest/gtest.h>

#include <cstring>

#include "engine/comm/phantom_communicator.h"
#include "engine/train/trainer.h"
#include "tests/support/tiny_models.h"
#include "tests/support/training_run.h"

namespace engine {
namespace {

// What the communicators of one rank were asked for, by the name of their axis, and its device.
using Events = std::vector<std::string>;

// Writes down its products.
class RecordingDevice final : public Device {
 public:
  explicit RecordingDevice(Events& events) : events_(events) {}
  void copy_to_device(void* dst, const void* src, int64_t bytes) override {
    inner_->copy_to_device(dst, src, bytes);
  }
  void copy_to_host(void* dst, const void* src, int64_t bytes) override {
    inner_->copy_to_host(dst, src, bytes);
  }
  void copy(void* dst, const void* src, int64_t bytes) override { inner_->copy(dst, src, bytes); }
  kernels::Kernels& kernels() override { return inner_->kernels(); }
  void synchronize() override {}
  bool multiplies(DType type) const override { return inner_->multiplies(type); }
  std::string description() const override { return inner_->description(); }

 private:
  void* take(int64_t bytes) override { return inner_->allocate(bytes, MemoryUse::workspace); }
  void give_back(void* data, int64_t bytes) noexcept override {
    inner_->release(data, bytes, MemoryUse::workspace);
  }
  void multiply(const Matmul& product) override {
    events_.push_back("product");
    inner_->matmul(product);
  }

  Events& events_;
  std::unique_ptr<Device> inner_ = make_cpu_device(1);
};

// A phantom that writes down its verbs, and from where to where they overlap.
class RecordingCommunicator final : public Communicator {
 public:
  RecordingCommunicator(int rank, int size, std::string axis, Events& events)
      : Communicator(rank, size), axis_(std::move(axis)), events_(events) {}

  bool overlaps() const override { return size() > 1; }
  void begin_overlap() override { is_overlapped_ = true; }
  void end_overlap() override {
    if (is_overlapped_) events_.push_back(axis_ + " end");
    is_overlapped_ = false;
  }

 private:
  void do_all_reduce(Payload, Reduction) override { tell("all_reduce"); }
  void do_all_gather(ConstPayload, Payload) override { tell("all_gather"); }
  void do_reduce_scatter(ConstPayload, Payload, Reduction) override { tell("reduce_scatter"); }
  void do_broadcast(Payload, int) override {}
  void do_send(ConstPayload, int) override { tell("send"); }
  void do_receive(Payload data, int) override {
    std::memset(data.data, 0, static_cast<size_t>(data.bytes()));
  }
  void do_barrier() override {}
  // A world splits off its axes in this order.
  std::unique_ptr<Communicator> do_split(const std::vector<int>& members, int place) override {
    constexpr const char* kAxes[] = {"world", "tp", "cp", "data", "dp", "pp", "pp", "embedding"};
    const std::string axis = axis_.empty() ? kAxes[splits_++] : axis_;
    return std::make_unique<RecordingCommunicator>(place, static_cast<int>(members.size()), axis,
                                                   events_);
  }
  void tell(const std::string& verb) {
    events_.push_back(axis_ + (is_overlapped_ ? " begins " : " ") + verb);
  }

  std::string axis_;
  Events& events_;
  bool is_overlapped_ = false;
  size_t splits_ = 0;
};

// The events of one step of rank `rank`, from the first reduction on.
std::string events_from_first_reduction(const ModelSpec& model, const ParallelPlan& plan,
                                        int rank) {
  Events events;
  RecordingCommunicator ranks(rank, plan.world(), "", events);
  RecordingDevice device(events);
  World world(ranks, Grid(plan));
  const Job job = test_job(model, plan);
  SyntheticBatches batches(model.vocab, 1);
  Trainer trainer(device, world, job, batches);
  events.clear();
  trainer.step();
  std::string text;
  for (const std::string& event : events)
    if (!text.empty() || event.starts_with("dp begins ")) text += event + "\n";
  return text;
}

std::string times(int count, const std::string& text) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

ParallelPlan plan_of(int tp, int pp, int dp) {
  ParallelPlan plan;
  plan.tp = tp;
  plan.pp = pp;
  plan.dp = dp;
  plan.gbs = 8;
  return plan;
}

const std::string kReduced = "dp begins all_reduce\n";
const std::string kEnd = "dp end\nworld all_reduce\n";
const std::string kLayerProducts = times(8, "product\n");

// Of several micro-batches only the last: a reduction starts behind each unit, and the passes of
// the units before it come before the end of any. The sum over the tensor axis goes on while the
// first layer's parameter gradients are computed.
TEST(Overlap, PassesComputeWhileGradientsAreReduced) {
  const ParallelPlan plan = plan_of(2, 1, 2);
  const std::string half = times(3, "product\n") + "tp begins all_reduce\nproduct\ntp end\n";
  const std::string layers = times(4, half + half + kReduced);
  EXPECT_EQ(events_from_first_reduction(tiny::llama(), plan, 0),
            kReduced + layers + kReduced + kEnd);
  // The table of a tied model is complete when both its ends have added to it.
  EXPECT_EQ(events_from_first_reduction(tiny::gpt(), plan, 0), kReduced + layers + kReduced + kEnd);
}

TEST(Overlap, ShardsOfGradientsToo) {
  ParallelPlan plan = plan_of(1, 1, 4);
  plan.zero = 1;
  const std::string reduced = "dp begins reduce_scatter\n";
  EXPECT_EQ(
      events_from_first_reduction(tiny::llama(), plan, 3),
      reduced + times(4, kLayerProducts + reduced) + reduced + kEnd + times(6, "dp all_gather\n"));
}

// With sequence parallelism, products also run while the input of a region is gathered again; and
// what ranks of the tensor axis hold parts of is summed there before the replicas sum it.
TEST(Overlap, OfSequenceParallelism) {
  ParallelPlan plan = plan_of(2, 1, 2);
  plan.sp = true;
  const std::string gathered = "tp all_gather\n";
  const std::string half = gathered + "tp begins all_gather\n" + times(3, "product\n") +
                           "tp end\ntp begins reduce_scatter\nproduct\ntp end\n";
  EXPECT_EQ(
      events_from_first_reduction(tiny::llama(), plan, 1),
      kReduced + times(4, half + half + "tp all_reduce\n" + kReduced) + gathered + kReduced + kEnd);
}

// A stage's reductions go on while its gradients are sent to the stage before; the tied table waits
// for the other end.
TEST(Overlap, PipelinesKeepTheTiedTableForTheEnd) {
  EXPECT_EQ(
      events_from_first_reduction(tiny::gpt(), plan_of(1, 2, 2), 2),
      kReduced + kLayerProducts + kReduced + "pp send\nembedding all_reduce\n" + kReduced + kEnd);
  EXPECT_EQ(events_from_first_reduction(tiny::llama(), plan_of(1, 2, 2), 2),
            kReduced + times(2, kLayerProducts + kReduced) + "pp send\n" + kEnd);
}

}  // namespace
}  // namespace engine
