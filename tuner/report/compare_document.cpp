// The report of `autotune compare`.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/base/json_reader.h"
#include "engine/base/units.h"
#include "tuner/report/compare.h"
#include "tuner/report/layout.h"
#include "tuner/report/phrases.h"

namespace tuner {

using engine::format_bytes;
using engine::format_seconds;
using engine::Json;
using engine::ObjectReader;

namespace {

engine::Interval read_interval(ObjectReader& reader, const std::string& key) {
  const Json& ends = reader.value(key);
  if (!ends.is_array() || ends.size() != 2 || !ends[0].is_number() || !ends[1].is_number())
    return {};
  return {ends[0].get<double>(), ends[1].get<double>()};
}

ComparedPlan read_plan(ObjectReader reader) {
  ComparedPlan plan;
  plan.name = reader.text("name", "");
  plan.text = reader.text("text", "");
  plan.measured = reader.flag("measured", false);
  plan.seconds = reader.number("seconds", {});
  plan.interval = read_interval(reader, "interval_seconds");
  plan.tokens_per_second = reader.number("tokens_per_second", {}, 0.0);
  plan.days = reader.number("days_to_train", {}, 0.0);
  plan.ttft = reader.number("ttft_seconds", {}, 0.0);
  plan.tpot = reader.number("tpot_seconds", {}, 0.0);
  plan.peak_bytes = reader.number("peak_bytes", {}, 0.0);
  plan.capacity_bytes = reader.number("capacity_bytes", {}, 0.0);
  return plan;
}

}  // namespace

CompareAnswer read_compare_answer(const Json& json) {
  engine::Problems problems("the comparison");
  ObjectReader reader(json, "", problems);
  CompareAnswer answer;
  answer.serving = reader.text("kind", "") == "infer";
  answer.a = read_plan(reader.object("a"));
  answer.b = read_plan(reader.object("b"));
  for (ObjectReader& one : reader.objects("differences"))
    answer.differences.push_back({one.text("what", ""), one.text("a", ""), one.text("b", "")});
  answer.speedup = reader.number("speedup", {});
  answer.speedup_interval = read_interval(reader, "interval_speedup");
  answer.probability_faster = reader.number("probability_faster", {0, 1});
  answer.uncertainty = reader.text("uncertainty", "");
  for (ObjectReader& part : reader.objects("parts"))
    answer.parts.push_back({part.text("name", ""), part.number("a_seconds", {-1e300, 1e300}, 0.0),
                            part.number("b_seconds", {-1e300, 1e300}, 0.0)});
  problems.throw_if_any();
  return answer;
}

namespace {

std::string_view mark(const ComparedPlan& plan) { return plan.measured ? "" : "~"; }

Section verdict_section(const CompareAnswer& answer) {
  constexpr double kSure = 0.95;
  Section section{"Answer", {}};
  const double percent = 100 * (answer.speedup - 1);
  const engine::Interval& interval = answer.speedup_interval;
  const double sure = std::max(answer.probability_faster, 1 - answer.probability_faster);
  const bool equal = std::abs(percent) < 0.05;
  section.blocks.emplace_back(
      Sentence{equal ? std::string("B is as fast as A")
                     : fmt::format("B has {:+.1f} % throughput against A", percent),
               equal || sure < kSure ? Tone::strong
               : percent > 0         ? Tone::good
                                     : Tone::bad});
  section.blocks.emplace_back(Sentence{fmt::format(
      "{:.2f} × as fast, {:.2f} to {:.2f} with 90 % certainty; the chance that B is the faster "
      "one is {:.0f} %{}",
      answer.speedup, interval.low, interval.high, 100 * answer.probability_faster,
      sure < kSure ? ": too close to call, so measure both" : "")});
  section.blocks.emplace_back(Sentence{answer.uncertainty, Tone::faint});
  return section;
}

Section sides_section(const CompareAnswer& answer) {
  Section section{"Plans", {}};
  Table table{{{""}, {"A", true, 0}, {"B", true, 0}}, {}};
  const ComparedPlan &a = answer.a, &b = answer.b;
  const auto add = [&](const char* name, double one, double other, const auto& text) {
    if (one > 0 || other > 0)
      table.rows.push_back({{name, one > 0 ? fmt::format("{}{}", mark(a), text(one)) : "-",
                             other > 0 ? fmt::format("{}{}", mark(b), text(other)) : "-"},
                            ""});
  };
  const auto days = [](double value) { return format_seconds(value * 86400); };
  add(answer.serving ? "latency" : "step", a.seconds, b.seconds, format_seconds);
  add("TTFT", a.ttft, b.ttft, format_seconds);
  add("TPOT", a.tpot, b.tpot, format_seconds);
  add("tokens/s", a.tokens_per_second, b.tokens_per_second, rough_amount);
  add("training", a.days, b.days, days);
  add("memory", a.peak_bytes, b.peak_bytes, format_bytes);
  add("of", a.capacity_bytes, b.capacity_bytes, format_bytes);
  section.blocks.emplace_back(Sentence{"A  " + a.name + ": " + a.text});
  section.blocks.emplace_back(Sentence{"B  " + b.name + ": " + b.text});
  section.blocks.emplace_back(std::move(table));
  return section;
}

Section differences_section(const CompareAnswer& answer) {
  Section section{"Differs", {}};
  Table table{{{""}, {"A"}, {"B"}}, {}};
  for (const CompareAnswer::Difference& one : answer.differences)
    table.rows.push_back(
        {{one.what, one.a.empty() ? "-" : one.a, one.b.empty() ? "-" : one.b}, ""});
  if (table.rows.empty())
    section.blocks.emplace_back(Sentence{"nothing: both answer one question with one plan"});
  else
    section.blocks.emplace_back(std::move(table));
  return section;
}

// The parts that make most of the difference, as sentences.
Section why_section(const CompareAnswer& answer) {
  constexpr size_t kMost = 4;
  constexpr double kSmallest = 0.01;  // of the step
  Section section{"Why", {}};
  std::vector<CompareAnswer::Part> parts = answer.parts;
  std::stable_sort(parts.begin(), parts.end(), [](const auto& one, const auto& other) {
    return std::abs(one.b_seconds - one.a_seconds) > std::abs(other.b_seconds - other.a_seconds);
  });
  for (const CompareAnswer::Part& part : parts) {
    const double change = part.b_seconds - part.a_seconds;
    if (section.blocks.size() == kMost || std::abs(change) < kSmallest * answer.a.seconds) break;
    section.blocks.emplace_back(
        Bullet{fmt::format("{}: {} {} ({} instead of {})", part.name,
                           format_seconds(std::abs(change)), change < 0 ? "less" : "more",
                           format_seconds(part.b_seconds), format_seconds(part.a_seconds))});
  }
  return section;
}

Section parts_section(const CompareAnswer& answer) {
  Section section{answer.serving ? "Latency" : "Step time", {}};
  Table table{{{"part"}, {"A", true, 0}, {"B", true, 0}, {"B − A", true, 0}}, {}};
  Chart chart;
  chart.kind = Chart::Kind::bars;
  chart.wide = true;
  chart.title = answer.serving ? "Where the latency goes" : "Where the step goes";
  chart.x = {"plan"};
  chart.y = {"time", Quantity::seconds, false, true};
  chart.categories = {"A", "B"};
  const auto text = [](double seconds) {
    return seconds > 0 ? format_seconds(seconds) : std::string("-");
  };
  for (const CompareAnswer::Part& part : answer.parts) {
    if (!(part.a_seconds > 0) && !(part.b_seconds > 0)) continue;
    const double change = part.b_seconds - part.a_seconds;
    table.rows.push_back({{part.name, text(part.a_seconds), text(part.b_seconds),
                           (change < 0 ? "−" : "+") + format_seconds(std::abs(change))},
                          ""});
    chart.series.push_back(
        {part.name, Chart::Mark::point, {{0, part.a_seconds}, {1, part.b_seconds}}});
  }
  if (table.rows.empty()) return section;
  section.blocks.emplace_back(std::move(table));
  section.blocks.emplace_back(std::move(chart));
  return section;
}

}  // namespace

Document document_of(const CompareAnswer& answer) {
  Document document{"autotune compare", {"A  " + answer.a.name, "B  " + answer.b.name}, {}};
  document.add(verdict_section(answer));
  document.add(why_section(answer));
  document.lead = document.sections.size();
  document.add(sides_section(answer));
  document.add(differences_section(answer));
  document.add(parts_section(answer));
  return document;
}

std::string csv_of(const CompareAnswer& answer) {
  std::string text = "part,a_seconds,b_seconds\n";
  for (const CompareAnswer::Part& part : answer.parts)
    text += fmt::format("{},{},{}\n", csv_field(part.name), part.a_seconds, part.b_seconds);
  return text;
}

}  // namespace tuner
