// Tokenizing: reads inputs in pieces, writes sequences as they come.
#include "engine/data/tokenize.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/base/json_reader.h"
#include "engine/data/indexed_writer.h"
#include "engine/data/line_reader.h"
#include "engine/data/tokenizer.h"

namespace engine {
namespace {

namespace fs = std::filesystem;

constexpr size_t kPieceBytes = size_t{64} << 10;       // of text encoded at once
constexpr size_t kLongestJsonLine = size_t{64} << 20;  // bytes
constexpr size_t kSequenceTokens = size_t{1} << 20;    // longer documents become several sequences
constexpr size_t kMostProblems = 20;                   // reported at once
constexpr int64_t kReportBytes = int64_t{1} << 20;

bool is_json_lines(TextFormat format, const std::string& path) {
  if (format != TextFormat::by_name) return format == TextFormat::json_lines;
  const std::string ending = fs::path(path).extension().string();
  return ending == ".jsonl" || ending == ".ndjson" || ending == ".json";
}

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n\v\f") == std::string_view::npos;
}

std::string_view without_line_end(std::string_view line) {
  if (line.ends_with('\n')) line.remove_suffix(1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

int64_t check_inputs(const TokenizeOptions& options) {
  std::vector<std::string> problems;
  if (options.inputs.empty()) problems.push_back("no input; name at least one text file");
  if (options.output.empty()) problems.push_back("no output; name the path of the files to write");
  int64_t total = 0;
  for (const std::string& input : options.inputs) {
    std::error_code error;
    const auto size = fs::is_regular_file(input, error) ? fs::file_size(input, error) : 0;
    if (!fs::is_regular_file(input, error))
      problems.push_back(fmt::format("{}: no such file", input));
    total += static_cast<int64_t>(size);
  }
  if (!fs::is_directory(folder_of(options.output)))
    problems.push_back(fmt::format("{}: no such folder; make it first", folder_of(options.output)));
  if (!problems.empty()) throw InputError(problems);
  return total;
}

class Tokenizing {
 public:
  Tokenizing(const TokenizeOptions& options,
             const std::function<void(const TokenizeProgress&)>& report)
      : options_(options),
        report_(report),
        tokenizer_(make_tokenizer(options.tokenizer)),
        writer_(options.output, token_type_of(tokenizer_->vocab())) {}

  TokenizeProgress run(int64_t bytes_total) {
    progress_.bytes_total = bytes_total;
    for (const std::string& input : options_.inputs) {
      const int64_t before = progress_.bytes_read;
      if (is_json_lines(options_.format, input)) {
        read_json_lines(input);
      } else {
        read_text(input);
      }
      progress_.bytes_read = before + static_cast<int64_t>(fs::file_size(input));
    }
    if (!problems_.empty()) throw InputError(problems_);
    if (progress_.documents == 0)
      throw InputError(
          fmt::format("{}: no document with any text was found", options_.inputs.front()));
    writer_.commit();
    report();
    return progress_;
  }

 private:
  void read_text(const std::string& path) {
    LineReader reader(path, kPieceBytes);
    std::string piece;
    bool at_line_start = true;
    for (std::string_view line; reader.next(line); at_line_start = reader.line_ended()) {
      const bool parts = !options_.separator.empty() && at_line_start &&
                         without_line_end(line) == options_.separator;
      if (!parts) piece += line;
      if (parts || piece.size() >= kPieceBytes) {
        add_text(piece);
        piece.clear();
      }
      if (parts) end_document();
      advance(static_cast<int64_t>(line.size()));
    }
    add_text(piece);
    end_document();
  }

  void read_json_lines(const std::string& path) {
    LineReader reader(path, kLongestJsonLine);
    bool whole = true;  // the line before ended
    for (std::string_view line; reader.next(line); whole = reader.line_ended()) {
      if (whole && !reader.line_ended()) {
        bad_line(fmt::format("{}:{}: is longer than {} MiB", path, reader.number(),
                             kLongestJsonLine >> 20));
      } else if (whole && !is_blank(line)) {
        read_json_line(line, fmt::format("{}:{}", path, reader.number()));
      }
      advance(static_cast<int64_t>(line.size()));
    }
  }

  void read_json_line(std::string_view line, const std::string& place) {
    try {
      const Json document = parse_json(line, place);
      const auto text = document.find(options_.key);
      if (!document.is_object() || text == document.end() || !text->is_string())
        return bad_line(fmt::format("{}: {}", place, missing_text(document)));
      add_text(text->get_ref<const std::string&>());
      end_document();
    } catch (const InputError& error) {
      bad_line(error.what());
    }
  }

  std::string missing_text(const Json& document) const {
    if (!document.is_object()) return "is no JSON object; every line must be one";
    std::string keys;
    for (const auto& item : document.items())
      if (item.value().is_string())
        keys += fmt::format("{}'{}'", keys.empty() ? "" : ", ", item.key());
    return fmt::format(
        "has no text under '{}'; {}", options_.key,
        keys.empty() ? "no other key has text either" : fmt::format("keys with text are {}", keys));
  }

  void bad_line(std::string problem) {
    ++progress_.bad_lines;
    if (options_.skip_bad_lines) return;
    problems_.push_back(std::move(problem));
    if (problems_.size() == kMostProblems) {
      problems_.push_back("there may be more; this is where reading stopped");
      throw InputError(problems_);
    }
  }

  void add_text(std::string_view text) {
    has_text_ = has_text_ || !is_blank(text);
    tokenizer_->encode(text, tokens_);
    while (tokens_.size() >= kSequenceTokens) {
      writer_.add_sequence({tokens_.data(), kSequenceTokens});
      tokens_.erase(tokens_.begin(), tokens_.begin() + kSequenceTokens);
      has_text_ = true;
    }
  }

  void end_document() {
    if (has_text_) {
      if (options_.end_documents) tokens_.push_back(tokenizer_->end_of_document());
      if (!tokens_.empty()) writer_.add_sequence(tokens_);
      writer_.end_document();
    } else {
      ++progress_.empty_documents;
    }
    tokens_.clear();
    has_text_ = false;
    progress_.documents = writer_.documents();
    progress_.tokens = writer_.tokens();
  }

  void advance(int64_t bytes) {
    progress_.bytes_read += bytes;
    if (progress_.bytes_read < reported_ + kReportBytes) return;
    reported_ = progress_.bytes_read;
    report();
  }
  void report() const {
    if (report_) report_(progress_);
  }

  const TokenizeOptions& options_;
  const std::function<void(const TokenizeProgress&)>& report_;
  std::unique_ptr<Tokenizer> tokenizer_;
  IndexedWriter writer_;
  TokenizeProgress progress_;
  std::vector<std::string> problems_;
  std::vector<int32_t> tokens_;  // of the sequence at hand
  bool has_text_ = false;        // the document at hand has more than white space
  int64_t reported_ = 0;
};

}  // namespace

TokenizeProgress tokenize(const TokenizeOptions& options,
                          const std::function<void(const TokenizeProgress&)>& report) {
  const int64_t bytes_total = check_inputs(options);
  return Tokenizing(options, report).run(bytes_total);
}

}  // namespace engine
