// Report pages in a real browser: no console error, every chart has marks, tables sort and filter,
// hostile names do nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <regex>
#include <sstream>

#include "tests/support/temporary_folder.h"

namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

int run(const std::string& command) {
  return std::system(("/bin/sh -c '" + command + "'").c_str());
}

std::string browser() {
  for (const char* path :
       {"/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"})
    if (std::ifstream(path).good()) return path;
  return {};
}

struct Visit {
  std::string dom;      // after all scripts ran
  std::string console;  // what pages wrote there, errors included
};

class Browser : public testing::Test {
 protected:
  void SetUp() override {
    if (browser().empty()) GTEST_SKIP() << "no Chromium here (Debian: chromium)";
  }

  std::string path(const std::string& name) const { return folder_ / name; }

  // Writes a page of what the commands stored; they are run with our own store.
  void make_page(const std::string& commands) {
    const std::string program = AUTOTUNE_BINARY_DIR "/autotune";
    const std::string script =
        "cd " + path("") +
        " && export HOME=$PWD XDG_DATA_HOME=$PWD/data XDG_CONFIG_HOME=$PWD/c;\n"
        "autotune() { " +
        program + " \"$@\"; }\n" + commands;
    std::ofstream(path("make.sh")) << script;
    ASSERT_EQ(run("sh " + path("make.sh") + " > /dev/null 2>" + path("err")), 0)
        << text_of(path("err"));
  }

  // Opens the page with one more script at its end.
  Visit visit(const std::string& script) {
    std::string page = text_of(path("page.html"));
    const size_t end = page.rfind("</body>");
    EXPECT_NE(end, std::string::npos);
    page.insert(end, "<script>" + script + "</script>");
    std::ofstream(path("visited.html"), std::ios::binary) << page;
    const std::string flags =
        " --headless --no-sandbox --disable-gpu --disable-quic --no-first-run "
        "--disable-background-networking --disable-component-update --disable-sync "
        "--enable-logging=stderr --virtual-time-budget=20000 --user-data-dir=" +
        path("profile");
    EXPECT_EQ(run("HOME=" + path("") + " timeout 120 " + browser() + flags + " --dump-dom file://" +
                  path("visited.html") + " > " + path("dom") + " 2> " + path("log")),
              0)
        << text_of(path("log"));
    Visit visit{text_of(path("dom")), ""};
    std::istringstream log(text_of(path("log")));
    for (std::string line; std::getline(log, line);)
      if (line.find("CONSOLE") != std::string::npos) visit.console += line + "\n";
    return visit;
  }

  // Each chart drew something, and there are so many.
  static void expect_charts(const Visit& visit, int count) {
    EXPECT_EQ(visit.console, "");
    EXPECT_THAT(visit.dom, HasSubstr("data-drawn=\"" + std::to_string(count) + "\""));
    const std::regex canvas("<canvas[^>]*>"), marked(" data-marks=\"[1-9]");
    int seen = 0;
    for (std::sregex_iterator at(visit.dom.begin(), visit.dom.end(), canvas), last; at != last;
         ++at, ++seen)
      EXPECT_TRUE(std::regex_search(at->str(), marked)) << at->str();
    EXPECT_EQ(seen, count);
  }

 private:
  const TemporaryFolder folder_;
};

// Clicks a title twice and tells the column after each; then filters the rows.
constexpr const char* kSortAndFilter = R"(
  const table = [...document.querySelectorAll("table")].find((t) => t.textContent.includes("slower"));
  const column = () => [...table.tBodies].map((b) => b.rows[0].cells[0].textContent).join(" ");
  const button = [...table.querySelectorAll("th button")].find((b) => b.textContent === "step");
  button.click();
  document.body.dataset.up = column();
  button.click();
  document.body.dataset.down = column();
  const filter = table.closest("section").querySelector("input");
  filter.value = "full:1";
  filter.dispatchEvent(new Event("input"));
  document.body.dataset.left = [...table.tBodies].filter((b) => !b.hidden).length;
  const details = document.querySelector("details[data-chart]");
  details.open = true;
  details.dispatchEvent(new Event("toggle"));
  document.body.dataset.numbers = details.querySelectorAll("tbody").length;
)";

TEST_F(Browser, TrainingPageDrawsItsChartsAndSortsItsTables) {
  make_page("autotune train --model 175b --gpus 1024 && autotune report --html page.html");
  const Visit page = visit(kSortAndFilter);
  expect_charts(page, 3);
  EXPECT_THAT(page.dom, HasSubstr("<svg class=\"timeline\""));
  EXPECT_THAT(page.dom, HasSubstr("data-up=\"best 2 3 4 5 6 7\""));
  EXPECT_THAT(page.dom, HasSubstr("data-down=\"7 6 5 4 3 2 best\""));
  EXPECT_TRUE(std::regex_search(page.dom, std::regex("data-left=\"[1-5]\"")));
  EXPECT_TRUE(std::regex_search(page.dom, std::regex("data-numbers=\"[1-9]")));
}

TEST_F(Browser, ServingPageDrawsTheFrontierOfEveryBudget) {
  make_page(
      "autotune infer --model llama-3.1-8b --gpus 4 --gpu h100-80gb --ttft 200ms && "
      "autotune report --html page.html");
  expect_charts(visit(""), 4);
}

TEST_F(Browser, SweepPageDrawsScaling) {
  make_page(
      "autotune train --model 20b --gpus 16,32,64 --gpu-hour-price 2 && "
      "autotune report --html page.html");
  expect_charts(visit(""), 4);
}

TEST_F(Browser, HostileNamesDoNothing) {
  make_page(R"sh(
name='<img src=x onerror=document.title="pwned"><b>'"$(printf '\033[2J')"'&quot; onload="x'
mkdir -p "$name"
cat > "$name/config.json" <<END
{"model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
 "num_attention_heads": 32, "vocab_size": 32000, "max_position_embeddings": 4096}
END
autotune train --model "$name/config.json" --gpus 8 && autotune report --html page.html
)sh");
  const Visit page = visit("");
  EXPECT_EQ(page.console, "");
  EXPECT_THAT(page.dom, Not(HasSubstr("<img")));
  EXPECT_THAT(page.dom, Not(HasSubstr("<title>pwned")));
  EXPECT_THAT(page.dom, HasSubstr("&lt;img src=x"));
  EXPECT_THAT(page.dom, HasSubstr("\\x1b[2J"));
}

}  // namespace
