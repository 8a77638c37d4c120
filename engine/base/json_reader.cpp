// Strict reading of JSON objects.
#include "engine/base/json_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"

namespace engine {
namespace {

const Json kNull;
const Json kEmptyObject = Json::object();

// Python's json writes NaN, Infinity and -Infinity, which JSON forbids: outside strings they become
// null, padded so that places in messages stay right.
std::string without_non_finite(std::string_view text) {
  std::string clean(text);
  bool in_string = false;
  for (size_t i = 0; i < clean.size(); ++i) {
    if (clean[i] == '"') {
      in_string = !in_string;
    } else if (in_string) {
      if (clean[i] == '\\') ++i;
    } else {
      for (const std::string_view word : {"-Infinity", "Infinity", "NaN"}) {
        if (std::string_view(clean).substr(i, word.size()) != word) continue;
        std::string null(word.size() < 4 ? 4 : word.size(), ' ');
        null.replace(0, 4, "null");
        clean.replace(i, word.size(), null);
        break;
      }
    }
  }
  return clean;
}

constexpr int kDeepest = 64;

void check_depth(std::string_view text, const std::string& source) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kDeepest)
        throw InputError(fmt::format("{}: nested deeper than {} levels", source, kDeepest));
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
}

std::string describe(const Json& value) {
  if (value.is_primitive()) {
    std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
    if (text.size() > 40) text = text.substr(0, 40) + "…";
    return text;
  }
  return value.is_array() ? "a list" : "an object";
}

}  // namespace

Json parse_json(std::string_view text, const std::string& source) {
  check_depth(text, source);
  try {
    return Json::parse(without_non_finite(text));
  } catch (const Json::exception& error) {
    std::string what = error.what();
    if (const size_t at = what.find("] "); at != std::string::npos) what = what.substr(at + 2);
    throw InputError(fmt::format("{}: not valid JSON: {}", source, what.substr(0, 200)));
  }
}

std::string read_text_file(const std::string& path, int64_t limit_bytes) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) throw InputError(fmt::format("{}: no such file", path));
  if (std::filesystem::is_directory(status))
    throw InputError(fmt::format("{}: is a folder, not a file", path));
  std::ifstream file(path, std::ios::binary);
  if (!file) throw InputError(fmt::format("{}: cannot be read; check its permissions", path));
  std::string text;
  char buffer[1 << 16];
  while (file.read(buffer, sizeof buffer) || file.gcount() > 0) {
    text.append(buffer, static_cast<size_t>(file.gcount()));
    if (static_cast<int64_t>(text.size()) > limit_bytes)
      throw InputError(fmt::format("{}: larger than {} MiB; this is not the file that was meant",
                                   path, limit_bytes >> 20));
  }
  return text;
}

void Problems::add(std::string_view place, std::string_view what) {
  list_.push_back(place.empty() ? fmt::format("{}: {}", source_, what)
                                : fmt::format("{}: {}: {}", source_, place, what));
}

void Problems::throw_if_any() const {
  if (!list_.empty()) throw InputError(list_);
}

ObjectReader::ObjectReader(const Json& value, std::string place, Problems& problems)
    : value_(&value), place_(std::move(place)), problems_(&problems) {
  if (!value.is_object()) {
    problems_->add(place_, fmt::format("must be an object, not {}", describe(value)));
    value_ = &kEmptyObject;
  }
}

std::string ObjectReader::place_of(const std::string& key) const {
  return place_.empty() ? key : place_ + "." + key;
}

bool ObjectReader::has(const std::string& key) const {
  const auto found = value_->find(key);
  return found != value_->end() && !found->is_null();
}

const Json* ObjectReader::find(const std::string& key, bool required) {
  asked_.insert(key);
  const auto found = value_->find(key);
  if (found != value_->end() && !found->is_null()) return &*found;
  if (required) problem(key, "is missing");
  return nullptr;
}

int64_t ObjectReader::integer(const std::string& key, IntegerRange range,
                              std::optional<int64_t> fallback) {
  const Json* found = find(key, !fallback);
  if (!found) return fallback.value_or(range.low);
  double whole = 0;
  const bool integral = found->is_number_integer() ||
                        (found->is_number_float() &&
                         std::modf(found->get<double>(), &whole) == 0.0 && std::abs(whole) < 9e15);
  const bool too_big = found->is_number_unsigned() &&
                       found->get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()};
  if (!integral || too_big || found->get<int64_t>() < range.low ||
      found->get<int64_t>() > range.high) {
    const bool open = range.high == std::numeric_limits<int64_t>::max();
    problem(key, open ? fmt::format("must be a whole number of at least {}, not {}", range.low,
                                    describe(*found))
                      : fmt::format("must be a whole number from {} to {}, not {}", range.low,
                                    range.high, describe(*found)));
    return fallback.value_or(range.low);
  }
  return found->get<int64_t>();
}

double ObjectReader::number(const std::string& key, NumberRange range,
                            std::optional<double> fallback) {
  const Json* found = find(key, !fallback);
  if (!found) return fallback.value_or(range.low);
  const double value = found->is_number() ? found->get<double>() : std::nan("");
  if (!(value >= range.low && value <= range.high)) {
    const bool open = range.high == std::numeric_limits<double>::max();
    problem(key, open ? fmt::format("must be a number of at least {}, not {}", range.low,
                                    describe(*found))
                      : fmt::format("must be a number from {} to {}, not {}", range.low, range.high,
                                    describe(*found)));
    return fallback.value_or(range.low);
  }
  return value;
}

bool ObjectReader::flag(const std::string& key, std::optional<bool> fallback) {
  const Json* found = find(key, !fallback);
  if (!found) return fallback.value_or(false);
  if (!found->is_boolean()) {
    problem(key, fmt::format("must be true or false, not {}", describe(*found)));
    return fallback.value_or(false);
  }
  return found->get<bool>();
}

std::string ObjectReader::text(const std::string& key, std::optional<std::string> fallback) {
  const Json* found = find(key, !fallback);
  if (!found) return fallback.value_or("");
  if (!found->is_string()) {
    problem(key, fmt::format("must be a text, not {}", describe(*found)));
    return fallback.value_or("");
  }
  return found->get<std::string>();
}

int ObjectReader::choice(const std::string& key, const std::vector<std::string>& names,
                         std::optional<int> fallback) {
  const Json* found = find(key, !fallback);
  if (!found) return fallback.value_or(0);
  if (found->is_string())
    for (size_t i = 0; i < names.size(); ++i)
      if (names[i] == found->get<std::string>()) return static_cast<int>(i);
  problem(key, fmt::format("must be one of {}, not {}", fmt::join(names, ", "), describe(*found)));
  return fallback.value_or(0);
}

std::vector<int64_t> ObjectReader::integers(const std::string& key, IntegerRange range) {
  const Json* found = find(key, false);
  if (!found) return {};
  std::vector<int64_t> values;
  if (found->is_array())
    for (const Json& value : *found)
      if (value.is_number_integer() && value.get<int64_t>() >= range.low &&
          value.get<int64_t>() <= range.high)
        values.push_back(value.get<int64_t>());
  if (!found->is_array() || values.size() != found->size()) {
    problem(key, fmt::format("must be a list of whole numbers of at least {}", range.low));
    return {};
  }
  return values;
}

ObjectReader ObjectReader::object(const std::string& key) {
  const Json* found = find(key, false);
  return {found ? *found : kEmptyObject, place_of(key), *problems_};
}

std::vector<ObjectReader> ObjectReader::objects(const std::string& key) {
  const Json* found = find(key, false);
  if (!found) return {};
  if (!found->is_array()) {
    problem(key, fmt::format("must be a list, not {}", describe(*found)));
    return {};
  }
  std::vector<ObjectReader> readers;
  for (size_t i = 0; i < found->size(); ++i)
    readers.emplace_back((*found)[i], fmt::format("{}[{}]", place_of(key), i), *problems_);
  return readers;
}

const Json& ObjectReader::value(const std::string& key) {
  const Json* found = find(key, false);
  return found ? *found : kNull;
}

std::vector<std::string> ObjectReader::keys() const {
  std::vector<std::string> names;
  for (const auto& item : value_->items()) names.push_back(item.key());
  return names;
}

void ObjectReader::problem(const std::string& key, std::string_view what) {
  problems_->add(place_of(key), what);
}

void ObjectReader::finish() {
  const std::vector<std::string> known(asked_.begin(), asked_.end());
  for (const auto& item : value_->items())
    if (!asked_.contains(item.key()))
      problems_->add(place_, unknown_name("member", item.key(), known,
                                          fmt::format("known are {}", fmt::join(known, ", "))));
}

}  // namespace engine
