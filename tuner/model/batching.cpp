// Static batches, simulated in-flight batching, and full load.
#include "tuner/model/batching.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <numeric>

#include "engine/base/errors.h"
#include "tuner/model/cost_model.h"

namespace tuner {

namespace {

// An iteration of all sequences of a replica. With pp > 1 they form as many micro-batches as there
// are stages, which follow each other through them.
ServeParts step(const ServeModel& model, double sequences, double context, double prompts) {
  const double micro_batches =
      std::clamp<double>(std::floor(sequences + prompts), 1, model.plan().pp);
  return model.iteration({sequences / micro_batches, context, prompts / micro_batches,
                          static_cast<double>(model.scenario().workload.input)});
}

double prompts_of_iteration(const ServeModel& model) {
  const auto input = static_cast<double>(model.scenario().workload.input);
  return std::max(1.0,
                  std::floor(static_cast<double>(model.scenario().stack.prompt_tokens) / input));
}

// The running batch of one replica. Requests are as long as the workload says on average; where
// their lengths spread, they do so evenly and in an order that the number of the request gives.
class Replica {
 public:
  Replica(const ServeModel& model, double most)
      : model_(model),
        most_(std::max(1.0, most)),
        input_(static_cast<double>(model.scenario().workload.input)),
        output_(static_cast<double>(model.scenario().workload.output)),
        spread_(model.scenario().workload.length_spread),
        together_(prompts_of_iteration(model)) {}

  void send(double at) {
    requests_.push_back({at, 0, 0});
    waiting_.push_back(requests_.size() - 1);
  }
  bool idle() const { return waiting_.empty() && ending_.empty(); }
  double now() const { return now_; }
  void wait_until(double at) { now_ = std::max(now_, at); }

  // Runs until a request ends or the time `next` of the next arrival has come; how many ended.
  int advance(double next) {
    const double room = std::min(most_ - running_, together_);
    const auto prompts =
        std::min<size_t>(waiting_.size(), static_cast<size_t>(std::max(0.0, room)));
    if (prompts > 0)
      admit(prompts);
    else
      generate(waiting_.empty() ? next : 1e300);
    return finish();
  }

  Simulation result() && {
    return {std::move(requests_), steps_ > 0 ? running_steps_ / steps_ : 0};
  }

 private:
  double mean_context() const { return running_ > 0 ? context_ / running_ : 0; }

  // Tokens that a request generates.
  int64_t output_of(size_t request) const {
    constexpr double kGolden = 0.6180339887498949;
    const double place = std::fmod(static_cast<double>(request + 1) * kGolden, 1.0);
    return std::max<int64_t>(1, std::llround(output_ * (1 + spread_ * (2 * place - 1))));
  }

  void admit(size_t prompts) {
    now_ += step(model_, running_, mean_context(), static_cast<double>(prompts)).total();
    context_ += running_;
    ++step_;
    for (size_t i = 0; i < prompts; ++i) {
      const size_t request = waiting_.front();
      waiting_.pop_front();
      requests_[request].first_token = now_;
      ending_[step_ + output_of(request) - 1].push_back(request);
    }
    running_ += static_cast<double>(prompts);
    context_ += static_cast<double>(prompts) * input_;
  }

  void generate(double next) {
    auto steps = static_cast<double>(ending_.begin()->first - step_);
    if (steps <= 0) return;
    const double each = step(model_, running_, mean_context() + steps / 2, 0).total();
    if (next < now_ + steps * each) steps = std::clamp(std::ceil((next - now_) / each), 1.0, steps);
    now_ += steps * each;
    step_ += static_cast<int64_t>(steps);
    context_ += running_ * steps;
    running_steps_ += running_ * steps;
    steps_ += steps;
  }

  int finish() {
    int ended = 0;
    while (!ending_.empty() && ending_.begin()->first <= step_) {
      for (const size_t request : ending_.begin()->second) {
        requests_[request].finish = now_;
        context_ -= input_ + static_cast<double>(output_of(request) - 1);
        ++ended;
      }
      ending_.erase(ending_.begin());
    }
    running_ -= ended;
    return ended;
  }

  const ServeModel& model_;
  double most_, input_, output_, spread_, together_;
  std::vector<SimulatedRequest> requests_;
  std::deque<size_t> waiting_;
  std::map<int64_t, std::vector<size_t>> ending_;  // by the step of the last token
  double now_ = 0, running_ = 0, context_ = 0;
  double running_steps_ = 0, steps_ = 0;
  int64_t step_ = 0;
};

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
  const ServeParts own = step(model, 0, 0, 1);
  out.prefill.add(own, std::min(1.0, out.ttft_seconds / own.total()));
  out.waiting_seconds = out.ttft_seconds - out.prefill.total();
  const ServeParts other = step(model, std::max(1.0, out.running), mean_context(work), 0);
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
      simulate_closed_loop(model, most_in_flight(model), sequences, sequences);
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

// Means and percentiles of the requests after the first `skipped`, as a client sees them.
void predict_simulated(const ServeModel& model, const Simulation& simulation, size_t skipped,
                       double clients, ServePrediction& out) {
  const ServeRates& rates = model.rates();
  const double server = rates.server_seconds + rates.server_client_seconds * clients;
  const double steps = std::max(1.0, output_steps(model.scenario().workload));
  std::vector<double> latency, ttft, tpot;
  for (size_t i = skipped; i < simulation.requests.size(); ++i) {
    const SimulatedRequest& request = simulation.requests[i];
    ttft.push_back(request.first_token - request.arrival + server);
    latency.push_back(request.finish - request.arrival + server);
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
      simulate_closed_loop(model, most_in_flight(model), clients, std::max(clients, requests));
  predict_simulated(model, simulation, 0, work.concurrency / model.plan().replicas, out);
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
  predict_simulated(model, simulation, kWarmUp, simulation.mean_running, out);
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
  out.ttft_seconds = step(model, 0, 0, 1).total();
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

Simulation simulate_closed_loop(const ServeModel& model, double most, int clients, int requests) {
  engine::expect(clients >= 1 && requests >= clients, "clients that each send a request");
  Replica replica(model, most);
  int sent = clients;
  for (int i = 0; i < clients; ++i) replica.send(0);
  while (!replica.idle()) {
    const int ended = replica.advance(1e300);
    for (int i = 0; i < ended && sent < requests; ++i, ++sent) replica.send(replica.now());
  }
  return std::move(replica).result();
}

Simulation simulate_arrivals(const ServeModel& model, double most,
                             const std::vector<double>& arrivals) {
  Replica replica(model, most);
  size_t next = 0;
  while (next < arrivals.size() || !replica.idle()) {
    if (replica.idle()) replica.wait_until(arrivals[next]);
    while (next < arrivals.size() && arrivals[next] <= replica.now())
      replica.send(arrivals[next++]);
    replica.advance(next < arrivals.size() ? arrivals[next] : 1e300);
  }
  return std::move(replica).result();
}

std::vector<double> poisson_arrivals(double per_second, int count) {
  engine::expect(per_second > 0 && count > 0, "a rate and a number of arrivals");
  std::vector<double> times;
  double now = 0;
  uint64_t state = 0;
  for (int i = 0; i < count; ++i) {
    // SplitMix64 (Steele, Lea and Flood 2014): a counter through a mixing function.
    uint64_t z = (state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    const double uniform = (static_cast<double>(z >> 11) + 0.5) * 0x1p-53;
    now -= std::log(uniform) / per_second;
    times.push_back(now);
  }
  return times;
}

double saturated_tokens_per_second(const ServeModel& model, double most) {
  const ServeWorkload& work = model.scenario().workload;
  const double stages = model.plan().pp;
  const double prompts = std::min(prompts_of_iteration(model), std::max(1.0, most));
  const double token_step = step(model, most, mean_context(work), 0).total();
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
