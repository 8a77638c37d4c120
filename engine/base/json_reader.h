// Strict reading of JSON objects: every problem of a document is collected, with its place.
#pragma once
#include <cstdint>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace engine {

using Json = nlohmann::json;

// Parses text that may be hostile: bounded size and nesting. Accepts NaN and Infinity as Python
// writes them (they read as null). Throws InputError naming `source`, line and what is wrong.
Json parse_json(std::string_view text, const std::string& source);

// Reads a whole file of at most `limit_bytes`; throws InputError when it cannot.
std::string read_text_file(const std::string& path, int64_t limit_bytes = int64_t{64} << 20);

// The problems found in one document; ends in one InputError with all of them.
class Problems {
 public:
  explicit Problems(std::string source) : source_(std::move(source)) {}
  void add(std::string_view place, std::string_view what);
  bool empty() const { return list_.empty(); }
  void throw_if_any() const;
  const std::string& source() const { return source_; }

 private:
  std::string source_;
  std::vector<std::string> list_;
};

struct IntegerRange {
  int64_t low = 0;
  int64_t high = std::numeric_limits<int64_t>::max();
};
struct NumberRange {
  double low = 0;
  double high = std::numeric_limits<double>::max();
};

// Reads the members of one JSON object. A member that is absent or null takes the fallback; without
// a fallback it is a problem. After a problem the reader returns the fallback or a zero value, so
// that reading goes on and finds the next one. Keeps references: the Json and the Problems must
// outlive it.
class ObjectReader {
 public:
  ObjectReader(const Json& value, std::string place, Problems& problems);
  ObjectReader(Json&& value, std::string place, Problems& problems) = delete;  // it must live on

  bool has(const std::string& key) const;
  int64_t integer(const std::string& key, IntegerRange range,
                  std::optional<int64_t> fallback = std::nullopt);
  double number(const std::string& key, NumberRange range,
                std::optional<double> fallback = std::nullopt);
  bool flag(const std::string& key, std::optional<bool> fallback = std::nullopt);
  std::string text(const std::string& key, std::optional<std::string> fallback = std::nullopt);
  // The index of the text in `names`; an unknown name is a problem with "did you mean".
  int choice(const std::string& key, const std::vector<std::string>& names,
             std::optional<int> fallback = std::nullopt);
  std::vector<int64_t> integers(const std::string& key, IntegerRange range);
  ObjectReader object(const std::string& key);                // an empty object when absent
  std::vector<ObjectReader> objects(const std::string& key);  // empty when absent
  const Json& value(const std::string& key);                  // null when absent
  std::vector<std::string> keys() const;

  void problem(const std::string& key, std::string_view what);
  Problems& problems() { return *problems_; }
  // Reports members that nobody asked for. Call it last, where the key set is ours.
  void finish();

 private:
  const Json* find(const std::string& key, bool required);
  std::string place_of(const std::string& key) const;
  const Json* value_;
  std::string place_;
  Problems* problems_;
  std::set<std::string> asked_;
};

}  // namespace engine
