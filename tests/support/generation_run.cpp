// Generates on ranks and tells everything a test compares.
#include "tests/support/generation_run.h"

#include <mutex>

#include "tests/support/ranks.h"

namespace engine {
namespace {

void record(GenerationRun& run, const std::vector<Progress>& all) {
  for (const Progress& progress : all) {
    const bool scored = progress.finish == Finish::scored;
    if (scored) run.scores[progress.request] = progress.choices;
    for (const Choice& choice : progress.choices)
      if (!scored) run.tokens[progress.request].push_back(choice.token);
    if (progress.finish) run.finishes[progress.request] = *progress.finish;
  }
}

}  // namespace

GenerationRun generate_on(const RunRanks& run_ranks, const GeneratorOptions& options,
                          const std::vector<Request>& requests, const BehindStep& behind_step,
                          const std::vector<float>& virtual_tokens) {
  GenerationRun run;
  run.meters.resize(static_cast<size_t>(options.plan.world()));
  run.traffic.resize(run.meters.size());
  std::mutex mutex;
  run_ranks(options.plan.world(), [&](Device& device, Communicator& ranks) {
    World world(ranks, Grid(options.plan));
    Generator generator(device, world, options);
    generator.set_virtual_tokens(virtual_tokens);
    if (generator.leads()) {
      for (size_t i = 0; i < requests.size(); ++i)
        if (static_cast<int>(i) % options.plan.dp == world.coordinate(Axis::data))
          generator.scheduler().add(requests[i]);
      while (true) {
        const auto progress = generator.step();
        if (progress.empty()) break;
        const std::scoped_lock lock(mutex);
        record(run, progress);
        if (world.rank() == 0) ++run.steps;
        if (behind_step) behind_step(generator, progress);
      }
      generator.close();
    } else {
      generator.follow();
    }
    run.meters[static_cast<size_t>(ranks.rank())] = device.meter();
    run.traffic[static_cast<size_t>(ranks.rank())] = world.meter().traffic();
  });
  return run;
}

GenerationRun generate(const GeneratorOptions& options, const std::vector<Request>& requests,
                       const BehindStep& behind_step, const std::vector<float>& virtual_tokens) {
  return generate_on(test_ranks::run, options, requests, behind_step, virtual_tokens);
}

std::vector<Request> test_requests(const ModelSpec& model, int count, int64_t longest_prompt,
                                   int64_t most_tokens) {
  std::vector<Request> requests;
  for (int i = 0; i < count; ++i) {
    Request& request = requests.emplace_back();
    request.id = i;
    const int64_t length = 1 + (longest_prompt - 1) * i / std::max(1, count - 1);
    for (int64_t t = 0; t < length; ++t)
      request.prompt.push_back(static_cast<int32_t>((7 * i + 13 * t + t * t) % model.vocab));
    request.most_tokens = 1 + (most_tokens - 1) * (count - i) / count;
    if (i % 2 == 1) request.sampling = {0.9, i % 4 == 1 ? 20 : 0, i % 4 == 3 ? 0.8 : 1.0, 5};
  }
  return requests;
}

GeneratorOptions test_generation(const ModelSpec& model) {
  GeneratorOptions options;
  options.model = model;
  options.longest = 24;
  options.batch = 4;
  options.page_tokens = 4;
  return options;
}

}  // namespace engine
