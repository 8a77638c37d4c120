// TOML as JSON, through toml++.
#include <fmt/format.h>
#include <toml++/toml.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "engine/base/errors.h"
#include "tuner/exchange/syntax.h"

namespace tuner {
namespace {

using nlohmann::json;

json converted(const toml::node& node, const std::string& source) {
  if (const toml::table* table = node.as_table()) {
    json object = json::object();
    for (const auto& [key, value] : *table)
      object[std::string(key.str())] = converted(value, source);
    return object;
  }
  if (const toml::array* array = node.as_array()) {
    json list = json::array();
    for (const toml::node& item : *array) list.push_back(converted(item, source));
    return list;
  }
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* integer = node.as_integer()) return integer->get();
  if (const auto* number = node.as_floating_point()) return number->get();
  if (const auto* flag = node.as_boolean()) return flag->get();
  throw engine::InputError(
      fmt::format("{}:{}: dates have no place here", source, node.source().begin.line));
}

}  // namespace

json parse_toml(const std::string& text, const std::string& source) {
  try {
    return converted(toml::parse(text), source);
  } catch (const toml::parse_error& error) {
    throw engine::InputError(fmt::format("{}:{}: this is no TOML: {}", source,
                                         error.source().begin.line, error.description()));
  }
}

}  // namespace tuner
