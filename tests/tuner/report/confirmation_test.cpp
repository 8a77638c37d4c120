// What single ranks told, in the reports of training and serving alike.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>

#include "tests/tuner/report/sample_answers.h"
#include "tuner/model/presets.h"
#include "tuner/report/report.h"
#include "tuner/search/serve_recommendation.h"

namespace tuner {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Confirmation confirmation(const AnyPlan& of, const AnyPlan& slice) {
  using Unit = ConfirmedCount::Unit;
  Confirmation c{.of = of,
                 .of_layers = 96,
                 .slice = slice,
                 .slice_text = "what was run of it",
                 .layers = 2,
                 .device = "this machine",
                 .stages = {}};
  ConfirmedStage& first = c.stages.emplace_back();
  first.place = "first";
  first.measured_seconds = 2;
  first.predicted_seconds = 1;
  first.peak_bytes = 3 * sample::kGiB;
  first.counts = {{"parameter memory", Unit::bytes, sample::kGiB, sample::kGiB},
                  {"tp all_reduce", Unit::messages, 7, 8}};
  ConfirmedStage& last = c.stages.emplace_back();
  last.stage = 1;
  last.place = "last";
  last.status = engine::OutcomeStatus::crashed;
  last.reason = "no luck";
  return c;
}

std::string text_of(const nlohmann::json& answer) {
  return std::regex_replace(render_text(answer, {}), std::regex("\\s+"), " ");
}

nlohmann::json training(bool times_count) {
  Recommendation r = sample::recommendation();
  r.confirmation = confirmation(sample::plan(8, 16, 8), sample::plan(8, 2, 8));
  r.confirmation->times_count = times_count;
  r.confirmation->compute_factor = times_count ? 2 : 1;
  return recommendation_to_json(r);
}

nlohmann::json serving(bool times_count) {
  ServeScenario s;
  s.model = find_model("175b");
  s.cluster = find_cluster("a100-80gb", 16);
  s.stack = find_serve_stack("tensorrt-llm");
  use_rates(s, ServeRatesTable::load());
  ServeRecommendation r = recommend_serving(s, {}, {}, 0);
  r.confirmation = confirmation(ServePlan{.tp = 8, .pp = 2, .batch = 16},
                                ServePlan{.tp = 8, .pp = 2, .batch = 4});
  r.confirmation->times_count = times_count;
  r.confirmation->compute_factor = times_count ? 2 : 1;
  return serve_recommendation_to_json(r);
}

TEST(ConfirmationReport, IsTheSameOfTrainingAndServing) {
  for (const nlohmann::json& answer : {training(false), serving(false)}) {
    const std::string text = text_of(answer);
    EXPECT_THAT(text, HasSubstr("Confirmed Ranks of TP 8 PP"));
    EXPECT_THAT(text, HasSubstr("ran alone on this machine, all others being phantoms: as what "
                                "was run of it in bf16 with 2 of 96 layers"));
    EXPECT_THAT(text, HasSubstr("parameter memory = 1.0 GiB -"));
    EXPECT_THAT(text, HasSubstr("tp all_reduce messages ~7 ≠ 8 -"));
    EXPECT_THAT(text, HasSubstr("The last stage ended as crashed: no luck"));
    EXPECT_THAT(text, HasSubstr("1 of 2 counts are as predicted"));
    EXPECT_THAT(text, HasSubstr("every second stays predicted"));
  }
}

TEST(ConfirmationReport, ShowsTimesWhereTheyCount) {
  for (const nlohmann::json& answer : {training(true), serving(true)}) {
    const std::string text = text_of(answer);
    EXPECT_THAT(text, HasSubstr("first ~1.00 s 2.00 s -50.0 % 3.0 GiB"));
    EXPECT_THAT(text, HasSubstr("scaled by 2.00"));
    EXPECT_THAT(text, Not(HasSubstr("every second stays predicted")));
  }
}

TEST(ConfirmationReport, TheSliceIsAPlanOfItsKind) {
  EXPECT_EQ(training(false)["confirmation"]["slice"]["pp"], 2);
  EXPECT_EQ(training(false)["confirmation"]["plan"], describe(sample::plan(8, 16, 8)));
  EXPECT_EQ(serving(false)["confirmation"]["slice"]["batch"], 4);
  EXPECT_THAT(serving(false)["confirmation"]["plan"], HasSubstr("batch 16"));
}

}  // namespace
}  // namespace tuner
