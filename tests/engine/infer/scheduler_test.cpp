// Which sequences run when, and whose pages are whose.
#include "engine/infer/scheduler.h"

#include <gtest/gtest.h>

#include "engine/base/errors.h"

namespace engine {
namespace {

SchedulerOptions options() {
  SchedulerOptions result;
  result.batch = 2;
  result.longest = 32;
  result.page_tokens = 4;
  result.pages = 8;
  return result;
}

Request request(int64_t id, int64_t prompt, int64_t tokens) {
  Request result;
  result.id = id;
  result.prompt.assign(static_cast<size_t>(prompt), 5);
  result.most_tokens = tokens;
  return result;
}

std::vector<Choice> choices(const StepBatch& batch) {
  return std::vector<Choice>(batch.rows().size(), Choice{7, 0});
}

TEST(Scheduler, AdmitsWhenPagesAreFree) {
  Scheduler scheduler(options());
  scheduler.add(request(0, 18, 2));  // five pages
  scheduler.add(request(1, 14, 2));  // four: waits
  scheduler.add(request(2, 2, 2));   // would fit, but comes later
  auto batch = scheduler.start(0);
  ASSERT_EQ(batch->segments.size(), 1u);
  EXPECT_EQ(scheduler.free_pages(), 3);
  EXPECT_FALSE(scheduler.start(0).has_value());  // its batch is on its way
  scheduler.finish(0, choices(*batch));
  batch = scheduler.start(0);
  EXPECT_EQ(batch->segments.size(), 1u);
  EXPECT_EQ(batch->segments[0].first_place, 18);
  const auto progress = scheduler.finish(0, choices(*batch));
  EXPECT_EQ(progress.at(0).finish, Finish::length);
  EXPECT_EQ(scheduler.free_pages(), 8);
  EXPECT_EQ(scheduler.start(0)->segments.size(), 2u);
}

TEST(Scheduler, AStaticBatchTakesNobodyInBetween) {
  SchedulerOptions fixed = options();
  fixed.continuous = false;
  Scheduler scheduler(fixed);
  for (int64_t id = 0; id < 3; ++id) scheduler.add(request(id, 2, 1 + id));
  auto batch = scheduler.start(0);
  EXPECT_EQ(batch->segments.size(), 2u);
  scheduler.finish(0, choices(*batch));
  batch = scheduler.start(0);  // request 0 is done, request 2 waits
  EXPECT_EQ(batch->segments.size(), 1u);
  EXPECT_EQ(batch->segments[0].request, 1);
  scheduler.finish(0, choices(*batch));
  EXPECT_EQ(scheduler.start(0)->segments.at(0).request, 2);
}

TEST(Scheduler, SlotsShareABatch) {
  SchedulerOptions two = options();
  two.slots = 2;
  two.batch = 4;
  two.continuous = false;
  Scheduler scheduler(two);
  for (int64_t id = 0; id < 4; ++id) scheduler.add(request(id, 2, 2));
  EXPECT_EQ(scheduler.start(0)->segments.size(), 2u);
  EXPECT_EQ(scheduler.start(1)->segments.size(), 2u);
}

TEST(Scheduler, CancelsWhatWaitsAndWhatRuns) {
  Scheduler scheduler(options());
  for (int64_t id = 0; id < 3; ++id) scheduler.add(request(id, 4, 4));
  EXPECT_EQ(scheduler.cancel(2)->finish, Finish::cancelled);  // waits
  const auto batch = scheduler.start(0);
  EXPECT_FALSE(scheduler.cancel(0).has_value());  // on its way
  const auto progress = scheduler.finish(0, choices(*batch));
  EXPECT_EQ(progress.at(0).finish, Finish::cancelled);
  EXPECT_TRUE(progress.at(0).choices.empty());
  EXPECT_FALSE(progress.at(1).finish.has_value());
  EXPECT_EQ(scheduler.cancel(1)->finish, Finish::cancelled);
  EXPECT_FALSE(scheduler.cancel(1).has_value());  // nobody is left
  EXPECT_TRUE(scheduler.is_idle());
  EXPECT_EQ(scheduler.free_pages(), 8);
}

TEST(Scheduler, RefusesWhatCanNeverRun) {
  Scheduler scheduler(options());
  EXPECT_THROW(scheduler.add(request(0, 30, 4)), InputError);
  EXPECT_THROW(scheduler.add(request(0, 0, 4)), InputError);
  EXPECT_THROW(scheduler.add(request(0, 4, 0)), InputError);
  Request odd = request(0, 4, 4);
  odd.sampling = {-1, 0, 1, 1};
  EXPECT_THROW(scheduler.add(odd), InputError);
  SchedulerOptions small = options();
  small.pages = 2;
  EXPECT_THROW(Scheduler(small).add(request(0, 8, 4)), InputError);
}

}  // namespace
}  // namespace engine
