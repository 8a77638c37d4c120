// Which answer it is, and how it is shown.
#include "tuner/report/report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <variant>

#include "engine/base/errors.h"
#include "engine/base/json_reader.h"
#include "tuner/report/answer.h"
#include "tuner/report/document.h"
#include "tuner/report/html.h"
#include "tuner/report/layout.h"

namespace tuner {
namespace {

using engine::Json;

using Answer = std::variant<TrainAnswer, EstimateAnswer, SizeAnswer, SweepAnswer, CompareAnswer,
                            InferAnswer, ServeEstimateAnswer>;

Answer read_answer(const Json& json) {
  if (!json.is_object())
    throw engine::InputError(
        "the answer cannot be shown: it is no JSON object; run the command again");
  const auto schema = json.find("schema");
  if (schema == json.end() || !schema->is_string())
    throw engine::InputError(
        "the answer cannot be shown: it has no \"schema\" that names its kind; run the command "
        "again");
  const auto name = schema->get<std::string>();
  if (name == "autotune.train/1") return read_train_answer(json);
  if (name == "autotune.estimate/1") return read_estimate_answer(json);
  if (name == "autotune.check/1") return read_check_answer(json);
  if (name == "autotune.size/1") return read_size_answer(json);
  if (name == "autotune.sweep/1") return read_sweep_answer(json);
  if (name == "autotune.compare/1") return read_compare_answer(json);
  if (name == "autotune.infer/1") return read_infer_answer(json);
  if (name == "autotune.estimate_infer/1" || name == "autotune.check_infer/1")
    return read_serve_estimate_answer(json);
  throw engine::InputError(
      fmt::format("answers of the schema '{}' cannot be shown by this version, which knows "
                  "autotune.train/1, autotune.estimate/1, autotune.check/1, autotune.size/1, "
                  "autotune.sweep/1, autotune.compare/1, autotune.infer/1, "
                  "autotune.estimate_infer/1 and autotune.check_infer/1; "
                  "use --json, or the version that gave the answer",
                  cut_to_width(harmless(name), 64)));
}

}  // namespace

Document document_of_answer(const Json& answer) {
  return std::visit([](const auto& read) { return document_of(read); }, read_answer(answer));
}

std::string render_text(const Json& answer, const ReportStyle& style) {
  return render_document(document_of_answer(answer), style);
}

std::string render_html(const Json& answer) {
  return render_document_html(document_of_answer(answer));
}

std::string render_markdown(const Json& answer) {
  return render_document_markdown(document_of_answer(answer));
}

std::string render_csv(const Json& answer) {
  return std::visit([](const auto& read) { return csv_of(read); }, read_answer(answer));
}

}  // namespace tuner
