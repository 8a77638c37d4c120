// Data of a training: token files that are there, or text that is turned into them first.
#include "tuner/cli/training_data.h"

#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <optional>
#include <thread>

#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/base/json_reader.h"
#include "tuner/cli/progress.h"
#include "tuner/profile/launcher.h"
#include "tuner/profile/process.h"

namespace tuner {
namespace {

namespace fs = std::filesystem;

constexpr double kGraceSeconds = 2;

// The prefix that a name means, where its files are there.
std::optional<std::string> prefix_of(const std::string& name) {
  const std::string end = name.size() > 4 ? name.substr(name.size() - 4) : "";
  const std::string prefix =
      end == ".bin" || end == ".idx" ? name.substr(0, name.size() - 4) : name;
  std::error_code none;
  if (fs::is_regular_file(prefix + ".idx", none)) return prefix;
  return std::nullopt;
}

// What the engine said last: behind the last carriage return and in front of the line's end.
std::string last_said(const std::string& path) {
  std::string text = engine::read_text_file(path);
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  const size_t begin = text.find_last_of("\r\n");
  return begin == std::string::npos ? text : text.substr(begin + 1);
}

// An error of the engine without the name of its program.
std::string without_program(const std::string& text) {
  constexpr std::string_view kProgram = "autotune-worker: ";
  return text.starts_with(kProgram) ? text.substr(kProgram.size()) : text;
}

}  // namespace

std::string token_files(const TextSource& source, const std::string& made,
                        const std::atomic<int>& stop) {
  if (source.files.size() == 1)
    if (const auto prefix = prefix_of(source.files.front())) return *prefix;
  std::vector<std::string> words = {Launcher::find(LauncherKind::local).worker,
                                    "tokenize",
                                    "--tokenizer",
                                    source.tokenizer,
                                    "--output",
                                    made};
  for (const std::string& file : source.files) words.insert(words.end(), {"--input", file});
  fs::create_directories(engine::folder_of(made));
  const std::string said = made + ".log";
  ProgressLine line;
  Process process(words, "/dev/null", said);
  if (!process.start_error().empty())
    throw engine::Error(engine::ExitCode::environment,
                        fmt::format("'{}' cannot be started: {}", words[0], process.start_error()));
  const auto start = std::chrono::steady_clock::now();
  while (!process.has_ended()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (stop != 0) {
      process.end(kGraceSeconds);
      throw engine::Error(
          stop == SIGINT ? engine::ExitCode::interrupted : engine::ExitCode::terminated,
          "interrupted while the text was tokenized; nothing was trained yet");
    }
    if (std::chrono::steady_clock::now() - start > std::chrono::seconds(2))
      line.tell("tokenizing: " + last_said(said));
  }
  if (process.exit_code() == 0) return made;
  const auto code = process.signal() != 0 ? engine::ExitCode::internal
                                          : static_cast<engine::ExitCode>(process.exit_code());
  throw engine::Error(
      code, fmt::format("the text cannot be tokenized: {}", without_program(last_said(said))));
}

}  // namespace tuner
