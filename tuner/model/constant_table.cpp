// Constants by scope: reading, writing, choosing.
#include "tuner/model/constant_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/base/json_reader.h"

namespace tuner {

using engine::Json;

ConstantTable::ConstantTable(const Json& json, const std::string& origin, const std::string& schema,
                             std::span<const ConstantName> names)
    : names_(names), text_(json.dump()), origin_(origin) {
  engine::Problems problems(origin);
  engine::ObjectReader document(json, "", problems);
  if (document.text("schema") != schema)
    document.problem("schema", fmt::format("must be \"{}\"", schema));
  engine::ObjectReader constants = document.object("constants");
  constexpr engine::NumberRange kFactor{0, 1e6};
  for (size_t i = 0; i < names_.size(); ++i) {
    engine::ObjectReader constant = constants.object(std::string(names_[i].name));
    sigmas_.push_back(constant.number("sigma", {0, 10}, 0.0));
    shares_.push_back(constant.text("unit", "").starts_with("share of"));
    const engine::NumberRange range{
        names_[i].least, shares_.back() ? std::min(1.0, names_[i].most) : names_[i].most};
    const auto add = [&](const std::string& scope, double prior, engine::ObjectReader& fitted,
                         double sigma, bool is_factor) {
      entries_.push_back({static_cast<int>(i), scope, prior,
                          fitted.number(scope, is_factor ? kFactor : range, prior), sigma,
                          is_factor});
    };
    engine::ObjectReader values = constant.object("values");
    engine::ObjectReader fitted = constant.object("fitted");
    if (!values.has("default")) values.problem("default", "is missing");
    for (const std::string& scope : values.keys())
      add(scope, values.number(scope, range), fitted, sigmas_.back(), false);
    engine::ObjectReader factors = constant.object("factors");
    engine::ObjectReader fitted_factors = constant.object("fitted_factors");
    for (const std::string& scope : factors.keys())
      add(scope, 1.0, fitted_factors, factors.number(scope, {0, 10}), true);
  }
  problems.throw_if_any();
}

Json ConstantTable::to_json(const Json& fit) const {
  Json json = Json::parse(text_);
  for (const ConstantName& constant : names_)
    for (const char* key : {"fitted", "fitted_factors"})
      json["constants"][std::string(constant.name)].erase(key);
  for (const ScopedRate& entry : entries_) {
    Json& constant =
        json["constants"][std::string(names_[static_cast<size_t>(entry.constant)].name)];
    const double given = entry.is_factor ? 1.0 : constant["values"][entry.scope].get<double>();
    if (entry.value != given)
      constant[entry.is_factor ? "fitted_factors" : "fitted"][entry.scope] = entry.value;
  }
  json["fit"] = fit;
  return json;
}

void ConstantTable::reset_to_priors() {
  for (ScopedRate& entry : entries_) entry.value = entry.prior;
}

void ConstantTable::take_values_as_priors() {
  for (ScopedRate& entry : entries_) entry.prior = entry.value;
}

std::vector<size_t> ConstantTable::applicable(std::span<const std::string> scopes) const {
  constexpr size_t kNone = static_cast<size_t>(-1);
  std::vector<size_t> chosen(names_.size(), kNone), factors;
  std::vector<size_t> place(names_.size(), scopes.size());
  for (size_t i = 0; i < entries_.size(); ++i) {
    const auto constant = static_cast<size_t>(entries_[i].constant);
    const auto found = std::find(scopes.begin(), scopes.end(), entries_[i].scope);
    const auto at = static_cast<size_t>(found - scopes.begin());
    if (entries_[i].is_factor) {
      if (at < scopes.size()) factors.push_back(i);
    } else if (at < place[constant]) {
      place[constant] = at;
      chosen[constant] = i;
    }
  }
  for (const size_t entry : chosen) engine::expect(entry != kNone, "a default of every constant");
  chosen.insert(chosen.end(), factors.begin(), factors.end());
  return chosen;
}

std::vector<double> ConstantTable::resolved(std::span<const size_t> applicable) const {
  std::vector<double> values(names_.size(), 1.0);
  for (const size_t entry : applicable)
    values[static_cast<size_t>(entries_[entry].constant)] *= entries_[entry].value;
  return values;
}

}  // namespace tuner
