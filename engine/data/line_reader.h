// LineReader: the lines of a file of any size, in bounded memory.
#pragma once
#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>

namespace engine {

class LineReader {
 public:
  // Lines longer than `longest` bytes come in parts. Throws InputError when the file cannot be read
  // or is compressed. A byte-order mark at the start is dropped.
  LineReader(const std::string& path, size_t longest);

  // The next line, or part of one, with its line end; false at the end of the file. The view holds
  // until the next call.
  bool next(std::string_view& line);
  bool line_ended() const {
    return line_ended_;
  }                                           // else the part of a line was the longest allowed
  int64_t number() const { return number_; }  // of the line that `next` gave, from 1
  int64_t bytes_read() const { return bytes_read_; }

 private:
  void fill();
  std::string path_;
  std::ifstream file_;
  std::string buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
  bool line_ended_ = true;
  int64_t number_ = 0;
  int64_t bytes_read_ = 0;
};

}  // namespace engine
