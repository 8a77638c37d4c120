// Text for terminals: display width, harmless names, wrapping, aligned columns, bars.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace tuner {

// Columns the text takes on a terminal: East Asian wide characters and emoji take two, combining
// marks none. The text must be harmless().
int display_width(std::string_view text);

// The text with everything that could act on a terminal or reorder its line made visible: control
// characters as \n or \x1b, invisible and bidirectional ones as \u202e, bytes that are no UTF-8 as
// \xff.
std::string harmless(std::string_view text);

// The text without a character beyond ASCII: those that reports use become what a typewriter would
// have taken (→ "->"), others "?".
std::string to_ascii(std::string_view text);

// At most `width` columns; "…" (or "." where `ascii`) ends what was cut.
std::string cut_to_width(std::string_view text, int width, bool ascii = false);

// Lines of at most `width` columns, broken at blanks, and within a word only where it is wider than
// a line. Runs of blanks within a line stay.
std::vector<std::string> wrap(std::string_view text, int width);

struct Column {
  std::string title;
  bool right = false;
  int priority = 0;  // 0 = never dropped; the highest goes first
};

// Rows of cells under column titles. A row may have a note, which stands below it.
struct Table {
  struct Row {
    std::vector<std::string> cells;
    std::string note;
  };
  std::vector<Column> columns;
  std::vector<Row> rows;
};

// The table as lines of at most `width` columns, two blanks between columns. Where it is too wide,
// columns are dropped by priority, then texts are cut. The cells must be harmless().
std::vector<std::string> table_lines(const Table& table, int width, bool ascii);

// A bar of `fraction` (0 to 1) of `width` columns; empty only for nothing at all.
std::string bar(double fraction, int width, bool ascii);

}  // namespace tuner
