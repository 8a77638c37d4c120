// autotune run: hands work to the built-in engine, which is a program of its own.
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "engine/base/errors.h"
#include "tuner/cli/commands.h"

namespace tuner {
namespace {

// The engine's program, which stands beside this one.
std::string worker_path() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto worker = self.parent_path() / "autotune-worker";
  if (error || !std::filesystem::exists(worker))
    throw engine::Error(
        engine::ExitCode::environment,
        worker.string() + " is missing; it is built where libdnnl-dev is installed, see setup.sh");
  return worker.string();
}

// Becomes the engine.
[[noreturn]] void become_worker(const std::vector<std::string>& words) {
  const std::string path = worker_path();
  std::vector<char*> arguments = {const_cast<char*>(path.c_str())};
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execv(path.c_str(), arguments.data());
  throw engine::Error(engine::ExitCode::environment,
                      path + " cannot be started: " + std::strerror(errno));
}

int run_tokenize(const Arguments& arguments) {
  std::vector<std::string> words = {"tokenize"};
  for (const std::string& input : arguments.texts("--input"))
    words.insert(words.end(), {"--input", input});
  for (const char* name : {"--output", "--tokenizer", "--format", "--key", "--separator"})
    if (const auto value = arguments.text(name)) words.insert(words.end(), {name, *value});
  for (const char* name : {"--no-end", "--skip-bad-lines", "--json"})
    if (arguments.flag(name)) words.emplace_back(name);
  become_worker(words);
}

}  // namespace

Command run_tokenize_command() {
  return {.words = "run tokenize",
          .summary = "Turn text into the token files that training reads",
          .description =
              "Writes Megatron's indexed files OUTPUT.bin and OUTPUT.idx. Memory use is "
              "constant; bad JSON lines are named by file and line.",
          .examples = {{"run tokenize --input corpus.txt --output data/corpus", "Bytes as tokens"},
                       {"run tokenize --input a.jsonl,b.jsonl --key content --output data/web "
                        "--tokenizer tokenizer.model",
                        "JSON lines, with a sentencepiece model"}},
          .options = {{.name = "--input",
                       .kind = ValueKind::texts,
                       .placeholder = "FILES",
                       .help = "Text files, or JSON lines (*.jsonl)",
                       .required = true},
                      {.name = "--output",
                       .kind = ValueKind::text,
                       .placeholder = "PREFIX",
                       .help = "Common path of the two files",
                       .required = true},
                      {.name = "--tokenizer",
                       .kind = ValueKind::text,
                       .placeholder = "NAME",
                       .help = "bytes, or the path of a sentencepiece model",
                       .default_text = "bytes"},
                      {.name = "--format",
                       .kind = ValueKind::text,
                       .help = "What the files hold",
                       .default_text = "by their names",
                       .choices = {"text", "jsonl"}},
                      {.name = "--key",
                       .kind = ValueKind::text,
                       .placeholder = "NAME",
                       .help = "Member of a JSON line with the text",
                       .default_text = "text"},
                      {.name = "--separator",
                       .kind = ValueKind::text,
                       .placeholder = "LINE",
                       .help = "A line of exactly this parts the documents of a text file"},
                      {.name = "--no-end",
                       .kind = ValueKind::flag,
                       .help = "Do not end documents with the end-of-document token"},
                      {.name = "--skip-bad-lines",
                       .kind = ValueKind::flag,
                       .help = "Leave out lines that are not as said, and count them"},
                      json_option()},
          .run = run_tokenize};
}

}  // namespace tuner
