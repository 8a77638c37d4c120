// Printing and storing answers.
#include "tuner/cli/answers.h"

#include <fmt/format.h>
#include <langinfo.h>

#include <clocale>
#include <nlohmann/json.hpp>
#include <string_view>

#include "engine/base/files.h"
#include "engine/base/units.h"
#include "tuner/cli/help.h"
#include "tuner/cli/output.h"
#include "tuner/report/report.h"

namespace tuner {
namespace {

bool is_utf8_locale() {
  std::setlocale(LC_CTYPE, "");
  const std::string_view codeset = nl_langinfo(CODESET);
  // A plain C locale says nothing about the terminal, and terminals without UTF-8 are rare.
  return codeset == "UTF-8" || codeset == "ANSI_X3.4-1968";
}

}  // namespace

void print_answer(const nlohmann::json& answer, const Arguments& arguments) {
  if (arguments.flag("--json")) return print_result(json_text(answer) + "\n");
  print_result(render_text(answer, report_style(arguments)));
}

ReportStyle report_style(const Arguments& arguments) {
  return {.width = output_width(),
          .color = use_color(arguments.color(), Stream::result),
          .ascii = arguments.ascii() || !is_utf8_locale(),
          .wide = arguments.wide()};
}

void write_page(const std::string& path, const std::string& page) {
  if (path == "-") return print_result(page);
  const std::string unfinished = path + ".unfinished";
  engine::FileWriter file(unfinished);
  file.append(page.data(), page.size());
  file.close();
  engine::rename_file(unfinished, path);
  print_message(
      fmt::format("{}: {}\n", path, engine::format_bytes(static_cast<double>(page.size()))));
}

RunRecord unfinished_run(const Arguments& arguments, const engine::ModelSpec& model,
                         const ClusterSpec& cluster, const std::string& kind) {
  RunRecord run;
  run.command_line = arguments.command_line();
  run.kind = kind;
  run.model = model.name;
  run.gpu = cluster.device.name;
  run.gpus = cluster.gpus;
  run.status = "unfinished";
  run.tool_version = version_number();
  return run;
}

std::string store_path(const Arguments& arguments) {
  const auto path = arguments.text("--db");
  return path ? *path : default_store_path();
}

void store_answer(const nlohmann::json& answer, const Arguments& arguments,
                  const engine::ModelSpec& model, const ClusterSpec& cluster,
                  const std::string& kind, const std::string& title, const std::string& status) {
  RunRecord run = unfinished_run(arguments, model, cluster, kind);
  run.title = title;
  run.status = status;
  run.answer = json_text(answer, -1);
  Store(store_path(arguments)).add_run(run);
}

}  // namespace tuner
