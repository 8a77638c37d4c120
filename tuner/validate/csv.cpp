// Reading of CSV tables.
#include "tuner/validate/csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "engine/base/errors.h"

namespace tuner {
namespace {

// Splits text into records; `lines` receives the line on which each begins.
std::vector<std::vector<std::string>> records(std::string_view text, const std::string& source,
                                              std::vector<size_t>& lines) {
  std::vector<std::vector<std::string>> list;
  std::vector<std::string> record;
  std::string cell;
  bool quoted = false;
  size_t line = 1, began = 1;
  auto end_record = [&] {
    record.push_back(std::move(cell));
    cell.clear();
    const bool blank = record.size() == 1 && record.front().empty();
    if (!blank) {
      list.push_back(std::move(record));
      lines.push_back(began);
    }
    record.clear();
    began = line + 1;
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '"' && i + 1 < text.size() && text[i + 1] == '"') {
        cell += '"';
        ++i;
      } else if (c == '"') {
        quoted = false;
      } else {
        cell += c;
      }
    } else if (c == '"' && cell.empty()) {
      quoted = true;
    } else if (c == ',') {
      record.push_back(std::move(cell));
      cell.clear();
    } else if (c == '\n') {
      if (!cell.empty() && cell.back() == '\r') cell.pop_back();
      end_record();
    } else {
      cell += c;
    }
    if (c == '\n') ++line;
  }
  if (quoted)
    throw engine::InputError(
        fmt::format("{}: the quote that begins a cell of the record on line {} is never closed",
                    source, began));
  if (!cell.empty() || !record.empty()) end_record();
  return list;
}

}  // namespace

CsvTable CsvTable::parse(std::string_view text, const std::string& source) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  CsvTable table;
  table.source_ = source;
  std::vector<std::vector<std::string>> list = records(text, source, table.lines_);
  if (list.empty())
    throw engine::InputError(source + ": empty; a header line with names is needed");
  if (list.size() == 1)
    throw engine::InputError(source + ": a header without rows; one row a run is needed");
  table.header_ = std::move(list.front());
  list.erase(list.begin());
  table.lines_.erase(table.lines_.begin());
  std::vector<std::string> problems;
  std::set<std::string> names;
  for (const std::string& name : table.header_)
    if (!names.insert(name).second)
      problems.push_back(fmt::format("{}: column '{}' stands twice", source, name.substr(0, 64)));
  for (size_t i = 0; i < list.size() && problems.size() < 10; ++i)
    if (list[i].size() != table.header_.size())
      problems.push_back(fmt::format("{}: line {} has {} cells, but the header has {}", source,
                                     table.lines_[i], list[i].size(), table.header_.size()));
  if (!problems.empty()) throw engine::InputError(problems);
  table.cells_ = std::move(list);
  return table;
}

std::optional<size_t> CsvTable::column(const std::string& name) const {
  const auto found = std::find(header_.begin(), header_.end(), name);
  if (found == header_.end()) return std::nullopt;
  return static_cast<size_t>(found - header_.begin());
}

const std::string& CsvTable::cell(size_t row, const std::string& name) const {
  static const std::string kEmpty;
  const auto at = column(name);
  return at ? cells_[row][*at] : kEmpty;
}

std::optional<double> CsvTable::number(size_t row, const std::string& name) const {
  const std::string& text = cell(row, name);
  if (text.empty()) return std::nullopt;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value))
    throw engine::InputError(fmt::format("{}: line {}: {} must be a number, not '{}'", source_,
                                         lines_[row], name, text.substr(0, 40)));
  return value;
}

}  // namespace tuner
