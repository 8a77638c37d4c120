// Where the memory of the stages goes.
#include <fmt/format.h>

#include <algorithm>

#include "engine/base/units.h"
#include "tuner/report/phrases.h"

namespace tuner {

using engine::MemoryUse;
using engine::Outcome;
using engine::StageMemory;

namespace {

// The stages to show: all of few, else the first, second, middle, last and fullest.
std::vector<const StageMemory*> shown_stages(const Outcome& outcome, size_t most) {
  const auto& stages = outcome.memory.stages;
  const size_t last = stages.size() - 1, middle = stages.size() / 2;
  std::vector<const StageMemory*> shown;
  for (size_t i = 0; i <= last; ++i) {
    const bool named = i == 0 || i == last || i == middle || (i == 1 && most > 4);
    if (stages.size() <= most || named || &stages[i] == &fullest_stage(outcome))
      shown.push_back(&stages[i]);
  }
  return shown;
}

}  // namespace

std::string use_title(MemoryUse use) {
  return use == MemoryUse::kv_cache ? "KV cache" : std::string(name_of(use));
}

const StageMemory& fullest_stage(const Outcome& outcome) {
  const auto& stages = outcome.memory.stages;
  return *std::max_element(stages.begin(), stages.end(),
                           [](const auto& a, const auto& b) { return a.total() < b.total(); });
}

Section memory_section(const Outcome& outcome, size_t most_stages) {
  Section section{"Memory", {}};
  if (outcome.memory.stages.empty()) return section;
  const StageMemory& fullest = fullest_stage(outcome);
  const std::vector<const StageMemory*> shown = shown_stages(outcome, most_stages);
  const bool small = fullest.total() < 4 * engine::kGiB;  // where GiB would show zeros
  const double unit = small ? 1024.0 * 1024 : engine::kGiB;
  Table table{{{small ? "MiB" : "GiB"}}, {}};
  for (const StageMemory* stage : shown) {
    const int priority = stage == &fullest ? 0 : static_cast<int>(table.columns.size());
    table.columns.push_back({fmt::format("stage {}", stage->stage), true, priority});
  }
  const auto add_row = [&](std::string name, auto bytes_of) {
    Table::Row row{{std::move(name)}, ""};
    for (const StageMemory* stage : shown)
      row.cells.push_back(fmt::format("{:.1f}", bytes_of(*stage) / unit));
    table.rows.push_back(std::move(row));
  };
  for (int i = 0; i < engine::kMemoryUses; ++i) {
    const auto use = static_cast<MemoryUse>(i);
    const auto is_used = [use](const StageMemory* stage) { return (*stage)[use] > 0; };
    if (std::any_of(shown.begin(), shown.end(), is_used))
      add_row(use_title(use), [use](const StageMemory& stage) { return stage[use]; });
  }
  add_row("total", [](const StageMemory& stage) { return stage.total(); });
  section.blocks.emplace_back(std::move(table));
  if (shown.size() < outcome.memory.stages.size())
    section.blocks.emplace_back(Sentence{
        fmt::format("stage {} is the fullest of {}", fullest.stage, outcome.memory.stages.size()),
        Tone::faint});
  return section;
}

}  // namespace tuner
