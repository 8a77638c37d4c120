// The requests of one replica, when each arrives, and how long each took.
#include "engine/worker/request_source.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/random.h"

namespace engine {
namespace {

// Requests of one step of a trial, of one replica.
int64_t group_of(const Job& job) {
  const ServingSpec& spec = *job.serving;
  if (spec.arrival != Arrival::closed_loop) return spec.batch;
  return std::max<int64_t>(1, std::lround(spec.concurrency / job.plan.dp));
}

}  // namespace

RequestSource::RequestSource(const Job& job, int replica, int64_t groups)
    : arrival_(job.serving->arrival), group_(group_of(job)) {
  const ServingSpec& spec = *job.serving;
  const auto stream =
      kernels::make_stream(job.seed, kernels::Purpose::data, 0, static_cast<uint64_t>(replica));
  double arrival = 0;
  for (int64_t i = 0; i < groups * group_; ++i) {
    const kernels::RowStream numbers = kernels::row_stream(stream, i);
    Request& request = requests_.emplace_back();
    request.id = i;
    request.most_tokens = spec.output;
    for (int64_t t = 0; t < spec.input; ++t)
      request.prompt.push_back(static_cast<int32_t>(numbers.bits(static_cast<uint32_t>(t)) %
                                                    static_cast<uint64_t>(job.model.vocab)));
    if (arrival_ != Arrival::poisson) continue;
    const double rate = spec.requests_per_second / job.plan.dp;
    arrival -= std::log1p(-double{numbers.uniform(static_cast<uint32_t>(spec.input))}) / rate;
    arrivals_.push_back(arrival);
  }
  clients_ = group_;
}

RequestSource::RequestSource(std::vector<Request> requests) : requests_(std::move(requests)) {
  group_ = static_cast<int64_t>(requests_.size());
}

Request RequestSource::take(double arrival) {
  running_[requests_[next_].id].arrival = arrival;
  return std::move(requests_[next_++]);
}

std::vector<Request> RequestSource::arrived(double now, bool may_begin) {
  std::vector<Request> list;
  int64_t most = static_cast<int64_t>(requests_.size());
  if (waits_for_groups()) most = may_begin ? group_ : 0;
  if (arrival_ == Arrival::closed_loop) most = std::exchange(clients_, 0);
  for (; most > 0 && !is_exhausted(); --most) {
    if (arrival_ == Arrival::poisson && arrivals_[next_] > now) break;
    list.push_back(take(arrival_ == Arrival::poisson ? arrivals_[next_] : now));
  }
  return list;
}

double RequestSource::next_arrival() const {
  if (is_exhausted()) return -1;
  if (arrival_ == Arrival::poisson) return arrivals_[next_];
  return waits_for_groups() || (arrival_ == Arrival::closed_loop && clients_ == 0) ? -1 : 0;
}

void RequestSource::progressed(const Progress& progress, double now) {
  const auto found = running_.find(progress.request);
  if (found == running_.end()) return;
  Running& request = found->second;
  if (request.tokens == 0) request.first = now;
  request.tokens += static_cast<double>(progress.choices.size());
  if (!progress.finish) return;
  if (*progress.finish != Finish::cancelled)
    times_.push_back({request.first - request.arrival, now - request.arrival, request.tokens});
  running_.erase(found);
  ++clients_;
}

}  // namespace engine
