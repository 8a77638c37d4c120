// ConstantTable: the constants of a model by scope, each with its prior and what a fit made of it.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tuner {

// One number of one constant in one scope: a value, or a factor upon the value.
struct ScopedRate {
  int constant = 0;   // index into the names of the table
  std::string scope;  // "default", an architecture, a GPU, a stack, …
  double prior = 0;
  double value = 0;  // the fitted one, or the prior
  double sigma = 0;  // prior standard deviation of its logarithm (of the odds for shares)
  bool is_factor = false;
};

// A constant of a table, and what its values may be; shares are at most 1 in any case.
struct ConstantName {
  std::string_view name;
  double least = 0, most = 1e15;
};

// A constant is the value of its most specific scope that applies, times every factor whose scope
// applies. The file has, by name of the constant: unit, meaning, source, sigma, values {scope:
// number}, and where needed factors {scope: sigma}, whose prior is 1; what was fitted stands in
// `fitted` and `fitted_factors` beside them.
class ConstantTable {
 public:
  // Throws InputError when a constant is missing or bad. `names` must outlive the table.
  ConstantTable(const nlohmann::json& json, const std::string& origin, const std::string& schema,
                std::span<const ConstantName> names);
  // The same document with the fitted values and an account of the fit.
  nlohmann::json to_json(const nlohmann::json& fit) const;

  // Of the values of a constant; 0 = not to be fitted.
  double sigma(int constant) const { return sigmas_[static_cast<size_t>(constant)]; }
  bool is_share(int constant) const { return shares_[static_cast<size_t>(constant)]; }

  const std::vector<ScopedRate>& entries() const { return entries_; }
  void set_value(size_t entry, double value) { entries_[entry].value = value; }
  void reset_to_priors();        // as before any fit
  void take_values_as_priors();  // of a further fit
  const std::string& origin() const { return origin_; }

  // The entries that apply under these scopes, the most specific scope first: one value of every
  // constant in the order of the names, then the factors.
  std::vector<size_t> applicable(std::span<const std::string> scopes) const;
  // Every constant in the order of the names.
  std::vector<double> resolved(std::span<const size_t> applicable) const;

 private:
  std::vector<ScopedRate> entries_;
  std::vector<double> sigmas_;
  std::vector<bool> shares_;
  std::span<const ConstantName> names_;
  std::string text_;  // the document as read
  std::string origin_;
};

}  // namespace tuner
