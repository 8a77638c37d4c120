// Markdown and CSV, and names that try to be more than names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "tests/tuner/report/sample_answers.h"
#include "tuner/report/layout.h"
#include "tuner/report/phrases.h"

namespace tuner {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

json train() { return recommendation_to_json(sample::recommendation()); }
json estimate(const PlanAnswer& answer) { return estimate_to_json(sample::scenario(), answer); }

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// The fields of one CSV line by RFC 4180.
std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields{""};
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"')
      fields.back() += line[++i];
    else if (line[i] == '"')
      quoted = !quoted;
    else if (line[i] == ',' && !quoted)
      fields.emplace_back();
    else
      fields.back() += line[i];
  }
  EXPECT_FALSE(quoted);
  return fields;
}

const std::vector<std::string> kHostile = {
    "evil\nBest          TP 1\x1b[2J\x1b]0;title\x07\r\x9b",
    "=cmd|'/c calc'!A1",
    "+1,\"2\"\n=3",
    "@SUM(A1)",
    "-2+3",
    "a | b | c",
    "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "[click](http://evil.example) ![](http://evil.example/x.png) http://evil.example "
    "www.evil.example",
    "**bold** `code` ~~gone~~ # head",
    "\u202eexe.txt\u200b",
    "'; rm -rf ~; echo '",
    "$(reboot) `reboot`",
    "--db=/etc/passwd"};

// The sample answers with `name` wherever a text of the user or of a file stands.
json hostile(json answer, const std::string& name) {
  answer["model"]["name"] = name;
  answer["model"]["origin"] = name;
  answer["cluster"]["device"]["name"] = name;
  answer["cluster"]["device"]["title"] = name;
  answer["cluster"]["system"] = name;
  answer["cluster"]["origin"] = name;
  answer["stack"] = {{"name", name}, {"origin", name}, {"rates_origin", name}};
  answer["workload"]["precision"] = name;
  answer["text"] = name;
  return answer;
}

json hostile_train(const std::string& name) {
  json answer = hostile(train(), name);
  answer["best"]["text"] = name;
  answer["best"]["predicted"]["breakdown_seconds"][name] = 1;
  answer["reasons"] = answer["assumptions"] = json::array({name});
  answer["search"]["rejected"][name] = 1'000'000;
  answer["runners_up"][0]["difference"] = name;
  answer["grid"]["name"] = name;
  return answer;
}

json hostile_estimate(const std::string& name) {
  PlanAnswer answer = sample::answer(8, 8, 16, 20);
  answer.predicted.violations = {{name, name, {name}}};
  return hostile(estimate(answer), name);
}

std::vector<json> hostile_answers() {
  std::vector<json> answers;
  for (const std::string& name : kHostile) {
    // JSON holds valid UTF-8 only; a stray byte becomes the control character of the same number.
    const std::string valid = std::regex_replace(name, std::regex("\x9b"), "\xc2\x9b");
    answers.push_back(hostile_train(valid));
    answers.push_back(hostile_estimate(valid));
  }
  return answers;
}

bool has_control(const std::string& text) {
  return harmless(std::regex_replace(text, std::regex("\n"), "")) !=
         std::regex_replace(text, std::regex("\n"), "");
}

TEST(HostileNames, DoNothingInText) {
  for (const json& answer : hostile_answers())
    for (const bool ascii : {false, true}) {
      const std::string text = render_text(answer, {100, false, ascii, false});
      EXPECT_FALSE(has_control(text)) << text;
      for (const std::string& line : lines_of(text)) {
        EXPECT_LE(display_width(line), 100);
        EXPECT_THAT(line, Not(testing::StartsWith("Best          TP 1")));
      }
    }
}

TEST(HostileNames, DoNothingInMarkdown) {
  for (const json& answer : hostile_answers()) {
    const std::string markdown = render_markdown(answer);
    EXPECT_FALSE(has_control(markdown));
    size_t columns = 0;
    bool in_code = false;
    for (const std::string& line : lines_of(markdown)) {
      if (line.starts_with("```")) in_code = !in_code;
      if (in_code || line.starts_with("```")) continue;
      EXPECT_THAT(line, Not(HasSubstr("<")));
      EXPECT_THAT(line, Not(HasSubstr("://")));
      EXPECT_FALSE(std::regex_search(line, std::regex(R"((^|[^\\])[\[\]`])"))) << line;
      // Every row of a table has as many cells as its head.
      const std::string plain = std::regex_replace(line, std::regex(R"(\\.)"), "");
      const auto cells = static_cast<size_t>(std::count(plain.begin(), plain.end(), '|'));
      if (!line.starts_with("|")) {
        EXPECT_EQ(cells, 0U) << line;
        columns = 0;
        continue;
      }
      if (columns == 0) columns = cells;
      EXPECT_EQ(cells, columns) << line;
    }
    EXPECT_FALSE(in_code);
  }
}

TEST(HostileNames, DoNothingInCsv) {
  for (const json& answer : hostile_answers()) {
    const std::string csv = render_csv(answer);
    EXPECT_FALSE(has_control(csv));
    for (const std::string& line : lines_of(csv)) {
      const std::vector<std::string> fields = fields_of(line);
      EXPECT_THAT(fields, SizeIs(25)) << line;
      for (const std::string& field : fields)
        EXPECT_TRUE(field.empty() ||
                    std::string("=+-@\t\r").find(field.front()) == std::string::npos)
            << field;
    }
  }
}

TEST(HostileNames, StayOneWordForAShell) {
  const std::pair<const char*, const char*> cases[] = {
      {"gpt3-175b", "gpt3-175b"}, {"", "''"},      {"a b", "'a b'"}, {"it's", "'it'\\''s'"},
      {"$(x)`y`", "'$(x)`y`'"},   {"~/m", "'~/m'"}};
  for (const auto& [word, quoted] : cases) EXPECT_EQ(shell_word(word), quoted);
  Question question;
  question.model = "--db=x";
  PlanRecord record;
  record.plan = sample::plan(8, 16, 8);
  EXPECT_THAT(estimate_command(question, record).words[3], "--model=--db=x");
}

TEST(Csv, HasOneRowAPlan) {
  const std::vector<std::string> lines = lines_of(render_csv(train()));
  ASSERT_THAT(lines, SizeIs(6));
  EXPECT_EQ(
      lines[0],
      "kind,dp,tp,pp,vpp,cp,ep,sp,mbs,gbs,recompute,zero,layers_per_stage,step_seconds,low,high,"
      "tflops_per_gpu,mfu,peak_bytes,fits,measured,model,gpu,gpus,stack");
  EXPECT_EQ(
      lines[2],
      "runner_up,32,4,8,1,1,1,true,1,1536,selective,1,12 12 12 12 12 12 12 12,20.6,18.54,22.66,"
      "151.3,0.485,55834574848,true,false,gpt3-175b,a100-80gb,1024,megatron-2022");
  EXPECT_TRUE(lines[1].starts_with("best,8,8,16,"));
  EXPECT_TRUE(lines[5].starts_with("baseline,8,8,16,1,1,1,true,1,1536,full,"));
}

TEST(Csv, LeavesUnknownFieldsEmpty) {
  PlanAnswer broken{sample::plan(7, 5, 29), {}, std::nullopt};
  broken.predicted.violations = {{"AT0102", "no", {}}};
  const std::vector<std::string> lines = lines_of(render_csv(estimate(broken)));
  ASSERT_THAT(lines, SizeIs(2));
  EXPECT_EQ(lines[1],
            "estimate,,,,,,,,,,,,,,,,,,,false,false,gpt3-175b,a100-80gb,1024,megatron-2022");
  EXPECT_THAT(lines_of(render_csv(recommendation_to_json(sample::nothing_fits()))), SizeIs(1));
}

TEST(Csv, QuotesByTheRules) {
  const std::pair<const char*, const char*> cases[] = {
      {"plain", "plain"}, {"a,b", "\"a,b\""},    {"say \"x\"", "\"say \"\"x\"\"\""},
      {"=1+2", "'=1+2"},  {"-1,2", "\"'-1,2\""}, {"\t=1", "'\\t=1"},
      {"a\nb", "a\\nb"}};
  for (const auto& [text, field] : cases) EXPECT_EQ(csv_field(text), field);
}

TEST(Markdown, TellsTheSameStoryInTables) {
  const std::string markdown = render_markdown(train());
  for (const char* part :
       {"# autotune train\n\n- gpt3-175b (174.6 B parameters",
        "## Best\n\n**TP 8  PP 16  DP 8  SP  MBS 1  recompute selective  ZeRO 1**\n\n",
        "## Why\n\n- with full recomputation: +28 % step time\n- without SP",
        "| 2 | \\~20.60 s | +3.0 % | \\~52.0 GiB | 4 | 8 | 32 | yes | 1 | selective | 1 | tp 4 "
        "instead",
        "| part | share | amount | baseline |\n| --- | ---: | ---: | ---: |\n| matrix products | "
        "66.1 % | \\~13.22 s | \\~17.32 s |\n",
        "| GiB | stage 0 | stage 8 | stage 15 |\n| --- | ---: | ---: | ---: |\n| parameter | 10.0 "
        "|",
        "| 100,000 | AT0104 | the global batch",
        "```sh\nautotune estimate train --model gpt3-175b --gpus 1024 "})
    EXPECT_THAT(markdown, HasSubstr(part));
  EXPECT_THAT(markdown, Not(HasSubstr("\n\n\n")));
  EXPECT_TRUE(markdown.ends_with("```\n"));
}

TEST(Markdown, EscapesWhatWouldBeMarkup) {
  EXPECT_EQ(markdown_escaped("a_b*c|d"), "a\\_b\\*c\\|d");
  EXPECT_EQ(markdown_escaped("<b> & @x"), "&lt;b&gt; &amp; &#64;x");
  EXPECT_EQ(markdown_escaped("http://x www.y"), "http&#58;//x &#119;ww.y");
}

}  // namespace
}  // namespace tuner
