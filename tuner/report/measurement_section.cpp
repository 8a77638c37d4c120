// Predicted beside measured step times.
#include <fmt/format.h>

#include "engine/base/units.h"
#include "tuner/report/phrases.h"

namespace tuner {

using engine::format_bytes;
using engine::format_seconds;

Section measurement_section(const MeasurementRecord& measurement) {
  Section section{"Measured", {}};
  if (measurement.plans.empty()) return section;
  Table table{{{"predicted", true, 1},
               {"measured", true, 0},
               {"off by", true, 2},
               {"steps", true, 4},
               {"memory", true, 3},
               {"plan", false, 0}},
              {}};
  for (const MeasuredRecord& plan : measurement.plans) {
    const bool timed = plan.measured_seconds > 0;
    std::string note;
    if (plan.status != "ok") note = plan.status + (plan.reason.empty() ? "" : ": " + plan.reason);
    table.rows.push_back(
        {{"~" + format_seconds(plan.predicted_seconds),
          timed ? format_seconds(plan.measured_seconds) : "-",
          timed
              ? fmt::format("{:+.1f} %", 100 * (plan.predicted_seconds / plan.measured_seconds - 1))
              : "-",
          fmt::format("{}", plan.samples),
          plan.peak_bytes > 0 ? format_bytes(plan.peak_bytes) : "-", plan.text},
         std::move(note)});
  }
  section.blocks.emplace_back(std::move(table));
  std::string text =
      fmt::format("{} in {}", counted(engine::format_grouped(measurement.new_trials), "new trial"),
                  format_seconds(measurement.spent_seconds));
  if (measurement.new_trials == 0) text = "all of it recalled from earlier runs";
  if (measurement.correction != 1)
    text += fmt::format("; predictions of the other plans are corrected by it (median × {:.2f})",
                        measurement.correction);
  section.blocks.emplace_back(Sentence{text + "."});
  return section;
}

}  // namespace tuner
