// The worker programs: where they are, and what they tell.
#include "tuner/profile/worker_program.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "engine/base/errors.h"
#include "engine/base/json_reader.h"
#include "tuner/profile/process.h"

namespace tuner {

namespace fs = std::filesystem;
using engine::Error;
using engine::ExitCode;

namespace {

// A folder for the output of one short process.
class OutputFolder {
 public:
  OutputFolder() {
    std::string name = (fs::temp_directory_path() / "autotune-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr)
      throw Error(ExitCode::storage,
                  "no temporary folder can be made; set TMPDIR to one that can "
                  "be written");
    path_ = name;
  }
  ~OutputFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;
  std::string operator/(const char* name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace

bool is_program(const std::string& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) && access(path.c_str(), X_OK) == 0;
}

bool is_in_path(const std::string& program) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');)
    if (is_program(folder + "/" + program)) return true;
  return false;
}

std::string worker_path(TrialDevice device) {
  if (const char* named = std::getenv("AUTOTUNE_WORKER")) return named;
  std::error_code error;
  const fs::path here = fs::read_symlink("/proc/self/exe", error).parent_path();
  return here / (device == TrialDevice::cuda ? "autotune-worker-cuda" : "autotune-worker");
}

std::string find_worker(TrialDevice device) {
  const std::string path = worker_path(device);
  if (is_program(path)) return path;
  if (device == TrialDevice::cuda && std::getenv("AUTOTUNE_WORKER") == nullptr)
    throw Error(
        ExitCode::environment,
        fmt::format("this autotune was built without CUDA: there is no '{}'; build it where "
                    "the CUDA toolkit is installed, or use --device cpu",
                    path));
  throw Error(ExitCode::environment,
              fmt::format("the worker '{}' cannot be run; install autotune-worker beside autotune, "
                          "or name it in AUTOTUNE_WORKER",
                          path));
}

nlohmann::json ask_worker(const std::string& path) {
  constexpr auto kMost = std::chrono::minutes(1);
  const OutputFolder folder;
  Process process({path, "describe"}, folder / "out", folder / "errors");
  const auto start = std::chrono::steady_clock::now();
  while (!process.has_ended() && std::chrono::steady_clock::now() - start < kMost)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const auto failed = [&](const std::string& why) {
    return Error(ExitCode::environment, fmt::format("'{} describe' {}", path, why));
  };
  if (!process.start_error().empty())
    throw failed(fmt::format("cannot be started: {}", process.start_error()));
  if (!process.has_ended()) throw failed("did not answer within a minute");
  if (process.exit_code() != 0) {
    std::string said = engine::read_text_file(folder / "errors");
    if (said.size() > 300) said.resize(300);
    while (!said.empty() && said.back() == '\n') said.pop_back();
    throw failed(said.empty() ? "failed" : "failed: " + said);
  }
  return engine::parse_json(engine::read_text_file(folder / "out"), path);
}

}  // namespace tuner
