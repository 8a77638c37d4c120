// YAML as JSON, through yaml-cpp.
#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "tuner/exchange/syntax.h"

namespace tuner {
namespace {

using engine::InputError;
using nlohmann::json;

constexpr int kDeepest = 64;
constexpr size_t kLongest = size_t{4} << 20;

template <class Number>
bool reads_as(const std::string& text, Number& value) {
  const char* begin = text.data() + (text.starts_with('+') ? 1 : 0);
  const auto [end, error] = std::from_chars(begin, text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

// YAML 1.2's core schema for plain scalars; a quoted one ("!" tag) is a string.
json scalar(const YAML::Node& node) {
  const std::string& text = node.Scalar();
  if (node.Tag() == "!") return text;
  if (text == "true" || text == "True" || text == "TRUE") return true;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  if (text.empty() || text == "~" || text == "null" || text == "Null") return nullptr;
  if (int64_t integer = 0; reads_as(text, integer)) return integer;
  const bool number = text.find_first_not_of("+-.0123456789eE") == std::string::npos;
  if (double value = 0; number && reads_as(text, value)) return value;
  return text;
}

class Converter {
 public:
  explicit Converter(const std::string& source) : source_(source) {}

  json convert(const YAML::Node& node, int depth) {
    // Aliases make one node appear many times: without a bound a small file grows without one.
    constexpr int kMostNodes = 200'000;
    if (depth > kDeepest || ++nodes_ > kMostNodes) fail(node, "nests too deeply or is too large");
    if (node.IsScalar()) return scalar(node);
    if (node.IsSequence()) {
      json list = json::array();
      for (const YAML::Node& item : node) list.push_back(convert(item, depth + 1));
      return list;
    }
    if (!node.IsMap()) return nullptr;
    json object = json::object();
    for (const auto& entry : node) {
      if (!entry.first.IsScalar()) fail(entry.first, "has a key that is no text");
      const std::string& key = entry.first.Scalar();
      if (object.contains(key)) fail(entry.first, fmt::format("has '{}' twice", key));
      object[key] = convert(entry.second, depth + 1);
    }
    return object;
  }

 private:
  [[noreturn]] void fail(const YAML::Node& node, const std::string& what) const {
    throw InputError(fmt::format("{}:{}: {}", source_, node.Mark().line + 1, what));
  }
  const std::string& source_;
  int nodes_ = 0;
};

// yaml-cpp follows nested brackets by recursion: a hostile file could exhaust the stack.
void refuse_deep_nesting(const std::string& text, const std::string& source) {
  int open = 0;
  size_t levels = 0;
  for (const char c : text) {
    if (c == '[' || c == '{') ++open;
    if (c == ']' || c == '}') open = std::max(0, open - 1);
    levels = std::max(levels, static_cast<size_t>(open));
  }
  size_t deepest_line = 0, at_start = 0;
  bool start = true;
  for (const char c : text) {
    if (c == '\n') {
      start = true;
      at_start = 0;
    } else if (start && (c == ' ' || c == '-' || c == '?' || c == '\t')) {
      deepest_line = std::max(deepest_line, ++at_start);
    } else {
      start = false;
    }
  }
  if (levels > kDeepest || deepest_line > 16 * kDeepest)
    throw InputError(fmt::format("{}: nests too deeply", source));
}

}  // namespace

json parse_yaml(const std::string& text, const std::string& source) {
  if (text.size() > kLongest) throw InputError(fmt::format("{}: is too large", source));
  refuse_deep_nesting(text, source);
  try {
    return Converter(source).convert(YAML::Load(text), 0);
  } catch (const YAML::Exception& error) {
    throw InputError(fmt::format("{}:{}: this is no YAML: {}", source,
                                 error.mark.is_null() ? 1 : error.mark.line + 1, error.msg));
  }
}

}  // namespace tuner
