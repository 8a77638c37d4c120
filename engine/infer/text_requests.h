// TextRequests: requests of text files as tokens, for generating and for evaluating.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "engine/data/tokenizer.h"
#include "engine/infer/scheduler.h"
#include "engine/infer/soft_prompt.h"
#include "engine/plan/model_spec.h"
#include "engine/plan/serving.h"

namespace engine {

// What a model's tokens are and how many it takes.
struct TextLimits {
  int64_t vocab = 0;
  int64_t longest = 0;  // tokens of a sequence
  uint64_t seed = 1;
};

// Requests of spec.requests_path (see ServingSpec), with ids by line. Throws InputError with the
// bad lines.
std::vector<Request> read_requests(const ServingSpec& spec, const TextLimits& limits,
                                   const Tokenizer& tokenizer, const PromptTable& prompts);

// A question whose answers are scored: the windows of a text, an example's choices.
struct EvaluationSet {
  struct Item {
    int64_t example = 0;
    int64_t choice = 0;
  };
  Evaluation kind = Evaluation::none;
  std::vector<Request> requests;  // scored; ids are their places
  std::vector<Item> items;        // one a request
  std::vector<int64_t> answers;   // by example, the right choice
  int64_t shortened = 0;          // examples that lost their beginning: longer than the model takes
};

// perplexity: a text file, cut into windows; choice: JSON lines {"context", "choices": [text…],
// "answer": index}; last_word: JSON lines {"text"}, whose last word is asked (Paperno et al. 2016).
// Throws InputError.
EvaluationSet read_evaluation(const ServingSpec& spec, const TextLimits& limits,
                              const Tokenizer& tokenizer, const PromptTable& prompts);

// Sums over some of the examples.
struct EvaluationSums {
  double loss = 0;
  double tokens = 0;
  double right = 0;
  double examples = 0;
};
// `scores` by request; all choices of an example or none.
EvaluationSums sum_up(const EvaluationSet& set,
                      const std::map<int64_t, std::vector<Choice>>& scores);

}  // namespace engine
