// Quoting, comments, and writers of YAML, TOML and Python values.
#include "tuner/exchange/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"

namespace tuner {
namespace {

// The code point that begins at `at`, and its length; length 0 for bytes that are no UTF-8.
std::pair<char32_t, size_t> code_point(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || at + length > text.size()) return {lead, 0};
  char32_t value = lead & (0xFFU >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {lead, 0};
    value = (value << 6) | (byte(i) & 0x3FU);
  }
  constexpr char32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = value >= 0xD800 && value <= 0xDFFF;
  if (value < kSmallest[length] || surrogate || value > 0x10FFFF) return {lead, 0};
  return {value, length};
}

// C0 and C1 controls, line and paragraph separators, marks that turn the direction of writing.
bool is_control(char32_t c) {
  return c < 0x20 || (c >= 0x7F && c < 0xA0) || (c >= 0x200E && c <= 0x200F) ||
         (c >= 0x2028 && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069) || c == 0xFEFF;
}

std::string escape(char32_t c) {
  switch (c) {
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      return fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
  }
}

bool is_plain(std::string_view text, std::string_view others) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           others.find(c) != std::string_view::npos;
  });
}

std::string number_text(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find('.') != std::string::npos) return text;
  const size_t exponent = text.find('e');
  return text.insert(std::min(exponent, text.size()), ".0");
}

std::string scalar_text(const OrderedJson& value, std::string (*of_text)(std::string_view)) {
  if (value.is_string()) return of_text(value.get<std::string>());
  if (value.is_number_float()) return number_text(value.get<double>());
  engine::expect(!value.is_object(), "a scalar or a list");
  if (!value.is_array()) return value.dump();
  std::string text;
  for (const OrderedJson& item : value)
    text += (text.empty() ? "" : ", ") + scalar_text(item, of_text);
  return "[" + text + "]";
}

// Words that YAML 1.1 or 1.2 reads as a string.
bool is_plain_yaml(std::string_view text) {
  static constexpr std::string_view kOthers[] = {"true", "false", "null", "yes", "no",
                                                 "on",   "off",   "y",    "n"};
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return is_plain(text, "_-.") && lower.front() >= 'a' && lower.front() <= 'z' &&
         std::find(std::begin(kOthers), std::end(kOthers), lower) == std::end(kOthers);
}

std::string yaml_string(std::string_view text) {
  return is_plain_yaml(text) ? std::string(text) : double_quoted(text);
}

void add_yaml(const OrderedJson& object, const std::string& indent, std::string& text) {
  for (const auto& [key, value] : object.items()) {
    text += indent + yaml_string(key) + ":";
    if (value.is_object() && !value.empty()) {
      text += "\n";
      add_yaml(value, indent + "  ", text);
    } else {
      text += " " + (value.is_object() ? "{}" : scalar_text(value, yaml_string)) + "\n";
    }
  }
}

std::string toml_key(std::string_view key) {
  return is_plain(key, "_-") ? std::string(key) : double_quoted(key);
}

void add_toml(const OrderedJson& object, const std::string& path, std::string& text) {
  for (const auto& [key, value] : object.items())
    if (!value.is_object())
      text += toml_key(key) + " = " + scalar_text(value, double_quoted) + "\n";
  for (const auto& [key, value] : object.items()) {
    if (!value.is_object()) continue;
    const std::string inner = path.empty() ? toml_key(key) : path + "." + toml_key(key);
    text += (text.empty() ? "[" : "\n[") + inner + "]\n";
    add_toml(value, inner, text);
  }
}

}  // namespace

std::string one_line(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size();) {
    const auto [value, length] = code_point(text, i);
    if (length == 0)
      result += fmt::format("\\x{:02x}", static_cast<uint32_t>(value));
    else if (is_control(value))
      result += escape(value);
    else
      result += text.substr(i, length);
    i += std::max<size_t>(length, 1);
  }
  return result;
}

std::string double_quoted(std::string_view text) {
  std::string result = "\"";
  for (size_t i = 0; i < text.size();) {
    const auto [value, length] = code_point(text, i);
    if (value == '"' || value == '\\')
      result += std::string{'\\', static_cast<char>(value)};
    else if (length == 0)
      result += "\\ufffd";
    else if (is_control(value))
      result += escape(value);
    else
      result += text.substr(i, length);
    i += std::max<size_t>(length, 1);
  }
  return result + "\"";
}

std::string bash_word(std::string_view text) {
  if (is_plain(text, "_-./:=,@%+")) return std::string(text);
  const bool controls = one_line(text) != text;
  std::string result = controls ? "$'" : "'";
  for (const char c : text) {
    if (!controls)
      result += c == '\'' ? "'\\''" : std::string(1, c);
    else if (c == '\'' || c == '\\')
      result += std::string{'\\', c};
    else if (const auto byte = static_cast<unsigned char>(c); byte < 0x20 || byte >= 0x7F)
      result += fmt::format("\\x{:02x}", byte);
    else
      result += c;
  }
  return result + "'";
}

std::string comment_lines(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += "# " + one_line(line) + "\n";
  return text;
}

std::string yaml_text(const OrderedJson& document) {
  std::string text;
  add_yaml(document, "", text);
  return text;
}

std::string toml_text(const OrderedJson& document) {
  std::string text;
  add_toml(document, "", text);
  return text;
}

std::string python_text(const OrderedJson& value) {
  if (value.is_null()) return "None";
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  return scalar_text(value, double_quoted);
}

}  // namespace tuner
