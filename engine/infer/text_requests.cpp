// Requests of text files as tokens.
#include "engine/infer/text_requests.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/base/json_reader.h"
#include "engine/data/line_reader.h"

namespace engine {
namespace {

constexpr size_t kLongestLine = 64 << 20;
constexpr size_t kMostProblems = 5;
constexpr int64_t kDefaultTokens = 64;

// Calls read(object, number) for each line that is not empty, and collects what is wrong.
template <class Read>
void each_line(const std::string& path, Read read) {
  LineReader lines(path, kLongestLine);
  std::vector<std::string> wrong;
  int64_t found = 0;
  for (std::string_view line; lines.next(line);) {
    if (line.find_first_not_of(" \t\r\n") == std::string_view::npos) continue;
    const std::string place = fmt::format("{}:{}", path, lines.number());
    ++found;
    try {
      const Json json = parse_json(line, place);
      Problems problems(place);
      ObjectReader reader(json, "", problems);
      read(reader, lines.number());
      problems.throw_if_any();
    } catch (const InputError& error) {
      wrong.insert(wrong.end(), error.problems().begin(), error.problems().end());
      if (wrong.size() >= kMostProblems) break;
    }
  }
  if (found == 0) wrong.push_back(path + ": holds no lines");
  if (!wrong.empty()) throw InputError(wrong);
}

class Encoder {
 public:
  Encoder(const TextLimits& limits, const Tokenizer& tokenizer)
      : limits_(limits), tokenizer_(tokenizer) {}
  std::vector<int32_t> operator()(std::string_view text) const {
    std::vector<int32_t> tokens;
    tokenizer_.encode(text, tokens);
    for (const int32_t token : tokens)
      if (token >= limits_.vocab)
        throw InputError(
            fmt::format("the tokenizer gives token {} and the model knows {}; name the tokenizer "
                        "that the model was trained with",
                        token, limits_.vocab));
    return tokens;
  }

 private:
  const TextLimits& limits_;
  const Tokenizer& tokenizer_;
};

// Adds a request that scores the last `asked` tokens behind virtual ones.
void add_scored(EvaluationSet& set, EvaluationSet::Item item, const std::vector<int32_t>& virtuals,
                std::vector<int32_t> tokens, size_t asked, int64_t longest) {
  const size_t room = static_cast<size_t>(longest) - virtuals.size() + 1;
  if (tokens.size() > room) {
    tokens.erase(tokens.begin(), tokens.end() - static_cast<std::ptrdiff_t>(room));
    ++set.shortened;
  }
  Request request;
  request.id = static_cast<int64_t>(set.requests.size());
  request.prompt = virtuals;
  request.prompt.insert(request.prompt.end(), tokens.begin(), tokens.end() - 1);
  request.targets.assign(request.prompt.size(), -1);
  asked = std::min(asked, request.targets.size());
  std::copy(tokens.end() - static_cast<std::ptrdiff_t>(asked), tokens.end(),
            request.targets.end() - static_cast<std::ptrdiff_t>(asked));
  set.requests.push_back(std::move(request));
  set.items.push_back(item);
}

void read_windows(const ServingSpec& spec, const TextLimits& limits, const Encoder& encode,
                  const std::vector<int32_t>& virtuals, EvaluationSet& set) {
  constexpr int64_t kLargestText = int64_t{1} << 32;
  const std::vector<int32_t> tokens = encode(read_text_file(spec.requests_path, kLargestText));
  if (tokens.size() < 2)
    throw InputError(spec.requests_path + ": holds no text to measure; give two tokens or more");
  const size_t window = static_cast<size_t>(limits.longest) - virtuals.size();
  const size_t stride =
      spec.stride > 0 ? std::min(static_cast<size_t>(spec.stride), window) : window;
  // Behind virtual tokens the first token is asked, too; else nothing comes before it.
  for (size_t scored = virtuals.empty() ? 1 : 0; scored < tokens.size();) {
    const size_t end = std::min(tokens.size(), scored + (scored <= 1 ? window : stride));
    const size_t begin = end > window + 1 ? end - window - 1 : 0;
    add_scored(set, {static_cast<int64_t>(set.requests.size()), 0}, virtuals,
               {tokens.begin() + static_cast<std::ptrdiff_t>(begin),
                tokens.begin() + static_cast<std::ptrdiff_t>(end)},
               end - scored, limits.longest);
    scored = end;
  }
}

// The tokens of a text, and how many of them belong to its continuation.
std::pair<std::vector<int32_t>, size_t> continued(const Encoder& encode, const std::string& context,
                                                  const std::string& continuation) {
  std::vector<int32_t> whole = encode(context + continuation);
  const size_t before = std::min(encode(context).size(), whole.size());
  const size_t asked = whole.size() - before;
  return {std::move(whole), asked};
}

std::vector<std::string> texts_of(ObjectReader& reader, const std::string& key) {
  std::vector<std::string> texts;
  const Json& list = reader.value(key);
  bool good = list.is_array() && list.size() > 1;
  for (const Json& item : good ? list : Json::array()) {
    good = good && item.is_string() && !item.get<std::string>().empty();
    if (good) texts.push_back(item.get<std::string>());
  }
  if (!good) reader.problem(key, "must be a list of two or more texts");
  return good ? texts : std::vector<std::string>();
}

void read_choices(ObjectReader& reader, const TextLimits& limits, const Encoder& encode,
                  const std::vector<int32_t>& virtuals, EvaluationSet& set) {
  const std::string context = reader.text("context");
  const std::vector<std::string> choices = texts_of(reader, "choices");
  const int64_t answer =
      reader.integer("answer", {0, std::max<int64_t>(0, static_cast<int64_t>(choices.size()) - 1)});
  if (context.empty()) reader.problem("context", "must not be empty");
  if (context.empty() || choices.empty()) return;
  const auto example = static_cast<int64_t>(set.answers.size());
  set.answers.push_back(answer);
  for (size_t i = 0; i < choices.size(); ++i) {
    auto [tokens, asked] = continued(encode, context, choices[i]);
    add_scored(set, {example, static_cast<int64_t>(i)}, virtuals, std::move(tokens), asked,
               limits.longest);
  }
}

void read_last_word(ObjectReader& reader, const TextLimits& limits, const Encoder& encode,
                    const std::vector<int32_t>& virtuals, EvaluationSet& set) {
  std::string text = reader.text("text");
  text.erase(text.find_last_not_of(" \t\r\n") + 1);
  const size_t blank = text.find_last_of(" \t\r\n");
  if (blank == std::string::npos || blank == 0)
    return reader.problem("text", "must have two words or more");
  auto [tokens, asked] = continued(encode, text.substr(0, blank), text.substr(blank));
  const auto example = static_cast<int64_t>(set.answers.size());
  set.answers.push_back(0);
  add_scored(set, {example, 0}, virtuals, std::move(tokens), asked, limits.longest);
}

}  // namespace

std::vector<Request> read_requests(const ServingSpec& spec, const TextLimits& limits,
                                   const Tokenizer& tokenizer, const PromptTable& prompts) {
  const Encoder encode(limits, tokenizer);
  std::vector<Request> requests;
  const bool ends = tokenizer.end_of_document() < limits.vocab;
  each_line(spec.requests_path, [&](ObjectReader& reader, int64_t) {
    Request& request = requests.emplace_back();
    request.id = static_cast<int64_t>(requests.size()) - 1;
    request.prompt = prompts.tokens_of(reader.text("task", ""));
    const std::vector<int32_t> text = encode(reader.text("prompt"));
    request.prompt.insert(request.prompt.end(), text.begin(), text.end());
    request.most_tokens = reader.integer("max_tokens", {1, int64_t{1} << 32}, kDefaultTokens);
    request.sampling.temperature = reader.number("temperature", {0, 1e3}, 0.0);
    request.sampling.top_k = reader.integer("top_k", {0, 1 << 30}, 0);
    request.sampling.top_p = reader.number("top_p", {1e-6, 1}, 1.0);
    request.sampling.seed =
        static_cast<uint64_t>(reader.integer("seed", {}, static_cast<int64_t>(limits.seed)));
    if (ends && !reader.flag("ignore_end", false)) request.end_token = tokenizer.end_of_document();
    reader.finish();
  });
  return requests;
}

EvaluationSet read_evaluation(const ServingSpec& spec, const TextLimits& limits,
                              const Tokenizer& tokenizer, const PromptTable& prompts) {
  const Encoder encode(limits, tokenizer);
  const std::vector<int32_t> virtuals = prompts.tokens_of("");
  if (static_cast<int64_t>(virtuals.size()) + 1 >= limits.longest)
    throw InputError(fmt::format("{} virtual tokens leave no room in sequences of {}",
                                 virtuals.size(), limits.longest));
  EvaluationSet set;
  set.kind = spec.evaluation;
  if (set.kind == Evaluation::perplexity)
    read_windows(spec, limits, encode, virtuals, set);
  else
    each_line(spec.requests_path, [&](ObjectReader& reader, int64_t) {
      if (set.kind == Evaluation::choice)
        read_choices(reader, limits, encode, virtuals, set);
      else
        read_last_word(reader, limits, encode, virtuals, set);
    });
  return set;
}

EvaluationSums sum_up(const EvaluationSet& set,
                      const std::map<int64_t, std::vector<Choice>>& scores) {
  EvaluationSums sums;
  std::map<int64_t, std::pair<double, int64_t>> best;  // by example: lowest loss, its choice
  for (const auto& [id, choices] : scores) {
    const Request& request = set.requests[static_cast<size_t>(id)];
    const EvaluationSet::Item& item = set.items[static_cast<size_t>(id)];
    double loss = 0;
    bool all_right = true;
    size_t next = 0;
    for (const int32_t target : request.targets) {
      if (target < 0) continue;
      const Choice& choice = choices[next++];
      loss += double{choice.loss};
      all_right = all_right && choice.token == target;
    }
    const bool counts = set.kind != Evaluation::choice ||
                        item.choice == set.answers[static_cast<size_t>(item.example)];
    if (counts) {
      sums.loss += loss;
      sums.tokens += static_cast<double>(next);
    }
    if (set.kind == Evaluation::last_word) {
      sums.right += all_right ? 1 : 0;
      sums.examples += 1;
    }
    const auto [place, is_new] = best.try_emplace(item.example, loss, item.choice);
    if (!is_new && loss < place->second.first) place->second = {loss, item.choice};
  }
  if (set.kind != Evaluation::choice) return sums;
  for (const auto& [example, choice] : best) {
    sums.examples += 1;
    sums.right += choice.second == set.answers[static_cast<size_t>(example)] ? 1 : 0;
  }
  return sums;
}

}  // namespace engine
