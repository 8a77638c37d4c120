// CSV tables with a header line (RFC 4180), read by column name.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tuner {

class CsvTable {
 public:
  // Throws InputError for an unclosed quote, a row of another length than the header, a name that
  // stands twice, no header, or no rows.
  static CsvTable parse(std::string_view text, const std::string& source);

  size_t rows() const { return cells_.size(); }
  bool has_column(const std::string& name) const { return column(name).has_value(); }
  // Empty for a column that the table does not have.
  const std::string& cell(size_t row, const std::string& name) const;
  // Nothing for an empty cell; throws InputError with row and column for one that is no number.
  std::optional<double> number(size_t row, const std::string& name) const;
  const std::string& source() const { return source_; }

 private:
  std::optional<size_t> column(const std::string& name) const;
  std::string source_;
  std::vector<std::string> header_;
  std::vector<std::vector<std::string>> cells_;
  std::vector<size_t> lines_;  // of each row in the file
};

}  // namespace tuner
