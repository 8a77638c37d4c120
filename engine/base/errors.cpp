// Error types and "did you mean".
#include "engine/base/errors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <numeric>

namespace engine {
namespace {

std::string fold(std::string_view word) {
  std::string folded;
  for (const char c : word)
    if (c != '-' && c != '_' && c != '.')
      folded += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return folded;
}

// Letters to insert, drop, replace or swap with their neighbour.
size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> before_last;
  std::vector<size_t> last(b.size() + 1);
  std::iota(last.begin(), last.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    std::vector<size_t> row(b.size() + 1, i);
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    before_last = std::move(last);
    last = std::move(row);
  }
  return last.back();
}

}  // namespace

InputError::InputError(std::vector<std::string> problems)
    : Error(ExitCode::usage, fmt::format("{}", fmt::join(problems, "\n"))),
      problems_(std::move(problems)) {}

void fail_expectation(std::string_view what, const Place& where) {
  throw std::logic_error(
      fmt::format("{}:{}: {}: expected {}", where.file, where.line, where.function, what));
}

std::vector<std::string> did_you_mean(std::string_view word,
                                      const std::vector<std::string>& candidates) {
  constexpr size_t kLongestWord = 64;
  if (word.size() > kLongestWord) return {};
  const std::string folded = fold(word);
  std::vector<std::pair<size_t, std::string>> near;
  for (const std::string& candidate : candidates) {
    const std::string other = fold(candidate);
    size_t distance = edit_distance(folded, other);
    const bool part = folded.size() >= 3 && other.find(folded) != std::string::npos;
    if (part) distance = std::min<size_t>(distance, 1);
    if (distance <= std::max<size_t>(1, folded.size() / 3)) near.emplace_back(distance, candidate);
  }
  std::stable_sort(near.begin(), near.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min<size_t>(3, near.size()); ++i) names.push_back(near[i].second);
  return names;
}

std::string unknown_name(std::string_view kind, std::string_view word,
                         const std::vector<std::string>& candidates, std::string_view hint) {
  const auto near = did_you_mean(word, candidates);
  if (near.empty()) return fmt::format("unknown {} '{}'; {}", kind, word.substr(0, 64), hint);
  return fmt::format("unknown {} '{}'; did you mean {}?", kind, word, fmt::join(near, " or "));
}

}  // namespace engine
