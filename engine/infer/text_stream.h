// TextStream: the text of tokens as they come, in whole characters.
#pragma once
#include <string>
#include <vector>

#include "engine/data/tokenizer.h"

namespace engine {

class TextStream {
 public:
  explicit TextStream(const Tokenizer& tokenizer) : tokenizer_(&tokenizer) {}
  // The text that one more token completes; a character in pieces waits for the others.
  std::string add(int32_t token);
  // What was held back, at the end.
  std::string finish();

 private:
  std::string fresh(bool whole_characters);
  const Tokenizer* tokenizer_;
  std::vector<int32_t> tokens_;
  size_t told_ = 0;  // bytes of their text
};

}  // namespace engine
