// IndexedDataset: tokens in Megatron's indexed .bin/.idx files, read through memory maps.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "engine/base/files.h"

namespace engine {

// How a token is stored; the values are the codes of the file.
enum class TokenType : uint8_t { u8 = 1, i8 = 2, i16 = 3, i32 = 4, i64 = 5, u16 = 8 };
int64_t bytes_of(TokenType type);
// The type Megatron gives a vocabulary of that size: u16 where every id fits, else i32.
TokenType token_type_of(int64_t vocab);

// The .idx file, little-endian and unaligned: magic "MMIDIDX\0\0", u64 version 1, u8 token type,
// u64 sequences, u64 entries of the document list, i32 tokens of each sequence, i64 byte offset of
// each sequence in the .bin file, i64 first sequence of each document and behind them the number of
// sequences. The .bin file holds the tokens alone.
constexpr char kIndexMagic[9] = {'M', 'M', 'I', 'D', 'I', 'D', 'X', '\0', '\0'};
constexpr uint64_t kIndexVersion = 1;
constexpr int64_t kIndexHeaderBytes = 34;

class IndexedDataset {
 public:
  // `prefix` is the common path of both files; an ending .bin or .idx is dropped. Checks
  // everything: throws InputError for what is missing, foreign, truncated, or does not fit
  // together.
  explicit IndexedDataset(const std::string& prefix);

  const std::string& prefix() const { return prefix_; }
  TokenType type() const { return type_; }
  int64_t tokens() const { return bin_.size() / bytes_of(type_); }
  int64_t sequences() const { return sequences_; }
  int64_t documents() const { return documents_; }
  int64_t sequence_length(int64_t sequence) const;  // tokens
  int64_t first_sequence(int64_t document) const;   // document may be documents()

  // Tokens [first, first + out.size()) of all sequences in file order. Thread-safe. Throws
  // InputError for a token that no 32-bit id holds.
  void read(int64_t first, std::span<int32_t> out) const;

 private:
  void check_header();
  void check_lists() const;
  template <class T>
  T at(int64_t offset) const;

  std::string prefix_;
  MappedFile idx_;
  MappedFile bin_;
  TokenType type_ = TokenType::u16;
  int64_t sequences_ = 0;
  int64_t documents_ = 0;
};

}  // namespace engine
