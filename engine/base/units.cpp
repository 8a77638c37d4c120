// Reading and writing of quantities with units.
#include "engine/base/units.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <span>
#include <vector>

#include "engine/base/errors.h"

namespace engine {
namespace {

struct Unit {
  std::string_view suffix;
  double factor;
};

// The number in front and the factor of the suffix behind it; throws when either is not understood.
double parse_with_units(std::string_view text, std::string_view what, std::span<const Unit> units,
                        std::string_view example) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view suffix(end, static_cast<size_t>(text.data() + text.size() - end));
  std::string reason;
  if (error == std::errc{} && std::isfinite(value)) {
    std::vector<std::string_view> known;
    for (const Unit& unit : units) {
      if (suffix == unit.suffix && std::isfinite(value * unit.factor)) return value * unit.factor;
      if (!unit.suffix.empty()) known.push_back(unit.suffix);
    }
    // A known unit is behind a number that is too large.
    if (std::find(known.begin(), known.end(), suffix) == known.end())
      reason = fmt::format(": {}the units are {}", suffix.empty() ? "it needs a unit; " : "",
                           fmt::join(known, ", "));
  }
  throw InputError(fmt::format("{} '{}' is not understood{}; write it like {}", what,
                               text.substr(0, 64), reason, example));
}

constexpr Unit kCounts[] = {{"", 1},    {"k", 1e3}, {"K", 1e3},  {"m", 1e6}, {"M", 1e6},
                            {"b", 1e9}, {"B", 1e9}, {"t", 1e12}, {"T", 1e12}};
constexpr Unit kBytes[] = {{"", 1},         {"B", 1},
                           {"KiB", 1024.0}, {"MiB", 1024.0 * 1024},
                           {"GiB", kGiB},   {"TiB", kGiB * 1024},
                           {"kB", 1e3},     {"MB", 1e6},
                           {"GB", 1e9},     {"TB", 1e12}};
constexpr Unit kSeconds[] = {{"us", 1e-6}, {"µs", 1e-6},   {"ms", 1e-3},    {"s", 1},
                             {"sec", 1},   {"m", 60},      {"min", 60},     {"h", 3600},
                             {"d", 86400}, {"day", 86400}, {"days", 86400}, {"w", 604800}};

}  // namespace

double parse_count(std::string_view text, std::string_view what) {
  return parse_with_units(text, what, kCounts, "2048, 512k, 175b or 1.5t");
}
double parse_bytes(std::string_view text, std::string_view what) {
  return parse_with_units(text, what, kBytes, "80GiB, 512MiB or 24GB");
}
double parse_seconds(std::string_view text, std::string_view what) {
  return parse_with_units(text, what, kSeconds, "500ms, 2s, 10m, 6h or 14d");
}

std::string format_count(double count) {
  const double size = std::abs(count);
  if (size >= 999.95e9) return fmt::format("{:.4g} T", count / 1e12);
  if (size >= 999.95e6) return fmt::format("{:.4g} B", count / 1e9);
  if (size >= 999.95e3) return fmt::format("{:.4g} M", count / 1e6);
  return fmt::format("{:.0f}", count);
}

std::string format_bytes(double bytes) {
  const double size = std::abs(bytes);
  if (size >= 1e3 * kGiB) return fmt::format("{:.2f} TiB", bytes / kGiB / 1024);
  if (size >= kGiB) return fmt::format("{:.1f} GiB", bytes / kGiB);
  if (size >= 1024.0 * 1024) return fmt::format("{:.1f} MiB", bytes / 1024 / 1024);
  if (size >= 1024.0) return fmt::format("{:.1f} KiB", bytes / 1024);
  return fmt::format("{:.0f} B", bytes);
}

std::string format_seconds(double seconds) {
  const double size = std::abs(seconds);
  if (size >= 2 * 86400) return fmt::format("{:.1f} days", seconds / 86400);
  if (size >= 2 * 3600) return fmt::format("{:.1f} h", seconds / 3600);
  if (size >= 600) return fmt::format("{:.1f} min", seconds / 60);
  if (size >= 100) return fmt::format("{:.0f} s", seconds);
  if (size >= 1) return fmt::format("{:.2f} s", seconds);
  if (size >= 1e-3) return fmt::format("{:.3g} ms", seconds * 1e3);
  return fmt::format("{:.3g} µs", seconds * 1e6);
}

std::string format_grouped(int64_t count) {
  std::string digits = std::to_string(count);
  for (int i = static_cast<int>(digits.size()) - 3; i > (count < 0 ? 1 : 0); i -= 3)
    digits.insert(static_cast<size_t>(i), 1, ',');
  return digits;
}

}  // namespace engine
