// When gradients are reduced: behind the pass that completes them, not behind the last one.
#include <gtest/gtest.h>

#include <cstring>

#include "engine/comm/phantom_communicator.h"
#include "engine/train/trainer.h"
#include "tests/support/tiny_models.h"
#include "tests/support/training_run.h"

namespace engine {
namespace {

// What the communicators of one rank were asked for, by the name of their axis.
using Events = std::vector<std::string>;

// A phantom that writes down its verbs, and which were only started.
class RecordingCommunicator final : public Communicator {
 public:
  RecordingCommunicator(int rank, int size, std::string axis, Events& events)
      : Communicator(rank, size), axis_(std::move(axis)), events_(events) {}

 private:
  void do_all_reduce(Payload, Reduction) override { events_.push_back(axis_ + " all_reduce"); }
  void do_all_gather(ConstPayload, Payload) override { events_.push_back(axis_ + " all_gather"); }
  void do_reduce_scatter(ConstPayload, Payload, Reduction) override {
    events_.push_back(axis_ + " reduce_scatter");
  }
  void do_broadcast(Payload, int) override {}
  void do_send(ConstPayload, int) override { events_.push_back(axis_ + " send"); }
  void do_receive(Payload data, int) override {
    std::memset(data.data, 0, static_cast<size_t>(data.bytes()));
  }
  void do_barrier() override {}
  void do_start(Device&, std::function<void()> verbs) override {
    events_.push_back(axis_ + " start");
    verbs();
  }
  void do_finish() override { events_.push_back(axis_ + " finish"); }
  // A world splits off its axes in this order.
  std::unique_ptr<Communicator> do_split(const std::vector<int>& members, int place) override {
    constexpr const char* kAxes[] = {"world", "tp", "cp", "data", "dp", "pp", "pp", "embedding"};
    const std::string axis = axis_.empty() ? kAxes[splits_++] : axis_;
    return std::make_unique<RecordingCommunicator>(place, static_cast<int>(members.size()), axis,
                                                   events_);
  }

  std::string axis_;
  Events& events_;
  size_t splits_ = 0;
};

// The events of one step of rank `rank`, from the first start of a reduction on.
std::string reductions(const ModelSpec& model, const ParallelPlan& plan, int rank) {
  Events events;
  RecordingCommunicator ranks(rank, plan.world(), "", events);
  const auto device = make_cpu_device(1);
  World world(ranks, Grid(plan));
  const Job job = test_job(model, plan);
  SyntheticBatches batches(model.vocab, 1);
  Trainer trainer(*device, world, job, batches);
  events.clear();
  trainer.step();
  std::string text;
  for (const std::string& event : events)
    if (!text.empty() || event == "dp start") text += event + "\n";
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

// Of several micro-batches only the last: a reduction starts behind each unit, and the passes of
// the units before it, told by their tensor-parallel sums, come before the end of any.
TEST(Overlap, GradientsAreReducedWhileThePassesBeforeCompute) {
  ParallelPlan plan = plan_of(2, 1, 2);
  const std::string reduced = "dp start\ndp all_reduce\n";
  const std::string layer = times(2, "tp all_reduce\n") + reduced;
  EXPECT_EQ(reductions(tiny::llama(), plan, 0),
            reduced + times(4, layer) + reduced + "dp finish\nworld all_reduce\n");
  // The table of a tied model is complete when both ends have added to it.
  EXPECT_EQ(reductions(tiny::gpt(), plan, 0),
            reduced + times(4, layer) + reduced + "dp finish\nworld all_reduce\n");
}

TEST(Overlap, ShardsOfGradientsToo) {
  ParallelPlan plan = plan_of(1, 1, 4);
  plan.zero = 1;
  EXPECT_EQ(reductions(tiny::llama(), plan, 3), times(6, "dp start\ndp reduce_scatter\n") +
                                                    "dp finish\nworld all_reduce\n" +
                                                    times(6, "dp all_gather\n"));
}

// What ranks of the tensor axis hold parts of is summed there first.
TEST(Overlap, PartialSumsAreCompletedBefore) {
  ParallelPlan plan = plan_of(2, 1, 2);
  plan.sp = true;
  const std::string text = reductions(tiny::llama(), plan, 1);
  const std::string norms_first = "tp reduce_scatter\ntp all_reduce\ndp start\ndp all_reduce\n";
  size_t layers = 0;
  for (size_t at = text.find(norms_first); at != std::string::npos;
       at = text.find(norms_first, at + 1))
    ++layers;
  EXPECT_EQ(layers, 4u) << text;
}

// A stage's reductions run while its gradients are still sent to the stage before; the tied table
// waits for the other end.
TEST(Overlap, PipelinesKeepTheTiedTableForTheEnd) {
  const std::string reduced = "dp start\ndp all_reduce\n";
  EXPECT_EQ(reductions(tiny::gpt(), plan_of(1, 2, 2), 2),
            times(2, reduced) + "pp send\nembedding all_reduce\n" + reduced +
                "dp finish\nworld all_reduce\n");
  EXPECT_EQ(reductions(tiny::llama(), plan_of(1, 2, 2), 2),
            times(3, reduced) + "pp send\ndp finish\nworld all_reduce\n");
}

}  // namespace
}  // namespace engine
