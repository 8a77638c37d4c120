// Static batches, simulated in-flight batching, and full load.
#include "tuner/model/batching.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tuner/model/batching_simulation.h"
#include "tuner/model/cost_model.h"

namespace tuner {

namespace {

// Prompts that fill an iteration.
double prompts_of_iteration(const ServeModel& model) {
  const auto input = static_cast<double>(model.scenario().workload.input);
  return std::max(1.0,
                  std::floor(static_cast<double>(model.scenario().stack.prompt_tokens) / input));
}

Percentiles percentiles(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) {
    const double place = share * static_cast<double>(values.size() - 1);
    const auto low = static_cast<size_t>(place);
    const size_t high = std::min(low + 1, values.size() - 1);
    return values[low] + (place - static_cast<double>(low)) * (values[high] - values[low]);
  };
  return {at(0.5), at(0.9), at(0.99)};
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double output_steps(const ServeWorkload& work) { return static_cast<double>(work.output - 1); }

double mean_context(const ServeWorkload& work) {
  return static_cast<double>(work.input) + static_cast<double>(work.output) / 2;
}

// Parts of a static batch that follow each other through the stages, each sequence with `tokens`.
// In-flight batching keeps every stage busy.
double micro_batches_of(const ServeModel& model, int64_t sequences, int64_t tokens) {
  const ServeStack& stack = model.scenario().stack;
  const int64_t stages = model.plan().pp;
  if (stages == 1 || (model.runs_whole_batch() && !stack.micro_batches)) return 1;
  if (stack.micro_batch_tokens == 0) return static_cast<double>(std::min(stages, sequences));
  int64_t part = sequences % stages == 0 ? sequences / stages : sequences;
  while (part * tokens > stack.micro_batch_tokens && part % 2 == 0) part /= 2;
  return static_cast<double>(sequences / part);
}

// A batch of `sequences` on every replica, from the first prompt to the last token.
void predict_batch(const ServeModel& model, int64_t sequences, ServePrediction& out) {
  const ServeWorkload& work = model.scenario().workload;
  const double stages = model.plan().pp;
  const auto all = static_cast<double>(sequences);
  // The first part passes all stages, the others follow one stage apart.
  const double prompts = micro_batches_of(model, sequences, work.input);
  out.prefill.add(model.iteration({0, 0, all / prompts, static_cast<double>(work.input)}),
                  (prompts + stages - 1) / stages);
  // A part's next token has to wait for its last one, and for the parts before it.
  const double parts = micro_batches_of(model, sequences, 1);
  out.decode.add(model.iteration({all / parts, mean_context(work), 0, 0}),
                 output_steps(work) * std::max(1.0, parts / stages));
  out.ttft_seconds = out.prefill.total();
  out.tpot_seconds = work.output > 1 ? out.decode.total() / output_steps(work) : 0;
  out.latency_seconds = out.ttft_seconds + out.decode.total();
  out.running = all;
  out.requests_per_second = model.plan().replicas * all / out.latency_seconds;
}

// Where the time of a mean request goes: its own prefill, its steps among `running` others, and the
// rest, which is waiting.
void break_down(const ServeModel& model, ServePrediction& out) {
  const ServeWorkload& work = model.scenario().workload;
  const ServeParts own = model.step(0, 0, 1);
  out.prefill.add(own, std::min(1.0, out.ttft_seconds / own.total()));
  out.waiting_seconds = out.ttft_seconds - out.prefill.total();
  const ServeParts other = model.step(std::max(1.0, out.running), mean_context(work), 0);
  out.decode.add(other, (out.latency_seconds - out.ttft_seconds) / other.total());
}

double most_in_flight(const ServeModel& model) {
  const double room = std::max(1.0, model.most_sequences());
  return std::min(room, static_cast<double>(model.plan().batch));
}

// A batch that arrives together and of which not all sequences have room: the others follow as it
// becomes free.
void predict_batch_in_turns(const ServeModel& model, ServePrediction& out) {
  const int sequences = static_cast<int>(model.plan().batch);
  const Simulation simulation =
      simulate_closed_loop(model, most_in_flight(model), sequences, sequences, 0);
  const double steps = std::max(1.0, output_steps(model.scenario().workload));
  for (const SimulatedRequest& request : simulation.requests) {
    out.latency_seconds = std::max(out.latency_seconds, request.finish);
    out.ttft_seconds += request.first_token / sequences;
    out.tpot_seconds += (request.finish - request.first_token) / steps / sequences;
  }
  out.running = simulation.mean_running;
  out.requests_per_second = model.plan().replicas * sequences / out.latency_seconds;
  break_down(model, out);
}

// Between a client and the engine, with so many clients.
double outside_seconds(const ServeModel& model, double clients) {
  return model.rates().server_seconds + model.rates().server_client_seconds * clients;
}

// Means and percentiles of the requests after the first `skipped`, `outside` seconds more than the
// simulation counts.
void predict_simulated(const ServeModel& model, const Simulation& simulation, size_t skipped,
                       double outside, ServePrediction& out) {
  const double steps = std::max(1.0, output_steps(model.scenario().workload));
  std::vector<double> latency, ttft, tpot;
  for (size_t i = skipped; i < simulation.requests.size(); ++i) {
    const SimulatedRequest& request = simulation.requests[i];
    ttft.push_back(request.first_token - request.arrival + outside);
    latency.push_back(request.finish - request.arrival + outside);
    tpot.push_back((request.finish - request.first_token) / steps);
  }
  out.latency_seconds = mean(latency);
  out.ttft_seconds = mean(ttft);
  out.tpot_seconds = mean(tpot);
  out.latency = percentiles(std::move(latency));
  out.ttft = percentiles(std::move(ttft));
  out.tpot = percentiles(std::move(tpot));
  out.running = simulation.mean_running;
  break_down(model, out);
}

void predict_closed_loop(const ServeModel& model, ServePrediction& out) {
  const ServeWorkload& work = model.scenario().workload;
  const double share = std::max(1.0, work.concurrency / model.plan().replicas);
  const int clients = static_cast<int>(std::lround(share));
  constexpr double kMostRequests = 4000;  // beyond, further waves change nothing
  const int requests = static_cast<int>(std::lround(std::min(share * work.waves, kMostRequests)));
  const Simulation simulation =
      simulate_closed_loop(model, most_in_flight(model), clients, std::max(clients, requests),
                           outside_seconds(model, share));
  predict_simulated(model, simulation, 0, 0, out);
  // Every client always has one request under way (Little's law).
  out.requests_per_second = std::max<double>(work.concurrency, 1) / out.latency_seconds;
}

void predict_poisson(const ServeModel& model, ServePrediction& out) {
  constexpr int kRequests = 2000, kWarmUp = 400;
  const ServeWorkload& work = model.scenario().workload;
  const double rate = work.requests_per_second / model.plan().replicas;
  const double most = most_in_flight(model);
  const double limit = saturated_tokens_per_second(model, most) / static_cast<double>(work.output);
  const Simulation simulation = simulate_arrivals(model, most, poisson_arrivals(rate, kRequests));
  predict_simulated(model, simulation, kWarmUp, outside_seconds(model, simulation.mean_running),
                    out);
  out.sustained = rate < limit;
  out.requests_per_second = std::min(rate, limit) * model.plan().replicas;
}

void predict_saturated(const ServeModel& model, ServePrediction& out) {
  const ServeWorkload& work = model.scenario().workload;
  const double most = most_in_flight(model);
  const auto output = static_cast<double>(work.output);
  const double tokens = saturated_tokens_per_second(model, most);
  out.running = most;
  out.requests_per_second = tokens / output * model.plan().replicas;
  out.ttft_seconds = model.step(0, 0, 1).total();
  out.latency_seconds = std::max(most * output / tokens, out.ttft_seconds);
  out.tpot_seconds = (out.latency_seconds - out.ttft_seconds) / std::max(1.0, output_steps(work));
  break_down(model, out);
}

void add_intervals(const ServeModel& model, ServePrediction& out) {
  const ServeRates& rates = model.rates();
  const Arrival arrival = model.scenario().workload.arrival;
  const bool alone = arrival == Arrival::isolated || arrival == Arrival::static_batch;
  const double latency = alone ? rates.latency_sigma : rates.loaded_latency_sigma;
  out.latency_interval = interval_of(out.latency_seconds, latency);
  out.ttft_interval =
      interval_of(out.ttft_seconds, alone ? rates.ttft_sigma : rates.loaded_ttft_sigma);
  out.tpot_interval = interval_of(out.tpot_seconds, rates.tpot_sigma);
  out.throughput_interval = interval_of(
      out.tokens_per_second, arrival == Arrival::saturated ? rates.throughput_sigma : latency);
}

}  // namespace

double saturated_tokens_per_second(const ServeModel& model, double most) {
  const ServeWorkload& work = model.scenario().workload;
  const double stages = model.plan().pp;
  const double prompts = std::min(prompts_of_iteration(model), std::max(1.0, most));
  const double token_step = model.step(most, mean_context(work), 0).total();
  const double prompt = model.seconds({0, 0, prompts, static_cast<double>(work.input)}) / prompts;
  const double iteration = token_step + most * prompt / (static_cast<double>(work.output) * stages);
  return most / iteration / (1 + model.rates().max_load_loss);
}

ServePrediction predict_serving(const ServeScenario& scenario, const ServePlan& plan) {
  const ServeModel model(scenario, plan);
  const Arrival arrival = scenario.workload.arrival;
  ServePrediction out;
  switch (arrival) {
    case Arrival::isolated:
      predict_batch(model, 1, out);
      break;
    case Arrival::static_batch:
      out.in_turns =
          !model.runs_whole_batch() && model.most_sequences() < static_cast<double>(plan.batch);
      if (out.in_turns)
        predict_batch_in_turns(model, out);
      else
        predict_batch(model, plan.batch, out);
      break;
    case Arrival::closed_loop:
      predict_closed_loop(model, out);
      break;
    case Arrival::poisson:
      predict_poisson(model, out);
      break;
    case Arrival::saturated:
      predict_saturated(model, out);
      break;
  }
  const auto output = static_cast<double>(scenario.workload.output);
  out.tokens_per_second = out.requests_per_second * output;
  out.tokens_per_second_per_gpu = out.tokens_per_second / plan.gpus();
  out.limit = ServeParts(out.prefill).add(out.decode, 1).largest();
  add_intervals(model, out);

  const double held = arrival == Arrival::isolated ? 1
                      : model.runs_whole_batch()   ? static_cast<double>(plan.batch)
                                                   : most_in_flight(model);
  out.memory = model.memory(held);
  out.kv_token_capacity = model.kv_token_capacity();
  out.fits =
      out.memory.lacking_bytes() <= 0 && (model.runs_whole_batch() || model.most_sequences() >= 1);
  return out;
}

}  // namespace tuner
