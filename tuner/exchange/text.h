// Text of files that people run: quoting for shells and documents, harmless comments, YAML and
// TOML.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace tuner {

// Members in the order in which they were added.
using OrderedJson = nlohmann::ordered_json;

// One line for a comment or a message: control characters, line ends and bytes that are no UTF-8
// stand as \n, \u001b or \xff, so that no reader, terminal or parser acts on them.
std::string one_line(std::string_view text);
// A double-quoted string as JSON, YAML, TOML and Python read it; plain ASCII outside, escapes for
// all else that could be taken for markup or control.
std::string double_quoted(std::string_view text);
// One word for bash: unchanged where that is safe, else in single quotes, and with $'…' where it
// holds control characters.
std::string bash_word(std::string_view text);

// "# first\n# second\n": each line through one_line().
std::string comment_lines(const std::vector<std::string>& lines);

// Nested objects, lists of scalars, and scalars. Floating-point numbers always have a point, which
// YAML 1.1 readers need.
std::string yaml_text(const OrderedJson& document);
// Tables of scalars, lists, and further tables.
std::string toml_text(const OrderedJson& document);
// A scalar or a list as Python writes it: True, None, [1, 2].
std::string python_text(const OrderedJson& value);

}  // namespace tuner
