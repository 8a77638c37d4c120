// Holds every source file to the project's layers and house rules: who may include whom, where a
// vendor's header may stand, how long a file may be.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

struct Source {
  std::string path;    // "engine/plan/job.h"
  std::string folder;  // "engine/plan", the layer
  std::vector<std::string> lines;
  std::vector<std::string> includes;  // as written, without quotes or brackets

  bool is_header() const { return path.ends_with(".h") || path.ends_with(".cuh"); }
  bool is_cuda() const { return path.ends_with(".cu") || path.ends_with(".cuh"); }
};

// The layer of a path: two folders deep below engine and tuner, else the first.
std::string layer_of(const std::string& path) {
  const size_t first = path.find('/');
  const std::string top = path.substr(0, first);
  if (top != "engine" && top != "tuner") return top;
  return path.substr(0, path.find('/', first + 1));
}

Source read_source(const fs::path& root, const fs::path& file) {
  static const std::regex kInclude(R"(^\s*#\s*include\s*[<"]([^>"]+)[>"])");
  Source source;
  source.path = fs::relative(file, root).string();
  source.folder = layer_of(source.path);
  std::ifstream text(file);
  for (std::string line; std::getline(text, line); source.lines.push_back(line))
    if (std::smatch match; std::regex_search(line, match, kInclude))
      source.includes.push_back(match[1]);
  return source;
}

const std::vector<Source>& sources() {
  static const std::vector<Source> kSources = [] {
    const fs::path root = AUTOTUNE_SOURCE_DIR;
    std::vector<Source> found;
    for (const char* top : {"kernels", "engine", "tuner", "tests"})
      for (const auto& entry : fs::recursive_directory_iterator(root / top)) {
        static const std::set<std::string> kEndings = {".h", ".cpp", ".cu", ".cuh"};
        if (entry.is_regular_file() && kEndings.count(entry.path().extension().string()) != 0)
          found.push_back(read_source(root, entry.path()));
      }
    std::sort(found.begin(), found.end(),
              [](const Source& a, const Source& b) { return a.path < b.path; });
    return found;
  }();
  return kSources;
}

bool is_test(const Source& source) { return source.folder == "tests"; }

// What each layer may include directly: itself, and these with all that stands below them.
const std::map<std::string, std::vector<std::string>> kBelow = {
    {"kernels", {}},
    {"engine/base", {}},
    {"engine/plan", {"engine/base"}},
    {"engine/device", {"kernels", "engine/plan"}},
    {"engine/tensor", {"engine/device"}},
    {"engine/comm", {"engine/tensor"}},
    {"engine/nn", {"engine/comm", "engine/checkpoint"}},
    {"engine/data", {"kernels", "engine/base"}},
    {"engine/checkpoint", {"kernels", "engine/plan"}},
    {"engine/train", {"engine/nn", "engine/data", "engine/checkpoint"}},
    {"engine/infer", {"engine/nn", "engine/data"}},
    {"engine/tune", {"engine/train", "engine/infer"}},
    {"engine/worker", {"engine/tune"}},
    {"tuner/model", {"engine/plan"}},
    {"tuner/space", {"tuner/model"}},
    {"tuner/profile", {"tuner/model", "tuner/store"}},
    {"tuner/store", {"engine/plan"}},
    {"tuner/search", {"tuner/space", "tuner/profile"}},
    {"tuner/validate", {"tuner/search"}},
    {"tuner/report", {"tuner/search"}},
    {"tuner/exchange", {"tuner/space"}},
    {"tuner/cli", {"tuner/report", "tuner/exchange", "tuner/validate"}},
};

void add_reachable(const std::string& layer, std::set<std::string>& reachable) {
  if (!reachable.insert(layer).second) return;
  for (const std::string& below : kBelow.at(layer)) add_reachable(below, reachable);
}

std::set<std::string> reachable_from(const std::string& layer) {
  std::set<std::string> reachable;
  add_reachable(layer, reachable);
  return reachable;
}

TEST(Layering, EverySourceBelongsToALayer) {
  ASSERT_GT(sources().size(), 20u);
  for (const Source& source : sources())
    EXPECT_TRUE(is_test(source) || kBelow.count(source.folder) != 0)
        << source.path << ": '" << source.folder << "' is not in the table of layers";
}

TEST(Layering, IncludesRunOneWay) {
  int checked = 0;
  for (const Source& source : sources()) {
    if (is_test(source) || kBelow.count(source.folder) == 0) continue;
    const auto allowed = reachable_from(source.folder);
    for (const std::string& include : source.includes) {
      const std::string layer = layer_of(include);
      if (kBelow.count(layer) == 0) continue;
      ++checked;
      EXPECT_TRUE(allowed.count(layer) != 0) << source.path << " includes " << include;
    }
  }
  EXPECT_GT(checked, 20);
}

TEST(Layering, OwnHeadersAreIncludedByTheirFullPath) {
  const std::regex own("^#include \"([^\"]+)\"");
  for (const Source& source : sources())
    for (const std::string& line : source.lines)
      if (std::smatch match; std::regex_search(line, match, own)) {
        EXPECT_TRUE(fs::exists(fs::path(AUTOTUNE_SOURCE_DIR) / match[1].str()))
            << source.path << ": " << line;
      }
}

// A vendor's header, and the files that may include it, as regular expressions.
struct VendorRule {
  std::string header;
  std::string files;
  size_t most_files;  // outside the tests
};

TEST(Layering, VendorHeadersStayInTheirPlace) {
  const std::string cuda_files =
      R"(.*\.cuh?|engine/device/cuda/.*|engine/comm/(cuda|nccl)/.*|kernels/cuda(/.*|\.h)|tests/.*cuda.*)";
  const VendorRule rules[] = {
      {R"(cuda.*|cublas.*|cudnn.*|nccl.*|nv.*\.h|cub/.*|thrust/.*)", cuda_files, 100},
      {R"(mpi\.h)", ".*", 1},
      {R"((oneapi/dnnl/)?dnnl.*)", ".*", 1},
      {R"(sentencepiece.*)", R"(engine/data/sentencepiece/.*)", 1},
      {R"(sqlite3.*)", "tuner/store/.*", 1},
      {R"(toml\+\+/.*)", R"(tuner/(cli/settings_file|exchange/toml)\.cpp)", 2},
      {R"(CLI/.*)", R"(tuner/cli/parser\.cpp)", 1},
      {R"(yaml-cpp/.*)", R"(tuner/exchange/yaml\.cpp)", 1},
      {R"(nlohmann/json\.hpp)", R"(.*\.cpp)", 1000},
  };
  for (const VendorRule& rule : rules) {
    std::set<std::string> users;
    for (const Source& source : sources())
      for (const std::string& include : source.includes) {
        if (!std::regex_match(include, std::regex(rule.header))) continue;
        if (is_test(source) && !source.is_header()) continue;
        users.insert(source.path);
        EXPECT_TRUE(std::regex_match(source.path, std::regex(rule.files)))
            << source.path << " includes " << include;
      }
    EXPECT_LE(users.size(), rule.most_files)
        << rule.header << " is included by " << testing::PrintToString(users);
  }
}

TEST(HouseRules, FirstLineSaysWhatTheFileIs) {
  for (const Source& source : sources())
    EXPECT_TRUE(!source.lines.empty() && source.lines.front().starts_with("// ") &&
                source.lines.front().size() > 12)
        << source.path;
}

TEST(HouseRules, HeadersAreGuarded) {
  for (const Source& source : sources())
    EXPECT_TRUE(!source.is_header() || std::find(source.lines.begin(), source.lines.end(),
                                                 "#pragma once") != source.lines.end())
        << source.path;
}

TEST(HouseRules, FilesAndLinesAreShort) {
  constexpr size_t kMostLines = 400;
  // 100 columns of UTF-8 and a little; raw strings may be longer.
  constexpr size_t kMostBytes = 160;
  for (const Source& source : sources()) {
    EXPECT_LE(source.lines.size(), kMostLines) << source.path;
    for (const std::string& line : source.lines)
      EXPECT_TRUE(line.size() <= kMostBytes || line.find("R\"(") != std::string::npos)
          << source.path << ": " << line;
  }
}

TEST(HouseRules, NothingUnwantedIsUsed) {
  struct Unwanted {
    std::string text;
    std::string why;
  };
  const Unwanted unwanted[] = {
      {std::string("std::") + "views", "clang 14 does not compile it"},
      {std::string("std::") + "format(", "use fmt"},
      {std::string("/") + "work/", "a path of one machine"},
      {std::string("/") + "root/", "a path of one machine"},
      {std::string("TO") + "DO", "finish it or leave it out"},
      {std::string("FIX") + "ME", "finish it or leave it out"},
  };
  for (const Source& source : sources())
    for (size_t i = 0; i < source.lines.size(); ++i)
      for (const Unwanted& one : unwanted)
        EXPECT_EQ(source.lines[i].find(one.text), std::string::npos)
            << source.path << ":" << i + 1 << ": " << one.text << ": " << one.why;
}

}  // namespace
