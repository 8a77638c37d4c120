// Tokenizer: text to token ids and back.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace engine {

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  // Appends the ids of `text`. Bytes that are no UTF-8 are kept or replaced, never refused.
  virtual void encode(std::string_view text, std::vector<int32_t>& tokens) const = 0;
  // Ids that stand for no text (end of document, padding) yield nothing.
  virtual std::string decode(std::span<const int32_t> tokens) const = 0;
  virtual int64_t vocab() const = 0;  // every id is below
  virtual int32_t end_of_document() const = 0;
};

// Ids 0 to 255 are bytes, 256 ends a document.
class ByteTokenizer : public Tokenizer {
 public:
  void encode(std::string_view text, std::vector<int32_t>& tokens) const override;
  std::string decode(std::span<const int32_t> tokens) const override;
  int64_t vocab() const override { return 257; }
  int32_t end_of_document() const override { return 256; }
};

// A tokenizer by name: "bytes", or the path of a sentencepiece model. Throws InputError for a file
// of another kind, naming the kind and what can be used instead.
std::unique_ptr<Tokenizer> make_tokenizer(const std::string& name);

// A sentencepiece model (*.model); its end of document is the model's end of sentence. In a build
// without the library it throws Error (environment) that says so.
std::unique_ptr<Tokenizer> make_sentencepiece_tokenizer(const std::string& path);

}  // namespace engine
