// Single ranks that ran alone: what was predicted of them beside what was counted.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/base/json_reader.h"
#include "engine/base/units.h"
#include "tuner/report/phrases.h"

namespace tuner {

using engine::format_bytes;
using engine::format_seconds;
using engine::ObjectReader;

namespace {

std::string amount(const std::string& unit, double value) {
  if (unit == "bytes") return format_bytes(value);
  if (unit == "flops") return engine::format_count(value) + "FLOP";
  return engine::format_grouped(std::llround(value));
}

// The stages side by side: one number where all is as predicted, both where it is not.
Table counts_table(const ConfirmationRecord& confirmation) {
  Table table{{{"counted", false, 0}}, {}};
  std::vector<std::pair<std::string, std::string>> names;  // and their units
  for (const ConfirmedStageRecord& stage : confirmation.stages) {
    table.columns.push_back({stage.place + " stage", true, 0});
    for (const ConfirmedCountRecord& count : stage.counts)
      if (const std::pair name{count.what, count.unit};
          std::find(names.begin(), names.end(), name) == names.end())
        names.push_back(name);
  }
  for (const auto& [what, unit] : names) {
    Table::Row row{{unit == "messages" ? what + " messages" : what}, ""};
    for (const ConfirmedStageRecord& stage : confirmation.stages) {
      const auto count = std::find_if(
          stage.counts.begin(), stage.counts.end(),
          [&](const ConfirmedCountRecord& one) { return one.what == what && one.unit == unit; });
      if (count == stage.counts.end())
        row.cells.emplace_back("-");
      else if (count->predicted == count->metered)
        row.cells.push_back("= " + amount(unit, count->metered));
      else
        row.cells.push_back("~" + amount(unit, count->predicted) + " ≠ " +
                            amount(unit, count->metered));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

Table times_table(const ConfirmationRecord& confirmation) {
  Table table{{{"stage", false, 0},
               {"predicted", true, 0},
               {"measured", true, 0},
               {"off by", true, 1},
               {"memory", true, 0}},
              {}};
  for (const ConfirmedStageRecord& stage : confirmation.stages)
    if (stage.measured_seconds > 0)
      table.rows.push_back(
          {{stage.place, "~" + format_seconds(stage.predicted_seconds),
            format_seconds(stage.measured_seconds),
            fmt::format("{:+.1f} %", 100 * (stage.predicted_seconds / stage.measured_seconds - 1)),
            format_bytes(stage.peak_bytes)},
           ""});
  return table;
}

std::string what_was_run(const ConfirmationRecord& c) {
  return fmt::format(
      "Ranks of {} ran alone on {}, all others being phantoms: as {} in {} with {} of {} layers, "
      "every shard in its true shape. What is left out enters by its number only.",
      c.plan, c.device, c.slice, c.precision, c.slice_layers, c.plan_layers);
}

std::string what_it_says(const ConfirmationRecord& c) {
  int64_t equal = 0, all = 0;
  for (const ConfirmedStageRecord& stage : c.stages)
    for (const ConfirmedCountRecord& count : stage.counts) {
      ++all;
      equal += count.predicted == count.metered ? 1 : 0;
    }
  std::string text = fmt::format("{} of {} counts are as predicted (=). ", equal, all);
  if (!c.times_count)
    return text +
           "This device is not the cluster's: bytes, products and messages are confirmed, every "
           "second stays predicted.";
  return text + fmt::format(
                    "Times are measured: what a device computes is scaled by {:.2f}; "
                    "communication and the pipeline's bubble stay predicted.",
                    c.compute_factor);
}

}  // namespace

Section confirmation_section(const ConfirmationRecord& confirmation) {
  Section section{"Confirmed", {}};
  if (confirmation.stages.empty()) return section;
  section.blocks.emplace_back(Sentence{what_was_run(confirmation)});
  if (Table counts = counts_table(confirmation); !counts.rows.empty())
    section.blocks.emplace_back(std::move(counts));
  if (confirmation.times_count) section.blocks.emplace_back(times_table(confirmation));
  for (const ConfirmedStageRecord& stage : confirmation.stages)
    if (stage.status != "ok")
      section.blocks.emplace_back(Sentence{
          fmt::format("The {} stage ended as {}: {}", stage.place, stage.status, stage.reason)});
  section.blocks.emplace_back(Sentence{what_it_says(confirmation)});
  return section;
}

ConfirmationRecord read_confirmation(ObjectReader reader) {
  ConfirmationRecord record;
  record.plan = reader.text("plan", "this plan");
  record.slice = reader.text("slice_text", "");
  record.device = reader.text("device", "");
  record.precision = reader.text("precision", "");
  record.slice_layers = reader.integer("slice_layers", {}, 0);
  record.plan_layers = reader.integer("plan_layers", {}, 0);
  record.times_count = reader.flag("times_count", false);
  record.compute_factor = reader.number("compute_factor", {}, 1.0);
  record.new_trials = reader.integer("new_trials", {}, 0);
  record.spent_seconds = reader.number("spent_seconds", {}, 0.0);
  for (ObjectReader& row : reader.objects("stages")) {
    ConfirmedStageRecord stage;
    stage.stage = row.integer("stage", {}, 0);
    stage.rank = row.integer("rank", {}, 0);
    stage.place = row.text("place", "");
    stage.status = row.text("status", "");
    stage.reason = row.text("reason", "");
    stage.measured_seconds = row.number("measured_seconds", {}, 0.0);
    stage.predicted_seconds = row.number("predicted_seconds", {}, 0.0);
    stage.predicted_bytes = row.number("predicted_bytes", {}, 0.0);
    stage.peak_bytes = row.number("peak_bytes", {}, 0.0);
    for (ObjectReader& count : row.objects("counts"))
      stage.counts.push_back({count.text("what", ""), count.text("unit", ""),
                              count.number("predicted", {}, 0.0),
                              count.number("metered", {}, 0.0)});
    record.stages.push_back(std::move(stage));
  }
  return record;
}

}  // namespace tuner
