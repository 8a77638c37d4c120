// The reports of `autotune infer`, `estimate infer` and `check infer`.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "engine/base/units.h"
#include "tuner/model/serve_model.h"
#include "tuner/report/phrases.h"
#include "tuner/report/serve_answer.h"
#include "tuner/report/serve_plan_table.h"
#include "tuner/search/serve_explain.h"

namespace tuner {

using engine::format_bytes;
using engine::format_grouped;
using engine::format_seconds;

namespace {

std::string arrival_phrase(const ServeQuestionRecord& q) {
  if (q.arrival == "static") return "static batch";
  if (q.arrival == "isolated") return "one request alone";
  if (q.arrival == "closed_loop") return fmt::format("closed loop of {:g} clients", q.concurrency);
  if (q.arrival == "poisson") return fmt::format("Poisson, {:g} requests/s", q.rate);
  return q.arrival;
}

std::string budget_phrase(const ServeQuestionRecord& q) {
  std::vector<std::string> parts;
  const auto add = [&](const char* name, const std::optional<double>& limit) {
    if (limit) parts.push_back(fmt::format("{} ≤ {}", name, format_seconds(*limit)));
  };
  add("latency", q.latency);
  add("TTFT", q.ttft);
  add("TPOT", q.tpot);
  if (q.tokens_per_second)
    parts.push_back(fmt::format("throughput ≥ {} tokens/s", rough_amount(*q.tokens_per_second)));
  if (parts.empty()) return "no budget";
  std::string text = fmt::format("{}", fmt::join(parts, ", "));
  if (q.statistic != "mean") text += fmt::format(" ({})", q.statistic);
  return text;
}

std::vector<std::string> asked(const ServeQuestionRecord& q) {
  std::vector<std::string> lines = asked_lines(q.common, 0);
  lines.push_back(fmt::format("{} in, {} out, {}; {}", format_grouped(q.input),
                              format_grouped(q.output), arrival_phrase(q), budget_phrase(q)));
  return lines;
}

std::string quantity_phrase(const char* name, const ServeQuantity& quantity) {
  std::string text = fmt::format("{} ~{}", name, format_seconds(quantity.value));
  if (quantity.interval.low > 0 && quantity.interval.high > quantity.interval.low)
    text += fmt::format(" ({})", seconds_range(quantity.interval.low, quantity.interval.high));
  for (const auto& [share, value] : quantity.percentiles)
    text += fmt::format(", {} {}", share, format_seconds(value));
  return text;
}

void add_quantities(const ServeRecord& record, Section& section) {
  section.blocks.emplace_back(Sentence{quantity_phrase("latency", record.latency)});
  section.blocks.emplace_back(Sentence{quantity_phrase("TTFT", record.ttft)});
  section.blocks.emplace_back(Sentence{quantity_phrase("TPOT", record.tpot)});
  std::string rate = fmt::format(
      "~{} tokens/s, ~{} per GPU, ~{} requests/s", rough_amount(record.throughput.value),
      rough_amount(record.per_gpu), rough_amount(record.requests_per_second));
  if (record.running > 0)
    rate += fmt::format("; ~{} running on a replica",
                        counted(rough_amount(record.running), "sequence"));
  section.blocks.emplace_back(Sentence{std::move(rate)});
  if (record.cost)
    section.blocks.emplace_back(
        Sentence{fmt::format("~{:.4g} for a million generated tokens", *record.cost)});
  const std::string free =
      record.headroom_bytes > 0
          ? fmt::format(", of which {} stay free", format_bytes(record.headroom_bytes))
          : "";
  section.blocks.emplace_back(Sentence{
      fmt::format("memory ~{} of {} on the fullest GPU{}; room for {} of KV cache a replica",
                  format_bytes(record.peak_bytes), format_bytes(record.capacity_bytes), free,
                  counted(format_grouped(static_cast<int64_t>(record.kv_token_capacity)), "token")),
      record.fits ? Tone::plain : Tone::bad});
  if (!record.sustained && !record.measured)
    section.blocks.emplace_back(Sentence{
        "requests arrive faster than they are served: the queue grows without end", Tone::bad});
}

bool has_budget(const ServeQuestionRecord& q) {
  return q.latency || q.ttft || q.tpot || q.tokens_per_second;
}

void add_measured(const ServeMeasuredRecord& m, Section& section) {
  section.blocks.emplace_back(Sentence{
      fmt::format("measured: latency {}, TTFT {}, TPOT {}, {} tokens/s, peak memory {}; {}",
                  format_seconds(m.latency), format_seconds(m.ttft), format_seconds(m.tpot),
                  rough_amount(m.tokens_per_second), format_bytes(m.peak_bytes),
                  counted(format_grouped(m.samples), "sample")),
      Tone::strong});
  if (!m.sustained)
    section.blocks.emplace_back(
        Sentence{"requests arrived faster than they were served", Tone::bad});
}

Section best_section(const InferAnswer& answer) {
  const ServeRecord& best = *answer.best;
  Section section{answer.meets_budget ? "Best" : "Nearest", {}};
  section.blocks.emplace_back(Sentence{best.text, Tone::strong});
  if (!answer.meets_budget)
    section.blocks.emplace_back(
        Sentence{"no plan meets the budget; this one is nearest", Tone::bad});
  else if (has_budget(answer.question) && best.measured)
    section.blocks.emplace_back(Sentence{"meets the budget, measured", Tone::good});
  else if (has_budget(answer.question))
    section.blocks.emplace_back(
        Sentence{fmt::format("meets the budget, with a chance of {:.0f} % from the error band",
                             100 * best.probability),
                 Tone::good});
  if (best.measured) add_measured(*best.measured, section);
  add_quantities(best, section);
  section.blocks.emplace_back(Sentence{best.measured
                                           ? "~ predicted before the measurements."
                                           : "Predicted (~), not measured; ranges are 90 % "
                                             "intervals.",
                                       Tone::faint});
  return section;
}

Section bullets(std::string label, const std::vector<std::string>& sentences) {
  Section section{std::move(label), {}};
  for (const std::string& sentence : sentences) section.blocks.emplace_back(Bullet{sentence});
  return section;
}

// Where the latency of a request goes: what the time is spent on, first token and others together.
Section latency_section(const ServeRecord& record) {
  Section section{"Latency", {}};
  if (!(record.latency.value > 0)) return section;
  section.blocks.emplace_back(Sentence{fmt::format(
      "first token ~{}, of which waiting ~{}; the others ~{}", format_seconds(record.ttft.value),
      format_seconds(record.waiting), format_seconds(record.latency.value - record.ttft.value))});
  std::vector<std::string> names;
  std::vector<double> amounts;
  for (size_t i = 0; i < record.prefill.size(); ++i) {
    names.push_back(serve_part_title(record.prefill[i].first));
    amounts.push_back(record.prefill[i].second + record.decode[i].second);
  }
  if (record.waiting > 0.0005 * record.latency.value) {
    names.emplace_back("waiting");
    amounts.push_back(record.waiting);
  }
  const std::vector<double> percent = rounded_percent(amounts);
  Bars bars;
  for (size_t i = 0; i < names.size(); ++i)
    if (percent[i] > 0)
      bars.parts.push_back({names[i], percent[i], "~" + format_seconds(amounts[i])});
  section.blocks.emplace_back(std::move(bars));
  return section;
}

Section memory_section(const ServeRecord& record) {
  Section section{"Memory", {}};
  std::vector<double> amounts;
  for (const auto& [use, bytes] : record.memory) amounts.push_back(bytes);
  const std::vector<double> percent = rounded_percent(amounts);
  Bars bars;
  for (size_t i = 0; i < amounts.size(); ++i)
    if (percent[i] > 0)
      bars.parts.push_back({record.memory[i].first, percent[i], "~" + format_bytes(amounts[i])});
  if (!bars.parts.empty()) section.blocks.emplace_back(std::move(bars));
  return section;
}

Section runners_up_section(const InferAnswer& answer) {
  Section section{"Runners-up", {}};
  if (answer.runners_up.empty()) return section;
  ServePlanTable table;
  table.add(answer.meets_budget ? "best" : "nearest", *answer.best, "");
  int place = 1;
  for (const ServeRunnerUpRecord& other : answer.runners_up) {
    const bool measured = answer.best->measured && other.record.measured;
    std::string note =
        other.difference + ": " + trade_phrase(other.throughput, other.latency, measured);
    if (answer.meets_budget && !other.record.meets) note += "; misses the budget";
    table.add(fmt::format("{}", ++place), other.record, std::move(note));
  }
  section.blocks.emplace_back(std::move(table).table());
  return section;
}

Section frontier_section(const InferAnswer& answer) {
  constexpr size_t kMostRows = 12;
  Section section{"Frontier", {}};
  if (answer.frontier.size() < 2) return section;
  for (Chart& chart : frontier_charts(answer)) section.blocks.emplace_back(std::move(chart));
  section.blocks.emplace_back(
      Sentence{"from the lowest latency to the highest throughput, of everything that fits:"});
  ServePlanTable table;
  const size_t rows = std::min(kMostRows, answer.frontier.size());
  for (size_t i = 0; i < rows; ++i)
    table.add("", answer.frontier[i * (answer.frontier.size() - 1) / (rows - 1)], "");
  section.blocks.emplace_back(std::move(table).table());
  return section;
}

Section smallest_section(const InferAnswer& answer) {
  Section section{"Fewest GPUs", {}};
  if (!answer.smallest || !answer.best) return section;
  const ServeRecord& smallest = *answer.smallest;
  if (smallest.plan.gpus() >= answer.question.common.gpus) return section;
  section.blocks.emplace_back(Sentence{fmt::format(
      "{} of the {} would do: {}, latency ~{}, ~{} tokens/s", format_grouped(smallest.plan.gpus()),
      format_grouped(answer.question.common.gpus), smallest.text,
      format_seconds(smallest.latency.value), rough_amount(smallest.throughput.value))});
  return section;
}

Section nothing_section(const InferAnswer& answer) {
  Section section = bullets("No plan", answer.remedies);
  const std::string text =
      answer.legal == 0 ? "No plan is legal within the restrictions; `autotune check infer` with "
                          "one of them names the rules that it breaks."
                        : fmt::format(
                              "Nothing fits: each of the {} legal plans needs more than the "
                              "memory of a GPU.",
                              format_grouped(answer.legal));
  section.blocks.insert(section.blocks.begin(), Sentence{text, Tone::bad});
  return section;
}

Section search_section(const InferAnswer& answer) {
  Section section{"Search", {}};
  section.blocks.emplace_back(Sentence{fmt::format(
      "{} ways to divide the model → {} legal → {} plans with a batch fit → {} meet the budget, "
      "in {}",
      format_grouped(answer.candidates), format_grouped(answer.legal), format_grouped(answer.fits),
      format_grouped(answer.meets), format_seconds(answer.seconds))});
  return section;
}

Section json_section() {
  Section section{"Next", {}};
  section.blocks.emplace_back(
      CommandLine{{"autotune", "report", "--json"}, "the last answer with every number"});
  return section;
}

Section plan_section(const ServeEstimateAnswer& answer) {
  Section section{"Plan", {}};
  const ServeRecord& record = answer.record;
  section.blocks.emplace_back(Sentence{record.text, Tone::strong});
  const size_t broken = answer.violations.size();
  const bool good = broken == 0;
  std::string verdict = good ? "legal, and fits"
                        : record.predicted
                            ? "legal, but does not fit the memory of a GPU"
                            : fmt::format("breaks {} rule{}", broken, broken == 1 ? "" : "s");
  if (good && has_budget(answer.question))
    verdict += record.meets ? fmt::format("; meets the budget, with a chance of {:.0f} %",
                                          100 * record.probability)
                            : "; misses the budget";
  section.blocks.emplace_back(
      Sentence{std::move(verdict), good && record.meets ? Tone::good : Tone::bad});
  if (record.predicted) {
    add_quantities(record, section);
    section.blocks.emplace_back(Sentence{"limited by " + serve_part_title(record.limit)});
  }
  return section;
}

Section violations_section(const ServeEstimateAnswer& answer) {
  Section section{"Broken rules", {}};
  for (const engine::Violation& violation : answer.violations) {
    std::string text = violation.code + "  " + violation.message;
    if (!violation.nearest.empty())
      text += fmt::format("; nearest: {}", fmt::join(violation.nearest, ", "));
    section.blocks.emplace_back(Bullet{std::move(text)});
  }
  return section;
}

Section nearest_section(const ServeEstimateAnswer& answer) {
  Section section{"Plans near it", {}};
  if (answer.nearest.empty()) return section;
  ServePlanTable table;
  for (const ServeRunnerUpRecord& near : answer.nearest)
    table.add("", near.record, near.difference);
  section.blocks.emplace_back(std::move(table).table());
  return section;
}

Section with_chart(Section section, Chart chart) {
  if (!section.blocks.empty()) section.blocks.emplace_back(std::move(chart));
  return section;
}

// The numbers that the answer comes down to.
std::vector<Figure> figures_of(const InferAnswer& answer) {
  const ServeRecord& best = *answer.best;
  const auto timed = [](const char* name, const std::string& value,
                        const std::optional<double>& budget) {
    return Figure{name, value, budget ? "of at most " + format_seconds(*budget) : ""};
  };
  const ServeQuestionRecord& q = answer.question;
  const ShownFigures shown = shown_figures(best);
  std::vector<Figure> figures{
      timed("latency", shown.latency, q.latency), timed("TTFT", shown.ttft, q.ttft),
      timed("TPOT", shown.tpot, q.tpot),
      Figure{"throughput", shown.throughput + " tokens/s", shown.per_gpu + " per GPU"}};
  if (best.cost)
    figures.push_back({"cost", fmt::format("~{:.4g}", *best.cost), "a million generated tokens"});
  if (best.capacity_bytes > 0)
    figures.push_back({"memory",
                       fmt::format("~{:.0f} %", 100 * best.peak_bytes / best.capacity_bytes),
                       fmt::format("{} of {}", format_bytes(best.peak_bytes),
                                   format_bytes(best.capacity_bytes))});
  return figures;
}

}  // namespace

Document document_of(const InferAnswer& answer) {
  Document document{"autotune infer", asked(answer.question), {}};
  if (answer.best) {
    document.add(best_section(answer));
    document.add(serve_measurement_section(answer));
    if (!answer.meets_budget) document.add(bullets("What would do", answer.remedies));
    document.add(bullets("Why", answer.reasons));
    document.lead = document.sections.size();
    document.figures = figures_of(answer);
    document.add(bullets("Hints", answer.hints));
    document.add(runners_up_section(answer));
    if (answer.confirmation) document.add(confirmation_section(*answer.confirmation));
    document.add(with_chart(latency_section(*answer.best), latency_chart(answer)));
    document.add(with_chart(memory_section(*answer.best), serve_memory_chart(answer)));
    document.add(frontier_section(answer));
    document.add(smallest_section(answer));
  } else {
    document.add(nothing_section(answer));
  }
  document.add(search_section(answer));
  document.add(bullets("Assumed", answer.assumptions));
  document.add(sources_section(answer.question.common));
  document.add(json_section());
  return document;
}

Document document_of(const ServeEstimateAnswer& answer) {
  Document document{answer.verb, asked(answer.question), {}};
  document.add(plan_section(answer));
  document.add(violations_section(answer));
  if (answer.record.predicted) {
    document.add(latency_section(answer.record));
    document.add(memory_section(answer.record));
  }
  document.add(nearest_section(answer));
  document.add(bullets("Assumed", answer.assumptions));
  document.add(sources_section(answer.question.common));
  return document;
}

}  // namespace tuner
