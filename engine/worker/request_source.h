// RequestSource: the requests of one replica, when each arrives, and how long each took.
#pragma once
#include <map>
#include <vector>

#include "engine/infer/scheduler.h"
#include "engine/plan/job.h"

namespace engine {

// Seconds of one request since its arrival.
struct RequestTimes {
  double ttft_seconds = 0;
  double latency_seconds = 0;
  double tokens = 0;

  double tpot_seconds() const {
    return tokens > 1 ? (latency_seconds - ttft_seconds) / (tokens - 1) : 0;
  }
};

// Requests arrive at given times (Poisson), when others end (closed loop), in groups that wait for
// each other (static batches), or all at once (a file's). Times are seconds since the start.
class RequestSource {
 public:
  // Made-up requests of a trial: `groups` of `group` requests each.
  RequestSource(const Job& job, int replica, int64_t groups);
  explicit RequestSource(std::vector<Request> requests);

  // What has arrived by `now`; for a group that waits, `may_begin` says that it shall.
  std::vector<Request> arrived(double now, bool may_begin);
  // The time of the next arrival that needs nothing to end before; negative = none.
  double next_arrival() const;
  void progressed(const Progress& progress, double now);

  int64_t group() const { return group_; }
  bool waits_for_groups() const { return arrival_ == Arrival::static_batch; }
  bool is_exhausted() const { return next_ == requests_.size(); }
  // Of the requests that ended well, in the order of their ends.
  const std::vector<RequestTimes>& times() const { return times_; }

 private:
  struct Running {
    double arrival = 0, first = 0;
    double tokens = 0;
  };
  Request take(double arrival);

  Arrival arrival_ = Arrival::saturated;
  int64_t group_ = 1;
  int64_t clients_ = 0;  // of the closed loop that wait for nothing
  std::vector<Request> requests_;
  std::vector<double> arrivals_;  // Poisson
  size_t next_ = 0;
  std::map<int64_t, Running> running_;
  std::vector<RequestTimes> times_;
};

}  // namespace engine
