// The text of tokens as they come.
#include "engine/infer/text_stream.h"

#include <algorithm>

namespace engine {
namespace {

// Bytes at the end that begin a UTF-8 character and do not complete it.
size_t unfinished_bytes(std::string_view text) {
  for (size_t back = 1; back <= std::min<size_t>(3, text.size()); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xc0) == 0x80) continue;
    const size_t length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return length > back ? back : 0;
  }
  return 0;
}

}  // namespace

std::string TextStream::fresh(bool whole_characters) {
  const std::string text = tokenizer_->decode(tokens_);
  size_t end = text.size();
  if (whole_characters) end -= unfinished_bytes(text);
  if (end <= told_) return {};
  std::string part = text.substr(told_, end - told_);
  told_ = end;
  return part;
}

std::string TextStream::add(int32_t token) {
  tokens_.push_back(token);
  return fresh(true);
}

std::string TextStream::finish() { return fresh(false); }

}  // namespace engine
