// Examples of prompt tuning from JSON lines.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/base/json_reader.h"
#include "engine/data/line_reader.h"
#include "engine/tune/prompt_tuner.h"

namespace engine {
namespace {

constexpr size_t kLongestLine = 64 << 20;
constexpr size_t kMostProblems = 5;

TuningExample example_of(const std::string& text, const std::string& answer, int64_t task,
                         const Job& job, const Tokenizer& tokenizer) {
  TuningExample example;
  example.task = task;
  std::vector<int32_t> answer_tokens;
  tokenizer.encode(text, example.tokens);
  tokenizer.encode(answer, answer_tokens);
  example.answer_tokens = static_cast<int64_t>(answer_tokens.size());
  example.tokens.insert(example.tokens.end(), answer_tokens.begin(), answer_tokens.end());
  for (const int32_t token : example.tokens)
    if (token >= job.model.vocab)
      throw InputError(
          fmt::format("the tokenizer gives token {} and the model knows {}; name the "
                      "tokenizer that the model was trained with",
                      token, job.model.vocab));
  // The last token is only asked for, never read.
  const int64_t room = job.workload.seq - job.tuning->virtual_tokens + 1;
  const auto length = static_cast<int64_t>(example.tokens.size());
  if (example.answer_tokens >= room)
    throw InputError(
        fmt::format("an answer of {} tokens leaves no room for its text in sequences "
                    "of {} with {} virtual tokens",
                    example.answer_tokens, job.workload.seq, job.tuning->virtual_tokens));
  if (length > room)
    example.tokens.erase(example.tokens.begin(), example.tokens.begin() + (length - room));
  return example;
}

}  // namespace

std::vector<TuningExample> read_tuning_examples(const Job& job, const Tokenizer& tokenizer) {
  std::vector<TuningExample> examples;
  std::vector<std::string> wrong;
  for (size_t task = 0; task < job.tuning->tasks.size(); ++task) {
    const std::string& path = job.tuning->tasks[task].examples_path;
    LineReader lines(path, kLongestLine);
    const size_t before = examples.size();
    for (std::string_view line; wrong.size() < kMostProblems && lines.next(line);) {
      if (line.find_first_not_of(" \t\r\n") == std::string_view::npos) continue;
      const std::string place = fmt::format("{}:{}", path, lines.number());
      try {
        const Json json = parse_json(line, place);
        Problems problems(place);
        ObjectReader reader(json, "", problems);
        const std::string text = reader.text("text"), answer = reader.text("answer");
        if (text.empty()) reader.problem("text", "must not be empty");
        if (answer.empty()) reader.problem("answer", "must not be empty");
        problems.throw_if_any();
        examples.push_back(example_of(text, answer, static_cast<int64_t>(task), job, tokenizer));
      } catch (const InputError& error) {
        wrong.insert(wrong.end(), error.problems().begin(), error.problems().end());
      }
    }
    if (examples.size() == before && wrong.empty())
      wrong.push_back(path + ": holds no examples {\"text\", \"answer\"}");
  }
  if (!wrong.empty()) throw InputError(wrong);
  return examples;
}

}  // namespace engine
