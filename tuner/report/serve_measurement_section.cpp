// The section on measured plans of serving.
#include <fmt/format.h>

#include "engine/base/units.h"
#include "tuner/report/phrases.h"
#include "tuner/report/serve_answer.h"

namespace tuner {

using engine::format_bytes;
using engine::format_seconds;

Section serve_measurement_section(const InferAnswer& answer) {
  Section section{"Measured", {}};
  if (!answer.new_trials) return section;
  Table table{{{"latency", true, 0},
               {"predicted", true, 1},
               {"TTFT", true, 2},
               {"tokens/s", true, 0},
               {"memory", true, 3},
               {"plan", false, 0}},
              {}};
  const auto add = [&](const ServeRecord& record) {
    if (!record.measured) return;
    const ServeMeasuredRecord& m = *record.measured;
    table.rows.push_back({{format_seconds(m.latency), "~" + format_seconds(record.latency.value),
                           format_seconds(m.ttft), rough_amount(m.tokens_per_second),
                           format_bytes(m.peak_bytes), record.text},
                          m.meets ? "" : "misses the budget"});
  };
  if (answer.best) add(*answer.best);
  for (const ServeRunnerUpRecord& other : answer.runners_up) add(other.record);
  const std::string trials = counted(engine::format_grouped(*answer.new_trials), "new trial");
  std::string account = "all of it recalled from earlier runs.";
  if (*answer.new_trials > 0 && table.rows.empty())
    account = fmt::format("{}, none of which told a time.", trials);
  else if (*answer.new_trials > 0)
    account = fmt::format("{} in {}; measured times are × {:.2f} of the predicted ones (median).",
                          trials, format_seconds(answer.spent_seconds), answer.correction);
  if (!table.rows.empty()) section.blocks.emplace_back(std::move(table));
  section.blocks.emplace_back(Sentence{std::move(account)});
  return section;
}

}  // namespace tuner
