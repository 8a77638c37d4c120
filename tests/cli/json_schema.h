// Answers against the published schemas in schemas/.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace cli_test {

// What in an answer breaks the schema that it names; empty when nothing does.
std::string schema_problems(const nlohmann::json& answer);

}  // namespace cli_test
