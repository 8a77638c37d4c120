// Tokenizer: bytes, and the choice by name.
#include "engine/data/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>

#include "engine/base/errors.h"

namespace engine {
namespace {

constexpr std::string_view kSupported =
    "use 'bytes' or a sentencepiece model (a *.model file), or give data that was already "
    "tokenized as .bin and .idx";

// A line of a tiktoken file: base64, a blank, the rank in digits.
bool is_tiktoken(std::string_view line) {
  const size_t blank = line.find(' ');
  if (blank == std::string_view::npos || blank == 0 || blank + 1 == line.size()) return false;
  return std::all_of(
             line.begin(), line.begin() + static_cast<std::ptrdiff_t>(blank),
             [](unsigned char c) { return std::isalnum(c) || c == '+' || c == '/' || c == '='; }) &&
         std::all_of(line.begin() + static_cast<std::ptrdiff_t>(blank) + 1, line.end(),
                     [](unsigned char c) { return std::isdigit(c) != 0; });
}

// The kind of a tokenizer that we cannot run, told by content first and name second, as files
// called tokenizer.model are of more than one kind; empty for what may be a sentencepiece model.
std::string foreign_kind(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string head(256, '\0');
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<size_t>(file.gcount()));
  const std::string name = std::filesystem::path(path).filename().string();
  if (name == "vocab.json") return "the vocabulary of a byte-pair tokenizer";
  if (head.starts_with("#version") || name == "merges.txt") return "byte-pair merges";
  if (head.starts_with("{")) return "a tokenizer of the tokenizers library (tokenizer.json)";
  if (is_tiktoken(head.substr(0, head.find('\n'))) || name.ends_with(".tiktoken"))
    return "a tiktoken vocabulary";
  if (head.starts_with("[PAD]") || name == "vocab.txt") return "a WordPiece vocabulary";
  return "";
}

}  // namespace

void ByteTokenizer::encode(std::string_view text, std::vector<int32_t>& tokens) const {
  tokens.reserve(tokens.size() + text.size());
  for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
}

std::string ByteTokenizer::decode(std::span<const int32_t> tokens) const {
  std::string text;
  for (const int32_t token : tokens)
    if (token >= 0 && token < 256) text += static_cast<char>(token);
  return text;
}

std::unique_ptr<Tokenizer> make_tokenizer(const std::string& name) {
  if (name == "bytes") return std::make_unique<ByteTokenizer>();
  std::error_code error;
  if (std::filesystem::is_directory(name, error))
    throw InputError(fmt::format("tokenizer {}: is a folder; {}", name, kSupported));
  if (!std::filesystem::exists(name, error))
    throw InputError(fmt::format("tokenizer {}: no such file; {}", name, kSupported));
  if (const std::string kind = foreign_kind(name); !kind.empty())
    throw InputError(
        fmt::format("tokenizer {}: is {}, which is not supported; {}", name, kind, kSupported));
  return make_sentencepiece_tokenizer(name);
}

}  // namespace engine
