// IndexedDataset: strict reading of Megatron's indexed files.
#include "engine/data/indexed_dataset.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <limits>

#include "engine/base/errors.h"

namespace engine {
namespace {

static_assert(std::endian::native == std::endian::little, "the files are little-endian");

std::string without_ending(const std::string& prefix) {
  if (prefix.ends_with(".bin") || prefix.ends_with(".idx"))
    return prefix.substr(0, prefix.size() - 4);
  return prefix;
}

[[noreturn]] void refuse(const MappedFile& file, std::string_view what) {
  throw InputError(fmt::format("{}: {}", file.path(), what));
}

template <class T>
void copy_tokens(const std::byte* from, std::span<int32_t> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    T token;
    std::memcpy(&token, from + i * sizeof(T), sizeof(T));
    out[i] = static_cast<int32_t>(token);
  }
}

}  // namespace

int64_t bytes_of(TokenType type) {
  switch (type) {
    case TokenType::u8:
    case TokenType::i8:
      return 1;
    case TokenType::i16:
    case TokenType::u16:
      return 2;
    case TokenType::i32:
      return 4;
    case TokenType::i64:
      return 8;
  }
  fail_expectation("a token type");
}

TokenType token_type_of(int64_t vocab) { return vocab <= 65536 ? TokenType::u16 : TokenType::i32; }

template <class T>
T IndexedDataset::at(int64_t offset) const {
  T value;
  std::memcpy(&value, idx_.bytes().data() + offset, sizeof(T));
  return value;
}

IndexedDataset::IndexedDataset(const std::string& prefix)
    : prefix_(without_ending(prefix)), idx_(prefix_ + ".idx"), bin_(prefix_ + ".bin") {
  check_header();
  check_lists();
}

void IndexedDataset::check_header() {
  constexpr int64_t kMagicBytes = sizeof kIndexMagic;
  if (idx_.size() >= 6 && std::memcmp(idx_.bytes().data(), "TNTIDX", 6) == 0)
    refuse(idx_, "is of the older kind TNTIDX; make it anew with `autotune run tokenize`");
  if (idx_.size() < kMagicBytes ||
      std::memcmp(idx_.bytes().data(), kIndexMagic, sizeof kIndexMagic) != 0)
    refuse(idx_, "is no index of tokens (it does not begin with MMIDIDX)");
  if (idx_.size() < kIndexHeaderBytes) refuse(idx_, "is truncated within its header");
  if (const auto version = at<uint64_t>(9); version != kIndexVersion)
    refuse(idx_, fmt::format("has version {}; only version {} is known", version, kIndexVersion));
  const auto code = at<uint8_t>(17);
  switch (code) {
    case 1:
    case 2:
    case 3:
    case 4:
    case 5:
    case 8:
      type_ = static_cast<TokenType>(code);
      break;
    case 6:
    case 7:
      refuse(idx_, "holds floating-point numbers, not tokens");
    default:
      refuse(idx_, fmt::format("has the unknown token type {}", code));
  }
  // Every entry takes space in the file, which bounds the counts before they are multiplied.
  const auto sequences = at<uint64_t>(18);
  const auto list = at<uint64_t>(26);
  const auto size = static_cast<uint64_t>(idx_.size());
  const auto rest = size - static_cast<uint64_t>(kIndexHeaderBytes);
  if (sequences > size || list > size || rest < sequences * 12 + list * 8)
    refuse(idx_, fmt::format("is truncated: its header tells of {} sequences and {} documents",
                             sequences, list == 0 ? 0 : list - 1));
  if (rest == sequences * 13 + list * 8 && sequences > 0)
    refuse(idx_, "has a mode for each sequence (a multimodal data set); only text can be read");
  if (rest != sequences * 12 + list * 8)
    refuse(idx_, "is longer than its header tells; it is damaged");
  if (list == 0) refuse(idx_, "has no list of documents; it is damaged");
  sequences_ = static_cast<int64_t>(sequences);
  documents_ = static_cast<int64_t>(list) - 1;
}

void IndexedDataset::check_lists() const {
  int64_t place = 0;
  const int64_t pointers = kIndexHeaderBytes + sequences_ * 4;
  for (int64_t i = 0; i < sequences_; ++i) {
    const int64_t length = sequence_length(i);
    const auto pointer = at<int64_t>(pointers + i * 8);
    if (length < 0) refuse(idx_, fmt::format("sequence {} has the length {}", i, length));
    if (pointer != place)
      refuse(idx_, fmt::format("sequence {} lies at byte {} of the .bin file, where {} was due", i,
                               pointer, place));
    if (length * bytes_of(type_) > bin_.size() - place)
      refuse(bin_, fmt::format("is truncated: {} bytes end within sequence {} of {}", bin_.size(),
                               i, sequences_));
    place += length * bytes_of(type_);
  }
  if (place != bin_.size())
    refuse(bin_, fmt::format("has {} bytes, of which its .idx file knows {}; the two files do not "
                             "belong together",
                             bin_.size(), place));
  int64_t before = 0;
  for (int64_t i = 0; i <= documents_; ++i) {
    const int64_t first = first_sequence(i);
    if (first < before || first > sequences_ || (i == 0 && first != 0))
      refuse(idx_, fmt::format("document {} begins at sequence {} of {}", i, first, sequences_));
    before = first;
  }
  if (before != sequences_)
    refuse(idx_, fmt::format("its documents end at sequence {} of {}", before, sequences_));
}

int64_t IndexedDataset::sequence_length(int64_t sequence) const {
  return at<int32_t>(kIndexHeaderBytes + sequence * 4);
}

int64_t IndexedDataset::first_sequence(int64_t document) const {
  return at<int64_t>(kIndexHeaderBytes + sequences_ * 12 + document * 8);
}

void IndexedDataset::read(int64_t first, std::span<int32_t> out) const {
  expect(first >= 0 && first + static_cast<int64_t>(out.size()) <= tokens(),
         "tokens within the data set");
  const std::byte* from = bin_.bytes().data() + first * bytes_of(type_);
  switch (type_) {
    case TokenType::u8:
      return copy_tokens<uint8_t>(from, out);
    case TokenType::i8:
      return copy_tokens<int8_t>(from, out);
    case TokenType::i16:
      return copy_tokens<int16_t>(from, out);
    case TokenType::u16:
      return copy_tokens<uint16_t>(from, out);
    case TokenType::i32:
      return copy_tokens<int32_t>(from, out);
    case TokenType::i64:
      break;
  }
  for (size_t i = 0; i < out.size(); ++i) {
    int64_t token = 0;
    std::memcpy(&token, from + i * sizeof token, sizeof token);
    if (token < 0 || token > std::numeric_limits<int32_t>::max())
      refuse(bin_, fmt::format("token {} at place {} is no token id", token,
                               first + static_cast<int64_t>(i)));
    out[i] = static_cast<int32_t>(token);
  }
}

}  // namespace engine
