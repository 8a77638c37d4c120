// ServingSpec and ServingOutcome: what a worker serves, and how fast it was.
#pragma once
#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace engine {

// How requests arrive. A time to first token means nothing without it.
enum class Arrival : uint8_t {
  isolated,      // one request alone
  static_batch,  // a batch starts together and ends together
  closed_loop,   // a number of clients, each sends its next request when it has its answer
  poisson,       // independent requests at a mean rate
  saturated,     // a queue that never empties
};
constexpr std::array<std::string_view, 5> kArrivalNames = {"isolated", "static", "closed_loop",
                                                           "poisson", "saturated"};
constexpr std::string_view name_of(Arrival arrival) {
  return kArrivalNames[static_cast<size_t>(arrival)];
}

// What is asked of the text of a file.
enum class Evaluation : uint8_t { none, perplexity, choice, last_word };
constexpr std::array<std::string_view, 4> kEvaluationNames = {"none", "perplexity", "choice",
                                                              "last_word"};

// Beside a job's model, plan (dp replicas, tp, pp), precision and seed; workload.seq is the longest
// sequence. A trial makes up requests; else they come from a file.
struct ServingSpec {
  int64_t batch = 1;  // sequences in flight in a replica, at most
  int64_t page_tokens = 16;
  int64_t kv_tokens = 0;  // room of a replica's KV cache; 0 = for a whole batch of the longest

  // A trial: prompts of `input` tokens, `output` generated. One step is a static batch, else as
  // many requests as there are clients or sequences in flight.
  int64_t input = 0;
  int64_t output = 0;
  Arrival arrival = Arrival::static_batch;
  double concurrency = 0;          // clients of a closed loop, over all replicas
  double requests_per_second = 0;  // Poisson, over all replicas

  // Requests as JSON lines {"prompt": text, "max_tokens": N, "temperature": X, "top_k": N, "top_p":
  // X, "task": name}, all but the prompt optional; or what an evaluation reads.
  std::string requests_path;
  Evaluation evaluation = Evaluation::none;
  int64_t stride = 0;  // perplexity: new tokens a window; 0 = windows without overlap
  std::string tokenizer = "bytes";
  std::vector<std::string> prompt_files;  // of tasks, by prompt tuning

  bool is_trial() const { return requests_path.empty(); }
};

nlohmann::json serving_to_json(const ServingSpec& spec);
// Throws InputError with every problem, naming `source`.
ServingSpec serving_from_json(const nlohmann::json& json, const std::string& source);

// Over requests, or over the steps of a static batch.
struct Spread {
  double mean = 0, p50 = 0, p90 = 0, p99 = 0;
};
Spread spread_of(std::vector<double> values);

struct ServingOutcome {
  int64_t requests = 0;
  Spread latency_seconds;        // from arrival to the last token
  Spread ttft_seconds;           // to the first
  Spread tpot_seconds;           // per further token
  double tokens_per_second = 0;  // generated, by all replicas
  // Of an evaluation.
  int64_t scored_tokens = 0;
  double perplexity = 0;
  int64_t examples = 0;
  double accuracy = 0;  // 0 to 1
};

nlohmann::json serving_outcome_to_json(const ServingOutcome& outcome);
ServingOutcome serving_outcome_from_json(const nlohmann::json& json, const std::string& source);

}  // namespace engine
