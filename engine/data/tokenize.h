// Tokenizing: text files or JSON lines into Megatron's indexed .bin/.idx files.
#pragma once
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <span>
#include <string>
#include <vector>

namespace engine {

enum class TextFormat : uint8_t {
  by_name,     // json_lines for *.jsonl, *.ndjson and *.json, else text
  text,        // a file is a document, or several with a separator
  json_lines,  // a line is a document: an object with the text under a key
};

struct TokenizeOptions {
  std::vector<std::string> inputs;
  std::string output;  // common path of the two files, without .bin and .idx
  std::string tokenizer = "bytes";
  TextFormat format = TextFormat::by_name;
  std::string key = "text";   // of JSON lines
  std::string separator;      // text: a line of exactly this parts documents; empty = none does
  bool end_documents = true;  // with the tokenizer's end of document
  bool skip_bad_lines = false;
};

struct TokenizeProgress {
  int64_t bytes_read = 0;
  int64_t bytes_total = 0;
  int64_t documents = 0;
  int64_t empty_documents = 0;  // left out
  int64_t bad_lines = 0;        // left out, with skip_bad_lines
  int64_t tokens = 0;
};

// Memory is constant but for the longest JSON line. `report` is called about every MiB and at the
// end. Throws InputError with the first bad lines, by file and line number, and then leaves an
// existing data set as it was; so do other errors.
TokenizeProgress tokenize(const TokenizeOptions& options,
                          const std::function<void(const TokenizeProgress&)>& report = {});

// The verb "tokenize" of the worker: `--input FILE … --output PREFIX [--tokenizer NAME] [--format
// text|jsonl] [--key NAME] [--separator LINE] [--no-end] [--skip-bad-lines] [--json]`, values also
// as
// --name=value. Writes the result to `out` and progress to `progress`; returns 0, throws Error.
int tokenize_command(std::span<const std::string> arguments, std::ostream& out,
                     std::ostream& progress);

}  // namespace engine
