// In-flight batching, iteration by iteration.
#include "tuner/model/batching_simulation.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <map>

#include "engine/base/errors.h"

namespace tuner {

namespace {

// The running batch of one replica. Requests are as long as the workload says on average; where
// their lengths spread, they do so evenly and in an order that the number of the request gives. A
// request is `outside` seconds on its way before it can be scheduled: of clients that send the next
// one when they have an answer, the iterations that begin meanwhile run without them.
class Replica {
 public:
  Replica(const ServeModel& model, double most, double outside)
      : model_(model),
        most_(std::max(1.0, most)),
        outside_(outside),
        input_(static_cast<double>(model.scenario().workload.input)),
        output_(static_cast<double>(model.scenario().workload.output)),
        spread_(model.scenario().workload.length_spread) {}

  // In the order of their times.
  void send(double at) {
    coming_.push_back(requests_.size());
    requests_.push_back({at, 0, 0});
  }
  bool idle() const { return coming_.empty() && waiting_.empty() && ending_.empty(); }
  double now() const { return now_; }

  // Runs an iteration with prompts, or those without until a request comes or ends; how many ended.
  int advance() {
    if (waiting_.empty() && ending_.empty()) now_ = std::max(now_, next_arrival());
    for (; next_arrival() <= now_; coming_.pop_front())
      waiting_.push_back({coming_.front(), input_});
    if (!read_prompts() && !ending_.empty()) generate();
    return finish();
  }

  Simulation result() && {
    return {std::move(requests_), steps_ > 0 ? running_steps_ / steps_ : 0};
  }

 private:
  struct Prompt {
    size_t request;
    double left;  // tokens
  };

  double next_arrival() const {
    return coming_.empty() ? std::numeric_limits<double>::infinity()
                           : requests_[coming_.front()].arrival + outside_;
  }
  double mean_context() const { return running_ > 0 ? context_ / running_ : 0; }

  // Tokens that a request generates.
  int64_t output_of(size_t request) const {
    constexpr double kGolden = 0.6180339887498949;
    const double place = std::fmod(static_cast<double>(request + 1) * kGolden, 1.0);
    return std::max<int64_t>(1, std::llround(output_ * (1 + spread_ * (2 * place - 1))));
  }

  // An iteration with as many tokens of prompts as there is room for beside one of each running
  // sequence; false if there is none.
  bool read_prompts() {
    const ServeStack& stack = model_.scenario().stack;
    double room = static_cast<double>(stack.prompt_tokens) - running_, tokens = 0;
    std::vector<size_t> read;
    while (!waiting_.empty() && running_ + static_cast<double>(read.size()) < most_) {
      double& left = waiting_.front().left;
      const bool first = read.empty();  // has its turn however long it is
      const double part = stack.splits_prompts ? std::min(left, room) : left;
      if (part <= 0 || (part > room && !first)) break;
      tokens += part;
      room -= part;
      left -= part;
      if (left > 0) break;
      read.push_back(waiting_.front().request);
      waiting_.pop_front();
    }
    if (tokens <= 0) return false;
    now_ += model_.step(running_, mean_context(), tokens / input_).total();
    context_ += running_;
    ++step_;
    for (const size_t request : read) {
      requests_[request].first_token = now_;
      ending_[step_ + output_of(request) - 1].push_back(request);
    }
    running_ += static_cast<double>(read.size());
    context_ += static_cast<double>(read.size()) * input_;
    return true;
  }

  void generate() {
    auto steps = static_cast<double>(ending_.begin()->first - step_);
    if (steps <= 0) return;
    const double each = model_.step(running_, mean_context() + steps / 2, 0).total();
    const double next = running_ < most_ ? next_arrival() : std::numeric_limits<double>::infinity();
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
  double most_, outside_, input_, output_, spread_;
  std::vector<SimulatedRequest> requests_;
  std::deque<size_t> coming_;
  std::deque<Prompt> waiting_;
  std::map<int64_t, std::vector<size_t>> ending_;  // by the step of the last token
  double now_ = 0, running_ = 0, context_ = 0;
  double running_steps_ = 0, steps_ = 0;
  int64_t step_ = 0;
};

}  // namespace

Simulation simulate_closed_loop(const ServeModel& model, double most, int clients, int requests,
                                double outside) {
  engine::expect(clients >= 1 && requests >= clients, "clients that each send a request");
  Replica replica(model, most, outside);
  int sent = clients;
  for (int i = 0; i < clients; ++i) replica.send(0);
  while (!replica.idle()) {
    const int ended = replica.advance();
    for (int i = 0; i < ended && sent < requests; ++i, ++sent) replica.send(replica.now());
  }
  return std::move(replica).result();
}

Simulation simulate_arrivals(const ServeModel& model, double most,
                             const std::vector<double>& arrivals) {
  Replica replica(model, most, 0);
  for (const double at : arrivals) replica.send(at);
  while (!replica.idle()) replica.advance();
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

}  // namespace tuner
