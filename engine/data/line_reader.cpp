// LineReader: one buffer, refilled behind what is left of the last line.
#include "engine/data/line_reader.h"

#include <fmt/format.h>

#include <cstring>
#include <filesystem>

#include "engine/base/errors.h"

namespace engine {
namespace {

// Bytes of an incomplete UTF-8 character at the end of the text.
size_t incomplete_character(std::string_view text) {
  for (size_t back = 1; back <= 3 && back < text.size(); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xC0) == 0x80) continue;
    const size_t length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : 1;
    return length > back ? back : 0;
  }
  return 0;
}

}  // namespace

LineReader::LineReader(const std::string& path, size_t longest)
    : path_(path), file_(path, std::ios::binary), buffer_(longest, '\0') {
  if (!file_ || std::filesystem::is_directory(path))
    throw InputError(fmt::format("{}: cannot be read; give a text file", path));
  fill();
  const std::string_view head(buffer_.data(), end_);
  for (const std::string_view magic : {"\x1f\x8b", "BZh",
                                       "\xfd"
                                       "7zXZ",
                                       "\x28\xb5\x2f\xfd", "PK\x03\x04"})
    if (head.starts_with(magic))
      throw InputError(fmt::format("{}: is compressed; unpack it first", path));
  if (head.starts_with("\xEF\xBB\xBF")) {
    begin_ = 3;
    bytes_read_ = 3;
  }
}

void LineReader::fill() {
  std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  file_.read(buffer_.data() + end_, static_cast<std::streamsize>(buffer_.size() - end_));
  if (file_.bad()) throw InputError(fmt::format("{}: cannot be read to its end", path_));
  end_ += static_cast<size_t>(file_.gcount());
}

bool LineReader::next(std::string_view& line) {
  auto rest = [&] { return std::string_view(buffer_).substr(begin_, end_ - begin_); };
  size_t at = rest().find('\n');
  if (at == std::string_view::npos) {
    fill();
    at = rest().find('\n');
  }
  if (rest().empty()) return false;
  number_ += line_ended_;
  line_ended_ = at != std::string_view::npos || end_ < buffer_.size();
  size_t length = at != std::string_view::npos ? at + 1 : rest().size();
  if (!line_ended_) length -= incomplete_character(rest());
  line = rest().substr(0, length);
  begin_ += length;
  bytes_read_ += static_cast<int64_t>(length);
  return true;
}

}  // namespace engine
