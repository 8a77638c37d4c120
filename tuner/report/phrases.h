// Phrases, tables and commands that the documents of different answers share.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tuner/report/answer.h"
#include "tuner/report/document.h"

namespace tuner {

struct InferAnswer;

// The rule that a plan must fit the memory of a GPU.
constexpr auto kMemoryRule = "AT0201";

// "~" before predicted numbers, nothing before measured ones.
std::string_view mark(const engine::Outcome& outcome);

// The lines that say what was asked. `tp` of the plan the answer is about, which decides the
// padding of the vocabulary; 0 = there is none.
std::vector<std::string> asked_lines(const Question& question, int tp);

// The plan in words, with the layers of its stages where they differ.
std::string plan_phrase(const PlanRecord& record);
// 1,234 or 1.2 M: with the digits that a prediction has.
std::string rough_amount(double amount);
// "1 trial", "1,594 trials"
std::string counted(const std::string& number, std::string_view noun);
// "19.40 to 21.30 s"
std::string seconds_range(double low, double high);
// "step ~20.30 s (19.40 to 21.30 s)"; the interval is left out where it is not known.
std::string step_phrase(const engine::Outcome& outcome);
// "~151.3 TFLOP/s per GPU (model FLOPs, full attention square), ~48.5 % MFU, ~141 tokens/s per GPU"
std::string rate_phrase(const engine::Outcome& outcome);
// The fullest stage, the capacity, and what the error band of the memory model leaves of it.
Sentence memory_sentence(const Question& question, const engine::Outcome& outcome);
// What the marks and ranges mean.
Sentence legend(const engine::Outcome& outcome);

// The outcome must have stages.
const engine::StageMemory& fullest_stage(const engine::Outcome& outcome);

// Where the step goes: the parts of more than 0.3 %, the others in one sum; beside the same of a
// baseline where there is one.
Section step_section(const engine::Outcome& outcome, const engine::Outcome* baseline = nullptr);
// "matrix products": the title of a part of the step by its name in JSON.
std::string part_title(const std::string& name);
// The names of all parts in the order of reports; those that the cost model does not know come
// last.
bool is_part_before(const std::string& a, const std::string& b);
// Predicted beside measured step times.
Section measurement_section(const MeasurementRecord& measurement);
// Plans of serving that were measured: the best and the others.
Section serve_measurement_section(const InferAnswer& answer);
Section confirmation_section(const ConfirmationRecord& confirmation);
// The plan of a file beside the best one; nothing where no file was given.
Section comparison_section(const TrainAnswer& answer);
// Memory by use of the stages, of at most `most_stages`: the first, second, middle, last and
// fullest.
Section memory_section(const engine::Outcome& outcome, size_t most_stages);

std::string use_title(engine::MemoryUse use);

// Pictures. The parts of the step of several plans, each under a short name.
using NamedOutcome = std::pair<std::string, const engine::Outcome*>;
Chart parts_chart(const std::vector<NamedOutcome>& plans);
// Memory of every stage by use, below the capacity.
Chart memory_chart(const Question& question, const engine::Outcome& outcome);
// Throughput against memory of all plans that fit, with those that the answer names.
Chart fitting_chart(const TrainAnswer& answer);
// Predicted against measured step times.
Chart measured_chart(const Question& question, const MeasurementRecord& measurement);
// The passes of the pipeline; without any where they would be too many to draw.
Timeline pipeline_picture(const PipelineRecord& pipeline);

// "reading the weights": the title of a part of a request's latency by its name in JSON.
std::string serve_part_title(const std::string& name);
// Latency against throughput of everything that fits, and the same for each time that has a budget.
std::vector<Chart> frontier_charts(const InferAnswer& answer);
// What the latency of the best plan and the runners-up is spent on, and their memory by use.
Chart latency_chart(const InferAnswer& answer);
Chart serve_memory_chart(const InferAnswer& answer);

// Where the numbers come from: the files that were read.
Section sources_section(const Question& question);

// The command that estimates the plan again.
CommandLine estimate_command(const Question& question, const PlanRecord& record);
// The command that finds the best plan for the question again.
CommandLine train_again_command(const Question& question);

// The word as a shell has to be given it.
std::string shell_word(const std::string& word);

// Shares as multiples of 0.1 that sum to 100 (the largest remainders are rounded up).
std::vector<double> rounded_percent(const std::vector<double>& amounts);

}  // namespace tuner
