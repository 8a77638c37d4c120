// Display width, harmless text and wrapping; UTF-8 throughout.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tuner/report/table.h"

namespace tuner {
namespace {

struct CodePoint {
  char32_t value = 0;
  size_t bytes = 1;
  bool valid = false;
};

// The first code point of a text that is not empty; refuses overlong forms and surrogates.
CodePoint first_code_point(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1, true};
  const size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < bytes) return {lead, 1, false};
  char32_t value = lead & (0xFFU >> (bytes + 1));
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {lead, 1, false};
    value = (value << 6) | (byte(i) & 0x3FU);
  }
  constexpr char32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = value >= 0xD800 && value <= 0xDFFF;
  if (value < kSmallest[bytes] || surrogate || value > 0x10FFFF) return {lead, 1, false};
  return {value, bytes, true};
}

struct Range {
  char32_t low, high;
};

template <size_t N>
bool is_in(const std::array<Range, N>& ranges, char32_t value) {
  return std::any_of(ranges.begin(), ranges.end(), [value](const Range& range) {
    return value >= range.low && value <= range.high;
  });
}

// Unicode Standard Annex 11 (East Asian width W and F), and the blocks of emoji.
constexpr std::array<Range, 16> kWide{{{0x1100, 0x115F},
                                       {0x231A, 0x231B},
                                       {0x23E9, 0x23F3},
                                       {0x2614, 0x2615},
                                       {0x2648, 0x2653},
                                       {0x26A1, 0x26FD},
                                       {0x2705, 0x2757},
                                       {0x2795, 0x27BF},
                                       {0x2B1B, 0x2B55},
                                       {0x2E80, 0xA4CF},
                                       {0xA960, 0xA97F},
                                       {0xAC00, 0xD7A3},
                                       {0xF900, 0xFAFF},
                                       {0xFE30, 0xFE6F},
                                       {0xFF00, 0xFF60},
                                       {0x1F000, 0x3FFFD}}};
constexpr std::array<Range, 12> kCombining{{{0x0300, 0x036F},
                                            {0x0483, 0x0489},
                                            {0x0591, 0x05BD},
                                            {0x0610, 0x061A},
                                            {0x064B, 0x065F},
                                            {0x0E31, 0x0E31},
                                            {0x0E34, 0x0E3A},
                                            {0x1AB0, 0x1AFF},
                                            {0x1DC0, 0x1DFF},
                                            {0x20D0, 0x20FF},
                                            {0xFE00, 0xFE0F},
                                            {0xFE20, 0xFE2F}}};
// Controls, format characters, separators of lines, surrogates of private meaning, tags.
constexpr std::array<Range, 13> kUnseen{{{0x0000, 0x001F},
                                         {0x007F, 0x009F},
                                         {0x00AD, 0x00AD},
                                         {0x061C, 0x061C},
                                         {0x115F, 0x1160},
                                         {0x180B, 0x180F},
                                         {0x200B, 0x200F},
                                         {0x2028, 0x202E},
                                         {0x2060, 0x206F},
                                         {0x3164, 0x3164},
                                         {0xFEFF, 0xFEFF},
                                         {0xFFF0, 0xFFFB},
                                         {0xE0000, 0x10FFFF}}};

int width_of(char32_t value) {
  if (value < 0x300) return 1;
  if (is_in(kCombining, value)) return 0;
  return is_in(kWide, value) ? 2 : 1;
}

std::string escaped(const CodePoint& point) {
  if (point.valid && point.value == '\n') return "\\n";
  if (point.valid && point.value == '\t') return "\\t";
  if (!point.valid || point.value < 0x100)
    return fmt::format("\\x{:02x}", static_cast<unsigned>(point.value));
  return fmt::format("\\u{:04x}", static_cast<unsigned>(point.value));
}

// What a typewriter would take for the characters that reports use. Never a quotation mark, which
// could end a quoted word of a command.
std::string_view typewriter(std::string_view character) {
  constexpr std::pair<std::string_view, std::string_view> kPairs[] = {
      {"→", "->"}, {"…", "."},  {"±", "+/-"}, {"×", "x"}, {"·", "*"}, {"µ", "u"},
      {"≤", "<="}, {"≥", ">="}, {"–", "-"},   {"−", "-"}, {"•", "*"}, {"█", "#"}};
  for (const auto& [from, to] : kPairs)
    if (character == from) return to;
  return "?";
}

// The longest beginning of `text` of at most `width` columns, in bytes; at least one character.
size_t bytes_within(std::string_view text, int width) {
  size_t bytes = 0;
  while (bytes < text.size()) {
    const CodePoint point = first_code_point(text.substr(bytes));
    width -= width_of(point.value);
    if (width < 0 && bytes > 0) break;
    bytes += point.bytes;
  }
  return bytes;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
bool is_lower(char c) { return c >= 'a' && c <= 'z'; }

// Whether a line should not end between the two: "61.8 GiB", "~4 %", "TP 8".
bool belong_together(std::string_view word, char next) {
  if (is_digit(next)) return word == "ZeRO" || std::all_of(word.begin(), word.end(), is_upper);
  const size_t first = word.find_first_not_of("~(+");
  return first != std::string_view::npos && is_digit(word[first]) && is_digit(word.back()) &&
         (next == '%' || is_lower(next) || is_upper(next));
}

// Where the word at `start` ends. Two that belong together are one if they fit on a line.
size_t end_of_word(std::string_view text, size_t start, int width) {
  const size_t end = std::min(text.find(' ', start), text.size());
  const std::string_view word = text.substr(start, end - start);
  if (word.empty() || end + 1 >= text.size() || !belong_together(word, text[end + 1])) return end;
  const size_t both = std::min(text.find(' ', end + 1), text.size());
  return display_width(text.substr(start, both - start)) <= width ? both : end;
}

}  // namespace

int display_width(std::string_view text) {
  int width = 0;
  while (!text.empty()) {
    const CodePoint point = first_code_point(text);
    width += width_of(point.value);
    text.remove_prefix(point.bytes);
  }
  return width;
}

std::string harmless(std::string_view text) {
  std::string clean;
  while (!text.empty()) {
    const CodePoint point = first_code_point(text);
    if (!point.valid || is_in(kUnseen, point.value))
      clean += escaped(point);
    else
      clean += text.substr(0, point.bytes);
    text.remove_prefix(point.bytes);
  }
  return clean;
}

std::string to_ascii(std::string_view text) {
  std::string plain;
  while (!text.empty()) {
    const CodePoint point = first_code_point(text);
    if (point.value < 0x80)
      plain += text.front();
    else
      plain += typewriter(text.substr(0, point.bytes));
    text.remove_prefix(point.bytes);
  }
  return plain;
}

std::string cut_to_width(std::string_view text, int width, bool ascii) {
  if (display_width(text) <= width) return std::string(text);
  if (width <= 1) return ascii ? "." : "…";
  return std::string(text.substr(0, bytes_within(text, width - 1))) + (ascii ? "." : "…");
}

std::vector<std::string> wrap(std::string_view text, int width) {
  width = std::max(width, 2);  // a wide character must have room
  std::vector<std::string> lines;
  std::string line;
  const auto end_line = [&] {
    lines.push_back(line);
    line.clear();
  };
  while (!text.empty()) {
    const size_t word_start = std::min(text.find_first_not_of(' '), text.size());
    const size_t word_end = end_of_word(text, word_start, width);
    std::string_view word = text.substr(word_start, word_end - word_start);
    const int needed = static_cast<int>(word_start) + display_width(word);
    if (!line.empty() && display_width(line) + needed > width)
      end_line();
    else if (!line.empty())
      line.append(word_start, ' ');
    while (display_width(word) > width) {
      const size_t bytes = bytes_within(word, width);
      lines.emplace_back(word.substr(0, bytes));
      word.remove_prefix(bytes);
    }
    line += word;
    text.remove_prefix(word_end);
  }
  if (!line.empty()) end_line();
  for (std::string& each : lines) each.erase(each.find_last_not_of(' ') + 1);
  std::erase(lines, "");
  return lines;
}

}  // namespace tuner
