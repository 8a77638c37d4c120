// The rules that a plan must obey, documented by code; `autotune explain` prints them.
#pragma once
#include <span>
#include <string_view>

namespace tuner {

struct RuleDocument {
  std::string_view code;   // "AT0112"
  std::string_view title;  // one line
  std::string_view why;    // where the rule comes from
  std::string_view fix;    // what to do
};

// All rules, in the order of their codes.
std::span<const RuleDocument> rule_documents();

}  // namespace tuner
