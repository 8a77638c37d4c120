// Writing to the terminal.
#include "tuner/cli/output.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>

#include "engine/base/errors.h"
#include "tuner/report/table.h"

namespace tuner {
namespace {

bool set_in_environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

bool is_number(const std::string& cell) {
  return cell.empty() || cell == "-" ||
         cell.find_first_not_of("0123456789.,~ ") == std::string::npos;
}

// The error of the first failed write; 0 = none.
int& write_error() {
  static int error = 0;
  return error;
}

}  // namespace

bool use_color(ColorChoice choice, Stream stream) {
  if (choice != ColorChoice::when_terminal) return choice == ColorChoice::always;
  if (set_in_environment("NO_COLOR")) return false;
  if (const char* forced = std::getenv("CLICOLOR_FORCE");
      forced != nullptr && *forced != '\0' && std::strcmp(forced, "0") != 0)
    return true;
  if (const char* terminal = std::getenv("TERM");
      terminal == nullptr || std::strcmp(terminal, "dumb") == 0)
    return false;
  return isatty(stream == Stream::result ? STDOUT_FILENO : STDERR_FILENO) == 1;
}

std::string Style::wrap(std::string_view code, std::string_view text) const {
  if (!color_) return std::string(text);
  return "\x1b[" + std::string(code) + "m" + std::string(text) + "\x1b[0m";
}

int output_width() {
  constexpr int kWidest = 100;
  constexpr int kNarrowest = 40;
  int columns = kWidest;
  if (const char* text = std::getenv("COLUMNS")) {
    std::from_chars(text, text + std::strlen(text), columns);
  } else if (winsize size{}; ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    columns = size.ws_col;
  }
  return std::clamp(columns, kNarrowest, kWidest);
}

std::string format_table(const std::vector<std::string>& header,
                         const std::vector<std::vector<std::string>>& raw_rows, int width) {
  std::vector<std::vector<std::string>> rows = raw_rows;
  for (auto& row : rows)
    for (std::string& cell : row) cell = harmless(cell);
  std::vector<int> widths;
  std::vector<bool> right;
  for (size_t column = 0; column < header.size(); ++column) {
    int widest = display_width(header[column]);
    bool numbers = !rows.empty();
    for (const auto& row : rows) {
      widest = std::max(widest, display_width(row[column]));
      numbers = numbers && is_number(row[column]);
    }
    widths.push_back(widest);
    right.push_back(numbers);
  }
  constexpr int kNarrowest = 8;
  std::string table;
  const auto add_line = [&](const std::vector<std::string>& cells) {
    std::string line;
    int used = 0;
    for (size_t column = 0; column < cells.size(); ++column) {
      if (column + 1 == cells.size() && !right[column]) {
        line += cut_to_width(cells[column], std::max(width - used, kNarrowest));
        break;
      }
      const std::string padding(static_cast<size_t>(widths[column] - display_width(cells[column])),
                                ' ');
      line += right[column] ? padding + cells[column] : cells[column] + padding;
      line += "  ";
      used += widths[column] + 2;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    table += line + "\n";
  };
  add_line(header);
  for (const auto& row : rows) add_line(row);
  return table;
}

std::string wrapped_text(std::string_view text, size_t indent, size_t width) {
  std::string result;
  std::string line;
  const auto end_line = [&] {
    if (!line.empty()) result += std::string(indent, ' ') + line + "\n";
    line.clear();
  };
  while (!text.empty()) {
    const size_t stop = text.find_first_of(" \n");
    const std::string_view word = text.substr(0, stop);
    if (indent + line.size() + word.size() + 1 > width) end_line();
    if (!word.empty()) line += (line.empty() ? "" : " ") + std::string(word);
    if (stop == std::string_view::npos) break;
    if (text[stop] == '\n') {
      end_line();
      if (text.substr(stop).starts_with("\n\n")) result += "\n";
    }
    text.remove_prefix(stop + 1);
  }
  end_line();
  return result;
}

void print_result(std::string_view text) {
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() && write_error() == 0)
    write_error() = errno;
}

void print_message(std::string_view text) { std::cerr << text << std::flush; }

void finish_results() {
  errno = 0;
  if (std::fflush(stdout) != 0 && write_error() == 0) write_error() = errno;
  if (write_error() == 0 || write_error() == EPIPE) return;
  throw engine::Error(engine::ExitCode::storage,
                      std::string("the result could not be written to standard output: ") +
                          std::strerror(write_error()) + "; direct it somewhere else");
}

bool can_ask() { return isatty(STDIN_FILENO) == 1; }

bool ask_yes(std::string_view question) {
  print_message(std::string(question) + " [y/N] ");
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "Y" || answer == "yes";
}

void guard_standard_streams() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    // Opened read-only, so that writing a result still fails and is reported.
    if (fcntl(descriptor, F_GETFD) == -1 && errno == EBADF) {
      const int opened = open("/dev/null", O_RDONLY);
      engine::expect(opened == descriptor || opened == -1, "the lowest free descriptor");
    }
  }
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

}  // namespace tuner
