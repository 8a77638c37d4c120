// Reports for a terminal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "engine/base/errors.h"
#include "tests/tuner/report/sample_answers.h"
#include "tuner/report/phrases.h"
#include "tuner/report/report.h"

namespace tuner {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

json train() { return recommendation_to_json(sample::recommendation()); }
json estimate(const PlanAnswer& answer) { return estimate_to_json(sample::scenario(), answer); }

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// Blanks and line ends as one blank, so that expectations do not depend on where lines break.
std::string flat(const std::string& text) {
  return std::regex_replace(text, std::regex("\\s+"), " ");
}

std::string text_of(const json& answer, ReportStyle style = {}) {
  return render_text(answer, style);
}

json single_gpu() {
  Recommendation r = sample::recommendation();
  r.scenario.cluster.gpus = 1;
  r.best = sample::answer(1, 1, 1, 0.0123);
  r.runners_up.clear();
  r.baseline.reset();
  r.grid = {};
  return recommendation_to_json(r);
}

json many_stages() {
  Recommendation r = sample::recommendation();
  r.best = sample::answer(2, 64, 8, 20);
  r.best->plan.layers_per_stage.assign(64, 3);
  r.best->plan.layers_per_stage.front() = 2;
  r.best->plan.layers_per_stage.back() = 4;
  r.scenario.model.layers = 192;
  return recommendation_to_json(r);
}

json older() {
  json answer = train();
  for (const char* member : {"grid", "reasons", "remedies", "assumptions", "speedup_over_baseline",
                             "days_to_train", "baseline"})
    answer.erase(member);
  answer["search"].erase("simulated");
  answer["search"].erase("rejected");
  answer["stack"] = {{"name", "megatron-2022"}};
  for (json& runner_up : answer["runners_up"]) {
    runner_up.erase("probability_faster");
    runner_up.erase("difference");
    runner_up.erase("measured");
  }
  return answer;
}

json broken_plan() {
  PlanAnswer answer{sample::plan(7, 5, 29), {}, std::nullopt};
  answer.predicted.violations = {
      {"AT0102", "96 attention heads cannot be divided by tp 7", {"tp 8", "tp 6"}},
      {"AT0102", "again", {}},
      {"AT0112", "layers 96 not divisible by pp = 5", {"pp 6"}}};
  return estimate(answer);
}

json long_names() {
  json answer = train();
  answer["model"]["name"] = std::string(300, 'm') + "模型模型";
  answer["model"]["origin"] = "/home/" + std::string(300, 'd') + "/config.json";
  answer["cluster"]["device"]["title"] = "模型 " + std::string(200, 'g');
  answer["cluster"]["system"] = std::string(150, 's');
  answer["stack"]["name"] = std::string(150, 'k');
  answer["reasons"].push_back(std::string(500, 'r') + " 模型模型模型模型模型模型模型模型模型模型");
  answer["search"]["rejected"][std::string(200, 'C')] = 12;
  return answer;
}

std::vector<std::pair<std::string, json>> all_answers() {
  return {{"train", train()},
          {"nothing fits", recommendation_to_json(sample::nothing_fits())},
          {"single GPU", single_gpu()},
          {"64 stages", many_stages()},
          {"older", older()},
          {"long names", long_names()},
          {"estimate", estimate(sample::answer(8, 16, 8, 20))},
          {"estimate of few stages", estimate(sample::answer(8, 8, 16, 20))},
          {"broken plan", broken_plan()}};
}

TEST(TextReport, SaysWhatWasAskedFirst) {
  const std::string text = flat(text_of(train()));
  EXPECT_THAT(text, StartsWith("autotune train gpt3-175b (174.6 B parameters, vocabulary 50,257 "
                               "padded to 51,200) 1,024 × NVIDIA A100-SXM4-80GB (79.2 GiB each), "
                               "128 nodes of 8, dgx-a100 seq 2,048, gbs 1,536, 300 B tokens, bf16, "
                               "unfused attention, stack megatron-2022 Best "));
}

TEST(TextReport, TellsThePlanWithNumbersUnitsAndIntervals) {
  const std::string text = flat(text_of(train()));
  EXPECT_THAT(text, HasSubstr("Best TP 8 PP 16 DP 8 SP MBS 1 recompute selective ZeRO 1"));
  EXPECT_THAT(text, HasSubstr("~151.3 TFLOP/s per GPU (model FLOPs, full attention square), "
                              "~48.5 % MFU, ~140.5 tokens/s per GPU"));
  EXPECT_THAT(text, HasSubstr("step ~20.00 s (18.00 to 22.00 s); 300 B tokens in ~22.1 days "
                              "(19.9 to 24.3 days)"));
  // 79.2 − 1.1 · 52
  EXPECT_THAT(text,
              HasSubstr("memory ~52.0 GiB of 79.2 GiB on stage 0, the fullest (66 %); with the "
                        "±10 % of the memory model on top, 22.0 GiB stay free"));
  EXPECT_THAT(text, HasSubstr("Predicted (~), not measured; ranges are 90 % intervals."));
  EXPECT_THAT(text, HasSubstr("Why • with full recomputation: +28 % step time • without SP:"));
  EXPECT_THAT(text, HasSubstr("+31.0 % throughput over what people ran in 2021:"));
  EXPECT_THAT(text, HasSubstr("Assumed • seq 2,048 is the preset's"));
}

TEST(TextReport, JudgesRunnersUpByTheirChance) {
  const std::string text = flat(text_of(train()));
  EXPECT_THAT(text,
              HasSubstr("2 ~20.60 s +3.0 % ~52.0 GiB 4 8 32 yes 1 selective 1 tp 4 instead of 8; "
                        "inside the error band (38 % chance to be faster): measure both 3 "));
  EXPECT_THAT(text,
              HasSubstr("dp 16 instead of 8; inside the error band (10 % chance to be faster) 4 "));
  EXPECT_THAT(text, HasSubstr("tp 16 instead of 8; outside the error band"));
}

TEST(TextReport, CountsTheSearchAndWhatEachRuleRemoved) {
  const std::string text = flat(text_of(train()));
  EXPECT_THAT(text, HasSubstr("Search 200,700 candidates → 43,624 legal → 7,486 fit → 35 simulated "
                              "in detail → 0 measured, in 15.6 ms"));
  EXPECT_THAT(text, HasSubstr("100,000 AT0104 the global batch is no multiple of mbs · dp "
                              "57,076 AT0102 tp does not divide the attention heads "
                              "36,138 AT0201 the plan does not fit the memory of a GPU"));
  EXPECT_THAT(text,
              HasSubstr("NVIDIA's grid (gpt-80gb) would have tried 24 plans: 18 legal, 11 fit; "
                        "its best, TP 8 PP 8 DP 16 SP MBS 1 recompute selective ZeRO 1, is "
                        "~5.0 % slower."));
}

TEST(TextReport, SharesOfTheStepSumToAHundred) {
  double sum = 0;
  int bars = 0;
  const std::regex share(R"(  +(\d+\.\d) %  +~[\d.]+ m?s)");
  for (const std::string& line : lines_of(text_of(train()))) {
    std::smatch match;
    if (!std::regex_search(line, match, share)) continue;
    sum += std::atof(match[1].str().c_str());
    ++bars;
  }
  EXPECT_EQ(bars, 4);
  EXPECT_NEAR(sum, 100, 1e-9);
  // 0.2 % is too little for a bar of its own; the order is the report's, not the alphabet's.
  EXPECT_THAT(flat(text_of(train())),
              AllOf(HasSubstr("Step time baseline matrix products 66.1 % ~13.22 s ~17.32 s █"),
                    HasSubstr("others 0.2 %"), Not(HasSubstr("waiting for the host"))));
}

TEST(Shares, RoundToAHundred) {
  EXPECT_THAT(rounded_percent({1, 1, 1}), ElementsAre(33.3, 33.3, 33.4));
  EXPECT_THAT(rounded_percent({0, 0}), ElementsAre(0, 0));
  const std::vector<double> percent = rounded_percent({7, 11, 13, 17, 19, 23, 29});
  double tenths = 0;
  for (const double each : percent) tenths += 10 * each;
  EXPECT_NEAR(tenths, 1000, 1e-9);
}

TEST(TextReport, ShowsMemoryOfTheStagesThatMatter) {
  EXPECT_THAT(
      flat(text_of(train())),
      HasSubstr("Memory GiB stage 0 stage 8 stage 15 parameter 10.0 10.0 10.0 activation 40.0 "
                "20.0 2.5 runtime 2.0 2.0 2.0 total 52.0 32.0 14.5 "
                "stage 0 is the fullest of 16"));
  EXPECT_THAT(flat(text_of(estimate(sample::answer(8, 16, 8, 20)))),
              HasSubstr("GiB stage 0 stage 1 stage 8 stage 15 parameter"));
  EXPECT_THAT(
      flat(text_of(estimate(sample::answer(8, 8, 16, 20)))),
      HasSubstr("stage 0 stage 1 stage 2 stage 3 stage 4 stage 5 stage 6 stage 7 parameter"));
  EXPECT_THAT(flat(text_of(many_stages())), AllOf(HasSubstr("stage 0 stage 32 stage 63"),
                                                  HasSubstr("layers per stage 2 + 62 × 3 + 4"),
                                                  HasSubstr("--layers-per-stage 2,3,3,")));
}

TEST(TextReport, ShowsSmallModelsInSmallUnits) {
  PlanAnswer small = sample::answer(1, 1, 1, 0.0123);
  small.predicted.memory.stages[0] = {};
  small.predicted.memory.stages[0][engine::MemoryUse::parameter] = 1.5 * 1024 * 1024;
  small.predicted.memory.peak_bytes = 1.5 * 1024 * 1024;
  small.predicted.tokens_per_second_per_gpu = 75280.4;
  json answer = estimate(small);
  answer["model"]["parameters"] = 875264;
  const std::string text = flat(text_of(answer));
  EXPECT_THAT(text, HasSubstr("(875,264 parameters, "));
  EXPECT_THAT(text, HasSubstr("MiB stage 0 parameter 1.5 total 1.5"));
  EXPECT_THAT(text, HasSubstr("~75,280 tokens/s per GPU"));
}

TEST(TextReport, GivesACommandThatAsksForThePlanAgain) {
  std::string text = text_of(train());
  EXPECT_THAT(text, HasSubstr(" \\\n"));
  text = flat(std::regex_replace(text, std::regex("\\\\\n"), " "));
  EXPECT_THAT(text,
              HasSubstr("Next autotune estimate train --model gpt3-175b --gpus 1024 --gpu "
                        "a100-80gb --gpus-per-node 8 --stack megatron-2022 --seq 2048 --gbs "
                        "1536 --precision bf16 --attention unfused --dp 8 --tp 8 --pp 16 --vpp 1 "
                        "--cp 1 --sp --mbs 1 --recompute selective --zero 1 autotune explain "
                        "AT0104"));
}

TEST(TextReport, NamesModelsAndMachinesAsTheyWereGiven) {
  const std::tuple<const char*, const char*, const char*, const char*> cases[] = {
      {"model", "gpt-42b", "derived for 42 B parameters in the proportions of GPT-3",
       "--model 42b "},
      {"model", "x", "/data/my model/config.json; tied", "--model '/data/my model/config.json' "},
      {"cluster", "", "built-in profiles/systems/dgx-a100.json with b", "--gpu dgx-a100 "},
      {"cluster", "", "./gpu.json with built-in profiles/systems/dgx-a100.json",
       "--gpu ./gpu.json "}};
  for (const auto& [part, name, origin, option] : cases) {
    json answer = train();
    answer[part]["origin"] = origin;
    if (std::string(part) == "model") answer[part]["name"] = name;
    EXPECT_THAT(flat(text_of(answer)) + " ", HasSubstr(option));
  }
}

TEST(TextReport, SaysWhenNothingFits) {
  const std::string text = flat(text_of(recommendation_to_json(sample::nothing_fits())));
  EXPECT_THAT(text,
              HasSubstr("No plan Nothing fits: with the margin of the memory model, each of the "
                        "32,812 legal plans needs more than the 79.2 GiB of a GPU. • the smallest "
                        "plan needs 369.7 GiB • the nearest number of GPUs that works is 48"));
  EXPECT_THAT(text, HasSubstr("32,812 legal → 0 fit"));
  EXPECT_THAT(text, Not(HasSubstr("Best")));
  Recommendation r = sample::nothing_fits();
  r.search.counts = {5588, 0, {{"AT0104", 5588}}};
  EXPECT_THAT(flat(text_of(recommendation_to_json(r))),
              HasSubstr("No plan is legal: each of the 5,588 candidates breaks a rule."));
  r.search.counts = {};
  EXPECT_THAT(flat(text_of(recommendation_to_json(r))),
              HasSubstr("No plan uses all 8 GPUs within the restrictions."));
}

TEST(TextReport, SaysWhenThereIsNoBaselineOrGrid) {
  const std::string text = flat(text_of(single_gpu()));
  EXPECT_THAT(text, HasSubstr("fits, so there is nothing to compare with."));
  EXPECT_THAT(text, HasSubstr("have no entry for this model"));
  EXPECT_THAT(text, HasSubstr("1 × NVIDIA A100-SXM4-80GB (79.2 GiB each), 1 node of 8"));
  EXPECT_THAT(text, HasSubstr("step ~12.3 ms"));
  EXPECT_THAT(text, Not(HasSubstr("Runners-up")));
}

TEST(TextReport, LeavesOutWhatOlderAnswersLack) {
  const std::string text = flat(text_of(older()));
  EXPECT_THAT(text, HasSubstr("step ~20.00 s (18.00 to 22.00 s) memory"));
  EXPECT_THAT(text, HasSubstr("2 ~20.60 s +3.0 %"));
  for (const char* absent :
       {"Baseline", "NVIDIA grid", "Why", "Assumed", "padded", "days", "chance"})
    EXPECT_THAT(text, Not(HasSubstr(absent)));
}

TEST(TextReport, MarksMeasuredNumbersPlain) {
  Recommendation r = sample::recommendation();
  r.best->measured = r.best->predicted;
  r.best->measured->measured = true;
  r.best->measured->step_seconds = 21.5;
  r.runners_up[0].answer.measured = r.best->measured;
  r.runners_up[1].answer.measured = engine::Outcome{};
  r.runners_up[1].answer.measured->measured = true;
  r.runners_up[1].answer.measured->status = engine::OutcomeStatus::out_of_memory;
  const std::string text = flat(text_of(recommendation_to_json(r)));
  EXPECT_THAT(text, HasSubstr("step 21.50 s (18.00 to 22.00 s)"));
  EXPECT_THAT(text, HasSubstr("predicted were: step ~20.00 s"));
  EXPECT_THAT(text, HasSubstr("→ 3 measured"));
  EXPECT_THAT(text, HasSubstr("tp 4 instead of 8; both are measured"));
  EXPECT_THAT(text, HasSubstr("its measurement ended as out_of_memory"));
  EXPECT_THAT(text, HasSubstr("3 ~22.00 s"));  // the failed trial has no step of its own
}

TEST(TextReport, TellsWhatABrokenPlanBreaks) {
  const std::string text = flat(text_of(broken_plan()));
  EXPECT_THAT(text, HasSubstr("autotune estimate train gpt3-175b"));
  EXPECT_THAT(text,
              HasSubstr("Plan TP 7 PP 5 DP 29 SP MBS 1 recompute selective ZeRO 1 breaks 3 rules"));
  EXPECT_THAT(text,
              HasSubstr("• AT0102 96 attention heads cannot be divided by tp 7; nearest: tp 8, "
                        "tp 6"));
  EXPECT_THAT(text,
              HasSubstr("autotune explain AT0102 # why this is a rule, and what to do autotune "
                        "explain AT0112"));
  EXPECT_THAT(text, Not(HasSubstr("autotune report")));  // an estimate is not stored
  EXPECT_THAT(text, Not(HasSubstr("step ~")));
}

TEST(TextReport, TellsThatALegalPlanDoesNotFit) {
  PlanAnswer answer = sample::answer(8, 16, 8, 20);
  answer.predicted.fits = false;
  answer.predicted.memory.peak_bytes = 81.6 * sample::kGiB;
  const std::string text = flat(text_of(estimate(answer)));
  EXPECT_THAT(text, HasSubstr("legal, but does not fit the memory of a GPU"));
  EXPECT_THAT(text, HasSubstr("10.6 GiB are missing"));  // 1.1 · 81.6 − 79.2
  EXPECT_THAT(text, HasSubstr("autotune explain AT0201"));
}

TEST(TextReport, StaysWithinTheWidth) {
  for (const auto& [name, answer] : all_answers())
    for (const int width : {20, 40, 57, 72, 80, 100, 240})
      for (const bool ascii : {false, true})
        for (const std::string& line : lines_of(text_of(answer, {width, false, ascii, false}))) {
          EXPECT_LE(display_width(line), std::clamp(width, 40, 100)) << name << ": " << line;
          EXPECT_FALSE(line.ends_with(' ')) << name << ": " << line;
        }
}

TEST(TextReport, AsciiHasNothingElse) {
  for (const auto& [name, answer] : all_answers())
    for (const char c : text_of(answer, {100, false, true, false}))
      EXPECT_LT(static_cast<unsigned char>(c), 0x80) << name;
}

TEST(TextReport, ColorsOnlyWhenAskedAndTheSameText) {
  for (const auto& [name, answer] : all_answers()) {
    const std::string plain = text_of(answer);
    const std::string colored = text_of(answer, {100, true, false, false});
    EXPECT_THAT(plain, Not(HasSubstr("\x1b")));
    EXPECT_THAT(colored, HasSubstr("\x1b[1m"));
    EXPECT_EQ(std::regex_replace(colored, std::regex("\x1b\\[[0-9;]*m"), ""), plain) << name;
  }
}

TEST(TextReport, WideKeepsEveryColumn) {
  const std::string narrow = text_of(train(), {60, false, false, false});
  const std::string wide = text_of(train(), {60, false, false, true});
  EXPECT_THAT(narrow, Not(HasSubstr("ZeRO\n")));
  EXPECT_THAT(wide, HasSubstr("recompute  ZeRO\n"));
}

TEST(Reports, RefuseWhatTheyDoNotKnow) {
  const std::pair<json, const char*> cases[] = {
      {json::array(), "no JSON object"},
      {json::object(), "no \"schema\""},
      {{{"schema", 7}}, "no \"schema\""},
      {{{"schema", "autotune.infer/9\x1b"}}, "'autotune.infer/9\\x1b' cannot be shown"},
      {{{"schema", "autotune.train/1"}, {"search", 3}}, "search"},
      {{{"schema", "autotune.train/1"}, {"best", {{"plan", {{"tp", -1}}}}}}, "tp"},
      {{{"schema", "autotune.estimate/1"}, {"step_seconds", "soon"}}, "step_seconds"}};
  for (const auto& [answer, message] : cases) {
    const auto renderers = {+[](const json& a) { return render_text(a, {}); },
                            +[](const json& a) { return render_markdown(a); }, +render_csv};
    for (const auto render : renderers) {
      try {
        render(answer);
        ADD_FAILURE() << answer.dump();
      } catch (const engine::InputError& error) {
        EXPECT_THAT(error.what(), HasSubstr(message));
      }
    }
  }
}

}  // namespace
}  // namespace tuner
