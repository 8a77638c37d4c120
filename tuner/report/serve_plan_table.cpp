// Rows and columns of serving plans.
#include "tuner/report/serve_plan_table.h"

#include <fmt/format.h>

#include "engine/base/units.h"
#include "tuner/report/phrases.h"

namespace tuner {

using engine::format_seconds;

namespace {

const std::vector<Column> kColumns = {
    {"", false, 0},        {"latency", true, 0},  {"TTFT", true, 3},  {"TPOT", true, 3},
    {"tokens/s", true, 0}, {"per GPU", true, 4},  {"TP", true, 1},    {"EP", true, 1},
    {"PP", true, 1},       {"replicas", true, 2}, {"batch", true, 1}, {"weights", false, 5},
    {"limit", false, 6}};
constexpr int kEp = 7;

}  // namespace

ShownFigures shown_figures(const ServeRecord& r) {
  if (const auto& m = r.measured)
    return {format_seconds(m->latency), format_seconds(m->ttft), format_seconds(m->tpot),
            rough_amount(m->tokens_per_second), rough_amount(m->tokens_per_second / r.plan.gpus())};
  return {"~" + format_seconds(r.latency.value), "~" + format_seconds(r.ttft.value),
          "~" + format_seconds(r.tpot.value), "~" + rough_amount(r.throughput.value),
          "~" + rough_amount(r.per_gpu)};
}

void ServePlanTable::add(std::string name, const ServeRecord& r, std::string note) {
  const ShownFigures shown = shown_figures(r);
  rows_.push_back({{std::move(name), shown.latency, shown.ttft, shown.tpot, shown.throughput,
                    shown.per_gpu, fmt::format("{}", r.plan.tp), fmt::format("{}", r.plan.ep),
                    fmt::format("{}", r.plan.pp), fmt::format("{}", r.plan.replicas),
                    fmt::format("{}", r.plan.batch), std::string(name_of(r.plan.weights)), r.limit},
                   std::move(note)});
  shares_experts_ |= r.plan.ep > 1;
}

Table ServePlanTable::table() && {
  Table table{kColumns, std::move(rows_)};
  if (shares_experts_) return table;
  table.columns.erase(table.columns.begin() + kEp);
  for (Table::Row& row : table.rows) row.cells.erase(row.cells.begin() + kEp);
  return table;
}

}  // namespace tuner
