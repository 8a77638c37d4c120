// English text for tests and benchmarks of learning, from files of the system.
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/data/batches.h"
#include "engine/data/tokenize.h"
#include "engine/data/tokenizer.h"

namespace english {

// The regular files of a folder whose names have no ending; empty where the folder is missing.
inline std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none))
    if (entry.is_regular_file() && !entry.is_symlink() && entry.path().extension().empty())
      files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

// Bytes as tokens.
inline engine::TextBatches batches_of(const std::vector<std::string>& files,
                                      const std::string& prefix, int64_t seq) {
  engine::TokenizeOptions options;
  options.inputs = files;
  options.output = prefix;
  engine::tokenize(options);
  return {engine::IndexedDataset(prefix), seq, engine::ByteTokenizer().vocab(), 1};
}

// What a model that knows only how frequent each token is loses on a token, in nats.
inline double unigram_entropy(const engine::IndexedDataset& text) {
  std::vector<int32_t> tokens(static_cast<size_t>(text.tokens()));
  text.read(0, tokens);
  std::array<double, 257> counts{};
  for (const int32_t token : tokens) counts[static_cast<size_t>(token)] += 1;
  double entropy = 0;
  for (const double count : counts)
    if (count > 0) {
      const double p = count / static_cast<double>(tokens.size());
      entropy -= p * std::log(p);
    }
  return entropy;
}

}  // namespace english
