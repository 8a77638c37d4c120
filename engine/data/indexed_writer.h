// IndexedWriter: writes Megatron's indexed .bin/.idx files, however many, in constant memory.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/files.h"
#include "engine/data/indexed_dataset.h"

namespace engine {

// Everything goes into files beside the final ones (PREFIX.bin.tmp, …), which `commit` gives their
// names; until then a data set of that prefix stays as it was. Failures are Errors of storage.
class IndexedWriter {
 public:
  IndexedWriter(std::string prefix, TokenType type);
  IndexedWriter(const IndexedWriter&) = delete;
  IndexedWriter& operator=(const IndexedWriter&) = delete;
  ~IndexedWriter();  // removes what was not committed

  // A sequence of the document at hand; at most 2^31 - 1 tokens, each of which the type must hold.
  void add_sequence(std::span<const int32_t> tokens);
  void end_document();
  // Completes both files and puts them in place. Never leaves a .bin and an .idx of different runs.
  void commit();

  int64_t tokens() const { return tokens_; }
  int64_t sequences() const { return sequences_; }
  int64_t documents() const { return documents_; }

 private:
  std::string temporary(std::string_view ending) const {
    return prefix_ + std::string(ending) + ".tmp";
  }
  void append_pointers();
  void append_documents();

  std::string prefix_;
  TokenType type_;
  FileWriter bin_;
  FileWriter idx_;
  FileWriter document_list_;  // goes behind lists whose length is known only at the end
  std::vector<std::byte> stored_;
  int64_t tokens_ = 0;
  int64_t sequences_ = 0;
  int64_t documents_ = 0;
};

}  // namespace engine
