// Uneven pipelines: layers of model chunks, and Megatron-Core's layout strings.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <numeric>

#include "engine/base/errors.h"
#include "engine/plan/partition.h"
#include "tuner/exchange/megatron.h"

namespace tuner {
namespace {

using engine::InputError;
using engine::ParallelPlan;

constexpr size_t kLongestLayout = size_t{1} << 16;

[[noreturn]] void refuse(const std::string& source, const std::string& layout,
                         std::string_view why) {
  throw InputError(
      fmt::format("{}: the pipeline layout '{}' {}", source, one_line(layout.substr(0, 100)), why));
}

// Reads digits at `at` and moves it behind them; 0 where there are none or too many.
size_t count_at(const std::string& text, size_t& at) {
  size_t count = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data() + at, end, count);
  at = static_cast<size_t>(rest - text.data());
  return error == std::errc{} ? count : 0;
}

// Writes repetitions out: "(t|)*3" and "t*3".
std::string unrolled(const std::string& layout, const std::string& source) {
  std::string text;
  for (size_t at = 0; at < layout.size();) {
    const char c = layout[at];
    std::string unit(1, c);
    if (c == '(') {
      const size_t end = layout.find(')', at);
      if (end == std::string::npos) refuse(source, layout, "has a ( without its )");
      unit = unrolled(layout.substr(at + 1, end - at - 1), source);
      at = end;
    }
    ++at;
    size_t times = 1;
    if (at < layout.size() && layout[at] == '*') {
      times = count_at(layout, ++at);
      if (times == 0) refuse(source, layout, "has a * without a number above 0");
    }
    if (c == ',') continue;  // a mere ornament
    if (times * unit.size() + text.size() > kLongestLayout) refuse(source, layout, "is too long");
    for (size_t i = 0; i < times; ++i) text += unit;
  }
  return text;
}

}  // namespace

std::string pipeline_layout(const ParallelPlan& plan, int64_t layers) {
  const engine::Partition partition(plan, layers);
  std::string text;
  for (int chunk = 0; chunk < partition.chunks(); ++chunk)
    for (int stage = 0; stage < partition.stages(); ++stage) {
      if (!text.empty()) text += "|";
      if (engine::Partition::has_embedding(stage, chunk)) text += "E";
      if (const int count = partition.chunk(stage, chunk).count; count > 0)
        text += fmt::format("t*{}", count);
      if (partition.has_head(stage, chunk)) text += "L";
    }
  return text;
}

void use_chunk_layers(const std::vector<int>& chunks, int64_t layers, ParallelPlan& plan,
                      const std::string& source) {
  const int64_t placed = std::accumulate(chunks.begin(), chunks.end(), int64_t{0});
  if (placed != layers)
    throw InputError(fmt::format("{}: the pipeline places {} layers, but the model has {}", source,
                                 placed, layers));
  if (chunks.empty() || chunks.size() % static_cast<size_t>(plan.pp) != 0)
    throw InputError(fmt::format("{}: the pipeline has {} chunks, no multiple of its {} stages",
                                 source, chunks.size(), plan.pp));
  plan.vpp = static_cast<int>(chunks.size()) / plan.pp;
  plan.layers_per_stage.assign(static_cast<size_t>(plan.pp), 0);
  for (size_t i = 0; i < chunks.size(); ++i)
    plan.layers_per_stage[i % static_cast<size_t>(plan.pp)] += chunks[i];
  const auto count_of = [&](const engine::Partition& partition, size_t i) {
    const auto stages = static_cast<size_t>(plan.pp);
    return partition.chunk(static_cast<int>(i % stages), static_cast<int>(i / stages)).count;
  };
  bool same = true;
  try {
    const engine::Partition partition(plan, layers);
    for (size_t i = 0; i < chunks.size(); ++i) same = same && count_of(partition, i) == chunks[i];
  } catch (const std::logic_error&) {
    same = false;
  }
  if (!same)
    throw InputError(fmt::format(
        "{}: the layers of the chunks ({}) differ by more than a plan can say: chunks of a stage "
        "are equal, but for one that has a layer less, the first of the first stage or the last of "
        "another",
        source, fmt::join(chunks, ", ")));
  const auto& shares = plan.layers_per_stage;
  if (std::all_of(chunks.begin(), chunks.end(), [&](int n) { return n == chunks.front(); }) &&
      shares.front() % plan.vpp == 0)
    plan.layers_per_stage.clear();
}

void read_pipeline_layout(const std::string& layout, int64_t layers, ParallelPlan& plan,
                          const std::string& source) {
  const std::string text = unrolled(layout, source);
  std::vector<int> chunks = {0};
  for (const char c : text) {
    if (c == '|')
      chunks.push_back(0);
    else if (c == 't')
      ++chunks.back();
    else if (c == 'm')
      refuse(source, layout, "has layers of multi-token prediction, which are not predicted");
    else if (c != 'E' && c != 'L')
      refuse(source, layout, "has other letters than E, t and L");
  }
  const auto embedding = text.find('E'), loss = text.find('L');
  if ((embedding != std::string::npos && embedding > text.find('|')) ||
      (loss != std::string::npos && text.find('|', loss) != std::string::npos))
    refuse(source, layout, "does not have the embedding on the first and the loss on the last");
  use_chunk_layers(chunks, layers, plan, source);
}

}  // namespace tuner
