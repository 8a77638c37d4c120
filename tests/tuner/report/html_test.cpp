// Pages: what stands in them, hostile names, and every state that a run can be in.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/tuner/report/sample_answers.h"
#include "tuner/report/html.h"
#include "tuner/report/layout.h"
#include "tuner/report/phrases.h"

namespace tuner {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

class Page : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_html()) GTEST_SKIP() << "this build has no Chart.js (Debian: libjs-chart.js)";
  }
};

RunRecord run_of(const json& answer) {
  RunRecord run;
  run.id = 17;
  run.command_line = "autotune train --model gpt3-175b --gpus 1024";
  run.kind = "train";
  run.model = "gpt3-175b";
  run.gpu = "a100-80gb";
  run.gpus = 1024;
  run.status = "found";
  run.tool_version = "0.1.0";
  if (!answer.is_null()) run.answer = answer.dump();
  return run;
}

// The page up to the end of its data: without the scripts that all pages have.
std::string page_of(const RunRecord& run, const std::vector<TrialRecord>& trials = {}) {
  const std::string page = render_html(run, trials);
  const size_t body = page.find("<body>");
  return page.substr(body, page.find("</script>", body) - body);
}

json sample_answer() {
  Recommendation r = sample::recommendation();
  for (int i = 1; i <= 40; ++i)
    r.search.cells.push_back({sample::plan(8, 16, 8), 20.0 + i, i * 1e9, i});
  json answer = recommendation_to_json(r);
  const std::vector<std::vector<double>> passes(2, std::vector<double>(4, 0.5));
  answer["pipeline"] = {
      {"micro_batches", 8}, {"forward_seconds", passes}, {"backward_seconds", passes}};
  return answer;
}

TEST_F(Page, TellsTheStoryWithPictures) {
  const std::string page = page_of(run_of(sample_answer()));
  for (const char* part :
       {"<h1>gpt3-175b", "Where the step goes", "Memory of a GPU by pipeline stage",
        "Throughput against memory, all plans that fit", "820 plans fit; drawn are 40",
        "<svg class=\"timeline\"", "stage 3", "<h2>Search</h2>", "AT0104", "run 17, begun",
        "autotune train --model gpt3-175b --gpus 1024", "<h2>Assumed</h2>", "id=\"charts\">[{"})
    EXPECT_THAT(page, HasSubstr(part));
  const std::string whole = render_html(run_of(sample_answer()), {});
  EXPECT_THAT(whole, HasSubstr("default-src 'none'"));
  EXPECT_THAT(whole, Not(HasSubstr("src=\"")));
  EXPECT_LT(whole.size(), 500'000U);
}

TEST_F(Page, IsMadeForEveryStateOfARun) {
  EXPECT_THAT(page_of(run_of(recommendation_to_json(sample::nothing_fits()))),
              HasSubstr("Nothing fits"));
  EXPECT_THAT(page_of(run_of(json{{"schema", "autotune.train/1"}})), HasSubstr("unnamed model"));
  EXPECT_THAT(page_of(run_of(json{{"schema", "autotune.train/9"}})), HasSubstr("autotune.train/9"));

  TrialRecord trial;
  trial.id = 3;
  trial.status = "crashed";
  trial.reason = "rank 1 ended with signal 9";
  TrialRecord pending;
  pending.id = 4;
  const std::string stopped = page_of(run_of(nullptr), {trial, pending});
  for (const char* part : {"The run has no answer", "crashed", "signal 9", "not finished"})
    EXPECT_THAT(stopped, HasSubstr(part));

  json failed = sample_answer();
  failed["measurement"] = {{"plans",
                            {{{"text", "TP 8"},
                              {"predicted_seconds", 20.0},
                              {"measured_seconds", 0.0},
                              {"status", "crashed"},
                              {"reason", "no memory"}}}},
                           {"new_trials", 1}};
  const std::string page = page_of(run_of(failed));
  EXPECT_THAT(page, HasSubstr("crashed: no memory"));
  EXPECT_THAT(page, Not(HasSubstr("Predicted against measured")));
}

TEST_F(Page, DrawsWhatWasMeasured) {
  json answer = sample_answer();
  answer["measurement"] = {{"plans",
                            {{{"text", "TP 8"},
                              {"predicted_seconds", 20.0},
                              {"measured_seconds", 21.0},
                              {"interval_seconds", {20.5, 21.5}},
                              {"status", "ok"}}}},
                           {"new_trials", 1}};
  const std::string page = page_of(run_of(answer));
  EXPECT_THAT(page, HasSubstr("Predicted against measured"));
  EXPECT_THAT(page, HasSubstr("\"y_interval\":[20.5,21.5]"));
  EXPECT_THAT(page, HasSubstr("\"diagonal\":true"));
}

TEST_F(Page, ShowsHostileNamesAsTheyAre) {
  for (const std::string name : {"<script>alert(1)</script>", "\"><img src=x onerror=alert(1)>",
                                 "</script><!-- '", "\x1b[2J\n\u202e"}) {
    json answer = sample_answer();
    answer["model"]["name"] = answer["cluster"]["device"]["title"] = name;
    answer["best"]["text"] = answer["runners_up"][0]["text"] = name;
    answer["reasons"] = {name};
    answer["fitting"]["text"][0] = name;
    answer["best"]["predicted"]["breakdown_seconds"][name] = 5;
    RunRecord run = run_of(answer);
    run.command_line = run.status = name;
    const std::string page = page_of(run);
    for (const char* bad : {"<script>alert", "<img", "</script><!--", "\x1b", "\u202e"})
      EXPECT_THAT(page, Not(HasSubstr(bad)));
  }
}

TEST(Html, EscapesWhatWouldBeMarkup) {
  EXPECT_EQ(html_escaped("<a href=\"x\">&'"), "&lt;a href=&quot;x&quot;&gt;&amp;&#39;");
  EXPECT_EQ(html_escaped("a\x1b\n"), "a\\x1b\\n");
}

TEST(Html, ChartDataCanStandInAScript) {
  Chart chart;
  chart.title = chart.x.title = "</script>";
  chart.series.push_back({"<!--", Chart::Mark::point, {{1.0 / 3, 2, "</SCRIPT>"}}});
  const std::string data = chart_data({&chart});
  EXPECT_THAT(data, Not(HasSubstr("<")));
  const json read = json::parse(data);
  EXPECT_EQ(read[0]["series"][0]["points"][0]["x"], 0.333333);
  EXPECT_EQ(read[0]["series"][0]["points"][0]["label"], "</SCRIPT>");
}

// Passes end where the next begins or later, and the shares are those of the whole step.
TEST(Html, TimelineOfALongStepShowsWholeGroups) {
  PipelineRecord pipeline;
  pipeline.micro_batches = 1000;
  pipeline.forward.assign(1, std::vector<double>(4, 1));
  pipeline.backward.assign(1, std::vector<double>(4, 2));
  const Timeline timeline = pipeline_picture(pipeline);
  ASSERT_EQ(timeline.lanes.size(), 4U);
  EXPECT_EQ(timeline.lanes[0].detail, "100 % busy");  // 3,000 of 3,009 seconds
  EXPECT_THAT(timeline.note, HasSubstr("of the 1,000 micro-batches are drawn"));
  EXPECT_LT(timeline.passes.size(), 4 * 251U);
  std::vector<double> ends(4, 0);
  for (const Timeline::Pass& pass : timeline.passes) {
    EXPECT_GE(pass.start, ends[static_cast<size_t>(pass.lane)]);
    ends[static_cast<size_t>(pass.lane)] = pass.end;
  }
}

TEST(Plot, StaysWithinItsWidth) {
  Chart chart;
  chart.x = {"latency", Quantity::seconds};
  chart.y = {"tokens/s"};
  chart.series = {{"all", Chart::Mark::faint, {{1, 10}, {2, 20}, {3, 15}}},
                  {"best", Chart::Mark::strong, {{2, 20}}}};
  chart.limits = {{"budget", 2.5, true}};
  for (const bool ascii : {false, true}) {
    const std::vector<std::string> lines = plot_lines(chart, 60, 8, ascii);
    ASSERT_EQ(lines.size(), 12U);
    for (const std::string& line : lines) EXPECT_LE(display_width(line), 60) << line;
    EXPECT_THAT(lines[1], HasSubstr(ascii ? "@" : "●"));
    EXPECT_THAT(lines[11], HasSubstr("budget"));
  }
  chart.series.clear();
  EXPECT_TRUE(plot_lines(chart, 60, 8, false).empty());
}

}  // namespace
}  // namespace tuner
