// autotune run generate: text from a checkpoint, as it comes.
#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/base/json_reader.h"
#include "tuner/cli/commands.h"
#include "tuner/cli/serving_job.h"
#include "tuner/cli/trial_device.h"

namespace tuner {

using engine::Json;

namespace {

// One prompt a line; the lines of a *.jsonl file are requests as the worker reads them.
std::vector<Json> prompts_of(std::istream& lines, bool are_requests, const std::string& source) {
  std::vector<Json> prompts;
  int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string place = fmt::format("{}:{}", source, number);
    Json prompt = are_requests ? engine::parse_json(line, place) : Json{{"prompt", line}};
    if (!prompt.is_object())
      throw engine::InputError(place + ": must be an object with a \"prompt\"");
    prompts.push_back(std::move(prompt));
  }
  if (prompts.empty())
    throw engine::InputError(source + ": holds no prompt; give --prompt TEXT or a line of text");
  return prompts;
}

std::vector<Json> requests_of(const Arguments& arguments) {
  std::vector<Json> requests;
  const auto prompt = arguments.text("--prompt"), input = arguments.text("--input");
  if (prompt && input) throw engine::InputError("--prompt and --input: give one of them");
  if (prompt) {
    requests.push_back({{"prompt", *prompt}});
  } else if (!input || *input == "-") {
    requests = prompts_of(std::cin, false, "standard input");
  } else {
    std::ifstream file(*input);
    if (!file) throw engine::InputError(*input + ": cannot be read; name a file of prompts");
    requests = prompts_of(file, input->ends_with(".jsonl"), *input);
  }
  const auto set = [&](const char* key, const auto& value) {
    if (!value) return;
    for (Json& request : requests)
      if (!request.contains(key)) request[key] = *value;
  };
  set("max_tokens", arguments.integer("--max-tokens"));
  set("temperature", arguments.number("--temperature"));
  set("top_k", arguments.integer("--top-k"));
  set("top_p", arguments.number("--top-p"));
  set("task", arguments.text("--task"));
  return requests;
}

void write_requests(const std::vector<Json>& requests, const std::string& path) {
  engine::FileWriter file(path);
  for (const Json& request : requests) {
    const std::string line = json_text(request, -1) + "\n";
    file.append(line.data(), line.size());
  }
  file.close();
}

// Prints the texts in the order of their prompts, the first unfinished one as it comes.
class TextPrinter {
 public:
  explicit TextPrinter(bool streams) : streams_(streams) {}

  void add(const Json& event) {
    const std::string name = event.value("event", "");
    if (name != "token" && name != "finished") return;
    Answer& answer = answers_[event.value("request", int64_t{0})];
    if (name == "token") answer.text += event.value("text", "");
    if (name == "finished") answer.end = event;
    if (streams_) print();
  }

  Json to_json(const std::vector<Json>& requests) const {
    Json list = Json::array();
    for (const auto& [id, answer] : answers_)
      list.push_back({{"prompt", requests.at(static_cast<size_t>(id)).value("prompt", "")},
                      {"text", answer.text},
                      {"finish", answer.end.value("finish", "cancelled")},
                      {"prompt_tokens", answer.end.value("prompt_tokens", 0)},
                      {"tokens", answer.end.value("tokens", 0)}});
    return list;
  }

 private:
  struct Answer {
    std::string text;
    Json end = Json::object();
    size_t printed = 0;
  };

  void print() {
    for (auto at = answers_.find(next_); at != answers_.end(); at = answers_.find(next_)) {
      Answer& answer = at->second;
      print_result(std::string_view(answer.text).substr(answer.printed));
      answer.printed = answer.text.size();
      if (answer.end.empty()) break;
      print_result("\n");
      ++next_;
    }
    // A reader that went away wants no more.
    if (std::fflush(stdout) != 0) std::raise(SIGTERM);
  }

  bool streams_;
  std::map<int64_t, Answer> answers_;
  int64_t next_ = 0;
};

int run_generate(const Arguments& arguments) {
  engine::Job job = checkpoint_job(arguments);
  const std::vector<Json> requests = requests_of(arguments);
  const ScratchFolder folder;
  job.serving->requests_path = folder.path() + "/requests.jsonl";
  write_requests(requests, job.serving->requests_path);
  const bool json = arguments.flag("--json");
  TextPrinter printer(!json);
  const StopSignals signals;
  engine::Outcome outcome;
  std::exception_ptr stopped;
  try {
    outcome = run_job(job, trial_device_of(arguments), folder.path(), signals,
                      [&](const Json& event) { printer.add(event); });
  } catch (const engine::Error& error) {
    if (signals.seen() == 0) throw;
    stopped = std::current_exception();
  }
  if (json) {
    Json answer = {{"schema", "autotune.run_generate/1"},
                   {"plan", engine::plan_to_json(job.plan, job.model.layers)},
                   {"results", printer.to_json(requests)},
                   {"serving", nullptr}};
    if (outcome.serving) answer["serving"] = engine::serving_outcome_to_json(*outcome.serving);
    print_result(json_text(answer) + "\n");
  }
  if (stopped && std::ferror(stdout) == 0) std::rethrow_exception(stopped);
  return 0;
}

}  // namespace

Command run_generate_command() {
  Command command{
      .words = "run generate",
      .summary = "Generate text from a checkpoint with the built-in engine",
      .description =
          "Prompts come from --prompt, a file or standard input, one a line, and run together in "
          "continuous batches over a paged KV cache. The text depends on prompt, place and seed "
          "alone, not on the plan. A *.jsonl file gives each prompt its own max_tokens, "
          "temperature, top_k, top_p, seed and task. Ctrl-C keeps what was generated.",
      .examples = {{"run generate --checkpoint runs/book --prompt 'It was'", "The likeliest text"},
                   {"run generate --checkpoint runs/book --input prompts.txt --temperature 0.8 "
                    "--top-p 0.95 --tp 2",
                    "Draws for each line of a file, on two ranks"}},
      .options = {{.name = "--prompt",
                   .kind = ValueKind::text,
                   .placeholder = "TEXT",
                   .help = "What the text begins with"},
                  {.name = "--input",
                   .kind = ValueKind::text,
                   .placeholder = "FILE",
                   .help = "A prompt a line, or requests (*.jsonl); - is standard input",
                   .default_text = "standard input without --prompt"},
                  {.name = "--max-tokens",
                   .kind = ValueKind::integer,
                   .placeholder = "N",
                   .help = "Tokens to generate, at most",
                   .default_text = "64",
                   .low = 1,
                   .high = 1e9},
                  {.name = "--temperature",
                   .kind = ValueKind::number,
                   .placeholder = "X",
                   .help = "Of the draws; 0 takes the likeliest token",
                   .default_text = "0",
                   .high = 1e3},
                  {.name = "--top-k",
                   .kind = ValueKind::integer,
                   .placeholder = "N",
                   .help = "Draw among the likeliest tokens; 0 = all",
                   .default_text = "0",
                   .high = 1e9},
                  {.name = "--top-p",
                   .kind = ValueKind::number,
                   .placeholder = "X",
                   .help = "Draw among the likeliest tokens that hold this probability",
                   .default_text = "1",
                   .low = 1e-6,
                   .high = 1},
                  {.name = "--task",
                   .kind = ValueKind::text,
                   .placeholder = "NAME",
                   .help = "Whose virtual tokens stand in front",
                   .default_text = "that of the only --prompt-file"}},
      .run = run_generate};
  for (Option& option : checkpoint_options()) command.options.push_back(std::move(option));
  command.options.push_back(json_option());
  return command;
}

}  // namespace tuner
