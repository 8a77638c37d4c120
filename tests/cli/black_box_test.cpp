// Runs the program as a user does, case by case from the tables in cases/.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "tests/cli/case_file.h"
#include "tests/cli/json_schema.h"
#include "tuner/store/store.h"

namespace cli_test {

namespace fs = std::filesystem;

namespace {

// Splits "word rest of the line".
std::pair<std::string, std::string> first_word(const std::string& line) {
  const size_t end = line.find(' ');
  return {line.substr(0, end), end == std::string::npos ? "" : line.substr(end + 1)};
}

bool read_check(const std::string& line, Case& into) {
  auto [verb, rest] = first_word(line);
  if (verb == "json") {
    const auto [pointer, value] = first_word(rest);
    into.checks.push_back({Check::Kind::json, false, pointer, value, line});
    return !value.empty();
  }
  const bool of_stderr = verb.starts_with("stderr");
  if (!of_stderr && !verb.starts_with("stdout")) return false;
  verb.erase(0, 6);
  Check check{Check::Kind::contains, of_stderr, rest, "", line};
  if (verb == "!") check.kind = Check::Kind::lacks;
  if (verb == "~") check.kind = Check::Kind::matches;
  if (verb == "-empty") check.kind = Check::Kind::empty;
  const bool known = verb.empty() || check.kind != Check::Kind::contains;
  into.checks.push_back(check);
  return known && rest.empty() == (check.kind == Check::Kind::empty);
}

bool read_line(const std::string& line, Case& into) {
  const auto [verb, rest] = first_word(line);
  if (verb == "$") {
    into.script += rest + "\n";
  } else if (verb == "exit") {
    into.exit = std::stoi(rest);
  } else if (verb == "needs") {
    into.needs.push_back(rest);
  } else if (verb == "seed") {
    const auto [model, gpu] = first_word(rest);
    into.seeds.push_back({model, gpu});
  } else if (verb == "answer") {
    if (into.seeds.empty()) return false;
    into.seeds.back().answer = rest;
  } else {
    return read_check(line, into);
  }
  return true;
}

void read_file(const fs::path& path, std::vector<Case>& cases) {
  std::ifstream file(path);
  std::string line;
  const size_t first = cases.size();
  std::vector<std::string> variables;
  for (int number = 1; std::getline(file, line); ++number) {
    const std::string place = path.filename().string() + ":" + std::to_string(number);
    if (line.empty() || line.front() == '#') continue;
    if (line.starts_with("== ")) {
      cases.push_back({.place = place,
                       .name = line.substr(3),
                       .variables = variables,
                       .needs = {},
                       .seeds = {},
                       .script = {},
                       .checks = {}});
    } else if (const auto [verb, rest] = first_word(line); verb == "variable") {
      variables.push_back(rest);
    } else if (cases.size() == first || !read_line(line, cases.back())) {
      throw std::runtime_error(place + ": this line is not understood: " + line);
    }
  }
}

}  // namespace

std::vector<Case> read_cases(const std::string& folder) {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".txt") paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<Case> cases;
  for (const fs::path& path : paths) read_file(path, cases);
  for (const Case& one : cases)
    if (one.script.empty() || one.checks.empty())
      throw std::runtime_error(one.place + ": a case needs a command and a check");
  return cases;
}

namespace {

std::string text_of(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

class BlackBox : public testing::Test {
 public:
  explicit BlackBox(const Case& one) : case_(one) {
    std::string pattern = testing::TempDir() + "/cliXXXXXX";
    home_ = mkdtemp(pattern.data());
    fs::create_directories(home_ / "work");
  }
  ~BlackBox() override { fs::remove_all(home_); }

  void TestBody() override {
    for (const std::string& program : case_.needs)
      if (std::system(("command -v " + program + " > /dev/null").c_str()) != 0)
        GTEST_SKIP() << "no " << program << " here";
    for (const Seed& seed : case_.seeds) {
      tuner::RunRecord run;
      run.command_line = "autotune train --model " + seed.model;
      run.kind = "train";
      run.model = seed.model;
      run.gpu = seed.gpu;
      run.gpus = 1024;
      run.title = "tp 8 pp 16";
      run.status = "found";
      run.tool_version = "0.1.0";
      run.answer = seed.answer;
      tuner::Store(home_ / "data/autotune/autotune.db").add_run(run);
    }
    const int status = run_script();
    const std::string out = text_of(home_ / "stdout");
    const std::string err = text_of(home_ / "stderr");
    EXPECT_EQ(status, case_.exit);
    for (const Check& check : case_.checks) verify(check, check.of_stderr ? err : out);
    verify_schema(out);
    if (HasFailure())
      std::cerr << case_.place << "\n"
                << case_.script << "--- stdout\n"
                << out << "--- stderr\n"
                << err;
  }

 private:
  // Returns the exit code as a shell tells it.
  int run_script() const {
    const std::string home = home_;
    const std::string path = std::string("PATH=") + AUTOTUNE_BINARY_DIR + ":/usr/bin:/bin";
    std::vector<std::string> variables = {path,
                                          "HOME=" + home,
                                          "XDG_DATA_HOME=" + home + "/data",
                                          "XDG_CONFIG_HOME=" + home + "/config",
                                          "XDG_CACHE_HOME=" + home + "/cache",
                                          "SOURCE=" AUTOTUNE_SOURCE_DIR,
                                          "LC_ALL=C.UTF-8"};
    variables.insert(variables.end(), case_.variables.begin(), case_.variables.end());
    std::vector<char*> environment;
    for (const std::string& variable : variables)
      environment.push_back(const_cast<char*>(variable.c_str()));
    environment.push_back(nullptr);
    const pid_t child = fork();
    if (child == 0) {
      const auto redirect = [&](const char* file, int descriptor, int flags) {
        const int opened = open(file, flags, 0600);
        if (opened < 0 || dup2(opened, descriptor) < 0) _exit(126);
      };
      redirect("/dev/null", STDIN_FILENO, O_RDONLY);
      redirect((home + "/stdout").c_str(), STDOUT_FILENO, O_WRONLY | O_CREAT);
      redirect((home + "/stderr").c_str(), STDERR_FILENO, O_WRONLY | O_CREAT);
      if (chdir((home + "/work").c_str()) != 0) _exit(126);
      execle("/bin/sh", "sh", "-c", case_.script.c_str(), nullptr, environment.data());
      _exit(126);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  static void verify(const Check& check, const std::string& output) {
    switch (check.kind) {
      case Check::Kind::contains:
        EXPECT_NE(output.find(check.text), std::string::npos) << check.written;
        break;
      case Check::Kind::lacks:
        EXPECT_EQ(output.find(check.text), std::string::npos) << check.written;
        break;
      case Check::Kind::matches:
        EXPECT_TRUE(std::regex_search(output, std::regex(check.text))) << check.written;
        break;
      case Check::Kind::empty:
        EXPECT_EQ(output, "") << check.written;
        break;
      case Check::Kind::json:
        verify_json(check, output);
        break;
    }
  }

  // Every answer in JSON keeps its schema, whatever the case is about.
  static void verify_schema(const std::string& output) {
#ifdef HAS_JSON_SCHEMAS
    const auto answer = nlohmann::json::parse(output, nullptr, false);
    const bool named = answer.is_object() && answer.contains("schema");
    EXPECT_EQ(named ? schema_problems(answer) : "", "");
#else
    static_cast<void>(output);
#endif
  }

  static void verify_json(const Check& check, const std::string& output) {
    const auto answer = nlohmann::json::parse(output, nullptr, false);
    ASSERT_FALSE(answer.is_discarded()) << "standard output is not JSON";
    const nlohmann::json::json_pointer pointer(check.text == "/" ? "" : check.text);
    ASSERT_TRUE(answer.contains(pointer)) << check.written;
    EXPECT_EQ(answer.at(pointer), nlohmann::json::parse(check.value)) << check.written;
  }

  Case case_;
  fs::path home_;
};

// A name that GoogleTest accepts: letters, digits and _.
std::string test_name(const Case& one) {
  std::string name = one.name;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

const bool kRegistered = [] {
  for (const Case& one : read_cases(AUTOTUNE_SOURCE_DIR "/tests/cli/cases")) {
    const std::string suite = fs::path(one.place).stem().string();
    testing::RegisterTest(suite.c_str(), test_name(one).c_str(), nullptr, nullptr, __FILE__,
                          __LINE__, [one]() -> testing::Test* { return new BlackBox(one); });
  }
  return true;
}();

}  // namespace
}  // namespace cli_test
