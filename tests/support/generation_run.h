// Generates on ranks and tells everything a test compares.
#pragma once
#include <functional>
#include <map>
#include <vector>

#include "engine/device/meter.h"
#include "engine/infer/generator.h"

namespace engine {

struct GenerationRun {
  std::map<int64_t, std::vector<int32_t>> tokens;  // by request
  std::map<int64_t, std::vector<Choice>> scores;
  std::map<int64_t, Finish> finishes;
  int64_t steps = 0;          // of the replica of rank 0
  std::vector<Meter> meters;  // by rank
  std::vector<std::vector<Traffic>> traffic;
};

// What a test does behind a step of the leader, such as cancelling.
using BehindStep = std::function<void(Generator&, const std::vector<Progress>&)>;

// Runs a body on ranks of some kind, as test_ranks::run() does on the linked one.
using RunRanks = std::function<void(int, const std::function<void(Device&, Communicator&)>&)>;

// Request i goes to replica i mod dp.
GenerationRun generate_on(const RunRanks& run_ranks, const GeneratorOptions& options,
                          const std::vector<Request>& requests, const BehindStep& behind_step = {},
                          const std::vector<float>& virtual_tokens = {});
// On ranks of the linked kind.
GenerationRun generate(const GeneratorOptions& options, const std::vector<Request>& requests,
                       const BehindStep& behind_step = {},
                       const std::vector<float>& virtual_tokens = {});

// Of lengths that differ, with tokens of the model's vocabulary.
std::vector<Request> test_requests(const ModelSpec& model, int count, int64_t longest_prompt,
                                   int64_t most_tokens);

GeneratorOptions test_generation(const ModelSpec& model);

}  // namespace engine
