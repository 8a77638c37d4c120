// PublishedRow: one published training run as a scenario and a plan, with what had to be assumed.
#pragma once
#include <string>
#include <vector>

#include "engine/plan/parallel_plan.h"
#include "tuner/model/scenario.h"
#include "tuner/validate/csv.h"

namespace tuner {

// fits: 1 where the run worked, 0 where it ran out of memory.
enum class Metric : uint8_t { step_seconds, peak_bytes, fits };
std::string_view name_of(Metric metric);

struct PublishedRow {
  std::string id;
  std::string source;
  std::string gpu;    // gpu_key
  std::string stack;  // stack_key, as the row states it
  std::string shape;  // of the model; rows of one shape are left out together
  Metric metric = Metric::step_seconds;
  double measured = 0;
  // Peak bytes as a framework's allocator counts them, without context and libraries; of the last
  // pipeline stage only where the row says so.
  bool allocator_bytes = true;
  bool last_stage = false;

  Scenario scenario;
  // One plan, or all that the row leaves open (micro-batch, interleaving): the fastest counts.
  std::vector<engine::ParallelPlan> plans;
  std::vector<std::string> assumed;  // columns that were empty and took a default
};

struct SkippedRow {
  std::string id;
  std::string reason;
};

struct PublishedRows {
  std::vector<PublishedRow> rows;
  std::vector<SkippedRow> skipped;
};

// Reads the normalised columns of a table of training runs or of memory figures; a row with both
// gives two. An empty cell takes the stack's default; a stack that is unknown takes the nearest by
// its features. Only what the models do not cover is skipped, with the reason. Rates are resolved
// from `table`. Throws InputError when the file lacks the columns, or a cell is no number.
PublishedRows read_published(const CsvTable& csv, const RatesTable& table);

}  // namespace tuner
