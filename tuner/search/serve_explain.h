// Sentences about serving plans: what they take for granted, how they differ.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "tuner/model/serve_model.h"

namespace tuner {

// What a prediction takes for granted: the arrivals, what the times mean, what is not modelled.
std::vector<std::string> serve_assumptions(const ServeScenario& scenario);

// "tp 4 instead of 8, batch 12 instead of 16": what `other` has instead of `plan`.
std::string difference(const ServePlan& plan, const ServePlan& other);
// "-19 % throughput, the same latency": two ratios to the best plan's, minus 1.
std::string trade_phrase(double throughput, double latency);
// "reading the weights": a part within a sentence.
std::string_view plain_name(ServePart part);

}  // namespace tuner
