// Answers against the published schemas in schemas/.
#include "tests/cli/json_schema.h"

#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <regex>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>

namespace cli_test {
namespace {

using valijson::adapters::NlohmannJsonAdapter;

std::unique_ptr<nlohmann::json> schema_file(const std::string& name) {
  std::ifstream file(std::string(AUTOTUNE_SOURCE_DIR "/schemas/") + name);
  if (!file) return nullptr;
  return std::make_unique<nlohmann::json>(nlohmann::json::parse(file));
}

}  // namespace

std::string schema_problems(const nlohmann::json& answer) {
  const std::string id = answer.at("schema").get<std::string>();
  std::smatch parts;
  if (!std::regex_match(id, parts, std::regex(R"(autotune\.([a-z_]+)/\d+)")))
    return "'" + id + "' is no name of a schema";
  const auto text = schema_file(parts[1].str() + ".schema.json");
  if (text == nullptr) return "there is no schemas/" + parts[1].str() + ".schema.json";
  valijson::Schema schema;
  valijson::SchemaParser parser;
  const auto fetch = [](const std::string& uri) -> const nlohmann::json* {
    return schema_file(std::filesystem::path(uri).filename().string()).release();
  };
  const auto release = [](const nlohmann::json* document) { delete document; };
  parser.populateSchema<NlohmannJsonAdapter>(NlohmannJsonAdapter(*text), schema, fetch, release);
  valijson::Validator validator;
  valijson::ValidationResults results;
  if (validator.validate(schema, NlohmannJsonAdapter(answer), &results)) return {};
  std::string problems;
  valijson::ValidationResults::Error error;
  while (results.popError(error)) {
    for (const std::string& place : error.context) problems += place;
    problems += ": " + error.description + "\n";
  }
  return problems;
}

}  // namespace cli_test
