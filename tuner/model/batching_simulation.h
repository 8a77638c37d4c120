// In-flight batching of one replica, simulated: requests that come, wait, generate and end.
#pragma once
#include <vector>

#include "tuner/model/serve_model.h"

namespace tuner {

// A request in a simulation; seconds.
struct SimulatedRequest {
  double arrival = 0, first_token = 0, finish = 0;
};
struct Simulation {
  std::vector<SimulatedRequest> requests;  // in the order of arrival
  double mean_running = 0;                 // sequences, over the iterations that generate
};
// One replica with at most `most` sequences in flight: iteration by iteration, first come first
// served, `outside` seconds after they were sent. A closed loop of `clients` that send `requests`
// in all.
Simulation simulate_closed_loop(const ServeModel& model, double most, int clients, int requests,
                                double outside);
// Requests at the given times, which must not fall.
Simulation simulate_arrivals(const ServeModel& model, double most,
                             const std::vector<double>& arrivals);
// Times of `count` independent arrivals at a mean rate; the same every time.
std::vector<double> poisson_arrivals(double per_second, int count);

}  // namespace tuner
