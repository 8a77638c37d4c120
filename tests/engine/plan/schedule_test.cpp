// The schedule is complete, free of deadlock, as short as theory says, and holds what it claims.
#include "engine/plan/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace engine {
namespace {

struct Simulated {
  int64_t length = 0;                   // with forward = 1 and backward = 2 a chunk
  std::vector<int64_t> most_in_flight;  // by stage
  bool finished = false;
};

// Plays the schedules of all stages against each other: a pass starts when its input is there.
Simulated play(const PipelineShape& shape) {
  using Kind = PipelineStep::Kind;
  std::vector<std::vector<PipelineStep>> steps;
  for (int stage = 0; stage < shape.stages; ++stage) steps.push_back(make_schedule(shape, stage));
  std::map<std::tuple<Kind, int, int64_t>, int64_t> done;  // by virtual stage
  std::vector<size_t> next(static_cast<size_t>(shape.stages), 0);
  std::vector<int64_t> clock(static_cast<size_t>(shape.stages), 0), held(clock), most(clock);
  const int virtual_stages = shape.stages * shape.chunks;
  bool moved = true;
  while (moved) {
    moved = false;
    for (int stage = 0; stage < shape.stages; ++stage) {
      const auto at = static_cast<size_t>(stage);
      while (next[at] < steps[at].size()) {
        const PipelineStep& step = steps[at][next[at]];
        const int place = step.chunk * shape.stages + stage;
        int64_t ready = 0;
        auto needs = [&](Kind kind, int virtual_stage) {
          const auto found = done.find({kind, virtual_stage, step.micro_batch});
          if (found == done.end()) return false;
          ready = std::max(ready, found->second);
          return true;
        };
        if (step.kind == Kind::forward && place > 0 && !needs(Kind::forward, place - 1)) break;
        if (step.kind == Kind::backward &&
            (!needs(Kind::forward, place) ||
             (place < virtual_stages - 1 && !needs(Kind::backward, place + 1))))
          break;
        clock[at] = std::max(clock[at], ready) + (step.kind == Kind::forward ? 1 : 2);
        done[{step.kind, place, step.micro_batch}] = clock[at];
        held[at] += step.kind == Kind::forward ? 1 : -1;
        most[at] = std::max(most[at], held[at]);
        ++next[at];
        moved = true;
      }
    }
  }
  Simulated result{*std::max_element(clock.begin(), clock.end()), most, true};
  for (size_t stage = 0; stage < next.size(); ++stage)
    result.finished = result.finished && next[stage] == steps[stage].size();
  return result;
}

TEST(Schedule, EveryShapeFinishesAndHoldsWhatItClaims) {
  int shapes = 0;
  for (int stages : {1, 2, 3, 4, 8})
    for (int chunks : {1, 2, 3, 6})
      for (int64_t micro_batches : {1, 2, 3, 4, 6, 8, 9, 12, 13, 16, 27}) {
        const PipelineShape shape{stages, chunks, micro_batches};
        if (chunks > 1 && (stages == 1 || interleave_group(shape) == 0)) continue;
        const Simulated result = play(shape);
        ASSERT_TRUE(result.finished) << stages << " " << chunks << " " << micro_batches;
        for (int stage = 0; stage < stages; ++stage)
          ASSERT_EQ(result.most_in_flight[static_cast<size_t>(stage)], most_in_flight(shape, stage))
              << stages << " " << chunks << " " << micro_batches << " stage " << stage;
        ++shapes;
      }
  EXPECT_GT(shapes, 100);
}

TEST(Schedule, BubbleIsThatOfTheory) {
  for (int stages : {2, 4, 8})
    for (int chunks : {1, 2, 3})
      for (int64_t rounds : {1, 2, 4}) {
        const int64_t micro_batches = stages * rounds;
        const int64_t work = micro_batches * chunks * 3;
        EXPECT_EQ(play({stages, chunks, micro_batches}).length, work + (stages - 1) * 3)
            << stages << " " << chunks << " " << micro_batches;
      }
}

TEST(Schedule, EveryMicroBatchPassesEveryChunkOnceEachWay) {
  const PipelineShape shape{4, 3, 10};
  for (int stage = 0; stage < shape.stages; ++stage) {
    std::set<std::tuple<PipelineStep::Kind, int, int64_t>> seen;
    for (const PipelineStep& step : make_schedule(shape, stage))
      EXPECT_TRUE(seen.insert({step.kind, step.chunk, step.micro_batch}).second);
    EXPECT_EQ(seen.size(), 2u * 3 * 10);
  }
}

TEST(Schedule, FirstRankOfInterleavedHoldsTheKnownNumberOfChunks) {
  for (int p : {2, 4, 8, 16})
    for (int v : {2, 3, 6})
      for (int64_t m : {p, 2 * p, 8 * p})
        EXPECT_EQ(most_in_flight({p, v, m}, 0), std::min<int64_t>(m * v, v * p + p - 1));
}

TEST(Schedule, FewerMicroBatchesThanStagesCannotInterleave) {
  EXPECT_EQ(interleave_group({4, 2, 3}), 0);
  EXPECT_THROW(make_schedule({4, 2, 3}, 0), std::invalid_argument);
}

TEST(Schedule, GroupLeavesNoStallingRemainder) {
  EXPECT_EQ(interleave_group({4, 2, 8}), 4);
  EXPECT_EQ(interleave_group({4, 2, 6}), 6);  // 6 mod 4 = 2 would stall, and so would 6 mod 5
  EXPECT_EQ(interleave_group({4, 2, 9}), 5);  // 9 mod 5 = 4
}

// A shorter step of the same pipeline begins alike, holds as much, and leaves the same rest.
TEST(Schedule, AShortenedStepRepeatsTheLongOne) {
  for (const PipelineShape& shape :
       {PipelineShape{4, 1, 1000}, PipelineShape{4, 2, 1000}, PipelineShape{4, 3, 1003},
        PipelineShape{8, 2, 997}, PipelineShape{3, 4, 7}, PipelineShape{16, 2, 10'007}}) {
    const PipelineShape shorter = shortened(shape, 3);
    EXPECT_LE(shorter.micro_batches, shape.micro_batches);
    EXPECT_LE(shorter.micro_batches, 4 * std::max<int64_t>(shape.stages, interleave_group(shape)));
    for (int stage = 0; stage < shape.stages; ++stage) {
      EXPECT_EQ(most_in_flight(shorter, stage), most_in_flight(shape, stage));
      const auto begin = make_schedule(shorter, stage), whole = make_schedule(shape, stage);
      const auto last = begin.size() / 2;
      EXPECT_TRUE(std::equal(begin.begin(), begin.begin() + static_cast<std::ptrdiff_t>(last),
                             whole.begin()));
    }
  }
  EXPECT_EQ(shortened({4, 2, 8}, 3).micro_batches, 8);
  EXPECT_EQ(shortened({4, 2, 3}, 3).micro_batches, 3);
}

}  // namespace
}  // namespace engine
