// The tokenizer that runs sentencepiece models: the only file that includes the library.
#include <fmt/format.h>
#include <sentencepiece_processor.h>

#include "engine/base/errors.h"
#include "engine/data/tokenizer.h"

namespace engine {
namespace {

class SentencepieceTokenizer : public Tokenizer {
 public:
  explicit SentencepieceTokenizer(const std::string& path) {
    const auto status = processor_.Load(path);
    if (!status.ok())
      throw InputError(
          fmt::format("tokenizer {}: is no sentencepiece model; use 'bytes' or a "
                      "sentencepiece model (a *.model file)",
                      path));
    if (processor_.eos_id() < 0)
      throw InputError(fmt::format(
          "tokenizer {}: has no end-of-sentence piece, which is needed to end documents", path));
  }

  void encode(std::string_view text, std::vector<int32_t>& tokens) const override {
    std::vector<int> ids;
    const auto status = processor_.Encode(text, &ids);
    expect(status.ok(), "text that sentencepiece encodes");
    tokens.insert(tokens.end(), ids.begin(), ids.end());
  }

  std::string decode(std::span<const int32_t> tokens) const override {
    std::vector<int> ids;
    for (const int32_t token : tokens)
      if (token >= 0 && token < vocab() && !processor_.IsControl(token)) ids.push_back(token);
    std::string text;
    const auto status = processor_.Decode(ids, &text);
    expect(status.ok(), "ids that sentencepiece decodes");
    return text;
  }

  int64_t vocab() const override { return processor_.GetPieceSize(); }
  int32_t end_of_document() const override { return processor_.eos_id(); }

 private:
  sentencepiece::SentencePieceProcessor processor_;
};

}  // namespace

std::unique_ptr<Tokenizer> make_sentencepiece_tokenizer(const std::string& path) {
  return std::make_unique<SentencepieceTokenizer>(path);
}

}  // namespace engine
