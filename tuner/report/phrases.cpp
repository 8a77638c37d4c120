// Shared phrases about questions, plans and outcomes.
#include "tuner/report/phrases.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/base/units.h"
#include "engine/plan/model_spec.h"

namespace tuner {

using engine::format_bytes;
using engine::format_count;
using engine::format_grouped;
using engine::format_seconds;
using engine::Outcome;

namespace {

constexpr int kLongestName = 64;

std::string short_name(const std::string& name) {
  return cut_to_width(harmless(name), kLongestName);
}

// 875,264 or 174.6 B.
std::string count_phrase(double count) {
  return count < 1e6 ? format_grouped(std::llround(count)) : format_count(count);
}

std::string rate_number(double rate) {
  return rate < 1000 ? fmt::format("{:.4g}", rate) : format_grouped(std::llround(rate));
}

std::string model_line(const Question& question, int tp) {
  std::string line = question.model.empty() ? "unnamed model" : short_name(question.model);
  std::string facts;
  if (question.parameters > 0) facts = count_phrase(question.parameters) + " parameters";
  if (question.vocab > 0) {
    facts += (facts.empty() ? "" : ", ") + ("vocabulary " + format_grouped(question.vocab));
    if (tp > 0 && question.vocab_multiple > 0) {
      const int64_t padded = engine::padded_vocab(question.vocab, question.vocab_multiple, tp);
      if (padded != question.vocab) facts += " padded to " + format_grouped(padded);
    }
  }
  return facts.empty() ? line : line + " (" + facts + ")";
}

std::string machine_line(const Question& question) {
  std::string line =
      fmt::format("{} × {}", format_grouped(question.gpus),
                  question.gpu_title.empty() ? "unnamed GPU" : short_name(question.gpu_title));
  if (question.memory_bytes > 0)
    line += fmt::format(" ({} each)", format_bytes(question.memory_bytes));
  if (question.gpus_per_node > 0) {
    const int64_t nodes = (question.gpus + question.gpus_per_node - 1) / question.gpus_per_node;
    line += fmt::format(", {} node{} of {}", format_grouped(nodes), nodes == 1 ? "" : "s",
                        question.gpus_per_node);
  }
  if (!question.system.empty()) line += ", " + short_name(question.system);
  return line;
}

std::string workload_line(const Question& question) {
  std::vector<std::string> parts;
  const auto add = [&](bool known, std::string part) {
    if (known) parts.push_back(std::move(part));
  };
  add(question.seq > 0, "seq " + format_grouped(question.seq));
  add(question.gbs > 0, "gbs " + format_grouped(question.gbs));
  add(question.tokens > 0, format_count(question.tokens) + " tokens");
  add(!question.precision.empty(), short_name(question.precision));
  add(!question.attention.empty(), short_name(question.attention) + " attention");
  add(!question.stack.empty(), "stack " + short_name(question.stack));
  std::string line;
  for (const std::string& part : parts) line += (line.empty() ? "" : ", ") + part;
  return line;
}

// "11 + 6 × 12 + 11": stages with equal layers together.
std::string stage_layers(const std::vector<int64_t>& layers) {
  std::string text;
  for (size_t i = 0; i < layers.size();) {
    size_t end = i;
    while (end < layers.size() && layers[end] == layers[i]) ++end;
    if (!text.empty()) text += " + ";
    text +=
        end - i == 1 ? fmt::format("{}", layers[i]) : fmt::format("{} × {}", end - i, layers[i]);
    i = end;
  }
  return text;
}

}  // namespace

std::string_view mark(const Outcome& outcome) { return outcome.measured ? "" : "~"; }

std::vector<std::string> asked_lines(const Question& question, int tp) {
  std::vector<std::string> lines{model_line(question, tp)};
  if (question.gpus > 0) lines.push_back(machine_line(question));
  if (std::string line = workload_line(question); !line.empty()) lines.push_back(std::move(line));
  return lines;
}

std::string plan_phrase(const PlanRecord& record) {
  const auto& layers = record.layers_per_stage;
  const bool uneven =
      std::adjacent_find(layers.begin(), layers.end(), std::not_equal_to<>()) != layers.end();
  return uneven ? record.text + "  layers per stage " + stage_layers(layers) : record.text;
}

std::string rough_amount(double amount) {
  if (amount < 100) return fmt::format("{:.3g}", amount);
  return amount < 999'999.5 ? format_grouped(std::llround(amount)) : format_count(amount);
}

std::string counted(const std::string& number, std::string_view noun) {
  return fmt::format("{} {}{}", number, noun, number == "1" ? "" : "s");
}

std::string seconds_range(double low, double high) {
  std::string from = format_seconds(low);
  const std::string to = format_seconds(high);
  const auto unit_of = [](const std::string& text) { return text.substr(text.find(' ')); };
  if (unit_of(from) == unit_of(to)) from.resize(from.find(' '));
  return from + " to " + to;
}

std::string step_phrase(const Outcome& outcome) {
  std::string text = fmt::format("step {}{}", mark(outcome), format_seconds(outcome.step_seconds));
  const engine::Interval& interval = outcome.interval_seconds;
  if (interval.high > interval.low && interval.low > 0)
    text += fmt::format(" ({})", seconds_range(interval.low, interval.high));
  return text;
}

std::string rate_phrase(const Outcome& outcome) {
  const std::string_view sign = mark(outcome);
  return fmt::format(
      "{0}{1} TFLOP/s per GPU (model FLOPs, full attention square), {0}{2:.1f} % MFU, "
      "{0}{3} tokens/s per GPU",
      sign, rate_number(outcome.tflops_per_gpu), 100 * outcome.mfu,
      rate_number(outcome.tokens_per_second_per_gpu));
}

Sentence memory_sentence(const Question& question, const Outcome& outcome) {
  const double peak = outcome.memory.peak_bytes, capacity = outcome.memory.capacity_bytes;
  std::string text =
      fmt::format("memory {}{} of {}", mark(outcome), format_bytes(peak), format_bytes(capacity));
  if (!outcome.memory.stages.empty())
    text += fmt::format(" on stage {}, the fullest", fullest_stage(outcome).stage);
  if (capacity > 0) text += fmt::format(" ({:.0f} %)", 100 * peak / capacity);
  const double margin = outcome.measured ? 0 : peak * question.memory_error;
  const double left = capacity - peak - margin;
  if (margin > 0)
    text += fmt::format("; with the ±{:.3g} % of the memory model on top, {} {}",
                        100 * question.memory_error, format_bytes(std::abs(left)),
                        left >= 0 ? "stay free" : "are missing");
  else
    text += fmt::format("; {} {}", format_bytes(std::abs(left)),
                        left >= 0 ? "stay free" : "are missing");
  return {text, outcome.fits ? Tone::plain : Tone::bad};
}

Sentence legend(const Outcome& outcome) {
  return {outcome.measured ? "Measured; ranges are 90 % intervals; ~ marks what is predicted."
                           : "Predicted (~), not measured; ranges are 90 % intervals.",
          Tone::faint};
}

std::vector<double> rounded_percent(const std::vector<double>& amounts) {
  constexpr int kTenths = 1000;
  double sum = 0;
  for (const double amount : amounts) sum += amount;
  if (!(sum > 0)) return std::vector<double>(amounts.size(), 0);
  std::vector<std::pair<double, size_t>> remainders;
  std::vector<int> tenths;
  int left = kTenths;
  for (const double amount : amounts) {
    const double exact = amount / sum * kTenths;
    tenths.push_back(static_cast<int>(exact));
    left -= tenths.back();
    remainders.emplace_back(exact - tenths.back(), remainders.size());
  }
  std::sort(remainders.rbegin(), remainders.rend());
  for (size_t i = 0; i < remainders.size() && left > 0; ++i, --left) ++tenths[remainders[i].second];
  std::vector<double> percent;
  for (const int share : tenths) percent.push_back(share / 10.0);
  return percent;
}

Section sources_section(const Question& question) {
  Section section{"Sources", {}};
  const auto add = [&](std::string_view what, const std::string& origin) {
    if (!origin.empty()) section.blocks.emplace_back(Bullet{fmt::format("{}: {}", what, origin)});
  };
  add("model", question.model_origin);
  add("machines", question.cluster_origin);
  add("stack", question.stack_origin);
  add("rates", question.rates_origin);
  return section;
}

}  // namespace tuner
