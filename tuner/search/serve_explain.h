// Sentences about serving plans: what they take for granted, how they differ.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "tuner/model/serve_model.h"

namespace tuner {

// What a prediction takes for granted: the arrivals, what the times mean, which of the formats of
// weights are stored only, what memory stays free, what is not modelled.
std::vector<std::string> serve_assumptions(const ServeScenario& scenario,
                                           const std::vector<ServeFormat>& weights);

// "tp 4 instead of 8, batch 12 instead of 16": what `other` has instead of `plan`.
std::string difference(const ServePlan& plan, const ServePlan& other);
// "-19 % throughput, the same latency": two ratios to the best plan's, minus 1; "measured" behind
// them where that is what they are of.
std::string trade_phrase(double throughput, double latency, bool measured);
// "reading the weights": a part within a sentence.
std::string_view plain_name(ServePart part);

}  // namespace tuner
