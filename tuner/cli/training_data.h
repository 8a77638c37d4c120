// Data of a training: token files that are there, or text that is turned into them first.
#pragma once
#include <atomic>
#include <string>
#include <vector>

namespace tuner {

struct TextSource {
  std::vector<std::string> files;   // one prefix of .bin/.idx files, or text files
  std::string tokenizer = "bytes";  // of text files
};

// The prefix of the token files: the named one, or `made`, to which the engine writes the tokens of
// the text files. Throws InputError for what cannot be read, and Error (interrupted) when `stop`
// was set.
std::string token_files(const TextSource& source, const std::string& made,
                        const std::atomic<int>& stop);

}  // namespace tuner
