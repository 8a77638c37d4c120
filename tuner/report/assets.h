// Files that stand in every report page, compiled into the program.
#pragma once
#include <span>
#include <string_view>

#include "tuner/model/data_files.h"

namespace tuner {

std::span<const EmbeddedFile> page_files();

// "report.css", "report.js", "chart.min.js"; empty for a file that this build lacks.
std::string_view report_asset(std::string_view name);

}  // namespace tuner
