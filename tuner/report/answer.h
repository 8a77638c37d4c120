// Answers read back from their JSON, for rendering.
#pragma once
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/json_reader.h"
#include "engine/plan/outcome.h"
#include "engine/plan/parallel_plan.h"

namespace tuner {

// What was asked. Empty texts and zeros: the answer does not say.
struct Question {
  std::string model, model_origin;
  double parameters = 0;
  int64_t vocab = 0;
  int64_t gpus = 0;
  std::string gpu, gpu_title, system, cluster_origin;
  int64_t gpus_per_node = 0;
  double memory_bytes = 0;  // of a GPU
  std::string stack, stack_origin, rates_origin;
  double memory_error = 0;  // 90 % band of the memory model, relative
  // Of the logarithm of predicted step times, and what two plans of one model on one machine share.
  double residual_sigma = 0, residual_correlation = 0;
  int64_t vocab_multiple = 0;  // the vocabulary is padded to this · tp
  int64_t seq = 0, gbs = 0;
  double tokens = 0;
  std::string precision, attention;
};

struct PlanRecord {
  std::optional<engine::ParallelPlan> plan;  // absent for a plan that breaks a rule
  std::vector<int64_t> layers_per_stage;     // in full
  std::string text;                          // the plan in words
  std::optional<engine::Outcome> predicted, measured;

  // What is known best: a measurement that worked, else the prediction; null when there is neither.
  const engine::Outcome* outcome() const;
};

struct RunnerUpRecord {
  PlanRecord record;
  double slower = 0;
  std::optional<double> probability_faster;
  std::string difference;
};

struct SearchRecord {
  int64_t candidates = 0, legal = 0, fits = 0;
  int64_t simulated = 0;
  double seconds = 0;
  std::map<std::string, int64_t> rejected;
};

struct GridRecord {
  std::string name;
  int64_t plans = 0, legal = 0, fits = 0;
  std::optional<PlanRecord> best;
};

// One plan that was measured, and what was predicted before.
struct MeasuredRecord {
  std::string text;
  double predicted_seconds = 0;
  double measured_seconds = 0;  // 0 = unknown
  engine::Interval interval;    // of the measured seconds; zeros = unknown
  int64_t samples = 0;
  double peak_bytes = 0;
  std::string status;
  std::string reason;
};

struct MeasurementRecord {
  std::vector<MeasuredRecord> plans;
  int64_t new_trials = 0;
  double spent_seconds = 0;
  double correction = 1;  // of predictions that were not measured
};

// Single ranks of a plan that ran alone.
struct ConfirmedCountRecord {
  std::string what, unit;
  double predicted = 0, metered = 0;
};

struct ConfirmedStageRecord {
  int64_t stage = 0, rank = 0;
  std::string place, status, reason;
  double measured_seconds = 0, predicted_seconds = 0, predicted_bytes = 0, peak_bytes = 0;
  std::vector<ConfirmedCountRecord> counts;
};

struct ConfirmationRecord {
  std::string plan, slice, device, precision;
  int64_t slice_layers = 0, plan_layers = 0;
  bool times_count = false;
  double compute_factor = 1;
  std::vector<ConfirmedStageRecord> stages;
  int64_t new_trials = 0;
  double spent_seconds = 0;
};

// Plans that fit, thinned: each stands for those that need about the same memory and time.
struct FittingRecord {
  struct Plan {
    std::string text;
    double step_seconds = 0, peak_bytes = 0;
    int64_t plans = 0;
  };
  std::vector<Plan> plans;  // fastest first
  double memory_width = 0;  // of what counts as the same, of the capacity
  double time_width = 0;    // relative
};

// Seconds of the passes of a pipeline, by chunk and stage.
struct PipelineRecord {
  int64_t micro_batches = 0;
  std::vector<std::vector<double>> forward, backward;
};

struct TrainAnswer {
  Question question;
  SearchRecord search;
  std::optional<PlanRecord> best;
  std::vector<RunnerUpRecord> runners_up;
  bool knows_baseline = false;  // the answer says whether there is one
  std::optional<PlanRecord> baseline;
  double speedup = 0;          // over the baseline; 0 = not known
  double days = 0;             // to train; 0 = not known
  double cost = 0, price = 0;  // of the training and of a GPU-hour; 0 = not known
  std::optional<GridRecord> grid;
  std::vector<std::string> reasons, remedies, assumptions;
  std::optional<MeasurementRecord> measurement;
  std::optional<ConfirmationRecord> confirmation;
  std::optional<PlanRecord> compared;  // the plan of a file
  std::string compared_file;
  FittingRecord fitting;                   // empty where the answer does not say
  std::optional<PipelineRecord> pipeline;  // of the best plan

  int64_t measured() const;  // how many plans were
};

// Of a check, too: the same with legal plans near the one that was checked.
struct EstimateAnswer {
  Question question;
  PlanRecord record;
  bool check = false;
  std::vector<RunnerUpRecord> nearest;
};

// Two ends of a 90 % interval; 0 = not known, or nothing reaches so far.
struct RangeRecord {
  double low = 0, high = 0;
};

// How long, on how many GPUs, or how large.
struct SizeAnswer {
  Question question;  // with what was found
  std::string asked;  // days, gpus, parameters
  std::optional<double> deadline_days;
  bool meets_deadline = false;
  double days = 0, gpu_hours = 0, cost = 0, price = 0;  // 0 = not known
  RangeRecord days_range, gpu_hours_range, cost_range, gpus_range, parameters_range;
  double optimal_tokens_per_parameter = 0;  // compute-optimal; 0 = the answer does not say
  double optimal_tokens = 0, optimal_parameters = 0;
  double same_compute_tokens = 0, same_compute_parameters = 0;
  std::optional<PlanRecord> best;
  std::vector<std::string> notes, remedies, assumptions;
};

// The best plan on one number of GPUs.
struct SweepPointRecord {
  int64_t gpus = 0;
  std::optional<PlanRecord> best;
  double days = 0, gpu_hours = 0, cost = 0;  // 0 = not known
  double tokens_per_second = 0;              // of all GPUs
  double efficiency = 0;                     // of linear scaling
  std::vector<std::string> remedies;
};

struct SweepAnswer {
  Question question;  // on the most GPUs
  std::vector<SweepPointRecord> points;
  double price = 0;  // of a GPU-hour; 0 = not known
  std::vector<std::string> reasons, assumptions;
};

// What every answer begins with. Members that are absent stay empty.
Question read_common_question(engine::ObjectReader& answer);
// A list of texts; empty when absent.
std::vector<std::string> read_texts(engine::ObjectReader& reader, const std::string& key);

ConfirmationRecord read_confirmation(engine::ObjectReader reader);

// All throw InputError with every problem of the JSON.
TrainAnswer read_train_answer(const nlohmann::json& answer);
EstimateAnswer read_estimate_answer(const nlohmann::json& answer);
EstimateAnswer read_check_answer(const nlohmann::json& answer);
SizeAnswer read_size_answer(const nlohmann::json& answer);
SweepAnswer read_sweep_answer(const nlohmann::json& answer);

}  // namespace tuner
